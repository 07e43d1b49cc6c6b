from __future__ import annotations

import math
import os
import socket
import threading
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from rowlease.errors import (
    AccessDenied,
    InvalidRequest,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
)
from rowlease.events import Event, Events, HousekeepingRefused, KindShared
from rowlease.model import Maintained, SharedKind
from rowlease.tasks.task import Task
from rowlease.worker import Worker
from rowlease.worker import calls as patience
from rowlease.worker import housekeeping as module
from rowlease.worker.housekeeping import SHORTEST_PAUSE, Housekeeping
from rowlease.worker.timings import HEARTBEAT_ANSWER, REFUSAL_TOLERATED


class Records:
    """A store that records its calls, and a clock that each wait moves."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.calls: list[str] = []
        self.beats: list[dict[str, Any]] = []
        self.rounds: list[float] = []
        self.errors: dict[int, Exception] = {}
        self.steps: list[Maintained] = []
        self.shared: list[SharedKind] = []
        self.most = 12

    def maintain(self) -> list[Maintained]:
        self.calls.append("maintain")
        self.rounds.append(self.time)
        if error := self.errors.get(len(self.rounds)):
            raise error
        return self.steps

    def within(self, timeout: timedelta) -> Records:
        assert timeout == timedelta(seconds=HEARTBEAT_ANSWER)
        return self

    def worker_heartbeat(self, worker_id: str, **given: Any) -> None:
        self.calls.append("heartbeat")
        self.beats.append({"worker_id": worker_id, "at": self.time, **given})

    def list_shared_kinds(self) -> list[SharedKind]:
        return self.shared

    def finish_batches(self) -> None:
        self.calls.append("batches")

    def remove_worker(self, worker_id: str) -> None:
        self.calls.append("bye")
        raise StoreUnavailable

    def wait(self, pause: float) -> bool:
        self.time += pause
        return self.most in (len(self.rounds), len(self.beats))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Records:
    store = Records()
    for each in (module, patience):
        monkeypatch.setattr(each, "now", lambda: store.time)
    return store


class Due:
    """Schedules that are due every `every` seconds."""

    def __init__(self, store: Records, every: float) -> None:
        self.store = store
        self.every = every
        self.steps: list[float] = []
        self.errors: dict[int, Exception] = {}

    def step(self) -> float:
        self.steps.append(self.store.time)
        self.store.calls.append("schedules")
        if error := self.errors.get(len(self.steps)):
            raise error
        return self.every


def keeping(
    store: Records, busy: int = 1, schedules: Any = None, emitted: list[Event] | None = None
) -> Housekeeping:
    this: Any = store
    events = Events()
    if emitted is not None:
        events.subscribe(emitted.append)
    house = Housekeeping(
        this,
        "w",
        ["a", "b"],
        events,
        slots=4,
        busy=lambda: busy,
        consumer_priority=7,
        kinds={"resize": "app.resize(path)"},
        schedules=schedules,
    )
    house._stopped = this
    return house


def test_the_first_heartbeat_reports_the_other_tasks_of_its_kinds_in_its_queues(
    store: Records,
) -> None:
    own = "app.resize(path)"
    store.shared = [
        SharedKind("a", "resize", own, "w"),
        SharedKind("a", "resize", "site.resize(image)", "x"),
        SharedKind("a", "mail", "site.mail()", "x"),
        SharedKind("c", "resize", "site.resize(image)", "x"),
    ]
    emitted: list[Event] = []
    keeping(store, emitted=emitted).run_heartbeats()
    assert emitted == [KindShared("a", "resize", own, "site.resize(image)", "x")]


@pytest.mark.parametrize(("busy", "pause"), [(1, 1.0), (0, 3.5)])
def test_it_maintains_every_second_and_less_often_when_idle(
    store: Records, busy: int, pause: float
) -> None:
    keeping(store, busy).run()
    gaps = [later - earlier for earlier, later in zip(store.rounds, store.rounds[1:], strict=False)]
    assert all(0.8 * pause <= gap <= 1.2 * pause for gap in gaps)
    assert len(set(gaps)) > 1  # jittered


def test_it_sends_a_heartbeat_every_five_seconds_and_removes_the_worker_at_the_end(
    store: Records,
) -> None:
    keeping(store).run_heartbeats()
    first, second, *_ = store.beats
    assert first["at"] == 1000.0
    assert 4.5 <= second["at"] - first["at"] <= 6.7
    assert (first["worker_id"], first["queues"], first["slots"]) == ("w", ["a", "b"], 4)
    assert (first["busy"], first["consumer_priority"]) == (1, 7)
    assert (first["host"], first["pid"]) == (socket.gethostname(), os.getpid())
    assert store.calls[0] == "heartbeat"
    assert store.calls[-2:] == ["batches", "bye"]


def test_a_maintain_that_is_not_answered_delays_no_heartbeat(
    store: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    monkeypatch.setattr(store, "maintain", lambda: answered.wait(60) and [])
    house = keeping(store)
    maintaining = threading.Thread(target=house.run)
    maintaining.start()
    house.run_heartbeats()
    assert len(store.beats) == 12
    assert maintaining.is_alive()
    answered.set()
    maintaining.join(60)


def test_a_call_that_fails_in_an_outage_is_repeated_at_its_next_time(store: Records) -> None:
    store.errors = {3: StoreUnavailable()}
    keeping(store).run()
    assert len(store.rounds) == 12


def test_a_grant_that_is_missing_at_the_start_ends_it(store: Records) -> None:
    store.errors = {1: AccessDenied("no")}
    with pytest.raises(AccessDenied):
        keeping(store).run()
    assert len(store.rounds) == 1


@pytest.mark.parametrize("error", [AccessDenied("no"), SchemaMismatch("no")])
def test_a_grant_that_is_revoked_later_is_tolerated_for_a_minute(
    store: Records, error: StoreError
) -> None:
    store.most = 200
    store.errors = {2: error, 3: error}
    keeping(store).run()
    assert len(store.rounds) == 200
    store.rounds = []
    store.errors = dict.fromkeys(range(2, 200), error)
    with pytest.raises(type(error)):
        keeping(store).run()
    assert REFUSAL_TOLERATED <= store.rounds[-1] - store.rounds[1] < REFUSAL_TOLERATED + 2


def test_a_step_that_fails_is_reported_once(store: Records) -> None:
    emitted: list[Event] = []
    store.steps = [Maintained("counts folded", 3), Maintained("leases broken", 0, "row 7 is odd")]
    keeping(store, emitted=emitted).run()
    assert len(store.rounds) == 12
    says = 'the step "leases broken" of maintain failed: row 7 is odd'
    assert emitted == [HousekeepingRefused(says)]


def test_a_refusal_caused_by_one_row_is_reported_once(store: Records) -> None:
    emitted: list[Event] = []
    store.errors = {1: StoreError("odd"), 2: StoreError("odd"), 5: InvalidRequest("odder")}
    keeping(store, emitted=emitted).run()
    assert len(store.rounds) == 12
    assert emitted == [HousekeepingRefused("odd"), HousekeepingRefused("odder")]


def test_schedules_are_checked_at_the_time_they_return(store: Records) -> None:
    for every, gap in ((0.25, 0.25), (5.0, 5.0)):
        store.beats, store.calls = [], []
        due = Due(store, every)
        keeping(store, schedules=due).run_heartbeats()
        # Another call may be due just before; then the schedules follow after the shortest pause.
        assert due.steps[1] - due.steps[0] == pytest.approx(gap, abs=SHORTEST_PAUSE)


def test_a_schedule_that_is_always_due_causes_no_busy_loop(store: Records) -> None:
    due = Due(store, 0.0)
    keeping(store, schedules=due).run_heartbeats()
    assert due.steps[-1] - due.steps[0] >= 0.02 * (len(due.steps) - 2)


def test_schedules_cause_no_busy_loop_in_an_outage(store: Records) -> None:
    due = Due(store, 60.0)
    due.errors = {n: StoreUnavailable() for n in range(2, 30)}
    due.every = 0.5
    house = keeping(store, schedules=due)
    store.wait = lambda pause: _later(store, due, pause)  # type: ignore[method-assign]
    house.run_heartbeats()
    gaps = [later - earlier for earlier, later in pairwise(due.steps[1:])]
    assert min(gaps) >= 0.8
    assert len(due.steps) == 10


def _later(store: Records, due: Due, pause: float) -> bool:
    store.time += pause
    return len(due.steps) == 10


def test_housekeeping_says_whether_a_claim_may_have_missed_what_maintain_was_changing(
    store: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def maintain() -> None:
        store.time += 1
        seen.append(housekeeping.has_rested_since(math.inf))
        store.time += 1
        raise StoreUnavailable

    housekeeping = keeping(store)
    monkeypatch.setattr(store, "maintain", maintain)
    assert housekeeping.has_rested_since(0.0)
    with pytest.raises(StoreUnavailable):
        housekeeping._maintain()
    assert seen == [False]
    assert not housekeeping.has_rested_since(1001.0)
    assert housekeeping.has_rested_since(1002.5)


def test_a_burst_does_not_end_after_a_claim_beside_a_maintain() -> None:
    worker = Worker("postgresql://nowhere/x", [Task(print)], burst=True)
    store, housekeeping = SimpleNamespace(finish_batches=lambda: 0), SimpleNamespace()
    these: Any = (store, housekeeping, 7.0)
    for has_rested in (False, True):
        housekeeping.has_rested_since = lambda at, says=has_rested: says and at == 7.0
        assert worker._stop_if_drained(*these) is has_rested
