"""Workers run the links of chains, whatever the executor, and crashes lose and repeat none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rowlease import Client, chain
from rowlease.events import Events
from rowlease.store import Store
from rowlease.tasks.task import Task
from rowlease.testing import drain
from rowlease.worker import Worker
from tests.acceptance.chain_tasks import announce, die_once, pay, publish, refuse, shrink

Sql = Callable[..., list[tuple[Any, ...]]]
ALL: list[Task[..., Any]] = [shrink, publish, announce, die_once, refuse, pay]


@pytest.fixture
def client(dsn: str, sql: Sql) -> Any:
    sql("select rowlease.configure_queue('default', '{\"retry_base_ms\": 1}')")
    with Client(dsn) as opened:
        yield opened


def burst(store: Store, executor: str) -> Any:
    return Worker(store, ALL, burst=True, executor=executor, concurrency=2, events=Events()).run()


def results(sql: Sql) -> list[tuple[Any, ...]]:
    return sql("select kind, status, result from rowlease.requests order by request_id")


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_each_link_gets_the_result_of_the_link_before(
    client: Client, store: Store, sql: Sql, executor: str
) -> None:
    client.enqueue_many([chain(shrink.s("a.png", width=2), publish.s("there"), announce.s())])
    assert burst(store, executor).finished == 3
    assert results(sql) == [
        ("shrink", "Complete", 10),
        ("publish", "Complete", "10 there"),
        ("announce", "Complete", "10 there!"),
    ]


def test_a_link_that_crashes_runs_again_and_is_followed_once(
    client: Client, store: Store, sql: Sql
) -> None:
    client.enqueue_many([chain(die_once.s("a"), die_once.s(), announce.s())])
    burst(store, "process")
    assert results(sql) == [
        ("die_once", "Complete", "a"),
        ("die_once", "Complete", "a"),
        ("announce", "Complete", "a!"),
    ]


def test_a_link_that_becomes_a_dead_letter_ends_the_chain_until_it_is_requeued(
    client: Client, store: Store, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.enqueue_many([chain(refuse.s("a"), announce.s())])
    burst(store, "thread")
    assert results(sql) == [("refuse", "Failed", None)]
    monkeypatch.setattr(refuse, "function", lambda text: text)
    client.requests.requeue("queue:default status:failed")
    burst(store, "thread")
    assert results(sql) == [("refuse", "Complete", "a"), ("announce", "Complete", "a!")]


@pytest.mark.parametrize("executor", ["process", "thread", "drain"])
def test_a_task_that_completes_itself_is_followed_with_that_result(
    client: Client, store: Store, sql: Sql, dsn: str, executor: str
) -> None:
    client.enqueue_many([chain(pay.s(dsn, 5), publish.s())])
    if executor == "drain":
        assert [ran.kind for ran in drain(client, ALL)] == ["pay", "publish"]
    else:
        burst(store, executor)
    assert results(sql) == [("pay", "Complete", 5), ("publish", "Complete", "5 here")]


def test_a_batch_of_chains_is_finished_when_all_links_are(
    client: Client, store: Store, sql: Sql
) -> None:
    chains = [chain(shrink.s("a" * n), publish.s()) for n in range(3)]
    batch = client.enqueue_batch(chains, then=publish.request(7, "at the end"))
    assert burst(store, "thread").finished == 7
    found = batch.read()
    assert found
    assert (found.num_requests, found.num_complete, found.num_live) == (6, 6, 0)
    assert found.finished_time
    (last,) = sql("select result from rowlease.requests order by completion_time desc limit 1")
    assert last == ("7 at the end",)
