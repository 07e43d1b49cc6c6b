"""FastAPI with async SQLAlchemy, and Django: an order and its request exist together or not at all.

Many orders at the same time, of which some are rolled back, at random.
`ROWLEASE_WEB_ORDERS=1000 pytest tests/acceptance/test_web_frameworks.py` is the long form.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import fastapi
import httpx
import pytest
import sqlalchemy as sa
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client as Browser
from django.test import override_settings
from django.urls import path
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from rowlease import AsyncClient, Client, task
from rowlease.testing import drain
from tests.acceptance.libraries import use_django

Sql = Callable[..., list[tuple[Any, ...]]]
ORDERS = int(os.environ.get("ROWLEASE_WEB_ORDERS", "100"))
#: How many orders are under way at the same time.
AT_ONCE = 16
INSERT = "insert into orders (number) values ({})"


@task
def ship(order: int) -> int:
    return order


class Refused(Exception):
    """The application has changed its mind, after it has enqueued."""


@pytest.fixture(autouse=True)
def _orders(sql: Sql) -> None:
    sql("create table orders (number int primary key)")


def check(dsn: str, sql: Sql, refused: list[bool]) -> None:
    """Those that were not refused are orders, and will be shipped."""
    kept = [number for number, is_refused in enumerate(refused) if not is_refused]
    assert 0 < len(kept) < len(refused)
    assert sql("select array_agg(number order by number) from orders") == [(kept,)]
    with Client(dsn) as client:
        assert sorted(ran.result for ran in drain(client, ship, limit=ORDERS + 1)) == kept


def application(dsn: str, driver: str) -> fastapi.FastAPI:
    engine = create_async_engine(
        sa.make_url(dsn).set(drivername=f"postgresql+{driver}"), pool_size=AT_ONCE
    )
    sessions = async_sessionmaker(engine)

    @asynccontextmanager
    async def lifespan(app: fastapi.FastAPI) -> AsyncIterator[None]:
        async with AsyncClient(dsn) as client:
            app.state.client = client
            yield
        await engine.dispose()

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.post("/orders/{number}")
    async def order(request: fastapi.Request, number: int, refuse: bool) -> int:
        async with sessions.begin() as session:
            await session.execute(sa.text(INSERT.format(":number")), {"number": number})
            handle = await request.app.state.client.bind(session).enqueue(ship, number)
            if refuse:
                raise fastapi.HTTPException(409)
        return int(handle.request_id)

    return app


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_fastapi(driver: str, dsn: str, sql: Sql) -> None:
    refused = [random.random() < 0.4 for _ in range(ORDERS)]
    app = application(dsn, driver)

    async def main() -> None:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://test") as browser,
        ):
            numbers = iter(range(ORDERS))

            async def customer() -> None:
                for number in numbers:
                    answer = await browser.post(
                        f"/orders/{number}", params={"refuse": refused[number]}
                    )
                    assert answer.status_code == (409 if refused[number] else 200), answer.text

            await asyncio.gather(*(customer() for _ in range(AT_ONCE)))

    asyncio.run(main())
    check(dsn, sql, refused)


def test_django(dsn: str, sql: Sql) -> None:
    refused = [random.random() < 0.4 for _ in range(ORDERS)]
    use_django(dsn)

    with Client(dsn) as client:

        def order(request: HttpRequest, number: int) -> HttpResponse:
            try:
                with transaction.atomic():
                    with connections["default"].cursor() as cursor:
                        cursor.execute(INSERT.format("%s"), [number])
                    client.bind(connections["default"]).enqueue(ship, number)
                    if "refuse" in request.GET:
                        raise Refused
            except Refused:
                return HttpResponse(status=409)
            return HttpResponse()

        class Urls:
            urlpatterns = [path("orders/<int:number>", order)]  # noqa: RUF012

        def customer(number: int) -> None:
            use_django(dsn)  # each thread has a connection of its own
            try:
                query = "?refuse" if refused[number] else ""
                answer = Browser().post(f"/orders/{number}{query}")
                assert answer.status_code == (409 if refused[number] else 200)
            finally:
                connections["default"].close()

        with override_settings(ROOT_URLCONF=Urls), ThreadPoolExecutor(AT_ONCE) as customers:
            list(customers.map(customer, range(ORDERS)))
    check(dsn, sql, refused)
