"""The checker of histories finds each way to break a promise, and nothing in a good history."""

from __future__ import annotations

from typing import Any

import pytest

from rowlease.model import NewRequest
from rowlease.store import Store
from tests.stress.history import (
    RULES,
    STEP,
    Asked,
    BatchEnd,
    Broken,
    Change,
    Effect,
    Event,
    Fault,
    History,
    Ordered,
    Report,
    Told,
    check,
    lost,
    summary,
)
from tests.stress.witness import Sql, kept, witness


def waits(id: int = 1, at: float = 0, **more: Any) -> Change:
    return Change(id, "Pending", at, **{"number": id, **more})


def runs(id: int = 1, token: int = 7, at: float = 1, by: str | None = "a", **more: Any) -> Change:
    given = {"number": id, "expires": at + 30, "attempts": 1, **more}
    return Change(id, "Processing", at, token, by, **given)


def over(
    id: int = 1, token: int = 7, at: float = 2, status: str = "Complete", **more: Any
) -> Change:
    by = "a" if status == "Complete" else None
    return Change(id, status, at, token, **{"number": id, "by": by, "attempts": 1, **more})


def broke(at: float = 31, **more: Any) -> Change:
    """A lease has run out; its end stays in the row."""
    given = {"crashes": 1, "attempts": 1, "expires": 31.0, **more}
    return over(at=at, status="Pending", **given)


ASKED = Asked((1,), ids=(1,))
DONE: list[Event] = [ASKED, waits(), runs(), over()]
DEAD = over(status="Failed", attempts=5, max_attempts=5)

#: Good histories, each with something that looks like one of the bad ones.
GOOD: dict[str, list[Event]] = {
    "done": [*DONE, Told(1, 7, "a"), Report(1, 7), Effect(1, 7)],
    "answer lost, report repeated": [
        *DONE, Report(1, 7, answer="unknown"), Report(1, 7, answer="repeat"),
    ],
    "lease ran out, late report refused": [
        ASKED, waits(), runs(), broke(),
        runs(token=8, at=32, by="b", attempts=2, crashes=1),
        over(token=8, by="b", attempts=2, crashes=1),
        Report(1, 7, answer="lease_lost"), Report(1, 8, by="b"),
    ],
    "renewed, failed, retried": [
        ASKED, waits(), runs(), runs(at=9), Report(1, 7, "renew"),
        over(status="Scheduled", due=9), waits(at=9, token=7, attempts=1),
        runs(token=8, at=9, attempts=2, due=9), over(token=8, attempts=2), Report(1, 7, "fail"),
    ],
    "dead, revived by an operator": [
        ASKED, waits(), runs(attempts=1, max_attempts=1), over(status="Failed", max_attempts=1),
        waits(token=7), Ordered(1, "requeue"), runs(token=8), over(token=8), Effect(1, 8),
    ],
    "given up": [ASKED, waits(), runs(), over(status="Failed"), Report(1, 7, "give up")],
    "cancelled, deleted, broken by an operator": [
        Asked((1, 2, 3), ids=(1, 2, 3)), waits(), waits(2), waits(3), Ordered(1, "cancel"),
        over(status="Cancelled", attempts=0), Ordered(2, "purge"),
        over(2, 0, status="Deleted", attempts=0), runs(3), Ordered(3, "break"),
        over(3, 8, status="Pending", expires=31.0), runs(3, 9, at=3, attempts=2),
        over(3, 9, attempts=2),
    ],
    "a refused call, and half a load that was not known": [
        Asked((5, 6), "unknown"), Asked((7,), "refused"), *DONE,
    ],
    "key used again after its end": [
        Asked((1,), ids=(1,), dedup="k"), Asked((2,), "duplicate", (1,), dedup="k"),
        Asked((3,), ids=(3,), dedup="k"), waits(dedup="k"), runs(dedup="k"), over(dedup="k"),
        waits(3, dedup="k"), runs(3, dedup="k"), over(3, dedup="k"),
    ],
    "duplicate of one that had just been finished": [
        ASKED, waits(dedup="k"), runs(dedup="k"), over(dedup="k"),
        Asked((2,), "duplicate", (0,), dedup="k"),
    ],
    "group in order": [
        Asked((1, 2), ids=(1, 2)), waits(group="g"), waits(2, group="g"), runs(group="g"),
        over(group="g"), runs(2, group="g"), over(2, group="g"),
    ],
    "a crash undid a claim": [
        *DONE, Fault("database crash"), Told(1, 6, "b"), Report(1, 6, answer="lease_lost"),
    ],
    "a failover lost the end": [
        ASKED, Asked((2,), ids=(2,)), Asked((3,), ids=(2,), server=1), Fault("failover"),
        *DONE[1:], waits(2, number=3), runs(2, number=3), over(2, number=3),
        Report(2, 4), Told(2, 4, "a"), Report(2, 4, answer="lease_lost", server=1),
    ],
    "a call repeated: its outcome had reached the database, or it was a duplicate": [
        *DONE, Report(1, 7, "fail", "accepted"), Report(1, 7, answer="accepted"),
        Asked((1,), "repeat", (1,)), Asked((2,), ids=(2,), dedup="k"),
        Asked((3,), "repeat", (2,), dedup="k"), waits(2, dedup="k"), runs(2, dedup="k"),
        over(2, dedup="k"),
    ],
    "a batch": [
        ASKED, waits(batch="b"), runs(batch="b"), over(batch="b"), BatchEnd("b"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_breaks_nothing(name: str) -> None:
    assert check(History(GOOD[name])) == []


#: For each rule, histories that break it and no other, and what else is true of them.
BAD: list[tuple[str, list[Event], dict[str, Any]]] = [
    ("two owners", [ASKED, waits(), runs(), runs(token=8, at=9, by="b", attempts=2),
                    over(token=8, by="b", attempts=2)], {}),
    ("token not larger", [ASKED, waits(), runs(), broke(), runs(at=32, attempts=2), over()], {}),
    ("token not larger", [ASKED, waits(), runs(), over(status="Pending", attempts=0, abandons=1),
                          runs(token=6), over(token=6)], {}),
    ("token told twice", [*DONE, Told(1, 7, "a"), Told(1, 7, "b")], {}),
    ("lease never granted", [*DONE, Told(1, 8, "b")], {}),
    ("lease over at its claim", [ASKED, waits(), runs(expires=1.0), over()], {}),
    ("lease over at its claim", [ASKED, waits(), runs(expires=None), over()], {}),
    ("lease of nobody", [ASKED, waits(), runs(by=None), over(by=None)], {}),
    ("lease changed hands", [ASKED, waits(), runs(), runs(at=2, by="b"), over(by="b")], {}),
    ("lease shortened", [ASKED, waits(), runs(), runs(at=2, expires=9.0), over()], {}),
    ("broken early", [ASKED, waits(), runs(), broke(at=30), runs(token=8, at=40, attempts=2),
                      over(token=8)], {}),
    ("broken unasked", [ASKED, waits(), runs(), over(token=8, status="Pending", expires=31.0),
                        runs(token=9, attempts=2), over(token=9)], {}),
    ("late outcome", [ASKED, waits(), runs(), broke(), runs(token=8, at=32, by="b", attempts=2),
                      Report(1, 7), over(token=8, by="b")], {}),
    ("outcome of a stranger", [*DONE, Report(1, 6)], {}),
    ("outcome of a stranger", [*DONE, Report(1, 6, "renew")], {}),
    ("ended by another", [ASKED, waits(), runs(), over(by="b")], {}),
    ("ended by another", [ASKED, waits(), runs(), over(token=6)], {}),
    ("completed without a lease", [ASKED, waits(), over(token=0)], {}),
    ("completed without a lease", [ASKED, waits(), runs(), broke(), over()], {}),
    ("lost", [ASKED], {}),
    ("lost", [*DONE, Asked((2,), "repeat", (2,))], {}),
    ("lost", [Fault("failover"), *DONE, Asked((2,), ids=(2,), server=1)], {}),
    ("lost", [Fault("failover"), *DONE, Asked((2,), ids=(2,))], {"keeps_commits": True}),
    ("lost part is not the end", [Fault("failover"), Asked((2,), ids=(2,)), *DONE], {}),
    ("doubled", [*DONE, waits(2, number=1), runs(2, number=1), over(2, number=1)], {}),
    ("half of a call", [Asked((1, 2), "unknown"), *DONE[1:]], {}),
    ("refused and enqueued", [Asked((1,), "refused"), *DONE[1:]], {}),
    ("asked by nobody", DONE[1:], {}),
    ("answers crossed", [Asked((1, 2), ids=(2, 1)), *DONE[1:], waits(2), runs(2), over(2)], {}),
    ("answers crossed", [Asked((1,), ids=(9,)), *DONE[1:]], {}),
    ("id handed out twice", [Fault("failover"), ASKED, Asked((2,), ids=(1,)), *DONE[1:]], {}),
    ("duplicate of nothing", [*DONE, Asked((2,), "duplicate", (1,), dedup="k")], {}),
    ("duplicate of nothing", [*DONE, Asked((2,), "duplicate", (0,), dedup="k")], {}),
    ("two of a key", [Asked((1, 2), ids=(1, 2)), waits(dedup="k"), waits(2, dedup="k"),
                      runs(dedup="k"), over(dedup="k"), runs(2), over(2)], {}),
    ("vanished", [ASKED, waits(), over(status="Deleted", attempts=0)], {}),
    ("vanished", [ASKED, waits(), runs(), over(status="Deleted"), Ordered(1, "purge")], {}),
    ("cancelled unasked", [ASKED, waits(), over(status="Cancelled", attempts=0)], {}),
    ("cancelled unasked", [ASKED, waits(), runs(), over(status="Cancelled")], {}),
    ("changed after its end", [*DONE, waits()], {"is_drained": False}),
    ("changed after its end", [*DONE, over()], {}),
    ("never ended", [ASKED, waits(), runs()], {}),
    ("never ended", [ASKED, Change(1, "Scheduled", number=1)], {}),
    ("outcome lost", [ASKED, waits(), runs(), Report(1, 7)], {"is_drained": False}),
    ("outcome lost", [ASKED, waits(), runs(), over(status="Pending", abandons=1), Report(1, 7)],
     {"is_drained": False}),
    ("outcome denied", [*DONE, Report(1, 7, answer="lease_lost")], {}),
    ("outcome denied", [*DONE, Report(1, 7, answer="not_found")], {}),
    ("outcome lost", [ASKED, waits(), runs(), Report(1, 7, answer="accepted")],
     {"is_drained": False}),
    ("two outcomes", [*DONE, Report(1, 7), Report(1, 7)], {}),
    ("repeat of nothing", [ASKED, waits(), runs(), Report(1, 7, answer="repeat")],
     {"is_drained": False}),
    ("repeat of nothing", [ASKED, waits(), runs(), broke(), Report(1, 7, answer="repeat")],
     {"is_drained": False}),
    ("result of another", [ASKED, waits(), runs(), over(result=2)], {}),
    ("effect twice", [*DONE, Effect(1, 7), Effect(1, 7)], {}),
    ("effect without an outcome", [ASKED, waits(), runs(), Effect(1, 7)], {"is_drained": False}),
    ("effect without an outcome", [*DONE, Effect(2, 7)], {}),
    ("effect of another lease", [*DONE, Effect(1, 6)], {}),
    ("outcome without an effect", DONE, {"pays": lambda row: row.by == "a"}),
    ("differs at the end", DONE, {"final": {1: "Pending"}}),
    ("differs at the end", DONE, {"final": {}}),
    ("differs at the end", DONE, {"final": {1: "Complete", 2: "Pending"}}),
    ("two of a group", [Asked((1, 2), ids=(1, 2)), waits(group="g"), waits(2, group="g"),
                        runs(group="g"), runs(2, group="g"), over(group="g"),
                        over(2, group="g")], {}),
    ("passed in its group", [Asked((1, 2), ids=(1, 2)), waits(group="g"), waits(2, group="g"),
                             runs(2, group="g"), over(2, group="g"), runs(), over()], {}),
    ("claimed before it was due", [ASKED, waits(due=5), runs(due=5), over()], {}),
    ("claimed dead", [ASKED, waits(attempts=5), runs(attempts=6, max_attempts=9),
                      over(status="Failed", attempts=6, max_attempts=6),
                      runs(token=8, attempts=7, max_attempts=9), over(token=8)], {}),
    ("attempt not counted", [ASKED, waits(), runs(attempts=0), over()], {}),
    ("attempt not counted", [ASKED, runs(attempts=3), over()], {}),
    ("attempts changed", [ASKED, waits(), runs(), over(status="Pending", attempts=2),
                          runs(token=8, attempts=3), over(token=8)], {}),
    ("attempts changed", [ASKED, waits(), runs(), runs(at=2, attempts=2), over()], {}),
    ("attempts changed", [ASKED, waits(), waits(attempts=1)], {"is_drained": False}),
    ("too many attempts", [ASKED, waits(attempts=5), runs(attempts=6), over()], {}),
    ("tried on", [ASKED, waits(attempts=4), runs(attempts=5), over(status="Pending", attempts=5)],
     {"is_drained": False}),
    ("crashed on", [ASKED, waits(crashes=2), runs(crashes=2), broke(crashes=3)],
     {"is_drained": False}),
    ("crashes uncounted", [ASKED, waits(crashes=2), runs(crashes=2), broke(crashes=0)],
     {"is_drained": False}),
    ("crashes uncounted", [ASKED, waits(), runs(), over(status="Pending", crashes=1)],
     {"is_drained": False}),
    ("abandoned for ever", [ASKED, waits(abandons=9), runs(abandons=9),
                            over(status="Pending", attempts=0, abandons=10)],
     {"is_drained": False}),
    ("dead too early", [ASKED, waits(), runs(), over(status="Failed")], {}),
    ("dead while it waited", [ASKED, waits(), over(status="Failed")], {}),
    ("revived unasked", [ASKED, waits(attempts=4), runs(attempts=5), DEAD, waits()],
     {"is_drained": False}),
    ("batch ended twice", [*GOOD["a batch"], BatchEnd("b")], {}),
    ("batch ended early", [ASKED, waits(batch="b"), BatchEnd("b"), runs(batch="b"),
                           over(batch="b")], {}),
    ("batch never ended", GOOD["a batch"][:-1], {}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "events", "more"), BAD, ids=[rule for rule, *_ in BAD])
def test_a_bad_history_is_found(rule: str, events: list[Event], more: dict[str, Any]) -> None:
    found = check(History(events, **more))
    assert {broken.rule for broken in found} == {rule}


STEPPED = Fault("database clock stepped")


@pytest.mark.parametrize(
    ("rule", "events"),
    [
        ("claimed before it was due", lambda by: [waits(due=1 + by), runs(due=1 + by)]),
        ("lease over at its claim", lambda by: [waits(), runs(at=5, expires=5 - by)]),
        ("lease shortened", lambda by: [waits(), runs(), runs(expires=31 - by)]),
        ("broken early", lambda by: [waits(), runs(), broke(at=31 - by)]),
        ("two owners", lambda by: [waits(), runs(), runs(token=8, at=31 - by, attempts=2)]),
    ],
)
def test_a_step_of_the_clock_excuses_its_size_and_no_more(rule: str, events: Any) -> None:
    def found(by: float, *more: Event) -> set[str]:
        return {one.rule for one in check(History([ASKED, *events(by), *more], is_drained=False))}

    assert rule in found(STEP - 0.1)
    assert rule not in found(STEP - 0.1, STEPPED)
    assert rule in found(STEP + 0.1, STEPPED)


def test_each_rule_has_a_bad_history() -> None:
    assert {rule for rule, *_ in BAD} == RULES.keys()


def test_a_broken_promise_is_a_sentence() -> None:
    (broken,) = check(History([ASKED]))
    assert broken == Broken("lost", 2, str(broken).partition(": ")[2])
    assert str(broken) == (
        "promise 2, lost: number 1 was acknowledged, and the database has no request of it"
    )


def test_what_a_failover_has_lost_is_named() -> None:
    history = History(GOOD["a failover lost the end"])
    assert lost(history) == [2]
    assert summary(history) == {
        "acknowledged": 3, "requests": 2, "leases": 2, "changes": 6, "faults": 1, "lost": 1,
        "broken": 0,
    }  # fmt: skip


#: What somebody with all rights does to the one request, and the rule that it breaks.
TAMPERED = [
    ("", None),
    ("delete from rowlease.queue", "vanished"),
    ("update rowlease.queue set locked_by = 'b'", "lease changed hands"),
    ("update rowlease.queue set lock_expires_time = locked_time", "lease shortened"),
    ("update rowlease.queue set num_attempts = 3", "attempts changed"),
    ("insert into witness.effect values (1, 1)", "effect of another lease"),
    ("alter table rowlease.queue disable trigger note_change; delete from rowlease.queue",
     "differs at the end"),
]  # fmt: skip


@pytest.mark.parametrize(("order", "rule"), TAMPERED)
def test_the_database_records_what_it_keeps(
    order: str, rule: str | None, store: Store, sql: Sql
) -> None:
    witness(sql)
    requests = [NewRequest(kind="k", payload=f'{{"n": {n}}}', priority=2 - n) for n in range(2)]
    answers = store.enqueue_many("default", requests, batch_id="b")
    history = History([Asked((0, 1), ids=tuple(answer.request_id or 0 for answer in answers))])
    (done,) = store.dequeue("a", ["default"], 1).requests
    history.add(Told(done.request_id, done.lock_token, "a"))
    (answer,) = store.complete([done], ['{"n": 0}'])
    history.add(Report(done.request_id, done.lock_token, answer=answer))
    assert len(store.dequeue("a", ["default"], 1).requests) == 1
    if order:
        sql(order)
    history.is_drained = False
    assert {broken.rule for broken in check(kept(sql, history))} == ({rule} if rule else set())


def test_a_routine_that_takes_any_token_is_found(store: Store, sql: Sql) -> None:
    ((text,),) = sql("select pg_get_functiondef('rowlease_internal.complete_one'::regproc)")
    sql(text.replace("and q.lock_token = p_lock_token", ""))
    witness(sql)
    (answer,) = store.enqueue_many("default", [NewRequest(kind="k", payload='{"n": 1}')])
    history = History([Asked((1,), ids=(answer.request_id or 0,))])
    (late,) = store.dequeue("a", ["default"], 1).requests
    history.add(Ordered(late.request_id, "break"))
    store.operate("break", ids=[late.request_id])
    (owner,) = store.dequeue("b", ["default"], 1).requests
    assert owner.lock_token > late.lock_token
    (outcome,) = store.complete([late])
    history.add(Report(late.request_id, late.lock_token, answer=outcome))
    assert [broken.rule for broken in check(kept(sql, history))] == ["late outcome"]
