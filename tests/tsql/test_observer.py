"""`rowlease engines verify` on a fake SQL Server: what it makes of locks and plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from rowlease.errors import StoreConflict, StoreTimeout
from rowlease.store import open_store
from rowlease.store.observing import Lock, Plans, Scan
from rowlease.store.sqlserver.connection import pyodbc
from rowlease.store.sqlserver.observer import SqlServerObserver
from rowlease.verify import lock_checks
from rowlease.verify.checks import Broken
from rowlease.verify.lock_checks import LockTrial
from tests.tsql import unixodbc
from tests.tsql.fake_server import Failure, FakeServer, Late, Rows

pytestmark = unixodbc.needed()
PLAN = """<ShowPlanXML xmlns="http://schemas.microsoft.com/sqlserver/2004/07/showplan">
<BatchSequence><Batch><Statements><StmtSimple><QueryPlan>
<RelOp PhysicalOp="Nested Loops"><NestedLoops>
<RelOp PhysicalOp="{step}"><IndexScan>
<Object Database="[d]" Schema="[rowlease]" Table="[{table}]" Index="[queue_pkey]"/>
</IndexScan></RelOp></NestedLoops></RelOp></QueryPlan></StmtSimple></Statements></Batch>
</BatchSequence></ShowPlanXML>"""


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as found:
        yield found


@pytest.fixture
def trial(server: FakeServer) -> Iterator[LockTrial]:
    with closing(open_store(server.dsn)) as store:
        yield LockTrial(store, SqlServerObserver(server.dsn), 100)


def test_what_the_server_does_not_tell_says_why(server: FakeServer) -> None:
    server.answer("select @@version", Rows(["Microsoft SQL Server 2022\n\tx64"]))
    server.answer("compatibility_level", Rows(["160"]))
    server.answer("dm_os_sys_info", Failure(300, "VIEW SERVER STATE permission was denied"))
    found = SqlServerObserver(server.dsn).server()
    assert found["version"] == "Microsoft SQL Server 2022 x64"
    assert found["compatibility level"] == "160"
    assert "VIEW SERVER STATE permission was denied" in found["cores"]


@pytest.mark.parametrize(
    ("step", "table", "scans"),
    [
        ("Clustered Index Scan", "Queue", [Scan("claim", "Queue", "queue_pkey")]),
        ("Table Scan", "Staging", [Scan("claim", "Staging", "queue_pkey")]),
        ("Clustered Index Seek", "Queue", []),
        ("Clustered Index Scan", "QueueDepth", []),
    ],
)
def test_a_scan_of_a_large_table_is_found_in_the_plan_cache(
    server: FakeServer, trial: LockTrial, step: str, table: str, scans: list[Scan]
) -> None:
    plan = PLAN.format(step=step, table=table)
    server.answer("dm_exec_procedure_stats", Rows(["claim", plan], ["sample_requests", plan]))
    assert trial.observer.plans() == Plans(2, 2, scans)
    if scans:
        with pytest.raises(Broken, match=f"claim scans {table}.queue_pkey"):
            lock_checks.plans(trial)
    else:
        assert lock_checks.plans(trial) == "2 statements of 2 routines scan no large table"


def test_an_empty_plan_cache_is_no_evidence(server: FakeServer, trial: LockTrial) -> None:
    with pytest.raises(Broken, match="shows no plan of our routines"):
        lock_checks.plans(trial)


@pytest.mark.parametrize(
    ("wide", "is_sound"),
    [
        *[(("Queue", "OBJECT", mode, 1), False) for mode in ("X", "S", "U", "SIX", "Sch-M")],
        *[(("Queue", "PAGE", mode, 3), False) for mode in ("X", "U", "S")],
        *[(("Queue", "KEY", mode, 3), False) for mode in ("RangeS-U", "RangeX-X", "RangeS-S")],
        (("Queue", "HOBT", "X", 1), False),
        (("Queue", "RID", "X", 1), False),
        (("Queue", "OBJECT", "IX", 1), True),
        (("Queue", "OBJECT", "Sch-S", 1), True),
        (("Queue", "PAGE", "IX", 1), True),
        (("Queue", "KEY", "U", 1), True),
        (("", "APPLICATION", "X", 1), True),
    ],
)
def test_a_lock_on_more_than_rows_is_found(
    server: FakeServer, trial: LockTrial, wide: tuple[str, str, str, int], is_sound: bool
) -> None:
    rows = ("Queue", "KEY", "X", 10_000)
    server.answer("dm_tran_locks", Rows(wide, rows))
    server.answer("exec rowlease.begin_load", Rows(["ok", 1, 0, 0, 0, 0, 9]))
    server.answer("exec rowlease.promote", Rows(["ok", 5_000, 5_000, 0, 0]))
    server.answer("exec rowlease.dequeue", Rows([*[None] * 16, False, None, None]))
    with trial.observer.transaction() as connection:
        assert trial.observer.locks(connection) == [Lock(*wide), Lock(*rows)]
    if is_sound:
        assert "10000 X on KEY Queue" in lock_checks.locks_of_a_promote(trial)
        promotes = [each for each in server.requests if "rowlease.promote" in each.text]
        assert [each.in_transaction for each in promotes] == [True, False]
    else:
        with pytest.raises(Broken, match="it holds"):
            lock_checks.locks_of_a_promote(trial)


def test_an_answer_without_a_row_lock_is_no_evidence(server: FakeServer, trial: LockTrial) -> None:
    server.answer("dm_tran_locks", Rows(("Queue", "OBJECT", "IX", 1)))
    server.answer("exec rowlease.begin_load", Rows(["ok", 1, 0, 0, 0, 0, 9]))
    server.answer("exec rowlease.promote", Rows(["ok", 5_000, 5_000, 0, 0]))
    with pytest.raises(Broken, match="shows no lock of a row"):
        lock_checks.locks_of_a_promote(trial)


@pytest.mark.parametrize("view", ["procedure", "function", "trigger"])
def test_plans_of_procedures_functions_and_triggers_are_read(
    server: FakeServer, trial: LockTrial, view: str
) -> None:
    plan = PLAN.format(step="Table Scan", table="Queue")
    server.answer(f"from sys.dm_exec_{view}_stats", Rows(["group_is_free", plan]))
    with pytest.raises(Broken, match="group_is_free scans Queue"):
        lock_checks.plans(trial)


@pytest.mark.parametrize(
    ("routine", "answer", "says"),
    [
        ("complete", Failure(8622, "could not produce a query plan"), "complete: could not prod"),
        ("dequeue", Rows([PLAN.format(step="Table Scan", table="Queue")]), "dequeue scans Queue"),
        ("snooze", Rows([PLAN.format(step="Index Scan", table="Attempt")]), "snooze scans Att"),
        ("find_requests", Rows([PLAN.format(step="Table Scan", table="Queue")]), None),
        ("exchange", Failure(208, "Invalid object name '#rows'"), None),
    ],
)
def test_each_routine_is_compiled(
    server: FakeServer, trial: LockTrial, routine: str, answer: Rows | Failure, says: str | None
) -> None:
    server.answer("exec rowlease.", Rows([PLAN.format(step="Index Seek", table="Queue")]))
    server.answer(f"exec rowlease.{routine} ", answer)
    if says is None:
        assert "scan no large table" in lock_checks.compilation(trial)
    else:
        with pytest.raises(Broken, match=says):
            lock_checks.compilation(trial)
    asked = [each.text for each in server.requests]
    assert asked.index("set showplan_xml on") < min(
        place for place, text in enumerate(asked) if text.startswith("exec rowlease.")
    )


def test_a_server_that_makes_no_plan_is_no_evidence(server: FakeServer, trial: LockTrial) -> None:
    with pytest.raises(Broken, match="shows no plan of our routines"):
        lock_checks.compilation(trial)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ((3, 4), (3, 4), None),
        ((3, 4), (4, 4), "1 deadlocks"),
        ((3, 4), (3, 6), "2 locks that were waited for in vain"),
        (None, (0, 0), "did not tell at the start"),
    ],
)
def test_deadlocks_and_lock_timeouts_are_counted(
    server: FakeServer, before: tuple[int, int] | None, after: tuple[int, int], says: str | None
) -> None:
    first = Failure(300, "permission was denied") if before is None else Rows(before)
    server.answer("dm_os_performance_counters", first, Rows(after))
    with closing(open_store(server.dsn)) as store:
        trial = LockTrial(store, SqlServerObserver(server.dsn), 100)
        if says is None:
            assert "no deadlock" in lock_checks.waits(trial)
        else:
            with pytest.raises(Broken, match=says):
                lock_checks.waits(trial)


def test_a_statement_may_take_its_limit_and_no_longer(
    server: FakeServer, trial: LockTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_checks, "LONG", 3)
    monkeypatch.setattr(lock_checks, "SHORT", 1)
    server.answer("waitfor delay '0:00:03'", Late(3))
    assert "a statement of 3 s ended" in lock_checks.long_call(trial)


@pytest.mark.parametrize(
    ("answers", "says"),
    [([TimeoutError("late")], "of 12 s was cancelled"), ([None, None], "was not cancelled after")],
)
def test_a_limit_that_does_not_hold_is_found(
    trial: LockTrial, answers: list[Any], says: str
) -> None:
    waits = mock.patch.object(trial.observer, "wait", side_effect=answers)
    with waits, pytest.raises(Broken, match=says):
        lock_checks.long_call(trial)


# -- calls beside an open transaction --------------------------------------------------------------


def forged(claims: Sequence[Any], completes: Any = None) -> Any:
    """A trial whose claims beside the open transaction are answered like this: ids, or an error."""
    trial = mock.MagicMock(spec=LockTrial, queue="q", held=[], observer=mock.MagicMock())
    trial.put.side_effect = lambda count, **_: list(range(10, 10 + count))
    trial.claim.return_value = [SimpleNamespace(request_id=1)]
    calls = trial.store = mock.MagicMock()
    calls.within.return_value.dequeue.side_effect = [
        each if isinstance(each, Exception)
        else SimpleNamespace(requests=[SimpleNamespace(request_id=one) for one in each])
        for each in claims
    ]  # fmt: skip
    calls.within.return_value.complete.side_effect = completes
    return trial


OTHERS = list(range(11, 20))


@pytest.mark.parametrize(
    ("claims", "completes", "says"),
    [
        ([OTHERS, [10]], None, None),
        ([StoreTimeout("5 s")], None, "a claim waited for another transaction: 5 s"),
        ([OTHERS, StoreConflict("1222")], None, "a claim waited for another transaction: 1222"),
        ([OTHERS, [10]], StoreTimeout("5 s"), "a completion waited for an open producer: 5 s"),
        ([OTHERS, []], None, "of 11 requests 9 were claimed"),
    ],
)
def test_a_call_that_waits_for_an_open_producer_is_found(
    claims: list[Any], completes: Any, says: str | None
) -> None:
    trial = forged(claims, completes)
    if says is None:
        assert "beside an open producer" in lock_checks.open_producer(trial)
    else:
        with pytest.raises(Broken, match=says):
            lock_checks.open_producer(trial)


@pytest.mark.parametrize(("after", "is_sound"), [(0.002, True), (0.5, False)])
def test_a_claim_that_an_old_queue_slows_down_is_found(
    after: float, is_sound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_checks, "_time_of_claims", mock.Mock(side_effect=[0.001, after]))
    monkeypatch.setattr(lock_checks, "AGED", 0)
    if is_sound:
        assert "after 0 requests" in lock_checks.aged_queue(forged([]))
    else:
        with pytest.raises(Broken, match=r"1.0 ms, and 500.0 ms"):
            lock_checks.aged_queue(forged([]))


@pytest.mark.parametrize("number", [None, 3952, 229])
def test_a_database_may_permit_no_snapshot(
    server: FakeServer, trial: LockTrial, number: int | None
) -> None:
    server.answer("from rowlease.SchemaInfo", Rows([1]) if number is None else Failure(number))
    with trial.observer.transaction() as connection:
        if number == 229:
            with pytest.raises(pyodbc().Error):
                trial.observer.keep_versions(connection)
        else:
            assert trial.observer.keep_versions(connection) == (number is None)


@pytest.mark.parametrize(("count", "is_sound"), [(0, True), (2, False)])
def test_an_escalation_is_found(
    server: FakeServer, trial: LockTrial, count: int, is_sound: bool
) -> None:
    server.answer("index_lock_promotion_count", Rows([count]))
    if is_sound:
        assert lock_checks.escalation(trial) == "no lock became a lock on a whole table"
    else:
        with pytest.raises(Broken, match="2 times"):
            lock_checks.escalation(trial)
