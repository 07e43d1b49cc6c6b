from __future__ import annotations

import threading

import pytest

from rowlease.errors import AccessDenied, StoreTimeout, StoreUnavailable
from rowlease.events import CallAnswered, CallStuck, Event, Events
from rowlease.worker import calls as module
from rowlease.worker.calls import STUCK_CALL_CHECK_SECONDS, CallMonitor
from rowlease.worker.timings import CALL_SILENT

PATIENCE = 30.0  # seconds; only a failing test waits that long


class Slow:
    """A call that lasts until the test ends it."""

    def __init__(self, calls: CallMonitor, name: str = "maintain") -> None:
        self.calls, self.name = calls, name
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def make(self) -> None:
        with self.calls.during(self.name):
            self.begun.set()
            assert self.may_end.wait(PATIENCE)
            if self.error:
                raise self.error

    def in_thread(self) -> threading.Thread:
        thread = threading.Thread(target=self.make, name="rowlease-housekeeping")
        thread.start()
        assert self.begun.wait(PATIENCE)
        return thread

    def fail(self, error: Exception) -> None:
        self.error = error
        self.may_end.set()
        self.make()


def test_the_call_that_a_thread_waits_for_is_listed() -> None:
    calls = CallMonitor(Events())
    slow = Slow(calls)
    thread = slow.in_thread()
    (call,) = calls.waiting()
    assert call[:2] == ("maintain", "housekeeping")
    slow.may_end.set()
    thread.join(PATIENCE)
    assert calls.waiting() == []


def test_an_unanswered_renewal_is_reported_only_by_its_own_event() -> None:
    emitted: list[Event] = []
    events = Events()
    events.subscribe(emitted.append)
    with pytest.raises(StoreTimeout, match=r"^renew: "):
        Slow(CallMonitor(events), "renew").fail(StoreTimeout("no answer within 1 s"))
    assert emitted == []


def test_the_error_of_an_unanswered_call_names_the_call() -> None:
    calls = CallMonitor(Events())
    with pytest.raises(StoreTimeout, match=r"^maintain: no answer within 1 s$"):
        Slow(calls).fail(StoreTimeout("no answer within 1 s"))
    with pytest.raises(StoreUnavailable, match=r"^away$"):
        Slow(calls).fail(StoreUnavailable("away"))
    assert calls.waiting() == []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock: its last number is the time."""
    times = [100.0]
    monkeypatch.setattr(module, "now", lambda: times[-1])
    return times


@pytest.fixture
def reported() -> list[Event]:
    return []


@pytest.fixture
def calls(reported: list[Event]) -> CallMonitor:
    events = Events()
    events.subscribe(reported.append)
    return CallMonitor(events)


def test_a_stuck_call_is_reported_once_and_so_is_its_answer(
    calls: CallMonitor, reported: list[Event], clock: list[float]
) -> None:
    slow = Slow(calls)
    thread = slow.in_thread()
    clock.append(100.0 + CALL_SILENT)
    calls.check()
    assert reported == []
    for _ in range(3):
        clock.append(clock[-1] + STUCK_CALL_CHECK_SECONDS)
        calls.check()
    stuck = CallStuck("maintain", "housekeeping", CALL_SILENT + STUCK_CALL_CHECK_SECONDS)
    assert reported == [stuck]
    slow.may_end.set()
    thread.join(PATIENCE)
    assert reported == [
        stuck,
        CallAnswered("maintain", "housekeeping", CALL_SILENT + 3 * STUCK_CALL_CHECK_SECONDS),
    ]
    slow.make()
    calls.check()
    assert len(reported) == 2


def test_a_call_past_its_own_deadline_is_reported_once_until_the_database_answers(
    calls: CallMonitor, reported: list[Event], clock: list[float]
) -> None:
    slow, here = Slow(calls), threading.current_thread().name
    for error in (StoreTimeout("late"), StoreTimeout("late"), StoreUnavailable("away")):
        with pytest.raises(StoreUnavailable):
            slow.fail(error)
        clock.append(clock[-1] + 5)
    assert reported == [CallStuck("maintain", here, 0.0)]
    with pytest.raises(AccessDenied):
        slow.fail(AccessDenied("a refusal is an answer"))
    assert reported[1:] == [CallAnswered("maintain", here, 15.0)]


def test_a_call_that_ends_during_the_check_is_not_reported(
    calls: CallMonitor, reported: list[Event], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(calls)
    thread = slow.in_thread()
    seen = calls.waiting()
    slow.may_end.set()
    thread.join(PATIENCE)
    monkeypatch.setattr(calls, "waiting", lambda: seen)
    clock.append(clock[-1] + CALL_SILENT + STUCK_CALL_CHECK_SECONDS)
    calls.check()
    assert reported == []
