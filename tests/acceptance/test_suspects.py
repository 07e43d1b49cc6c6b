"""A request that kills its worker takes no other request along, though all run in one process."""

from __future__ import annotations

from rowlease.client.client import Client
from rowlease.events import Events
from rowlease.store import Store
from rowlease.testing import frozen
from rowlease.worker import Worker
from tests.acceptance import suspect_tasks
from tests.acceptance.tasks import HOUR
from tests.acceptance.workers import PATIENCE, Sql, worker_process


def test_only_the_request_that_kills_its_workers_becomes_a_dead_letter(
    dsn: str, store: Store, sql: Sql
) -> None:
    with Client(dsn) as client, frozen(client) as clock:
        client.enqueue(suspect_tasks.kill)
        for _ in range(15):
            client.enqueue(suspect_tasks.answer)
        for crashes in ([1] * 12, [2] * 12, [3, *[2] * 11]):
            with worker_process(dsn, suspect_tasks.__name__, concurrency=12) as process:
                process.communicate(timeout=PATIENCE)
            clock.advance(HOUR)
            while sql("select from rowlease.queue where status = 'Processing'"):
                store.maintain()  # the worker's last call may still be under way on the server
            assert counts(sql) == [*crashes, 0, 0, 0, 0]
        tasks = [suspect_tasks.kill, suspect_tasks.answer]
        assert Worker(store, tasks, burst=True, events=Events()).run().finished == 15
    assert sql("select kind, num_crashes from rowlease.queue") == [("kill", 3)]


def counts(sql: Sql) -> list[int]:
    return [n for (n,) in sql("select num_crashes from rowlease.queue order by request_id")]
