"""Finds requests that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

from rowlease.errors import InvalidRequest
from rowlease.model import DURATION, TEXT, Found, TypeRule, check_type, shown
from rowlease.requests import known
from rowlease.store import Store
from rowlease.tasks import Task

#: All statuses that a request can have.
STATUSES = ("Scheduled", "Pending", "Processing", "Failed", "Complete", "Cancelled")
#: The maximum number of requests that one call returns.
MOST = 10_000
TIME: TypeRule = (datetime, type(None)), "it must be a datetime with a time zone"


class Filter(TypedDict, total=False):
    """The filters of `Client.find`. A key that is missing or None does not limit the requests.

    Keys:
        queue: the name of the queue.
        status: `Scheduled`, `Pending`, `Processing`, `Failed`, `Complete` or `Cancelled`, or
            several of these. Case does not matter.
        kind: the task, or its name.
        error: a part of the last error. Case does not matter.
        dedup_key, group_key: the whole key.
        min_age, max_age: the shortest and the longest time since the request was enqueued, by the
            database's clock.
        since, until: the earliest and the latest time, with a time zone, at which the request was
            enqueued. The requests of a load are enqueued when the load is promoted.
    """

    queue: str | None
    status: str | Sequence[str] | None
    kind: str | Task[..., Any] | None
    error: str | None
    dedup_key: str | None
    group_key: str | None
    min_age: timedelta | None
    max_age: timedelta | None
    since: datetime | None
    until: datetime | None


#: The type rules of all filters except `status` and `kind`.
RULES: dict[str, TypeRule] = {
    **dict.fromkeys(("queue", "error", "dedup_key", "group_key"), TEXT),
    **dict.fromkeys(("min_age", "max_age"), DURATION),
    **dict.fromkeys(("since", "until"), TIME),
}


def find(store: Store, limit: int, after: int | None, given: Filter) -> Found:
    """See `Client.find`."""
    known(given, tuple(Filter.__annotations__))
    filters: dict[str, Any] = dict(given)
    for name, rule in RULES.items():
        check_type(name, filters.get(name), rule)
    for name in ("since", "until"):
        if (time := filters.get(name)) is not None and time.tzinfo is None:
            raise InvalidRequest(f"{name} is {time}; it must have a time zone")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise InvalidRequest(f"limit is {shown(limit)}; it must be from 1 to {MOST:,}")
    check_type("after", after, ((int, type(None)), "it must be what an earlier call returned"))
    kind = filters.pop("kind", None)
    status = filters.pop("status", None)
    return store.find_requests(
        **filters,
        kind=kind.name if isinstance(kind, Task) else kind,
        statuses=None
        if status is None
        else statuses([status] if isinstance(status, str) else status),
        limit=limit,
        after=after,
    )


def statuses(given: Sequence[str]) -> list[str]:
    """The statuses, spelled as in the database.

    Raises:
        InvalidRequest: a value is not a status.
    """
    for one in given:
        if not isinstance(one, str) or one.capitalize() not in STATUSES:
            raise InvalidRequest(f"status is {shown(one)}; it must be one of {', '.join(STATUSES)}")
    return [one.capitalize() for one in given]
