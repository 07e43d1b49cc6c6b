"""Connections to PostgreSQL as applications open them, of each library that can be bound."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any, NamedTuple

import asyncpg
import django
import psycopg
import psycopg2
import sqlalchemy as sa
from django.conf import settings
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session


class Opened(NamedTuple):
    """A connection in an open transaction, and how that is ended."""

    connection: Any
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


class AsyncOpened(NamedTuple):
    """The same for asyncio."""

    connection: Any
    commit: Callable[[], Awaitable[Any]]
    rollback: Callable[[], Awaitable[Any]]


@contextmanager
def of_psycopg(dsn: str) -> Iterator[Opened]:
    with closing(psycopg.connect(dsn)) as connection:
        yield Opened(connection, connection.commit, connection.rollback)


@contextmanager
def of_psycopg2(dsn: str) -> Iterator[Opened]:
    with closing(psycopg2.connect(dsn)) as connection:
        yield Opened(connection, connection.commit, connection.rollback)


@contextmanager
def sqlalchemy_connection(dsn: str, driver: str = "psycopg") -> Iterator[Opened]:
    with closing(_engine(dsn, driver).connect()) as connection:
        yield Opened(connection, connection.commit, connection.rollback)


@contextmanager
def sqlalchemy_connection_of_psycopg2(dsn: str) -> Iterator[Opened]:
    with sqlalchemy_connection(dsn, "psycopg2") as opened:
        yield opened


@contextmanager
def sqlalchemy_session(dsn: str) -> Iterator[Opened]:
    with Session(_engine(dsn, "psycopg")) as session:
        yield Opened(session, session.commit, session.rollback)


def use_django(dsn: str) -> Any:
    """Django's connection, to this database from now on."""
    if not settings.configured:
        database = {"ENGINE": "django.db.backends.postgresql"}
        settings.configure(DATABASES={"default": database}, USE_TZ=True, ALLOWED_HOSTS=["*"])
        django.setup()
    connections["default"].close()
    url = sa.make_url(dsn)
    connections["default"].settings_dict.update(
        NAME=url.database, USER=url.username, PASSWORD=url.password, HOST=url.host, PORT=url.port
    )
    return connections["default"]


@contextmanager
def of_django(dsn: str) -> Iterator[Opened]:
    connection = use_django(dsn)
    transaction.set_autocommit(False)
    try:
        yield Opened(connection, transaction.commit, transaction.rollback)
    finally:
        transaction.rollback()
        connection.close()


@asynccontextmanager
async def asynchronous_psycopg(dsn: str) -> AsyncIterator[AsyncOpened]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield AsyncOpened(connection, connection.commit, connection.rollback)
        await connection.rollback()


@asynccontextmanager
async def of_asyncpg(dsn: str) -> AsyncIterator[AsyncOpened]:
    pool = await asyncpg.create_pool(dsn, min_size=1, max_size=1)
    async with pool, pool.acquire() as connection:
        # Its transaction is an object of its own.
        opened: list[Any] = []

        async def ended(how: str) -> None:
            await getattr(opened.pop(), how)()
            await begun()

        async def begun() -> None:
            opened.append(connection.transaction())
            await opened[-1].start()

        await begun()
        yield AsyncOpened(connection, lambda: ended("commit"), lambda: ended("rollback"))
        await opened[-1].rollback()


@asynccontextmanager
async def asynchronous_connection(dsn: str) -> AsyncIterator[AsyncOpened]:
    async with _async_engine(dsn, "psycopg").connect() as connection:
        yield AsyncOpened(connection, connection.commit, connection.rollback)


@asynccontextmanager
async def asynchronous_session(dsn: str) -> AsyncIterator[AsyncOpened]:
    async with AsyncSession(_async_engine(dsn, "psycopg")) as session:
        yield AsyncOpened(session, session.commit, session.rollback)


@asynccontextmanager
async def asynchronous_session_of_asyncpg(dsn: str) -> AsyncIterator[AsyncOpened]:
    async with AsyncSession(_async_engine(dsn, "asyncpg")) as session:
        yield AsyncOpened(session, session.commit, session.rollback)


def _engine(dsn: str, driver: str) -> sa.Engine:
    url = sa.make_url(dsn).set(drivername=f"postgresql+{driver}")
    return sa.create_engine(url, poolclass=sa.NullPool)


def _async_engine(dsn: str, driver: str) -> Any:
    url = sa.make_url(dsn).set(drivername=f"postgresql+{driver}")
    return create_async_engine(url, poolclass=sa.NullPool)


LIBRARIES = [
    of_psycopg,
    of_psycopg2,
    of_django,
    sqlalchemy_connection,
    sqlalchemy_connection_of_psycopg2,
    sqlalchemy_session,
]
ASYNC_LIBRARIES = [
    asynchronous_psycopg,
    of_asyncpg,
    asynchronous_connection,
    asynchronous_session,
    asynchronous_session_of_asyncpg,
]
