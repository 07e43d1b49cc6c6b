"""Workers come, die and come back late: each firing is enqueued once, and none is left out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowlease.events import Events
from rowlease.model import DueSchedule, Fired
from rowlease.tasks.cron import Cron
from rowlease.tasks.task import Registry, Task
from rowlease.worker.housekeeping import Schedules
from tests.contract.sessions import Clock, Session

EXAMPLES = {"postgresql": int(os.environ.get("ROWLEASE_SCHEDULE_EXAMPLES", "60")), "sqlserver": 4}
#: Name, expression, time zone; the test begins at noon on 1 January 2026.
SCHEDULES = (
    ("minutely", "* * * * *", "UTC"),
    ("sevens", "*/7 * * * *", "America/St_Johns"),
    ("once", "30 13 1 1 *", "UTC"),
)
WORKERS = 3
ENOUGH = 1000  # all missed firings are enqueued, so a missing one was lost


def nothing() -> None: ...


KNOWN = Registry([Task(nothing, "x")])


class Killed(Exception):
    """A worker ends at this place."""


class Step(NamedTuple):
    """What happens next: time passes, then a worker does something.

    Attributes:
        does: `all`; or dies `before` it fires the n-th that it has leased, or `after` that, with
            the answer on its way; or it leases, stalls (`still`), and fires `late`.
    """

    minutes: float
    worker: int
    does: str
    nth: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([0, 0.05, 0.2, 0.9, 3, 61]),
        st.integers(0, WORKERS - 1),
        st.sampled_from(["all", "before", "after", "still", "late"]),
        st.integers(0, 2),
    ),
    min_size=4,
    max_size=14,
)


class Mortal:
    """A store whose caller dies over one of its firings."""

    def __init__(self, store: Session, step: Step) -> None:
        self._store = store
        self._step = step
        self._fired = 0
        self.held: list[DueSchedule] = []

    def claim_schedules(self, worker_id: str, *, kinds: Sequence[str]) -> Any:
        claim = self._store.claim_schedules(worker_id, kinds=kinds)
        if self._step.does == "still":
            self.held = claim.due
            raise Killed
        return claim

    def fire_schedule(self, *arguments: Any) -> list[Fired]:
        dies = self._fired == self._step.nth
        self._fired += 1
        if dies and self._step.does == "before":
            raise Killed
        answers = self._store.fire_schedule(*arguments)
        if dies and self._step.does == "after":
            raise Killed
        return answers


def take(step: Step, store: Session, held: list[list[DueSchedule]]) -> None:
    mortal: Any = Mortal(store, step)
    schedules = Schedules(mortal, f"worker {step.worker}", KNOWN, Events())
    if step.does == "late":
        for due in held[step.worker]:
            schedules._fire(due)
        return
    try:
        schedules.step()
    except Killed:
        held[step.worker] = mortal.held or held[step.worker]


def finish(store: Session) -> None:
    """Have everything done: a dedup key must not hide what was enqueued twice."""
    while leased := store.claim(limit=1000):
        store.complete(leased)


def chain(cron: Cron, begin: datetime, end: datetime) -> Counter[str]:
    found: Counter[str] = Counter()
    at = cron.following(begin)
    while at <= end:
        found[f"{at:%Y-%m-%dT%H:%M:%SZ}"] += 1
        at = cron.following(at)
    return found


def test_every_firing_is_enqueued_once_over_every_change_of_leader(
    another: Callable[[], Session], clock: Clock, engine: str
) -> None:
    workers = [another() for _ in range(WORKERS)]
    begin = clock.now

    @settings(
        max_examples=EXAMPLES[engine],
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(STEPS)
    def survives(steps: list[Step]) -> None:
        workers[0].reset()
        clock.now = begin
        clock.advance(seconds=0)
        for name, cron, zone in SCHEDULES:
            workers[0].put_schedule(name, cron, "x", time_zone=zone, catch_up=ENOUGH)
        held: list[list[DueSchedule]] = [[] for _ in workers]
        for step in steps:
            clock.advance(minutes=step.minutes)
            take(step, workers[step.worker], held)
            finish(workers[0])
        clock.advance(seconds=10)  # the leases of the dead
        for worker in range(WORKERS):
            take(Step(0, worker, "late", 0), workers[worker], held)
            take(Step(0, worker, "all", 0), workers[worker], held)
        fired: dict[str, Counter[str]] = {name: Counter() for name, _, _ in SCHEDULES}
        for _, key in workers[0].rows("requests", "request_id", "dedup_key"):
            name, _, time = key.partition("@")
            fired[name][time] += 1
        assert fired == {
            name: chain(Cron(cron, zone), begin, clock.now) for name, cron, zone in SCHEDULES
        }

    survives()


def test_a_firing_is_enqueued_once_even_without_its_dedup_key(
    another: Callable[[], Session], clock: Clock
) -> None:
    """It holds only while the request lives; the token holds for ever."""
    store, late = another(), another()
    store.put_schedule("s", "* * * * *", "x")
    clock.advance(minutes=1)
    (due,) = late.claim_schedules("late").due
    clock.advance(seconds=10)
    Schedules(store, "one", KNOWN, Events()).step()
    (leased,) = store.claim()
    store.complete([leased])
    Schedules(late, "late", KNOWN, Events())._fire(due)
    assert store.rows("queue", "request_id") == []
    assert len(store.rows("queue_history", "request_id")) == 1


@pytest.mark.parametrize("pause", [timedelta(hours=1), timedelta(days=400)])
def test_a_worker_that_stood_still_makes_up_what_the_rule_says(
    another: Callable[[], Session], clock: Clock, pause: timedelta
) -> None:
    store = another()
    store.put_schedule("s", "* * * * *", "x", catch_up=2)
    schedules = Schedules(store, "one", KNOWN, Events())
    schedules.step()
    clock.advance(seconds=pause.total_seconds())
    schedules.step()
    last = clock.now.replace(second=0, microsecond=0)
    assert [key for _, key in store.rows("queue", "request_id", "dedup_key")] == [
        f"s@{time:%Y-%m-%dT%H:%M:%SZ}" for time in (last - timedelta(minutes=1), last)
    ]
