"""Lifespans, and the clients of tasks, in each executor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from rowlease import Client, current, lifespan, lifespans, task
from rowlease.errors import ConfigError, RowleaseError
from rowlease.store import Store
from rowlease.testing import drain, drain_async
from tests.acceptance import lifespan_tasks
from tests.acceptance.workers import worker_process

Sql = Callable[..., list[tuple[Any, ...]]]
TASKS = lifespan_tasks.__name__

# The module adds its lifespans to the whole process. Only its own processes want them.
for _each in (lifespan_tasks.pool, lifespan_tasks.session):
    lifespans.added.remove(_each)


@pytest.fixture(autouse=True)
def no_lifespans(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test removes the lifespans that it adds."""
    monkeypatch.setattr(lifespans, "added", [])


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_tasks_share_what_lifespans_make_and_enqueue_without_opening_anything(
    executor: str, dsn: str, store: Store, sql: Sql
) -> None:
    with Client(dsn) as client:
        client.enqueue(lifespan_tasks.first, dsn)
    with worker_process(dsn, TASKS, executor=executor, concurrency=1, burst=True) as process:
        says = process.communicate()[0]
    found = sql("select kind, status, result::text from rowlease.requests order by request_id")
    assert found == [
        ("first", "Complete", "0"),
        ("second", "Complete", "0"),
        ("third", "Complete", None),
        ("last", "Complete", None),
    ]
    assert says.count("session left") == says.count("pool left") == 1
    assert says.index("session left") < says.index("pool left")


def test_a_worker_of_coroutines_has_lifespans(dsn: str, store: Store, sql: Sql) -> None:
    with Client(dsn) as client:
        client.enqueue(lifespan_tasks.first, dsn)
    with worker_process(dsn, f"{TASKS}:coroutines", burst=True) as process:
        says = process.communicate()[0]
    assert ("first", "0") in sql("select kind, result::text from rowlease.queue_history")
    assert says.index("session left") < says.index("pool left")


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_lifespan_that_fails_is_one_error_and_counts_no_attempt(
    executor: str, dsn: str, store: Store, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_POOL", "1")
    with Client(dsn) as client:
        client.enqueue(lifespan_tasks.last)
    with worker_process(dsn, TASKS, executor=executor, burst=True) as process:
        says = process.communicate()[0]
    assert "ConfigError: " in says
    assert "the lifespan pool failed: OSError: no room" in says
    assert sql("select status, num_attempts from rowlease.queue") == [("Pending", 0)]


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_an_error_at_the_end_of_a_lifespan_is_logged(
    executor: str, dsn: str, store: Store, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAD_END", "1")
    with Client(dsn) as client:
        client.enqueue(lifespan_tasks.last)
    with worker_process(dsn, TASKS, executor=executor, concurrency=1, burst=True) as process:
        says = process.communicate()[0]
    assert "a lifespan failed when it was left" in says
    assert "finished" in says
    assert process.returncode == 0


class Counter:
    def __init__(self) -> None:
        self.entered, self.left = 0, 0


@task
def count_up() -> int:
    current().state(Counter).entered += 1
    return current().client.get(current().request_id).request_id


@task
def wrong_state() -> None:
    current().state(Client)


def test_tests_have_lifespans_too(store: Store) -> None:
    counter, again = Counter(), Counter()

    @lifespan
    def sync() -> Iterator[Counter]:
        yield counter
        counter.left += 1

    @lifespan
    async def not_sync() -> AsyncIterator[Counter]:
        await asyncio.sleep(0)
        yield again
        again.left += 1

    with Client(store.dsn) as client:
        handle = client.enqueue(count_up)
        (ran,) = drain(client, count_up)
        assert ran.result == handle.request_id
        client.enqueue(count_up)
        asyncio.run(drain_async(client, count_up))
        client.enqueue(wrong_state)
        with pytest.raises(
            RowleaseError, match="no lifespan has made a Client; they made: Counter"
        ):
            drain(client, wrong_state)
    assert (counter.entered, counter.left, again.left) == (2, 3, 3)


def test_a_lifespan_must_yield() -> None:
    with pytest.raises(ConfigError, match=r"pool must be a generator: use `yield`"):

        @lifespan  # type: ignore[type-var]
        def pool() -> Counter:
            return Counter()


def test_the_lifespans_before_one_that_fails_are_left(store: Store) -> None:
    counter = Counter()

    @lifespan
    def one() -> Iterator[Counter]:
        yield counter
        counter.left += 1

    @lifespan
    async def two() -> AsyncIterator[None]:
        if not counter.left:
            raise OSError("no room")
        yield

    with (
        Client(store.dsn) as client,
        pytest.raises(ConfigError, match=r"lifespan .*two failed: OSError: no room"),
    ):
        drain(client, count_up)
    assert counter.left == 1
