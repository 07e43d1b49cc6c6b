"""The events of a worker, for logs, metrics, progress displays and tests."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from rowlease.model import LeasedRequest, Outcome

logger = logging.getLogger("rowlease")


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all events."""


@dataclass(frozen=True, slots=True)
class QueueLeftOut(Event):
    """The worker has tasks of `queue`, listed in `tasks`, but does not claim from this queue."""

    queue: str
    tasks: str


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    """The slots of the worker are ready, and the worker begins to claim."""

    worker_id: str
    queues: tuple[str, ...]
    slots: int


@dataclass(frozen=True, slots=True)
class WorkerStopping(Event):
    """The worker claims no more. Running tasks may finish within the grace time."""

    worker_id: str
    grace: timedelta


@dataclass(frozen=True, slots=True)
class WorkerStopped(Event):
    """The worker has ended. `undelivered` counts outcomes that did not reach the database."""

    worker_id: str
    undelivered: int


@dataclass(frozen=True, slots=True)
class WorkerIdle(Event):
    """The worker sleeps until a notification arrives or the next request is due.

    `announced` is true if producers send notifications to this worker.
    """

    announced: bool


@dataclass(frozen=True, slots=True)
class Claimed(Event):
    """One call leased these requests."""

    requests: tuple[LeasedRequest, ...]


@dataclass(frozen=True, slots=True)
class Started(Event):
    """A slot runs a request."""

    request: LeasedRequest


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """A request was completed in the database. The task ran for `seconds`."""

    request: LeasedRequest
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """A failed attempt was recorded. `dead` is true if the request became a dead letter.

    Attributes:
        error, error_type, traceback: the same as in `Failure`. Logs do not have the traceback.
    """

    request: LeasedRequest
    seconds: float
    error: str
    dead: bool
    error_type: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Cancelled(Event):
    """A request that was cancelled while it ran has stopped. `error` says how its task ended."""

    request: LeasedRequest
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class Abandoned(Event):
    """A request was abandoned. The attempt is not counted."""

    request: LeasedRequest


@dataclass(frozen=True, slots=True)
class Snoozed(Event):
    """A request is due again: its task has snoozed it, or it was a suspect that had to wait."""

    request: LeasedRequest
    seconds: float
    after: timedelta
    reason: str


@dataclass(frozen=True, slots=True)
class KindShared(Event):
    """Another worker of the queue has another `task` for a kind than this one's `own`."""

    queue_name: str
    kind: str
    own: str
    task: str
    worker_id: str


@dataclass(frozen=True, slots=True)
class KindUnknown(Event):
    """Requests were declined, because this worker has no task of their kind.

    It is emitted once for each queue and kind, and once more, `dead`, when some are dead letters.
    """

    queue_name: str
    kind: str
    dead: bool


@dataclass(frozen=True, slots=True)
class Disowned(Event):
    """The answer to a claim was lost, so its leases were released. No attempt is counted."""

    count: int


@dataclass(frozen=True, slots=True)
class OutcomeRefused(Event):
    """The database refused the outcome of a request.

    Nothing else is sent, so the request stays leased until its lease runs out.
    """

    request: LeasedRequest
    error: str


@dataclass(frozen=True, slots=True)
class LeaseLostEvent(Event):
    """The lease of a request was lost. Another worker may own the request."""

    request: LeasedRequest
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Renewed(Event):
    """One call renewed `count` leases."""

    count: int


@dataclass(frozen=True, slots=True)
class RenewalsLost(Event):
    """A call to renew leases failed or was not answered. The worker stops claiming."""

    call: str
    since: datetime
    error: str


@dataclass(frozen=True, slots=True)
class RenewalsRecovered(Event):
    """Leases are renewed again, `seconds` after `RenewalsLost`, and the worker claims again."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ProgressKept(Event):
    """One call stored the progress of `count` running tasks."""

    count: int


@dataclass(frozen=True, slots=True)
class CancelRequested(Event):
    """A running request was cancelled. Its task is asked to stop."""

    request: LeasedRequest


@dataclass(frozen=True, slots=True)
class EventLoopBlocked(Event):
    """A coroutine has kept the event loop from running for `seconds`; all other tasks wait.

    Attributes:
        request: the request whose task blocks; None if it is not known.
        place: the line in a coroutine that does not return: `file:line in function`.
    """

    request: LeasedRequest | None
    seconds: float
    place: str


@dataclass(frozen=True, slots=True)
class EventLoopFreed(Event):
    """The event loop runs again. It was blocked for `seconds`."""

    request: LeasedRequest | None
    seconds: float


@dataclass(frozen=True, slots=True)
class ChildStarted(Event):
    """A child process is ready to run tasks."""

    slot: int
    pid: int


@dataclass(frozen=True, slots=True)
class ChildDied(Event):
    """A child process ended or was killed. `request` is the request that it ran, or None."""

    slot: int
    pid: int
    how: str
    request: LeasedRequest | None


@dataclass(frozen=True, slots=True)
class WorkerSpawned(Event):
    """A supervisor started one of its workers."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True)
class WorkerDied(Event):
    """A supervised worker ended unexpectedly.

    The worker is replaced after `restart` seconds, or not at all if `restart` is None.
    """

    number: int
    pid: int | None
    how: str
    restart: float | None


@dataclass(frozen=True, slots=True)
class SupervisorStopping(Event):
    """The supervisor asked its workers to drain."""

    grace: timedelta


@dataclass(frozen=True, slots=True)
class StoreLost(Event):
    """The database cannot be reached, or refuses calls. The worker repeats its calls."""

    error: str


@dataclass(frozen=True, slots=True)
class StoreRecovered(Event):
    """The database answers again, `seconds` after `StoreLost`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CallStuck(Event):
    """The database has not answered a call for 10 s, or within the call's deadline.

    The event is not emitted again for the same call and `caller` (a thread) until such a call has
    been answered.
    """

    call: str
    caller: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CallAnswered(Event):
    """The database has answered a stuck call, or the next such call of the same thread.

    `seconds` is the time since the stuck call began.
    """

    call: str
    caller: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ScheduleFired(Event):
    """This worker enqueued the request for one firing of a schedule."""

    schedule: str
    time: datetime
    request_id: int | None


@dataclass(frozen=True, slots=True)
class ScheduleNotFired(Event):
    """A due schedule cannot be fired. Workers try again; each worker emits each error once."""

    schedule: str
    error: str


@dataclass(frozen=True, slots=True)
class HousekeepingRefused(Event):
    """The database refused a heartbeat, a call for schedules, or a step of `maintain`.

    The call is repeated; the other steps of `maintain` are done. The event is emitted once for
    each error text.
    """

    error: str


@dataclass(frozen=True, slots=True)
class IdsAdvanced(Event):
    """The database would have handed out ids again. The worker has advanced the sequence."""

    sequence_name: str
    was: int
    next_id: int


@dataclass(frozen=True, slots=True)
class NotificationsLost(Event):
    """The listening connection was lost. An idle worker polls until it is connected again."""

    error: str


Subscriber = Callable[[Event], object]


class Events:
    """Passes events to subscribers.

    A subscriber is called in the thread that emits the event. It must be thread-safe, because
    several threads emit events. It should be quick, because the thread waits for it. Exceptions of
    a subscriber are logged and not raised.
    """

    def __init__(self) -> None:
        self._subscribers: dict[type[Event], tuple[Subscriber, ...]] = {}

    def subscribe(self, subscriber: Subscriber, *kinds: type[Event]) -> None:
        """Call `subscriber` with every event of these kinds; without kinds, with every event.

        Name only the kinds that you need, because an event without a subscriber costs nothing.
        `Started` and `Finished` cost about a microsecond for each request. Subscribe before the
        worker runs.
        """
        for kind in kinds or Event.__subclasses__():
            self._subscribers[kind] = (*self._subscribers.get(kind, ()), subscriber)

    def has_subscriber(self, kind: type[Event]) -> bool:
        """True if events of this kind have a subscriber."""
        return kind in self._subscribers

    def emit(self, event: Event) -> None:
        """Call the subscribers to events of this kind."""
        for subscriber in self._subscribers.get(type(event), ()):
            try:
                subscriber(event)
            except Exception:
                logger.exception("a subscriber to %s failed", type(event).__name__)
