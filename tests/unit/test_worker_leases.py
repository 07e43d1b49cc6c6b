from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlease.clock import now
from rowlease.errors import AccessDenied, StoreTimeout, StoreUnavailable
from rowlease.events import (
    CancelRequested,
    Event,
    Events,
    LeaseLostEvent,
    RenewalsLost,
    RenewalsRecovered,
    Renewed,
)
from rowlease.model import LeasedRequest, Outcome, Renewal
from rowlease.worker import calls as patience
from rowlease.worker.claims import leases as leases_module
from rowlease.worker.claims.leases import Lease, Leases
from rowlease.worker.timings import REFUSAL_TOLERATED

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
    """A store with scripted answers to `renew`, which records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[int], timedelta | None, list[bool]]] = []
        self.answers: dict[int, Outcome] = {}
        self.error: Exception | None = None
        self.meanwhile: Any = lambda: None
        self.times: list[float] = []

    def within(self, timeout: timedelta) -> Records:
        self.times.append(timeout.total_seconds())
        return self

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
    for module in (leases_module, patience):
        monkeypatch.setattr(module, "now", clock)
    return clock


@pytest.fixture
def store() -> Records:
    return Records()


@pytest.fixture
def emitted() -> list[Event]:
    return []


@pytest.fixture
def leases(store: Records, emitted: list[Event]) -> Leases:
    events = Events()
    events.subscribe(emitted.append)
    return Leases(store, events)  # type: ignore[arg-type]


@pytest.mark.parametrize(("seconds", "margin"), [(1.0, 0.05), (10.0, 0.5), (60.0, 1.0)])
def test_a_task_is_ended_shortly_before_its_lease(seconds: float, margin: float) -> None:
    held = Lease(request(1, seconds), 0, None, claimed_at=100.0)
    why, left = held.overdue(100.0, 100.0)
    assert why is None
    assert left == pytest.approx(seconds - margin)
    why, _ = held.overdue(100.0, 100.0 + seconds - margin + 0.001)
    assert why == leases_module.LEASE_OVER


class Begun:
    def __init__(self) -> None:
        self.reported: list[tuple[int, float | None]] = []

    def has_begun(self, number: int) -> bool:
        return number <= 1

    def stop(self, number: int) -> None:
        self.reported.append((number, None))

    def prolong(self, number: int, ends: float) -> None:
        self.reported.append((number, ends))

    def progress(self, number: int) -> tuple[float, str] | None:
        return None


@pytest.mark.parametrize(
    ("outcome", "reported"),
    [
        (Outcome.OK, [(1, 1050.0)]),
        (Outcome.CANCEL_REQUESTED, [(1, 1050.0), (1, None)]),
        (Outcome.LEASE_LOST, [(1, None)]),
    ],
)
def test_a_running_task_learns_of_a_lost_or_renewed_lease(
    leases: Leases, store: Records, clock: Clock, outcome: Outcome, reported: Any
) -> None:
    slot = Begun()
    begun, waiting = (Lease(request(n), 0, None, clock.time) for n in (1, 2))
    for number, lease in enumerate((begun, waiting), 1):
        lease.runner, lease.number = slot, number
    leases.add([begun, waiting])
    store.answers = {1: outcome, 2: outcome}
    clock.time += 20
    leases.renew()
    assert slot.reported == reported


def test_leases_past_a_third_of_their_time_are_renewed_in_one_call(
    leases: Leases, store: Records, emitted: list[Event], clock: Clock
) -> None:
    old = [Lease(request(n), 0, None, clock.time) for n in (1, 2)]
    old[0].runner, old[0].number = Begun(), 1
    old[1].runner, old[1].number = Begun(), 2
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
    assert emitted == [Renewed(2)]
    assert [one.ends for one in old] == [clock.time + 30] * 2


def test_each_length_of_lease_is_renewed_in_its_own_call(
    leases: Leases, store: Records, clock: Clock
) -> None:
    leases.add([Lease(request(n, n), 0, None, clock.time) for n in (3, 6)])
    clock.time += 2.5
    leases.renew()
    assert [(ids, length) for ids, length, _ in store.calls] == [
        ([3], timedelta(seconds=3)),
        ([6], timedelta(seconds=6)),
    ]


def test_a_lost_lease_is_reported_once_and_not_renewed_again(
    leases: Leases, store: Records, emitted: list[Event], clock: Clock
) -> None:
    held = [Lease(request(n), 0, None, clock.time) for n in (1, 2, 3, 4)]
    leases.add(held)
    store.answers = {1: Outcome.LEASE_LOST, 2: Outcome.BUSY, 3: Outcome.CANCEL_REQUESTED}
    clock.time += 15
    assert leases.renew() == [held[0]]
    assert [one.lost for one in held] == [True, False, False, False]
    assert set(emitted) == {
        LeaseLostEvent(held[0].request, Outcome.LEASE_LOST),
        CancelRequested(held[2].request),
        Renewed(3),
    }
    assert held[1].ends < clock.time + 30 == held[2].ends
    store.answers = {}
    leases.renew()
    assert store.calls[1][0] == [2]


def test_a_lease_whose_request_finished_meanwhile_is_not_lost(
    leases: Leases, store: Records, emitted: list[Event], clock: Clock
) -> None:
    held = Lease(request(1), 0, None, clock.time)
    leases.add([held])
    store.answers = {1: Outcome.REPEAT}
    store.meanwhile = lambda: leases.drop([held])
    clock.time += 15
    assert leases.renew() == []
    assert not held.lost
    assert emitted == [Renewed(1)]


def test_a_lease_whose_task_completed_the_request_is_neither_lost_nor_renewed(
    leases: Leases, store: Records, emitted: list[Event], clock: Clock
) -> None:
    held = Lease(request(1), 0, None, clock.time)
    slot = Begun()
    held.runner, held.number = slot, 1
    leases.add([held])
    store.answers = {1: Outcome.REPEAT}
    clock.time += 15
    assert leases.renew() == []
    assert slot.reported == [(1, math.inf)]
    assert emitted == [Renewed(1)]
    clock.time += 1000
    assert leases.renew() == []
    assert len(store.calls) == 1
    assert held.overdue(clock.time - 1000, clock.time) == (None, math.inf)


def test_a_renewal_that_fails_in_an_outage_is_repeated(
    leases: Leases, store: Records, clock: Clock
) -> None:
    leases.add([Lease(request(1), 0, None, clock.time)])
    clock.time += 15
    store.error = StoreUnavailable()
    assert leases.renew() == []
    store.error = None
    leases.renew()
    assert len(store.calls) == 2


def failing_since(leases: Leases) -> float | None:
    return leases.failing_since


def test_failing_renewals_are_reported_once_and_repeated_until_they_succeed(
    leases: Leases, store: Records, emitted: list[Event], clock: Clock
) -> None:
    held = [Lease(request(n, n), 0, None, clock.time) for n in (6, 12)]
    leases.add(held)
    clock.time += 5
    store.error = StoreTimeout("renew: no answer")
    began = datetime.now(UTC)
    for _ in range(3):
        leases.renew()
        assert failing_since(leases) == 1005.0
        clock.time += 0.1
    (lost,) = emitted
    assert isinstance(lost, RenewalsLost)
    assert (lost.call, lost.error) == ("renew", "renew: no answer")
    assert abs(lost.since - began) < timedelta(seconds=5)
    # After the first failure the other lengths of lease are not tried.
    assert [ids for ids, _, _ in store.calls] == [[6]] * 3
    leases.drop(held)  # as if the tasks had been ended
    leases.renew()
    assert failing_since(leases) == 1005.0
    store.error = None
    clock.time += 0.7
    leases.renew()
    assert store.calls[-1][0] == []
    assert failing_since(leases) is None
    assert emitted[1:] == [RenewalsRecovered(pytest.approx(1.0))]  # type: ignore[arg-type]
    assert len(store.calls) == 5
    leases.renew()
    assert len(store.calls) == 5


@pytest.mark.parametrize(
    ("lease", "answer"), [(0.3, 0.25), (6.0, 1.0), (30.0, 5.0), (86_400.0, 30.0)]
)
def test_a_renewal_may_take_a_sixth_of_the_shortest_lease(
    leases: Leases, store: Records, clock: Clock, lease: float, answer: float
) -> None:
    leases.add([Lease(request(1, 86_400), 0, None, clock.time)])
    leases.add([Lease(request(2, lease), 0, None, clock.time)])
    clock.time += 86_400 / 2
    leases.renew()
    assert store.times[0] == pytest.approx(answer)


def test_a_refusal_is_tolerated_for_a_minute(leases: Leases, store: Records, clock: Clock) -> None:
    leases.add([Lease(request(1, 600), 0, None, clock.time)])
    clock.time += 300
    store.error = AccessDenied("revoked")
    leases.renew()
    clock.time += REFUSAL_TOLERATED - 1
    leases.renew()
    clock.time += 1
    with pytest.raises(AccessDenied):
        leases.renew()


@pytest.mark.parametrize(("named", "renewed"), [([2, 9], [2]), (None, [1, 2]), ([9], [])])
def test_leases_that_are_to_be_checked_are_renewed_at_once(
    leases: Leases, store: Records, named: list[int] | None, renewed: list[int]
) -> None:
    leases.add([Lease(request(number), 0, None, claimed_at=now()) for number in (1, 2)])
    leases.check(named)
    leases.renew()
    assert [sorted(ids) for ids, _, _ in store.calls] == ([renewed] if renewed else [])
    leases.renew()
    assert len(store.calls) <= 1


def test_a_check_that_fails_is_repeated(leases: Leases, store: Records) -> None:
    leases.add([Lease(request(number), 0, None, claimed_at=now()) for number in (1, 2)])
    leases.check(None)
    store.error = StoreUnavailable()
    leases.renew()
    store.error = None
    leases.renew()
    assert [sorted(ids) for ids, _, _ in store.calls] == [[1, 2]] * 2
    leases.renew()
    assert len(store.calls) == 2


def test_a_check_of_a_row_that_is_locked_is_repeated(leases: Leases, store: Records) -> None:
    """The notification of a cancel may be read before the row of the request is unlocked."""
    leases.add([Lease(request(number), 0, None, claimed_at=now()) for number in (1, 2)])
    store.answers[1] = Outcome.BUSY
    leases.check([1])
    leases.renew()
    store.answers[1] = Outcome.CANCEL_REQUESTED
    leases.renew()
    leases.renew()
    assert [ids for ids, _, _ in store.calls] == [[1], [1]]


def test_a_locked_row_is_asked_for_again_within_a_part_of_a_second(
    leases: Leases, store: Records
) -> None:
    """With the real clock: the pause between two checks is a second."""
    cancelled = threading.Event()
    leases.add([Lease(request(1), 0, None, claimed_at=now())])
    store.answers[1] = Outcome.BUSY
    store.meanwhile = lambda: store.answers.update(
        {1: Outcome.CANCEL_REQUESTED if len(store.calls) > 1 else Outcome.BUSY}
    )
    leases.check([1])
    arguments = [print, lambda *_: cancelled.set(), print]
    thread = threading.Thread(target=leases.run, args=arguments)
    thread.start()
    is_heard = cancelled.wait(0.9)
    leases.stop()
    thread.join(5)
    assert is_heard


def test_a_cancel_that_is_heard_before_the_claim_returns_is_kept(
    leases: Leases, store: Records
) -> None:
    leases.check([7, 2])
    leases.add([Lease(request(number), 0, None, claimed_at=now()) for number in (1, 2)])
    leases.renew()
    leases.renew()
    assert [ids for ids, _, _ in store.calls] == [[2]]


def test_a_short_lease_is_checked_in_time(leases: Leases, store: Records) -> None:
    """With the real clock: a new lease of 0.3 s shortens a pause of one second."""
    renewed = threading.Event()
    store.meanwhile = renewed.set
    thread = threading.Thread(target=leases.run, args=[print, print, print])
    thread.start()
    leases.add([Lease(request(1, 0.3), 0, None, now())])
    assert renewed.wait(0.3)
    leases.stop()
    thread.join(5)
    assert not thread.is_alive()
