"""What a producer may ask about its requests: status, result, cancel, requeue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import repeat
from typing import Any

import psycopg
import pytest

from rowlease import Client, DeadLetter, NoResult, task
from rowlease.model import Outcome
from rowlease.testing import drain
from tests.waiting import until

Sql = Callable[..., list[tuple[Any, ...]]]
AT_ONCE = timedelta(0)
LONG = timedelta(seconds=60)


@dataclass
class Size:
    width: int


@task
def grow(size: Size, by: int = 1) -> Size:
    if by < 0:
        raise DeadLetter("it must grow")
    return Size(size.width + by)


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    with Client(dsn) as opened:
        yield opened


def test_the_result_is_what_the_annotation_of_the_task_says(client: Client) -> None:
    handle = client.enqueue(grow, Size(2), by=3)
    assert (handle.outcome, handle.status()) == (Outcome.OK, "Pending")
    drain(client, grow)
    assert handle.status() == "Complete"
    assert handle.result(AT_ONCE) == Size(5)
    assert client.get(handle.request_id, grow).result() == Size(5)
    assert client.get(handle.request_id).result() == {"width": 5}
    (read,) = [handle.read()]
    assert read
    assert (read.payload, read.result) == ('{"size":{"width":2},"by":3}', '{"width":5}')


#: Who waits in this database.
LISTENERS = (
    "select count(*) from pg_locks where locktype = 'advisory' and classid = 1919907437"
    " and database = (select oid from pg_database where datname = current_database())"
)


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "many"])
def test_a_program_that_waits_for_a_result_is_notified(
    end: str, client: Client, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without these pauses, only a notification helps.
    monkeypatch.setattr("rowlease.client.handle.NOTIFIED_READ_SECONDS", 3600.0)
    monkeypatch.setattr("rowlease.client.handle.Backoff", lambda *_: repeat(3600.0))
    monkeypatch.setattr("rowlease.store.shared_listener.WAKE_ALL_AFTER", ())
    handle = client.enqueue(grow, Size(1), by=-1 if end == "fail" else 1)
    if end == "many":
        client.enqueue_many(grow.request(Size(2)) for _ in range(1999))
    began = time.monotonic()
    with ThreadPoolExecutor(1) as background:
        waiting = background.submit(handle.result, LONG)
        until(lambda: sql(LISTENERS) == [(1,)])
        if end == "many":
            leased = client.store.dequeue("w", ["default"], 2000).requests
            client.store.complete(leased[::-1], ['{"width":2}'] * 2000)
        elif end == "cancel":
            handle.cancel()
        else:
            drain(client, grow)
        if end in ("complete", "many"):
            assert waiting.result() == Size(2)
        else:
            with pytest.raises(NoResult):
                waiting.result()
    # At the end of its time it would have looked once more.
    assert time.monotonic() - began < LONG.total_seconds()


def test_nobody_is_notified_while_nobody_waits(client: Client, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as ear:
        ear.execute("listen rowlease_finished")
        client.enqueue(grow, Size(1)).cancel()
        client.enqueue_many([grow.request(Size(1)), grow.request(Size(1), by=-1)])
        drain(client, grow)
        ear.execute("select pg_notify('rowlease_finished', 'last')")
        (only,) = ear.notifies(stop_after=1)
        assert only.payload == "last"


def test_a_result_that_comes_before_the_wait_has_begun_is_seen(client: Client) -> None:
    handles = [client.enqueue(grow, Size(n)) for n in range(20)]
    done = threading.Thread(target=lambda: drain(client, grow))
    done.start()
    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda handle: handle.result(LONG), handles))
    done.join()
    assert results == [Size(n + 1) for n in range(20)]


def test_a_request_without_a_result_raises(client: Client) -> None:
    dead, cancelled = client.enqueue(grow, Size(1), by=-1), client.enqueue(grow, Size(1))
    assert cancelled.cancel() is Outcome.OK
    assert cancelled.cancel() is Outcome.NOT_FOUND
    drain(client, grow)
    with pytest.raises(
        NoResult, match=r"^request \d+ has no result: it is a dead letter: it must"
    ) as no:
        dead.result()
    assert (no.value.status, no.value.request_id) == ("Failed", dead.request_id)
    with pytest.raises(NoResult, match="it was cancelled"):
        cancelled.result()
    with pytest.raises(NoResult, match="it does not exist: its transaction is not comm"):
        client.get(10**9).result()
    assert client.get(10**9).status() is None


def test_a_wait_ends_in_time(client: Client) -> None:
    handle = client.enqueue(grow, Size(1))
    for timeout in (AT_ONCE, timedelta(seconds=0.1)):
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=r"is not finished after .*: it is Pending; "):
            handle.result(timeout)
        assert time.monotonic() - began >= timeout.total_seconds()


def test_a_dead_letter_is_requeued(client: Client) -> None:
    handle = client.enqueue(grow, Size(1), by=-1)
    assert handle.requeue() is Outcome.NOT_FOUND
    drain(client, grow)
    assert handle.status() == "Failed"
    assert handle.requeue() is Outcome.OK
    assert handle.status() == "Pending"


def test_the_request_of_a_transaction_is_there_when_it_commits(client: Client, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        handle = client.bind(connection).enqueue(grow, Size(1))
        assert handle.status() is None
    assert handle.status() == "Pending"


def test_without_notifications_it_looks_now_and_then(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("it must not listen")

    handle = client.enqueue(grow, Size(1))
    monkeypatch.setattr(type(client.store), "can_notify", False)
    monkeypatch.setattr(type(client.store), "_listen", refuse)
    with ThreadPoolExecutor(1) as background:
        waiting = background.submit(handle.result, LONG)
        drain(client, grow)
        assert waiting.result() == Size(2)
