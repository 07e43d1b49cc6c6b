"""`rowlease engines verify` on a fake SQL Server: what it makes of locks and plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from rowlease.store import open_store
from rowlease.store.observing import Lock, Plans, Scan
from rowlease.store.sqlserver.connection import pyodbc
from rowlease.store.sqlserver.observer import SqlServerObserver
from rowlease.verify import lock_checks
from rowlease.verify.checks import Broken
from rowlease.verify.lock_checks import LockTrial
from tests.refusals import refusals, refused_at
from tests.tsql import unixodbc
from tests.tsql.fake_server import TYPES, Failure, FakeServer, Late, Rows

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
        ("Table Scan", "Lane", [Scan("claim", "Lane", "queue_pkey")]),
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


# -- forged answers ------------------------------------------------------------------------------

#: What makes a server, or a trial's observer, answer as no sound server does.
Forgery = Callable[[FakeServer, LockTrial, pytest.MonkeyPatch], None]
NOW = datetime(2026, 1, 2)
PATTERNS = {"locks": "dm_tran_locks", "enqueue": "exec rowlease.enqueue(_many)? "}
#: The last row of a claim's answer.
END = [*[None] * 16, False, None, None]
WAITS_IN_VAIN = Failure(1222)
WIDE, ROW = ("Queue", "OBJECT", "X", 1), ("Queue", "KEY", "X", 1)


def enqueued(*ids: int) -> Rows:
    return Rows(*[(one, "ok", 7) for one in ids])


def leased(*ids: int) -> Rows:
    rows = [
        [one, "q", "verify", 0, NOW, NOW, NOW, NOW, 7, 1, 5, 0, None, None, "{}", None, *[None] * 3]
        for one in ids
    ]
    kinds = [("", TYPES[type(value)]) for value in rows[0][:12]] if rows else []
    texts, end = [("", "nvarchar(max)")] * 4, [("", "bit"), ("", "bigint"), ("", "nvarchar(max)")]
    return Rows(*rows, END, columns=[*kinds, *texts, *end] if rows else ())


def answers(**routines: Any) -> Forgery:
    """Answers of routines and, as `locks`, of the view of locks."""

    def forge(server: FakeServer, trial: LockTrial, patch: pytest.MonkeyPatch) -> None:
        for name, found in routines.items():
            pattern = PATTERNS.get(name, f"exec rowlease.{name} ")
            server.answer(pattern, *(found if isinstance(found, list) else [found]))

    return forge


def shows(pattern: str, *found: Rows | Failure) -> Forgery:
    return lambda server, trial, patch: server.answer(pattern, *found)


def waits(*ends: Exception | None) -> Forgery:
    return lambda server, trial, patch: patch.setattr(
        trial.observer, "wait", mock.Mock(side_effect=ends)
    )


def cancels_late(server: FakeServer, trial: LockTrial, patch: pytest.MonkeyPatch) -> None:
    seconds = count(0, lock_checks.LONG)
    patch.setattr(lock_checks, "time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    waits(None, TimeoutError("late"))(server, trial, patch)


def slows_down(server: FakeServer, trial: LockTrial, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lock_checks, "_time_of_claims", mock.Mock(side_effect=[0.001, 0.5]))
    patch.setattr(lock_checks, "AGED", 0)
    answers(enqueue=enqueued(1), operate=Rows([None] * 6))(server, trial, patch)


def beside_a_producer(complete: Rows | Failure, *claims: Rows | Failure) -> Forgery:
    """A group's request 1 runs, 2 is of the open producer, 3 is of its group, 4 is not."""
    return answers(
        enqueue=[enqueued(1), enqueued(2), enqueued(3), enqueued(4)],
        dequeue=[leased(1), *claims], complete=complete,
    )  # fmt: skip


def counted(*found: Rows | Failure) -> Forgery:
    def forge(server: FakeServer, trial: LockTrial, patch: pytest.MonkeyPatch) -> None:
        server.answer("dm_os_performance_counters", *found)
        trial.began = LockTrial(trial.store, trial.observer, 1).began

    return forge


HUNDRED = range(1, 101)
PROMOTED: dict[str, Any] = {
    "begin_load": Rows(["ok", 1, 0, 0, 0, 0, 9]), "promote": Rows(["ok", 5_000, 5_000, 0, 0])
}  # fmt: skip
OUTCOMES: dict[str, Any] = {"enqueue": enqueued(1), "dequeue": leased(*range(1, 6))}
SCAN = PLAN.format(step="Table Scan", table="Queue")
#: For each check, wrong answers of a server: one for each sentence with which it fails.
FORGED: dict[str, list[Forgery]] = {
    "locks_of_a_claim": [
        answers(dequeue=leased(*HUNDRED), locks=Rows(WIDE, ROW)),
        answers(dequeue=leased(*HUNDRED), locks=Rows(("Queue", "OBJECT", "IX", 1))),
        answers(dequeue=[leased(*HUNDRED), WAITS_IN_VAIN], locks=Rows(ROW)),
        answers(dequeue=leased(*HUNDRED), locks=Rows(ROW)),
    ],
    "locks_of_outcomes": [
        answers(**OUTCOMES, locks=Rows(WIDE, ROW)),
        answers(**OUTCOMES, locks=Rows(("", "APPLICATION", "X", 1))),
    ],
    "locks_of_a_promote": [
        answers(**PROMOTED, locks=Rows(WIDE, ROW)),
        answers(**PROMOTED, locks=Rows(("Queue", "OBJECT", "IX", 1))),
        answers(**PROMOTED, locks=Rows(ROW), dequeue=WAITS_IN_VAIN),
    ],
    "open_producer": [
        beside_a_producer(enqueued(), WAITS_IN_VAIN),
        beside_a_producer(enqueued(), leased(4), WAITS_IN_VAIN),
        beside_a_producer(WAITS_IN_VAIN, leased(4), leased(3)),
        beside_a_producer(enqueued(), leased(4), leased()),
    ],
    "long_call": [waits(TimeoutError("late")), waits(None, None), cancels_late],
    "aged_queue": [slows_down],
    "compilation": [
        shows("exec rowlease.", Failure(8622, "could not produce a query plan")),
        shows("exec rowlease.", Rows([SCAN])),
        shows("exec rowlease.", Rows()),
    ],
    "plans": [
        shows("dm_exec_procedure_stats", Rows(["claim", SCAN])),
        answers(),
    ],
    "escalation": [shows("index_lock_promotion_count", Rows([2]))],
    "waits": [
        counted(Failure(300, "permission was denied"), Rows((0, 0))),
        counted(Rows((3, 4)), Rows((4, 4))),
    ],
}


@pytest.mark.parametrize("check", lock_checks.LOCK_CHECKS, ids=lambda check: check.__name__)
def test_a_check_refuses_each_wrong_answer(
    check: Callable[[LockTrial], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = set()
    for forge in FORGED[check.__name__]:
        with FakeServer() as server, closing(open_store(server.dsn)) as store:
            trial = LockTrial(store, SqlServerObserver(server.dsn), 100)
            with monkeypatch.context() as patch:
                forge(server, trial, patch)
                with pytest.raises(Broken) as raised:
                    check(trial)
        refused.add(refused_at(raised.value))
    assert refused == refusals(check)


@pytest.mark.parametrize(
    ("check", "sound", "says"),
    [
        (
            lock_checks.locks_of_a_claim,
            answers(
                dequeue=[leased(*HUNDRED), leased(*range(101, 201))], locks=Rows(ROW, ROW)
            ),
            "a claim of 100 holds 1 X on KEY Queue, 1 X on KEY Queue; another claim",
        ),
        (
            lock_checks.locks_of_outcomes,
            answers(**OUTCOMES, locks=Rows(ROW)),
            "five reports and an enqueue hold 1 X on KEY Queue",
        ),
        (
            lock_checks.open_producer,
            beside_a_producer(enqueued(), leased(4), leased(3)),
            "beside an open producer of a group: claim, completion, claim took",
        ),
        (lock_checks.escalation, shows("index_lock_promotion_count", Rows([0])), "no lock became"),
    ],
)  # fmt: skip
def test_a_sound_answer_passes(
    server: FakeServer,
    trial: LockTrial,
    check: Callable[[LockTrial], str],
    sound: Forgery,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound(server, trial, monkeypatch)
    assert check(trial).startswith(says)


def test_five_reports_and_an_enqueue_are_one_open_transaction(
    server: FakeServer, trial: LockTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(**OUTCOMES, locks=Rows(ROW))(server, trial, monkeypatch)
    lock_checks.locks_of_outcomes(trial)
    called = [
        each.text.split()[1].split(".")[1] for each in server.requests
        if each.in_transaction and each.text.startswith("exec rowlease.")
    ]  # fmt: skip
    assert called == ["complete", "fail", "snooze", "abandon", "renew", "enqueue_many"]
    assert server.requests[-1].name == "rollback"
