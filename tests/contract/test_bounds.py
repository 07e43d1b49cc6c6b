"""An extreme number in a row, written by hand, stops neither its queue nor the housekeeping."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowlease.model import Failure, NewRequest, Outcome
from tests.contract.sessions import Clock, Session

MANY = 2**30
TOKEN = 2**62


@pytest.mark.parametrize(
    "columns",
    [
        {"lock_token": 2**63 - 1}, {"lock_token": TOKEN}, {"num_attempts": 2**31 - 1},
        {"num_attempts": MANY}, {"num_crashes": MANY}, {"num_abandons": MANY},
    ],
)  # fmt: skip
def test_the_table_refuses_it(columns: dict[str, Any], store: Session) -> None:
    (request,) = store.put()
    with pytest.raises(Exception, match="queue_counts"):
        store.forge("queue", request, **columns)
    assert len(store.claim()) == 1


@pytest.mark.only_on("sqlserver", why="PostgreSQL adds the counts up in a longer number")
@pytest.mark.parametrize("column", ["scheduled", "pending", "num_finished", "num_failures"])
@pytest.mark.parametrize("number", [2**63 - 1, 2**61, -(2**61)])
def test_counts_are_bounded(column: str, number: int, store: Session) -> None:
    with pytest.raises(Exception, match="queue_depth_counts"):
        store.insert("queue_depth", queue_name="default", priority=0, **{column: number})


@pytest.mark.parametrize(
    "columns",
    [
        {"lock_token": TOKEN - 1}, {"num_attempts": MANY - 1}, {"num_crashes": MANY - 1},
        {"num_abandons": MANY - 1},
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["complete", "fail", "abandon", "snooze", "lost", "lost at once"])
def test_a_request_near_a_bound_runs_or_becomes_a_dead_letter(
    columns: dict[str, Any], end: str, store: Session, clock: Clock
) -> None:
    (request,) = store.enqueue_many("default", [NewRequest(kind="a", max_attempts=2**31 - 1)])
    behind = store.put(2)
    assert request.request_id is not None
    store.forge("queue", request.request_id, **columns)
    claimed = store.claim(limit=3)
    assert [one.request_id for one in claimed] == [request.request_id, *behind]
    held = claimed[:1]
    if end == "complete":
        assert store.complete(held) == [Outcome.OK]
    elif end == "fail":
        store.fail(held, [Failure("no", after=timedelta(0))])
    elif end == "abandon":
        assert store.abandon(held) == [Outcome.OK]
    elif end == "snooze":
        assert store.snooze(held, [timedelta(0)]) == [Outcome.OK]
    else:
        if end == "lost":
            store.renew(held, started=[True])
        clock.advance(seconds=31)
    store.maintain()
    clock.advance(hours=2)
    store.maintain()
    assert store.row(request.request_id)["status"] in ("Complete", "Pending", "Failed")
    assert store.depth() == store.counted()
    if store.row(request.request_id)["status"] == "Pending":
        assert request.request_id in [one.request_id for one in store.claim(limit=3)]


def test_totals_near_a_bound_stay_there(store: Session) -> None:
    most = 2**63 - 1 if store.can_notify else 2**61 - 1
    store.insert("queue_depth", queue_name="default", priority=0, num_finished=most)
    store.put(3)
    store.complete(store.claim(limit=3))
    for _ in range(3):  # before the counts are folded, too
        (queue,) = store.list_queues()
        assert queue.num_finished == most
        assert [step.error for step in store.maintain() if step.error] == []


def test_a_schedule_with_an_extreme_token_is_refused(store: Session) -> None:
    with pytest.raises(Exception, match="schedule_lease_is_whole"):
        store.insert(
            "schedule", schedule_name="s", cron="0 * * * *", queue_name="default", kind="a",
            payload="{}", changed_time=store.now(), lock_token=2**63 - 1,
        )  # fmt: skip
