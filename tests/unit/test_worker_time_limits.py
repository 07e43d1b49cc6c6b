"""The order of the time limits that depend on each other."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from rowlease.store import deadlines
from rowlease.worker import time_limits
from rowlease.worker.claims import next_claim
from rowlease.worker.host.health_reporter import interval_of

LONGEST_BEAT_PAUSE = time_limits.HEARTBEAT * (1 + time_limits.HEARTBEAT_SPREAD)
#: The routines that check the age of a worker's last call, and the time limit that they use.
SILENCES = {
    "finish/internal/{unknown}.sql": {time_limits.WORKER_GONE},
    "operate/internal/explain_workers.sql": {time_limits.WORKER_GONE, time_limits.CLAIMED_LATELY},
    "dequeue/internal/{held_back}.sql": {time_limits.CLAIMED_LATELY},
}


def test_a_worker_is_silent_after_two_missed_heartbeats_and_dead_later() -> None:
    assert 2 * LONGEST_BEAT_PAUSE < time_limits.WORKER_SILENT
    assert time_limits.HEARTBEAT_ANSWER <= time_limits.HEARTBEAT
    assert time_limits.WORKER_SILENT < time_limits.WORKER_GONE


def test_an_idle_worker_without_notifications_claims_often_enough_to_be_served_first() -> None:
    assert 1.2 * next_claim.POLL_WITHOUT_NOTIFICATIONS < time_limits.CLAIMED_LATELY


def test_a_process_is_stuck_after_several_missed_reports() -> None:
    assert 5 * time_limits.REPORT <= time_limits.REPORT_SILENT
    assert 5 * time_limits.STEP <= time_limits.STALLED
    assert interval_of([]) == time_limits.REPORT


def test_a_call_is_reported_before_its_deadline_and_stuck_only_after() -> None:
    longest = deadlines.deadline_of(
        "maintain", deadlines.CALL
    )  # no other call of a worker takes longer
    assert LONGEST_BEAT_PAUSE < time_limits.CALL_SILENT
    assert (
        timedelta(seconds=time_limits.CALL_SILENT)
        < longest
        < timedelta(seconds=time_limits.CALL_STUCK)
    )


def test_each_wait_for_an_end_is_longer_than_the_wait_inside_it() -> None:
    inside = time_limits.WORKER_SHUTDOWN + time_limits.WORKER_SHUTDOWN + time_limits.SLOTS_SHUTDOWN
    assert inside < time_limits.SUPERVISOR_SHUTDOWN < time_limits.POOL_SHUTDOWN


@pytest.mark.parametrize("lease", [2.0, 30.0, 300.0, 86_400.0])
def test_a_renewal_goes_out_twice_before_the_task_is_killed(lease: float) -> None:
    look = min(time_limits.LONGEST_CHECK_PAUSE, lease / time_limits.CHECKS_PER_LEASE)
    answer = min(
        deadlines.CALL.total_seconds(),
        max(time_limits.RENEW_TIMEOUT_LEAST, lease * time_limits.RENEW_TIMEOUT_SHARE),
    )
    killed = lease - min(time_limits.LEASE_MARGIN, lease * time_limits.LEASE_MARGIN_SHARE)
    first = lease * time_limits.RENEW_AFTER + look
    assert first + answer + look + answer <= killed


@pytest.mark.parametrize(
    "share", [time_limits.RENEW_TIMEOUT_SHARE, time_limits.EXCHANGE_TIMEOUT_SHARE]
)
def test_the_time_limit_of_a_call_leaves_time_of_the_lease(share: float) -> None:
    assert share <= 1 / 2


@pytest.mark.parametrize(
    ("engine", "unknown", "held_back", "pattern"),
    [
        (
            "postgresql",
            "note_unknown",
            "is_held_back",
            r"heartbeat_time > p_now - interval '(\d+) seconds'",
        ),
        (
            "sqlserver",
            "unknown_kinds",
            "dequeue_one",
            r"HeartbeatTime > dateadd\(second, -(\d+), @p_now\)",
        ),
    ],
)
def test_the_routines_have_the_same_time_limits(
    engine: str, unknown: str, held_back: str, pattern: str, repository: Path
) -> None:
    for file, seconds in SILENCES.items():
        path = repository / "sql" / engine / file.format(unknown=unknown, held_back=held_back)
        text = path.read_text(encoding="utf-8")
        assert {float(found) for found in re.findall(pattern, text)} == seconds, file
