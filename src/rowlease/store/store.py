"""The class `Store` has all roles. Each engine implements it."""

from __future__ import annotations

from rowlease.store.consuming import Consuming
from rowlease.store.operating import Operating
from rowlease.store.producing import Producing
from rowlease.store.reading import Reading
from rowlease.store.scheduling import Scheduling


class Store(Producing, Consuming, Scheduling, Operating, Reading):
    """The routines of rowlease on either engine, with a method for each routine.

    A caller that needs only some of the routines takes a role, such as `Producing`.
    `rowlease.store.calls.Calls` documents what all calls have in common.
    """
