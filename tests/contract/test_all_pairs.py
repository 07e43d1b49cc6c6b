"""Every two calls cross at every statement: one stops there, while the other runs to its end.

Afterwards the answers and the requests are those of one of the two orders of the calls in the small
queue in memory. These may differ as documented: a call that skips locked rows has not seen those
that the other had locked, a claim passes over requests that come meanwhile, or says that there is
more, a verb leaves alone what has come to match since it looked, and a call that needs room has not
counted requests that came meanwhile and need none: those that return, and those that follow a
completion (sql/postgresql/finish/complete_and_enqueue.sql). A request that comes while the maximum
priority is lowered keeps its own until the next claim (dequeue/internal/lower_priorities.sql).
`ROWLEASE_INTERLEAVINGS=90 pytest -s tests/contract/test_all_pairs.py` crosses all pairs; else the
test draws some of them.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import permutations, product
from typing import Any, NamedTuple

import pytest

from tests.contract.crossing import Call, Differs, World, answer
from tests.contract.crossing_calls import configure, housekeeping, limits
from tests.contract.crossing_leases import Claimed, claim, leased
from tests.contract.crossing_scenes import SCENES, both, set_up
from tests.contract.crossing_schedules import fire
from tests.contract.sessions import TABLES, Clock, Session
from tests.contract.small_queue import WAITING
from tests.contract.stops import goes_on, put_stops, shut, stop_at

pytestmark = pytest.mark.only_on("postgresql", why="its routines are stopped between statements")
LONG = "ROWLEASE_INTERLEAVINGS" in os.environ
#: How many crossings the short form draws, always the same.
DRAWN = 60
NOTHING: frozenset[Any] = frozenset()
#: The settings that limit a queue.
LIMITS = ("capacity", "max_in_flight", "rate")
#: The tables whose rows calls may find locked, and their keys.
KEYS = {"queue": "request_id", "batch": "batch_id", "schedule": "schedule_name"}


class Crossing(NamedTuple):
    scene: str
    first: str
    second: str
    stop: int


class Copy(NamedTuple):
    """A scene that was set up once.

    Attributes:
        restore: the statement that restores its tables.
    """

    world: World
    restore: str


class Stage:
    """Sets scenes up in a database with stops, and plays crossings there."""

    def __init__(self, store: Session, clock: Clock, another: Callable[[], Session]) -> None:
        self.store, self.clock, self.noon = store, clock, clock.now
        self.one, self.two, self.gate = (another() for _ in range(3))
        self.copies: dict[str, Copy] = {}
        put_stops(store)

    def copy(self, name: str) -> Copy:
        """Set a scene up, if that was not done before."""
        if name not in self.copies:
            self.store.reset()
            self.clock.now = self.noon
            self.clock.advance()
            world = set_up(self.store, self.clock, name)
            self.copies[name] = Copy(world, self.copied(name))
        return self.copies[name]

    def copied(self, name: str) -> str:
        """Copy the tables; the statement that restores them."""
        self.store.execute(f"create schema {name}")
        restore = ["set local session_replication_role = replica"]  # no triggers
        for table in TABLES:
            kept = self.store.execute(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0"
                " and not attisdropped and attgenerated = ''",
                (f"rowlease.{table}",),
            )
            columns = ", ".join(column for (column,) in kept)
            copy = f"select {columns} from rowlease.{table}"
            self.store.execute(f"create table {name}.{table} as {copy}")
            restore.append(f"delete from rowlease.{table}")
            if self.store.execute(f"select from {name}.{table} limit 1"):
                restore.append(
                    f"insert into rowlease.{table} ({columns}) overriding system value"
                    f" select {columns} from {name}.{table}"
                )
        return f"do $$ begin {'; '.join(restore)}; end $$"

    def restored(self, scene: str) -> World:
        world, restore = self.copy(scene)
        self.store.execute(restore)
        self.clock.now = world.model.now
        self.clock.advance()
        return deepcopy(world)

    def stops(self, scene: str, name: str) -> list[int]:
        """The stops of a call that runs alone, without those where it has done nothing new."""
        world, call = self.restored(scene), SCENES[scene][name]
        stop_at(self.one, 0)
        given = answer(call, self.one, world)
        stops = goes_on(self.one)
        self.check(world, [call], [given], (scene, name))
        return stops

    def play(self, crossing: Crossing) -> None:
        """Stop the first call, make the second one, and let both end."""
        world = self.restored(crossing.scene)
        calls = [SCENES[crossing.scene][name] for name in (crossing.first, crossing.second)]
        stop_at(self.one, crossing.stop)
        with shut(self.gate):
            first = self.one.in_background(lambda: answer(calls[0], self.one, world))
            self.one.settles(first)
            of_first = self.locked()
            locked = {of_first}
            second = self.two.in_background(lambda: answer(calls[1], self.two, world))
            if not self.two.settles(second):
                of_both = self.locked()
                locked |= {of_both, of_both - of_first}
        given = [first.result(), second.result()]
        goes_on(self.one)
        self.check(world, calls, given, crossing, locked)

    # -- what must hold

    def locked(self) -> frozenset[Any]:
        """The keys of the requests, batches and schedules that somebody has locked."""
        found: set[Any] = set()
        for table, key in KEYS.items():
            rows = f"select {key} from rowlease.{table}"
            found |= {*self.store.execute(rows)}
            found -= {*self.store.execute(f"{rows} for update skip locked")}
        return frozenset(key for (key,) in found)

    def found(self) -> set[tuple[Any, ...]]:
        """All that can be seen of requests, batches, schedules, waiting producers and settings."""
        rows = self.store.rows(
            "requests", "request_id", "status", "priority", "lock_token", "num_attempts",
            "num_crashes", "num_abandons", "due_time", "cancel_requested",
        )  # fmt: skip
        rows += self.store.rows(
            "schedule", "cron", "changed_time", "paused", "next_time", "last_time",
            "last_request_id", "locked_by",
        )  # fmt: skip
        rows += self.store.rows("queue_waiter", "waiter_id", "priority", "num_requests")
        rows += self.store.rows("queue_settings", "queue_name", "paused", *LIMITS)
        return {*rows, *((one.batch_id, *one[1:6]) for one in self.store.list_batches())}

    def learn(self, world: World, given: Sequence[Any]) -> None:
        """The ids of the requests of calls that do not tell them."""
        known = world.model.requests.keys() | {*world.ids["load"]}
        purged = {id for one in given if isinstance(one, dict) for id in one}
        rows = self.store.rows("requests", "request_id", "load_id", "kind")
        for name in ("keys", "next", "inserted"):
            found = {id for id, load_id, kind in rows if name in (load_id, kind)}
            world.ids[name] = sorted((found | purged) - known)

    def check(
        self,
        world: World,
        calls: Sequence[Call],
        given: Sequence[Any],
        reported: object,
        locked: Iterable[frozenset[Any]] = (),
    ) -> None:
        self.learn(world, given)
        found = self.found()
        changed = {row[0] for row in found ^ state(world)}
        choices = [
            skipped(locked, changed, world, one) if call.skips else uncounted(found, world)
            for call, one in zip(calls, given, strict=True)
        ]
        ends = explained(world, calls, given, choices)
        end = next((one for one in ends if state(one) == lowered(found, one)), None)
        assert end, (reported, given)
        assert self.store.recount() == [], reported
        self.drain(end, reported)

    def drain(self, end: World, reported: object) -> None:
        """Let workers do what is left: nothing is forgotten, and limits count right."""
        if end.is_deleted:
            return
        model = end.model
        model.paused, end.is_known = False, False
        model.locked, model.passed, end.uncounted = Unseen()
        self.store.resume("default")
        if end.planned:
            late = answer(fire(), self.store, end)
            assert fire().plain(end, late) == late, (reported, late)
        if (model.max_in_flight, model.rate) != (None, None):
            self.work(end, reported)
        both(configure(capacity=None, max_in_flight=None, rate=None), self.store, end)
        self.clock.advance(seconds=62)
        model.now = self.clock.now
        self.store.maintain()
        housekeeping(model)
        end.waiters.clear()
        for _ in range(2):
            self.work(end, reported)
        assert lowered(self.found(), end) == state(end), reported

    def work(self, end: World, reported: object) -> None:
        """Claim as much as possible, and complete it."""
        held = leased(self.store.claim("three", 20))
        assert claim(end, 20, Claimed(held, False)).held == held, reported
        self.store.complete(held)
        end.model.answered(held, lambda r: end.model.end(r, "Complete"))


def state(world: World) -> set[tuple[Any, ...]]:
    """The same of the small queue."""
    model, schedules = world.model, [world.schedule] if world.schedule else []
    limited = limits(**{name: getattr(model, name) for name in LIMITS}).values()
    return {
        (r.id, r.status, r.priority, r.token, r.attempts, r.crashes, r.abandons, r.due, r.asked)
        for r in model.requests.values()
    } | {
        *((name, *model.counts(batch)) for name, batch in model.batches.items()),
        *((s.cron, s.changed, s.paused, s.next, s.last, s.last_id, s.locked_by) for s in schedules),
        *((id, *place) for id, place in world.waiters.items()),
        *([] if world.is_deleted else [("default", model.paused, *limited)]),
    }


def lowered(found: set[tuple[Any, ...]], end: World) -> set[tuple[Any, ...]]:
    """A request that came while the maximum was lowered has its priority until the next claim."""
    most = end.model.max_priority
    return {
        (id, status, min(priority, most), *rest)
        if status in WAITING and id not in end.first
        else (id, status, priority, *rest)
        for id, status, priority, *rest in found
    }


def mentioned(given: Any) -> set[int]:
    """The ids of the requests in an answer, and other numbers."""
    if isinstance(given, list | tuple | dict):
        return set().union(*map(mentioned, given))
    return {given} if isinstance(given, int) and not isinstance(given, bool) else set()


class Unseen(NamedTuple):
    """The keys of rows that a call has not seen.

    Attributes:
        locked: those that it has found locked.
        passed: those that a claim has passed over.
        uncounted: those that came into a queue with a capacity since the call has counted.
    """

    locked: frozenset[Any] = NOTHING
    passed: frozenset[Any] = NOTHING
    uncounted: frozenset[Any] = NOTHING


def uncounted(found: set[tuple[Any, ...]], world: World) -> set[Unseen]:
    """Requests that return, or follow a completion, need no room, and come while another counts."""
    if world.model.capacity is None:
        return {Unseen()}
    returned = {id for id, status in world.first.items() if status not in WAITING}
    waiting = {row[0] for row in found if row[1] in WAITING}
    return {Unseen(), Unseen(uncounted=frozenset(waiting & {*returned, *world.ids["next"]}))}


def skipped(
    locked: Iterable[frozenset[Any]], changed: set[Any], world: World, given: Any
) -> set[Unseen]:
    """What a call may have found locked, and what a claim may have passed over.

    That is what another has locked or changed. A claim that says that there is more may pass over
    anything.
    """
    claimed = given[1] if isinstance(given, tuple) and len(given) > 1 else given
    more = (isinstance(claimed, Claimed) and claimed.more) or getattr(given, "more", False)
    rows = changed | (world.model.requests.keys() if more else set())
    passed = {NOTHING, *locked, frozenset(rows - mentioned(given))}
    return {Unseen(*one) for one in product({NOTHING, *locked}, passed)}


def explained(
    world: World,
    calls: Sequence[Call],
    given: Sequence[Any],
    choices: Sequence[Iterable[Unseen]],
) -> Iterator[World]:
    """Where those orders of the calls lead in which the small queue gives these answers.

    Args:
        choices: for each call, what it may not have seen.
    """
    places = range(len(calls))
    idle = [place for place in places if calls[place].may_do_nothing and not given[place]]
    for order in [*permutations(places), *([p for p in places if p != one] for one in idle)]:
        for unseen in product(*choices):
            end = deepcopy(world)
            try:
                for place in order:
                    end.model.locked, end.model.passed, end.uncounted = unseen[place]
                    if calls[place].plain(end, given[place]) != given[place]:
                        raise Differs
            except (Differs, StopIteration, ValueError, AssertionError):
                continue
            yield end


#: What a test crosses: in the long form a scene each.
TESTS = [[scene] for scene in SCENES] if LONG else [[*SCENES]]


def drawn(stage: Stage) -> Iterator[Crossing]:
    """Some crossings, always the same."""
    chance = random.Random(DRAWN)
    for _ in range(DRAWN):
        scene = chance.choice([*SCENES])
        first, second = chance.choices([*SCENES[scene]], k=2)
        if stops := stage.stops(scene, first):  # else it is refused if it runs alone
            yield Crossing(scene, first, second, chance.choice(stops))


def crossings(stage: Stage, scene: str) -> Iterator[Crossing]:
    for first in SCENES[scene]:
        for second, stop in product(SCENES[scene], stage.stops(scene, first)):
            yield Crossing(scene, first, second, stop)


@pytest.mark.new_database  # one without stops
@pytest.mark.timeout(0)
@pytest.mark.parametrize("scenes", TESTS, ids=" ".join)
def test_every_two_calls_are_linearizable(
    store: Session, clock: Clock, another: Callable[[], Session], scenes: list[str]
) -> None:
    stage = Stage(store, clock, another)
    number = 0
    for crossing in crossings(stage, *scenes) if LONG else drawn(stage):
        stage.play(crossing)
        number += 1
    sys.stdout.write(f"\n{number} crossings\n")
