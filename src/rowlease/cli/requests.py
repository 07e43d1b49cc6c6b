"""`rowlease requests`."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from rowlease.cli.options import (
    ListGroup,
    dsn_option,
    duration,
    json_option,
    limit_option,
    show_json,
)
from rowlease.cli.say import say, say_lines
from rowlease.cli.tables import show_rows, show_table, to_json
from rowlease.errors import InvalidRequest

if TYPE_CHECKING:
    from rowlease.filters.filter import Filter
    from rowlease.model import Found, Request
    from rowlease.store import Store

REQUEST_COLUMNS = ("request", "queue", "kind", "status", "attempts", "enqueued", "error")
NEXT_COLUMNS = ("place", "request_id", "kind", "priority", "due_time", "waiting_seconds")
LEASE_COLUMNS = ("request_id", "queue_name", "kind", "locked_by", "locked_time", "left_seconds")
ERROR_COLUMNS = (
    "num_requests",
    "queue_name",
    "kind",
    "last_time",
    "last_request_id",
    "error_pattern",
)
#: The maximum number of characters of an error in a line of the list.
MAX_ERROR_CHARACTERS = 80
#: The maximum number of calls for a list. Each call reads up to 10,000 requests of each table.
MAX_CALLS = 100


@click.group("requests", cls=ListGroup)
def requests() -> None:
    """Find, show and change requests. Without a command: `list`."""


@requests.command("list")
@click.argument("terms", nargs=-1, metavar="[FILTER]")
@limit_option(50)
@click.option(
    "--after", type=int, help="Continue an earlier list: the number that its last line shows."
)
@dsn_option
@json_option
def list_some(
    terms: tuple[str, ...], limit: int, after: int | None, dsn: str | None, as_json: bool
) -> None:
    """List or find requests, the newest first.

    The list has requests that wait, run, have failed or are finished.

    \b
      rowlease requests list 'queue:images status:failed error:"no answer" age>1h'

    Put the filter in quotes for your shell. All of its terms must match:

    \b
      queue:NAME  kind:NAME     the queue, the task
      status:failed,pending     also scheduled, processing, complete, cancelled
      error:TEXT                a part of the last error; upper or lower case
      dedup:KEY  group:KEY      the whole key
      load:ID                   the load with which it was enqueued
      worker:ID                 the worker that ran it, or its host, or host:pid
      id:4711,4712              these requests
      priority>=5  age>1h       also > < <=, and priority:5
      since:2026-11-22T18:00    enqueued at this time (UTC) or later; also until:…
    """
    from rowlease.client.database import connect
    from rowlease.filters.language import parse

    filters = parse(" ".join(terms))
    with connect(dsn) as store:
        found = find_first(store, limit, after, filters)
    if as_json:
        show_json({"requests": [as_data(one) for one in found.requests], "after": found.after})
        return
    show_requests(found.requests)
    if found.after is not None:
        say(f"there may be more: --after {found.after}")


@requests.command()
@click.argument("request_id", type=int)
@dsn_option
@json_option
def show(request_id: int, dsn: str | None, as_json: bool) -> None:
    """Show a request, with its payload, result and errors."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        found = store.get_request(request_id)
    if found is None:
        raise missing_request(request_id)
    if as_json:
        show_json(as_data(found))
        return
    for name, value in found._asdict().items():
        if name != "attempts" and value is not None:
            say_lines(f"{name:<16} ", str(value))
    for attempt in found.attempts:
        say("")
        say(
            f"attempt {attempt.attempt_number}: {attempt.outcome} on {attempt.worker_id}, "
            f"{attempt.started_time} to {attempt.ended_time}"
        )
        if attempt.error is not None:
            say_lines("  ", (attempt.traceback or attempt.error).rstrip())


@requests.command()
@click.argument("request_id", type=int)
@dsn_option
@json_option
def explain(request_id: int, dsn: str | None, as_json: bool) -> None:
    """Show why a request is not claimed."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        reason = store.explain(request_id)
    if reason.reason == "unknown":
        raise missing_request(request_id)
    if as_json:
        show_json(reason._asdict())
    else:
        say(f"{reason.reason}: {reason.message}")


@requests.command()
@click.argument("request_id", type=int)
@click.option("--timeout", type=duration, help="The longest time to wait. Default: no limit.")
@dsn_option
@json_option
def result(request_id: int, timeout: timedelta | None, dsn: str | None, as_json: bool) -> None:
    """Wait until a request is complete, and print its result.

    The exit code is 1 if the request is a dead letter, is cancelled, or has not finished in time.
    """
    from rowlease.client.client import Client

    with Client(dsn) as client:
        try:
            value = client.get(request_id).result(timeout)
        except TimeoutError as error:
            raise click.ClickException(str(error)) from None
    show_json({"request_id": request_id, "result": value} if as_json else value)


@requests.command("next")
@click.argument("queue", default="default")
@limit_option(20)
@dsn_option
@json_option
def list_next(queue: str, limit: int, dsn: str | None, as_json: bool) -> None:
    """List the requests that claims take next.

    QUEUE is `default` if it is not given. At most 1,000 requests are listed.
    """
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.list_ready(queue, limit=limit)
        if not rows:
            store.depth(queue)  # an error if there is no such queue
    show_rows(rows, NEXT_COLUMNS, as_json, f"no request of {queue} is ready")


@requests.command("running")
@limit_option(100)
@dsn_option
@json_option
def list_running(limit: int, dsn: str | None, as_json: bool) -> None:
    """List running requests, with their leases."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.list_leases(limit=limit)
    show_rows(rows, LEASE_COLUMNS, as_json, "no request is running")


@requests.command("errors")
@limit_option(100)
@dsn_option
@json_option
def list_errors(limit: int, dsn: str | None, as_json: bool) -> None:
    """List dead letters, grouped by their error."""
    from rowlease.client.database import connect

    with connect(dsn) as store:
        rows = store.list_dead_letters(limit=limit)
    show_rows(rows, ERROR_COLUMNS, as_json, "there is no dead letter")


def find_first(store: Store, limit: int, after: int | None, filters: Filter) -> Found:
    """The newest requests that match, found by at most MAX_CALLS calls."""
    from rowlease.model import Found

    found = store.find_requests(limit=limit, after=after, **filters)
    for _ in range(MAX_CALLS - 1):
        if found.after is None or (left := limit - len(found.requests)) <= 0:
            break
        more = store.find_requests(limit=left, after=found.after, **filters)
        found = Found(found.requests + more.requests, more.after)
    return found


def missing_request(request_id: int) -> InvalidRequest:
    return InvalidRequest(
        f"there is no request {request_id}; it may have been purged, or its history has expired"
    )


def show_requests(found: list[Request]) -> None:
    show_table(REQUEST_COLUMNS, map(table_row, found))


def table_row(one: Request) -> tuple[Any, ...]:
    """The cells of a request in the list."""
    error = (one.last_error or "").partition("\n")[0]
    return (
        str(one.request_id),
        one.queue_name,
        one.kind,
        one.status,
        f"{one.num_attempts}/{one.max_attempts}",
        one.requested_time,
        error
        if len(error) <= MAX_ERROR_CHARACTERS
        else error[: MAX_ERROR_CHARACTERS - 1] + "\N{HORIZONTAL ELLIPSIS}",
    )


def as_data(one: Request) -> dict[str, Any]:
    """A request as JSON data: payload and result are JSON values, and times are ISO 8601.

    JSON that Python cannot read, with too many digits or levels, stays text.
    """
    data = one._asdict()
    for name in ("payload", "result"):
        if data[name] is not None:
            with suppress(ValueError, RecursionError):
                data[name] = json.loads(data[name])
    data["attempts"] = [to_json(each._asdict()) for each in one.attempts]
    return to_json(data)
