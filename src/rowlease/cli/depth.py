"""`rowlease depth`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rowlease.cli.options import dsn_option, json_option, show_json

if TYPE_CHECKING:
    from rowlease.model import Depth


@click.command()
@click.option("--queue", help="Only this queue.")
@dsn_option
@json_option
def depth(queue: str | None, dsn: str | None, as_json: bool) -> None:
    """Show the number of requests in each status, by queue and priority."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.depth(queue)
    if as_json:
        show_json([row._asdict() for row in rows])
    elif not rows:
        click.echo("no request waits, runs or has failed" + (f" in {queue}" if queue else ""))
    else:
        show_depth(rows)


def show_depth(rows: list[Depth]) -> None:
    table = [["queue", "priority", "pending", "scheduled", "processing", "failed"]]
    for row in rows:
        numbers = (row.priority, row.pending, row.scheduled, row.processing, row.failed)
        table.append([row.queue_name, *(f"{number:,}" for number in numbers)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for name, *cells in table:
        line = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        click.echo(f"{name.ljust(widths[0])}  {line}")
