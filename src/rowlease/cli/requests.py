"""`rowlease requests`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from rowlease.cli.options import dsn_option, duration, json_option, show_json

if TYPE_CHECKING:
    from rowlease.finding import Filter
    from rowlease.model import Found, Request
    from rowlease.store import Store

COLUMNS = ("request", "queue", "kind", "status", "attempts", "enqueued", "error")
#: The maximum number of characters of an error in a line of the list.
ERROR = 80


def time(text: str) -> datetime:
    """Parse a time such as `2026-11-22T18:00`. A time without a zone is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time; write 2026-11-22T18:00 (UTC) or 2026-11-22T18:00+01:00"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@click.group("requests")
def requests() -> None:
    """Find requests, or show one request with its errors."""


@requests.command("list")
@click.option("--queue", help="The queue's name.")
@click.option(
    "--status",
    multiple=True,
    help="scheduled, pending, processing, failed, complete or cancelled. May be given several "
    "times.",
)
@click.option("--kind", help="The name of the task.")
@click.option("--error", help="A part of the last error, in upper or lower case.")
@click.option("--dedup-key", help="The whole dedup key.")
@click.option("--group-key", help="The whole group key.")
@click.option("--min-age", type=duration, help="Enqueued at least this long ago, such as 1h.")
@click.option("--max-age", type=duration, help="Enqueued at most this long ago.")
@click.option(
    "--since", type=time, help="Enqueued at this time or later: 2026-11-22T18:00, in UTC."
)
@click.option("--until", type=time, help="Enqueued at this time or earlier.")
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
def list_some(limit: int, after: int | None, dsn: str | None, as_json: bool, **given: Any) -> None:
    """List requests, the newest first: waiting, running, failed and finished requests.

    \b
      rowlease requests list --queue images --status failed --error Timeout --min-age 1h
    """
    from rowlease.database import connect

    filters: Any = {name: value for name, value in given.items() if value}
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
    """The newest requests that match, however many calls that takes."""
    from rowlease.finding import find
    from rowlease.model import Found

    found = find(store, limit, after, filters)
    while found.after is not None and (left := limit - len(found.requests)) > 0:
        more = find(store, left, found.after, filters)
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
