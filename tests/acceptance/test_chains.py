"""Workers run the links of chains, whatever the executor, and crashes lose and repeat none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rowlease import Client, chain
from rowlease.errors import AccessDenied, InvalidRequest
from rowlease.events import Events
from rowlease.store import Store
from rowlease.tasks.task import Task
from rowlease.testing import drain
from rowlease.worker import Worker
from tests.acceptance.chain_tasks import (
    announce,
    die_once,
    fail_if,
    joined,
    pay,
    publish,
    refuse,
    shrink,
    total,
)

Sql = Callable[..., list[tuple[Any, ...]]]
ALL: list[Task[..., Any]] = [
    shrink,
    publish,
    announce,
    die_once,
    refuse,
    pay,
    total,
    fail_if,
    joined,
]


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


@pytest.mark.parametrize("executor", ["thread", "drain"])
def test_an_attempt_whose_successor_is_refused_has_failed(
    client: Client, store: Store, sql: Sql, executor: str
) -> None:
    client.enqueue_many([chain(shrink.s("a"), announce.with_options(queue="gone").s())])
    if executor == "drain":
        assert isinstance(drain(client, ALL, reraise=False)[0].error, InvalidRequest)
    else:
        burst(store, executor)
    ((error, num_attempts),) = sql("select last_error, num_attempts from rowlease.requests")
    assert 'queue "gone" does not exist' in error
    assert num_attempts >= 1


@pytest.mark.parametrize("executor", ["process", "thread", "drain"])
def test_a_task_that_completes_itself_is_followed_with_that_result(
    client: Client, store: Store, sql: Sql, dsn: str, executor: str
) -> None:
    client.enqueue_many([chain(pay.s(dsn, 5), publish.s())])
    if executor == "drain":
        assert [(ran.kind, ran.result) for ran in drain(client, ALL)] == [
            ("pay", 5),
            ("publish", "5 here"),
        ]
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


@pytest.mark.parametrize("executor", ["process", "thread", "drain"])
def test_what_follows_a_batch_gets_its_results_in_order(
    client: Client, store: Store, sql: Sql, executor: str
) -> None:
    members = [shrink.s("a", width=width) for width in (3, 1, 2)]
    links = chain(shrink.s("b", width=5), shrink.request("c", width=4))
    batches = [
        client.enqueue_batch([*members, links], then=total.s(unit="kB")),
        client.enqueue_batch([], then=total.s()),
    ]
    drain(client, ALL) if executor == "drain" else burst(store, executor)
    told = [batch.then.result(timedelta(minutes=1)) for batch in batches]
    assert told == ["[3, 1, 2, 4] kB", "[] bytes"]


def test_what_follows_becomes_a_dead_letter_if_a_member_is_one_until_both_are_requeued(
    client: Client, store: Store, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [fail_if.s("a"), fail_if.s("bad"), fail_if.s("c")]
    batch = client.enqueue_batch(members, then=joined.s(), batch_id="b")
    client.enqueue_batch(members, then=chain(joined.request(["d"]), announce.s()))
    burst(store, "thread")
    found = sql(
        "select last_error from rowlease.requests where kind = 'joined' order by request_id"
    )
    why = '1 dead letter, 0 cancelled and 0 unfinished in the batch "{}"; when all are complete'
    assert len(found) == 2
    assert found[0][0].startswith(why.format("b"))
    monkeypatch.setattr(fail_if, "function", lambda text: text)
    client.requests.requeue("queue:default kind:fail_if status:failed")
    burst(store, "thread")
    client.requests.requeue("queue:default kind:joined status:failed")
    burst(store, "thread")
    state = batch.read()
    assert state
    assert state.num_complete == 3
    results = "select result from rowlease.requests where kind = %s order by request_id"
    assert sql(results, ["joined"]) == [("abadc",), ("d",)]
    assert sql(results, ["announce"]) == [("d!",)]


def test_what_follows_may_run_although_members_are_dead_letters(
    client: Client, store: Store, sql: Sql
) -> None:
    members = [fail_if.s("a"), fail_if.s("bad"), fail_if.s("c")]
    client.enqueue_batch(members, then=joined.s(), even_if_dead=True)
    burst(store, "process")
    assert sql("select result from rowlease.requests where kind = 'joined'") == [("ac",)]


def test_what_follows_knows_its_batch_if_an_operator_makes_it_due_early(
    client: Client, store: Store, sql: Sql
) -> None:
    for width, even_if_dead in enumerate((False, True)):
        late = shrink.with_options(delay=timedelta(hours=1)).s("b", width=width)
        members = [shrink.s("a", width=width), late]
        batch = client.enqueue_batch(members, then=total.s(), even_if_dead=even_if_dead)
        burst(store, "thread")
        client.requests.reschedule(ids=[batch.then.request_id])
        burst(store, "thread")
        client.requests.reschedule("kind:shrink")
        burst(store, "thread")
    found = "select last_error, result, request_id from rowlease.requests where kind = 'total'"
    (early, _, request_id), (_, result, _) = sql(found + " order by request_id")
    assert result == "[1] bytes"
    assert "0 dead letters, 0 cancelled and 1 unfinished in the batch" in early
    client.requests.requeue(ids=[request_id])
    burst(store, "thread")
    assert sql(found + " order by request_id")[0][1] == "[0, 0] bytes"


def test_results_that_no_payload_holds_make_a_dead_letter_that_says_so(
    client: Client, store: Store, sql: Sql
) -> None:
    client.enqueue_batch([fail_if.s("a" * 400_000) for _ in range(3)], then=joined.s())
    burst(store, "thread")
    ((error,),) = sql("select last_error from rowlease.requests where kind = 'joined'")
    assert "are larger than a payload may be; read them in the task" in error


def test_results_that_cannot_be_read_fail_an_attempt(
    client: Client, store: Store, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.enqueue_batch([fail_if.s("a")], then=joined.s())
    find = type(store).find_requests
    reads: list[Any] = []

    def refused(own: Store, **given: Any) -> Any:
        reads.append(given)
        if len(reads) == 1:
            raise AccessDenied("no right to read")
        return find(own, **given)

    monkeypatch.setattr(type(store), "find_requests", refused)
    burst(store, "thread")
    found = sql("select status, last_error, result from rowlease.requests where kind = 'joined'")
    assert found == [("Complete", "the results of its batch were not read: no right to read", "a")]
