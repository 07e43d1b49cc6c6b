"""The real worker and client keep the promises in each schedule of faults that is tried.

ROWLEASE_SEARCH_STEPS=10000000 tries more, as `python -m tests.search` does.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from rowlease.clock import now
from rowlease.worker.claims.leases import Lease, Leases
from tests.search.episode import Episode

STEPS = int(os.environ.get("ROWLEASE_SEARCH_STEPS", "60000"))
#: Each thing that a database may do wrong, and a promise that the checker finds broken.
BUGS = {
    "outcomes compare no token": "late outcome",
    "tokens stay": "token not larger",
    "a claim takes what is leased": "two owners",
    "receipts are forgotten": "doubled",
    "outcomes are not kept": "outcome lost",
    "effects are kept without an outcome": "effect without an outcome",
}


def failed_renewals_count(leases: Any, error: object, asked_at: float) -> None:
    for lease in leases._held:
        lease.prolong(now() + lease.seconds)
    leases.failing_since = asked_at


#: Each thing that a worker may do wrong with its leases, and what it does then.
OF_LEASES: dict[str, tuple[type, str, Callable[..., object]]] = {
    "a task goes on without its lease": (Lease, "overdue", lambda *_: (None, math.inf)),
    "a renewal that failed counts": (Leases, "_record_failure", failed_renewals_count),
}


@pytest.mark.timeout(0)
def test_no_schedule_breaks_a_promise() -> None:
    steps, seeds = 0, count(1)
    while steps < STEPS:
        episode = Episode(seed := next(seeds))
        assert (seed, episode.run()) == (seed, [])
        steps += episode.world.steps


@pytest.mark.parametrize(("bug", "broken"), BUGS.items())
def test_a_database_that_breaks_a_promise_is_found(bug: str, broken: str) -> None:
    assert any(broken in each for seed in range(1, 200) for each in Episode(seed, bug).run())


@pytest.mark.parametrize("bug", OF_LEASES)
def test_a_worker_that_keeps_a_lease_too_long_is_found(
    bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name, wrong = OF_LEASES[bug]
    monkeypatch.setattr(place, name, wrong)
    assert any(
        "ran twice at once" in each for seed in range(1, 100) for each in Episode(seed).run()
    )


def test_a_schedule_can_be_repeated() -> None:
    one, again = Episode(2), Episode(2)
    assert (one.run(), one.world.steps) == (again.run(), again.world.steps)
    assert one.history.events == again.history.events
