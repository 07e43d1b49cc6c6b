"""What a crash of the database does to claims, which do not wait until they are on disk.

Crashes at any moment are among the faults of test_faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowlease.model import NewRequest, Outcome
from rowlease.store import open_store
from tests.stress.replicas import Seed, Server, until
from tests.stress.test_failover import workers


@pytest.fixture
def server(seed: Seed, tmp_path: Path) -> Iterator[Server]:
    """A server that writes its log only for commits that wait for it, and once in ten seconds."""
    settings = {"synchronous_commit": "on", "wal_writer_delay": "10s"}
    server = Server(seed, tmp_path / "one", more=settings)
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
