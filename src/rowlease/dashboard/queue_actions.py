"""The actions on queues and schedules."""

from __future__ import annotations

from starlette.datastructures import QueryParams

from rowlease.dashboard.previews import Applied, Preview
from rowlease.errors import InvalidRequest
from rowlease.model import Outcome
from rowlease.store import Store


def preview_pause(store: Store, form: QueryParams) -> Preview:
    queue, waiting = _queue(store, form)
    return Preview(
        f"Workers will claim no more requests from the queue {queue} until it is resumed. "
        f"{waiting:,} are waiting. Requests that run are not stopped."
    )


def pause(store: Store, form: QueryParams, actor: str) -> Applied:
    queue = form.get("queue", "")
    store.pause(queue, actor=actor)
    return Applied(f"The queue {queue} is paused.")


def preview_resume(store: Store, form: QueryParams) -> Preview:
    queue, waiting = _queue(store, form)
    return Preview(
        f"Workers will claim requests from the queue {queue} again. {waiting:,} are waiting."
    )


def resume(store: Store, form: QueryParams, actor: str) -> Applied:
    queue = form.get("queue", "")
    store.resume(queue, actor=actor)
    return Applied(f"Workers claim from the queue {queue} again.")


def preview_fire(store: Store, form: QueryParams) -> Preview:
    return Preview(
        f"One request of the schedule {_schedule(store, form)} will be enqueued now. The planned "
        "firing does not change."
    )


def fire(store: Store, form: QueryParams, actor: str) -> Applied:
    name = _schedule(store, form)
    (answer,) = store.fire_schedule(name, actor=actor)
    if answer.outcome is not Outcome.OK:
        raise InvalidRequest(f"the schedule {name} was not fired: {answer.outcome}")
    return Applied(f"The schedule {name} has enqueued the request {answer.request_id}.")


def preview_pause_schedule(store: Store, form: QueryParams) -> Preview:
    return Preview(f"The schedule {_schedule(store, form)} will not fire until it is resumed.")


def pause_schedule(store: Store, form: QueryParams, actor: str) -> Applied:
    name = _schedule(store, form)
    store.pause_schedule(name, actor=actor)
    return Applied(f"The schedule {name} is paused.")


def preview_resume_schedule(store: Store, form: QueryParams) -> Preview:
    return Preview(
        f"The schedule {_schedule(store, form)} will fire from now on. Firings that were missed "
        "are not enqueued."
    )


def resume_schedule(store: Store, form: QueryParams, actor: str) -> Applied:
    name = _schedule(store, form)
    store.resume_schedule(name, actor=actor)
    return Applied(f"The schedule {name} fires again.")


def _queue(store: Store, form: QueryParams) -> tuple[str, int]:
    """The queue of a form, and the number of requests that wait in it.

    Raises:
        InvalidRequest: there is no such queue.
    """
    name = form.get("queue", "")
    return name, sum(row.pending for row in store.depth(name))


def _schedule(store: Store, form: QueryParams) -> str:
    """The schedule of a form.

    Raises:
        InvalidRequest: there is no such schedule.
    """
    name = form.get("schedule", "")
    if name not in {one.schedule_name for one in store.list_schedules()}:
        raise InvalidRequest(f"there is no schedule {name}")
    return name
