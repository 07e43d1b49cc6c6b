"""Finds requests by what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

from rowlease.errors import InvalidRequest
from rowlease.model import DURATION, TEXT, Found, TypeRule, check_type, shown
from rowlease.requests import known
from rowlease.store import Store
from rowlease.tasks import Task

#: What a request can be.
STATUSES = ("Scheduled", "Pending", "Processing", "Failed", "Complete", "Cancelled")
#: How many requests one call may return.
MOST = 10_000
TIME: TypeRule = (datetime, type(None)), "it must be a datetime with a time zone"


class Filter(TypedDict, total=False):
    """What requests must have in common. A filter that is left out, or None, allows any.

    Attributes:
        queue: the queue's name.
        status: `Scheduled`, `Pending`, `Processing`, `Failed`, `Complete` or `Cancelled`, in any
            case; or several of them.
        kind: a task, or its name.
        error: part of the last error, in any case.
        dedup_key, group_key: the whole key.
        min_age, max_age: the time since the request was enqueued, by the database's clock.
        since, until: when it was enqueued, with time zone. A request of a load is enqueued when
            the load is promoted.
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


#: The types of the filters that have one.
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
    """The words as the database has them.

    Raises:
        InvalidRequest: a word is no status.
    """
    for one in given:
        if not isinstance(one, str) or one.capitalize() not in STATUSES:
            raise InvalidRequest(f"status is {shown(one)}; it must be one of {', '.join(STATUSES)}")
    return [one.capitalize() for one in given]
