"""Which errors of the database a worker tolerates, and which it takes for errors in the data."""

from __future__ import annotations

import pytest

from rowlease.errors import (
    AccessDenied,
    ConfigError,
    InvalidRequest,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
)
from rowlease.worker import calls as module
from rowlease.worker.calls import CallRetryPolicy, ascii_only, is_caused_by_data
from rowlease.worker.timings import REFUSAL_TOLERATED

REFUSED = AccessDenied("no")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock: its last number is the time."""
    times = [0.0]
    monkeypatch.setattr(module, "now", lambda: times[-1])
    return times


def test_a_refusal_is_tolerated_once_a_call_has_succeeded(clock: list[float]) -> None:
    patience = CallRetryPolicy()
    assert not patience.tolerates(REFUSED)
    patience.answered()
    assert patience.tolerates(REFUSED)
    assert CallRetryPolicy(worked=True).tolerates(REFUSED)


def test_a_refusal_is_tolerated_for_a_minute_after_every_success(
    clock: list[float],
) -> None:
    patience = CallRetryPolicy(worked=True)
    for _ in range(3):
        assert patience.tolerates(REFUSED)
        clock.append(clock[-1] + REFUSAL_TOLERATED - 1)
        assert patience.tolerates(REFUSED)
        patience.answered()
    assert patience.tolerates(REFUSED)
    clock.append(clock[-1] + REFUSAL_TOLERATED)
    assert not patience.tolerates(REFUSED)


def test_an_outage_is_tolerated_for_ever(clock: list[float]) -> None:
    patience = CallRetryPolicy()
    for _ in range(3):
        assert patience.tolerates(StoreUnavailable("away"))
        clock.append(clock[-1] + 2 * REFUSAL_TOLERATED)


def test_a_bug_is_not_tolerated() -> None:
    assert not CallRetryPolicy(worked=True).tolerates(ValueError("no"))


@pytest.mark.parametrize(
    ("error", "blamed"),
    [
        (StoreError("no such character"), True),
        (InvalidRequest("not JSON"), True),
        (ValueError("of a driver"), True),
        (StoreUnavailable("away"), False),
        (AccessDenied("no"), False),
        (SchemaMismatch("no"), False),
        (ConfigError("no"), False),
    ],
    ids=repr,
)
def test_only_an_error_that_other_values_may_avoid_is_caused_by_data(
    error: Exception, blamed: bool
) -> None:
    assert is_caused_by_data(error) is blamed


def test_a_text_is_escaped_to_ascii() -> None:
    assert ascii_only("a\0b € \ud800") == "a\\0b \\u20ac \\ud800"
