"""`rowlease loads`."""

from __future__ import annotations

import click

from rowlease.cli.options import (
    ListGroup,
    actor_option,
    dry_run_option,
    dsn_option,
    json_option,
    limit_option,
    show_json,
)
from rowlease.cli.say import say
from rowlease.cli.tables import show_rows
from rowlease.counts import counted

LOAD_COLUMNS = (
    "load_id",
    "queue_name",
    "status",
    "num_rows",
    "num_staged",
    "run_by",
    "started_time",
)

STREAM_COLUMNS = ("stream_name", "query_id", "batch_number", "promoted_time")


@click.group(cls=ListGroup)
def loads() -> None:
    """List loads and streams from Spark; discard or forget one. Without a command: `list`."""


@loads.command("list")
@limit_option(100)
@dsn_option
@json_option
def list_loads(limit: int, dsn: str | None, as_json: bool) -> None:
    """List loads, the newest first."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.list_loads(limit=limit)
    show_rows(rows, LOAD_COLUMNS, as_json, "there is no load; see `rowlease spark-enqueue --help`")


@loads.command()
@click.argument("load_id")
@dry_run_option
@actor_option
@dsn_option
@json_option
def discard(load_id: str, dry_run: bool, actor: str | None, dsn: str | None, as_json: bool) -> None:
    """End the run of a load. Its staged rows are then deleted, within seconds if a worker runs.

    Requests of a promoted load are not touched: `rowlease requests cancel load:ID` cancels those.
    """
    from rowlease.client.database import connect

    with connect(dsn) as store:
        count = store.discard_load(load_id, dry_run=dry_run, actor=actor)
    if as_json:
        show_json({"load_id": load_id, "num_discarded": count, "dry_run": dry_run})
    else:
        rows = counted(count, "staged row")
        word = "would discard" if dry_run else "discarded"
        say(f"load {load_id}: {word} {rows}")


@loads.command()
@limit_option(100)
@dsn_option
@json_option
def streams(limit: int, dsn: str | None, as_json: bool) -> None:
    """List streams and the last batch that each has enqueued."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.list_streams(limit=limit)
    show_rows(rows, STREAM_COLUMNS, as_json, "there is no stream")


@loads.command()
@click.argument("stream")
@dry_run_option
@actor_option
@dsn_option
@json_option
def forget_stream(
    stream: str, dry_run: bool, actor: str | None, dsn: str | None, as_json: bool
) -> None:
    """Let another query have the name of a stream.

    The batches that the stream has enqueued are forgotten: what the other query enqueues again,
    runs again.
    """
    from rowlease.client.database import connect
    from rowlease.errors import InvalidRequest
    from rowlease.model import Outcome

    with connect(dsn) as store:
        found = store.forget_stream(stream, dry_run=dry_run, actor=actor)
    if found.outcome == Outcome.NOT_FOUND:
        raise InvalidRequest(f"there is no stream {stream!r}; `rowlease loads streams` lists them")
    if as_json:
        show_json({"stream": stream, **found._asdict(), "dry_run": dry_run})
    else:
        word = "would forget" if dry_run else "forgot"
        query = found.query_id or "(unknown)"
        say(f"stream {stream}: {word} its batches up to {found.batch_number} of the query {query}")
