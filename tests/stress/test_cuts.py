"""A connection is cut at every packet of every call, before the server gets it and after it acted.

A call that commits on a connection of its own is repeated until it is answered, as workers and
clients do. A call in the caller's transaction is not: what it enqueued exists if and only if the
caller's own row does.

`ROWLEASE_STRESS_LEVELS=1 pytest -s tests/stress/test_cuts.py` cuts all calls at each of the four
isolation levels. Each is first the server's default, from which rowlease's sessions differ, and
then the level of these sessions, as if somebody called the routines by SQL.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count, product
from typing import TypeVar

import psycopg
import pytest
from psycopg import IsolationLevel

from rowlease.errors import ConfigError, LeaseLost, StoreUnavailable
from rowlease.model import Begun, Failure, Held, LeasedRequest, NewRequest
from rowlease.store import Store, completion, open_store
from rowlease.store.postgresql.connection import PINNED
from tests.stress.history import Asked, History, Ordered, Report, Told, check
from tests.stress.meddler import CutOff
from tests.stress.witness import EFFECT, Sql, kept, witness
from tests.waiting import until

T = TypeVar("T")
AT_ONCE = Failure("x", after=timedelta(0))
#: How often a call is made: the second one is not cut.
TRIES = 3
#: PostgreSQL runs READ UNCOMMITTED as READ COMMITTED.
LEVELS = [*IsolationLevel] if "ROWLEASE_STRESS_LEVELS" in os.environ else []
OWN = "insert into own values (%s)"


class Scene:
    """A store whose connections are cut, another one whose are not, and the history of both.

    Attributes:
        level: of the caller's transactions; None is the server's default.
        has_old_snapshots: the calls that are cut run at REPEATABLE READ or SERIALIZABLE.
    """

    def __init__(self, direct: Store, history: History) -> None:
        self.direct, self.history = direct, history
        self.wire = direct
        self.dsn = ""
        self.level: IsolationLevel | None = None
        self.has_old_snapshots = False
        self.part = 0
        self.numbers: tuple[int, ...] = ()
        self._numbers = count()

    def new(self, number: int) -> list[NewRequest]:
        """Requests with the next numbers."""
        self.numbers = tuple(next(self._numbers) for _ in range(number))
        return [NewRequest(kind="k", payload=f'{{"n": {n}}}') for n in self.numbers]

    def put(self, number: int = 2) -> list[int]:
        answers = self.direct.enqueue_many("default", self.new(number))
        ids = [answer.request_id or 0 for answer in answers]
        self.history.add(Asked(self.numbers, ids=tuple(ids)))
        return ids

    def lease(self, number: int = 2) -> list[LeasedRequest]:
        self.put(number)
        return self.told(self.direct.dequeue("w", ["default"], number).requests)

    def told(self, held: list[LeasedRequest]) -> list[LeasedRequest]:
        self.history.add(*(Told(one.request_id, one.lock_token, "w") for one in held))
        return held

    def report(self, verb: str, held: Sequence[LeasedRequest], answers: Sequence[str]) -> None:
        for one, answer in zip(held, answers, strict=True):
            self.history.add(Report(one.request_id, one.lock_token, verb, str(answer)))

    def connect(self) -> psycopg.Connection:
        own = psycopg.connect(self.dsn)
        own.isolation_level = self.level
        return own


def again(call: Callable[[], T]) -> T:
    """What a call answers in the end."""
    for left in reversed(range(TRIES)):
        try:
            return call()
        except StoreUnavailable:
            if not left:
                raise
    raise AssertionError


def counting(scene: Scene, call: Callable[[Store], T]) -> T:
    """What a call answers that counts what others have committed, so at READ COMMITTED alone."""
    if not scene.has_old_snapshots:
        return again(lambda: call(scene.wire))
    with pytest.raises(ConfigError, match="at READ COMMITTED"):
        again(lambda: call(scene.wire))
    return call(scene.direct)


Act = Callable[[Scene], None]


# -- calls on connections of rowlease


def enqueue(scene: Scene) -> None:
    requests, key = scene.new(2), f"receipt {scene.numbers}"
    answers = again(lambda: scene.wire.enqueue_many("default", requests, receipt_key=key))
    ids = tuple(answer.request_id or 0 for answer in answers)
    scene.history.add(Asked(scene.numbers, str(answers[0].outcome), ids))


def dequeue(scene: Scene) -> None:
    scene.put()
    try:
        scene.told(scene.wire.dequeue("w", ["default"], 2, asynchronous_commit=True).requests)
    except StoreUnavailable:
        again(lambda: scene.wire.disown("w", ["default"], []))


def exchange(scene: Scene) -> None:
    done, failed = held = scene.lease()
    scene.put()
    try:
        answer = scene.wire.exchange(
            "w", ["default"], 2, completed=[(done, None)], failed=[(failed, AT_ONCE)]
        )
    except StoreUnavailable:
        scene.report("complete", [done], again(lambda: scene.wire.complete([done])))
        scene.report("fail", [failed], again(lambda: scene.wire.fail([failed], [AT_ONCE])))
        again(lambda: scene.wire.disown("w", ["default"], []))
    else:
        scene.report("complete", held[:1], answer.completed)
        scene.report("fail", held[1:], answer.failed)
        scene.told(answer.claim.requests)


def ends(verb: str, call: Callable[[Store, list[LeasedRequest]], Sequence[str]]) -> Act:
    def act(scene: Scene) -> None:
        held = scene.lease()
        scene.report(verb, held, again(lambda: call(scene.wire, held)))

    return act


def complete_and_enqueue(scene: Scene) -> None:
    held = scene.lease(1)
    (successor,) = scene.new(1)
    outcome = again(lambda: scene.wire.complete_and_enqueue(held[0], None, "default", successor))
    scene.report("complete", held, [outcome])
    scene.history.add(Asked(scene.numbers, str(outcome)))


def fire_schedule(scene: Scene) -> None:
    (request,) = scene.new(1)
    name = f"schedule {scene.numbers}"
    scene.direct.put_schedule(name, "0 0 1 1 *", "k", payload=request.payload)
    (due,) = scene.direct.claim_schedules("w").due
    times = [datetime(2000, 1, 1, tzinfo=UTC)], datetime(9000, 1, 1, tzinfo=UTC)
    fired = again(lambda: scene.wire.fire_schedule(name, due.lock_token, *times))
    scene.history.add(Asked(scene.numbers, str(fired[0].outcome)))


def renew(scene: Scene) -> None:
    held = scene.lease()
    answers = again(lambda: scene.wire.renew(held, started=[True, True]))
    scene.report("renew", held, [answer.outcome for answer in answers])


def operate(verb: str) -> Act:
    def act(scene: Scene) -> None:
        held = scene.lease()
        if verb == "requeue":
            dead = scene.direct.fail(held, [Failure("x", dead=True)] * 2)
            scene.report("give up", held, [*map(str, dead)])
        ids = [one.request_id for one in held]
        scene.history.add(*(Ordered(id, verb) for id in ids))
        again(lambda: scene.wire.operate(verb, ids=ids))

    return act


def load(scene: Scene) -> None:
    """The rows of a load, by the way that every language has; see docs/spark.md."""
    requests, name = scene.new(2), f"load {scene.numbers}"
    run = again(lambda: scene.wire.begin_load(name, "default", "driver"))
    assert isinstance(run, Begun)

    def stage() -> None:
        try:
            with psycopg.connect(scene.dsn) as own:
                for part, request in enumerate(requests):
                    own.execute(
                        "insert into rowlease.lane (run_number, part, ends_part, priority, kind,"
                        " payload) values (%s, %s, true, 0, 'k', %s)",
                        (run.run_number, scene.part + part, request.payload),
                    )
        except psycopg.OperationalError as error:
            scene.part += 2
            raise StoreUnavailable from error

    again(stage)
    parts = [scene.part, scene.part + 1]
    answer = counting(scene, lambda store: store.promote(name, run.run_number, 2, parts=parts))
    scene.history.add(Asked(scene.numbers, str(answer.outcome)))


def batch(scene: Scene) -> None:
    requests, name = scene.new(2), f"batch {scene.numbers}"
    answers = scene.direct.enqueue_many("default", requests, batch_id=name)
    ids = tuple(answer.request_id or 0 for answer in answers)
    scene.history.add(Asked(scene.numbers, ids=ids))
    held = scene.told(scene.direct.dequeue("w", ["default"], 2).requests)
    scene.report("complete", held, scene.direct.complete(held))
    counting(scene, lambda store: store.maintain())
    counting(scene, lambda store: store.finish_batches(name))


# -- calls in the caller's transaction


def enqueue_bound(scene: Scene) -> None:
    requests = scene.new(2)
    try:
        with scene.connect() as own:
            own.execute(OWN, (scene.numbers[0],))
            scene.direct.enqueue_many("default", requests, connection=own)
    except (psycopg.OperationalError, StoreUnavailable):
        scene.history.add(Asked(scene.numbers, "unknown"))
    else:
        scene.history.add(Asked(scene.numbers))


def pay(own: psycopg.Connection, held: Held) -> None:
    """An effect, and the outcome."""
    own.execute(EFFECT, held)
    completion.complete(own, held, None, None)


def ends_bound(verb: str, call: Callable[[psycopg.Connection, Held], object]) -> Act:
    """An outcome in the caller's transaction."""

    def act(scene: Scene) -> None:
        held = scene.lease(1)
        lease = Held(held[0].request_id, held[0].lock_token)

        def end() -> str:
            try:
                with scene.connect() as own:
                    call(own, lease)
                return "ok"
            except LeaseLost as error:
                return str(error.outcome)
            except psycopg.OperationalError as error:
                raise StoreUnavailable from error

        scene.report(verb, held, [again(end)])

    return act


CALLS: dict[str, Act] = {
    "enqueue": enqueue,
    "dequeue, disown": dequeue,
    "exchange": exchange,
    "complete": ends("complete", lambda store, held: store.complete(held, ["1", "2"])),
    "fail": ends("fail", lambda store, held: store.fail(held, [AT_ONCE] * 2)),
    "give up": ends("give up", lambda store, held: store.fail(held, [Failure("x", dead=True)] * 2)),
    "abandon": ends("abandon", lambda store, held: store.abandon(held)),
    "snooze": ends("snooze", lambda store, held: store.snooze(held, [timedelta(seconds=1)] * 2)),
    "complete_and_enqueue": complete_and_enqueue,
    "fire_schedule": fire_schedule,
    "decline": ends("decline", lambda store, held: store.decline(held, ["x"] * 2)[0]),
    "renew": renew,
    "cancel": operate("cancel"),
    "break": operate("break"),
    "requeue": operate("requeue"),
    "begin_load, lane, promote": load,
    "maintain, finish_batches": batch,
}
BOUND: dict[str, Act] = {
    "enqueue": enqueue_bound,
    "complete": ends_bound("complete", pay),
}
if LEVELS:
    BOUND["snooze"] = ends_bound(
        "snooze", lambda own, held: completion.snooze(own, held, timedelta(seconds=1), "")
    )
#: What is cut while it logs in, too.
ALL_PACKETS = (enqueue, *BOUND.values())


@pytest.fixture
def scene(store: Store, sql: Sql) -> Scene:
    witness(sql)
    sql("create table own (n bigint)")
    sql("select rowlease.configure_queue('default', '{\"max_attempts\": 99}')")
    store.maintain()
    return Scene(store, History())


def cuts(scene: Scene, dsn: str, act: Act) -> int:
    """Do it once for each cut; returns how many there were."""
    with CutOff(dsn) as wire:
        through(wire, scene, act)
        # Before its first call a connection logs in, for each call in the same way.
        packets = range(1 if act in ALL_PACKETS else wire.first_call, wire.packets + 1)
    for at, arrives in product(packets, (False, True)):
        cut(scene, dsn, act, at, arrives)
    return 2 * len(packets)


def cut(scene: Scene, dsn: str, act: Act, at: int, arrives: bool) -> None:
    with CutOff(dsn, at, arrives) as wire:
        through(wire, scene, act)
        until(lambda: wire.met)  # nobody waits for the last packet, which ends the session


def through(wire: CutOff, scene: Scene, act: Act) -> None:
    scene.dsn = wire.dsn
    with closing(open_store(wire.dsn)) as scene.wire:
        act(scene)


def drain(scene: Scene, sql: Sql) -> None:
    """End what is left, as workers would."""
    scene.direct.disown("w", ["default"], [])
    sql("update rowlease.queue set due_time = clock_timestamp() where status = 'Scheduled'")
    while held := scene.direct.dequeue("w", ["default"], 100).requests:
        scene.direct.complete(scene.told(held))
    scene.direct.maintain()


def judge(scene: Scene, sql: Sql, name: str, number: int) -> None:
    """Check the history of a call, and empty the tables for the next."""
    drain(scene, sql)
    assert check(kept(sql, scene.history)) == [], name
    assert scene.direct.recount() == [], name
    sql("truncate rowlease.queue, rowlease.queue_history, rowlease.queue_depth, rowlease.batch")
    sql("truncate witness.change, witness.effect, own")
    scene.history = History()
    sys.stdout.write(f"\n{name}: {number} cuts")


WAYS = [("the server's default", level) for level in LEVELS]
WAYS += [("the session's", level) for level in LEVELS]


@pytest.mark.parametrize(("whose", "level"), WAYS or [("", None)])
def test_a_call_that_is_cut_anywhere_can_be_repeated(
    scene: Scene,
    dsn: str,
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
    whose: str,
    level: IsolationLevel | None,
) -> None:
    spelt = level.name.replace("_", " ") if level else ""
    if whose == "the server's default":
        database = dsn.rpartition("/")[2].partition("?")[0]
        sql(f"alter database {database} set default_transaction_isolation = '{spelt}'")
    elif whose:
        monkeypatch.setitem(PINNED, "default_transaction_isolation", spelt)
        scene.has_old_snapshots = spelt in ("REPEATABLE READ", "SERIALIZABLE")
    for name, act in CALLS.items():
        judge(scene, sql, f"{name}; {whose} {spelt}".strip("; "), cuts(scene, dsn, act))


def test_a_callers_transaction_that_is_cut_anywhere_is_whole_or_nothing(
    scene: Scene, dsn: str, sql: Sql
) -> None:
    levels = LEVELS or [*IsolationLevel][1:]
    for scene.level, (name, act) in product(levels, BOUND.items()):
        number = cuts(scene, dsn, act)
        if act is enqueue_bound:
            first = "select min((payload ->> 'n')::bigint) from rowlease.requests"
            assert sql("select n from own order by 1") == sql(
                f"{first} group by requested_time order by 1"
            )
        judge(scene, sql, f"{name}, {scene.level.name}", number)
