"""Lists waiting requests, and makes assertions about them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from rowlease.filters.filter import Filter
from rowlease.tasks import codec
from rowlease.tasks.task import Task
from rowlease.testing.where import Where, store_of

#: The maximum number of requests that are read.
MAX_READ = 1000
#: The maximum number of requests of each table that are looked at.
MAX_LOOKED_AT = 1_000_000
#: The maximum number of requests that a failed assertion shows.
MAX_SHOWN = 20
WAITING = ["Scheduled", "Pending"]


class Waiting(NamedTuple):
    """A waiting request. The payload is decoded from JSON."""

    request_id: int
    kind: str
    payload: Any
    queue: str
    status: str
    priority: int
    due_time: datetime
    dedup_key: str | None
    group_key: str | None


class _Anything:
    def __repr__(self) -> str:
        return "anything"


ANYTHING: Any = _Anything()


def enqueued(
    where: Where,
    kind: Task[..., Any] | str | None = None,
    payload: Any = ANYTHING,
    *,
    queue: str | None = None,
) -> list[Waiting]:
    """The waiting requests (Scheduled or Pending), in the order in which they were enqueued.

    At most 1,000 waiting requests of the kind and queue are read, the newest.

    Args:
        where: an open Client, AsyncClient or Store.
        kind: only requests for this task. Give the task or its name.
        payload: only requests with this payload. A mapping also matches payloads with more keys.
        queue: only requests in this queue.
    """
    name = kind.name if isinstance(kind, Task) else kind
    found = []
    wanted: Filter = {"status": WAITING}
    if queue is not None:
        wanted["queue"] = queue
    if name is not None:
        wanted["kind"] = name
    rows = store_of(where).find_requests(limit=MAX_READ, look=MAX_LOOKED_AT, **wanted).requests
    for row in reversed(rows):
        found_payload = None if row.payload is None else json.loads(row.payload)
        if payload is ANYTHING or _holds(found_payload, payload):
            found.append(
                Waiting(row.request_id, row.kind, found_payload, row.queue_name, row.status,
                        row.priority, row.due_time, row.dedup_key, row.group_key)
            )  # fmt: skip
    return found


def assert_enqueued(
    where: Where,
    kind: Task[..., Any] | str | None = None,
    payload: Any = ANYTHING,
    *,
    queue: str | None = None,
    count: int | None = None,
) -> list[Waiting]:
    """Fail unless at least one matching request waits, or exactly `count` of them.

    Args:
        where: the same as for `enqueued`.
        kind: the same as for `enqueued`.
        payload: the same as for `enqueued`.
        queue: the same as for `enqueued`.
        count: the expected number of requests; None means at least one.

    Returns:
        The requests.

    Raises:
        AssertionError: the number of requests is wrong. The message lists the waiting requests.
    """
    __tracebackhide__ = True
    found = enqueued(where, kind, payload, queue=queue)
    if (len(found) != count) if count is not None else not found:
        wanted = "a waiting request" if count is None else f"{count} waiting requests"
        raise AssertionError(
            f"expected {wanted} {_wanted(kind, payload, queue)}; found {len(found)}; "
            + _all_waiting(where)
        )
    return found


def refute_enqueued(
    where: Where,
    kind: Task[..., Any] | str | None = None,
    payload: Any = ANYTHING,
    *,
    queue: str | None = None,
) -> None:
    """Fail if a matching request waits. The arguments are the same as for `enqueued`.

    Raises:
        AssertionError: a request waits. The message lists the waiting requests.
    """
    __tracebackhide__ = True
    if found := enqueued(where, kind, payload, queue=queue):
        raise AssertionError(
            f"expected no waiting request {_wanted(kind, payload, queue)}; found {len(found)}; "
            + _all_waiting(where)
        )


def _holds(found: Any, wanted: Any) -> bool:
    # Compare JSON values. JSON has lists for tuples, and strings for datetimes and for keys.
    wanted = json.loads(codec.encode(wanted))
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key in found and _holds(found[key], value) for key, value in wanted.items())
    return bool(found == wanted)


def _wanted(kind: Task[..., Any] | str | None, payload: Any, queue: str | None) -> str:
    name = kind.name if isinstance(kind, Task) else kind
    of = "of any kind" if name is None else f"of kind {name!r}"
    given = "" if payload is ANYTHING else f" with payload {payload!r}"
    return f"{of}{given}" + ("" if queue is None else f" in queue {queue!r}")


def _all_waiting(where: Where) -> str:
    rows = enqueued(where)
    if not rows:
        return "no request waits"
    lines = [
        f"  {row.request_id} {row.kind} {json.dumps(row.payload)} in {row.queue}, {row.status}"
        + (f" for {row.due_time:%Y-%m-%d %H:%M:%S} UTC" if row.status == "Scheduled" else "")
        for row in rows[:MAX_SHOWN]
    ]
    more = [f"  ... and {len(rows) - MAX_SHOWN} more"] if len(rows) > MAX_SHOWN else []
    return "\n".join(["waiting requests:", *lines, *more])
