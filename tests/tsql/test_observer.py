"""`rowlease engines verify` on a fake SQL Server: what it makes of locks and plans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from rowlease.store import open_store
from rowlease.store.observing import Lock, Plans, Scan
from rowlease.store.sqlserver.observer import SqlServerObserver
from rowlease.verify import lock_checks
from rowlease.verify.checks import Broken
from rowlease.verify.lock_checks import LockTrial
from tests.tsql import unixodbc
from tests.tsql.fake_server import Failure, FakeServer, Rows

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
        (("Queue", "OBJECT", "X", 1), False),
        (("Queue", "PAGE", "X", 3), False),
        (("Queue", "OBJECT", "IX", 1), True),
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
    with trial.observer.transaction() as connection:
        assert trial.observer.locks(connection) == [Lock(*wide), Lock(*rows)]
    if is_sound:
        assert "10000 X on KEY Queue" in lock_checks.locks_of_a_promote(trial)
        promotes = [each for each in server.requests if "rowlease.promote" in each.text]
        assert [each.in_transaction for each in promotes] == [True, False]
    else:
        with pytest.raises(Broken, match="it holds"):
            lock_checks.locks_of_a_promote(trial)


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
