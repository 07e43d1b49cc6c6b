"""`rowlease batch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rowlease.cli.options import ListGroup, dsn_option, json_option, limit_option, show_json
from rowlease.cli.say import say
from rowlease.counts import counted
from rowlease.errors import InvalidRequest

if TYPE_CHECKING:
    from rowlease.model import BatchState


@click.group(cls=ListGroup)
def batch() -> None:
    """List batches and loads, with their progress.

    The progress is the number of requests that are finished. Without a command: `list`.

    `rowlease requests list load:ID` lists the requests of a batch, and `rowlease requests cancel
    load:ID` cancels them.
    """


@batch.command("list")
@limit_option(100)
@dsn_option
@json_option
def list_all(limit: int, dsn: str | None, as_json: bool) -> None:
    """Show batches and loads, the newest first."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.list_batches(limit=limit)
    if as_json:
        show_json([row._asdict() for row in rows])
    elif not rows:
        say("there is no batch")
    for row in [] if as_json else rows:
        say(describe_batch(row))


@batch.command()
@click.argument("batch_id")
@dsn_option
@json_option
def show(batch_id: str, dsn: str | None, as_json: bool) -> None:
    """Show one batch or load."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.list_batches(batch_id)
    if not rows:
        raise InvalidRequest(f'there is no batch "{batch_id}"; see `rowlease batch list`')
    if as_json:
        show_json(rows[0]._asdict())
    else:
        say(describe_batch(rows[0]))


def describe_batch(row: BatchState) -> str:
    state = "finished" if row.finished_time else f"{row.num_live:,} unfinished"
    return (
        f"{row.batch_id}: {counted(row.num_requests, 'request')}, {state}; "
        f"{row.num_complete:,} complete, "
        f"{counted(row.num_failed, 'dead letter')}, {row.num_cancelled:,} cancelled"
    )
