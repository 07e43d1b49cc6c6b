"""The class `Store` has the calls of all folders of sql/. Each engine implements it."""

from __future__ import annotations

from rowlease.store.dequeue import DequeueCalls
from rowlease.store.enqueue import EnqueueCalls
from rowlease.store.finish import FinishCalls
from rowlease.store.load import LoadCalls
from rowlease.store.maintain import MaintainCalls
from rowlease.store.operate import OperateCalls
from rowlease.store.schedule import ScheduleCalls
from rowlease.store.worker import WorkerCalls


class Store(
    EnqueueCalls,
    LoadCalls,
    DequeueCalls,
    FinishCalls,
    WorkerCalls,
    MaintainCalls,
    ScheduleCalls,
    OperateCalls,
):
    """The routines of rowlease on either engine, with a method for each routine.

    The file of a method has the name of the routine's folder in sql/.
    `rowlease.store.calls.Calls` documents what all calls have in common.
    """
