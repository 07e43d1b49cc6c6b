"""The queues that a worker claims from, and the order in which a claim tries them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rowlease.errors import ConfigError, InvalidRequest
from rowlease.events import Events, QueueLeftOut
from rowlease.store import Store
from rowlease.tasks.requests import DEFAULT_QUEUE
from rowlease.tasks.task import Registry

#: The largest weight of a queue.
MAX_WEIGHT = 1000


class QueueOrder:
    """The queues of a worker, in the order of the next claim.

    A list keeps its order: a queue is served only when the queues before it are empty. With
    weights, each queue gets its share while all queues have requests.

    Source: stride scheduling (Waldspurger and Weihl, 1995). Each queue has a distance, which grows
    by the number of its claimed requests divided by its weight. The queue with the shortest
    distance comes first.

    Raises:
        ConfigError: there is no queue, a queue is named twice, or a weight is not 1 to 1000.
    """

    def __init__(self, queues: Sequence[str] | Mapping[str, int]) -> None:
        if isinstance(queues, str) or not queues or len(set(queues)) < len(queues):
            raise ConfigError(f"queues is {queues!r}; it must be a list of different names")
        for name, weight in queues.items() if isinstance(queues, Mapping) else ():
            if not 1 <= weight <= MAX_WEIGHT:
                raise ConfigError(
                    f"the weight of queue {name} is {weight}; it must be 1 to {MAX_WEIGHT}"
                )
        self._weights = dict(queues) if isinstance(queues, Mapping) else None
        self._distances = dict.fromkeys(queues, 0.0)

    def order(self) -> list[str]:
        """The queues in the order in which the next claim tries them."""
        distances = self._distances
        return sorted(distances, key=distances.__getitem__)  # stable: a list keeps its order

    def record_claim(self, names: Iterable[str], *, more_left: bool) -> None:
        """Account for a claim that was made in the current order.

        Args:
            names: the queue of each claimed request.
            more_left: whether requests may still be waiting after the claim.
        """
        if self._weights is None or len(self._weights) == 1:
            return
        if not more_left:  # every queue is empty, so no queue has to catch up
            self._distances = dict.fromkeys(self._distances, 0.0)
            return
        order, counts, distances = self.order(), Counter(names), self._distances
        for name, count in counts.items():
            distances[name] += count / self._weights[name]
        # The claim emptied all queues before the last queue that it took requests from.
        last = max(map(order.index, counts), default=0)
        for name in order[:last]:
            distances[name] = max(distances[name], distances[order[last]])


def queues_of(tasks: Registry) -> dict[str, int]:
    """The queues of these tasks, with equal weights."""
    return {each.queue or DEFAULT_QUEUE: 1 for each in tasks.values()}


def check_queues(
    store: Store, tasks: Registry, queues: Sequence[str], events: Events, *, are_named: bool
) -> None:
    """Check that the queues exist, and those of the tasks that take the worker's dead letters.

    Emit `QueueLeftOut` for each queue of a task that is left out.

    Args:
        are_named: whether the caller has named the queues. If not, they are the tasks' queues.

    Raises:
        InvalidRequest: a queue does not exist.
    """
    takers = dict(taker for taker in tasks.dead_letter_tasks().values() if taker)
    for name in {**dict.fromkeys(queues), **takers}:
        try:
            store.depth(name)
        except InvalidRequest as error:
            if name not in queues:
                why = f"task {takers[name]}, which takes dead letters, has this queue"
            elif are_named:
                raise
            else:
                users = [
                    each.name for each in tasks.values() if (each.queue or DEFAULT_QUEUE) == name
                ]
                why = (
                    f"task {', '.join(users)} has this queue: `rowlease worker --create-queues` "
                    "creates it, and --queue claims from others instead"
                )
            # Its cause, or else the same sentence would come once more.
            raise InvalidRequest(f"{error}; {why}") from error.__cause__
    left_out = {each.queue for each in tasks.values() if each.queue is not None} - set(queues)
    for name in sorted(left_out):
        users = [each.name for each in tasks.values() if each.queue == name]
        events.emit(QueueLeftOut(name, ", ".join(users)))
