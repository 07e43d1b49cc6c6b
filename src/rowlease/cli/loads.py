"""`rowlease loads`."""

from __future__ import annotations

import click

from rowlease.cli.options import (
    ListGroup,
    dry_run_option,
    dsn_option,
    json_option,
    limit_option,
    show_json,
)
from rowlease.cli.tables import show_rows
from rowlease.counts import counted

COLUMNS = (
    "load_id",
    "queue_name",
    "status",
    "num_rows",
    "num_staged",
    "run_by",
    "started_time",
)


@click.group(cls=ListGroup)
def loads() -> None:
    """List loads from Spark, or discard one. Without a command: `list`."""


@loads.command("list")
@limit_option(100)
@dsn_option
@json_option
def list_loads(limit: int, dsn: str | None, as_json: bool) -> None:
    """List loads, the newest first."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.list_loads(limit=limit)
    show_rows(rows, COLUMNS, as_json, "there is no load; see `rowlease spark-enqueue --help`")


@loads.command()
@click.argument("load_id")
@dry_run_option
@dsn_option
@json_option
def discard(load_id: str, dry_run: bool, dsn: str | None, as_json: bool) -> None:
    """Delete the staged rows of a load, and end its run.

    Requests of a promoted load are not touched: `rowlease requests cancel load:ID` cancels those.
    """
    from rowlease.client.database import connect
    from rowlease.errors import InvalidRequest

    with connect(dsn) as store:
        found = {load.load_id: load for load in store.list_loads(limit=2**31 - 1)}.get(load_id)
        if found is None:
            raise InvalidRequest(f"there is no load {load_id!r}; `rowlease loads list` lists them")
        if found.status == "Promoted":
            raise InvalidRequest(
                f"the load {load_id!r} is promoted, so its rows are requests; "
                f"`rowlease requests cancel load:{load_id}` cancels them"
            )
        count = (
            found.num_staged if dry_run else store.discard_staged(load_id, found.run_number, None)
        )
    if as_json:
        show_json({"load_id": load_id, "num_discarded": count, "dry_run": dry_run})
    else:
        rows = counted(count, "staged row")
        word = "would discard" if dry_run else "discarded"
        click.echo(f"load {load_id}: {word} {rows}")
