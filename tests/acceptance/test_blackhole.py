"""A worker whose database accepts every packet and answers none.

tests/stress/test_blackhole.py does the same under load, for a minute.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest

from rowlease.events import (
    CallAnswered,
    CallStuck,
    ChildDied,
    Finished,
    RenewalsLost,
    RenewalsRecovered,
    Started,
    WorkerStopped,
)
from rowlease.store import Store, open_store
from rowlease.worker import calls
from tests.acceptance.workers import Emitted, Sql, open_gate, put, working
from tests.freezing import Freezer
from tests.waiting import until

LEASE = timedelta(seconds=3)


@pytest.fixture
def proxy(dsn: str) -> Iterator[Freezer]:
    with Freezer(dsn) as opened:
        yield opened


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A pipe: a reader blocks until a test writes to it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def test_an_unanswered_renewal_is_repeated_on_a_new_connection(
    proxy: Freezer, store: Store, sql: Sql, gate: Path
) -> None:
    put(store, {"do": "wait", "gate": str(gate)})
    with closing(open_store(proxy.dsn)) as through, working(through, lease=LEASE) as (_, emitted):
        emitted.first(Started)
        use_several_connections(through)
        proxy.freeze()
        began = monotonic()
        lost = emitted.first(RenewalsLost)
        assert lost.call == "renew"
        assert lost.error.startswith("renew: the database at postgresql://")
        assert "did not answer within 0.5 s" in lost.error
        emitted.first(RenewalsRecovered)
        assert monotonic() - began < LEASE.total_seconds()
        open_gate(gate)
        assert emitted.first(Finished).request.num_attempts == 1
        put(store, "ok")
        emitted.first(Finished)
    assert again(emitted, Started, RenewalsLost, ChildDied) == [Started]  # of the second request


def test_a_worker_that_cannot_renew_claims_nothing_and_recovers_when_it_can(
    proxy: Freezer, store: Store, sql: Sql, gate: Path
) -> None:
    put(store, {"do": "wait", "gate": str(gate)})
    with working(proxy.dsn, lease=LEASE, concurrency=2) as (worker, emitted):
        first = emitted.first(Started).request
        proxy.freeze(new_ones=True)
        emitted.first(RenewalsLost)
        put(store, "ok")
        lost = "leases have not been renewed since"  # health may get it after the test
        until(lambda: lost in str(worker.health.report()), LEASE.total_seconds())
        report = worker.health.report()
        assert (report.live, report.ready) == (True, False)
        assert "could not be renewed" in emitted.first(ChildDied).how
        assert sql("select max(num_attempts) from rowlease.queue where kind = 'act'") == [(1,)]
        proxy.thaw()
        began = monotonic()
        emitted.first(RenewalsRecovered)
        second = emitted.first(Started, lambda event: event.request.request_id == first.request_id)
        assert monotonic() - began < LEASE.total_seconds()
        assert second.request.lock_token > first.lock_token
        open_gate(gate)
        for _ in range(2):
            emitted.first(Finished)
    assert again(emitted, RenewalsLost, ChildDied) == []
    assert len(again(emitted, Started)) == 1  # of the other request


def test_nothing_is_claimed_while_renewals_fail_even_if_claims_would_succeed(
    store: Store, sql: Sql, gate: Path
) -> None:
    (first,) = put(store, {"do": "wait", "gate": str(gate)})
    with working(store, lease=LEASE, concurrency=2) as (_, emitted):
        emitted.first(Started)
        sql("alter routine rowlease.renew rename to renew_taken_away")
        assert "lacks an object of this version" in emitted.first(RenewalsLost).error
        (second,) = put(store, "ok")
        emitted.first(ChildDied)
        assert sql("select num_attempts from rowlease.queue where request_id = %s", [second]) == [
            (0,)
        ]
        sql("alter routine rowlease.renew_taken_away rename to renew")
        emitted.first(RenewalsRecovered)
        open_gate(gate)
        assert {emitted.first(Finished).request.request_id for _ in range(2)} == {first, second}


def test_a_hanging_call_emits_an_event_while_it_hangs_and_when_it_is_answered(
    store: Store, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "CALL_SILENT", 1.0)
    sql("select pg_advisory_lock(1)")
    sql(
        "create or replace function rowlease_internal.fold_depth(p_limit integer) returns bigint"
        " language plpgsql as 'begin perform pg_advisory_xact_lock(1); return 0; end'"
    )
    with working(store) as (_, emitted):
        stuck = emitted.first(CallStuck, lambda event: event.call == "maintain")
        assert (stuck.caller, stuck.seconds > 1.0) == ("housekeeping", True)
        put(store, "ok")
        emitted.first(Finished)
        sql("select pg_advisory_unlock(1)")
        answered = emitted.first(CallAnswered, lambda event: event.call == "maintain")
        assert answered.seconds > stuck.seconds


def use_several_connections(store: Store) -> None:
    """Open more connections than the other threads of the worker use before the next renewal."""
    together = threading.Barrier(4)

    def call() -> None:
        together.wait()
        store.depth()

    threads = [threading.Thread(target=call) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def again(emitted: Emitted, *kinds: type) -> list[type]:
    """The other events of these kinds; all of them, since the worker has stopped."""
    found = emitted.rest()
    assert any(isinstance(event, WorkerStopped) for event in found)
    return [type(event) for event in found if isinstance(event, kinds)]
