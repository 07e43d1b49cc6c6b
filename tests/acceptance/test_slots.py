"""Four slots and ten requests of three priorities: the order in which the requests start.

Source of the scenario: Azure Service Bus's priority queue sample, where a pump passes messages to a
dispatcher with a number of workers.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowlease.events import Finished, Started
from rowlease.model import NewRequest
from rowlease.store import Store
from tests.acceptance.workers import Sql, put, statuses, working

PRIORITIES = [1, 5, 9, 1, 5, 9, 1, 5, 9, 1]


@pytest.fixture
def gates(tmp_path: Path) -> list[Path]:
    """A pipe for each request: its task ends when the test writes to it."""
    paths = [tmp_path / str(place) for place in range(len(PRIORITIES))]
    for path in paths:
        os.mkfifo(path)
    return paths


def test_four_requests_start_and_the_rest_follow_by_priority(
    store: Store, sql: Sql, gates: list[Path]
) -> None:
    gate_of = {
        put(store, {"do": "wait", "gate": str(gate)}, priority=priority)[0]: gate
        for priority, gate in zip(PRIORITIES, gates, strict=True)
    }
    in_order = [
        request_id
        for _, request_id in sorted(
            (-priority, request_id)
            for priority, request_id in zip(PRIORITIES, gate_of, strict=True)
        )
    ]
    with working(store, concurrency=4, prefetch=0) as (_, emitted):
        running = [emitted.first(Started).request.request_id for _ in range(4)]
        assert sorted(running) == sorted(in_order[:4])
        assert statuses(sql) == {"Processing": 4, "Pending": 6}
        for following in in_order[4:]:
            gate_of[running.pop(0)].write_text("through")
            emitted.first(Finished)
            running.append(emitted.first(Started).request.request_id)
            assert running[-1] == following
        for request_id in running:
            gate_of[request_id].write_text("through")
            emitted.first(Finished)
    assert statuses(sql) == {"Complete": 10}


def test_queues_with_weights_get_their_shares(store: Store) -> None:
    for name in ("often", "seldom"):
        store.configure_queue(name)
        store.enqueue_many(name, [NewRequest(kind="act", payload="{}")] * 12)
    queues = {"often": 3, "seldom": 1}
    with working(store, queues=queues, concurrency=1, prefetch=0, burst=True) as (_, emitted):
        order = [emitted.first(Started).request.queue_name for _ in range(24)]
    assert order[:16].count("often") == 12
    assert [order[place : place + 4].count("often") for place in (0, 4, 8)] == [3, 3, 3]
