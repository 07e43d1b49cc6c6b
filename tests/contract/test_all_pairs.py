"""Every two calls cross at every statement: one stops there, while the other runs to its end.

Afterwards the answers and the requests are those of one of the two orders of the calls in the small
queue in memory. These may differ as documented: a call that skips locked rows has not seen those
that the other had locked, a claim passes over requests that come meanwhile, or says that there is
more, and a verb leaves alone what has come to match since it looked.
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

from rowlease.model import Held, NewRequest
from tests.contract.crossing_calls import (
    DEAD,
    LATER,
    LOADS,
    SCENES,
    Call,
    Claimed,
    Differs,
    World,
    answer,
    claim,
    housekeeping,
    leased,
    new,
)
from tests.contract.sessions import TABLES, Clock, Session
from tests.contract.small_queue import SETTINGS, Batch, Model
from tests.contract.stops import goes_on, put_stops, shut, stop_at

pytestmark = pytest.mark.only_on("postgresql", why="its routines are stopped between statements")
LONG = "ROWLEASE_INTERLEAVINGS" in os.environ
#: How many crossings the short form draws, always the same.
DRAWN = 60
NOTHING: frozenset[Any] = frozenset()


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

    def __init__(
        self, store: Session, clock: Clock, another: Callable[[], Session], scenes: list[str]
    ) -> None:
        self.store, self.clock, self.noon = store, clock, clock.now
        self.one, self.two, self.gate = (another() for _ in range(3))
        put_stops(store)
        self.copies = {name: Copy(self.set_up(name), self.copied(name)) for name in scenes}
        self.stops = {
            (scene, name): self.noted(scene, name) for scene in scenes for name in SCENES[scene]
        }

    def set_up(self, name: str) -> World:
        """Requests in all states. Unless the scene is idle, the worker `one` has leased three."""
        store = self.store
        store.reset()
        self.clock.now = self.noon
        self.clock.advance()
        store.configure_queue("default", **SETTINGS)
        store.maintain()
        world = World(model := Model(self.noon))

        def put(*requests: NewRequest, **options: Any) -> list[int]:
            answers = store.enqueue_many("default", requests, **options)
            ids = [one.request_id or 0 for one in answers]
            assert model.enqueue(requests, ids) == answers
            return ids

        def lease(worker: str) -> list[Held]:
            found = [Held(one.request_id, one.lock_token) for one in store.claim(worker, 9)]
            assert model.dequeue(9, 9, [one.lock_token for one in found]) == found
            return found

        put(new(dedup_key="k"))
        (dead,) = lease("three")
        store.fail([dead], [DEAD])
        model.answered([dead], lambda r: model.fail(r, DEAD))
        model.batches["b"] = Batch(put(new(), batch_id="b"))
        first, _ = put(new(), new(group_key="g"))
        if name != "idle":
            world.held = lease("one")
            for load_id, rows in LOADS.items():
                columns = [{"priority": 2, "dedup_key": one.dedup_key} for one in rows]
                run = world.runs[load_id] = store.staged(load_id, columns)
                staged = store.rows("lane", "request_id", run_number=run)
                world.ids[load_id] = [id for (id,) in staged]
        grouped, *_ = put(new(group_key="g"), new(), new(priority=0))
        (later,) = put(new(delay=LATER))
        model.wait(model.batches["b"], put(new(), after="b"))
        world.first = {r.id: r.status for r in model.requests.values()}
        world.named = [dead.request_id, first, grouped, later]
        if name == "expired":
            self.clock.advance(LATER)
            model.now = self.clock.now
        return world

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
        world, restore = self.copies[scene]
        self.store.execute(restore)
        self.clock.now = world.model.now
        self.clock.advance()
        return deepcopy(world)

    def noted(self, scene: str, name: str) -> list[int]:
        """The stops of a call that runs alone, without those where it has done nothing new."""
        world, call = self.restored(scene), SCENES[scene][name]
        stop_at(self.one, 0)
        given = answer(call, self.one, world)
        stops = goes_on(self.one)
        self.check(world, [call], [given], (scene, name))
        return stops

    def crossings(self) -> Iterator[Crossing]:
        for (scene, first), (other, second) in product(self.stops, self.stops):
            if scene == other:
                for stop in self.stops[scene, first]:
                    yield Crossing(scene, first, second, stop)

    def play(self, crossing: Crossing) -> None:
        """Stop the first call, make the second one, and let both end."""
        world = self.restored(crossing.scene)
        calls = [SCENES[crossing.scene][name] for name in (crossing.first, crossing.second)]
        stop_at(self.one, crossing.stop)
        with shut(self.gate):
            first = self.one.in_background(lambda: answer(calls[0], self.one, world))
            self.one.settles(first)
            locked = {self.locked()}
            second = self.two.in_background(lambda: answer(calls[1], self.two, world))
            if not self.two.settles(second):
                locked.add(self.locked())
        given = [first.result(), second.result()]
        goes_on(self.one)
        self.check(world, calls, given, crossing, locked)

    # -- what must hold

    def locked(self) -> frozenset[Any]:
        """The ids of the requests and batches that somebody has locked."""
        found: set[Any] = set()
        for table, key in (("queue", "request_id"), ("batch", "batch_id")):
            rows = f"select {key} from rowlease.{table}"
            found |= {*self.store.execute(rows)}
            found -= {*self.store.execute(f"{rows} for update skip locked")}
        return frozenset(key for (key,) in found)

    def found(self) -> set[tuple[Any, ...]]:
        """All that can be seen of the requests and batches."""
        rows = self.store.rows(
            "requests", "request_id", "status", "priority", "lock_token", "num_attempts",
            "num_crashes", "num_abandons", "due_time", "cancel_requested",
        )  # fmt: skip
        return {*rows, *((one.batch_id, *one[1:6]) for one in self.store.list_batches())}

    def check(
        self,
        world: World,
        calls: Sequence[Call],
        given: Sequence[Any],
        reported: object,
        locked: Iterable[frozenset[Any]] = (),
    ) -> None:
        moved = {id for (id,) in self.store.rows("requests", "request_id", load_id="keys")}
        moved |= {id for one in given if isinstance(one, dict) for id in one}
        world.ids["keys"] = sorted(moved - world.model.requests.keys() - {*world.ids["load"]})
        found = self.found()
        changed = {row[0] for row in found ^ state(world)}
        choices = [
            skipped(locked, changed, world, one) if call.skips else {(NOTHING, NOTHING)}
            for call, one in zip(calls, given, strict=True)
        ]
        ends = explained(world, calls, given, choices)
        end = next((end for end in ends if state(end) == found), None)
        assert end, (reported, given)
        assert self.store.recount() == [], reported
        self.drain(end, reported)

    def drain(self, end: World, reported: object) -> None:
        """Let workers do what is left: nothing is forgotten."""
        if end.is_deleted:
            return
        model = end.model
        model.paused, model.locked, model.passed = False, NOTHING, NOTHING
        self.store.resume("default")
        self.clock.advance(seconds=62)
        model.now = self.clock.now
        self.store.maintain()
        housekeeping(model)
        for _ in range(2):
            held = leased(self.store.claim("three", 20))
            assert claim(end, 20, Claimed(held, False)).held == held, reported
            self.store.complete(held)
            model.answered(held, lambda r: model.end(r, "Complete"))
        assert self.found() == state(end), reported


def state(world: World) -> set[tuple[Any, ...]]:
    """The same of the small queue."""
    model = world.model
    return {
        (r.id, r.status, r.priority, r.token, r.attempts, r.crashes, r.abandons, r.due, r.asked)
        for r in model.requests.values()
    } | {(name, *model.counts(batch)) for name, batch in model.batches.items()}


def mentioned(given: Any) -> set[int]:
    """The ids of the requests in an answer, and other numbers."""
    if isinstance(given, list | tuple | dict):
        return set().union(*map(mentioned, given))
    return {given} if isinstance(given, int) and not isinstance(given, bool) else set()


def skipped(
    locked: Iterable[frozenset[Any]], changed: set[Any], world: World, given: Any
) -> set[tuple[frozenset[Any], frozenset[Any]]]:
    """What a call may have found locked, and what a claim may have passed over.

    That is what another has locked or changed. A claim that says that there is more may pass over
    anything.
    """
    claimed = given[1] if isinstance(given, tuple) and len(given) > 1 else given
    more = (isinstance(claimed, Claimed) and claimed.more) or getattr(given, "more", False)
    rows = changed | (world.model.requests.keys() if more else set())
    passed = {NOTHING, *locked, frozenset(rows - mentioned(given))}
    return {*product({NOTHING, *locked}, passed)}


def explained(
    world: World,
    calls: Sequence[Call],
    given: Sequence[Any],
    choices: Sequence[Iterable[tuple[frozenset[Any], frozenset[Any]]]],
) -> Iterator[World]:
    """Where those orders of the calls lead in which the small queue gives these answers.

    Args:
        choices: for each call, what it may have found locked.
    """
    places = range(len(calls))
    idle = [place for place in places if calls[place].may_do_nothing and not given[place]]
    for order in [*permutations(places), *([p for p in places if p != one] for one in idle)]:
        for locked in product(*choices):
            end = deepcopy(world)
            try:
                for place in order:
                    end.model.locked, end.model.passed = locked[place]
                    if calls[place].plain(end, given[place]) != given[place]:
                        raise Differs
            except (Differs, StopIteration, ValueError, AssertionError):
                continue
            yield end


#: What a test crosses: in the long form a scene each.
TESTS = [[scene] for scene in SCENES] if LONG else [[*SCENES]]


@pytest.mark.new_database  # one without stops
@pytest.mark.timeout(0)
@pytest.mark.parametrize("scenes", TESTS, ids=" ".join)
def test_every_two_calls_are_linearizable(
    store: Session, clock: Clock, another: Callable[[], Session], scenes: list[str]
) -> None:
    stage = Stage(store, clock, another, scenes)
    crossings = [*stage.crossings()]
    chosen = crossings if LONG else random.Random(DRAWN).sample(crossings, DRAWN)
    for crossing in chosen:
        stage.play(crossing)
    sys.stdout.write(f"\n{len(chosen)} of {len(crossings)} crossings\n")
