"""A store: all roles in one, for each engine to complete."""

from __future__ import annotations

from rowlease.store.consuming import Consuming
from rowlease.store.operating import Operating
from rowlease.store.producing import Producing
from rowlease.store.reading import Reading
from rowlease.store.scheduling import Scheduling


class Store(Producing, Consuming, Scheduling, Operating, Reading):
    """The routines of rowlease, on either engine: a method for each, values in and values out.

    Who needs a part of them asks for a role. `rowlease.store.calls.Calls` says what holds for all.
    """
