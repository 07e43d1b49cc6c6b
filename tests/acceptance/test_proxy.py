"""Behind a proxy that pools transactions: PgBouncer, where one is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from rowlease.client.client import Client
from rowlease.client.database import connect
from rowlease.errors import ConfigError
from rowlease.events import Finished, Started, WorkerIdle
from rowlease.model import NewRequest
from rowlease.store import Store, migrate
from rowlease.store.postgresql.connection import NEEDED, PINNED
from tests import machine
from tests.acceptance.tasks import act
from tests.acceptance.test_session import OTHER
from tests.acceptance.workers import drain, put, statuses, working
from tests.pooler import pooled

pytestmark = machine.needs("pgbouncer")
Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(params=["options refused", "options ignored"])
def proxy(request: pytest.FixtureRequest, dsn: str) -> Iterator[str]:
    """The DSN of the test's database behind a proxy with two sessions for all clients.

    Its administrator decides which startup parameters it accepts.
    """
    ignored = "options" if request.param == "options ignored" else ""
    with pooled(dsn, ignored=ignored) as pooler:
        yield pooler.dsn


def test_requests_are_enqueued_and_done(proxy: str, sql: Sql) -> None:
    with connect(proxy) as store:
        put(store, *["ok"] * 500)
        assert not store.can_notify
    summary = drain(proxy)
    assert (summary.finished, summary.lost) == (500, 0)
    assert statuses(sql) == {"Complete": 500}


def test_an_idle_worker_finds_what_comes_by_polling(proxy: str) -> None:
    with (
        connect(proxy) as store,
        working(proxy, poll=timedelta(seconds=0.05)) as (_, emitted),
    ):
        assert not emitted.first(WorkerIdle).announced
        put(store, "ok")
        assert emitted.first(Started)
        assert emitted.first(Finished)


def test_a_blocked_producer_is_let_in(proxy: str, store: Store) -> None:
    store.configure_queue("default", capacity=1)
    with Client(proxy) as client, working(proxy, poll=timedelta(seconds=0.05)):
        for _ in range(3):
            client.enqueue(act.with_options(wait=timedelta(seconds=30)), "ok")


def test_migrate_leaves_nothing_behind_that_the_next_trips_over(proxy: str) -> None:
    for _ in range(3):
        assert not migrate(proxy).changed


def test_a_direct_connection_has_notifications(dsn: str) -> None:
    with connect(dsn) as store:
        assert store.can_notify


@pytest.mark.parametrize("name", NEEDED)
def test_a_setting_that_cannot_be_asked_for_and_falsifies_is_refused(
    name: str, proxy: str, dsn: str
) -> None:
    database = conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"alter database \"{database}\" set {name} = '{OTHER[name]}'")
    with (
        pytest.raises(
            ConfigError,
            match=rf"{name} of .* is {OTHER[name]}, and it cannot be changed .* = '{PINNED[name]}'",
        ),
        connect(proxy),
    ):
        pass
    with connect(dsn) as store:
        store.check_schema()


def test_texts_arrive_as_they_were_sent_whatever_encoding_the_database_prefers(
    proxy: str, dsn: str
) -> None:
    database = conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'alter database "{database}" set client_encoding = SQL_ASCII')
    with connect(proxy) as store:
        store.enqueue_many("default", [NewRequest(kind="x", payload='{"price": "5 €"}')])
        assert store.find_requests().requests[0].payload == '{"price": "5 €"}'
