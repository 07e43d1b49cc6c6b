"""The parts of a pool: on this machine, with tasks that travel as a file, and with its counters."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rowlease import task
from rowlease.errors import ConfigError, RowleaseError
from rowlease.model import Failure
from rowlease.spark import work
from rowlease.spark.executor_worker import Plan, SparkDriver, places, run
from rowlease.spark.executors import executors_of
from rowlease.spark.pool_job import reason
from rowlease.spark.pool_monitor import PoolMonitor, PoolProgress
from rowlease.store import Store
from rowlease.testing import frozen
from rowlease.worker import Summary
from rowlease.worker.settings import WorkerSettings

Sql = Callable[..., list[tuple[Any, ...]]]


@task
def known() -> None:
    """A task of a module."""


def plan(dsn: str) -> Plan:
    settings = WorkerSettings(queues=["default"])
    return Plan("spark:test", dsn, "nowhere", count=1, cores=1, settings=settings, late=0.0)


def beat(store: Store, worker_id: str, **others: int) -> None:
    given: dict[str, Any] = {"pid": 1, "slots": 0, "busy": 0, **others}
    store.worker_heartbeat(worker_id, host="h", version="v", queues=[], **given)


def test_on_this_machine_a_pool_is_one_worker(
    spark: Any, dsn: str, sql: Sql, tmp_path: Path
) -> None:
    # A name of its own: Spark keeps what it has once shipped.
    file = tmp_path / "tasks_that_travel.py"
    shutil.copy(Path(__file__).parent / "pool_tasks.py", file)
    spark.sparkContext.addPyFile(str(file))
    sql("select rowlease.enqueue('default', 'nap') from generate_series(1, 20)")
    reported: list[PoolProgress] = []
    group = "spark.jobGroup.id"
    before = spark.sparkContext.getLocalProperty(group)
    summary = work(spark, "tasks_that_travel:nap", dsn=dsn, progress=reported.append)
    assert (summary.finished, summary.slots) == (20, 2)
    assert sql("select count(distinct locked_by) from rowlease.queue_history") == [(1,)]
    assert sql("select count(*) from rowlease.worker") == [(0,)]
    assert spark.sparkContext.getLocalProperty(group) == before


def test_a_pool_without_a_database_is_an_error(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROWLEASE_DSN", "ROWLEASE_DSN_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="no database: pass dsn="):
        work(spark, [known])


def test_tasks_travel_by_name() -> None:
    assert places("a.b:c") == "a.b:c"
    assert places(known) == ((__name__, "known", "known"),)

    @task
    def local() -> None: ...

    with pytest.raises(ConfigError, match="is in the script itself, which executors cannot import"):
        places([local])


def test_a_plan_does_not_show_its_password() -> None:
    assert "s3cret" not in repr(plan("postgresql://a:s3cret@h/d"))


def test_executors_are_counted_once_there_are_some(spark: Any) -> None:
    sc = spark.sparkContext
    assert executors_of(sc, None) == executors_of(sc, 5) == (1, 2, False)
    with pytest.raises(ConfigError, match="executors is 0"):
        executors_of(sc, 0)


def test_executors_work_while_the_driver_is_there(dsn: str, store: Store, sql: Sql) -> None:
    driver = SparkDriver(store, plan(dsn))
    assert not driver.is_there()
    beat(store, "spark:test")
    assert driver.is_there()
    store.remove_worker("spark:test")
    assert not driver.is_there()


def test_a_driver_that_was_silent_for_long_before_the_executor_looked_has_time_to_beat(
    dsn: str, store: Store, sql: Sql
) -> None:
    beat(store, "spark:test")
    sql("update rowlease.worker set heartbeat_time = heartbeat_time - interval '10 min'")
    assert SparkDriver(store, plan(dsn)).is_there(), "30 s of our own clock must have passed, too"


def test_an_executor_that_comes_when_the_pool_is_over_leases_nothing(dsn: str, sql: Sql) -> None:
    sql("select rowlease.enqueue('default', 'nap')")
    assert list(run(plan(dsn), 0, iter(()))) == []
    assert sql("select num_attempts from rowlease.queue") == [(0,)]


def test_an_error_of_an_executor_reaches_the_driver(dsn: str, store: Store) -> None:
    beat(store, "spark:test")
    (error,) = run(plan(dsn), 0, iter(()))
    assert isinstance(error, ConfigError)
    assert "on the executor at " in str(error)
    assert "there is no module 'nowhere'" in str(error)


def test_drained_is_nothing_pending_and_nothing_leased(dsn: str, store: Store, sql: Sql) -> None:
    store.configure_queue("other")
    observer = PoolMonitor(store, ["default"], "spark:test:")
    assert not observer.is_drained(), "a second call must find the same"
    assert observer.is_drained()
    sql("select rowlease.enqueue('other', 'k')")
    sql("select rowlease.enqueue('default', 'k', p_delay_ms => 3600000)")
    assert observer.is_drained(), "what is scheduled, or in another queue, is not waited for"
    sql("select rowlease.enqueue('default', 'k')")
    assert not observer.is_drained()
    store.pause("default")
    assert not observer.is_drained()
    assert observer.is_drained()
    store.resume("default")
    claim = store.dequeue("w", ["default"], 1)
    assert not observer.is_drained()
    store.fail(claim.requests, [Failure("x", timedelta(hours=1))])
    assert not observer.is_drained()
    assert observer.is_drained()


def test_a_pool_is_not_drained_while_a_request_is_due(store: Store, sql: Sql) -> None:
    observer = PoolMonitor(store, ["default"], "spark:test:")
    with frozen(store) as clock:
        sql("select rowlease.enqueue('default', 'k', p_delay_ms => 10000)")
        clock.advance(seconds=10)
        assert not observer.is_drained()
        assert not observer.is_drained(), "it is pending by now"
        assert store.depth()[0].pending == 1


def test_progress_counts_the_queues_and_the_pools_own_workers(
    dsn: str, store: Store, sql: Sql
) -> None:
    sql("select rowlease.enqueue('default', 'k') from generate_series(1, 10)")
    observer = PoolMonitor(store, ["default"], "spark:test:")
    for name, busy in (("spark:test:0:h", 2), ("spark:test:1:h", 3), ("another", 4)):
        beat(store, name, slots=4, busy=busy)
    claim = store.dequeue("w", ["default"], 4)
    store.complete(claim.requests[:2])
    store.fail(claim.requests[2:3], [Failure("x", None, dead=True)])
    found = observer.progress()
    assert found._replace(seconds=0.0, rate=0.0) == PoolProgress(0.0, 2, 1, 0.0, 6, 1, 8, 5)
    assert found.rate > 0
    assert str(found._replace(rate=1234.5)) == (
        "2 finished (1,234/s), 1 failed, 6 waiting, 1 leased, 8 slots"
    )


def test_the_reason_of_a_failed_job_is_one_line(spark: Any) -> None:
    def fails(_: Any) -> Any:
        raise ValueError("as asked")

    for rdd, printed in (
        (spark.sparkContext.parallelize([1]).map(fails), "ValueError: as asked"),
        (
            spark.sparkContext.parallelize([1]).map(lambda _: os._exit(3)),
            "Job aborted due to stage",
        ),
    ):
        with pytest.raises(Exception) as raised:  # noqa: PT011 -- whatever PySpark makes of it
            rdd.collect()
        assert reason(raised.value).startswith(printed)
        assert "\n" not in reason(raised.value)
    assert reason(RowleaseError("x")) == "x"


def test_nothing_done_is_a_summary_of_zeros() -> None:
    assert Summary.of([]).finished == 0
