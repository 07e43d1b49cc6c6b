"""Loads in the lane, as tests write and claim them."""

from __future__ import annotations

from typing import Any

from rowlease.model import LeasedRequest, Outcome
from tests.contract.sessions import Session


def named(*names: str, **columns: Any) -> list[dict[str, Any]]:
    """Rows whose kinds are these."""
    return [{"kind": name, **columns} for name in names]


def promoted(store: Session, load_id: str, *parts: list[dict[str, Any]], **begun: str) -> int:
    """Write a load of some parts and promote it; returns the run's number."""
    run = store.begun(load_id, **begun)
    for place, part in enumerate(parts):
        store.lay(load_id, run, part, place << 16)
    assert store.promote(load_id, run, sum(map(len, parts))).outcome == Outcome.OK
    return run


def kinds(requests: list[LeasedRequest]) -> list[str]:
    return [request.kind for request in requests]


def all_claimed(store: Session, limit: int = 2) -> list[str]:
    """The kinds in the order of claims."""
    found: list[str] = []
    while taken := kinds(store.claim(limit=limit)):
        found += taken
    return found


def waiting(store: Session) -> int:
    return sum(depth.pending for depth in store.depth())


def checks(store: Session) -> None:
    """The counts are those of the rows, wherever they are."""
    assert [each for each in store.diagnose() if each.finding in ("batch", "counts")] == []
    assert store.recount() == []
