"""Whose turn it is: in which order the next claim looks at several queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rowlease.errors import ConfigError

MAX_WEIGHT = 1000


class QueueOrder:
    """The queues of a worker, in order.

    Given as a list they keep it: a queue gets something only when those before it are empty. Given
    with weights they take turns, so that while all of them have requests each gets its share.

    Source: stride scheduling (Waldspurger and Weihl, 1995): each queue's distance grows by the
    requests it gave, divided by its weight, and the shortest distance is first.

    Raises:
        ConfigError: there is no queue, one comes twice, or a weight is not 1 to 1000.
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
        """The queues as the next claim is to look at them."""
        distances = self._distances
        return sorted(distances, key=distances.__getitem__)  # stable: a list keeps its order

    def took(self, names: Iterable[str], *, all_wanted: bool) -> None:
        """Account for a claim in the present order.

        Args:
            names: of the queue of each request that was claimed.
            all_wanted: there may be more of them than the claim got.
        """
        if self._weights is None:
            return
        if not all_wanted:  # nothing is left anywhere: nobody has anything to catch up on
            self._distances = dict.fromkeys(self._distances, 0.0)
            return
        order, counts, distances = self.order(), Counter(names), self._distances
        for name, count in counts.items():
            distances[name] += count / self._weights[name]
        # Of those looked at before the last that gave something, nothing was left.
        last = max(map(order.index, counts), default=0)
        for name in order[:last]:
            distances[name] = max(distances[name], distances[order[last]])
