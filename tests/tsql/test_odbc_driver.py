"""What Microsoft's ODBC driver sends and reports, with a server that gives scripted answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from rowlease.errors import (
    AccessDenied,
    ConfigError,
    RowleaseError,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
from rowlease.model import Held, NewRequest
from rowlease.store import Store, engine_of, migrate, open_store
from rowlease.store.error_codes import ERROR_TEXTS
from rowlease.store.routines import Routine, all_files, load_routines
from rowlease.store.sqlserver import migrate as sqlserver_migrate
from rowlease.store.sqlserver.connection import odbc_string, pyodbc
from rowlease.store.sqlserver.procedures import ProcedureCall
from tests.tsql import unixodbc
from tests.tsql.fake_server import Cut, Failure, FakeServer, Rows
from tests.tsql.tds import Kind

pytestmark = unixodbc.needed()

ROUTINES = load_routines("sqlserver")
#: What `migrate` asks first: edition, version, compatibility level, row versions, the name.
SERVER_2022 = Rows((3, 16, 160, True, "[db]"))
DEPTH = ("default", 0, 0, 5, 0, 0)
#: The errors of the server's that the table knows, and the class of each.
ERRORS = {
    code: entry.error for entry in ERROR_TEXTS for code in entry.codes if isinstance(code, int)
}
#: After these a connection cannot be used any more; the server closes it, too.
FATAL = (596, 6005)
#: An argument for a parameter of each type, and the type that reaches the server.
ARGUMENTS: dict[str, tuple[Any, str]] = {
    "bigint": (2**40, "bigint"),
    "int": (7, "int"),
    "smallint": (7, "int"),
    "bit": (True, "bit"),
    "nvarchar(max)": ("{}", "nvarchar(max)"),
    "datetime2(6)": (datetime(2026, 1, 2, tzinfo=UTC), "nvarchar(40)"),
}


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        running.answer("exec rowlease.depth", Rows(DEPTH))
        yield running


@pytest.fixture
def store(server: FakeServer) -> Iterator[Store]:
    """A store with one open connection; what came so far is forgotten."""
    with closing(open_store(server.dsn)) as opened:
        opened.depth()
        server.forget()
        yield opened


@pytest.fixture
def caller(server: FakeServer) -> Iterator[Any]:
    """A caller's own connection."""
    connection = pyodbc().connect(odbc_string(server.dsn, "a caller"), autocommit=False)
    yield connection
    with suppress(pyodbc().Error):  # an error may have closed it
        connection.close()


def sent(server: FakeServer) -> list[str]:
    """What came, as names of procedures and transactions, and as texts."""
    return [request.name or request.text for request in server.requests]


def test_a_schema_of_somebody_else_is_refused_in_the_first_message(server: FakeServer) -> None:
    server.answer("from sys.schemas as s where s.name = N'rowlease'", Failure(51020, "mallory"))
    for call in (lambda: open_store(server.dsn).check_schema(), lambda: migrate(server.dsn)):
        server.forget()
        with pytest.raises(ConfigError, match="belongs to mallory, and not to rowlease_owner"):
            call()
        assert not [text for text in sent(server) if "rowlease." in text]


# -- messages ------------------------------------------------------------------------------------


def test_a_call_without_parameters_is_one_message(store: Store, server: FakeServer) -> None:
    assert store.depth()[0].pending == 5
    assert sent(server) == ["set lock_timeout 10000; exec rowlease.depth null"]


def test_a_call_with_parameters_is_one_message(store: Store, server: FakeServer) -> None:
    for _ in range(3):
        store.depth("default")
    assert sent(server) == ["sp_prepexec"] * 3


def test_a_claim_whose_answer_is_lost_is_sent_once(store: Store, server: FakeServer) -> None:
    server.answer("exec rowlease.dequeue", Cut())
    with pytest.raises(StoreUnavailable):
        store.dequeue("me", ["default"], 1)
    assert [request.kind for request in server.requests] == [Kind.RPC]


# -- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "routine",
    [found for found in ROUTINES.values() if found.schema == "rowlease" and found.params],
    ids=lambda routine: routine.name,
)
def test_a_parameter_has_the_type_of_the_routines(
    routine: Routine, server: FakeServer, caller: Any
) -> None:
    """Another type would be converted, and a text that is longer would be cut without a word."""
    expected, given = [], {}
    for name, kind in routine.params.items():
        value, type_sent = ARGUMENTS.get(kind, ("a", kind))
        given[name] = value
        expected.append(type_sent)
    ProcedureCall(routine.name, routine.params, given).rows(caller.cursor())
    (request,) = (one for one in server.requests if f"rowlease.{routine.name} " in one.text)
    assert [value.type for value in request.values] == expected


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", sorted(set(ERRORS) - set(FATAL)))
def test_an_error_of_the_server_becomes_the_exception_of_the_table(
    number: int, store: Store, server: FakeServer, caller: Any
) -> None:
    server.answer("exec rowlease.complete", Failure(number, "what the server says"))
    with pytest.raises(RowleaseError, match="what the server says") as raised:
        store.complete([Held(1, 1)], connection=caller)  # which no store repeats
    assert type(raised.value) is ERRORS[number]


@pytest.mark.parametrize("number", FATAL)
def test_an_error_that_ends_the_connection_is_reported(
    number: int, store: Store, server: FakeServer
) -> None:
    server.answer("exec rowlease.dequeue", Failure(number, "it ends", severity=20))
    with pytest.raises(StoreUnavailable, match="it ends"):
        store.dequeue("me", ["default"], 1)
    assert store.depth()
    assert server.heard(Kind.LOGIN) == 1


@pytest.mark.parametrize(
    ("number", "kind"),
    [(4060, StoreUnavailable), (40613, StoreUnavailable), (18456, AccessDenied),
     (18487, AccessDenied)],
)  # fmt: skip
def test_a_refused_login_is_reported_with_its_reason(
    number: int, kind: type[StoreError], server: FakeServer
) -> None:
    """A worker asks again for ever only where that may help: a wrong password stays wrong."""
    server.refuses = Failure(number, "not you")
    with closing(open_store(server.dsn)) as refused, pytest.raises(kind) as raised:
        refused.depth()
    assert raised.value.transient == (kind is StoreUnavailable)
    assert (server.heard(Kind.LOGIN) > 1) == raised.value.transient
    assert "not you" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_an_error_after_a_result_set_is_raised(store: Store, server: FakeServer) -> None:
    server.answer("exec rowlease.depth", (Rows(DEPTH), Failure(8134, "late")))
    with pytest.raises(RowleaseError, match="late"):
        store.depth()


def test_what_a_deadlock_ended_is_repeated(store: Store, server: FakeServer) -> None:
    server.answer("exec rowlease.depth", Failure(1205), Failure(1222), Rows(DEPTH))
    assert store.depth()[0].pending == 5
    assert len([text for text in sent(server) if "exec rowlease.depth" in text]) == 3


def test_an_answer_that_is_cut_is_asked_for_again_if_that_does_no_harm(
    store: Store, server: FakeServer
) -> None:
    server.answer("exec rowlease.depth", (Rows(DEPTH), Cut()), Rows(DEPTH))
    assert store.depth()[0].pending == 5
    assert server.heard(Kind.LOGIN) == 1


def test_an_answer_that_is_cut_may_have_done_what_was_asked(
    store: Store, server: FakeServer
) -> None:
    server.answer("exec rowlease.dequeue", (Rows((1, 2)), Cut()))
    with pytest.raises(StoreError) as raised:
        store.dequeue("me", ["default"], 1)
    assert raised.value.maybe_done


# -- transactions --------------------------------------------------------------------------------


def enqueue_two(store: Store) -> list[list[Any]]:
    new = [NewRequest(kind="a")]
    return store.in_transaction(
        lambda connection: [
            store.enqueue_many(queue, new, connection=connection) for queue in ("one", "two")
        ]
    )


def test_several_calls_are_one_transaction_of_the_store(store: Store, server: FakeServer) -> None:
    server.answer("exec rowlease.enqueue", Rows((7, "ok", 1)))
    assert [[one.request_id for one in each] for each in enqueue_two(store)] == [[7], [7]]
    calls = [one for one in sent(server) if one != "sp_unprepare"]
    assert calls == ["begin", "sp_prepexec", "sp_prepexec", "commit"]
    server.forget()
    assert store.depth()[0].pending == 5
    assert sent(server) == ["set lock_timeout 10000; exec rowlease.depth null"]


@pytest.mark.parametrize("code", [51002, 51005, 1205])
def test_an_error_rolls_the_transaction_of_the_store_back(
    store: Store, server: FakeServer, code: int
) -> None:
    server.answer("exec rowlease.enqueue", Failure(code, "refused"))
    with pytest.raises(ERRORS[code]):
        enqueue_two(store)
    assert "commit" not in sent(server)
    server.forget()
    assert store.depth()[0].pending == 5


def test_the_driver_begins_a_new_transaction_after_one_that_an_error_ended(
    server: FakeServer, caller: Any
) -> None:
    """This is why the store must notice: the caller's commit succeeds, and has lost its start."""
    server.answer("exec fails", Failure(50000))
    caller.execute("insert orders")
    with pytest.raises(pyodbc().Error):
        caller.execute("exec fails")
    caller.execute("insert audit")
    caller.commit()
    assert sent(server)[-5:] == [
        "insert orders", "exec fails", "begin", "insert audit", "commit",
    ]  # fmt: skip


def test_a_callers_transaction_that_an_error_ended_cannot_be_committed(
    store: Store, server: FakeServer, caller: Any
) -> None:
    server.answer("exec rowlease.complete", Failure(1205))
    caller.execute("insert orders")
    with pytest.raises(RowleaseError):
        store.complete([Held(1, 1)], connection=caller)
    with pytest.raises(pyodbc().Error):
        caller.execute("insert audit")
    with pytest.raises(pyodbc().Error):
        caller.commit()
    assert "commit" not in sent(server)


# -- migrate -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edition", "version", "level", "says"),
    [
        (3, 14, 140, r"is SQL Server version 14; rowlease needs version 15 \(SQL Server 2019\)"),
        (3, 16, 120, r"compatibility level 120.*: alter database \[db\] set compatibility_level"),
        (5, 12, 120, "compatibility level 120"),
    ],
)
def test_migrate_refuses_a_server_that_is_too_old(
    server: FakeServer, edition: int, version: int, level: int, says: str
) -> None:
    server.answer("sp_getapplock", Rows([0]))
    server.answer("EngineEdition", Rows((edition, version, level, True, "[db]")))
    with pytest.raises(ConfigError, match=says):
        migrate(server.dsn)
    assert not [text for text in sent(server) if "create" in text.lower()]


def test_migrate_refuses_a_database_whose_readers_wait_unless_it_is_told_to_go_on(
    server: FakeServer,
) -> None:
    server.answer("sp_getapplock", Rows([0]))
    server.answer("EngineEdition", Rows((3, 15, 150, False, "[db]")))
    says = r"SNAPSHOT is off.*: alter database \[db\] set read_committed_snapshot on; or run `row"
    with pytest.raises(ConfigError, match=says):
        migrate(server.dsn)
    assert not [text for text in sent(server) if "create" in text.lower()]


@pytest.mark.parametrize(
    ("server_is", "says"), [((5, 12, 150, True), None), ((3, 15, 150, False), "set read_committed")]
)
def test_migrate_advises_on_how_readers_wait(
    server: FakeServer, server_is: tuple[object, ...], says: str | None
) -> None:
    server.answer("EngineEdition", Rows((*server_is, "[db]")))
    with closing(sqlserver_migrate._connection(odbc_string(server.dsn, "test"))) as own:
        engine = sa.create_engine("mssql+pyodbc://", creator=lambda: own)
        with engine.connect() as connection:
            advice = sqlserver_migrate.check_server(connection, "here", allow_blocking_reads=True)
    assert advice is None if says is None else says in str(advice)


def test_migrate_is_one_transaction_behind_its_lock(server: FakeServer) -> None:
    server.answer("EngineEdition", SERVER_2022)
    version = Rows(["0001", "0001", "0", "hash"])
    server.answer("from rowlease.alembic_version as v", version)
    server.answer("object_id\\(N'rowlease.alembic_version'\\)", Rows([None]), Rows([1]))
    server.answer("sp_getapplock", Rows([0]))
    server.answer("output inserted.version_num", Rows(["0001"]))
    server.answer("^exec rowlease.advance_ids", Rows(["RequestIds", 1, 5]))
    assert "it was advanced from 1 to 5" in (migrate(server.dsn).advice or "")
    texts = sent(server)
    begin = len(texts) - 1 - texts[::-1].index("begin")
    assert "sp_getapplock" in texts[begin + 1]
    assert texts.count("commit") == 1
    assert texts[-1] == "commit"
    for script in all_files("sqlserver"):
        assert script.body in texts[begin:], script.name
    assert not [text for text in texts if "\ngo\n" in text.lower()]


def test_migrate_that_gets_no_lock_changes_nothing(server: FakeServer) -> None:
    server.answer("sp_getapplock", Rows([-1]))
    with pytest.raises(StoreError, match="run it again"):
        migrate(server.dsn)
    assert sent(server)[-1] == "rollback"
    assert not [text for text in sent(server) if "create" in text.lower()]


GERMAN = Rows(
    (229, "The %ls permission was denied on the object '%.*ls', database '%.*ls', schema '%.*ls'."),
    (229, "Die %1!-Berechtigung wurde für das '%2!'-Objekt, '%3!'-Datenbank, '%4!'-Schema,"
     " verweigert."),
    (1205, "Die Transaktion (Prozess-ID %1!) befand sich auf %2!-Ressourcen aufgrund eines anderen"
     " Prozesses in einer Deadlocksituation und wurde als Deadlockopfer ausgewählt."),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Die INSERT-Berechtigung wurde für das 'Staging'-Objekt, 'db'-Datenbank,"
         " 'rowlease'-Schema, verweigert.", AccessDenied),
        ("Die Transaktion (Prozess-ID 63) befand sich auf Sperre-Ressourcen aufgrund eines anderen"
         " Prozesses in einer Deadlocksituation und wurde als Deadlockopfer ausgewählt.",
         StoreConflict),
        ("Das Protokoll ist voll.", StoreError),
    ],
)  # fmt: skip
def test_a_text_in_another_language_is_looked_up_among_the_server_s_messages(
    text: str, error: type[RowleaseError], server: FakeServer
) -> None:
    """Microsoft's JDBC driver says no number of an error of a bulk copy."""
    server.answer("from sys.messages", GERMAN)
    found = engine_of(server.dsn).jdbc_error("", 0, text)
    assert type(found) is error
    assert text in str(found)


def test_a_text_is_what_it_is_where_the_server_cannot_be_asked(server: FakeServer) -> None:
    server.answer("from sys.messages", Failure(229))
    assert type(engine_of(server.dsn).jdbc_error("", 0, "Zugriff verweigert.")) is StoreError
    with FakeServer() as gone:
        dsn = gone.dsn
    assert type(engine_of(dsn).jdbc_error("", 0, "Zugriff verweigert.")) is StoreError
