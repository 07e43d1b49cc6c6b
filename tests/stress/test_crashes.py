"""Crashes of the database while claims commit asynchronously lose and double nothing.

A worker's claims do not wait until they are on disk, so a crash may undo some of them. Each client
here does what a worker does, with the effect of its task in the transaction of the outcome.

`ROWLEASE_STRESS_CRASHES=200 pytest tests/stress/test_crashes.py` is the long form; what was seen is
printed (`-s` shows it).
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import psycopg
import pytest

from rowlease.errors import StoreError
from rowlease.model import LeasedRequest, NewRequest, Outcome
from rowlease.store import Store, open_store
from tests.stress.replicas import PATIENCE, Seed, Server, until
from tests.stress.test_failover import workers

CRASHES = int(os.environ.get("ROWLEASE_STRESS_CRASHES", "3"))
CLIENTS = 3
#: Requests of one call of a producer.
BATCH = 5
#: Requests to enqueue from one crash to the next, at least.
BETWEEN_CRASHES = 60
LEASE = timedelta(seconds=2)


@pytest.fixture
def server(seed: Seed, tmp_path: Path) -> Iterator[Server]:
    """A server that writes its log only for commits that wait for it, and once in ten seconds."""
    settings = {"synchronous_commit": "on", "wal_writer_delay": "10s"}
    server = Server(seed, tmp_path / "one", more=settings)
    server.ask("create table effect (n bigint)")
    often = '{"max_attempts": 999, "max_crashes": 999}'
    server.ask(f"select rowlease.configure_queue('default', '{often}')")
    try:
        yield server
    finally:
        server.kill()


def row(server: Server) -> list[tuple[object, ...]]:
    return server.ask("select status, num_attempts, num_crashes from rowlease.queue")


def test_a_claim_that_a_crash_undid_leaves_a_waiting_request(server: Server) -> None:
    with closing(open_store(server.dsn)) as store:
        store.enqueue_many("default", [NewRequest(kind="k", payload="{}")])
        (undone,) = store.dequeue("w", ["default"], 1, asynchronous_commit=True).requests
        assert row(server) == [("Processing", 1, 0)]
        server.crash()
        assert row(server) == [("Pending", 0, 0)]
        (again,) = store.dequeue("w", ["default"], 1).requests
        assert again.lock_token != undone.lock_token
        assert store.complete([undone]) == [Outcome.LEASE_LOST]
        assert store.complete([again]) == [Outcome.OK]
        assert store.complete([undone]) == [Outcome.LEASE_LOST]


def test_a_worker_gives_up_what_a_crash_undid_long_before_its_renewal(
    server: Server, tmp_path: Path
) -> None:
    server.ask("select rowlease.configure_queue('default', '{\"lease_seconds\": 3600}')")
    with closing(open_store(server.dsn)) as store, workers(server.dsn, tmp_path, count=1):
        until("the worker is there", lambda: server.ask("select from rowlease.worker"))

        def crash_undoes_a_claim() -> bool:
            """False if another transaction has written the claim to the disk in time."""
            payload = '{"n": 1, "seconds": 3600}'
            answer = store.enqueue_many("default", [NewRequest(kind="answer", payload=payload)])[0]
            of_one = f"from rowlease.queue where request_id = {answer.request_id}"
            claimed = f"select lock_token {of_one} and status = 'Processing'"
            until("the request runs", lambda: server.ask(claimed))
            claim = server.ask(claimed)
            server.crash()
            return server.ask(claimed) != claim

        until("a crash undoes a claim", crash_undoes_a_claim)
        log = tmp_path / "worker 0"
        until("the worker gives it up", lambda: "lease lost" in log.read_text())


def test_an_outcome_makes_its_claim_durable(server: Server) -> None:
    with closing(open_store(server.dsn)) as store:
        store.enqueue_many("default", [NewRequest(kind="k", payload="{}")])
        (held,) = store.dequeue("w", ["default"], 1, asynchronous_commit=True).requests
        assert store.complete([held]) == [Outcome.OK]
        server.crash()
        assert row(server) == []
        assert store.complete([held]) == [Outcome.REPEAT]


def test_a_claim_waits_for_the_disk_by_default(server: Server) -> None:
    with closing(open_store(server.dsn)) as store:
        store.enqueue_many("default", [NewRequest(kind="k", payload="{}")])
        (held,) = store.dequeue("w", ["default"], 1).requests
        server.crash()
        assert row(server) == [("Processing", 1, 0)]
        assert store.complete([held]) == [Outcome.OK]


def finish(store: Store, own: psycopg.Connection, request: LeasedRequest) -> Outcome:
    """Write the effect of a request and its outcome in one transaction, or neither."""
    own.execute("insert into effect values ((%s::json ->> 'n')::bigint)", (request.payload,))
    (outcome,) = store.complete([request], connection=own)
    if outcome is Outcome.OK:
        own.commit()
    else:
        own.rollback()
    return outcome


class Load:
    """Producers and clients that go on through crashes, and what they were told."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.seen: Counter[str] = Counter()
        self.acknowledged: set[int] = set()
        self.unknown: set[int] = set()
        self.stop = threading.Event()
        self.is_enough = threading.Event()
        self._number = 0

    def has_acknowledged(self, count: int) -> bool:
        return len(self.acknowledged) >= count

    def produce(self) -> None:
        with closing(open_store(self.dsn)) as store:
            while not self.is_enough.is_set():
                numbers = range(self._number, self._number + BATCH)
                self._number += BATCH
                requests = [NewRequest(kind="k", payload=f'{{"n": {n}}}') for n in numbers]
                try:
                    store.enqueue_many("default", requests)
                except StoreError:
                    self.unknown.update(numbers)
                else:
                    self.acknowledged.update(numbers)

    def work(self, worker: str) -> None:
        with closing(open_store(self.dsn)) as store:
            while not self.stop.is_set():
                try:
                    claim = store.dequeue(
                        worker, ["default"], 4, lease=LEASE, asynchronous_commit=True
                    )
                    with psycopg.connect(self.dsn, connect_timeout=5) as own:
                        for request in claim.requests:
                            self.seen[finish(store, own, request).value] += 1
                    if not claim.requests:
                        self.stop.wait(0.01)
                except (psycopg.OperationalError, StoreError):
                    self.seen["errors"] += 1
                    self.stop.wait(0.01)


@pytest.mark.timeout(120 + 10 * CRASHES)
def test_crashes_at_any_moment_lose_and_double_nothing(server: Server) -> None:
    at = random.Random(7)
    load = Load(server.dsn)
    with ThreadPoolExecutor(CLIENTS + 1) as pool:
        calls = [pool.submit(load.produce)]
        calls += [pool.submit(load.work, f"w{number}") for number in range(CLIENTS)]
        try:
            for _ in range(CRASHES):
                enough = len(load.acknowledged) + BETWEEN_CRASHES + at.randrange(BETWEEN_CRASHES)
                until("requests come in", partial(load.has_acknowledged, enough))
                server.crash()
            load.is_enough.set()
            until("all is done", lambda: not row(server), PATIENCE + CRASHES)
        finally:
            load.is_enough.set()
            load.stop.set()
        for call in calls:
            call.result()
    effects = [n for (n,) in server.ask("select n from effect order by n")]
    finished = server.ask("select (payload ->> 'n')::bigint from rowlease.requests order by 1")
    assert effects == [n for (n,) in finished]
    assert len(effects) == len(set(effects))
    assert load.acknowledged <= set(effects) <= load.acknowledged | load.unknown
    sys.stdout.write(f"\n{CRASHES} crashes: {dict(load.seen)}, {len(effects)} effects\n")
