"""A load has one owner: the run that took it over last. Rows of other runs do not count.

A driver is a run with its steps: it begins, stages two parts and promotes. `Scene` makes each
step and checks its answer; the orders of the steps of several drivers are data.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import combinations, pairwise
from typing import Any

import pytest

from rowlease.errors import LoadLost
from rowlease.model import Begun, Outcome, Promoted
from tests.contract.sessions import Clock, Session

#: Rows of a part; a load has two. All drivers write as many, so that counting shows nothing.
ROWS = 3
BEGIN, ONE, TWO, PROMOTE = "begin", "stage 1", "stage 2", "promote"
PROGRAM = (BEGIN, ONE, TWO, PROMOTE)
TAKEN_OVER = "taken over"


def part(number: int, by: str) -> list[dict[str, Any]]:
    """The rows of a part; every run computes the same numbers, with its own name."""
    places = range(ROWS * (number - 1), ROWS * number)
    return [{"kind": f"{n} by {by}", "group_key": f"{by} {n}"} for n in places]


class Scene:
    """A load, the drivers that write it, and the expected outcome of each."""

    def __init__(self, store: Session, load_id: str) -> None:
        self._store = store
        self._load_id = load_id
        self._numbers: dict[str, int] = {}
        self._owner: str | None = None
        self._winner: str | None = None
        self.reported: list[tuple[str, str, str]] = []

    def step(self, driver: str, step: str) -> None:
        """Make a step, whose answer must be the expected one."""
        if step != BEGIN and driver not in self._numbers:
            return  # its load was promoted before
        expected = self._expected(driver, step)
        try:
            answer = self._make(driver, step)
        except LoadLost:
            answer = TAKEN_OVER
        self.reported.append((driver, step, answer))
        assert answer == expected, self.reported

    def _expected(self, driver: str, step: str) -> str:
        superseded = driver in self._numbers and driver != self._owner
        if superseded or (step in (ONE, TWO) and self._winner is not None):
            return TAKEN_OVER
        if step in (ONE, TWO):
            return "staged"
        if self._winner is not None:
            return Outcome.REPEAT
        if step == BEGIN:
            self._owner = driver
        else:
            self._winner = driver
        return Outcome.OK

    def _make(self, driver: str, step: str) -> str:
        if step == BEGIN:
            begun = self._store.begin_load(self._load_id, "default", driver)
            if isinstance(begun, Promoted):
                return begun.outcome
            run = begun.run_number
            assert run > max(self._numbers.values(), default=0) or self._numbers[driver] == run
            self._numbers[driver] = run
            return Outcome.OK
        if step == PROMOTE:
            done = self._store.promote(self._load_id, self._numbers[driver], 2 * ROWS)
            assert done[1:] == (2 * ROWS, 2 * ROWS, 0, 0)
            return done.outcome
        number = int(step[-1])
        self._store.lay(self._load_id, self._numbers[driver], part(number, driver), number)
        return "staged"

    def check(self) -> None:
        """One driver got `ok`; its rows are enqueued, each once, and no others."""
        assert Counter(self.reported)[(str(self._winner), PROMOTE, Outcome.OK)] == 1, self.reported
        assert (
            sum(step == PROMOTE and reported == Outcome.OK for _, step, reported in self.reported)
            == 1
        )
        found = self._store.rows("queue", "kind", load_id=self._load_id)
        assert found == [(f"{n} by {self._winner}",) for n in range(2 * ROWS)], self.reported
        ((run_by, status),) = self._store.rows("load", "run_by", "status", load_id=self._load_id)
        assert (run_by.partition(" ")[0], status) == (self._winner, "Promoted")


def orders_of_two() -> Iterator[list[tuple[str, str]]]:
    """Every order of the steps of two drivers."""
    places = range(2 * len(PROGRAM))
    for chosen in combinations(places, len(PROGRAM)):
        steps = {"A": iter(PROGRAM), "B": iter(PROGRAM)}
        drivers = ["A" if place in chosen else "B" for place in places]
        yield [(driver, next(steps[driver])) for driver in drivers]


def orders_of_three(count: int) -> Iterator[list[tuple[str, str]]]:
    """Drawn orders of three drivers, some of which ask twice or have tasks that outlive them."""
    draw = random.Random(1)
    for _ in range(count):
        left = {driver: drawn_program(draw) for driver in "ABC"}
        order = []
        while left:
            driver = draw.choice(sorted(left))
            order.append((driver, left[driver].pop(0)))
            if not left[driver]:
                del left[driver]
        yield order


def drawn_program(draw: random.Random) -> list[str]:
    begin = [BEGIN] * draw.choice([1, 1, 2])  # an answer was lost
    parts = [ONE, TWO, *draw.choice([(), (), (ONE,), (TWO,)])]  # a copy of a task
    draw.shuffle(parts)
    promote = [PROMOTE] * draw.choice([1, 1, 2])
    late = draw.choice([(), (ONE,), (TWO, ONE), (BEGIN,)])  # what still lives when the driver ends
    return [*begin, *parts, *promote, *late]


def play(store: Session, orders: Iterator[list[tuple[str, str]]]) -> Counter[str]:
    seen: Counter[str] = Counter()
    for number, order in enumerate(orders):
        scene = Scene(store, f"load {number}")
        for driver, step in order:
            scene.step(driver, step)
        scene.check()
        seen.update(reported for _, _, reported in scene.reported)
    store.maintain()
    assert store.rows("lane", "kind") == store.rows("lane_part", "part") == []
    return seen


def test_of_two_drivers_one_promotes_its_own_rows_in_every_order_of_their_steps(
    store: Session,
) -> None:
    seen = play(store, orders_of_two())
    assert seen[Outcome.REPEAT] > 0
    assert seen[TAKEN_OVER] > 0


def test_of_three_drivers_one_promotes_its_own_rows_in_any_order_of_their_steps(
    store: Session,
) -> None:
    seen = play(store, orders_of_three(100))
    assert seen[Outcome.REPEAT] > 0
    assert seen[TAKEN_OVER] > 0


# -- transactions that overlap ---------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_who_promotes_while_another_takes_the_load_over_waits_for_the_answer(
    store: Session, another: Callable[[], Session], ending: str
) -> None:
    one, two = store, another()
    run = one.staged("x", part(1, "one"))
    two.begin()
    two.begin_load("x", "default", "two")
    promoted = one.waiting(lambda: one.promote("x", run, ROWS))
    getattr(two, ending)()
    if ending == "commit":
        with pytest.raises(LoadLost, match=r'load "x" was taken over by two \('):
            promoted.result()
        assert store.rows("queue", "request_id") == []
    else:
        assert promoted.result() == Promoted(Outcome.OK, ROWS, ROWS, 0)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_who_takes_a_load_over_while_it_is_promoted_waits_for_the_answer(
    store: Session, another: Callable[[], Session], ending: str
) -> None:
    one, two = store, another()
    run = one.staged("x", part(1, "one"))
    one.begin()
    one.promote("x", run, ROWS)
    second = two.waiting(lambda: two.begin_load("x", "default", "two"))
    getattr(one, ending)()
    if ending == "commit":
        assert second.result() == Promoted(Outcome.REPEAT, ROWS, ROWS, 0)
        assert one.promote("x", run, ROWS).outcome == Outcome.REPEAT
    else:
        begun = second.result()
        assert isinstance(begun, Begun)
        with pytest.raises(LoadLost, match="taken over by two"):
            one.promote("x", run, ROWS)
        assert two.promote("x", begun.run_number, 0) == Promoted(Outcome.OK, 0, 0, 0)


# -- the number of a run ---------------------------------------------------------------------------


def test_a_run_that_was_ended_counts_no_more_and_leaves_no_row(
    store: Session, another: Callable[[], Session]
) -> None:
    """Spark lets the tasks of a cancelled job write to their end."""

    run = store.begun("x", "one")
    store.lay("x", run, [{}])
    store.end_run("x", run)
    over = "its job failed or was cancelled"
    for call in (
        lambda: store.promote("x", run, 1),
        lambda: store.report_load("x", run, 1),
        lambda: store.end_run("x", run),
        lambda: another().lay("x", run, [{}], 1),
        lambda: store.begin_load("x", "default", "one"),
    ):
        with pytest.raises(LoadLost, match=over):
            call()
    store.maintain()
    assert store.rows("lane", "kind") == store.rows("lane_part", "part") == []
    assert [load.status for load in store.list_loads()] == ["Ended"]
    again = store.begun("x", "two")
    assert again > run
    store.lay("x", again, [{}], 2)
    assert [load.status for load in store.list_loads()] == ["Staging"]
    assert store.promote("x", again, 1).outcome == Outcome.OK


def test_a_load_that_was_ended_is_forgotten_after_a_day(store: Session, clock: Clock) -> None:
    run = store.begun("x", "one")
    store.end_run("x", run)
    store.maintain()
    assert [load.load_id for load in store.list_loads()] == ["x"]
    clock.advance(timedelta(days=1, seconds=1))
    store.maintain()
    assert store.list_loads() == []


def test_a_promoted_load_is_not_ended(store: Session) -> None:
    run = store.begun("x", "one")
    store.lay("x", run, [{"kind": "a"}])
    store.promote("x", run, 1)
    store.end_run("x", run)
    assert [load.status for load in store.list_loads()] == ["Promoted"]
    assert [request.kind for request in store.claim(limit=2)] == ["a"]


@pytest.mark.parametrize("call", ["promote", "report_load", "end_run"])
def test_a_superseded_run_gets_an_error_that_names_the_new_owner(
    store: Session, clock: Clock, call: str
) -> None:
    run = store.staged("x", part(1, "one"), "one")
    clock.advance(minutes=5)
    second = store.staged("x", part(1, "two"), "two")
    arguments = [] if call == "end_run" else [ROWS]
    before = store.rows("load", "*")
    says = (
        r'load "x" was taken over by two \(.+\) at 2026-01-01 12:05:00\+00; rows of this run do '
        "not count: let that run end, or run this one again"
    )
    with pytest.raises(LoadLost, match=says):
        getattr(store, call)("x", run, *arguments)
    assert store.rows("load", "*") == before
    assert store.rows("queue", "request_id") == []
    assert store.promote("x", second, ROWS) == Promoted(Outcome.OK, ROWS, ROWS, 0)
    with pytest.raises(LoadLost, match=says):  # and no `repeat`, with counts of another's rows
        getattr(store, call)("x", run, *arguments)


def test_a_run_that_begins_twice_has_one_number_and_keeps_its_rows(store: Session) -> None:
    run = store.staged("x", part(1, "one"))
    assert store.begun("x") == run
    assert store.promote("x", run, ROWS).outcome == Outcome.OK


def test_a_run_that_was_superseded_does_not_take_the_load_back(store: Session) -> None:
    names = ["one", "two", "three"]
    numbers = [store.begun("x", name) for name in names]
    for name in names[:-1]:
        with pytest.raises(LoadLost, match="taken over by three"):
            store.begin_load("x", "default", name)
    assert store.promote("x", numbers[-1], 0).outcome == Outcome.OK
    with pytest.raises(LoadLost, match="taken over by three"):
        store.begin_load("x", "default", "one")
    assert store.begin_load("x", "default", "four") == Promoted(Outcome.REPEAT, 0, 0, 0)


def test_the_name_of_a_run_is_compared_whole(store: Session) -> None:
    numbers = [store.begun("x", name) for name in ("driver 1", "driver 11", "driver", "river 1")]
    assert sorted(set(numbers)) == numbers


def test_a_load_that_was_taken_over_very_often_keeps_the_last_names(store: Session) -> None:
    names = [f"{number:03}".ljust(200, "x") for number in range(60)]
    for name in names:
        store.begun("x", name)
    with pytest.raises(LoadLost):
        store.begin_load("x", "default", names[-2])
    ((past,),) = store.rows("load", "past_runs")
    assert len(past) < 11_000


def test_a_run_number_is_not_given_out_again_by_a_server_that_has_forgotten_it(
    store: Session,
) -> None:
    """As after a restore, or a failover that lost the last commits."""
    lost = [store.begun("x", "one"), store.begun("x", "two")]
    for name in ("three", "four"):  # the load itself is forgotten, or only that it was taken over
        store.remove("load", load_id="x")
        if name == "four":
            store.insert(
                "load", load_id="x", queue_name="default", status="Staging", num_rows=0,
                run_number=lost[0], run_by="one", started_time=store.now(),
                reported_time=store.now(),
            )  # fmt: skip
        number = store.staged("x", part(1, name), name)
        assert number not in lost
        with pytest.raises(LoadLost, match=f"taken over by {name}"):
            store.promote("x", lost[1], ROWS)
        assert store.promote("x", number, ROWS).outcome == Outcome.OK


def test_run_numbers_begin_anywhere_and_only_grow(store: Session) -> None:
    begun = [store.begun(f"load {number}") for number in range(20)]
    assert len({number >> 24 for number in begun}) > 10
    taken = [store.begun("load 0", f"run {number}") for number in range(20)]
    assert [begun[0], *taken] == sorted({begun[0], *taken})
    steps = [later - earlier for earlier, later in pairwise(taken)]
    assert len({step >> 24 for step in steps}) > 10


def test_a_load_that_never_began_does_not_exist(store: Session, clock: Clock) -> None:
    with pytest.raises(LoadLost, match='load "x" does not exist: it was not begun'):
        store.promote("x", 1, 0)
    store.begun("x")
    clock.advance(timedelta(days=2))
    store.maintain()
    with pytest.raises(LoadLost, match="had no report for a day; begin it"):
        store.report_load("x", 1, 0)
