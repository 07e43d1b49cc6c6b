"""The connection pool: what it keeps, what it closes, and who gets the next connection."""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue
from weakref import ref

import pytest

from rowlease.errors import ConfigError
from rowlease.store import pool as pools
from rowlease.store.pool import MAX_OPEN, ConnectionPool, NotConnected, Place, in_thread
from tests.waiting import until


class Connection:
    def __init__(self) -> None:
        self.place: Place | None = None
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def pool() -> ConnectionPool[Connection]:
    return ConnectionPool(Connection)


def take(pool: ConnectionPool[Connection], number: int) -> list[Connection]:
    return [pool.take(60.0) for _ in range(number)]


def test_all_connections_are_kept_and_the_last_one_is_used_first(
    pool: ConnectionPool[Connection],
) -> None:
    taken = take(pool, MAX_OPEN)
    for each in taken:
        pool.give_back(each, is_sound=True)
    assert take(pool, MAX_OPEN) == taken[::-1]


def test_connections_that_are_not_used_are_closed_except_one(
    pool: ConnectionPool[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "IDLE_CHECK_SECONDS", 0.001)
    taken = take(pool, 4)
    for each in taken:
        pool.give_back(each, is_sound=True)
    assert not any(each.is_closed for each in taken)
    monkeypatch.setattr(pools, "IDLE_TIME", 0.0)
    until(lambda: [each.is_closed for each in taken] == [True, True, True, False])
    # And again, by another thread.
    until(lambda: pool._closer is not None and pool._closer() is None)
    for each in (again := take(pool, 2)):
        pool.give_back(each, is_sound=True)
    until(lambda: again[0].is_closed)


def test_the_place_of_a_dropped_connection_is_free_again(pool: ConnectionPool[Connection]) -> None:
    for _ in range(2 * MAX_OPEN):
        pool.take(0.0 if pool._idle else 60.0)  # an interrupted call drops what it has taken
    taken = take(pool, MAX_OPEN)
    with pytest.raises(NotConnected, match=f"all {MAX_OPEN} connections"):
        pool.take(0.0)
    freed: SimpleQueue[Connection] = SimpleQueue()
    waiting = threading.Thread(target=lambda: freed.put(pool.take(60.0)))
    waiting.start()
    until(lambda: len(pool._line) == 1)
    del taken[-1]
    assert freed.get(timeout=60)
    waiting.join()


def test_a_place_that_is_given_back_goes_to_the_call_that_has_waited_longest(
    pool: ConnectionPool[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "PLACE_CHECK_SECONDS", 600.0)
    taken = take(pool, MAX_OPEN)
    served: SimpleQueue[int] = SimpleQueue()

    def wait(number: int) -> None:
        connection = pool.take(600.0)
        served.put(number)
        pool.give_back(connection, is_sound=True)

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=wait, args=(number,), daemon=True))
        threads[-1].start()
        until(lambda number=number: len(pool._line) == number + 1)  # type: ignore[misc]
    pool._line.appendleft(ref(SimpleQueue[Place]()))  # one that was interrupted while it waited
    pool.give_back(taken.pop(), is_sound=True)
    assert [served.get(timeout=60) for _ in threads] == list(range(5))
    for each in threads:
        each.join()
    assert len(pool._places) == len(taken)


def test_an_unsound_connection_is_closed_alone(pool: ConnectionPool[Connection]) -> None:
    sound, unsound = take(pool, 2)
    pool.give_back(sound, is_sound=True)
    pool.give_back(unsound, is_sound=False)
    assert unsound.is_closed
    assert pool.take(60.0) is sound


def test_a_connection_that_is_given_back_after_the_end_is_closed(
    pool: ConnectionPool[Connection],
) -> None:
    idle, used = take(pool, 2)
    pool.give_back(idle, is_sound=True)
    pool.close()
    assert idle.is_closed
    assert not used.is_closed
    pool.give_back(used, is_sound=True)
    assert used.is_closed


def test_a_result_that_nobody_waits_for_any_more_is_not_lost() -> None:
    go, late = threading.Event(), SimpleQueue[str]()

    def work() -> str:
        go.wait(60)
        return "done"

    with pytest.raises(TimeoutError) as raised:  # a program may keep the error
        in_thread(work, 0.0, late=late.put)
    go.set()
    assert late.get(timeout=60) == "done"
    del raised


def test_a_process_that_was_forked_behind_pythons_back_uses_no_connection(
    pool: ConnectionPool[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    with pytest.raises(ConfigError, match="uWSGI, set py-call-osafterfork = true"):
        pool.take(60.0)
