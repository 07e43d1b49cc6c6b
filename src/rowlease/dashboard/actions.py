"""The actions of operators. Each shows a preview, and runs after a confirmation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from starlette.datastructures import QueryParams

from rowlease.client.operations import run_steps, steps
from rowlease.dashboard import edits, queue_actions
from rowlease.dashboard.previews import Applied, Preview
from rowlease.durations import parse_duration
from rowlease.errors import InvalidRequest
from rowlease.filters.filter import Filter
from rowlease.filters.language import parse
from rowlease.model import VERBS, WHY_UNCHANGED, were_done, would_be_done
from rowlease.store import Store

#: The number of requests that a preview lists.
PREVIEW_LENGTH = 10
#: The number of requests that a preview counts. The action itself has no such limit.
MAX_COUNTED_REQUESTS = 10_000
#: Seconds after which an action is interrupted. Its page then has a button that continues it.
ACTION_SECONDS = 10.0


class Argument(NamedTuple):
    """A value that the visitor enters on the page of the preview.

    Attributes:
        name: the name of the field.
        label: its label on the page.
        default: the value that the field has at first.
        read: a function that reads the argument of the operation from the value. It raises
            ValueError if the value is wrong.
    """

    name: str
    label: str
    default: str
    read: Callable[[str], Any]


class Action(NamedTuple):
    """An action.

    Attributes:
        title: its name, as a heading and on its button.
        is_dangerous: whether its effect cannot be undone.
        preview: a function that returns the preview, and changes nothing.
        run: a function that runs the action; its last argument is the operator's name.
        takes_requests: the statuses of the requests that it changes; empty if it changes something
            else.
        argument: a value that the visitor must enter, or None.
    """

    title: str
    is_dangerous: bool
    preview: Callable[[Store, QueryParams], Preview]
    run: Callable[[Store, QueryParams, str], Applied]
    takes_requests: tuple[str, ...] = ()
    argument: Argument | None = None


# -- requests --------------------------------------------------------------------------------------


def preview_requests(verb: str, store: Store, form: QueryParams) -> Preview:
    """The preview of a verb, by a dry run."""
    found = run_steps(
        steps(store, verb, _filters(form), _arguments(verb, form), dry_run=True),
        is_over=lambda so_far: sum(so_far.outcomes.values()) >= MAX_COUNTED_REQUESTS,
    )
    sentence = f"{would_be_done(verb, found.num_requests, found.more)}."
    if not found.num_requests:
        sentence = f"There is no request that would be {VERBS[verb].done}."
    for outcome, why in WHY_UNCHANGED.items():
        if count := found.outcomes.get(outcome):
            sentence += f" {count:,} would not: {why}."
    listed = (store.get_request(one.request_id) for one in found.first[:PREVIEW_LENGTH])
    return Preview(sentence, [one for one in listed if one is not None], found.num_requests)


def run_requests(verb: str, store: Store, form: QueryParams, actor: str) -> Applied:
    """Run an operation, for some seconds at most."""
    filters, arguments = _filters(form), _arguments(verb, form)
    given = form.get("operation_id")
    ids = parse(f"id:{given}").get("ids") if given else None
    operation_id = ids[0] if ids else None
    ends = monotonic() + ACTION_SECONDS
    done = run_steps(
        steps(store, verb, filters, arguments, actor=actor, operation_id=operation_id),
        is_over=lambda _: monotonic() > ends,
    )
    sentence = f"{were_done(verb, done.num_requests)}."
    if not done.more:
        return Applied(sentence)
    return Applied(f"{sentence} More requests match the filter.", done.operation_id)


def priority(text: str) -> dict[str, Any]:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a priority; write a whole number of 0 or more")
    return {"priority": int(text)}


def delay(text: str) -> dict[str, Any]:
    return {"delay_ms": round(parse_duration(text).total_seconds() * 1000)}


def _filters(form: QueryParams) -> Filter:
    """The selected requests of a form; if none is selected, those that match its filter."""
    selected = form.getlist("id")
    return parse(f"id:{','.join(selected)}" if selected else form.get("filter", ""))


def _arguments(verb: str, form: QueryParams) -> dict[str, Any]:
    argument = ACTIONS[verb].argument
    if argument is None:
        return {}
    try:
        found: dict[str, Any] = argument.read(form.get(argument.name, argument.default).strip())
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
    return found


def _on_requests(verb: str) -> Action:
    """The action of a verb of `rowlease.model.verbs`."""
    about = VERBS[verb]
    return Action(
        about.title,
        about.is_dangerous,
        partial(preview_requests, verb),
        partial(run_requests, verb),
        about.takes,
        ARGUMENTS[about.argument] if about.argument else None,
    )


#: The arguments of verbs, by name.
ARGUMENTS = {
    "priority": Argument("priority", "New priority", "0", priority),
    "delay": Argument("delay", "Due after, such as 30s, 5m or 2h", "0s", delay),
}
#: The actions. Each key is the last part of the URL's path; for actions on requests, it is also the
#: verb of the operation.
ACTIONS = {
    **{verb: _on_requests(verb) for verb in VERBS},
    "pause": Action("Pause", False, queue_actions.preview_pause, queue_actions.pause),
    "resume": Action("Resume", False, queue_actions.preview_resume, queue_actions.resume),
    "configure-queue": Action("Change", False, edits.preview_queue, edits.configure_queue),
    "enqueue": Action("Enqueue", False, edits.preview_enqueue, edits.enqueue),
    "put-schedule": Action("Save", False, edits.preview_schedule, edits.put_schedule),
    "fire-schedule": Action("Fire", False, queue_actions.preview_fire, queue_actions.fire),
    "pause-schedule": Action(
        "Pause the schedule",
        False,
        queue_actions.preview_pause_schedule,
        queue_actions.pause_schedule,
    ),
    "resume-schedule": Action(
        "Resume the schedule",
        False,
        queue_actions.preview_resume_schedule,
        queue_actions.resume_schedule,
    ),
}
