"""What `diagnose_sessions` finds beside sessions, on a server of these tests alone."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import ExecStatus, PGconn

from rowlease.embedded import embedded
from rowlease.store.routines import load_routines
from tests.waiting import until


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What holds the horizon of a server would harm the tests beside this one."""
    settings = {"fsync": "off", "max_prepared_transactions": "1"}
    with embedded(tmp_path_factory.mktemp("server"), settings=settings) as dsn:
        with psycopg.connect(dsn) as connection:
            connection.execute("create schema rowlease")
            connection.execute(load_routines("postgresql")["diagnose_sessions"].body)
        yield dsn


HELD = "select finding, subject, action from rowlease.diagnose_sessions(0)"


def test_a_prepared_transaction_that_holds_the_horizon_is_named(own_server: str) -> None:
    with psycopg.connect(own_server, autocommit=True) as sql:
        sql.execute("begin; create table made_by_it (); prepare transaction 'left behind'")
        found = sql.execute(HELD).fetchall()
        assert found == [("horizon", "left behind", "end it: rollback prepared 'left behind'")]
        assert sql.execute("select from rowlease.diagnose_sessions()").fetchall() == []
        sql.execute("rollback prepared 'left behind'")
        assert sql.execute(HELD).fetchall() == []


def test_a_slot_without_a_reader_is_named(own_server: str) -> None:
    with psycopg.connect(own_server, autocommit=True) as sql:
        sql.execute("select pg_create_physical_replication_slot('left', true)")
        ((finding, subject, action),) = sql.execute(HELD).fetchall()
        assert (finding, subject) == ("slot", "left")
        drop = "select pg_drop_replication_slot('left')"
        assert action == f"connect its reader again, or drop it: {drop}"
        ((message,),) = sql.execute("select message from rowlease.diagnose_sessions()").fetchall()
        assert "has no reader and keeps " in str(message)
        sql.execute(drop.encode())
        assert sql.execute(HELD).fetchall() == []


def test_a_slot_whose_standby_is_away_is_named(own_server: str) -> None:
    """A standby reports the oldest row that it needs, and the slot remembers it."""
    with psycopg.connect(own_server, autocommit=True) as sql:
        sql.execute("select pg_create_physical_replication_slot('standby', true)")
        query = "select pg_current_wal_flush_lsn(), pg_current_xact_id()::text::bigint"
        ((position, transaction),) = sql.execute(query).fetchall()
        standby = PGconn.connect(f"{own_server}&replication=database".encode())
        command = f"START_REPLICATION SLOT standby PHYSICAL {position}"
        assert standby.exec_(command.encode()).status == ExecStatus.COPY_BOTH
        standby.put_copy_data(b"h" + struct.pack("!qIIII", 0, transaction, 0, 0, 0))
        slot = "select xmin is not null, active from pg_replication_slots"
        until(lambda: standby.flush() or sql.execute(slot).fetchall() == [(True, True)])
        assert sql.execute(HELD).fetchall() == []
        standby.finish()
        until(lambda: sql.execute(slot).fetchall() == [(True, False)])
        drop = "select pg_drop_replication_slot('standby')"
        ((finding, subject, action),) = sql.execute(HELD).fetchall()
        assert (finding, subject) == ("slot", "standby")
        assert action == f"connect its standby, or drop it: {drop}"
        sql.execute(drop.encode())
        assert sql.execute(HELD).fetchall() == []
