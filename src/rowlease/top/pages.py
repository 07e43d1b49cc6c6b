"""The pages of `rowlease top` beside the overview. Each reads the database, and lists rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from rowlease.client.find_requests import find
from rowlease.counts import counted, first_line
from rowlease.durations import format_duration
from rowlease.errors import InvalidRequest
from rowlease.filters.language import quote
from rowlease.model import Request
from rowlease.store import Store
from rowlease.top.navigation import View

#: The maximum number of rows that a page reads.
MAX_ROWS = 200
#: The maximum number of characters of a payload or a result.
MAX_VALUE_CHARACTERS = 400


class Row(NamedTuple):
    """A row of a page.

    Attributes:
        cells: the text of each column.
        order: a value for each column by which the rows are sorted.
        opens: the page that the row opens, or None.
    """

    cells: tuple[str, ...]
    order: tuple[Any, ...]
    opens: View | None = None


class Listing(NamedTuple):
    """A page: lines of text, and a table.

    Attributes:
        columns: the heads of the columns; those that begin with ">" are aligned to the right.
    """

    title: str
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    rows: list[Row]


def listing(store: Store, view: View) -> Listing:
    """The content of a page, with its rows in the order that the view asks for.

    Raises:
        StoreError: the database refused or failed a call.
    """
    found = PAGE_READERS[view.page](store, view)
    if view.order is not None and view.order < len(found.columns):
        place = view.order
        # A missing value is the smallest.
        found.rows.sort(
            key=lambda row: (row.order[place] is not None, row.order[place]), reverse=view.reverse
        )
    return found


def row(*cells: Any, opens: View | None = None, order: tuple[Any, ...] | None = None) -> Row:
    texts = tuple("" if cell is None else str(cell) for cell in cells)
    return Row(texts, cells if order is None else order, opens)


def queue_page(store: Store, view: View) -> Listing:
    """The requests of a queue that run, and those that are claimed next."""
    name = view.subject
    counts = [
        f"priority {one.priority}: {one.pending:,} waiting, {one.processing:,} running, "
        f"{one.scheduled:,} scheduled, {counted(one.failed, 'dead letter')}"
        for one in store.depth(name)
    ]
    rows = [
        row(
            lease.request_id,
            lease.kind,
            lease.priority,
            "running",
            f"{lease.left_seconds}s left" if lease.left_seconds >= 0 else "lease ran out",
            f"{lease.num_attempts} of {lease.max_attempts}",
            lease.locked_by,
            opens=View("request", str(lease.request_id)),
        )
        for lease in store.list_leases(limit=MAX_ROWS)
        if lease.queue_name == name
    ]
    rows += [
        row(
            one.request_id,
            one.kind,
            one.priority,
            f"place {one.place}",
            f"waiting {format_duration(one.waiting_seconds)}",
            "",
            "",
            opens=View("request", str(one.request_id)),
        )
        for one in store.list_ready(name, limit=MAX_ROWS)
    ]
    columns = (">request", "kind", ">priority", "status", "time", "attempt", "worker")
    return Listing(f"queue {name}", tuple(counts) or ("no requests",), columns, rows)


def requests_page(store: Store, view: View) -> Listing:
    """The newest requests that match the filter of the view."""
    columns = (">request", "queue", "kind", "status", ">priority", ">attempts", "enqueued", "error")
    title = f"requests {view.filter}".rstrip()
    try:
        found = find(store, view.filter, MAX_ROWS, None, {})
    except InvalidRequest as error:
        return Listing(title, tuple(str(error).splitlines()), columns, [])
    rows = [
        row(
            one.request_id,
            one.queue_name,
            one.kind,
            one.status,
            one.priority,
            one.num_attempts,
            at(one.requested_time),
            first_line(one.last_error),
            opens=View("request", str(one.request_id)),
        )
        for one in found.requests
    ]
    more = ("there may be more: press / to narrow the filter",) if found.after is not None else ()
    return Listing(title, more or (() if rows else ("no request matches",)), columns, rows)


def request_page(store: Store, view: View) -> Listing:
    """One request with the reason why it waits, and its attempts."""
    columns = (">attempt", "outcome", "started", "ended", "worker", "error")
    found = store.get_request(int(view.subject))
    if found is None:
        return Listing(f"request {view.subject}", ("there is no such request",), columns, [])
    rows = [
        row(
            one.attempt_number,
            one.outcome,
            at(one.started_time),
            at(one.ended_time),
            one.worker_id,
            f"{one.error_type}: {first_line(one.error)}"
            if one.error_type
            else first_line(one.error),
        )
        for one in found.attempts
    ]
    return Listing(f"request {view.subject}", tuple(about(store, found)), columns, rows)


def about(store: Store, request: Request) -> list[str]:
    """The lines about a request."""
    lines = [
        f"{request.status}  kind {request.kind}  queue {request.queue_name}  "
        f"priority {request.priority}  attempt {request.num_attempts} of {request.max_attempts}",
        f"enqueued {at(request.requested_time)}  due {at(request.due_time)}",
    ]
    if request.locked_time:
        lines.append(f"claimed {at(request.locked_time)} by {request.locked_by}")
    if request.cancel_time:
        lines.append(f"cancelled {at(request.cancel_time)} by {request.cancelled_by}")
    if request.completion_time:
        lines.append(f"ended {at(request.completion_time)}")
    keys = {
        "dedup key": request.dedup_key,
        "group": request.group_key,
        "load": request.load_id,
    }
    lines += [f"{name} {value}" for name, value in keys.items() if value is not None]
    if request.status in ("Pending", "Scheduled", "Processing"):
        lines.append(store.explain(request.request_id).message)
    texts = (
        ("headers", request.headers),
        ("payload", request.payload),
        ("result", request.result),
    )
    lines += [f"{name} {text[:MAX_VALUE_CHARACTERS]}" for name, text in texts if text is not None]
    if request.last_error is not None and request.status != "Complete":
        lines.append(f"error {first_line(request.last_error)}")
    return lines


def errors_page(store: Store, _view: View) -> Listing:
    """The dead letters by their error."""
    rows = [
        row(
            one.num_requests,
            one.queue_name,
            one.kind,
            at(one.last_time),
            one.error_pattern,
            opens=View(
                "requests",
                filter=f"queue:{quote(one.queue_name)} kind:{quote(one.kind)} status:failed "
                f"pattern:{quote(one.error_pattern)}",
            ),
        )
        for one in store.list_dead_letters(limit=MAX_ROWS)
    ]
    notes = () if rows else ("no dead letters",)
    return Listing("errors", notes, (">requests", "queue", "kind", "last", "error"), rows)


def schedules_page(store: Store, _view: View) -> Listing:
    """The schedules, with the request of their last firing."""
    rows = [
        row(
            one.schedule_name,
            one.cron,
            one.time_zone,
            one.queue_name,
            "paused" if one.paused else at(one.next_time),
            at(one.last_time),
            one.last_request_id,
            opens=View("request", str(one.last_request_id)) if one.last_request_id else None,
        )
        for one in store.list_schedules()[:MAX_ROWS]
    ]
    columns = ("schedule", "cron", "time zone", "queue", "next", "last", ">request")
    return Listing("schedules", () if rows else ("no schedules",), columns, rows)


def loads_page(store: Store, _view: View) -> Listing:
    """The loads, the newest first."""
    rows = [
        row(
            one.load_id,
            one.queue_name,
            one.status,
            f"{one.num_staged:,}",
            f"{one.num_enqueued:,}",
            "" if one.rows_per_second is None else f"{one.rows_per_second:,}",
            at(one.started_time),
            "" if one.silent_seconds is None else format_duration(one.silent_seconds),
            opens=View("requests", filter=f"load:{quote(one.load_id)}"),
            order=(
                *(one.load_id, one.queue_name, one.status, one.num_staged, one.num_enqueued),
                *(one.rows_per_second, one.started_time, one.silent_seconds),
            ),
        )
        for one in store.list_loads(limit=MAX_ROWS)
    ]
    columns = ("load", "queue", "status", ">staged", ">enqueued", ">rows/s", "started", "silent")
    return Listing("loads", () if rows else ("no loads",), columns, rows)


#: The function that reads each page.
PAGE_READERS: dict[str, Callable[[Store, View], Listing]] = {
    "queue": queue_page,
    "requests": requests_page,
    "request": request_page,
    "errors": errors_page,
    "schedules": schedules_page,
    "loads": loads_page,
}


def at(time: datetime | None) -> str:
    """A time in UTC."""
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"
