"""The actions of operators. Each shows what it would do, and does it once that is confirmed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from starlette.datastructures import QueryParams

from rowlease.errors import InvalidRequest
from rowlease.model import Outcome, Request
from rowlease.store import Store

#: The maximum number of requests that a form may select.
MOST = 1000
#: The number of requests that a preview lists.
LISTED = 10


class Preview(NamedTuple):
    """What an action would do.

    Attributes:
        sentence: what would happen.
        requests: some of the requests that it would change.
        num: the number of things that it would change. If it is 0, there is nothing to confirm.
    """

    sentence: str
    requests: list[Request]
    num: int


class Action(NamedTuple):
    """An action.

    Attributes:
        title: what it does, as a heading and on its button.
        is_dangerous: whether what it does cannot be undone.
        preview: a function that returns what it would do, and changes nothing.
        run: a function that does it, and returns a sentence that says what was done.
        takes_requests: the statuses of the requests that it changes; empty if it changes something
            else.
    """

    title: str
    is_dangerous: bool
    preview: Callable[[Store, QueryParams], Preview]
    run: Callable[[Store, QueryParams], str]
    takes_requests: tuple[str, ...] = ()


def pause_preview(store: Store, form: QueryParams) -> Preview:
    queue = _queue(store, form)
    waiting = sum(row.pending for row in store.depth(queue))
    return Preview(
        f"Workers will claim no more requests from the queue {queue} until it is resumed. "
        f"{waiting:,} are waiting. Requests that run are not stopped.",
        [],
        1,
    )


def pause(store: Store, form: QueryParams) -> str:
    queue = _queue(store, form)
    store.pause(queue)
    return f"The queue {queue} is paused."


def resume_preview(store: Store, form: QueryParams) -> Preview:
    queue = _queue(store, form)
    waiting = sum(row.pending for row in store.depth(queue))
    return Preview(
        f"Workers will claim requests from the queue {queue} again. {waiting:,} are waiting.", [], 1
    )


def resume(store: Store, form: QueryParams) -> str:
    queue = _queue(store, form)
    store.resume(queue)
    return f"Workers claim from the queue {queue} again."


def fire_preview(store: Store, form: QueryParams) -> Preview:
    name = form.get("schedule", "")
    return Preview(
        f"One request of the schedule {name} will be enqueued now. The planned firing does not "
        "change.",
        [],
        1,
    )


def fire(store: Store, form: QueryParams) -> str:
    name = form.get("schedule", "")
    (answer,) = store.fire_schedule(name)
    if answer.outcome is not Outcome.OK:
        raise InvalidRequest(f"the schedule {name} was not fired: {answer.outcome}")
    return f"The schedule {name} has enqueued the request {answer.request_id}."


def pause_schedule_preview(store: Store, form: QueryParams) -> Preview:
    name = form.get("schedule", "")
    return Preview(f"The schedule {name} will not fire until it is resumed.", [], 1)


def pause_schedule(store: Store, form: QueryParams) -> str:
    name = form.get("schedule", "")
    _expect(store.pause_schedule(name), name)
    return f"The schedule {name} is paused."


def resume_schedule_preview(store: Store, form: QueryParams) -> Preview:
    name = form.get("schedule", "")
    return Preview(
        f"The schedule {name} will fire from now on. Firings that were missed are not enqueued.",
        [],
        1,
    )


def resume_schedule(store: Store, form: QueryParams) -> str:
    name = form.get("schedule", "")
    _expect(store.resume_schedule(name), name)
    return f"The schedule {name} fires again."


#: The actions, by the last part of their path.
ACTIONS = {
    "pause": Action("Pause", False, pause_preview, pause),
    "resume": Action("Resume", False, resume_preview, resume),
    "fire-schedule": Action("Fire", False, fire_preview, fire),
    "pause-schedule": Action("Pause the schedule", False, pause_schedule_preview, pause_schedule),
    "resume-schedule": Action(
        "Resume the schedule", False, resume_schedule_preview, resume_schedule
    ),
}


def _queue(store: Store, form: QueryParams) -> str:
    """The queue of a form.

    Raises:
        InvalidRequest: there is no such queue.
    """
    name = form.get("queue", "")
    store.show_queue(name)
    return name


def _expect(outcome: Outcome, name: str) -> None:
    if outcome is Outcome.NOT_FOUND:
        raise InvalidRequest(f"there is no schedule {name}")
