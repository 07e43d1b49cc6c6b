"""`rowlease operations`."""

from __future__ import annotations

import click

from rowlease.cli.options import dsn_option, json_option, limit_option
from rowlease.cli.tables import show_rows

OPERATION_COLUMNS = (
    "operation_id",
    "started_time",
    "actor",
    "login",
    "verb",
    "filter",
    "num_requests",
    "status",
)


@click.command()
@limit_option(100)
@dsn_option
@json_option
def operations(limit: int, dsn: str | None, as_json: bool) -> None:
    """List what operators have changed, and who did it.

    The list has the changes of requests, queues, schedules and loads, for 90 days.
    """
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.list_operations(limit=limit)
    show_rows(rows, OPERATION_COLUMNS, as_json, "no operator has changed anything")
