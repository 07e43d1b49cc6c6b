"""Filters of requests as typed values, and as JSON for the routines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from rowlease.errors import InvalidRequest
from rowlease.model import DURATION, TEXT, TypeRule, check_type, short_repr
from rowlease.tasks.requests import check_names
from rowlease.tasks.task import Task

#: All statuses that a request can have.
STATUSES = ("Scheduled", "Pending", "Processing", "Failed", "Complete", "Cancelled")
#: The maximum number of ids in a filter. The routines have the same limit.
MAX_IDS = 10_000
#: The largest request id, and the largest whole number in a filter: the maximum of a bigint.
MAX_BIGINT = 2**63 - 1


#: Texts without NUL and lone surrogates.
STORABLE = re.compile("[^\0\ud800-\udfff]*")


class Filter(TypedDict, total=False):
    """The filters of `Client.find`. A key that is missing or None does not limit the requests.

    Keys:
        queue: the name of the queue.
        status: `Scheduled`, `Pending`, `Processing`, `Failed`, `Complete` or `Cancelled`, or
            several of these. Case does not matter.
        kind: the task, or its name.
        error: a part of the last error. Case does not matter.
        error_pattern: the whole first line of the last error, with `#` for each run of digits, cut
            to 200 characters: the error of a group of dead letters.
        dedup_key, group_key: the whole key.
        load_id: the id of the load with which the request was enqueued.
        worker: the worker that runs the request or has completed it: its whole id, or its host, or
            its host and process id, such as `host1` or `host1:4711`.
        ids: the ids of at most 10,000 requests.
        min_priority, max_priority: the smallest and the largest priority.
        min_age, max_age: the shortest and the longest time since the request was enqueued, by the
            database's clock.
        since, until: the earliest and the latest time, with a time zone, at which the request was
            enqueued. The requests of a load are enqueued when the load is promoted.
    """

    queue: str | None
    status: str | Sequence[str] | None
    kind: str | Task[..., Any] | None
    error: str | None
    error_pattern: str | None
    dedup_key: str | None
    group_key: str | None
    load_id: str | None
    worker: str | None
    ids: Sequence[int] | None
    min_priority: int | None
    max_priority: int | None
    min_age: timedelta | None
    max_age: timedelta | None
    since: datetime | None
    until: datetime | None


WHOLE: TypeRule = (int, type(None)), "it must be a whole number"
TIME_RULE: TypeRule = (datetime, type(None)), "it must be a datetime with a time zone"
#: The type rules of all filters except `status`, `kind` and `ids`.
RULES: dict[str, TypeRule] = {
    **dict.fromkeys(
        ("queue", "error", "error_pattern", "dedup_key", "group_key", "load_id", "worker"), TEXT
    ),
    **dict.fromkeys(("min_priority", "max_priority"), WHOLE),
    **dict.fromkeys(("min_age", "max_age"), DURATION),
    **dict.fromkeys(("since", "until"), TIME_RULE),
}


def to_json(given: Filter) -> str:
    """The filter as the routines take it: JSON, with durations in milliseconds and times in UTC.

    Raises:
        TypeError: the name of a filter is unknown.
        InvalidRequest: a value is wrong.
    """
    check_names(given, tuple(Filter.__annotations__))
    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, rule in RULES.items():
        check_type(name, found.get(name), rule)
    for name in ("since", "until"):
        if time := found.get(name):
            found[name] = in_utc(name, time)
    for name in ("min_age", "max_age"):
        if (age := found.pop(name, None)) is not None:
            found[f"{name}_ms"] = round(age / timedelta(milliseconds=1))
    if "kind" in found:
        kind = found["kind"] = getattr(found["kind"], "name", found["kind"])
        check_type("kind", kind, ((str,), "it must be a task or its name"))
    if "status" in found:
        found["status"] = statuses(found["status"])
    if "ids" in found:
        found["ids"] = ids(found["ids"])
    for name, value in found.items():
        if isinstance(value, str) and not STORABLE.fullmatch(value):
            raise InvalidRequest(f"{name} has a character that no database stores")
    return json.dumps(found, ensure_ascii=False)


def in_utc(name: str, time: datetime) -> str:
    """The time in UTC, as the routines take it.

    Raises:
        InvalidRequest: it has no time zone, or is outside the calendar in UTC.
    """
    if time.tzinfo is None:
        raise InvalidRequest(f"{name} is {time}; it must have a time zone")
    try:
        return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
    except OverflowError:
        raise InvalidRequest(f"{name} is {time}; in UTC it is outside the calendar") from None


def statuses(given: str | Sequence[str]) -> list[str]:
    """The statuses, spelled as in the database.

    Raises:
        InvalidRequest: a value is not a status.
    """
    several = [given] if isinstance(given, str) else given
    for one in several:
        if not isinstance(one, str) or one.capitalize() not in STATUSES:
            raise InvalidRequest(
                f"status is {short_repr(one)}; it must be one of {', '.join(STATUSES)}"
            )
    return [one.capitalize() for one in several]


def ids(given: Sequence[int]) -> list[int]:
    """The ids of requests, after a check.

    Raises:
        InvalidRequest: a value is not an id, or there are too many.
    """
    found = list(given)
    for one in found:
        if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one <= MAX_BIGINT:
            raise InvalidRequest(f"ids has {short_repr(one)}; a request's id is a whole number")
    if len(found) > MAX_IDS:
        raise InvalidRequest(f"ids has {len(found):,} ids; {MAX_IDS:,} are allowed in a call")
    return found
