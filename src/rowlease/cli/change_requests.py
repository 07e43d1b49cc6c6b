"""The commands of `rowlease requests` that change requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from rowlease.model.verbs import VERBS, were_done, would_be_done

if TYPE_CHECKING:
    from rowlease.client.operations import Operation


def change_command(verb: str, *options: Callable[..., Any]) -> click.Command:
    """The command of a verb; `options` set its arguments."""
    about = VERBS[verb]
    text = (
        f"{about.summary}\n\nThe filter is that of `rowlease requests list`, in quotes, or ids. "
        f"{about.limits}"
    )
    decorators: list[Callable[..., Any]] = [
        json_option,
        dsn_option,
        click.option("--resume", type=int, metavar="ID", help="Continue this operation."),
        actor_option,
        dry_run_option,
        *options,
        click.argument("terms", nargs=-1, metavar="[FILTER | ID...]"),
    ]
    command: Callable[..., Any] = partial(operate, verb)
    for decorate in decorators:
        command = decorate(command)
    return click.command(verb, help=text)(command)


#: The options of the verbs that have arguments.
OPTIONS: dict[str, list[Callable[..., Any]]] = {
    "cancel": [
        click.option("--kill", is_flag=True, default=None, help="Leave running tasks no time.")
    ],
    "reprioritise": [
        click.option("--priority", type=click.IntRange(min=0), help="The new priority.")
    ],
    "reschedule": [
        click.option("--at", "due_time", callback=time_of, help=f"Due at this time: {TIME_FORM}."),
        click.option("--delay", type=duration, help="Due this long from now, such as 1h."),
    ],
}


def operate(
    verb: str,
    *,
    terms: tuple[str, ...],
    dry_run: bool,
    actor: str,
    resume: int | None,
    dsn: str | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Run an operation, and print what it has done."""
    from rowlease.client.database import connect
    from rowlease.client.operations import Requests

    text = filter_of(terms)
    if (not text) is (resume is None):
        raise click.UsageError("give a filter or ids, or --resume")
    if verb == "reprioritise" and arguments["priority"] is None and resume is None:
        raise click.UsageError("give --priority, the new priority")
    is_named = click.get_current_context().get_parameter_source("actor") is (
        ParameterSource.COMMANDLINE
    )
    others = (dry_run or None, is_named or None, *arguments.values())
    if resume is not None and any(value is not None for value in others):
        raise click.UsageError(
            "--resume continues the operation with its own options; leave the other options out"
        )
    reached: list[Operation] = []

    def report(operation: Operation) -> None:
        is_new = not reached or reached[0].num_requests != operation.num_requests
        reached[:] = [operation]
        if operation.more and is_new:
            say(f"{operation.num_requests:,} so far", err=True)

    with connect(dsn) as store:
        method = getattr(Requests(store), "break_leases" if verb == "break" else verb)
        try:
            if resume is not None:
                done = Requests(store).resume(verb, resume, progress=report)
            else:
                kept = {"dry_run": dry_run, "actor": actor}
                chosen = {name: each for name, each in arguments.items() if each is not None}
                done = method(text, progress=report, **kept, **chosen)
        except BaseException:
            if reached and reached[0].operation_id:
                say(
                    f"continue with: rowlease requests {verb} --resume {reached[0].operation_id}",
                    err=True,
                )
            raise
        if as_json:
            first = [one._asdict() for one in done.first]
            show_json(done._asdict() | {"first": first, "dry_run": dry_run})
            return
        if dry_run:
            shown = store.find_requests(ids=[one.request_id for one in done.first])
            if shown.requests:
                show_requests(shown.requests)
    show_outcome(verb, done, dry_run)


def filter_of(terms: tuple[str, ...]) -> str:
    """The filter of ids or terms."""
    if terms and all(term.isdecimal() for term in terms):
        return "id:" + ",".join(terms)
    return " ".join(terms)


def show_outcome(verb: str, done: Operation, dry_run: bool) -> None:
    from rowlease.model import WHY_UNCHANGED, Outcome

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


CHANGES = [change_command(verb, *OPTIONS.get(verb, ())) for verb in VERBS]
