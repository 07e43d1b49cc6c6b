"""`rowlease requests`."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from rowlease.cli.options import dry_run_option, dsn_option, duration, json_option, show_json

if TYPE_CHECKING:
    from rowlease.client.operations import Operation
    from rowlease.filters.filter import Filter
    from rowlease.model import Found, Request
    from rowlease.store import Store

COLUMNS = ("request", "queue", "kind", "status", "attempts", "enqueued", "error")
#: The maximum number of characters of an error in a line of the list.
ERROR = 80
#: The maximum number of calls for a list. Each call reads up to 10,000 requests of each table.
MOST_CALLS = 100


@click.group("requests")
def requests() -> None:
    """Find, show and change requests."""


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
    from rowlease.client.database import connect
    from rowlease.filters.language import parse

    filters = parse(" ".join(terms))
    with connect(dsn) as store:
        found = first(store, limit, after, filters)
    if as_json:
        show_json({"requests": [as_data(one) for one in found.requests], "after": found.after})
        return
    show_table(found.requests)
    if found.after is not None:
        click.echo(f"there may be more: --after {found.after}")


@requests.command()
@click.argument("request_id", type=int)
@dsn_option
@json_option
def show(request_id: int, dsn: str | None, as_json: bool) -> None:
    """Show a request: its payload, its result, and the errors of its failed attempts."""
    from rowlease.client.database import connect
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


def changing(text: str) -> Callable[[Callable[..., Any]], click.Command]:
    """The options of a command that changes requests."""

    def decorate(command: Callable[..., Any]) -> click.Command:
        name = command.__name__.removesuffix("_requests")
        for option in (
            json_option,
            dsn_option,
            click.option("--resume", type=int, metavar="ID", help="Go on with this operation."),
            click.option("--actor", help="Who does it, for the audit. Default: your login name."),
            dry_run_option,
            click.argument("terms", nargs=-1, metavar="[FILTER | ID...]"),
        ):
            command = option(command)
        return requests.command(name, help=text)(command)

    return decorate


EXAMPLE = "The filter is that of `rowlease requests list`, in quotes, or ids."


@changing(f"""Cancel waiting requests, and ask running ones to stop.

    {EXAMPLE} Dead letters are cancelled if the filter names status:failed.""")
def cancel_requests(**given: Any) -> None:
    operate("cancel", "cancelled", given)


@changing(f"""Make dead letters wait again.

    {EXAMPLE} With status:complete or status:cancelled, or by their ids, finished requests are
    enqueued again as new requests.""")
def requeue_requests(**given: Any) -> None:
    operate("requeue", "requeued", given)


@changing(f"""Change the priority of waiting and running requests.

    {EXAMPLE} A priority above the maximum of a queue is lowered to it.""")
@click.option("--priority", type=click.IntRange(min=0), help="The new priority.")
def reprioritise_requests(priority: int | None, **given: Any) -> None:
    if priority is None and given["resume"] is None:
        raise click.UsageError("give --priority, the new priority")
    operate("reprioritise", "reprioritised", given, priority=priority)


@changing(f"""Change the due time of waiting requests: to now, or as --delay or --at says.

    {EXAMPLE}""")
@click.option("--delay", type=duration, help="Due this long from now, such as 1h.")
@click.option("--at", help="Due at this time: 2026-11-22T18:00, in UTC.")
def reschedule_requests(delay: timedelta | None, at: str | None, **given: Any) -> None:
    from rowlease.filters.language import time

    try:
        due_time = at and time(at)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    operate("reschedule", "rescheduled", given, delay=delay, due_time=due_time)


@changing(f"""End the leases of running requests, so that they wait again.

    {EXAMPLE} worker:ID ends all leases of a worker; worker:HOST those of a host.""")
def break_requests(**given: Any) -> None:
    operate("break", "ended the leases of", given)


@changing(f"""Delete dead letters for good.

    {EXAMPLE} Waiting and finished requests are deleted if the filter names their status.""")
def purge_requests(**given: Any) -> None:
    operate("purge", "purged", given)


def operate(verb: str, past: str, given: dict[str, Any], **arguments: Any) -> None:
    """Run an operation, and print what it has done."""
    from rowlease.client.database import connect
    from rowlease.client.operations import Requests

    text = chosen(given["terms"])
    if (not text) is (given["resume"] is None):
        raise click.UsageError("give a filter or ids, or --resume")
    reached: list[Operation] = []

    def report(operation: Operation) -> None:
        reached[:] = [operation]
        if operation.more:
            click.echo(f"{operation.num_requests:,} so far", err=True)

    with connect(given["dsn"]) as store:
        method = getattr(Requests(store), "break_leases" if verb == "break" else verb)
        try:
            if given["resume"] is not None:
                done = Requests(store).resume(verb, given["resume"], progress=report)
            else:
                actor = given["actor"] or getpass.getuser()
                options: Any = {"dry_run": given["dry_run"], "actor": actor, "progress": report}
                done = method(text, **options, **arguments)
        except BaseException:
            if reached and reached[0].operation_id:
                click.echo(
                    f"go on with: rowlease requests {verb} --resume {reached[0].operation_id}",
                    err=True,
                )
            raise
        if given["as_json"]:
            show_json(done._asdict() | {"first": [one._asdict() for one in done.first]})
            return
        if given["dry_run"]:
            shown = store.find_requests(ids=[one.request_id for one in done.first])
            show_table(shown.requests)
    show_outcome(verb, past, done, given["dry_run"])


def chosen(terms: tuple[str, ...]) -> str:
    """The filter of ids or terms."""
    if terms and all(term.isdecimal() for term in terms):
        return "id:" + ",".join(terms)
    return " ".join(terms)


def show_outcome(verb: str, past: str, done: Operation, dry_run: bool) -> None:
    number = f"{done.num_requests:,} request{'' if done.num_requests == 1 else 's'}"
    if dry_run:
        least = "at least " if done.more else ""
        click.echo(f"would {verb} {least}{number}; the first {len(done.first)} are listed above")
    else:
        click.echo(f"{past} {number} (operation {done.operation_id})")
    for outcome, meaning in (
        ("cancel_requested", "are running, and were asked to stop"),
        ("duplicate", "were left: a live request has their dedup key"),
        ("not_found", "were left: their payload was not kept"),
    ):
        if count := {str(key): value for key, value in done.outcomes.items()}.get(outcome):
            click.echo(f"{count:,} {meaning}")


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


def show_table(found: list[Request]) -> None:
    table = [COLUMNS, *map(line, found)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


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
