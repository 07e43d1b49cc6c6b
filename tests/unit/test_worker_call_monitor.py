from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from rowlease.errors import AccessDenied, StoreTimeout, StoreUnavailable
from rowlease.events import CallAnswered, CallStuck, Event, Events
from rowlease.worker import call_monitor as module
from rowlease.worker.call_monitor import STUCK_CALL_CHECK_SECONDS, CallMonitor
from rowlease.worker.timings import CALL_SILENT

PATIENCE = 30.0  # seconds; only a failing test waits that long


class Slow:
    """A store and its notifications; each call lasts until the test ends it."""

    where = "here"

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.limits: list[timedelta] = []

    def within(self, timeout: timedelta) -> Slow:
        self.limits.append(timeout)
        return self

    def maintain(self, limit: int) -> int:
        self.begun.set()
        assert self.may_end.wait(PATIENCE)
        if self.error:
            raise self.error
        return limit

    renew = maintain

    def listen(self, queues: list[str], *, room: bool) -> Slow:
        return self


def through(calls: CallMonitor, store: Slow) -> Any:
    this: Any = store
    return calls.through(this)


def test_the_call_that_a_thread_waits_for_is_listed() -> None:
    store, calls, answers = Slow(), CallMonitor(Events()), []
    listener = through(calls, store).within(timedelta(seconds=1)).listen([], room=False)
    for noted, name in ((through(calls, store), "maintain"), (listener, "listen.maintain")):
        store.begun.clear()
        store.may_end.clear()
        thread = threading.Thread(
            target=lambda: answers.append(noted.maintain(7)),  # noqa: B023
            name="rowlease-housekeeping",
        )
        thread.start()
        assert store.begun.wait(PATIENCE)
        (call,) = calls.waiting()
        assert call[:2] == (name, "housekeeping")
        store.may_end.set()
        thread.join(PATIENCE)
        assert calls.waiting() == []
    assert answers == [7, 7]
    assert store.limits == [timedelta(seconds=1)]
    assert through(calls, store).where == "here"


def test_an_unanswered_renewal_is_reported_only_by_its_own_event() -> None:
    emitted: list[Event] = []
    events = Events()
    events.subscribe(emitted.append)
    store = Slow()
    store.may_end.set()
    store.error = StoreTimeout("no answer within 1 s")
    with pytest.raises(StoreTimeout, match=r"^renew: "):
        through(CallMonitor(events), store).renew(1)
    assert emitted == []


def test_the_error_of_an_unanswered_call_names_the_call() -> None:
    store, calls = Slow(), CallMonitor(Events())
    store.may_end.set()
    store.error = StoreTimeout("no answer within 1 s")
    with pytest.raises(StoreTimeout, match=r"^maintain: no answer within 1 s$"):
        through(calls, store).maintain(1)
    store.error = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable, match=r"^away$"):
        through(calls, store).maintain(1)
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
    store = Slow()
    noted = through(calls, store)
    thread = threading.Thread(target=noted.maintain, args=[1], name="rowlease-housekeeping")
    thread.start()
    assert store.begun.wait(PATIENCE)
    clock.append(100.0 + CALL_SILENT)
    calls.check()
    assert reported == []
    for _ in range(3):
        clock.append(clock[-1] + STUCK_CALL_CHECK_SECONDS)
        calls.check()
    stuck = CallStuck("maintain", "housekeeping", CALL_SILENT + STUCK_CALL_CHECK_SECONDS)
    assert reported == [stuck]
    store.may_end.set()
    thread.join(PATIENCE)
    assert reported == [
        stuck,
        CallAnswered("maintain", "housekeeping", CALL_SILENT + 3 * STUCK_CALL_CHECK_SECONDS),
    ]
    noted.maintain(1)
    calls.check()
    assert len(reported) == 2


def test_a_call_past_its_own_deadline_is_reported_once_until_the_database_answers(
    calls: CallMonitor, reported: list[Event], clock: list[float]
) -> None:
    store, here = Slow(), threading.current_thread().name
    noted = through(calls, store)
    store.may_end.set()
    for error in (StoreTimeout("late"), StoreTimeout("late"), StoreUnavailable("away")):
        store.error = error
        with pytest.raises(StoreUnavailable):
            noted.maintain(1)
        clock.append(clock[-1] + 5)
    assert reported == [CallStuck("maintain", here, 0.0)]
    store.error = AccessDenied("a refusal is an answer")
    with pytest.raises(AccessDenied):
        noted.maintain(1)
    assert reported[1:] == [CallAnswered("maintain", here, 15.0)]


def test_a_call_that_ends_during_the_check_is_not_reported(
    calls: CallMonitor, reported: list[Event], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Slow()
    thread = threading.Thread(target=through(calls, store).maintain, args=[1])
    thread.start()
    assert store.begun.wait(PATIENCE)
    seen = calls.waiting()
    store.may_end.set()
    thread.join(PATIENCE)
    monkeypatch.setattr(calls, "waiting", lambda: seen)
    clock.append(clock[-1] + CALL_SILENT + STUCK_CALL_CHECK_SECONDS)
    calls.check()
    assert reported == []
