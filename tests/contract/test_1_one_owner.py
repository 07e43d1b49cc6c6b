"""Promise 1: at any moment at most one lease on a request is valid."""

from __future__ import annotations

from rowlease.model import NewRequest, Outcome
from tests.contract.sessions import Clock, Session


def test_a_stale_worker_cannot_complete_a_request_leased_again(
    store: Session, clock: Clock
) -> None:
    store.enqueue_many("default", [NewRequest(kind="a")])
    (first,) = store.dequeue("one", ["default"], 1).requests
    clock.advance(seconds=31)
    (second,) = store.dequeue("two", ["default"], 1).requests
    assert second.lock_token == first.lock_token + 1
    assert store.complete([first]) == [Outcome.LEASE_LOST]
    assert store.complete([second]) == [Outcome.OK]
    assert store.rows("queue_history", "request_id", "locked_by") == [(first.request_id, "two")]
