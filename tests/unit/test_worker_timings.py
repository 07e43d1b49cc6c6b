"""The order of the time limits that depend on each other."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from rowlease.model import HEARTBEAT, WORKER_GONE, WORKER_SILENT
from rowlease.store import deadlines
from rowlease.worker import housekeeping, timings
from rowlease.worker.host.health import interval_of

LONGEST_BEAT_PAUSE = HEARTBEAT * (1 + timings.HEARTBEAT_SPREAD)
#: The objects that check the age of a worker's last call, and the time limit that they use.
SILENCES = {
    "views/workers.sql": {WORKER_GONE},
    "operate/internal/explain_workers.sql": {timings.CLAIMED_LATELY},
    "dequeue/internal/{held_back}.sql": {timings.CLAIMED_LATELY},
}


def test_a_worker_is_silent_after_two_missed_heartbeats_and_dead_later() -> None:
    assert 2 * LONGEST_BEAT_PAUSE < WORKER_SILENT
    assert timings.HEARTBEAT_ANSWER <= HEARTBEAT
    assert WORKER_SILENT < WORKER_GONE


def test_an_idle_worker_without_notifications_claims_often_enough_to_be_served_first() -> None:
    assert 1.2 * timings.POLL_WITHOUT_NOTIFICATIONS < timings.CLAIMED_LATELY


def test_a_process_is_stuck_after_several_missed_reports() -> None:
    assert 5 * timings.REPORT <= timings.REPORT_SILENT
    assert 5 * timings.STEP <= timings.STALLED
    assert interval_of([]) == timings.REPORT


def test_a_call_is_reported_before_its_deadline_and_stuck_only_after() -> None:
    longest = deadlines.deadline_of(
        "maintain", deadlines.CALL
    )  # no other call of a worker takes longer
    assert LONGEST_BEAT_PAUSE < timings.CALL_SILENT
    assert timedelta(seconds=timings.CALL_SILENT) < longest < timedelta(seconds=timings.CALL_STUCK)


def test_each_wait_for_an_end_is_longer_than_the_wait_inside_it() -> None:
    inside = timings.WORKER_SHUTDOWN + timings.WORKER_SHUTDOWN + timings.SLOTS_SHUTDOWN
    assert inside < timings.SUPERVISOR_SHUTDOWN < timings.POOL_SHUTDOWN


@pytest.mark.parametrize("lease", [2.0, 30.0, 300.0, 86_400.0])
def test_a_renewal_goes_out_twice_before_the_task_is_killed(lease: float) -> None:
    look = min(timings.LONGEST_CHECK_PAUSE, lease / timings.CHECKS_PER_LEASE)
    answer = min(
        deadlines.CALL.total_seconds(),
        max(timings.RENEW_TIMEOUT_LEAST, lease * timings.RENEW_TIMEOUT_SHARE),
    )
    killed = lease - min(timings.LEASE_MARGIN, lease * timings.LEASE_MARGIN_SHARE)
    first = lease * timings.RENEW_AFTER + look
    assert first + answer + look + answer <= killed


@pytest.mark.parametrize("share", [timings.RENEW_TIMEOUT_SHARE, timings.EXCHANGE_TIMEOUT_SHARE])
def test_the_time_limit_of_a_call_leaves_time_of_the_lease(share: float) -> None:
    assert share <= 1 / 2


@pytest.mark.parametrize(
    ("engine", "held_back", "pattern"),
    [
        (
            "postgresql",
            "is_held_back",
            r"heartbeat_time > \w+\.?now - interval '(\d+) seconds'",
        ),
        (
            "sqlserver",
            "dequeue_queue_carefully",
            r"HeartbeatTime > dateadd\(second, -(\d+), (?:@p_now|n\.Now)\)",
        ),
    ],
)
def test_the_routines_have_the_same_time_limits(
    engine: str, held_back: str, pattern: str, repository: Path
) -> None:
    for path in (repository / "sql" / engine).rglob("*.sql"):
        file = path.relative_to(repository / "sql" / engine).as_posix()
        found = re.findall(pattern, path.read_text(encoding="utf-8"))
        known = {name.format(held_back=held_back): seconds for name, seconds in SILENCES.items()}
        assert {float(each) for each in found} == known.get(file, set()), file


def test_an_idle_worker_begins_few_transactions_a_day() -> None:
    """Each call of housekeeping begins one: see test_maintain.py. A claim that finds nothing
    writes nothing."""
    day = timedelta(days=1).total_seconds()
    pauses = (housekeeping.MAINTAIN_IDLE, HEARTBEAT, housekeeping.SCHEDULE_CHECK_SECONDS)
    assert sum(day / pause for pause in pauses) <= 50_000
