"""The request of a running task, as fields of the records that the task logs."""

from __future__ import annotations

import logging
from datetime import timedelta

from rowlease.context import running

#: The fields, in the order in which lines of text show them. Events have the same names.
FIELDS = ("request_id", "queue_name", "kind", "attempt", "load_id")


def request_fields() -> dict[str, object]:
    """The fields of the request that this code runs for; empty if no task runs it."""
    context = running.get(None)
    if context is None:
        return {}
    fields = {name: getattr(context, name) for name in FIELDS}
    if fields["load_id"] is None:
        del fields["load_id"]
    return fields


def loggers() -> list[logging.Logger]:
    """All loggers of this process, except the root."""
    known = list(logging.root.manager.loggerDict.values())
    return [one for one in known if isinstance(one, logging.Logger)]


def plain(value: object) -> object:
    """The JSON value for a value of another type: seconds for a duration, else text."""
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


class RequestFields(logging.Filter):
    """Adds the request of the running task to each record: request_id, queue_name, kind, attempt.

    The requests of a load or of a batch also have load_id. `rowlease worker` has this filter. In a
    program of your own, add it to your handler: `handler.addFilter(RequestFields())`. A field that
    the record has already, from `extra`, stays as it is.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in request_fields().items():
            vars(record).setdefault(name, value)
        return True
