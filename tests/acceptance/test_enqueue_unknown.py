"""An enqueue over a network that goes silent or breaks: once, or EnqueueUnknown is raised."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from rowlease.cli.enqueue import enqueue
from rowlease.client.client import Client
from rowlease.errors import EnqueueUnknown, InvalidRequest, QueueFull, StoreUnavailable
from rowlease.model import Outcome
from rowlease.tasks.requests import untyped_request
from tests.freezing import Freezer
from tests.waiting import until

Sql = Callable[..., list[tuple[Any, ...]]]
Ids = Callable[[], list[tuple[Any, ...]]]
BUDGET = timedelta(seconds=3)
#: Seconds by which a call may be longer on a machine that is busy.
LATE = 3.0
COUNT = "select count(*) from rowlease.queue where kind = 'x'"


@pytest.fixture
def proxy(dsn: str) -> Iterator[Freezer]:
    with Freezer(dsn) as opened:
        yield opened


@pytest.fixture
def client(proxy: Freezer) -> Iterator[Client]:
    """A client whose connections go through the proxy; the statement is prepared on one of them."""
    with Client(proxy.dsn, retry_for=BUDGET) as opened:
        opened.enqueue_untyped("prepared")
        yield opened


@pytest.fixture
def ids(sql: Sql) -> Ids:
    return lambda: sql("select request_id from rowlease.queue where kind = 'x'")


@pytest.mark.parametrize("only_answers", [True, False], ids=["answer", "request"])
def test_on_a_session_that_goes_silent_it_is_tried_again_on_another(
    only_answers: bool, client: Client, proxy: Freezer, ids: Ids
) -> None:
    proxy.freeze(only_answers=only_answers)
    answer = client.enqueue_untyped("x")
    assert answer.outcome is (Outcome.REPEAT if only_answers else Outcome.OK)
    assert ids() == [(answer.request_id,)]


@pytest.mark.parametrize("only_answers", [True, False], ids=["answer", "request"])
@pytest.mark.parametrize("wait", [None, timedelta(seconds=0.5)])
def test_without_an_answer_the_error_has_a_receipt_that_repeats_the_call_safely(
    wait: timedelta | None, only_answers: bool, client: Client, proxy: Freezer, ids: Ids
) -> None:
    proxy.freeze(new_ones=True, only_answers=only_answers)
    began = monotonic()
    with pytest.raises(EnqueueUnknown, match="not known whether") as raised:
        client.enqueue_untyped("x", wait=wait)
    assert monotonic() - began < BUDGET.total_seconds() + LATE
    was_enqueued = bool(ids())
    assert was_enqueued or not only_answers or wait  # a call with `wait` has yet to be prepared
    proxy.thaw()
    answer = client.enqueue_untyped("x", receipt=raised.value.receipt)
    assert ids() == [(answer.request_id,)]
    if was_enqueued:
        assert answer.outcome is Outcome.REPEAT


def test_the_error_before_anything_was_sent_says_that_nothing_was_enqueued(
    client: Client, dsn: str, server_dsn: str, sql: Sql
) -> None:
    """The server has hung up on the idle connections, and takes no others."""
    with away(dsn, server_dsn), pytest.raises(StoreUnavailable, match="refuses the connection"):
        client.enqueue_untyped("x")
    with psycopg.connect(dsn) as connection:
        assert connection.execute(COUNT).fetchall() == [(0,)]


def test_an_enqueue_outlasts_a_database_that_is_away(
    client: Client, proxy: Freezer, dsn: str, server_dsn: str
) -> None:
    with ThreadPoolExecutor(1) as background, Client(proxy.dsn) as patient:
        with away(dsn, server_dsn):
            seen = proxy.num_sessions
            answer = background.submit(patient.enqueue_untyped, "x")
            until(lambda: proxy.num_sessions >= seen + 3)
            assert not answer.done()
        assert answer.result().outcome is Outcome.OK
    with psycopg.connect(dsn) as connection:
        assert connection.execute(COUNT).fetchall() == [(1,)]


def test_an_idle_connection_that_was_cut_costs_no_try(client: Client, sql: Sql) -> None:
    sql(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    client.store.depth()  # a single try: it would raise


def test_a_producer_that_waits_for_room_survives_a_silent_session(
    client: Client, proxy: Freezer, sql: Sql
) -> None:
    client.store.configure_queue("default", capacity=2)
    first = client.enqueue_untyped("x")
    with ThreadPoolExecutor(1) as background:
        answer = background.submit(client.enqueue_untyped, "x", wait=timedelta(seconds=60))
        until(lambda: sql("select from rowlease.queue_waiter"))
        proxy.freeze()
        sql("select rowlease.operate('cancel', %s)", (json.dumps({"ids": [first.request_id]}),))
        assert answer.result(30).outcome in (Outcome.OK, Outcome.REPEAT)
    assert sql(COUNT) == [(1,)]


def test_a_queue_that_stays_full_raises_queue_full(client: Client) -> None:
    client.store.configure_queue("default", capacity=2)
    client.enqueue_untyped("x")
    with pytest.raises(QueueFull):
        client.enqueue_untyped("x", wait=timedelta(seconds=0.2))


def test_a_receipt_of_the_callers_own_names_the_call(client: Client, sql: Sql) -> None:
    batch = [untyped_request("x"), untyped_request("x")]
    first = client.enqueue_many(batch, receipt="order 4711")
    again = client.enqueue_many(batch, receipt="order 4711")
    assert [one.outcome for one in again] == [Outcome.REPEAT] * 2
    assert [one.request_id for one in again] == [one.request_id for one in first]
    with pytest.raises(InvalidRequest, match=r"'order 4711' was used for 2 requests, .* has 1"):
        client.enqueue_untyped("x", receipt="order 4711")
    assert sql(COUNT) == [(2,)]


def test_a_receipt_counts_in_the_callers_transaction_too(
    client: Client, dsn: str, sql: Sql
) -> None:
    with psycopg.connect(dsn) as connection:
        first = client.bind(connection).enqueue_untyped("x", receipt="mine")
    with psycopg.connect(dsn) as connection:
        again = client.bind(connection).enqueue_untyped("x", receipt="mine")
    assert (again.request_id, again.outcome) == (first.request_id, Outcome.REPEAT)
    assert sql(COUNT) == [(1,)]


class Swallow(Freezer):
    """Goes silent for good at the first enqueue."""

    def passes(self, client: int, data: bytes, is_answer: bool) -> bool:
        if b"rowlease.enqueue" in data and not is_answer:
            self.freeze(new_ones=True)
        return super().passes(client, data, is_answer)


def test_the_command_says_with_which_receipt_to_run_it_again(
    dsn: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = partial(Client, retry_for=timedelta(seconds=1))
    monkeypatch.setattr("rowlease.client.client.Client", quick)
    with Swallow(dsn) as proxy:
        failed = CliRunner().invoke(enqueue, ["x", "--dsn", proxy.dsn])
    assert isinstance(failed.exception, EnqueueUnknown)
    assert failed.exception.exit_code == 3
    printed = re.search(r"run the same command with (--receipt \S+):", str(failed.exception))
    assert printed
    for outcome in ("ok", "repeat"):
        again = CliRunner().invoke(enqueue, ["x", "--dsn", dsn, *printed[1].split()])
        assert (again.exit_code, again.output) == (0, f"request 1: {outcome}\n")
    assert sql(COUNT) == [(1,)]


@contextmanager
def away(dsn: str, server_dsn: str) -> Iterator[None]:
    """While inside, the test's database takes no connections, and has ended those there were."""
    name = sa.make_url(dsn).database
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(f'alter database "{name}" with allow_connections false')
        connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s",
            (name,),
        )
        try:
            yield
        finally:
            connection.execute(f'alter database "{name}" with allow_connections true')
