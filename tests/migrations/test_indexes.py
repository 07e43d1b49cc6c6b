"""Indexes that somebody has dropped: `rowlease migrate` creates them again, while workers work."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from click.testing import CliRunner

from rowlease.cli.migrate import migrate as migrate_command
from rowlease.embedded.binaries import psql
from rowlease.errors import SchemaMismatch
from rowlease.model import Failure, NewRequest, Outcome
from rowlease.store import Store, engine_of, migrate, open_store
from rowlease.store.postgresql.migrate import INDEX_LOCK
from tests.conftest import in_database, scratch_database
from tests.waiting import until

Sql = Callable[[str], list[tuple[object, ...]]]

#: The indexes that are not those of constraints or of partitions.
INDEXES = """
select c.oid::regclass::text from pg_class c
 where c.relnamespace = 'rowlease'::regnamespace and c.relkind in ('i', 'I')
   and not c.relispartition
   and not exists (select from pg_constraint k where k.conindid = c.oid)
 order by 1"""
#: Without this one, no request with a dedup key can be enqueued.
NEEDED = "rowlease.queue_dedup"
INVALID = "select indexrelid::regclass::text from pg_index where not indisvalid"
WAITS = """
select count(*)::int from pg_stat_activity
 where application_name = 'rowlease migrate' and wait_event_type = 'Lock'
   and datname = current_database()"""


@pytest.fixture(scope="module")
def migrated(server_dsn: str) -> Iterator[str]:
    """The name of a migrated database, which no test changes."""
    with scratch_database(server_dsn) as name:
        migrate(in_database(server_dsn, name))
        yield name


@pytest.fixture
def dsn(server_dsn: str, migrated: str) -> Iterator[str]:
    """A migrated database."""
    with scratch_database(server_dsn, template=migrated) as name:
        yield in_database(server_dsn, name)


@pytest.fixture
def store(dsn: str) -> Iterator[Store]:
    with closing(open_store(dsn)) as store:
        yield store


@pytest.fixture
def sql(dsn: str) -> Iterator[Sql]:
    with psycopg.connect(dsn, autocommit=True) as connection:

        def run(text: str) -> list[tuple[object, ...]]:
            cursor = connection.execute(text.encode())
            return [] if cursor.description is None else cursor.fetchall()

        yield run


def names(sql: Sql) -> list[str]:
    return [str(name) for (name,) in sql(INDEXES)]


def work(store: Store) -> None:
    """Requests are enqueued, claimed, finished, found and swept."""
    requests = [NewRequest(kind="a", group_key=group) for group in (None, None, "g", "g")]
    store.enqueue_many("default", requests)
    held = store.dequeue("one", ["default"], 2).requests
    assert store.complete(held[:1]) == [Outcome.OK]
    assert store.fail(held[1:], [Failure("x", dead=True)]) == [Outcome.OK]
    assert len(store.dequeue("one", ["default"], 9).requests) == 1
    assert len(store.find_requests(queue="default").requests) == 4
    assert store.operate("requeue", queue="default").num_requests == 1
    store.maintain()


@pytest.mark.parametrize("named", ["pending", "expiring", "scheduled", ""])
def test_work_goes_on_without_an_index(named: str, sql: Sql, store: Store) -> None:
    """Or without any, but for the one that dedup keys need."""
    dropped = [one for one in names(sql) if named in one and one != NEEDED]
    sql(f"drop index {', '.join(dropped)}")
    work(store)


def test_a_dedup_key_without_its_index_is_refused_with_the_remedy(
    dsn: str, sql: Sql, store: Store
) -> None:
    sql(f"drop index {NEEDED}")
    with pytest.raises(SchemaMismatch, match="run `rowlease migrate`"):
        store.enqueue_many("default", [NewRequest(kind="a", dedup_key="k")])
    migrate(dsn)
    store.enqueue_many("default", [NewRequest(kind="a", dedup_key="k")])
    (again,) = store.enqueue_many("default", [NewRequest(kind="a", dedup_key="k")])
    assert again.outcome == Outcome.DUPLICATE


def test_migrate_creates_every_missing_index(dsn: str, sql: Sql, store: Store) -> None:
    sql("select rowlease.maintain()")  # the history has partitions of days
    dropped = names(sql)
    assert len(dropped) > 25
    sql(f"drop index {', '.join(dropped)}")
    advice = {one.object: one.advice for one in engine_of(dsn).schema_differences()}
    assert set(advice.values()) == {"run `rowlease migrate`, which creates it while workers work"}
    done = migrate(dsn)
    assert (sorted(done.indexes), done.changed) == (dropped, False)
    assert engine_of(dsn).schema_differences() == []
    assert sql(INVALID) == []
    assert migrate(dsn).indexes == ()
    work(store)


def test_an_index_of_the_history_is_created_once_more_on_every_partition(
    dsn: str, sql: Sql
) -> None:
    for _ in range(2):
        sql("drop index rowlease.queue_history_request")
        migrate(dsn)
    assert engine_of(dsn).schema_differences() == []
    assert sql(INVALID) == []


def test_what_an_interrupted_migrate_has_left_is_made_whole(dsn: str, sql: Sql) -> None:
    sql("drop index rowlease.queue_history_request")
    sql("create index queue_history_request on only rowlease.queue_history (request_id)")
    sql(
        "update pg_index set indisvalid = false"
        " where indexrelid = 'rowlease.queue_failed'::regclass"
    )
    assert len(sql(INVALID)) == 2
    done = migrate(dsn)
    assert done.indexes == ("rowlease.queue_failed", "rowlease.queue_history_request")
    assert engine_of(dsn).schema_differences() == []
    assert sql(INVALID) == []


def test_an_index_with_another_definition_stays(dsn: str, sql: Sql) -> None:
    sql("drop index rowlease.queue_failed")
    sql("create index queue_failed on rowlease.queue (kind)")
    assert migrate(dsn).indexes == ()
    ((one,),) = [(each.advice,) for each in engine_of(dsn).schema_differences()]
    assert one.startswith("change it to what the migrations make: CREATE INDEX queue_failed")


def test_writers_and_workers_go_on_while_an_index_is_created(
    dsn: str, sql: Sql, store: Store
) -> None:
    sql("drop index rowlease.queue_pending")
    with ThreadPoolExecutor() as pool, psycopg.connect(dsn) as writer:
        writer.execute("select rowlease.enqueue('default', 'a')")
        migrated = pool.submit(migrate, dsn)
        until(lambda: sql(WAITS)[0][0])  # for the writer's transaction to end
        work(store.within(timedelta(seconds=30)))
        assert not migrated.done()
        writer.commit()
        assert migrated.result().indexes == ("rowlease.queue_pending",)


def test_an_index_that_its_rows_do_not_allow_holds_up_no_other(
    dsn: str, sql: Sql, store: Store
) -> None:
    sql("drop index rowlease.queue_dedup, rowlease.queue_failed")
    _, second = store.enqueue_many("default", [NewRequest(kind="a")] * 2)
    sql("update rowlease.queue set dedup_key = 'k'")
    for _ in range(2):
        done = migrate(dsn)
        assert "the index rowlease.queue_dedup was not created (could not cre" in str(done.advice)
        assert "Key (queue_name, dedup_key)=(default, k) is duplicated" in str(done.advice)
    sql(f"update rowlease.queue set dedup_key = null where request_id = {second.request_id}")
    assert migrate(dsn).indexes == ("rowlease.queue_dedup",)
    assert engine_of(dsn).schema_differences() == []


def test_one_session_at_a_time_creates_indexes(dsn: str, sql: Sql) -> None:
    sql("drop index rowlease.queue_failed")
    sql(f"select pg_advisory_lock({INDEX_LOCK})")
    assert migrate(dsn).indexes == ()
    sql(f"select pg_advisory_unlock({INDEX_LOCK})")
    assert migrate(dsn).indexes == ("rowlease.queue_failed",)


def test_the_script_for_a_dba_creates_them(dsn: str, sql: Sql) -> None:
    sql("drop index rowlease.queue_failed, rowlease.queue_history_request")
    subprocess.run(
        [psql(), "-X", "-q", "-v", "ON_ERROR_STOP=1", dsn],
        input=engine_of(dsn).migration_sql(),
        text=True,
        check=True,
        capture_output=True,
    )
    assert engine_of(dsn).schema_differences() == []
    assert sql(INVALID) == []
    assert engine_of(dsn).migration_sql().endswith("nothing to do\n")


def test_the_command_names_what_it_has_created(dsn: str, sql: Sql) -> None:
    sql("drop index rowlease.queue_failed")
    done = CliRunner().invoke(migrate_command, ["--dsn", dsn])
    first, second = done.output.splitlines()
    assert first.endswith(": created the missing index rowlease.queue_failed")
    assert second.endswith(" is up to date")
