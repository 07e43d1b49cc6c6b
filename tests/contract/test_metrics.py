"""What an exporter and an autoscaler read: `demand`, `metrics` and `metrics_server`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from rowlease.errors import InvalidRequest
from rowlease.model import Failure
from tests.contract.sessions import Clock, PostgresSession, Session


def measured(store: Session, metric: str) -> dict[str, float]:
    return {one.subject: one.value for one in store.metrics() if one.metric == metric}


# -- demand ------------------------------------------------------------------------------------


def test_demand_counts_requests_that_are_ready_or_leased(store: Session) -> None:
    assert store.demand("default") == 0
    store.put(5)
    store.put(delay=timedelta(hours=1))
    first, second, third = store.claim(limit=3)
    assert store.demand("default") == 5
    store.complete([first])
    store.fail([second], [Failure("x", dead=True)])
    assert store.demand("default") == 3
    store.abandon([third])
    assert store.demand("default") == 3


def test_demand_counts_what_only_a_worker_would_notice(store: Session, clock: Clock) -> None:
    """Without a worker nothing makes a due request pending: an autoscaler has to start one."""
    store.put(2, delay=timedelta(minutes=1))
    store.put_schedule("s", "0 * * * *", "a")
    assert store.demand("default") == 1  # a worker has to plan the first firing
    (due,) = store.claim_schedules("one").due
    store.fire_schedule("s", due.lock_token, [], clock.now + timedelta(minutes=5))
    assert store.demand("default") == 0
    clock.advance(minutes=2)
    assert store.demand("default") == 2
    clock.advance(minutes=5)
    assert store.demand("default") == 3
    store.pause_schedule("s")
    assert store.demand("default") == 2


def test_demand_of_a_paused_queue_is_what_runs(store: Session, clock: Clock) -> None:
    store.put(3)
    store.put(delay=timedelta(minutes=1))
    store.put_schedule("s", "0 * * * *", "a")
    store.claim()
    clock.advance(minutes=2)
    store.pause("default")
    assert store.demand("default") == 1


def test_demand_is_at_most_the_limit_in_flight(store: Session) -> None:
    store.configure_queue("default", max_in_flight=2)
    store.put(5)
    store.claim()
    assert store.demand("default") == 2


def test_demand_is_what_may_start_by_the_rate_of_the_queue(store: Session, clock: Clock) -> None:
    """Otherwise an autoscaler starts workers that may claim nothing."""
    store.configure_queue("default", rate="3/10s")
    store.put(5)
    store.put(delay=timedelta(seconds=1))
    assert store.demand("default") == 3
    clock.advance(seconds=2)
    store.complete(store.claim(limit=2))
    assert store.demand("default") == 1
    store.claim()
    assert store.demand("default") == 1  # it runs; no other may start
    clock.advance(seconds=10)
    assert store.demand("default") == 1 + 3
    store.configure_queue("default", rate=None)
    assert store.demand("default") == 1 + 3  # two are pending and one is due


def test_demand_of_one_queue_is_not_that_of_another(store: Session) -> None:
    store.configure_queue("other")
    store.put(2)
    store.put(3, "other")
    assert (store.demand("default"), store.demand("other")) == (2, 3)
    assert measured(store, "demand") == {"default": 2, "other": 3}
    with pytest.raises(InvalidRequest, match='queue "others" does not exist'):
        store.demand("others")


def test_the_name_of_a_queue_may_look_like_markup(store: Session) -> None:
    store.configure_queue("a & b </c>")
    store.put(2, "a & b </c>")
    assert store.demand("a & b </c>") == 2
    assert measured(store, "demand") == {"default": 0, "a & b </c>": 2}


def test_a_due_request_is_counted_up_to_a_thousand(store: Session, clock: Clock) -> None:
    store.fill(1100, status="'Scheduled'")
    clock.advance(seconds=1)
    assert store.demand("default") == 1000


def test_the_scaler_of_the_manifests_gets_the_demand(store: Session, repository: Path) -> None:
    """KEDA reads one number from the first row of its query, and scales by the largest."""
    engine = "postgresql" if isinstance(store, PostgresSession) else "sqlserver"
    manifests = (repository / "deploy" / "kubernetes" / f"{engine}.yaml").read_text()
    (scaled,) = (one for one in yaml.safe_load_all(manifests) if one["kind"] == "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    store.put(3)
    store.claim()
    assert store.execute(trigger["metadata"]["query"]) == [(3,)]


# -- metrics -----------------------------------------------------------------------------------


def test_an_empty_database_has_metrics_of_its_queue_alone(store: Session) -> None:
    assert sorted(store.metrics()) == [("demand", "default", 0), ("overdue_leases", "default", 0)]


def test_a_capacity_is_a_metric_of_queues_that_have_one(store: Session) -> None:
    store.configure_queue("small", capacity=7)
    assert measured(store, "queue_capacity") == {"small": 7}


def test_leases_that_ran_out_are_overdue(store: Session, clock: Clock) -> None:
    store.put(3)
    store.claim(limit=2)
    clock.advance(seconds=29)
    assert measured(store, "overdue_leases") == {"default": 0}
    clock.advance(seconds=1)
    assert measured(store, "overdue_leases") == {"default": 2}


def test_a_schedule_is_late_by_the_time_since_it_was_due(store: Session, clock: Clock) -> None:
    store.put_schedule("s", "0 * * * *", "a")
    assert measured(store, "schedule_late_seconds") == {}  # not planned yet
    (due,) = store.claim_schedules("one").due
    store.fire_schedule("s", due.lock_token, [], clock.now + timedelta(minutes=1))
    assert measured(store, "schedule_late_seconds") == {"s": 0}
    clock.advance(seconds=100)
    assert measured(store, "schedule_late_seconds") == {"s": 40}
    store.pause_schedule("s")
    assert measured(store, "schedule_late_seconds") == {}


def test_loads_in_staging_are_counted_and_the_longest_silence(store: Session, clock: Clock) -> None:
    store.begun("one")
    clock.advance(seconds=70)
    store.begun("two")
    clock.advance(seconds=20)
    store.promote("three", store.begun("three"), 0)
    assert measured(store, "staging_loads") == {"default": 2}
    assert measured(store, "load_silent_seconds") == {"default": 90}


def test_the_server_is_measured(store: Session, another: Callable[[], Session]) -> None:
    another().demand("default")
    found = {one.metric: one.value for one in store.metrics_server()}
    assert 1 <= found["connections"] <= found["max_connections"]


@pytest.mark.only_on("postgresql", why="SQL Server counts others by VIEW SERVER STATE alone")
def test_a_reader_counts_the_connections_of_all_users(
    store: Session, another: Callable[[], Session]
) -> None:
    others = [another() for _ in range(3)]
    with store.acting_as("reader"):
        found = {one.metric: one.value for one in store.metrics_server()}
    assert found["connections"] > len(others)


@pytest.mark.only_on("postgresql", why="SQL Server shows transactions by VIEW SERVER STATE alone")
def test_an_open_snapshot_ages_the_horizon(store: Session, another: Callable[[], Session]) -> None:
    dba = another()
    dba.begin()
    dba.execute("set transaction isolation level repeatable read")
    ((since,),) = dba.execute("select extract(epoch from now())")
    ((now,),) = store.execute("select extract(epoch from clock_timestamp())")
    found = {one.metric: one.value for one in store.metrics_server()}
    dba.rollback()
    assert found["horizon_seconds"] >= float(now) - float(since)


@pytest.mark.only_on("postgresql", why="SQL Server counts no dead rows that a reader may see")
def test_dead_rows_are_those_of_tables_and_not_of_days(store: Session) -> None:
    tables = {one.subject for one in store.metrics_server() if one.metric == "dead_rows"}
    assert {"queue", "queue_depth", "lane", "worker"} <= tables
    assert not [name for name in tables if name.startswith("queue_history_")]
