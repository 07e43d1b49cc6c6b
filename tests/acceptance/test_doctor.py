"""`rowlease doctor`: what it finds wrong with a server, a schema and the sessions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from rowlease.cli import cli
from rowlease.doctor import examine, old_workers
from rowlease.errors import AccessDenied, SchemaMismatch
from rowlease.store import Store, open_store
from rowlease.store.revisions import own_version
from rowlease.store.routines import load_routines
from tests.conftest import in_database
from tests.waiting import until

Sql = Callable[..., list[tuple[Any, ...]]]

AT_ONCE = timedelta(0)


@pytest.fixture
def dsn(dsn: str) -> str:
    """The test's own database, with the routine `now` of the release."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(load_routines("postgresql")["now"].body)
    return dsn


@contextmanager
def session(dsn: str, name: str = "the culprit") -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, application_name=name) as connection:
        yield connection
        connection.rollback()


def test_a_healthy_database_has_no_findings(dsn: str) -> None:
    done = CliRunner().invoke(cli, ["doctor", "--dsn", dsn])
    assert (done.exit_code, done.output.endswith(": no findings\n")) == (0, True), done.output
    done = CliRunner().invoke(cli, ["doctor", "--json", "--dsn", dsn])
    assert json.loads(done.output)["findings"] == []


def test_a_finding_is_a_line_with_an_action_and_the_exit_code_1(dsn: str, sql: Sql) -> None:
    sql("select rowlease.enqueue('default', 'a')")
    sql("select rowlease.pause('default')")
    done = CliRunner().invoke(cli, ["doctor", "--dsn", dsn])
    assert done.exit_code == 1
    first, last = done.output.splitlines()
    assert first == (
        'paused: the queue "default" is paused, and 1 request waits in it; resume it: '
        "rowlease queue resume default"
    )
    assert last.endswith(": 1 finding")
    done = CliRunner().invoke(cli, ["doctor", "--json", "--dsn", dsn])
    assert done.exit_code == 1
    (found,) = json.loads(done.output)["findings"]
    assert (found["finding"], found["subject"]) == ("paused", "default")


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        ("drop function rowlease_internal.backoff_ms", "routine rowlease_internal.backoff_ms"),
        ("alter table rowlease.queue alter kind drop not null", "column rowlease.queue.kind"),
        (
            "revoke execute on function rowlease.explain from rowlease_reader",
            "grant execute on rowlease.explain() to rowlease_reader",
        ),
        ("create table rowlease.mine ()", "table rowlease.mine"),
    ],
)
def test_drift_is_found(dsn: str, sql: Sql, change: str, subject: str) -> None:
    sql(change)
    found = [(one.finding, one.subject) for one in examine(dsn)]
    assert ("drift", subject) in found
    assert {finding for finding, _ in found} == {"drift"}


def test_a_user_who_may_not_compare_the_schema_learns_why(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only SQL Server hides definitions."""

    def refused(_: object) -> None:
        raise AccessDenied("the user cannot see all definitions; grant it VIEW DEFINITION")

    monkeypatch.setattr("rowlease.store.postgresql.engine.PostgreSQL.schema_differences", refused)
    (found,) = examine(dsn)
    assert (found.finding, found.subject) == ("drift", "the schema")
    assert found.message == "the schema was not compared with this release"
    assert found.action == "the user cannot see all definitions; grant it VIEW DEFINITION"


def test_another_schema_is_an_error_of_its_own(dsn: str, sql: Sql) -> None:
    sql("update rowlease.alembic_version set version_num = '9999'")
    sql("update rowlease.schema_info set oldest_client = '9999'")
    with pytest.raises(SchemaMismatch):
        examine(dsn)


def test_a_session_that_holds_the_horizon_is_named(dsn: str, store: Store) -> None:
    with session(dsn) as other:
        other.execute("set transaction isolation level repeatable read")
        other.execute("select 1")
        (found,) = store.diagnose_sessions(AT_ONCE)
        pid = other.info.backend_pid
        assert found.finding == "horizon"
        assert f'session {pid} (user "' in found.message
        assert 'application "the culprit", idle in transaction) has been' in found.message
        assert found.action == f"end it: select pg_terminate_backend({pid})"
        assert store.diagnose_sessions() == []  # it is young
    assert store.diagnose_sessions(AT_ONCE) == []


def test_a_session_that_blocks_others_is_named(dsn: str, store: Store, sql: Sql) -> None:
    sql("select rowlease.enqueue('default', 'a')")
    with session(dsn) as blocker, session(dsn, "waits") as waiter:
        blocker.execute("select from rowlease.queue for update")
        waiter.execute("set statement_timeout = '60s'")
        waiter.pgconn.send_query(b"update rowlease.queue set num_crashes = 0")
        waiting = "select from pg_locks where not granted and pid = %s and waitstart is not null"
        until(lambda: sql(waiting, [waiter.info.backend_pid]))
        found = [one for one in store.diagnose_sessions(AT_ONCE) if one.finding == "blocker"]
        assert [one.subject for one in found] == [f"session {blocker.info.backend_pid}"]
        assert 'application "the culprit") has blocked others (1)' in found[0].message
        assert [one for one in store.diagnose_sessions() if one.finding == "blocker"] == []
        blocker.rollback()
        waiter.pgconn.get_result()
        waiter.pgconn.get_result()


def test_autovacuum_that_is_off_for_a_table_is_found(sql: Sql, store: Store) -> None:
    sql("alter table rowlease.queue set (autovacuum_enabled = off)")
    (found,) = store.diagnose_server()
    assert (found.finding, found.subject) == ("autovacuum", "rowlease.queue")
    sql(found.action.partition(": ")[2])
    assert store.diagnose_server() == []


def test_a_setting_that_stops_autovacuum_is_found(dsn: str, sql: Sql) -> None:
    ((name,),) = sql("select current_database()")
    sql(f"alter database {name} set track_counts = off")
    with closing(open_store(dsn)) as store:
        (found,) = store.diagnose_server()
    assert (found.finding, found.subject) == ("autovacuum", "track_counts")
    assert found.message == "the setting track_counts is off, so dead rows stay"


def test_dead_rows_that_nobody_vacuums_are_found(sql: Sql, store: Store) -> None:
    sql("alter table rowlease.queue_depth set (autovacuum_enabled = off)")
    sql(
        "insert into rowlease.queue_depth (queue_name, priority)"
        " select 'default', 0 from generate_series(1, 100001)"
    )
    sql("delete from rowlease.queue_depth")
    sql("select pg_stat_force_next_flush()")
    (found,) = [one for one in store.diagnose_server() if one.finding == "dead_rows"]
    assert found.subject == "rowlease.queue_depth"
    assert found.message.startswith("the table rowlease.queue_depth has 100001 dead rows beside 0")


def test_few_free_connections_are_found(dsn: str, sql: Sql, store: Store) -> None:
    assert store.diagnose_server() == []
    ((name,),) = sql("select current_database()")
    sql(f"alter database {name} connection limit 3")
    with session(dsn):
        (found,) = store.diagnose_server()
    assert (found.finding, found.subject) == ("connections", "the database")
    # A worker of autovacuum that is at work there counts, too.
    assert re.fullmatch("the database has [3-6] of 3 connections in use", found.message)


def test_a_clock_that_is_off_is_found(store: Store) -> None:
    now = datetime.now(UTC)
    assert store.diagnose_server(now) == []
    for off, says in ((timedelta(minutes=5), "ahead of"), (timedelta(minutes=-5), "behind")):
        (found,) = store.diagnose_server(datetime.now(UTC) + off)
        assert found.finding == "clock"
        assert f" s {says} the database's" in found.message


def test_an_encoding_that_cannot_hold_every_text_is_found(server_dsn: str, sql: Sql) -> None:
    """rowlease does not migrate such a database, but a schema may have been restored into one."""
    ((body,),) = sql("select pg_get_functiondef('rowlease.diagnose_server'::regproc)")
    name = "rowlease_test_ascii"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(
            f"create database {name} template template0 encoding 'SQL_ASCII' locale 'C'"
        )
        try:
            with psycopg.connect(in_database(server_dsn, name), autocommit=True) as other:
                other.execute("create schema rowlease")
                other.execute("create function rowlease.now() returns timestamptz return now()")
                other.execute(body)
                query = "select finding::bytea, message::bytea from rowlease.diagnose_server()"
                ((finding, message),) = other.execute(query).fetchall()
        finally:
            connection.execute(f"drop database {name} with (force)")
    assert finding == b"encoding"
    assert b"the encoding SQL_ASCII, which" in message


def test_a_reader_may_ask_and_learns_that_sessions_are_hidden(dsn: str) -> None:
    with psycopg.connect(dsn) as connection, session(dsn):
        connection.execute("set role rowlease_reader")
        for routine in ("diagnose", "diagnose_server"):
            assert connection.execute(f"select * from rowlease.{routine}()").fetchall() == []
        ((finding, _, message, action),) = connection.execute(
            "select * from rowlease.diagnose_sessions()"
        ).fetchall()
    assert finding == "hidden"
    assert re.match(
        r'user "rowlease_reader" may not see the transactions of other sessions \(\d+\)', message
    )
    assert action == "as a superuser: grant pg_read_all_stats to rowlease_reader"


def test_a_live_worker_of_an_older_release_is_named(dsn: str, store: Store) -> None:
    for version in ("0.0.9", own_version(), "0.9.1", "0.10.0", "1.0", "unknown"):
        store.worker_heartbeat(
            version, host="host", pid=1, version=version, queues=["default"], slots=1, busy=0
        )
    (found,) = [one for one in examine(dsn) if one.finding == "old_worker"]
    assert (found.subject, found.action) == (
        "0.0.9",
        f"stop it, and start a worker of {own_version()}",
    )
    older = {one.subject for one in old_workers(store.list_workers(), "0.10.0")}
    assert older == {"0.0.9", own_version(), "0.9.1"}
