"""Promise 10: what a claim costs depends neither on how much there is nor on an open snapshot.

Nothing here is timed. `measured` counts the pages of rowlease's own tables and indexes that a call
fetches, by the server's own statistics of the transaction; what a fresh connection looks up in the
catalogue to plan the statements is counted for the catalogue's tables, and so is no part of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import pytest

from rowlease.model import Claim, Failure, Held, LeasedRequest
from tests.conftest import scratch_database
from tests.contract.sessions import Measured, PostgresSession, Session, observed

Another = Callable[[], Session]
#: How much of a million pending requests waits.
SIZE = float(os.environ.get("ROWLEASE_CROWD", "0.2"))
#: Pages of a claim of ten, whatever there is. The first call reads a page of each index for each
#: of its plans.
CLAIM_OF_TEN = 350
#: The columns of requests that another worker runs.
IN_FLIGHT = {
    "status": "'Processing'",
    "locked_by": "'other'",
    "locked_time": "rowlease.now()",
    "lock_expires_time": "rowlease.now() + interval '1 day'",
    "lock_token": "1",
    "num_attempts": "1",
}


class Crowd(NamedTuple):
    """A large queue; see the fixture."""

    session: Callable[[], Session]
    first: Measured[Claim]
    tenth: Measured[Claim]
    tenth_without_floor: Measured[Claim]
    beside_returned: Measured[Claim]


pytestmark = pytest.mark.only_on(
    "postgresql", why="what a call costs is counted in PostgreSQL's own statistics of pages"
)


@pytest.fixture(scope="module", params=["never analysed", "analysed", "analysed too early"])
def crowd(request: pytest.FixtureRequest, server_dsn: str, template: str) -> Iterator[Crowd]:
    """Opens sessions on a database with many pending requests, and others, and no statistics.

    For ten that are pending, three are scheduled, with a higher priority, and three are in flight.
    With statistics, true ones or such as are from a time when nothing waited or ran, it has a tenth
    of a million. The tests of this module share it; the claims are made while it is new.
    """
    size = SIZE if request.param == "never analysed" else 0.1
    with (
        scratch_database(server_dsn, template) as name,
        observed(server_dsn, name) as dsn,
        ExitStack() as stack,
    ):

        def session() -> Session:
            opened = PostgresSession(dsn)
            stack.callback(opened.close)
            return opened

        owner = PostgresSession(dsn)
        stack.callback(owner.close)
        owner.raw.patience = 600.0  # a million rows take longer than a call may
        owner.execute("set statement_timeout = 0")
        owner.execute("alter table rowlease.queue set (autovacuum_enabled = false)")
        owner.execute("set synchronous_commit = off")
        if request.param == "analysed too early":
            owner.put(200, delay=timedelta(days=9))
            owner.execute("analyze rowlease.queue")
        owner.fill(
            int(1_000_000 * size),
            priority="i % 10",
            group_key="case when i % 100 = 0 then 'g' || i end",
        )
        owner.fill(
            int(300_000 * size),
            status="'Scheduled'",
            priority="9",
            due_time="rowlease.now() + interval '1 day' + i * interval '1 ms'",
            dedup_key="'k' || i",
        )
        owner.fill(
            int(300_000 * size),
            priority="9",
            due_time="rowlease.now() - interval '1 day'",
            **IN_FLIGHT,
        )
        owner.fill(
            1000,
            status="'Failed'",
            completion_time="rowlease.now()",
            last_error="'x'",
        )
        if request.param == "analysed":
            owner.execute("analyze rowlease.queue")
        yield Crowd(
            session,
            first=claim_of_ten(session(), None),
            tenth=tenth_claim(session(), echo=True),
            tenth_without_floor=tenth_claim(session(), echo=False),
            beside_returned=claim_beside_returned(session()),
        )


def held(store: Session, count: int = 10) -> list[Held]:
    """Some of the many leases of another worker."""
    return [
        Held(request_id, 1)
        for (request_id,) in store.execute(
            "select request_id from rowlease.queue where locked_by = 'other'"
            f" order by lock_expires_time limit {count}"
        )
    ]


def claim_of_ten(store: Session, floor: str | None) -> Measured[Claim]:
    cost = store.measured(lambda: store.dequeue("one", ["default"], 10, floor=floor))
    assert len(cost.value.requests) == 10
    return cost


def tenth_claim(store: Session, *, echo: bool) -> Measured[Claim]:
    """By then the database might have chosen a generic plan."""
    floor: str | None = None
    for _ in range(9):
        floor = store.dequeue("one", ["default"], 10, floor=floor if echo else None).floor
    return claim_of_ten(store, floor if echo else None)


def claim_beside_returned(store: Session) -> Measured[Claim]:
    """Some of long ago, and some that stood first a moment ago."""
    store.abandon(held(store, 5))
    claim = store.dequeue("one", ["default"], 10)
    store.abandon(claim.requests[5:])
    return claim_of_ten(store, claim.floor)


@pytest.mark.parametrize("which", ["first", "tenth", "tenth_without_floor", "beside_returned"])
def test_a_claim_of_ten_reads_few_pages_whatever_there_is(crowd: Crowd, which: str) -> None:
    """The first call of a fresh connection, the tenth, and one where some have come back."""
    cost: Measured[Claim] = getattr(crowd, which)
    assert cost.total <= CLAIM_OF_TEN, cost.pages
    assert cost.full_scans.keys() <= {"queue_settings", "queue_depth", "queue_waiter"}


def scheduled(store: Session) -> list[int]:
    return [
        request_id
        for (request_id,) in store.execute(
            "select request_id from rowlease.queue where status = 'Scheduled'"
            " order by due_time desc limit 3"
        )
    ]


ROUTINES: dict[str, Callable[[Session], Callable[[], Any]]] = {
    "enqueue": lambda s: lambda: s.put(10, group_key="g100", dedup_key="k7"),
    "enqueue one": lambda s: partial(s.put, 1, priority=3),
    "complete": lambda s: partial(s.complete, held(s)),
    "complete one": lambda s: partial(s.complete, held(s, 1)),
    "exchange one": lambda s: partial(
        s.exchange, "one", ["default"], 1, completed=[(h, None) for h in held(s, 1)]
    ),
    "complete, a stale one": lambda s: partial(s.complete, [Held(h[0], 7) for h in held(s)]),
    "fail": lambda s: partial(s.fail, held(s), [Failure("x")] * 10),
    "fail, for good": lambda s: partial(s.fail, held(s), [Failure("x", dead=True)] * 10),
    "abandon": lambda s: partial(s.abandon, held(s)),
    "renew": lambda s: partial(s.renew, held(s)),
    "exchange": lambda s: partial(
        s.exchange, "one", ["default"], 10, completed=[(h, None) for h in held(s)]
    ),
    "cancel": lambda s: partial(s.cancel, [*scheduled(s), *[h.request_id for h in held(s, 5)]]),
    "requeue": lambda s: partial(s.operate, "requeue", queue="default", limit=10),
    "operate": lambda s: partial(
        s.operate, "reprioritise", arguments={"priority": 1}, queue="default", limit=10
    ),
    "purge": lambda s: partial(s.purge, limit=10),
    "depth": lambda s: s.depth,
    "find": lambda s: partial(s.find_requests, error="none", limit=10, look=100),
    "find dead letters": lambda s: partial(
        s.find_requests, queue="default", status=["Failed"], error="none", limit=10, look=100
    ),
    "find what runs": lambda s: partial(
        s.find_requests, status=["Processing"], kind="none", limit=10, look=100
    ),
    "explain": lambda s: partial(s.explain, held(s)[0].request_id),
    "explain a waiting one": lambda s: partial(s.explain, s.put()[0]),
    "maintain": lambda s: partial(s.maintain, 10),
    "a scrape": lambda s: partial(scrape, s),
    "demand": lambda s: partial(s.demand, "default"),
    "pause": lambda s: partial(s.pause, "nobody's"),
    "configure_queue": lambda s: partial(s.configure_queue, "default", max_attempts=7),
    "worker_heartbeat": lambda s: partial(
        s.worker_heartbeat,
        "one", host="h", pid=1, version="1", queues=["default"], slots=2, busy=0,
    ),
    "remove_worker": lambda s: partial(s.remove_worker, "one"),
    "promote": lambda s: staged(s),
}  # fmt: skip
#: Pages that a call on ten requests may read. To explain a waiting one is to count those ahead. A
#: step of an operation looks at up to 10,000 requests.
ROUTINE_OF_TEN = 1_000
ALLOWED = {"explain a waiting one": 40_000, "operate": 2_000}


def scrape(store: Session) -> None:
    """What `rowlease exporter` calls for a scrape."""
    store.list_queues()
    store.depth()
    store.list_workers()
    store.metrics()
    store.metrics_server()


def staged(store: Session) -> Callable[[], Any]:
    for table in ("lane", "lane_part", "load"):
        store.execute(f"delete from rowlease.{table}")
    rows = [{"dedup_key": f"k{i}"} for i in range(10)]
    run = store.staged("load", rows)
    return lambda: store.promote("load", run, 10)


@pytest.mark.parametrize("name", ROUTINES)
def test_no_routine_reads_the_whole_queue(crowd: Crowd, name: str) -> None:
    store = crowd.session()
    store.configure_queue("nobody's")
    for _ in range(2):
        call = ROUTINES[name](store)
        cost = store.measured(call)
        assert "queue" not in cost.full_scans
        assert cost.total <= ALLOWED.get(name, ROUTINE_OF_TEN), cost.pages


#: What is done with ten requests, six of which are leased; the queue is another than the crowd's.
STEPS: dict[str, Callable[[Session, list[int], list[LeasedRequest]], Any]] = {
    "dequeue": lambda s, _, __: s.dequeue("one", ["small"], 10),
    "enqueue one": lambda s, _, __: s.put(1, "small"),
    "complete": lambda s, _, held: s.complete(held),
    "complete one": lambda s, _, held: s.complete(held[:1]),
    "fail": lambda s, _, held: s.fail(held, [Failure("x")] * len(held)),
    "abandon": lambda s, _, held: s.abandon(held),
    "renew": lambda s, _, held: s.renew(held),
    "report_progress": lambda s, _, held: s.report_progress([(each, 0.5, "") for each in held]),
    "exchange": lambda s, _, held: s.exchange(
        "one",
        ["small"],
        10,
        completed=[(each, None) for each in held[:3]],
        failed=[(each, Failure("x")) for each in held[3:]],
    ),
    "exchange one": lambda s, _, held: s.exchange("one", ["small"], 1, completed=[(held[0], None)]),
    "cancel": lambda s, ids, _: s.cancel(ids),
    "maintain": lambda s, _, __: s.maintain(10),
}


def pages_of_steps(store: Session) -> dict[str, int]:
    """What each of them reads, beside groups whose first request is in flight."""
    found = {}
    for name, step in STEPS.items():
        ids = [*store.put(5, "small"), *store.put(5, "small", group_key=name)]
        store.put(1, "small", delay=timedelta(milliseconds=1))
        held = store.dequeue("one", ["small"], 10).requests
        cost = store.measured(partial(step, store, ids, held))
        assert "queue" not in cost.full_scans
        found[name] = cost.total
    return found


@pytest.mark.parametrize("rows", [0, 1, 3, 60])
def test_plans_from_a_time_when_little_was_there_stay_away_from_what_comes(
    server_dsn: str, template: str, rows: int
) -> None:
    """A worker's connection is old; what a load brings is in no statistics before it is over."""
    with (
        scratch_database(server_dsn, template) as name,
        observed(server_dsn, name) as dsn,
        ExitStack() as stack,
    ):
        owner, worker = (PostgresSession(dsn) for _ in range(2))
        stack.callback(owner.close)
        stack.callback(worker.close)
        owner.execute("alter table rowlease.queue set (autovacuum_enabled = false)")
        owner.configure_queue("small", max_in_flight=1000)
        owner.fill(rows)
        owner.execute("analyze rowlease.queue")
        before = [pages_of_steps(worker) for _ in range(2)]
        owner.fill(20_000)
        owner.fill(20_000, **IN_FLIGHT)
        after = [pages_of_steps(worker) for _ in range(3)]
        # A step meets what comes due just then, once more, once less; a bad plan costs each time.
        grown = {n: min(one[n] for one in after) - max(one[n] for one in before) for n in STEPS}
        assert {n: pages for n, pages in grown.items() if pages > 200} == {}


def test_housekeeping_reads_only_receipts_that_are_a_day_old(store: Session) -> None:
    """Each call of a producer leaves one, so a day's are millions, and it is done each second."""
    store.maintain()  # makes the partitions of the day
    store.execute(
        "insert into rowlease.enqueue_receipt (receipt_key, request_ids, received_time)"
        " select 'young-' || n, '{}', rowlease.now() from generate_series(1, 30000) as n"
    )
    store.execute(
        "insert into rowlease.enqueue_receipt (receipt_key, request_ids, received_time)"
        " select 'old-' || n, '{}', rowlease.now() - interval '25 hours'"
        " from generate_series(1, 20) as n"
    )
    cost = store.measured(lambda: store.maintain(10))
    assert {done.what: done.num_rows for done in cost.value}["receipts dropped"] == 10
    assert "enqueue_receipt" not in cost.full_scans
    assert cost.pages["enqueue_receipt"] < 50


@pytest.mark.only_on("postgresql", why="there alone does a plan depend on statistics")
def test_a_load_with_keys_is_read_once_with_the_statistics_of_an_empty_lane(
    store: PostgresSession,
) -> None:
    run = store.begun("x")
    for part in range(10):
        rows = [{"kind": "a", "dedup_key": f"{part}-{n}"} for n in range(300)]
        store.lay("x", run, rows, part)
    store.execute("set session_replication_role = replica")
    store.execute("create temporary table kept as table rowlease.lane")
    store.execute("truncate rowlease.lane")
    store.execute("analyze rowlease.lane")
    store.execute("insert into rowlease.lane overriding system value table kept")
    store.execute("drop table kept")
    store.execute("set session_replication_role = origin")
    cost = store.measured(lambda: store.promote("x", run, 3_000))
    assert cost.pages["lane_part_pkey"] + cost.pages["lane_pkey"] <= 500, cost.pages
