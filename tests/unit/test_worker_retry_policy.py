"""What a worker bears of its database, and what it blames on what it has sent."""

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
from rowlease.worker import retry_policy as module
from rowlease.worker.retry_policy import RetryPolicy, ascii_only, is_caused_by_data
from rowlease.worker.times import REFUSAL_TOLERATED

REFUSED = AccessDenied("no")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Its last number is the time."""
    times = [0.0]
    monkeypatch.setattr(module, "now", lambda: times[-1])
    return times


def test_a_refusal_is_borne_once_the_database_has_answered(clock: list[float]) -> None:
    patience = RetryPolicy()
    assert not patience.tolerates(REFUSED)
    patience.answered()
    assert patience.tolerates(REFUSED)
    assert RetryPolicy(worked=True).tolerates(REFUSED)


def test_a_refusal_is_borne_for_a_minute_and_every_answer_begins_another(
    clock: list[float],
) -> None:
    patience = RetryPolicy(worked=True)
    for _ in range(3):
        assert patience.tolerates(REFUSED)
        clock.append(clock[-1] + REFUSAL_TOLERATED - 1)
        assert patience.tolerates(REFUSED)
        patience.answered()
    assert patience.tolerates(REFUSED)
    clock.append(clock[-1] + REFUSAL_TOLERATED)
    assert not patience.tolerates(REFUSED)


def test_a_database_that_is_away_is_borne_for_ever(clock: list[float]) -> None:
    patience = RetryPolicy()
    for _ in range(3):
        assert patience.tolerates(StoreUnavailable("away"))
        clock.append(clock[-1] + 2 * REFUSAL_TOLERATED)


def test_a_mistake_of_our_own_is_not_borne() -> None:
    assert not RetryPolicy(worked=True).tolerates(ValueError("no"))


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
def test_only_what_other_values_would_mend_is_blamed_on_the_values(
    error: Exception, blamed: bool
) -> None:
    assert is_caused_by_data(error) is blamed


def test_a_text_is_plain_when_every_database_holds_it() -> None:
    assert ascii_only("a\0b € \ud800") == "a\\0b \\u20ac \\ud800"
