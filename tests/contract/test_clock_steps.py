"""The server's clock is set back: queues go on after the next `maintain`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlease.errors import QueueFull
from rowlease.model import NewRequest, Outcome
from tests.contract.sessions import Clock, Session

pytestmark = pytest.mark.parametrize(
    "step", [timedelta(hours=1), timedelta(days=3)], ids=["one hour", "three days"]
)


def beat(store: Session, name: str, priority: int) -> None:
    store.worker_heartbeat(
        name, host="h", pid=1, version="1", queues=["default"], slots=2, busy=0,
        consumer_priority=priority,
    )  # fmt: skip


def test_a_queue_without_a_rate_goes_on_at_once(
    step: timedelta, store: Session, clock: Clock
) -> None:
    store.configure_queue("default", max_in_flight=2)
    before = store.put(2)
    clock.advance(-step)
    after = store.put(2)
    claimed = store.claim(limit=2) + store.claim(limit=2)
    assert {one.request_id for one in claimed} <= {*before, *after}
    store.complete(claimed)
    store.complete(store.claim(limit=2))
    assert sum(each.pending for each in store.depth()) == 0


def test_a_queue_with_a_rate_goes_on(step: timedelta, store: Session, clock: Clock) -> None:
    store.configure_queue("default", rate="5/1s")
    store.put(20)
    assert len(store.claim(limit=20)) == 5
    clock.advance(-step)
    assert store.claim(limit=20) == []
    store.maintain()
    assert len(store.claim(limit=20)) == 5
    assert store.claim(limit=20) == []
    clock.advance(seconds=1.1)
    assert len(store.claim(limit=20)) == 5
    clock.advance(step)  # nothing of the time before the step is left
    assert len(store.claim(limit=20)) == 5


def test_a_group_with_a_rate_goes_on(step: timedelta, store: Session, clock: Clock) -> None:
    store.configure_queue("default", group_rate="1/1s")
    store.put(3, group_key="g")
    store.complete(store.claim(limit=3))
    assert store.claim(limit=3) == []  # it waits for the rate of its group, as Scheduled
    clock.advance(-step)
    store.maintain()
    assert len(store.claim(limit=3)) == 1


def test_starts_of_a_clock_that_goes_on_are_kept(
    step: timedelta, store: Session, clock: Clock
) -> None:
    store.configure_queue("default", rate="5/1m")
    store.put(20)
    assert len(store.claim(limit=20)) == 5
    clock.advance(seconds=-9)  # another session has read the clock earlier
    store.maintain()
    assert store.claim(limit=20) == []


def test_a_dead_worker_does_not_hold_others_back(
    step: timedelta, store: Session, clock: Clock
) -> None:
    beat(store, "dead", priority=5)
    clock.advance(-step)
    beat(store, "low", priority=0)
    store.put()
    assert store.claim("low") == []
    store.maintain()
    clock.advance(seconds=2.1)
    assert len(store.claim("low")) == 1


def test_a_producer_that_is_gone_loses_its_place(
    step: timedelta, store: Session, clock: Clock
) -> None:
    store.configure_queue("default", capacity=1)
    store.put()
    gone = store.enqueue_many("default", [NewRequest(kind="a")], wait=timedelta(minutes=1))
    assert gone[0].outcome is Outcome.FULL
    clock.advance(-step)
    store.complete(store.claim())
    with pytest.raises(QueueFull):
        store.put()
    store.maintain()
    clock.advance(seconds=2.1)
    assert len(store.put()) == 1
