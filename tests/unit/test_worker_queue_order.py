"""The order in which a claim tries the queues."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlease.errors import ConfigError
from rowlease.worker.claims.queues import QueueOrder


def claim(queues: QueueOrder, waiting: Counter[str], limit: int) -> Counter[str]:
    """Claim as `dequeue` does: each queue is emptied before the next is tried."""
    got: list[str] = []
    for name in queues.order():
        count = min(limit - len(got), waiting[name])
        waiting[name] -= count
        got += [name] * count
    queues.record_claim(got, more_left=len(got) == limit)
    return Counter(got)


def test_a_list_keeps_its_order() -> None:
    queues = QueueOrder(["b", "a"])
    queues.record_claim(["b", "b"], more_left=True)
    assert queues.order() == ["b", "a"]


@given(
    weights=st.dictionaries(st.sampled_from("abcde"), st.integers(1, 1000), min_size=1),
    limit=st.integers(1, 50),
)
def test_each_queue_gets_its_share_while_all_have_requests(
    weights: dict[str, int], limit: int
) -> None:
    queues = QueueOrder(weights)
    got: Counter[str] = Counter()
    for _ in range(300):
        got += claim(queues, Counter(dict.fromkeys(weights, limit)), limit)
    # No queue is ahead of another by more than one claim.
    distances = {name: got[name] / weight for name, weight in weights.items()}
    step = limit / min(weights.values())
    assert max(distances.values()) - min(distances.values()) <= step + 1e-9


def test_a_queue_that_was_empty_does_not_catch_up() -> None:
    queues = QueueOrder({"a": 1, "b": 1})
    waiting = Counter(a=1000)
    for _ in range(10):
        claim(queues, waiting, 10)
    waiting["b"] = 1000
    got: Counter[str] = Counter()
    for _ in range(10):
        got += claim(queues, waiting, 10)
    assert got == {"a": 50, "b": 50}


def test_no_queue_catches_up_after_all_were_empty() -> None:
    queues = QueueOrder({"a": 1, "b": 1})
    claim(queues, Counter(a=7), 10)
    assert queues.order() == ["a", "b"]


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ("default", "a list of different names"),
        ([], "a list of different names"),
        ({}, "a list of different names"),
        (["a", "a"], "a list of different names"),
        ({"a": 0}, "the weight of queue a is 0; it must be 1 to 1000"),
        ({"a": 1001}, "the weight of queue a is 1001; it must be 1 to 1000"),
    ],
)
def test_wrong_queues_are_refused_with_advice(queues: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        QueueOrder(queues)
