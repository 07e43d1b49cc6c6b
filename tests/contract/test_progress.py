"""What running requests say of themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlease.errors import RoutineError
from rowlease.model import Failure, Held, LeasedRequest
from tests.contract.sessions import Clock, Session


def test_the_last_report_is_kept_with_its_time(store: Session, clock: Clock) -> None:
    store.put()
    (held,) = store.claim()
    assert store.report_progress([(held, 0.25, "page 1 of 4")]) == 1
    clock.advance(timedelta(seconds=5))
    assert store.report_progress([(held, 0.5, "Seite 2 von 4: früh")]) == 1
    assert store.rows("progress", "request_id", "lock_token", "fraction", "note") == [
        (held.request_id, held.lock_token, 0.5, "Seite 2 von 4: früh")
    ]
    assert store.rows("progress", "reported_time") == [(store.now(),)]


def test_who_has_lost_the_lease_says_nothing_any_more(store: Session, clock: Clock) -> None:
    store.put()
    (late,) = store.claim("late", lease=timedelta(seconds=10))
    clock.advance(timedelta(seconds=11))
    (held,) = store.claim("other")
    assert store.report_progress([(held, 0.1, "again")]) == 1
    assert store.report_progress([(late, 0.9, "nearly done")]) == 0
    assert store.rows("progress", "lock_token", "note") == [(held.lock_token, "again")]


def test_several_are_kept_at_once_and_only_those_that_are_held(store: Session) -> None:
    store.put(count=3)
    one, two, three = store.claim(limit=3)
    store.complete([two])
    answered: list[tuple[Held | LeasedRequest, float, str]] = [
        (three, 1.0, "three"),
        (two, 0.5, "two"),
        (one, 0.0, ""),
        (Held(10**9, 1), 0.5, "none"),
    ]
    assert store.report_progress(answered) == 2
    assert store.rows("progress", "request_id", "note") == [
        (one.request_id, ""),
        (three.request_id, "three"),
    ]
    assert store.report_progress([]) == 0


def test_a_long_note_is_cut(store: Session) -> None:
    store.put()
    (held,) = store.claim()
    store.report_progress([(held, 0.5, "x" * 1000)])
    assert store.rows("progress", "note") == [("x" * 400,)]


@pytest.mark.parametrize("fraction", [-0.01, 1.01])
def test_a_fraction_is_0_to_1(store: Session, fraction: float) -> None:
    store.put()
    (held,) = store.claim()
    with pytest.raises(RoutineError, match="a progress fraction must be from 0 to 1"):
        store.report_progress([(held, fraction, "")])
    assert store.rows("progress", "request_id") == []


def test_maintain_drops_only_progress_that_is_over(store: Session) -> None:
    store.put(count=4)
    done, failed, back, running = store.claim(limit=4)
    store.report_progress([(one, 0.5, "") for one in (done, failed, back, running)])
    store.complete([done])
    store.fail([failed], [Failure("x")])
    store.abandon([back])
    assert len(store.rows("progress", "request_id")) == 4
    store.maintain()
    assert store.rows("progress", "request_id") == [(running.request_id,)]


def test_a_reader_sees_the_progress_of_a_running_request(store: Session, clock: Clock) -> None:
    store.put(2)
    running, ended = store.claim(limit=2, lease=timedelta(seconds=10))
    store.report_progress([(running, 0.5, "half"), (ended, 0.9, "nearly")])
    store.complete([ended])

    def read() -> list[tuple[float | None, str | None]]:
        found = [store.get_request(one.request_id) for one in (running, ended)]
        assert found == [*reversed(store.find_requests().requests)]
        return [(one.progress, one.progress_note) for one in found if one]

    assert read() == [(0.5, "half"), (None, None)]
    clock.advance(timedelta(seconds=11))
    store.claim("other")
    assert read() == [(None, None)] * 2, "another attempt has not reported yet"
