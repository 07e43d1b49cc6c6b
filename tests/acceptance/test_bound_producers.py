"""Requests in the caller's transaction, with each library: they exist if and only if it commits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
from django.db import transaction

from rowlease import AsyncClient, Client, Handle, LeaseLost, QueueFull, task
from rowlease.context import Context
from rowlease.errors import (
    AccessDenied,
    ConfigError,
    InvalidRequest,
    RowleaseError,
    SchemaMismatch,
)
from rowlease.model import NewRequest, Outcome
from rowlease.store import open_store
from tests.acceptance.libraries import ASYNC_LIBRARIES, LIBRARIES, of_psycopg, use_django
from tests.contexts import context_of

Sql = Callable[..., list[tuple[Any, ...]]]


@task
def charge(order: int, note: str = "") -> None: ...


#: With every option, and text that has to be quoted.
FULL = charge.with_options(
    priority=4,
    due_time=datetime(2099, 5, 17, 12, 30, tzinfo=UTC),
    dedup_key="a 'key' {\"of\", null} 50%s :x \\",
    group_key="group",
    max_attempts=7,
    retry_base=timedelta(seconds=2.5),
    receipt="mine",
)
NOTE = "50% of 'it' \"is\" \\ {null} %(x)s :y ü"


def rows(sql: Sql) -> list[tuple[Any, ...]]:
    return sql(
        "select queue_name, kind, status, priority, due_time, dedup_key, group_key, max_attempts,"
        " retry_base_ms, payload from rowlease.requests order by request_id"
    )


def as_psycopg_writes_it(client: Client, dsn: str, sql: Sql) -> list[tuple[Any, ...]]:
    """The row of the full request as psycopg writes it; it is deleted afterwards."""
    with of_psycopg(dsn) as opened:
        handle = client.bind(opened.connection).enqueue(FULL, 7, NOTE)
        opened.commit()
    found = rows(sql)
    handle.cancel()
    sql("delete from rowlease.queue_history")
    sql("delete from rowlease.enqueue_receipt")
    return found


def in_a_loop(dsn: str, work: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with AsyncClient(dsn) as client:
            await work(client)

    asyncio.run(main())


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_request_exists_if_and_only_if_it_commits(library: Any, dsn: str, sql: Sql) -> None:
    with Client(dsn) as client:
        expected = as_psycopg_writes_it(client, dsn, sql)
        with library(dsn) as opened:
            bound = client.bind(opened.connection)
            handle = bound.enqueue(FULL, 7, NOTE)
            assert handle.outcome is Outcome.OK
            assert handle.status() is None
            opened.rollback()
            assert handle.status() is None
            handle = bound.enqueue(FULL, 7, NOTE)
            assert bound.enqueue(FULL, 7, NOTE).outcome is Outcome.REPEAT
            opened.commit()
            assert handle.status() == "Scheduled"
            assert rows(sql) == expected
            many = bound.enqueue_many(charge.request(n) for n in range(3))
            follows = bound.enqueue_batch([charge.request(0)], then=charge.request(1)).then
            opened.commit()
            assert follows.status() == "Scheduled"
            assert [each.status() for each in many] == ["Pending"] * 3


@pytest.mark.parametrize("library", ASYNC_LIBRARIES)
def test_in_a_coroutine_too(library: Any, dsn: str, sql: Sql) -> None:
    with Client(dsn) as client:
        expected = as_psycopg_writes_it(client, dsn, sql)

    async def work(client: AsyncClient) -> None:
        async with library(dsn) as opened:
            bound = client.bind(opened.connection)
            handle = await bound.enqueue(FULL, 7, NOTE)
            assert handle.outcome is Outcome.OK
            assert await handle.status() is None
            await opened.rollback()
            assert await handle.status() is None
            handle = await bound.enqueue(FULL, 7, NOTE)
            assert (await bound.enqueue(FULL, 7, NOTE)).outcome is Outcome.REPEAT
            await opened.commit()
            assert await handle.status() == "Scheduled"
            assert rows(sql) == expected
            many = await bound.enqueue_many(charge.request(n) for n in range(3))
            batch = await bound.enqueue_batch([charge.request(0)], then=charge.request(1))
            await opened.commit()
            assert await batch.then.status() == "Scheduled"
            assert [await each.status() for each in many] == ["Pending"] * 3

    in_a_loop(dsn, work)


#: What goes wrong, and the errors that psycopg has for it.
WRONG: list[tuple[dict[str, Any], type[RowleaseError]]] = [
    ({"queue": "nowhere"}, InvalidRequest),
    ({"queue": "full"}, QueueFull),
    ({"max_attempts": 0}, RowleaseError),
    ({"due_time": datetime.max.replace(tzinfo=UTC)}, RowleaseError),
]


def errors(client: Client, opened: Any) -> list[tuple[type[RowleaseError], str]]:
    """What each wrong call raises."""
    found = []
    for options, expected in WRONG:
        with pytest.raises(expected) as raised:
            client.bind(opened.connection).enqueue(charge.with_options(**options), 1)
        found.append((raised.type, str(raised.value)))
        opened.rollback()
    return found


def full_queue(client: Client) -> None:
    client.queues.create("full", capacity=1)
    client.enqueue(charge.with_options(queue="full"), 1)


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_error_is_the_same_for_each_library(library: Any, dsn: str) -> None:
    with Client(dsn) as client:
        full_queue(client)
        with of_psycopg(dsn) as opened:
            expected = errors(client, opened)
        with library(dsn) as opened:
            assert errors(client, opened) == expected


@pytest.mark.parametrize("library", ASYNC_LIBRARIES)
def test_an_error_in_a_coroutine_is_the_same(library: Any, dsn: str) -> None:
    with Client(dsn) as client:
        full_queue(client)
        with of_psycopg(dsn) as opened:
            expected = errors(client, opened)

    async def work(client: AsyncClient) -> None:
        found = []
        async with library(dsn) as opened:
            for options, kind in WRONG:
                with pytest.raises(kind) as raised:
                    await client.bind(opened.connection).enqueue(charge.with_options(**options), 1)
                found.append((raised.type, str(raised.value)))
                await opened.rollback()
        assert found == expected

    in_a_loop(dsn, work)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_missing_right_is_named(library: Any, dsn: str, sql: Sql) -> None:
    with Client(dsn) as client, library(dsn) as opened:
        sql("revoke all on function rowlease.enqueue from public, rowlease_producer")
        role = "set role rowlease_reader"
        run = getattr(opened.connection, "exec_driver_sql", None)
        if run is not None:
            run(role)
        elif hasattr(opened.connection, "scalars"):
            opened.connection.connection().exec_driver_sql(role)
        else:
            with opened.connection.cursor() as cursor:
                cursor.execute(role)
        with pytest.raises(AccessDenied, match=r"permission denied .* end of your connection;"):
            client.bind(opened.connection).enqueue(charge, 1)


def test_an_error_does_not_blame_the_database_of_the_client(dsn: str, server_dsn: str) -> None:
    """The caller's connection may lead to another database, in which rowlease is missing."""
    with Client(dsn) as client:
        with of_psycopg(server_dsn) as opened, pytest.raises(SchemaMismatch) as raised:
            client.bind(opened.connection).enqueue(charge, 1)
        assert str(raised.value).startswith("the database at the other end of your connection ")


def test_an_error_in_a_transaction_of_the_client_names_its_database(dsn: str) -> None:
    def work(own: psycopg.Connection) -> None:
        own.execute("set local role rowlease_reader")
        store.enqueue_many("default", [NewRequest(kind="charge")], connection=own)

    with (
        closing(open_store(dsn)) as store,
        pytest.raises(AccessDenied, match=r"permission denied .* at postgresql://"),
    ):
        store.in_transaction(work)


def test_a_connection_of_the_other_colour_is_refused(dsn: str) -> None:
    async def work(client: AsyncClient) -> None:
        for library in ASYNC_LIBRARIES:
            async with library(dsn) as opened:
                call: Awaitable[Any] = client.run_sync(
                    lambda sync, connection: sync.bind(connection).enqueue(charge, 1),
                    opened.connection,
                )
                with pytest.raises(
                    ConfigError, match=r"is for asyncio; bind it with rowlease\.AsyncClient"
                ):
                    await call
        with (
            of_psycopg(dsn) as synchronous,
            pytest.raises(ConfigError, match=r"AsyncSession of SQLAlchemy, not psycopg\.Conn"),
        ):
            await client.bind(synchronous.connection).enqueue(charge, 1)

    in_a_loop(dsn, work)


RESULT = {"a": "it's"}


def claimed(client: Client) -> tuple[Handle[None], Context]:
    """A request that runs, and what its task knows of it."""
    handle = client.enqueue(charge, 1)
    (leased,) = client.store.dequeue("worker", ["default"], 1).requests
    return handle, context_of(leased)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_task_completes_its_request_in_the_transaction(library: Any, dsn: str) -> None:
    with Client(dsn) as client, library(dsn) as opened:
        handle, current = claimed(client)
        current.complete(opened.connection, RESULT)
        opened.rollback()
        assert handle.status() == "Processing"
        current.complete(opened.connection, RESULT)
        opened.commit()
        assert client.get(handle.request_id).result() == RESULT
        with pytest.raises(LeaseLost, match="already completed"):
            current.complete(opened.connection, RESULT)


@pytest.mark.parametrize("library", ASYNC_LIBRARIES)
def test_a_coroutine_completes_its_request_in_the_transaction(library: Any, dsn: str) -> None:
    async def main() -> None:
        async with library(dsn) as opened:
            await current.complete(opened.connection, RESULT)
            await opened.rollback()
            assert handle.status() == "Processing"
            await current.complete(opened.connection, RESULT)
            await opened.commit()
            assert client.get(handle.request_id).result() == RESULT

    with Client(dsn) as client:
        handle, current = claimed(client)
        asyncio.run(main())


def test_nothing_is_completed_where_each_statement_commits_by_itself(dsn: str) -> None:
    async def main() -> None:
        connection = await asyncpg.connect(dsn)
        with pytest.raises(ConfigError, match="autocommit"):
            await current.complete(connection)
        await connection.close()

    with Client(dsn) as client:
        handle, current = claimed(client)
        asyncio.run(main())
        django = use_django(dsn)
        with pytest.raises(ConfigError, match="autocommit"):
            current.complete(django)
        with closing(psycopg2.connect(dsn)) as connection:
            connection.autocommit = True
            with pytest.raises(ConfigError, match="autocommit"):
                current.complete(connection)
        assert handle.status() == "Processing"
        with transaction.atomic():
            current.complete(django)
        assert handle.status() == "Complete"
        django.close()
