"""The events of a worker, for logs, metrics, progress displays and tests."""

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
    """The base of all events."""


@dataclass(frozen=True, slots=True)
class QueueLeftOut(Event):
    """Tasks of this worker name a queue that it does not claim from; `tasks` are their names."""

    queue: str
    tasks: str


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    """The slots of the worker are ready; it claims from now on."""

    worker_id: str
    queues: tuple[str, ...]
    slots: int


@dataclass(frozen=True, slots=True)
class WorkerStopping(Event):
    """The worker claims no more; running tasks may finish within the grace time."""

    worker_id: str
    grace: timedelta


@dataclass(frozen=True, slots=True)
class WorkerStopped(Event):
    """The worker has ended; `undelivered` outcomes did not reach the database before that."""

    worker_id: str
    undelivered: int


@dataclass(frozen=True, slots=True)
class WorkerIdle(Event):
    """The worker sleeps until a notification, or until the next request is due."""

    announced: bool


@dataclass(frozen=True, slots=True)
class Claimed(Event):
    """Requests were leased, in one call."""

    requests: tuple[LeasedRequest, ...]


@dataclass(frozen=True, slots=True)
class Started(Event):
    """A slot runs a request."""

    request: LeasedRequest


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """A request was completed in the database."""

    request: LeasedRequest
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """A failed attempt was recorded; `dead` if the request became a dead letter."""

    request: LeasedRequest
    seconds: float
    error: str
    dead: bool


@dataclass(frozen=True, slots=True)
class Abandoned(Event):
    """A request was abandoned; no attempt is counted."""

    request: LeasedRequest


@dataclass(frozen=True, slots=True)
class KindUnknown(Event):
    """Requests of a kind unknown to this worker were declined; `dead` if they became dead letters.

    Emitted once for each kind of a queue, and once more when there are dead letters.
    """

    queue_name: str
    kind: str
    dead: bool


@dataclass(frozen=True, slots=True)
class Disowned(Event):
    """The leases of a claim whose answer was lost were given up; no attempt is counted."""

    count: int


@dataclass(frozen=True, slots=True)
class OutcomeRefused(Event):
    """The database refused the outcome of a request; its lease runs out."""

    request: LeasedRequest
    error: str


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """Another worker may own the request: what this worker did with it does not count."""

    request: LeasedRequest
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Renewed(Event):
    """Leases were renewed, in one call."""

    count: int


@dataclass(frozen=True, slots=True)
class RenewalsLost(Event):
    """Renewing leases failed or was not answered; nothing is claimed until it succeeds again."""

    call: str
    since: datetime
    error: str


@dataclass(frozen=True, slots=True)
class RenewalsRecovered(Event):
    """Leases can be renewed again; requests are claimed again."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ProgressKept(Event):
    """The progress of running tasks was stored, in one call."""

    count: int


@dataclass(frozen=True, slots=True)
class CancelRequested(Event):
    """A running request was cancelled; its task is asked to stop."""

    request: LeasedRequest


@dataclass(frozen=True, slots=True)
class ChildStarted(Event):
    """A child process is ready to run tasks."""

    slot: int
    pid: int


@dataclass(frozen=True, slots=True)
class ChildDied(Event):
    """A child process ended or was killed; `request` is the one it was running, if any."""

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
    """A supervised worker ended unexpectedly; it is replaced after `restart` seconds, if any."""

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
    """The database cannot be reached or refuses calls for now; calls are repeated."""

    error: str


@dataclass(frozen=True, slots=True)
class StoreRecovered(Event):
    """The database answers again."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CallStuck(Event):
    """The database has not answered a call for 10 s, or within the call's deadline.

    Emitted once for each kind of call and `caller` (a thread), until such a call is answered.
    """

    call: str
    caller: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CallAnswered(Event):
    """The database answers a call again that was stuck; `seconds` since that one began."""

    call: str
    caller: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ScheduleFired(Event):
    """This worker enqueued a firing of a schedule."""

    schedule: str
    time: datetime
    request_id: int | None


@dataclass(frozen=True, slots=True)
class ScheduleNotFired(Event):
    """A due schedule cannot be fired; the worker tries again, and emits this once."""

    schedule: str
    error: str


@dataclass(frozen=True, slots=True)
class HousekeepingRefused(Event):
    """The database refused a heartbeat or `maintain`; the call is repeated, this event is not."""

    error: str


@dataclass(frozen=True, slots=True)
class NotificationsLost(Event):
    """The listening connection is lost: an idle worker polls until there is a new one."""

    error: str


Subscriber = Callable[[Event], object]

#: The log level of each event; all others are DEBUG.
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
    """Passes events to subscribers.

    A subscriber is called in the thread that emits the event, so from several threads at once, and
    that thread waits for it: it should be quick. Its exceptions are logged and not raised.
    """

    def __init__(self) -> None:
        self._subscribers: dict[type[Event], tuple[Subscriber, ...]] = {}

    def subscribe(self, subscriber: Subscriber, *kinds: type[Event]) -> None:
        """Call `subscriber` with every event of these kinds; with every event if none is named.

        Events without a subscriber are not made. Name the kinds that you need: `Started` and
        `Finished` cost about a microsecond for each request. Subscribe before the worker runs.
        """
        for kind in kinds or Event.__subclasses__():
            self._subscribers[kind] = (*self._subscribers.get(kind, ()), subscriber)

    def has_subscriber(self, kind: type[Event]) -> bool:
        """Whether this kind of event has a subscriber."""
        return kind in self._subscribers

    def emit(self, event: Event) -> None:
        """Call the subscribers to the event's kind."""
        for subscriber in self._subscribers.get(type(event), ()):
            try:
                subscriber(event)
            except Exception:
                logger.exception("a subscriber to %s failed", type(event).__name__)


def log_to(events: Events) -> None:
    """Write events to the logger `rowlease`: one line each, `event key=value ...`, no payloads.

    The fields are also attributes of the log record, for formatters that write JSON. Kinds that
    the logger's level drops at the time of this call are not subscribed to.
    """
    everything = logger.isEnabledFor(logging.DEBUG)
    events.subscribe(log, *([] if everything else LEVELS))


def log(event: Event) -> None:
    """Write one event to the logger `rowlease`."""
    name = re.sub(r"(?<!^)(?=[A-Z])", " ", type(event).__name__).lower()
    shown = dict(
        pair for field in fields(event) for pair in _shown(field.name, getattr(event, field.name))
    )
    line = " ".join([name, *(f"{key}={_quoted(key, value)}" for key, value in shown.items())])
    extra = {"event": name.replace(" ", "_"), **shown}
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
