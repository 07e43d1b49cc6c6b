"""Every call ends in time when the database or the network does not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from time import monotonic
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from rowlease.errors import StoreConflict, StoreTimeout, StoreUnavailable
from rowlease.events import Events
from rowlease.model import Begun, NewRequest, Outcome
from rowlease.store import Store, engine_of, open_store
from rowlease.store.bulk import LANE
from rowlease.store.pool import MAX_OPEN
from rowlease.store.postgresql.store import PostgresStore
from rowlease.worker.calls import CallMonitor
from tests.freezing import Freezer
from tests.waiting import until

Sql = Callable[..., list[tuple[Any, ...]]]
SHORT = timedelta(seconds=0.5)
#: Seconds within which a call with the deadline SHORT has ended, on a machine that is busy.
SOON = 15.0


@pytest.fixture
def proxy(dsn: str) -> Iterator[Freezer]:
    with Freezer(dsn) as opened:
        yield opened


@pytest.fixture
def through(proxy: Freezer) -> Iterator[Store]:
    """A store whose connections go through the proxy."""
    with closing(open_store(proxy.dsn)) as opened:
        opened.check_schema()
        yield opened


def seconds_of(call: Callable[[], object], error: type[Exception]) -> float:
    began = monotonic()
    with pytest.raises(error):
        call()
    return monotonic() - began


def test_a_call_on_a_session_that_went_silent_ends_and_the_next_one_is_answered(
    through: Store, proxy: Freezer
) -> None:
    proxy.freeze()
    with pytest.raises(StoreTimeout, match=r"did not answer within 0\.5 s.* not known") as raised:
        through.within(SHORT).depth()
    assert raised.value.maybe_done
    assert isinstance(raised.value.__cause__, psycopg.Error)
    assert through.depth() == []


def test_a_call_and_its_error_are_in_the_block_of_the_monitor(
    through: Store, proxy: Freezer
) -> None:
    calls = CallMonitor(Events())
    monitored = through.monitored(calls.during).within(SHORT)
    proxy.freeze()
    with pytest.raises(StoreTimeout, match=r"^depth: "):
        monitored.depth()
    assert through.depth() == []


def test_one_silent_call_gives_up_all_idle_sessions(through: Store, proxy: Freezer) -> None:
    together = threading.Barrier(4)

    def call() -> None:
        together.wait()
        through._call("schema_version")

    threads = [threading.Thread(target=call) for _ in range(3)]
    for each in threads:
        each.start()
    together.wait()
    for each in threads:
        each.join()
    proxy.freeze()
    assert seconds_of(through.within(SHORT).depth, StoreTimeout) < SOON
    began = monotonic()
    through.within(timedelta(seconds=60)).depth()
    assert monotonic() - began < SOON


def test_a_call_that_needs_a_new_connection_ends_in_time_without_a_greeting(
    dsn: str, proxy: Freezer
) -> None:
    proxy.freeze(new_ones=True)
    with closing(open_store(proxy.dsn)) as store:
        bounded = store.within(SHORT)
        with pytest.raises(StoreUnavailable, match=r"no connection within 0\.[45] s") as raised:
            bounded.depth()
        assert not raised.value.maybe_done


def test_a_connection_that_comes_late_serves_the_next_call(through: Store, proxy: Freezer) -> None:
    with closing(open_store(proxy.dsn)) as store:
        proxy.freeze(new_ones=True)
        assert seconds_of(store.within(SHORT).depth, StoreUnavailable) < SOON
        proxy.thaw()
        assert store.depth() == []


def test_all_hosts_of_a_dsn_share_the_time_of_one_call(dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        silent = f"127.0.0.1:{port}"
        url = sa.make_url(dsn)
        several = f"postgresql://{url.username}@{silent},{silent},{silent}/{url.database}"
        with closing(open_store(several, call_timeout=SHORT)) as store:
            assert seconds_of(store.depth, StoreUnavailable) < SOON


@pytest.mark.parametrize("mode", ["require", "prefer"])
def test_a_server_that_never_ends_the_handshake_is_given_up(dsn: str, mode: str) -> None:
    """It accepts TLS, and sends nothing after that."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            with suppress(OSError):
                client, _ = server.accept()
                held.append(client)
                client.recv(8)
                client.sendall(b"S")

        held: list[socket.socket] = []
        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        url = sa.make_url(dsn)
        port = server.getsockname()[1]
        deaf = f"postgresql://{url.username}@127.0.0.1:{port}/{url.database}?sslmode={mode}"
        with closing(open_store(deaf, call_timeout=SHORT)) as store:
            assert seconds_of(store.depth, StoreUnavailable) < SOON
        thread.join(SOON)
        for each in held:
            each.close()


def test_the_wait_for_a_free_connection_ends_with_the_time_of_the_call(dsn: str) -> None:
    with closing(PostgresStore(dsn, "test")) as store:
        store.check_schema()
        taken = [store._pool.take(10) for _ in range(MAX_OPEN)]
        with pytest.raises(
            StoreUnavailable, match="connections of the store were in use"
        ) as printed:
            store.within(SHORT).depth()
        assert not printed.value.maybe_done
        for each in taken:
            store._pool.give_back(each, is_sound=True)
        assert store.depth() == []


def test_a_server_that_still_answers_ends_the_call_itself_and_does_nothing(
    dsn: str, sql: Sql
) -> None:
    # The server ends the call a twentieth of this before the client would.
    with closing(open_store(dsn, call_timeout=timedelta(seconds=6))) as store:
        sql("begin")
        sql("lock table rowlease.queue")
        with pytest.raises(StoreConflict, match="statement timeout") as raised:
            store.enqueue_many("default", [NewRequest(kind="x")])
        assert not raised.value.maybe_done
        sql("rollback")
        assert sql("select count(*) from rowlease.queue") == [(0,)]


def test_a_long_routine_has_more_time_at_the_server_too(dsn: str, sql: Sql) -> None:
    with closing(open_store(dsn, call_timeout=timedelta(seconds=2))) as store:
        sql("create function rowlease.linger() returns trigger language plpgsql as "
            "$$ begin perform pg_sleep(3); return new; end $$")  # fmt: skip
        sql("create trigger linger before insert on rowlease.load for each row "
            "execute function rowlease.linger()")  # fmt: skip
        assert isinstance(store.begin_load("load", "default", "one"), Begun)
        assert store.enqueue_many("default", [NewRequest(kind="x")])[0].outcome is Outcome.OK


def test_the_server_cancels_a_call_that_the_client_gave_up(dsn: str, sql: Sql) -> None:
    """The claim waits for a lock when its client gives up: it must not be committed.

    The server's own limit is an hour, so it must notice that its client is gone.
    """
    with closing(open_store(dsn, call_timeout=timedelta(hours=1))) as store:
        store.enqueue_many("default", [NewRequest(kind="x")])
        sql("begin")
        sql("lock table rowlease.queue")
        assert seconds_of(lambda: store.within(SHORT).dequeue("w", ["default"], 1), StoreTimeout)
        waits = (
            "select from pg_stat_activity where query like '%dequeue%' and wait_event_type = 'Lock'"
        )
        until(lambda: not sql(waits), 4 * SOON)  # it waits for no client that has given up
        sql("rollback")
    assert sql("select status, num_attempts from rowlease.queue") == [("Pending", 0)]


def test_bulk_writing_and_reading_end_when_the_session_goes_silent(
    proxy: Freezer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlease.store.deadlines.BULK", timedelta(seconds=1))
    with closing(engine_of(proxy.dsn).bulk_store("test")) as store:
        begun = store.begin_load("load", "default", "one")
        assert isinstance(begun, Begun)
        row = f"{begun.run_number},0,,0,x,{{}}\n".encode()

        def blocks() -> Iterator[bytes]:
            yield row
            proxy.freeze()
            while True:
                yield row * 5000

        assert seconds_of(lambda: store.copy_rows(LANE, blocks()), StoreTimeout) < 2 * SOON


def test_a_listener_whose_session_went_silent_raises(
    through: Store, proxy: Freezer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlease.store.deadlines.LISTENER_SILENT", 0.3)
    monkeypatch.setattr("rowlease.store.deadlines.LISTENER_ANSWER", 3.0)
    with closing(through.listen(["default"])) as listener:
        listener.announce_idle(True)
        assert not listener.wait(timedelta(seconds=1))
        proxy.freeze()
        assert (
            seconds_of(lambda: listener.wait(timedelta(seconds=60)), psycopg.OperationalError)
            < SOON
        )
