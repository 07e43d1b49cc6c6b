"""Health: is this worker alive, and is it ready for work? Read from stamps that its threads leave.

Live is about this process alone: a restart must help. A database that is away makes a worker not
ready, never not live, or every worker of a fleet would be restarted while it is down.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from rowlease.events import (
    Event,
    Events,
    StoreLost,
    StoreRecovered,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from rowlease.worker.child import now

#: Seconds in which the dispatcher, which looks around every second, must have done so.
STALLED = 10.0
#: Seconds after which an exchange is taken for stuck. A database behind a lock, or a cut network,
#: answers or fails sooner, and a restart would not help it.
STUCK = 600.0
#: Seconds in which the database must have answered `maintain`, which is called every other second.
SILENT = 10.0


class Report(NamedTuple):
    """How a worker is, or all workers of a supervisor.

    Attributes:
        live: it makes progress; if not, a restart may help.
        ready: it takes requests and runs them.
        why: what is not as it should be, in sentences; empty if ready.
        draining: it is about to end.
        slots: how many tasks can run at once.
        busy: how many slots run something.
        finished: requests completed so far.
    """

    live: bool
    ready: bool
    why: tuple[str, ...]
    draining: bool = False
    slots: int = 0
    busy: int = 0
    finished: int = 0

    def __str__(self) -> str:
        text = "draining; " if self.draining else ""
        text += f"{self.busy} of {self.slots} slots busy, {self.finished:,} finished"
        return "; ".join([text, *self.why])


class Dispatcher(Protocol):
    """What is read of a dispatcher."""

    stepped_at: float

    def busy(self) -> int: ...
    def able(self) -> int: ...


class Receiver(Protocol):
    """What is read of a receiver."""

    calling_since: float | None


class Housekeeping(Protocol):
    """What is read of the housekeeping."""

    answered_at: float


class Health:
    """Answers `report` from any thread, at any time; it costs the worker nothing.

    Attributes:
        changed: set when the next report is likely to differ; whoever waits for it clears it.
    """

    def __init__(self, events: Events, slots: int) -> None:
        self._slots = slots
        self._lost: str | None = None
        self._started = False
        self._draining = False
        self._parts: tuple[Dispatcher, Receiver, Housekeeping] | None = None
        self._finished: Callable[[], int] = lambda: 0
        self.changed = threading.Event()
        events.subscribe(
            self._note, WorkerStarted, WorkerStopping, WorkerStopped, StoreLost, StoreRecovered
        )

    def watch(
        self,
        dispatcher: Dispatcher,
        receiver: Receiver,
        housekeeping: Housekeeping,
        finished: Callable[[], int],
    ) -> None:
        """Read these from now on."""
        self._finished = finished
        self._parts = dispatcher, receiver, housekeeping

    def report(self) -> Report:
        """How it is now."""
        if self._parts is None:
            starting = ("its slots are not warm yet",)
            return Report(True, False, starting, self._draining, self._slots)
        dispatcher, receiver, housekeeping = self._parts
        at = now()
        wedged = list(_wedged(dispatcher, receiver, at) if self._started else ())
        why = [*wedged]
        if not self._started:
            why.append("its slots are not warm yet")
        elif not dispatcher.able():
            why.append("no slot can run anything: its processes have died and start again")
        if self._lost is not None:
            why.append(f"the database is away: {self._lost}")
        elif at - housekeeping.answered_at > SILENT:
            why.append(f"the database has not answered for {at - housekeeping.answered_at:.0f} s")
        if self._draining:
            why.append("it drains, and claims no more")
        return Report(
            not wedged,
            not why,
            tuple(why),
            self._draining,
            self._slots,
            dispatcher.busy(),
            self._finished(),
        )

    def _note(self, event: Event) -> None:
        if isinstance(event, StoreLost):
            self._lost = event.error.partition("\n")[0]
        elif isinstance(event, StoreRecovered):
            self._lost = None
        elif isinstance(event, WorkerStarted):
            self._started = True
        elif isinstance(event, WorkerStopping):
            self._draining = True
        else:
            self._parts = None  # nothing steps any more, and that is right
        self.changed.set()


def _wedged(dispatcher: Dispatcher, receiver: Receiver, at: float) -> Sequence[str]:
    """What only a restart can mend."""
    why = []
    if at - dispatcher.stepped_at > STALLED:
        why.append(f"its dispatcher has stood still for {at - dispatcher.stepped_at:.0f} s")
    since = receiver.calling_since
    if since is not None and at - since > STUCK:
        why.append(f"one exchange with the database has taken {at - since:.0f} s")
    return why
