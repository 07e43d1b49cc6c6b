"""Counts in sentences: one thing is a singular."""

from __future__ import annotations

import pytest

from rowlease.cli.batch import describe_batch
from rowlease.counts import counted
from rowlease.model import BatchState


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 requests"), (1, "1 request"), (1200, "1,200 requests")]
)
def test_only_one_is_a_singular(number: int, text: str) -> None:
    assert counted(number, "request") == text


def test_a_batch_of_one_request() -> None:
    fields = dict.fromkeys(BatchState._fields, 1) | {"batch_id": "May", "finished_time": None}
    text = describe_batch(BatchState(**fields))  # type: ignore[arg-type]
    assert text == "May: 1 request, 1 unfinished; 1 complete, 1 dead letter, 1 cancelled"
