"""Logical replication: a database whose tables are all published works as before.

That is what change capture and upgrades by replication set up. A published table without a
replica identity refuses every update and delete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rowlease.errors import StoreError
from rowlease.model import Begun, Failure, NewRequest
from rowlease.store import Store, migrate

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
        "insert into rowlease.staging (load_id, run_number, row_id, kind) values ('l', %s, 1, 'a')",
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


def test_what_the_server_refuses_is_not_called_a_lost_connection(store: Store, sql: Sql) -> None:
    sql("alter table rowlease.queue_depth replica identity default")
    store.enqueue_many("default", [NewRequest(kind="a")])
    with pytest.raises(StoreError, match="replica identity") as raised:
        store.maintain()
    assert not raised.value.transient
