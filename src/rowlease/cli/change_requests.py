"""The commands of `rowlease requests` that change requests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rowlease.cli.options import (
    TIME_FORM,
    actor_option,
    dry_run_option,
    dsn_option,
    duration,
    json_option,
    show_json,
    time_of,
)
from rowlease.cli.requests import show_requests
from rowlease.cli.say import say

if TYPE_CHECKING:
    from rowlease.client.operations import Operation


def change_command(text: str) -> Callable[[Callable[..., Any]], click.Command]:
    """The options of a command that changes requests."""

    def decorate(command: Callable[..., Any]) -> click.Command:
        name = command.__name__.removesuffix("_requests")
        for option in (
            json_option,
            dsn_option,
            click.option("--resume", type=int, metavar="ID", help="Continue this operation."),
            actor_option,
            dry_run_option,
            click.argument("terms", nargs=-1, metavar="[FILTER | ID...]"),
        ):
            command = option(command)
        return click.command(name, help=text)(command)

    return decorate


EXAMPLE = "The filter is that of `rowlease requests list`, in quotes, or ids."


@change_command(f"""Cancel waiting requests, and ask running ones to stop.

    {EXAMPLE} Dead letters are cancelled only by status:failed or by
    their ids.""")
def cancel_requests(**given: Any) -> None:
    operate("cancel", given)


@change_command(f"""Make dead letters wait again.

    {EXAMPLE} With status:complete or status:cancelled, or by their ids, finished requests are
    enqueued again as new requests.""")
def requeue_requests(**given: Any) -> None:
    operate("requeue", given)


@change_command(f"""Change the priority of waiting and running requests.

    {EXAMPLE} Dead letters are changed only by status:failed or by their ids. A
    priority above the maximum of a queue is lowered to it.""")
@click.option("--priority", type=click.IntRange(min=0), help="The new priority.")
def reprioritise_requests(priority: int | None, **given: Any) -> None:
    if priority is None and given["resume"] is None:
        raise click.UsageError("give --priority, the new priority")
    operate("reprioritise", given, priority=priority)


@change_command(f"""Change the due time of waiting requests.

    Without --delay or --at, they are due now. {EXAMPLE} Requests that wait for a batch are changed
    only by their ids.""")
@click.option("--delay", type=duration, help="Due this long from now, such as 1h.")
@click.option("--at", "due_time", callback=time_of, help=f"Due at this time: {TIME_FORM}.")
def reschedule_requests(delay: timedelta | None, due_time: datetime | None, **given: Any) -> None:
    operate("reschedule", given, delay=delay, due_time=due_time)


@change_command(f"""End the leases of running requests, so that they wait again.

    A request without attempts left becomes a dead letter. {EXAMPLE} worker:ID ends
    all leases of a worker; worker:HOST those of a host.""")
def break_requests(**given: Any) -> None:
    operate("break", given)


@change_command(f"""Delete dead letters for good.

    {EXAMPLE} Waiting and finished requests are deleted only by their
    status or by their ids.""")
def purge_requests(**given: Any) -> None:
    operate("purge", given)


def operate(verb: str, given: dict[str, Any], **arguments: Any) -> None:
    """Run an operation, and print what it has done."""
    from rowlease.client.database import connect
    from rowlease.client.operations import Requests

    text = filter_of(given["terms"])
    if (not text) is (given["resume"] is None):
        raise click.UsageError("give a filter or ids, or --resume")
    is_named = click.get_current_context().get_parameter_source("actor") is (
        ParameterSource.COMMANDLINE
    )
    others = (given["dry_run"] or None, is_named or None, *arguments.values())
    if given["resume"] is not None and any(value is not None for value in others):
        raise click.UsageError(
            "--resume continues the operation with its own options; leave the other options out"
        )
    reached: list[Operation] = []

    def report(operation: Operation) -> None:
        is_new = not reached or reached[0].num_requests != operation.num_requests
        reached[:] = [operation]
        if operation.more and is_new:
            say(f"{operation.num_requests:,} so far", err=True)

    with connect(given["dsn"]) as store:
        method = getattr(Requests(store), "break_leases" if verb == "break" else verb)
        try:
            if given["resume"] is not None:
                done = Requests(store).resume(verb, given["resume"], progress=report)
            else:
                kept = {"dry_run": given["dry_run"], "actor": given["actor"]}
                done = method(text, progress=report, **kept, **arguments)
        except BaseException:
            if reached and reached[0].operation_id:
                say(
                    f"continue with: rowlease requests {verb} --resume {reached[0].operation_id}",
                    err=True,
                )
            raise
        if given["as_json"]:
            first = [one._asdict() for one in done.first]
            show_json(done._asdict() | {"first": first, "dry_run": given["dry_run"]})
            return
        if given["dry_run"]:
            shown = store.find_requests(ids=[one.request_id for one in done.first])
            if shown.requests:
                show_requests(shown.requests)
    show_outcome(verb, done, given["dry_run"])


def filter_of(terms: tuple[str, ...]) -> str:
    """The filter of ids or terms."""
    if terms and all(term.isdecimal() for term in terms):
        return "id:" + ",".join(terms)
    return " ".join(terms)


def show_outcome(verb: str, done: Operation, dry_run: bool) -> None:
    from rowlease.model import WHY_UNCHANGED, Outcome, were_done, would_be_done

    if dry_run:
        first = "it is" if done.num_requests == 1 else f"the first {len(done.first)} are"
        listed = f"; {first} listed above" if done.first else ""
        say(would_be_done(verb, done.num_requests, done.more) + listed)
    else:
        say(f"{were_done(verb, done.num_requests)} (operation {done.operation_id})")
        copied = [one for one in done.first if one.new_request_id is not None]
        for one in copied:
            say(f"request {one.request_id} is enqueued again as {one.new_request_id}")
        if copied and done.num_requests > len(done.first):
            say("the table requeued has the others")
    if asked := done.outcomes.get(Outcome.CANCEL_REQUESTED):
        say(f"{asked:,} running: asked to stop")
    for outcome, why in WHY_UNCHANGED.items():
        if count := done.outcomes.get(outcome):
            say(f"{count:,} not changed: {why}")


CHANGES = (
    cancel_requests,
    requeue_requests,
    reprioritise_requests,
    reschedule_requests,
    break_requests,
    purge_requests,
)
