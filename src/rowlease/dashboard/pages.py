"""The pages, and the values that each reads from the database. Every read is bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from rowlease.client.find_requests import MAX_READ_PER_CALL, find
from rowlease.counts import first_line
from rowlease.dashboard import charts, edits, formats, samples
from rowlease.doctor import examine
from rowlease.errors import InvalidRequest
from rowlease.filters.filter import STATUSES
from rowlease.filters.language import parse_integer
from rowlease.model import VERBS, Finding, Found, Request
from rowlease.samples import Sample, rate_now
from rowlease.store import Store

#: The number of requests on a page of the list.
PAGE_LENGTH = 50
#: Seconds after which the search for a page's requests is interrupted. The next page continues it.
SEARCH_SECONDS = 0.1
#: The number of requests of each table that the first step of a search reads; the next read more.
FIRST_LOOK_ROWS = 500
#: The maximum number of rows of the other tables.
MAX_TABLE_ROWS = 100
#: The maximum number of dead letters that are grouped. The view dead_letters has the same limit.
MAX_DEAD_LETTERS = 10_000
#: The number of days that a history may have, and of finished requests that are counted by kind.
DAYS, KINDS = (30, 90), 10_000
#: Seconds for which the findings of the whole database are kept.
EXAMINATION_SECONDS = 30.0


class Examined:
    """The findings of `rowlease doctor`. Visitors at the same time share one examination."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = threading.Lock()
        self._at: float | None = None
        self._found: list[Finding] = []

    def findings(self) -> list[Finding]:
        """The findings, which are at most EXAMINATION_SECONDS old."""
        with self._lock:
            if self._at is None or monotonic() - self._at > EXAMINATION_SECONDS:
                self._found = examine(self._dsn)
                self._at = monotonic()
            return self._found


class Visit(NamedTuple):
    """The arguments of the function that reads a page."""

    store: Store
    samples: samples.Samples
    examined: Examined
    query: QueryParams
    path: Mapping[str, Any]


class QueueRow(NamedTuple):
    """A queue in a table."""

    name: str
    paused: bool
    pending: int
    scheduled: int
    processing: int
    failed: int
    rates: tuple[float, float] | None
    oldest: timedelta | None


class TimelineStep(NamedTuple):
    """A step in the life of a request. `mark` chooses its colour and its sign."""

    time: datetime
    name: str
    detail: str
    mark: str


def overview(view: Visit) -> dict[str, Any]:
    latest = view.samples.latest()
    kept = view.samples.all()
    return {
        "sample": latest,
        "rates": rate_now(kept),
        "charts": _charts(kept),
        "queues": _queue_rows(latest, kept),
        "workers": [one for one in latest.workers if one.is_alive],
        "findings": view.samples.findings,
    }


def queues(view: Visit) -> dict[str, Any]:
    latest = view.samples.latest()
    return {"queues": _queue_rows(latest, view.samples.all())}


def queue(view: Visit) -> dict[str, Any]:
    name = view.query.get("name", "")
    latest = view.samples.latest()
    kept = view.samples.all()
    found = [row for row in _queue_rows(latest, kept) if row.name == name]
    if not found:
        raise HTTPException(404)
    depth = sorted(
        (row for row in latest.depth if row.queue_name == name), key=lambda row: -row.priority
    )
    return {
        "queue": found[0],
        "settings": view.store.show_queue(name),
        "depth": depth,
        "next": view.store.list_ready(name),
        "waits": latest.waits.get(name),
        "charts": _charts(kept, name),
        "workers": [one for one in latest.workers if one.is_alive and name in one.queue_names],
    }


def requests(view: Visit) -> dict[str, Any]:
    text = view.query.get("filter", "").strip()
    context: dict[str, Any] = {"text": text, "wrong": None, "tabs": _tabs(text)}
    try:
        found = _search(view, text)
    except InvalidRequest as error:
        return {**context, "wrong": error, "found": Found([], None)}
    return {**context, "found": found, "statuses": {one.status for one in found.requests}}


def request(view: Visit) -> dict[str, Any]:
    found = _request(view)
    return {
        "request": found,
        "explanation": view.store.explain(found.request_id),
        "steps": _steps(found),
    }


def payload(view: Visit) -> str:
    """A whole payload, result or error, as plain text."""
    field = view.path["field"]
    if field not in ("payload", "result", "last_error"):
        raise HTTPException(404)
    text: str | None = getattr(_request(view), field)
    if text is None:
        raise HTTPException(404)
    return text


def dead_letters(view: Visit) -> dict[str, Any]:
    latest = view.samples.latest()
    return {
        "groups": view.store.list_dead_letters(limit=MAX_TABLE_ROWS),
        "total": latest.total("failed"),
        "counted": MAX_DEAD_LETTERS,
        "most": MAX_TABLE_ROWS,
    }


def workers(view: Visit) -> dict[str, Any]:
    return {
        "workers": [(one, one.is_alive) for one in view.store.list_workers()],
        "leases": view.store.list_leases(limit=MAX_TABLE_ROWS),
        "most": MAX_TABLE_ROWS,
    }


def schedules(view: Visit) -> dict[str, Any]:
    return {"schedules": view.store.list_schedules()}


def loads(view: Visit) -> dict[str, Any]:
    return {
        "loads": view.store.list_loads(limit=MAX_TABLE_ROWS),
        "batches": view.store.list_batches(limit=MAX_TABLE_ROWS),
        "most": MAX_TABLE_ROWS,
    }


def history(view: Visit) -> dict[str, Any]:
    name = view.query.get("queue")
    num_days = _number(view.query.get("days", str(DAYS[0])))
    if num_days not in DAYS:
        raise HTTPException(404)
    days = view.store.list_days(name, days=num_days)
    finished = {one.day: one.num_finished for one in days}
    failures = {one.day: one.num_failures for one in days}
    return {
        "name": name,
        "num_days": num_days,
        "choices": DAYS,
        "today": datetime.now(UTC).date(),
        "days": days,
        "charts": [
            charts.day_chart("finished", "Completed per day", finished, num_days, "bars"),
            charts.day_chart("failures", "Failed attempts per day", failures, num_days, "bars-bad"),
        ]
        if days
        else [],
        "kinds": [] if name else view.store.list_kinds(look=KINDS, limit=MAX_TABLE_ROWS),
        "look": KINDS,
        "most": MAX_TABLE_ROWS,
    }


def edit(make: Callable[[Store, QueryParams], edits.Edit], view: Visit) -> dict[str, Any]:
    return {"edit": make(view.store, view.query)}


def audit(view: Visit) -> dict[str, Any]:
    operations = view.store.list_operations(limit=MAX_TABLE_ROWS)
    return {"operations": operations, "verbs": VERBS, "most": MAX_TABLE_ROWS}


def health(view: Visit) -> dict[str, Any]:
    return {"findings": view.examined.findings()}


#: The path of each page, its template, and the function that makes its values.
PAGES: dict[str, tuple[str, Callable[[Visit], dict[str, Any]]]] = {
    "/": ("overview.html", overview),
    "/queues": ("queues.html", queues),
    "/queue": ("queue.html", queue),
    "/queue/edit": ("edit.html", partial(edit, edits.edit_queue)),
    "/schedules/edit": ("edit.html", partial(edit, edits.edit_schedule)),
    "/requests/new": ("edit.html", partial(edit, edits.edit_request)),
    "/requests": ("requests.html", requests),
    "/requests/{id}": ("request.html", request),
    "/dead-letters": ("dead_letters.html", dead_letters),
    "/workers": ("workers.html", workers),
    "/schedules": ("schedules.html", schedules),
    "/loads": ("loads.html", loads),
    "/history": ("history.html", history),
    "/health": ("health.html", health),
    "/audit": ("audit.html", audit),
}


def _charts(kept: list[Sample], queue: str | None = None) -> list[charts.Chart]:
    made = (charts.depth_chart, charts.rate_chart, charts.wait_chart, charts.failure_chart)
    return [chart(kept, queue) for chart in made]


def _queue_rows(latest: Sample, kept: list[Sample]) -> list[QueueRow]:
    return [
        QueueRow(
            one.queue_name,
            one.paused,
            latest.total("pending", one.queue_name),
            latest.total("scheduled", one.queue_name),
            latest.total("processing", one.queue_name),
            latest.total("failed", one.queue_name),
            rate_now(kept, one.queue_name),
            one.oldest,
        )
        for one in latest.queues
    ]


def _search(view: Visit, text: str) -> Found:
    """The newest requests that match: a page, or as many as are found in the time of a page."""
    after = _number(view.query["after"]) if "after" in view.query else None
    ends, look = monotonic() + SEARCH_SECONDS, FIRST_LOOK_ROWS
    found = find(view.store, text, PAGE_LENGTH, after, {}, look)
    while found.after is not None and len(found.requests) < PAGE_LENGTH and monotonic() < ends:
        look = min(look * 3, MAX_READ_PER_CALL)
        more = find(view.store, text, PAGE_LENGTH - len(found.requests), found.after, {}, look)
        found = Found(found.requests + more.requests, more.after)
    return found


def _tabs(text: str) -> list[tuple[str, str, bool]]:
    """A link for each status: its name, its filter, and whether it is the present filter."""
    words = [word for word in text.split() if not word.lower().startswith("status:")]
    rest = " ".join(words) if '"' not in text else ""
    tabs = [("All", rest, "status:" not in text.lower())]
    for status in STATUSES:
        mine = f"status:{status.lower()}"
        tabs.append((status, f"{mine} {rest}".strip(), mine in text.lower().split()))
    return tabs


def _number(text: str) -> int:
    try:
        return parse_integer(text)
    except ValueError:
        raise HTTPException(404) from None


def _request(view: Visit) -> Request:
    found = view.store.get_request(_number(view.path["id"]))
    if found is None:
        raise HTTPException(404)
    return found


def _steps(found: Request) -> list[TimelineStep]:
    """The steps in the life of a request, the oldest first."""
    steps = [
        TimelineStep(
            found.requested_time, "Enqueued", f"in the queue {found.queue_name}", "waiting"
        )
    ]
    if found.due_time - found.requested_time > timedelta(seconds=1):
        steps.append(TimelineStep(found.due_time, "Due", "", "waiting"))
    for one in found.attempts:
        taken = formats.span(one.ended_time - one.started_time)
        steps.append(
            TimelineStep(
                one.started_time, f"Attempt {one.attempt_number}", one.worker_id, "running"
            )
        )
        error = f": {first_line(one.error)}" if one.error else ""
        steps.append(
            TimelineStep(
                one.ended_time,
                one.outcome.replace("_", " ").capitalize(),
                f"after {taken}{error}",
                "bad",
            )
        )
    if found.status in ("Processing", "Complete") and found.locked_time is not None:
        steps.append(
            TimelineStep(
                found.locked_time, f"Attempt {found.num_attempts}", found.locked_by or "", "running"
            )
        )
    if found.cancel_time is not None:
        steps.append(
            TimelineStep(found.cancel_time, "Cancel requested", f"by {found.cancelled_by}", "bad")
        )
    if found.completion_time is not None:
        taken = formats.span(found.completion_time - found.requested_time)
        mark = "good" if found.status == "Complete" else "bad"
        name = "Dead letter" if found.status == "Failed" else found.status
        steps.append(
            TimelineStep(found.completion_time, name, f"{taken} after it was enqueued", mark)
        )
    return sorted(steps, key=lambda step: step.time)
