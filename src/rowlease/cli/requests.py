"""`rowlease requests`."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from rowlease.cli.options import dsn_option, json_option, show_json

if TYPE_CHECKING:
    from rowlease.filters import Filter
    from rowlease.model import Found, Request
    from rowlease.store import Store

COLUMNS = ("request", "queue", "kind", "status", "attempts", "enqueued", "error")
#: The maximum number of characters of an error in a line of the list.
ERROR = 80
#: The maximum number of calls for a list. Each call reads up to 10,000 requests of each table.
MOST_CALLS = 100


@click.group("requests")
def requests() -> None:
    """Find requests, or show one request with its errors."""


@requests.command("list")
@click.argument("terms", nargs=-1, metavar="[FILTER]")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="The maximum number of requests.",
)
@click.option(
    "--after", type=int, help="Continue an earlier list: the number that its last line shows."
)
@dsn_option
@json_option
def list_some(
    terms: tuple[str, ...], limit: int, after: int | None, dsn: str | None, as_json: bool
) -> None:
    """List requests, the newest first: waiting, running, failed and finished requests.

    \b
      rowlease requests list 'queue:images status:failed error:"no answer" age>1h'

    Put the filter in quotes for your shell. All of its terms must match:

    \b
      queue:NAME  kind:NAME     the queue, the task
      status:failed,pending     also scheduled, processing, complete, cancelled
      error:TEXT                a part of the last error, in any case
      dedup:KEY  group:KEY      the whole key
      load:ID                   the load with which it was enqueued
      worker:ID                 the worker that has run it, or its host, or host:pid
      id:4711,4712              these requests
      priority>=5  age>1h       also > < <=, and priority:5
      since:2026-11-22T18:00    enqueued at this time (UTC) or later; until:… or earlier
    """
    from rowlease.database import connect
    from rowlease.filter_language import parse

    filters = parse(" ".join(terms))
    with connect(dsn) as store:
        found = first(store, limit, after, filters)
    if as_json:
        show_json({"requests": [as_data(one) for one in found.requests], "after": found.after})
        return
    table = [COLUMNS, *map(line, found.requests)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        click.echo("  ".join(padded).rstrip())
    if found.after is not None:
        click.echo(f"there may be more: --after {found.after}")


@requests.command()
@click.argument("request_id", type=int)
@dsn_option
@json_option
def show(request_id: int, dsn: str | None, as_json: bool) -> None:
    """Show a request: its payload, its result, and the errors of its failed attempts."""
    from rowlease.database import connect
    from rowlease.errors import InvalidRequest

    with connect(dsn) as store:
        found = store.get_request(request_id)
    if found is None:
        raise InvalidRequest(
            f"there is no request {request_id}; it may have been purged, or its history has expired"
        )
    if as_json:
        show_json(as_data(found))
        return
    for name, value in found._asdict().items():
        if name != "attempts" and value is not None:
            click.echo(f"{name:<16} {value}")
    for attempt in found.attempts:
        click.echo(
            f"\nattempt {attempt.attempt_number}: {attempt.outcome} on {attempt.worker_id}, "
            f"{attempt.started_time} to {attempt.ended_time}"
        )
        if attempt.error is not None:
            click.echo((attempt.traceback or attempt.error).rstrip())


def first(store: Store, limit: int, after: int | None, filters: Filter) -> Found:
    """The newest requests that match, found by at most MOST_CALLS calls."""
    from rowlease.model import Found

    found = store.find_requests(limit=limit, after=after, **filters)
    for _ in range(MOST_CALLS - 1):
        if found.after is None or (left := limit - len(found.requests)) <= 0:
            break
        more = store.find_requests(limit=left, after=found.after, **filters)
        found = Found(found.requests + more.requests, more.after)
    return found


def line(one: Request) -> tuple[str, ...]:
    """The cells of a request in the list."""
    error = (one.last_error or "").partition("\n")[0]
    return (
        str(one.request_id),
        one.queue_name,
        one.kind,
        one.status,
        f"{one.num_attempts}/{one.max_attempts}",
        f"{one.requested_time:%Y-%m-%d %H:%M:%S}",
        error if len(error) <= ERROR else error[: ERROR - 1] + "\N{HORIZONTAL ELLIPSIS}",
    )


def as_data(one: Request) -> dict[str, Any]:
    """A request as JSON data: payload and result are JSON values, and times are ISO 8601."""
    data = one._asdict()
    for name in ("payload", "result"):
        data[name] = None if data[name] is None else json.loads(data[name])
    data["attempts"] = [plain(each._asdict()) for each in one.attempts]
    return plain(data)


def plain(data: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in data.items()
    }
