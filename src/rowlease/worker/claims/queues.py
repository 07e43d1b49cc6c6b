"""Finds and checks the queues that a worker claims from."""

from __future__ import annotations

from collections.abc import Sequence

from rowlease.errors import InvalidRequest
from rowlease.events import Events, QueueLeftOut
from rowlease.store import Store
from rowlease.tasks.requests import DEFAULT_QUEUE
from rowlease.tasks.task import Registry


def queues_of(tasks: Registry) -> dict[str, int]:
    """The queues of these tasks, with equal weights."""
    return {each.queue or DEFAULT_QUEUE: 1 for each in tasks.values()}


def check_queues(
    store: Store, tasks: Registry, queues: Sequence[str], events: Events, *, are_named: bool
) -> None:
    """Check that the queues exist. Emit `QueueLeftOut` for each queue of a task that is left out.

    Args:
        are_named: whether the caller has named the queues. If not, they are the tasks' queues.

    Raises:
        InvalidRequest: a queue does not exist.
    """
    for name in queues:
        try:
            store.depth(name)
        except InvalidRequest as error:
            if are_named:
                raise
            users = [each.name for each in tasks.values() if (each.queue or DEFAULT_QUEUE) == name]
            raise InvalidRequest(
                f"{error}; task {', '.join(users)} has this queue: `rowlease worker "
                "--create-queues` creates it, and --queue claims from others instead"
            ) from error.__cause__  # not the same sentence once more
    left_out = {each.queue for each in tasks.values() if each.queue is not None} - set(queues)
    for name in sorted(left_out):
        users = [each.name for each in tasks.values() if each.queue == name]
        events.emit(QueueLeftOut(name, ", ".join(users)))
