"""A batch ends with its last request, though no worker is left afterwards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from rowlease.client.batch import Batch
from rowlease.client.batch_reads import BatchReads
from rowlease.events import Finished, WorkerIdle
from rowlease.model import NewRequest
from rowlease.store import Store
from rowlease.tasks.task import task
from rowlease.worker import Worker, housekeeping
from rowlease.worker.claims.outcomes import MANY_BATCHES
from tests.acceptance.workers import working

Sql = Callable[..., list[tuple[Any, ...]]]

MEMBER = NewRequest(kind="member", payload="{}")
CALLBACK = NewRequest(kind="callback", payload="{}")

worker_of_last: list[Worker] = []


@task
def member() -> None: ...


@task
def callback() -> None: ...


@task
def last() -> None:
    worker_of_last[-1].stop()


TASKS: list[Any] = [member, callback, last]


def put(store: Store, kind: str, count: int = 1, **options: Any) -> None:
    store.enqueue_many("default", [NewRequest(kind=kind, payload="{}")] * count, **options)


def test_a_burst_runs_what_waits_for_its_batches(store: Store) -> None:
    put(store, "member", 100, batch_id="first")
    put(store, "member", 10, batch_id="second", after="first")
    put(store, "callback", after="second")
    summary = Worker(store, TASKS, executor="thread", burst=True).run()
    assert summary.finished == 111
    assert all(batch.finished_time for batch in store.list_batches())


def test_a_burst_goes_on_if_another_ends_a_batch_after_its_last_claim(store: Store) -> None:
    put(store, "member", batch_id="b")
    put(store, "callback", after="b")
    store.complete(store.dequeue("another", ["default"], 1).requests)
    worker = Worker(store, TASKS, executor="thread", burst=True)
    rested: Any = SimpleNamespace(has_rested_since=lambda claimed_at: True)
    assert [worker._stop_if_drained(store, rested, 0.0) for _ in range(2)] == [False, True]


def test_a_worker_that_is_stopped_finishes_its_batches_before_it_ends(
    store: Store, sql: Sql
) -> None:
    put(store, "last", batch_id="b")
    put(store, "callback", after="b")
    worker = Worker(store, TASKS, executor="thread", concurrency=1)
    worker_of_last.append(worker)
    assert worker.run().finished == 1
    assert sql("select finished_time is not null from rowlease.batch") == [(True,)]
    assert sql("select due_time <= rowlease.now() from rowlease.queue") == [(True,)]


@pytest.mark.parametrize("batches", [1, 2 * MANY_BATCHES])
def test_what_waits_for_a_batch_starts_without_housekeeping(
    store: Store, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    for pause in ("MAINTAIN", "MAINTAIN_IDLE"):
        monkeypatch.setattr(housekeeping, pause, 3600.0)
    store.configure_queue("other")
    settings = {"executor": "thread", "concurrency": 2, "poll": timedelta(hours=1)}
    with (
        working(store, [callback], queues=["other"], **settings) as (_, follows),
        working(store, [member], queues=["default"], **settings) as (_, runs),
    ):
        for emitted in (follows, runs):
            emitted.first(WorkerIdle, lambda event: event.announced)
        store.pause("default")  # no member may end before the callback is there
        for number in range(batches):
            store.enqueue_many("default", [MEMBER] * 3, batch_id=f"{number}")
            store.enqueue_many("other", [CALLBACK], after=f"{number}")
        store.resume("default")
        for _ in range(batches):
            follows.first(Finished)


def test_a_program_waits_for_a_batch_whose_last_worker_was_killed(store: Store) -> None:
    put(store, "member", 3, batch_id="b")
    claim = store.dequeue("killed", ["default"], 3)
    store.complete(claim.requests)
    found = Batch("b", BatchReads(store)).wait(timedelta(minutes=1))
    assert (found.num_live, found.num_complete) == (0, 3)
