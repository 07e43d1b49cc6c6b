"""A claim that commits, but whose answer does not reach its worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rowlease.events import Disowned, Events, Finished, StoreLost
from rowlease.store import Store
from rowlease.worker import Worker
from tests.acceptance.tasks import act
from tests.acceptance.workers import Emitted, put, statuses, working
from tests.spark.lost_answer import LostAnswer

Sql = Callable[..., list[tuple[Any, ...]]]
MARK = "in-the-payload"
ATTEMPTS = "select max(num_attempts), max(num_crashes) from rowlease.requests"


def test_a_claim_whose_answer_was_lost_is_neither_an_attempt_nor_a_crash(
    store: Store, dsn: str, sql: Sql
) -> None:
    put(store, *[{"mark": MARK}] * 3)
    with (
        LostAnswer(dsn, MARK.encode()) as proxy,
        working(proxy.dsn, concurrency=3) as (_, emitted),
    ):
        emitted.first(StoreLost)
        for _ in range(3):
            emitted.first(Finished)
        assert proxy.lost == 1
        assert emitted.first(Disowned).count > 0
    assert statuses(sql) == {"Complete": 3}
    assert sql(ATTEMPTS) == [(1, 0)]


def test_a_worker_that_drains_the_queue_does_not_leave_such_a_claim_behind(
    store: Store, dsn: str, sql: Sql
) -> None:
    put(store, {"mark": MARK})
    emitted, events = Emitted(), Events()
    events.subscribe(emitted, Disowned)
    with LostAnswer(dsn, MARK.encode()) as proxy:
        summary = Worker(proxy.dsn, [act], burst=True, concurrency=1, events=events).run()
    assert (proxy.lost, summary.finished) == (1, 1)
    assert emitted.first(Disowned).count == 1
    assert sql(ATTEMPTS) == [(1, 0)]
