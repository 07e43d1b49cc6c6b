"""Rates: in no period do more requests start than a queue, or a group, allows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowlease.errors import InvalidRequest
from tests.contract.sessions import Clock, Session

Another = Callable[[], Session]
SECOND = timedelta(seconds=1)


def claimed(store: Session, limit: int = 100, queue: str = "default") -> list[int]:
    return [one.request_id for one in store.dequeue("one", [queue], limit).requests]


def alive(store: Session) -> None:
    store.worker_heartbeat("one", host="h", pid=1, version="0", queues=["default"], slots=1, busy=0)


def starts(store: Session) -> list[tuple[datetime, str | None]]:
    rows = store.rows("requests", "locked_time", "group_key")
    return sorted((row for row in rows if row[0]), key=lambda row: row[0])


def most_in(period: timedelta, times: list[datetime]) -> int:
    """The largest number of starts in any period of this length."""
    return max((sum(t <= u < t + period for u in times) for t in times), default=0)


def test_no_more_start_in_a_period_than_the_queue_allows(store: Session, clock: Clock) -> None:
    store.configure_queue("default", rate="3/10s")
    store.put(8)
    assert len(claimed(store, 2)) == 2
    clock.advance(seconds=4)
    assert len(claimed(store)) == 1
    assert claimed(store) == []
    clock.advance(seconds=5.999)
    assert claimed(store) == []
    clock.advance(seconds=0.001)
    assert len(claimed(store)) == 2
    clock.advance(seconds=4)
    assert len(claimed(store)) == 1
    assert store.counted() == store.depth()


@pytest.mark.only_on("postgresql", why="its tables can be locked against writers alone")
def test_a_period_begins_when_the_row_of_a_delayed_claim_is_written(
    store: Session, another: Another
) -> None:
    dba, worker = another(), another()
    for session in (store, dba, worker):
        session.freeze(None)
    store.configure_queue("default", rate="1/1h")
    store.put()
    dba.begin()
    dba.execute("lock table rowlease.queue in share mode")
    delayed = worker.waiting(lambda: worker.claim())
    dba.commit()
    (held,) = delayed.result()
    ((started,),) = store.rows("rate_start", "started_time")
    assert started >= held.locked_time


def test_a_claim_waits_until_the_next_start_is_permitted(store: Session, clock: Clock) -> None:
    store.configure_queue("default", rate="2/10s", lease_seconds=3600)
    store.put(5)
    first = store.dequeue("one", ["default"], 1)
    assert first.more
    clock.advance(seconds=4)
    second = store.dequeue("one", ["default"], 5)
    assert (len(second.requests), second.more, second.wait) == (1, False, 6 * SECOND)
    clock.advance(seconds=1)
    empty = store.dequeue("one", ["default"], 5)
    assert (empty.requests, empty.more, empty.wait) == ([], False, 5 * SECOND)
    clock.advance(seconds=5)
    assert len(claimed(store)) == 1


def test_all_starts_of_a_period_at_once_are_permitted_again_after_it(
    store: Session, clock: Clock
) -> None:
    store.configure_queue("default", rate="3/1m", lease_seconds=3600)
    store.put(9)
    claim = store.dequeue("one", ["default"], 5)
    assert (len(claim.requests), claim.wait) == (3, 60 * SECOND)


def test_other_queues_continue(store: Session, clock: Clock) -> None:
    store.configure_queue("slow", rate="1/1h")
    store.put(3, queue="slow")
    store.put(3)
    taken = store.dequeue("one", ["slow", "default"], 10).requests
    assert [one.queue_name for one in taken] == ["slow"] + ["default"] * 3
    store.put(3)
    assert len(store.dequeue("one", ["slow", "default"], 10).requests) == 3


def test_nothing_of_a_queue_with_a_rate_is_prefetched(store: Session) -> None:
    store.configure_queue("default", rate="100/1s")
    store.put(9)
    assert len(store.dequeue("one", ["default"], 9, slots=2).requests) == 2
    assert store.dequeue("one", ["default"], 9, slots=0).requests == []


def test_each_claim_is_a_start(store: Session, clock: Clock) -> None:
    """A retry, too, and a request that was abandoned: its task may have begun."""
    store.configure_queue("default", rate="2/10s")
    store.put()
    store.abandon(store.claim())
    store.abandon(store.claim())
    assert store.claim() == []


def test_a_rolled_back_claim_is_no_start(store: Session) -> None:
    store.configure_queue("default", rate="1/1h")
    store.put(2)
    store.begin()
    assert len(claimed(store)) == 1
    store.rollback()
    assert len(claimed(store)) == 1
    assert claimed(store) == []


def test_two_claims_do_not_share_the_last_start(store: Session, another: Another) -> None:
    store.configure_queue("default", rate="2/1h")
    store.put(4)
    one = another()
    one.begin()
    assert len(one.claim("one", limit=2)) == 2
    second = store.waiting(lambda: store.claim("two", limit=2))
    one.commit()
    assert second.result() == []


def test_a_group_starts_no_more_often_than_its_rate(store: Session, clock: Clock) -> None:
    store.configure_queue("default", group_rate="1/10s", lease_seconds=3600)
    a1, a2 = store.put(2, group_key="a")
    (b1,) = store.put(group_key="b")
    (plain,) = store.put()
    held = store.claim(limit=9)
    assert [one.request_id for one in held] == [a1, b1, plain]
    store.complete(held)
    clock.advance(seconds=4)
    claim = store.dequeue("one", ["default"], 9)
    assert (claim.requests, claim.wait) == ([], 6 * SECOND)
    assert store.row(a2)["status"] == "Scheduled"
    assert store.counted() == store.depth()
    (c1,) = store.put(group_key="c")
    assert claimed(store) == [c1]
    clock.advance(seconds=6)
    assert claimed(store) == [a2]


def test_a_request_behind_another_of_its_group_is_blocked_and_not_delayed(
    store: Session, clock: Clock
) -> None:
    """Otherwise all requests of a group would become due in each period."""
    store.configure_queue("default", group_rate="1/10s")
    store.put(group_key="a")
    store.claim()
    (second,) = store.put(group_key="a")
    assert store.claim() == []
    row = store.row(second)
    assert (row["status"], row["group_blocked"]) == ("Pending", True)


def test_a_group_keeps_its_order_behind_its_rate(store: Session, clock: Clock) -> None:
    store.configure_queue("default", group_rate="2/10s")
    ids = store.put(5, group_key="a")
    order = []
    for _ in range(40):
        for held in store.claim(limit=9):
            order.append((held.request_id, clock.now))
            store.complete([held])
        clock.advance(seconds=1)
    assert [id for id, _ in order] == ids
    assert most_in(10 * SECOND, [at for _, at in order]) == 2


def test_a_group_that_waits_for_its_rate_continues_when_the_rate_is_changed(
    store: Session, clock: Clock
) -> None:
    store.configure_queue("default", group_rate="1/1d")
    _, second, third = store.put(3, group_key="a")
    (later,) = store.put(group_key="b", delay=timedelta(hours=1))
    store.complete(store.claim())
    assert store.claim() == []
    store.configure_queue("default", group_rate="2/1d")
    (held,) = store.claim()
    assert held.request_id == second
    store.complete([held])
    assert store.claim() == []
    store.configure_queue("default", group_rate=None)
    assert claimed(store) == [third]
    assert store.row(later)["status"] == "Scheduled"


def test_explain_says_when_the_rate_permits_the_next_start(store: Session, clock: Clock) -> None:
    store.configure_queue("default", rate="1/1h", group_rate="1/1d")
    first, second = store.put(2, group_key="a")
    (third,) = store.put()
    alive(store)
    assert store.explain(first).reason == "next"
    store.complete(store.claim(limit=3))
    reason, message = store.explain(third)
    assert reason == "rate"
    assert message.startswith("the queue allows 1/1h starts; the next start is possible at ")
    clock.advance(hours=1)
    alive(store)
    assert claimed(store) == [third]
    reason, message = store.explain(second)
    assert reason == "rate"
    assert message.startswith('the queue allows 1/1d starts of a group, and the group "a" has used')


def test_maintain_forgets_starts_that_have_left_their_period(store: Session, clock: Clock) -> None:
    store.configure_queue("default", rate="5/10s", lease_seconds=3600)
    store.put(9)
    for _ in range(3):
        store.claim()
        clock.advance(seconds=4)
    clock.advance(seconds=9)  # a start is kept for 10 s after its period
    store.maintain()
    assert len(store.rows("rate_start", "total")) == 2
    assert len(claimed(store)) == 5
    clock.advance(seconds=30)
    store.maintain()
    assert store.rows("rate_start", "total") == []
    assert len(claimed(store)) == 1


def test_a_clock_that_is_set_back_permits_no_more_starts(store: Session, clock: Clock) -> None:
    store.configure_queue("default", rate="3/10s", lease_seconds=3600)
    store.put(9)
    assert len(claimed(store, 1)) == 1
    clock.advance(seconds=-100)
    assert len(claimed(store)) == 2
    clock.advance(seconds=100)
    assert claimed(store) == []
    clock.advance(seconds=10)
    assert len(claimed(store)) == 3


@pytest.mark.parametrize("rate", ["1/9999d", "9999999/99999h"])
def test_the_longest_period_permits_claims(store: Session, rate: str) -> None:
    store.configure_queue("default", rate=rate, group_rate=rate)
    store.put(2, group_key="g")
    assert len(claimed(store)) == 1


@pytest.mark.parametrize(
    "rate",
    [
        "",
        "0/1m",
        "5",
        "5/m",
        "5/1w",
        "1.5/1s",
        "-1/1m",
        "5/0s",
        "1/1m; drop",
        "9999999999/1s",
        "1/10000d",
    ],
)
def test_a_rate_that_cannot_be_read_is_refused(store: Session, rate: str) -> None:
    with pytest.raises(InvalidRequest, match="out of range"):
        store.configure_queue("default", rate=rate)
    with pytest.raises(InvalidRequest, match="out of range"):
        store.configure_queue("default", group_rate=rate)


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("7s", 7 * SECOND),
        ("2m", timedelta(minutes=2)),
        ("3h", timedelta(hours=3)),
        ("1d", timedelta(days=1)),
    ],
)
def test_a_period_has_a_unit(store: Session, clock: Clock, text: str, period: timedelta) -> None:
    store.configure_queue("default", rate=f"1/{text}", lease_seconds=86_400)
    assert store.show_queue("default")["rate"] == f"1/{text}"
    store.put(2)
    assert store.dequeue("one", ["default"], 2).wait == period
    clock.advance(period - timedelta(milliseconds=1))
    assert claimed(store) == []
    clock.advance(milliseconds=1)
    assert len(claimed(store)) == 1


steps = st.lists(
    st.tuples(
        st.sampled_from(["claim", "claim", "put", "maintain", "change"]),
        st.integers(1, 4),
        st.sampled_from([0, 0.001, 0.5, 1, 1.5, 3, 3.001]),
        st.sampled_from([None, None, "a", "b"]),
    ),
    min_size=4,
    max_size=30,
)


def test_in_no_period_do_more_start_than_the_rates_allow(store: Session, clock: Clock) -> None:
    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=steps, rate=st.integers(1, 4), group_rate=st.integers(1, 2))
    def check(steps: list[tuple[str, int, float, Any]], rate: int, group_rate: int) -> None:
        store.reset()
        store.configure_queue("default", rate=f"{rate}/3s", group_rate=f"{group_rate}/1s")
        started: list[tuple[datetime, str | None]] = []
        for what, number, seconds, group in steps:
            if what == "put":
                store.put(number, group_key=group)
            elif what == "claim":
                held = store.claim(limit=number)
                started += [(one.locked_time, one.group_key) for one in held]
                store.complete(held)
            elif what == "maintain":
                store.maintain()
            else:  # a change that has no effect on what is permitted
                store.configure_queue("default", max_attempts=number)
            clock.advance(seconds=seconds)
        assert most_in(3 * SECOND, [at for at, _ in started]) <= rate
        for name in ("a", "b"):
            assert most_in(SECOND, [at for at, key in started if key == name]) <= group_rate
        assert store.counted() == store.depth()
        for _ in range(len(store.rows("queue", "request_id"))):  # and everything starts in the end
            clock.advance(seconds=3)
            store.complete(store.claim(limit=9))
        assert store.depth() == []

    check()


def test_a_claim_that_has_read_the_clock_before_maintain_sees_the_start(
    store: Session, clock: Clock
) -> None:
    store.configure_queue("default", rate="1/1s")
    store.put(2)
    assert len(store.claim()) == 1
    clock.advance(seconds=1.1)
    store.maintain()
    clock.advance(seconds=-0.2)  # the claim has waited for the gate for so long
    assert store.claim() == []
