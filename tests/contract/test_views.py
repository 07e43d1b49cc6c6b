"""What a DBA sees in the views by a plain SELECT: the same on both engines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg.pq import ExecStatus

from rowlease.model import Failure, NewRequest
from rowlease.store.comments import _columns_of_view
from rowlease.store.routines import all_files
from tests.contract.lane import promoted
from tests.contract.sessions import Clock, PostgresSession, Session

VIEWS = {
    file.name: [name for name, _ in _columns_of_view(file)]
    for file in all_files("postgresql")
    if f"create or replace view rowlease.{file.name}" in file.body
    and file.name != "requests"
    and not file.name.endswith("inbox")
}


def seen(store: Session, view: str, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
    """Rows of a view as they are at the time of the test's clock, ordered by the columns."""
    names = ", ".join(map(store.spelt, columns))
    match = " and ".join(f"{store.spelt(name)} = '{value}'" for name, value in where.items())
    places = ", ".join(str(place + 1) for place in range(len(columns)))
    return store.execute(
        f"select {names} from rowlease.{store.spelt(view)} where {match or '1 = 1'}"
        f" order by {places}"
    )


def beat(store: Session, name: str, busy: int = 1) -> None:
    store.worker_heartbeat(
        name, host="h", pid=1, version="1", queues=["default"], slots=2, busy=busy
    )


def test_a_view_has_the_columns_that_its_header_lists(store: Session) -> None:
    assert len(VIEWS) == 11
    for view, columns in VIEWS.items():
        names = ", ".join(map(store.spelt, columns))
        assert (
            store.execute(f"select {names} from rowlease.{store.spelt(view)}") == []
        )  # of an empty database


@pytest.mark.only_on("postgresql", why="SQL Server has no snapshot that keeps dead rows here")
def test_a_session_that_has_read_the_views_keeps_no_dead_rows(
    store: PostgresSession, another: Callable[[], PostgresSession]
) -> None:
    """A DBA's psql with autocommit off stays in its transaction after the last answer."""
    psql = another()
    store.put(3)
    store.complete(store.claim())
    calls = ["requests", *VIEWS, "list_queues()", "depth()", "explain(1)", "find_requests()"]
    calls += ["get_request(1)", "diagnose()", "diagnose_sessions()", "diagnose_server()"]
    with psql.acting_as("reader"):
        psql.begin()
        for name in calls:
            # as psql sends it; the extended protocol keeps the snapshot of the last statement
            answer = psql.raw.pgconn.exec_(f"select * from rowlease.{name}".encode())
            assert answer.status == ExecStatus.TUPLES_OK, answer.error_message
            held = store.execute(
                "select state, backend_xid, backend_xmin from pg_stat_activity where pid = %s",
                (psql.raw.info.backend_pid,),
            )
            assert held == [("idle in transaction", None, None)], name
        psql.rollback()


def test_ready_has_the_requests_in_the_order_of_claims(store: Session, clock: Clock) -> None:
    first, second = store.put(2)
    store.abandon(store.claim())  # it keeps its place, in another index
    store.put(delay=timedelta(hours=1))
    (soon,) = store.put(delay=timedelta(seconds=1), priority=3)
    clock.advance(seconds=2)
    (urgent,) = store.put(priority=5)
    store.put(2, group_key="g", priority=9)
    store.configure_queue("other")
    store.put(2, "other")
    store.pause("other")
    ((place, request, kind, waiting), *rest) = seen(
        store, "ready", "place", "request_id", "kind", "waiting_seconds", queue_name="default"
    )
    assert (place, kind, waiting) == (1, "a", 0)
    assert [row[1:2] + row[3:] for row in rest] == [(urgent, 0), (soon, 1), (first, 2), (second, 2)]
    claimed = [held.request_id for held in store.claim(limit=9)]
    assert claimed == [request, *(row[1] for row in rest)]
    assert seen(store, "ready", "queue_name", queue_name="other") == []
    store.resume("other")
    assert seen(store, "ready", "queue_name", "place") == [("other", 1), ("other", 2)]


def test_ready_has_the_first_thousand_of_each_queue(store: Session) -> None:
    store.configure_queue("other")
    for queue in ("default", "other"):
        store.enqueue_many(queue, [NewRequest(kind="a")] * 1002)
    for queue in ("default", "other"):
        places = [place for (place,) in seen(store, "ready", "place", queue_name=queue)]
        assert places == list(range(1, 1001))


def test_ready_has_what_waits_in_the_lane(store: Session, clock: Clock) -> None:
    (before,) = store.put()
    clock.advance(seconds=1)
    promoted(store, "x", [{"kind": "a"}, {"kind": "b"}])
    clock.advance(seconds=1)
    (after,) = store.put()
    found = [request for _, request in seen(store, "ready", "place", "request_id")]
    assert (found[0], found[3], len(found)) == (before, after, 4)
    assert [held.request_id for held in store.claim(limit=4)] == found


def test_leased_and_overdue_say_who_holds_what_and_how_long(store: Session, clock: Clock) -> None:
    store.put(2)
    beat(store, "one")
    one, two = store.claim("one"), store.claim("two")
    columns = "request_id", "locked_by", "left_seconds", "num_attempts", "cancel_requested"
    assert seen(store, "leased", *columns) == [
        (one[0].request_id, "one", 30, 1, False),
        (two[0].request_id, "two", 30, 1, False),
    ]
    assert seen(store, "overdue", "request_id") == []
    clock.advance(seconds=20)
    store.renew(two)
    clock.advance(seconds=15)
    assert [row[2] for row in seen(store, "leased", *columns)] == [-5, 15]
    columns = "queue_name", "request_id", "locked_by", "overdue_seconds", "heartbeat_time"
    beaten = clock.now - timedelta(seconds=35)
    assert seen(store, "overdue", *columns) == [("default", one[0].request_id, "one", 5, beaten)]
    store.maintain()
    assert seen(store, "overdue", *columns) == []


def test_dead_letters_of_lost_leases_are_one_group(store: Session, clock: Clock) -> None:
    store.configure_queue("default", max_crashes=1)
    store.put(2)
    for worker in ("host1:1:ab", "host2:7:cd"):
        store.claim(worker)
        clock.advance(seconds=31)
        store.maintain()
    line = "too many crashes: the lease ran out; its worker was killed, stopped or cut off"
    assert seen(store, "dead_letters", "error_pattern", "num_requests") == [(line, 2)]


def test_dead_letters_are_grouped_by_the_first_line_of_their_error(
    store: Session, clock: Clock
) -> None:
    store.put(3)
    begin = clock.now
    held = store.claim(limit=3)
    store.fail(held[:1], [Failure("disk full\n  at line 1", dead=True)])
    clock.advance(seconds=1)
    store.fail(held[1:2], [Failure("disk full\n  at line 2", dead=True)])
    store.fail(held[2:], [Failure("no such file", dead=True)])
    columns = "error_pattern", "num_requests", "first_time", "last_time", "last_request_id"
    assert seen(store, "dead_letters", *columns, queue_name="default", kind="a") == [
        ("disk full", 2, begin, clock.now, held[1].request_id),
        ("no such file", 1, clock.now, clock.now, held[2].request_id),
    ]


def test_depth_by_priority_has_the_counts(store: Session) -> None:
    store.put(2)
    store.put(priority=3)
    store.put(priority=3, delay=timedelta(hours=1))
    store.claim()
    columns = "priority", "scheduled", "pending", "processing", "failed"
    assert seen(store, "depth_by_priority", *columns) == [(0, 0, 2, 0, 0), (3, 1, 0, 1, 0)]
    store.complete(store.claim(limit=9))
    assert seen(store, "depth_by_priority", *columns) == [(3, 1, 0, 1, 0)]


def test_workers_are_alive_or_silent(store: Session, clock: Clock) -> None:
    beat(store, "one")
    clock.advance(seconds=31)
    beat(store, "two", busy=2)
    assert seen(store, "workers", "worker_id", "busy", "alive", "silent_seconds") == [
        ("one", 1, False, 31),
        ("two", 2, True, 0),
    ]


def test_loads_say_since_when_their_run_is_silent(store: Session, clock: Clock) -> None:
    store.begun("x")
    clock.advance(seconds=7)
    store.begun("y")
    assert seen(store, "loads", "load_id", "status", "num_staged", "silent_seconds") == [
        ("x", "Staging", 0, 7),
        ("y", "Staging", 0, 0),
    ]


@pytest.mark.only_on("postgresql", why="what a call costs is counted in PostgreSQL's statistics")
def test_the_newest_loads_and_batches_are_found_by_an_index(store: PostgresSession) -> None:
    store.execute(
        "insert into rowlease.load (load_id, status, num_rows, num_enqueued, started_time,"
        " reported_time, promoted_time) select n, 'Promoted', 1, 1, t.at, t.at, t.at"
        " from generate_series(1, 5000) n,"
        " lateral (select rowlease.now() + n * interval '1 s') t(at)"
    )
    store.execute(
        "insert into rowlease.batch (batch_id, num_requests, num_complete, created_time)"
        " select load_id, 1, 1, started_time from rowlease.load"
    )
    store.execute("analyze rowlease.load")
    store.execute("analyze rowlease.batch")
    for listed in (store.list_loads, store.list_batches):
        cost = store.measured(lambda listed=listed: listed(limit=10))  # type: ignore[misc]
        names = [getattr(row, "load_id", None) or row.batch_id for row in cost.value]
        assert names == [str(n) for n in range(5000, 4990, -1)]
        assert cost.total <= 60, cost.pages


@pytest.mark.only_on("postgresql", why="what a call costs is counted in PostgreSQL's statistics")
@pytest.mark.new_database
def test_dead_letters_are_read_past_all_that_was_enqueued_later(store: PostgresSession) -> None:
    failed = {"status": "'Failed'", "completion_time": "rowlease.now()", "last_error": "'no'"}
    store.fill(3, **failed)
    store.configure_queue("new")
    store.fill(40_000, queue_name="'new'", **failed)
    for analysed in (False, True):
        if analysed:
            store.execute("analyze rowlease.queue")
        cost = store.measured(store.list_dead_letters)
        assert [one.num_requests for one in cost.value] == [5000, 3]
        assert cost.total <= 250, cost.pages
        by_kind = store.measured(lambda: store.list_kinds(look=1000))
        assert [one.num_failed for one in by_kind.value] == [503]
        assert by_kind.total <= 250, by_kind.pages


def test_schedules_say_what_became_of_their_last_request(store: Session) -> None:
    store.put_schedule("s", "0 * * * *", "tidy")
    columns = "schedule_name", "paused", "next_time", "last_request_id", "last_status"
    assert seen(store, "schedules", *columns) == [("s", False, None, None, None)]
    (fired,) = store.fire_schedule("s")
    assert seen(store, "schedules", "last_status") == [("Pending",)]
    store.complete(store.claim())
    assert seen(store, "schedules", "last_request_id", "last_status") == [
        (fired.request_id, "Complete")
    ]


def test_throughput_counts_the_minutes_of_the_last_hour(store: Session, clock: Clock) -> None:
    begin = clock.now  # at noon
    store.put(4)
    clock.advance(seconds=2)
    held = store.claim(limit=2)
    clock.advance(seconds=4)
    store.complete(held)
    store.cancel([held[0].request_id + 2])
    clock.advance(minutes=1)
    store.complete(store.claim())
    columns = "minute", "num_complete", "num_cancelled", "mean_wait_ms", "mean_run_ms"
    first, second = seen(store, "throughput", *columns, queue_name="default")
    assert first == (begin, 2, 1, 2000, 4000)
    assert second == (begin + timedelta(minutes=1), 1, 0, 66_000, 0)
    clock.advance(minutes=59)
    assert [row[0] for row in seen(store, "throughput", "minute")] == [second[0]]


@pytest.mark.only_on("postgresql", why="a hundred thousand rows are inserted by its own function")
def test_throughput_reads_no_more_than_is_needed(store: PostgresSession, clock: Clock) -> None:
    """Of a database that finishes millions in an hour it shows the newest minutes."""
    (request,) = store.put()
    store.complete(store.claim())
    columns = "queue_name, kind, status, priority, requested_time, due_time, max_attempts, payload"
    for minute, count in ((0, 10), (1, 99_995), (2, 10)):
        store.execute(
            f"insert into rowlease.queue_history (request_id, completion_time, {columns})"
            f" select request_id + n, completion_time - interval '{minute} minutes',"
            f" queue_name, kind, 'Cancelled', priority, requested_time, due_time, max_attempts,"
            f" payload from rowlease.queue_history, generate_series(1, {count}) n"
            f" where status = 'Complete'"
        )
    counts = seen(store, "throughput", "minute", "num_complete", "num_cancelled")
    assert [row[1:] for row in counts] == [(0, 99_995), (1, 10)]
    store.remove("queue_history", status="Complete")
    store.execute("delete from rowlease.queue_history where request_id > 20000")
    counts = seen(store, "throughput", "minute", "num_complete", "num_cancelled")
    assert [row[2] for row in counts] == [10, 20_000 - request, 10]


@pytest.mark.only_on("postgresql", why="ten thousand leases are inserted by its own function")
def test_leased_and_overdue_have_the_leases_that_end_first(
    store: PostgresSession, clock: Clock
) -> None:
    store.put()
    (held,) = store.claim()
    copied = (
        "queue_name, kind, status, priority, requested_time, due_time, max_attempts, payload,"
        " locked_by, locked_time, lock_token, num_attempts"
    )
    store.execute(
        f"insert into rowlease.queue (lock_expires_time, {copied})"
        f" select lock_expires_time + n * interval '1 ms', {copied}"
        f" from rowlease.queue, generate_series(1, 10002) n"
    )
    clock.advance(minutes=10)
    for view in ("leased", "overdue"):
        times = [time for (time,) in seen(store, view, "lock_expires_time")]
        assert (len(times), times[0]) == (10_000, held.lock_expires_time)
        assert times[-1] - times[0] == timedelta(milliseconds=9999)
