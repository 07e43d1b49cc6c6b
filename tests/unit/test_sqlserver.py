"""The SQL Server store without a server: parameters, errors and repeated calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rowlease.errors import (
    AccessDenied,
    ConfigError,
    InvalidRequest,
    QueueFull,
    RoutineError,
    RowleaseError,
    SchemaMismatch,
    StoreConflict,
    StoreError,
    StoreTimeout,
    StoreUnavailable,
)
from rowlease.model import Held, Outcome
from rowlease.store import deadlines
from rowlease.store.routines import Routine
from rowlease.store.sqlserver.connection import pyodbc
from rowlease.store.sqlserver.driver_errors import OdbcError, is_lock_conflict, our_error
from rowlease.store.sqlserver.migrate import _in_order
from rowlease.store.sqlserver.procedures import ProcedureCall, _written
from rowlease.store.sqlserver.store import SqlServerStore
from tests.tsql import unixodbc

if why := unixodbc.missing():
    pytest.skip(why, allow_module_level=True)

odbc = pyodbc()
WHO = "[Microsoft][ODBC Driver 18 for SQL Server]"


def driver_error(state: str, text: str, code: int, function: str = "SQLExecDirectW") -> Any:
    """As pyodbc raises it."""
    return odbc.Error(state, f"[{state}] {WHO}[SQL Server]{text} ({code}) ({function})")


# -- what errors say -----------------------------------------------------------------------------


def test_an_error_is_taken_apart() -> None:
    answered = OdbcError.read(driver_error("42000", "queue (a) is [full]; wait (5)", 51005))
    assert answered == ("42000", 51005, "queue (a) is [full]; wait (5)", False)


def test_of_several_records_the_first_with_a_number_counts() -> None:
    message = (
        f"[01000] {WHO}[SQL Server]noted (0) (SQLExecDirectW); "
        f"[42000] {WHO}[SQL Server]no such procedure (2812)"
    )
    assert OdbcError.read(odbc.Error("01000", message))[:3] == ("42000", 2812, "no such procedure")


def test_a_lost_connection_is_known_by_its_number_too() -> None:
    """Azure ends sessions with SQLSTATE HY000."""
    assert OdbcError.read(driver_error("HY000", "the service has failed", 40197)).is_disconnect
    assert OdbcError.read(driver_error("08S01", "the link has failed", 0)).is_disconnect
    assert not OdbcError.read(driver_error("42000", "no such procedure", 2812)).is_disconnect


def test_a_lock_that_was_not_granted_is_known_by_its_number() -> None:
    assert is_lock_conflict(driver_error("40001", "was chosen as the deadlock victim", 1205))
    assert is_lock_conflict(driver_error("42000", "lock request time out period exceeded", 1222))
    assert not is_lock_conflict(driver_error("42S02", "invalid object name", 208))
    assert not is_lock_conflict(None)


def test_an_error_of_another_form_is_passed_on_unchanged() -> None:
    assert OdbcError.read(
        odbc.Error("HY000", "The driver did not supply an error!")
    ).text.startswith("The")
    assert OdbcError.read(odbc.Error()).text


@pytest.mark.parametrize(
    ("state", "code", "text", "kind"),
    [
        ("42000", 51001, "x", RoutineError),
        ("42000", 51002, "x", InvalidRequest),
        ("42000", 51005, "x", QueueFull),
        ("42000", 51010, "x", InvalidRequest),
        ("42000", 51011, "x", InvalidRequest),
        ("42000", 51012, "x", StoreConflict),
        ("40001", 1205, "x", StoreConflict),
        ("42000", 1222, "x", StoreConflict),
        ("23000", 2601, "index 'queue_group_in_flight'", StoreConflict),
        ("23000", 2627, "index 'queue_dedup'", StoreError),
        ("23000", 547, 'constraint "queue_due"', InvalidRequest),
        ("23000", 547, 'constraint "queue_status"', StoreError),
        ("22003", 8115, "x", InvalidRequest),
        ("22001", 2628, "x", InvalidRequest),
        ("42000", 13609, "x", InvalidRequest),
        ("42000", 229, "x", AccessDenied),
        ("42000", 2812, "x", SchemaMismatch),
        ("42S02", 208, "x", SchemaMismatch),
        ("08S01", 10054, "x", StoreUnavailable),
        ("HYT00", 0, "Query timeout expired", StoreTimeout),
        ("28000", 4060, "x", StoreUnavailable),
        ("28000", 18456, "x", AccessDenied),
        ("42000", 1934, "x", ConfigError),
        ("25000", 3906, "x", StoreUnavailable),
        ("01000", 0, "Can't open lib 'x' : file not found", ConfigError),
    ],
)
def test_an_error_is_called_as_on_postgresql(
    state: str, code: int, text: str, kind: type[RowleaseError]
) -> None:
    found = our_error(driver_error(state, text, code), "mssql://u:***@h/db")
    assert type(found) is kind


def test_a_login_that_takes_too_long_has_done_nothing() -> None:
    late = driver_error("HYT00", "Login timeout expired", 0, "SQLDriverConnect")
    assert type(our_error(late, "mssql://u:***@h/db")) is StoreUnavailable


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (1105, "has no disk space left: x"),
        (9002, "has no disk space left: x"),
        (701, "is out of memory: x"),
        (
            1204,
            "has no memory for more locks: x; give the server more memory, or split a large "
            "load into several load ids",
        ),
        (17809, "accepts no more connections: x"),
    ],
)
def test_the_error_names_the_resource_that_the_server_lacks(code: int, says: str) -> None:
    found = our_error(driver_error("42000", "x", code), "mssql://u:***@h/db")
    assert type(found) is StoreUnavailable
    assert str(found) == f"the database at mssql://u:***@h/db {says}"


def test_where_the_database_is_not_reached_it_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadlines, "CONNECT", 2)  # the driver tries as long as it may
    with pytest.raises(StoreUnavailable, match=r"mssql://u:\*\*\*@127\.0\.0\.1:1/db") as raised:
        SqlServerStore("mssql://u:hunter2@127.0.0.1:1/db", "test").depth()
    assert "hunter2" not in f"{raised.value}{raised.value.__cause__}"


# -- parameters -----------------------------------------------------------------------------------


def test_every_parameter_has_its_place_and_what_is_not_given_is_null() -> None:
    params = {"p_a": "nvarchar(100)", "p_b": "int", "p_c": "nvarchar(max)"}
    call = ProcedureCall("wave", params, {"p_c": [1, None], "p_a": "x"})
    assert call._text == "exec rowlease.wave ?, null, ?"
    assert call._values == ["x", "[1, null]"]
    assert call._sizes == [(odbc.SQL_WVARCHAR, 100, 0), (odbc.SQL_WVARCHAR, 0, 0)]


@pytest.mark.parametrize(
    ("kind", "given", "sent"),
    [
        ("bit", True, True),
        ("bigint", 2**40, 2**40),
        ("nvarchar(max)", ["é", None, '"'], '["é", null, "\\""]'),
        ("nvarchar(max)", [True, False], "[true, false]"),
        ("nvarchar(2)", "😀", "😀"),
        (
            "datetime2(6)",
            datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            "2026-01-01T00:00:00.000000",
        ),
        ("nvarchar(max)", [datetime(2026, 1, 1, tzinfo=UTC)], '["2026-01-01T00:00:00.000000"]'),
        ("datetime2(6)", datetime(2026, 1, 1), "2026-01-01T00:00:00.000000"),
    ],
)
def test_a_value_is_written_as_the_procedure_takes_it(kind: str, given: Any, sent: Any) -> None:
    assert _written("p_x", kind, given) == sent


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("nvarchar(3)", "four", "too long"),
        ("nvarchar(1)", "😀", "too long"),
        ("int", 2**31, "out of range"),
        ("bigint", -(2**63) - 1, "out of range"),
        ("nvarchar(max)", "a\0b", "a character that the database refuses"),
        ("nvarchar(max)", ["a", "\0"], "a character that the database refuses"),
        ("nvarchar(max)", ["\ud800"], "half of a Unicode character"),
        (
            "datetime2(6)",
            datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
            "out of range",
        ),
    ],
)
def test_what_sql_server_would_cut_or_refuse_is_refused_before(
    kind: str, given: Any, says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        _written("p_x", kind, given)


# -- repeated calls --------------------------------------------------------------------------------


class Failing(SqlServerStore):
    """A store whose calls fail as scripted, and then succeed."""

    def __init__(self, *errors: Any) -> None:
        super().__init__("mssql://u:p@127.0.0.1:1/db", "test")
        self.errors = list(errors)
        self.calls = 0

    def _call_once(self, call: Any, seconds: float) -> list[Any]:
        self.calls += 1
        if self.errors:
            self._raise(self.errors.pop(0))
        return []


DEADLOCK = driver_error("40001", "deadlocked", 1205)
CUT = driver_error("08S01", "Communication link failure", 0)
REFUSED = driver_error("08001", "no connection", 10061, "SQLDriverConnect")
BUSY = driver_error("42000", "try later", 40613, "SQLDriverConnect")
ENQUEUE = {"p_queue_name": "q", "p_kinds": ["a"], "p_payloads": ["{}"]}


@pytest.mark.parametrize("name", ["dequeue", "complete", "enqueue_many", "operate"])
def test_a_deadlock_has_done_nothing_so_any_call_is_made_again(name: str) -> None:
    store = Failing(DEADLOCK, DEADLOCK)
    store._call(name)
    assert store.calls == 3


def test_a_call_with_its_repeats_is_one_block_of_the_monitor() -> None:
    seen = []

    @contextmanager
    def monitor(name: str) -> Iterator[None]:
        seen.append(name)
        yield
        seen.append("ended")

    Failing(DEADLOCK).monitored(monitor).depth()
    assert seen == ["depth", "ended"]


def test_after_five_deadlocks_the_caller_gets_the_error() -> None:
    store = Failing(*[DEADLOCK] * 9)
    with pytest.raises(StoreConflict):
        store._call("complete")
    assert store.calls == 5


@pytest.mark.parametrize("code", [1204, 9002, 701])
def test_a_call_that_the_server_has_no_room_for_is_not_made_again_at_once(code: int) -> None:
    store = Failing(driver_error("42000", "no room", code))
    with pytest.raises(StoreUnavailable):
        store._call("promote")
    assert store.calls == 1


def test_after_a_cut_only_what_finds_its_own_work_done_is_made_again() -> None:
    for name in ("complete", "fail", "abandon", "renew", "promote", "depth"):
        store = Failing(CUT)
        store._call(name)
        assert store.calls == 2, name
    for name in ("dequeue", "exchange", "enqueue_many", "operate"):
        store = Failing(CUT)
        with pytest.raises(StoreUnavailable):
            store._call(name)
        assert store.calls == 1, name


def test_an_enqueue_with_a_receipt_is_made_again_unless_it_waits() -> None:
    store = Failing(CUT)
    store._call("enqueue_many", **ENQUEUE, p_receipt_key="k")
    assert store.calls == 2
    store = Failing(CUT)
    with pytest.raises(StoreUnavailable):
        store._call("enqueue_many", **ENQUEUE, p_receipt_key="k", p_wait_ms=1000)


def test_a_failed_connection_is_an_error_at_once_unless_the_server_is_busy() -> None:
    store = Failing(REFUSED)
    with pytest.raises(StoreUnavailable):
        store._call("depth")
    assert store.calls == 1
    store = Failing(BUSY)
    store._call("dequeue")
    assert store.calls == 2


# -- what comes back -----------------------------------------------------------------------------


class Wide(SqlServerStore):
    """A store whose procedures answer with a column more than this release knows."""

    def _call_once(self, call: Any, seconds: float) -> list[Any]:
        outcome = (7, "ok")
        return [(*outcome, "new")]


def test_a_column_that_a_later_release_added_is_cut_off() -> None:
    store = Wide("mssql://u:p@127.0.0.1:1/db", "test")
    assert store.complete([Held(7, 1)]) == [Outcome.OK]


# -- migrate ---------------------------------------------------------------------------------------


def test_scripts_come_in_the_order_in_which_they_are_bound() -> None:
    bodies = {
        "a": "create or alter procedure rowlease.a as exec rowlease.b",
        "grants": "grant execute on rowlease.a to x",
        "t": "create or alter trigger rowlease.t on rowlease.V instead of insert as return",
        "b": "create or alter function rowlease.b() returns table as return rowlease.v",
        "V": "create or alter view rowlease.V as select rowlease.z()",
        "z": "create or alter function rowlease.z() returns int as begin return 1; end",
    }
    files = [Routine(name, "rowlease", "", {}, {}, body) for name, body in bodies.items()]
    assert [file.name for file in _in_order(files)] == ["z", "V", "b", "a", "t", "grants"]
