"""A store: all roles in one class, which each engine implements."""

from __future__ import annotations

from rowlease.store.consuming import Consuming
from rowlease.store.operating import Operating
from rowlease.store.producing import Producing
from rowlease.store.reading import Reading
from rowlease.store.scheduling import Scheduling


class Store(Producing, Consuming, Scheduling, Operating, Reading):
    """The routines of rowlease, on either engine: a method for each.

    Callers that need only some of them take a role. `rowlease.store.calls.Calls` documents what all
    calls have in common.
    """
