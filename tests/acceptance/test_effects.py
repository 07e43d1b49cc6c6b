"""A task that completes its request in the transaction of its effects: they happen exactly once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowlease import LeaseLost, RowleaseError, current
from rowlease.errors import ConfigError
from rowlease.events import Events, Finished, Renewed, Started
from rowlease.model import NewRequest
from rowlease.store import Store
from rowlease.tasks.task import Task, task
from rowlease.testing import drain
from rowlease.worker import Worker
from tests.acceptance.effect_tasks import EFFECT, ENDS, pay, pay_later
from tests.acceptance.workers import SHORT_LEASE, open_gate, working
from tests.waiting import until

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def _payments(sql: Sql) -> Iterator[None]:
    sql("create table payment (request_id bigint, by bigint)")
    yield
    sql("drop table payment")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A pipe: a reader blocks until a test writes to it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def put(store: Store, kind: str = "pay", **payload: Any) -> int:
    request = NewRequest(kind=kind, payload=json.dumps(payload), max_attempts=1)
    (answer,) = store.enqueue_many("default", [request])
    assert answer.request_id
    return answer.request_id


def state(sql: Sql) -> tuple[str, Any, int]:
    """Of the one request: its status and result, and how often its effect happened."""
    ((status, result),) = sql("select status, result from rowlease.requests")
    ((effects,),) = sql("select count(*) from payment")
    return status, result, effects


@pytest.mark.parametrize(
    ("executor", "kind"),
    [
        ("process", "pay"),
        ("process", "pay_later"),
        ("thread", "pay"),
        ("thread", "pay_later"),
        ("coroutine", "pay_later"),
    ],
)
def test_the_effect_and_the_completion_commit_together(
    executor: str, kind: str, dsn: str, store: Store, sql: Sql
) -> None:
    ids = {put(store, kind, dsn=dsn, end=end): end for end in ENDS}
    tasks: list[Task[..., Any]] = [pay_later] if executor == "coroutine" else [pay, pay_later]
    summary = Worker(
        store, tasks, burst=True, executor=executor, concurrency=1, events=Events()
    ).run()
    assert (summary.claimed, summary.lost, summary.finished, summary.failed) == (5, 0, 1, 4)
    rows = sql(
        "select request_id, status, result, (select count(*) from payment p where"
        " p.request_id = r.request_id) from rowlease.requests r"
    )
    # The commit is final; what the task returns or raises changes nothing. Without it, the request
    # never completes: what the task returns may rest on effects that are lost.
    assert {ids[request_id]: state for request_id, *state in rows} == {
        "commit, return": ["Complete", {"paid": 5}, 1],
        "commit, raise": ["Complete", {"paid": 5}, 1],
        "roll back, return": ["Failed", None, 0],
        "roll back, raise": ["Failed", None, 0],
        "raise inside": ["Failed", None, 0],
    }


def test_a_task_may_go_on_after_the_commit_for_longer_than_its_lease(
    dsn: str, store: Store, sql: Sql, gate: Path
) -> None:
    put(store, dsn=dsn, wait=str(gate))
    with working(store, [pay], lease=SHORT_LEASE) as (_, emitted):
        lease = emitted.first(Started).request.lock_expires_time
        emitted.first(Renewed)
        until(lambda: sql("select where clock_timestamp() >= %s", [lease]))
        open_gate(gate)
        emitted.first(Finished)
    assert state(sql) == ("Complete", {"paid": 5}, 1)


def test_under_drain_too(dsn: str, store: Store, sql: Sql) -> None:
    put(store, dsn=dsn)
    (ran,) = drain(store, [pay])
    assert (ran.outcome, ran.error, ran.result) == ("repeat", None, {"paid": 5})
    assert state(sql) == ("Complete", {"paid": 5}, 1)


@pytest.mark.parametrize("call", ["complete", "snooze"])
def test_under_drain_a_return_without_a_commit_is_a_failure(
    call: str, dsn: str, store: Store, sql: Sql
) -> None:
    @task
    def forgets() -> None:
        connection = psycopg.connect(dsn)
        arguments = [] if call == "complete" else [timedelta(minutes=1)]
        getattr(current(), call)(connection, *arguments)
        connection.close()  # without a commit

    put(store, "forgets")
    with pytest.raises(RowleaseError, match="was not committed"):
        drain(store, [forgets])
    assert state(sql) == ("Failed", None, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.parametrize("call", ["complete", "snooze"])
def test_a_process_that_a_task_forks_may_not_report(
    call: str, dsn: str, store: Store, sql: Sql
) -> None:
    """The worker would not learn of it, and complete a request whose effects may be lost."""

    @task
    def forks() -> None:
        arguments = [] if call == "complete" else [timedelta(minutes=1)]
        if child := os.fork():
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            return
        with suppress(BaseException), psycopg.connect(dsn) as connection:
            with pytest.raises(ConfigError, match="process in which the worker runs the task"):
                getattr(current(), call)(connection, *arguments)
            os._exit(7)
        os._exit(0)

    put(store, "forks")
    drain(store, [forks])
    assert state(sql) == ("Complete", None, 0)


def test_under_drain_a_lost_lease_is_raised(dsn: str, store: Store, sql: Sql) -> None:
    @task
    def robbed() -> None:
        sql("update rowlease.queue set lock_token = lock_token + 1")
        with psycopg.connect(dsn) as connection:
            connection.execute(EFFECT, (1, 1))
            current().complete(connection)

    put(store, "robbed")
    with pytest.raises(LeaseLost, match="another worker may own it"):
        drain(store, [robbed])
    assert state(sql) == ("Processing", None, 0)
