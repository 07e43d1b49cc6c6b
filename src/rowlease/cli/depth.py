"""`rowlease depth`."""

from __future__ import annotations

import click

from rowlease.cli.options import dsn_option, json_option
from rowlease.cli.tables import show_rows

DEPTH_COLUMNS = ("queue_name", "priority", "pending", "scheduled", "processing", "failed")


@click.command()
@click.option("--queue", help="Only this queue.")
@dsn_option
@json_option
def depth(queue: str | None, dsn: str | None, as_json: bool) -> None:
    """Show how many requests have each status, by priority."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.depth(queue)
    nothing = "no request waits, runs or has failed" + (f" in {queue}" if queue else "")
    show_rows(rows, DEPTH_COLUMNS, as_json, nothing)
