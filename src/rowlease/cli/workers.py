"""`rowlease workers`."""

from __future__ import annotations

import click

from rowlease.cli.options import dsn_option, json_option
from rowlease.cli.tables import show_rows

WORKER_TABLE_COLUMNS = (
    "worker_id",
    "queue_names",
    "busy",
    "slots",
    "consumer_priority",
    "version",
    "silent",
)


@click.command()
@dsn_option
@json_option
def workers(dsn: str | None, as_json: bool) -> None:
    """List workers, with their queues and slots."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.list_workers()
    show_rows(
        rows, WORKER_TABLE_COLUMNS, as_json, "no worker is registered; see `rowlease worker --help`"
    )
