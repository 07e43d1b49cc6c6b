"""Writes events to the logger `rowlease`: the level and the fields of each."""

from __future__ import annotations

import logging
import re
from dataclasses import fields

from rowlease.events import (
    CallAnswered,
    CallStuck,
    Cancelled,
    ChildDied,
    Disowned,
    Event,
    EventLoopBlocked,
    EventLoopFreed,
    Events,
    Failed,
    HousekeepingRefused,
    IdsAdvanced,
    KindShared,
    KindUnknown,
    LeaseLostEvent,
    NotificationsLost,
    OutcomeRefused,
    QueueLeftOut,
    RenewalsLost,
    RenewalsRecovered,
    ScheduleNotFired,
    StoreLost,
    StoreRecovered,
    SupervisorStopping,
    WorkerDied,
    WorkerSpawned,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from rowlease.model import LeasedRequest
from rowlease.visible import visible

logger = logging.getLogger("rowlease")

#: Text that needs no quotes in a line.
UNQUOTED = re.compile(r"[^\s='\"]+")

#: Log levels of events. An event that is not listed has the level DEBUG.
LEVELS: dict[type[Event], int] = {
    QueueLeftOut: logging.WARNING,
    WorkerStarted: logging.INFO,
    WorkerStopping: logging.INFO,
    WorkerStopped: logging.INFO,
    Failed: logging.WARNING,
    Cancelled: logging.INFO,
    LeaseLostEvent: logging.WARNING,
    KindShared: logging.WARNING,
    KindUnknown: logging.WARNING,
    Disowned: logging.WARNING,
    OutcomeRefused: logging.WARNING,
    RenewalsLost: logging.WARNING,
    RenewalsRecovered: logging.INFO,
    ChildDied: logging.WARNING,
    EventLoopBlocked: logging.WARNING,
    EventLoopFreed: logging.WARNING,
    WorkerSpawned: logging.INFO,
    WorkerDied: logging.WARNING,
    SupervisorStopping: logging.INFO,
    StoreLost: logging.WARNING,
    CallStuck: logging.WARNING,
    CallAnswered: logging.INFO,
    ScheduleNotFired: logging.WARNING,
    NotificationsLost: logging.WARNING,
    HousekeepingRefused: logging.WARNING,
    IdsAdvanced: logging.WARNING,
    StoreRecovered: logging.INFO,
}


def logged_events() -> Events:
    """New events that are logged; see `log_to`."""
    events = Events()
    log_to(events)
    return events


def log_to(events: Events) -> None:
    """Write events to the logger `rowlease`, each as a line `event key=value ...`.

    Payloads are not written. Text with a space, `=` or a quote is quoted, and a character that
    cannot be seen is written as an escape. The fields are also attributes of the log record, for
    formatters that write JSON. If the logger does not log DEBUG at the time of this call, events
    with the level DEBUG are not subscribed to.
    """
    everything = logger.isEnabledFor(logging.DEBUG)
    events.subscribe(log, *([] if everything else LEVELS))


def log(event: Event) -> None:
    """Write one event to the logger `rowlease`."""
    name = re.sub(r"(?<!^)(?=[A-Z])", " ", type(event).__name__).lower()
    shown = dict(
        pair for field in fields(event) for pair in _shown(field.name, getattr(event, field.name))
    )
    line = " ".join([name, *(f"{key}={quoted(value)}" for key, value in shown.items())])
    extra = {"event": name.replace(" ", "_"), **shown}
    logger.log(LEVELS.get(type(event), logging.DEBUG), "%s", line, extra=extra)


def quoted(value: object) -> str:
    """The value in a line, where it cannot be taken for another field or line."""
    is_text = isinstance(value, str) and not UNQUOTED.fullmatch(value)
    return visible(repr(value) if is_text else str(value))


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
    if name == "traceback":
        return []
    if name == "error" and isinstance(value, str):
        return [(name, value.partition("\n")[0][:300])]
    if isinstance(value, float):
        return [(name, round(value, 6))]
    return [(name, value)] if value is not None else []
