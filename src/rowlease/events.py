"""What happens inside a worker, as values: the one seam for logs, metrics, progress and tests."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta

from rowlease.model import LeasedRequest, Outcome

logger = logging.getLogger("rowlease")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; see the subclasses."""


@dataclass(frozen=True, slots=True)
class QueueLeftOut(Event):
    """Tasks of this worker name a queue that it was told not to listen to; `tasks` are names."""

    queue: str
    tasks: str


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    """Its slots are warm; it claims from now on."""

    worker_id: str
    queues: tuple[str, ...]
    slots: int


@dataclass(frozen=True, slots=True)
class WorkerStopping(Event):
    """It claims no more; running tasks have the grace time to finish."""

    worker_id: str
    grace: timedelta


@dataclass(frozen=True, slots=True)
class WorkerStopped(Event):
    """It has left; `undelivered` outcomes did not reach the database (their leases run out)."""

    worker_id: str
    undelivered: int


@dataclass(frozen=True, slots=True)
class WorkerIdle(Event):
    """The queues are empty and slots are free: it sleeps until a notification or a time comes."""

    announced: bool


@dataclass(frozen=True, slots=True)
class Claimed(Event):
    """Requests were leased, in one call."""

    requests: tuple[LeasedRequest, ...]


@dataclass(frozen=True, slots=True)
class Started(Event):
    """A slot has taken up a request."""

    request: LeasedRequest


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """A request is complete, and the database knows."""

    request: LeasedRequest
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """An attempt failed, and the database knows; `dead`: the request is a dead letter now."""

    request: LeasedRequest
    seconds: float
    error: str
    dead: bool


@dataclass(frozen=True, slots=True)
class Abandoned(Event):
    """A request was handed back; no attempt is counted."""

    request: LeasedRequest


@dataclass(frozen=True, slots=True)
class KindUnknown(Event):
    """Requests of a kind that this worker does not know were handed back, or are dead letters now.

    Told once for each kind of a queue, and once more when there are dead letters.
    """

    queue_name: str
    kind: str
    dead: bool


@dataclass(frozen=True, slots=True)
class Disowned(Event):
    """Requests were handed back that a claim had leased whose answer was lost."""

    count: int


@dataclass(frozen=True, slots=True)
class OutcomeRefused(Event):
    """The database refused to take down what became of a request; its lease runs out."""

    request: LeasedRequest
    error: str


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """Somebody else owns the request, or may: what this worker did with it does not count."""

    request: LeasedRequest
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Renewed(Event):
    """Leases were prolonged, in one call."""

    count: int


@dataclass(frozen=True, slots=True)
class RenewalsLost(Event):
    """A call that renews leases failed or was not answered; nothing is claimed until one passes."""

    call: str
    since: datetime
    error: str


@dataclass(frozen=True, slots=True)
class RenewalsRecovered(Event):
    """Leases can be renewed again, and requests are claimed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ProgressKept(Event):
    """What running tasks have said of their progress was written down, in one call."""

    count: int


@dataclass(frozen=True, slots=True)
class CancelRequested(Event):
    """Somebody wants a running request to stop."""

    request: LeasedRequest


@dataclass(frozen=True, slots=True)
class ChildStarted(Event):
    """A child process is ready to run tasks."""

    slot: int
    pid: int


@dataclass(frozen=True, slots=True)
class ChildDied(Event):
    """A child process ended, by itself or killed; `request` is what it was running, if anything."""

    slot: int
    pid: int
    how: str
    request: LeasedRequest | None


@dataclass(frozen=True, slots=True)
class WorkerSpawned(Event):
    """A supervisor has started one of its workers."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True)
class WorkerDied(Event):
    """A supervisor's worker ended unasked; another is started after `restart` seconds, if any."""

    number: int
    pid: int | None
    how: str
    restart: float | None


@dataclass(frozen=True, slots=True)
class SupervisorStopping(Event):
    """The supervisor has told its workers to drain."""

    grace: timedelta


@dataclass(frozen=True, slots=True)
class StoreLost(Event):
    """The database cannot be reached or refuses for now; calls are made again."""

    error: str


@dataclass(frozen=True, slots=True)
class StoreRecovered(Event):
    """The database answers again."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CallStuck(Event):
    """The database has not answered a call for 10 s, or within its deadline; `caller` is a thread.

    It is told once, until the database answers such a call again.
    """

    call: str
    caller: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CallAnswered(Event):
    """The database answers a call again that was stuck; `seconds` since the first one began."""

    call: str
    caller: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ScheduleFired(Event):
    """A schedule's firing was enqueued, by this worker."""

    schedule: str
    time: datetime
    request_id: int | None


@dataclass(frozen=True, slots=True)
class ScheduleNotFired(Event):
    """A schedule is due and cannot be fired; it is tried again, and told once."""

    schedule: str
    error: str


@dataclass(frozen=True, slots=True)
class HousekeepingRefused(Event):
    """The database refused a heartbeat or `maintain`; it is tried again, and told once."""

    error: str


@dataclass(frozen=True, slots=True)
class NotificationsLost(Event):
    """The listening connection is lost: an idle worker polls until there is a new one."""

    error: str


Subscriber = Callable[[Event], object]

#: Where a line in the log is worth it at once. The rest are details.
LEVELS: dict[type[Event], int] = {
    QueueLeftOut: logging.WARNING,
    WorkerStarted: logging.INFO,
    WorkerStopping: logging.INFO,
    WorkerStopped: logging.INFO,
    Failed: logging.WARNING,
    LeaseLost: logging.WARNING,
    KindUnknown: logging.WARNING,
    Disowned: logging.WARNING,
    OutcomeRefused: logging.WARNING,
    RenewalsLost: logging.WARNING,
    RenewalsRecovered: logging.INFO,
    ChildDied: logging.WARNING,
    WorkerSpawned: logging.INFO,
    WorkerDied: logging.WARNING,
    SupervisorStopping: logging.INFO,
    StoreLost: logging.WARNING,
    CallStuck: logging.WARNING,
    CallAnswered: logging.INFO,
    ScheduleNotFired: logging.WARNING,
    NotificationsLost: logging.WARNING,
    HousekeepingRefused: logging.WARNING,
    StoreRecovered: logging.INFO,
}


class Events:
    """Tells subscribers what happens.

    A subscriber is called in the thread where the thing happened, so from several threads at once,
    and the worker waits for it: it should be quick. What it raises is logged and goes no further.
    """

    def __init__(self) -> None:
        self._subscribers: dict[type[Event], tuple[Subscriber, ...]] = {}

    def subscribe(self, subscriber: Subscriber, *kinds: type[Event]) -> None:
        """Call `subscriber` with every event of these kinds; with every event if none is named.

        Events of a kind that nobody asked for are not even made: name what is needed, because
        `Started` and `Finished` cost about a microsecond for each request. Subscribe before the
        worker runs.
        """
        for kind in kinds or Event.__subclasses__():
            self._subscribers[kind] = (*self._subscribers.get(kind, ()), subscriber)

    def wants(self, kind: type[Event]) -> bool:
        """Has anybody subscribed to this kind?"""
        return kind in self._subscribers

    def emit(self, event: Event) -> None:
        """Call everybody who subscribed to the event's kind."""
        for subscriber in self._subscribers.get(type(event), ()):
            try:
                subscriber(event)
            except Exception:
                logger.exception("a subscriber to %s failed", type(event).__name__)


def log_to(events: Events) -> None:
    """Write events to the logger `rowlease`: one line each, `event key=value ...`, no payloads.

    The fields also travel as attributes of the log record, for formatters that write JSON. Kinds
    the logger's level drops at this moment are not subscribed to.
    """
    everything = logger.isEnabledFor(logging.DEBUG)
    events.subscribe(log, *([] if everything else LEVELS))


def log(event: Event) -> None:
    """Write one event to the logger `rowlease`."""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(event).__name__).lower()
    said = dict(
        pair for field in fields(event) for pair in _shown(field.name, getattr(event, field.name))
    )
    line = " ".join([words, *(f"{key}={_quoted(key, value)}" for key, value in said.items())])
    extra = {"event": words.replace(" ", "_"), **said}
    logger.log(LEVELS.get(type(event), logging.DEBUG), "%s", line, extra=extra)


def _quoted(key: str, value: object) -> object:
    return repr(value) if key == "error" else value


def _shown(name: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, LeasedRequest):
        return [
            ("request_id", value.request_id),
            ("queue_name", value.queue_name),
            ("kind", value.kind),
            ("attempt", value.num_attempts),
        ]
    if name == "requests" and isinstance(value, tuple):
        return [("count", len(value))]
    if name == "error" and isinstance(value, str):
        return [(name, value.partition("\n")[0][:300])]
    if isinstance(value, float):
        return [(name, round(value, 6))]
    return [(name, value)] if value is not None else []
