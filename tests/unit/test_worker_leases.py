from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlease.errors import RoutineError, StoreUnavailable
from rowlease.events import CancelRequested, Event, Events, LeaseLost, Renewed
from rowlease.model import LeasedRequest, Outcome, Renewal
from rowlease.worker import child
from rowlease.worker import leases as leases_module
from rowlease.worker.leases import Lease, Leases

AT = datetime(2026, 1, 1, tzinfo=UTC)


def request(number: int, seconds: float = 30.0) -> LeasedRequest:
    ends = AT + timedelta(seconds=seconds)
    return LeasedRequest(
        *(number, "default", "add", 0, AT, AT, AT, ends, 1, 1, 5, 0, None, None), payload="{}"
    )


class Clock:
    time = 1000.0

    def __call__(self) -> float:
        return self.time


class Records:
    """A store that answers `renew` as it is told, and remembers how it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[int], timedelta | None, list[bool]]] = []
        self.answers: dict[int, Outcome] = {}
        self.error: Exception | None = None
        self.meanwhile: Any = lambda: None

    def renew(
        self, held: Sequence[Any], *, lease: timedelta | None, started: Sequence[bool]
    ) -> list[Renewal]:
        ids = [one.request_id for one in held]
        self.calls.append((ids, lease, list(started)))
        if self.error:
            raise self.error
        self.meanwhile()
        return [Renewal(one, self.answers.get(one, Outcome.OK), AT) for one in ids]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(leases_module, "now", clock)
    return clock


@pytest.fixture
def store() -> Records:
    return Records()


@pytest.fixture
def heard() -> list[Event]:
    return []


@pytest.fixture
def leases(store: Records, heard: list[Event]) -> Leases:
    events = Events()
    events.subscribe(heard.append)
    return Leases(store, events)  # type: ignore[arg-type]


class Begun:
    def __init__(self) -> None:
        self.told: list[tuple[int, float | None]] = []

    def has_begun(self, number: int) -> bool:
        return number <= 1

    def stop(self, number: int) -> None:
        self.told.append((number, None))

    def prolong(self, number: int, ends: float) -> None:
        self.told.append((number, ends))

    def progress(self, number: int) -> tuple[float, str] | None:
        return None


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome.OK, [(1, 1050.0)]),
        (Outcome.CANCEL_REQUESTED, [(1, 1050.0), (1, None)]),
        (Outcome.LEASE_LOST, [(1, None)]),
    ],
)
def test_a_running_task_hears_what_became_of_its_lease(
    leases: Leases, store: Records, clock: Clock, outcome: Outcome, told: Any
) -> None:
    slot = Begun()
    begun, waiting = (Lease(request(n), 0, None, clock.time) for n in (1, 2))
    for number, lease in enumerate((begun, waiting), 1):
        lease.slot, lease.number = slot, number
    leases.add([begun, waiting])
    store.answers = {1: outcome, 2: outcome}
    clock.time += 20
    leases.renew()
    assert slot.told == told


def test_leases_past_a_third_of_their_time_are_renewed_in_one_call(
    leases: Leases, store: Records, heard: list[Event], clock: Clock
) -> None:
    old = [Lease(request(n), 0, None, clock.time) for n in (1, 2)]
    old[0].slot, old[0].number = Begun(), 1
    old[1].slot, old[1].number = Begun(), 2
    leases.add(old)
    clock.time += 9.9
    leases.add([Lease(request(3), 0, None, clock.time)])
    assert leases.renew() == []
    assert store.calls == []
    clock.time += 0.2
    leases.renew()
    ((ids, length, started),) = store.calls
    assert dict(zip(ids, started, strict=True)) == {1: True, 2: False}
    assert length == timedelta(seconds=30)
    assert heard == [Renewed(2)]
    assert [one.ends for one in old] == [clock.time + 30] * 2


def test_leases_of_different_lengths_keep_them(
    leases: Leases, store: Records, clock: Clock
) -> None:
    leases.add([Lease(request(n, n), 0, None, clock.time) for n in (3, 6)])
    clock.time += 2.5
    leases.renew()
    assert [(ids, length) for ids, length, _ in store.calls] == [
        ([3], timedelta(seconds=3)),
        ([6], timedelta(seconds=6)),
    ]


def test_a_lost_lease_is_told_once_and_renewed_no_more(
    leases: Leases, store: Records, heard: list[Event], clock: Clock
) -> None:
    held = [Lease(request(n), 0, None, clock.time) for n in (1, 2, 3, 4)]
    leases.add(held)
    store.answers = {1: Outcome.LEASE_LOST, 2: Outcome.BUSY, 3: Outcome.CANCEL_REQUESTED}
    clock.time += 15
    assert leases.renew() == [held[0]]
    assert [one.lost for one in held] == [True, False, False, False]
    assert set(heard) == {
        LeaseLost(held[0].request, Outcome.LEASE_LOST),
        CancelRequested(held[2].request),
        Renewed(3),
    }
    assert held[1].ends < clock.time + 30 == held[2].ends
    store.answers = {}
    leases.renew()
    assert store.calls[1][0] == [2]


def test_what_was_finished_meanwhile_is_not_lost(
    leases: Leases, store: Records, heard: list[Event], clock: Clock
) -> None:
    held = Lease(request(1), 0, None, clock.time)
    leases.add([held])
    store.answers = {1: Outcome.REPEAT}
    store.meanwhile = lambda: leases.drop([held])
    clock.time += 15
    assert leases.renew() == []
    assert not held.lost
    assert heard == [Renewed(1)]


def test_a_store_that_is_away_is_asked_again(leases: Leases, store: Records, clock: Clock) -> None:
    leases.add([Lease(request(1), 0, None, clock.time)])
    clock.time += 15
    store.error = StoreUnavailable()
    assert leases.renew() == []
    store.error = None
    leases.renew()
    assert len(store.calls) == 2
    store.error = RoutineError("wrong")
    clock.time += 15
    with pytest.raises(RoutineError):
        leases.renew()


def test_short_leases_are_looked_after_in_time(leases: Leases, store: Records) -> None:
    """With the real clock: an added lease of 0.3 s shortens a sleep of a second."""
    renewed = threading.Event()
    store.meanwhile = renewed.set
    thread = threading.Thread(target=leases.run, args=[lambda lease: None])
    thread.start()
    leases.add([Lease(request(1, 0.3), 0, None, child.now())])
    assert renewed.wait(0.3)
    leases.stop()
    thread.join(5)
    assert not thread.is_alive()
