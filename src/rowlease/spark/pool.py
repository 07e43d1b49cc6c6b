"""A Spark cluster as the worker pool: its executors lease requests and run them.

The driver decides when the pool ends, from the queues' counters and the elapsed time. While the
pool runs, the driver has a row in the table `worker`. When this row is gone, the executors drain.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any

from rowlease.config import configured_dsn
from rowlease.errors import ConfigError, RowleaseError, StoreError
from rowlease.model import HEARTBEAT
from rowlease.spark.executor_worker import APPLICATION, Plan, check, places, run
from rowlease.spark.executors import executors_of
from rowlease.spark.jdbc import is_connect
from rowlease.spark.pool_job import SparkJob
from rowlease.spark.pool_monitor import PoolMonitor, PoolProgress, log_progress
from rowlease.store import Store, open_store
from rowlease.store.revisions import own_version
from rowlease.tasks.loading import Tasks, registry_of
from rowlease.worker import Summary
from rowlease.worker.claims.queues import QueueOrder, queues_of
from rowlease.worker.host.signals import stopped_by_signals
from rowlease.worker.settings import WorkerSettings
from rowlease.worker.timings import POOL_SHUTDOWN

logger = logging.getLogger("rowlease")

#: Seconds between two checks of the queues.
CHECK_INTERVAL_SECONDS = 0.5
#: Seconds between two progress reports.
REPORT_INTERVAL_SECONDS = 5.0


def work(
    spark: Any,
    tasks: Tasks,
    queues: Sequence[str] | Mapping[str, int] | None = None,
    *,
    dsn: str | None = None,
    until_drained: bool = True,
    duration: timedelta | None = None,
    executors: int | None = None,
    concurrency: int | None = None,
    executor: str | None = None,
    prefetch: int | None = None,
    lease: timedelta | None = None,
    consumer_priority: int = 0,
    grace: timedelta = timedelta(seconds=30),
    progress: Callable[[PoolProgress], object] = log_progress,
) -> Summary:
    """Lease and run requests on the executors of a session. Return when the pool has ended.

    The pool is one Spark job with one task for each executor. Each task requests all cores of its
    executor and runs a worker with a slot for each core, in child processes. If an executor dies,
    its leases run out, and other executors run its requests. Spark starts the task of the dead
    executor again when another executor is free.

    In the main thread, SIGTERM and Ctrl-C drain the pool; a second signal cancels the Spark job. If
    Spark ends the job or the application, tasks are killed at once, and their requests run again
    when the leases have run out.

    Args:
        spark: a session whose executors have rowlease and can reach the database.
        tasks: `package.module` or `package.module:name`, or tasks. Executors import the module.
        queues: the same as for `rowlease.Worker`. If None, the driver imports the tasks to find
            their queues.
        dsn: a DSN under which executors reach the database. None means ROWLEASE_DSN or
            ROWLEASE_DSN_FILE of the driver.
        until_drained: whether to end when no request of the queues waits or runs on any worker. The
            pool does not wait for scheduled requests (which include retries) and paused queues.
        duration: the time after which the pool ends in any case.
        executors: the number of executors. None means all, once none has been added or removed for
            10 seconds. If the session has fewer, the remaining tasks start when executors become
            free.
        concurrency: the number of slots of each executor. None means one for each of its cores, 32
            for threads, or 100 for coroutines.
        executor: the same as for `rowlease.Worker`, like the three that follow.
        prefetch: the number of requests prefetched per slot.
        lease: with short leases, the requests of a lost executor run again soon.
        consumer_priority: the priority among the workers of a queue.
        grace: how long running tasks may go on when the pool ends, before they are abandoned.
        progress: a function that the driver calls with the progress every 5 seconds, for example
            `print`.

    Returns:
        The sums of the workers' summaries, with the `seconds` of the longest run. The sums do not
        include the work of executors that died.

    Raises:
        ConfigError, UnknownTask: an argument is wrong, or executors cannot import the tasks.
            Nothing was leased.
        InvalidRequest: a queue does not exist. Nothing was leased.
        StoreError: the driver or the executors cannot work with the database.
        RowleaseError: Spark ended the job. Its requests run again when the leases have run out.
    """
    if is_connect(spark):
        raise ConfigError(
            "this is a session of Spark Connect, which cannot run workers; start a session that is "
            "not remote"
        )
    place = configured_dsn(dsn)
    if place is None:
        raise ConfigError(
            "no database: pass dsn='postgresql://user:password@host/database', with a host that "
            "the executors can reach"
        )
    if duration is not None and duration <= timedelta(0):
        raise ConfigError(f"duration is {duration}; it must be positive")
    if queues is None:
        queues = queues_of(registry_of(tasks))
    names = QueueOrder(queues).order()
    settings = WorkerSettings(
        queues=queues if isinstance(queues, Mapping) else list(queues),
        concurrency=concurrency,
        executor=executor,
        prefetch=prefetch,
        lease=lease,
        consumer_priority=consumer_priority,
        grace=grace,
    )
    named = places(tasks)
    with closing(open_store(place, application_name=APPLICATION)) as store:
        store.check_schema()
        for name in names:
            store.depth(name)  # raises if the queue does not exist, before Spark starts a job
        sc = spark.sparkContext
        found = executors_of(sc, executors)
        patience = grace.total_seconds() + POOL_SHUTDOWN
        plan = Plan(
            pool_id=f"spark:{secrets.token_hex(4)}",
            dsn=place,
            tasks=named,
            count=found.num,
            cores=found.cores,
            settings=settings,
            late=patience if sc.getConf().get("spark.speculation", "false") == "true" else 0.0,
        )
        start = partial(SparkJob, sc, plan, found, f"rowlease: {', '.join(names)}")
        return ExecutorPool(store, plan.pool_id, names, progress).run(
            start, until_drained=until_drained, duration=duration, patience=patience
        )


class ExecutorPool:
    """Runs the job of a pool: sends the driver's heartbeats, reports progress, and drains."""

    def __init__(
        self,
        store: Store,
        pool_id: str,
        queues: list[str],
        progress: Callable[[PoolProgress], object],
    ) -> None:
        self._store = store
        self._pool_id = pool_id
        self._queues = queues
        self._progress = progress
        self._num_stops = 0
        self._beat_at = 0.0

    def run(
        self,
        start: Callable[[Any], SparkJob],
        *,
        until_drained: bool,
        duration: timedelta | None,
        patience: float,
    ) -> Summary:
        """Check the executors, start the job, watch it and drain it.

        Args:
            start: a function that starts a job; its argument is the function that executors run.
            until_drained: the same as for `work`.
            duration: the same as for `work`.
            patience: the seconds that the executors may take to drain.
        """
        with stopped_by_signals(self._stop):
            checking = start(check)
            while not checking.ends_within(CHECK_INTERVAL_SECONDS):
                if self._num_stops:
                    checking.cancel()
                    return Summary.of([])
            for refusal in checking.results()[1]:
                raise refusal
            self._beat()
            try:
                job = start(run)
                try:
                    self._watch(job, until_drained, duration)
                    self._drain(job, patience)
                finally:
                    job.cancel()
            finally:
                with suppress(RowleaseError):
                    self._store.remove_worker(self._pool_id)
        summaries, refusals = job.results()
        if refusals and not summaries:
            raise refusals[0]
        for refusal in refusals:
            logger.warning("an executor left the pool: %s", refusal)
        return Summary.of(summaries)

    def _stop(self) -> None:
        self._num_stops += 1

    def _watch(self, job: SparkJob, until_drained: bool, duration: timedelta | None) -> None:
        """Wait until it is time to drain, or the job has ended."""
        monitor = PoolMonitor(self._store, self._queues, f"{self._pool_id}:")
        began = reported_at = time.monotonic()
        while not (self._num_stops or job.ends_within(CHECK_INTERVAL_SECONDS)):
            at = time.monotonic()
            if duration is not None and at - began >= duration.total_seconds():
                return
            with self._patient():
                if at - self._beat_at >= HEARTBEAT:
                    self._beat()
                if at - reported_at >= REPORT_INTERVAL_SECONDS:
                    reported_at = at
                    self._progress(monitor.progress())
                if until_drained and monitor.is_drained():
                    return

    def _drain(self, job: SparkJob, patience: float) -> None:
        """Have the executors drain. Cancel the job after a second stop, or if draining is slow."""
        began, is_removed = time.monotonic(), False
        while not job.ends_within(CHECK_INTERVAL_SECONDS):
            if self._num_stops > 1 or time.monotonic() - began > patience:
                logger.warning("the pool's job is cancelled; its leases have to run out")
                job.cancel()
                return
            if not is_removed:
                with self._patient():
                    self._store.remove_worker(self._pool_id)
                    is_removed = True

    def _beat(self) -> None:
        """Send a heartbeat for the driver, which is registered as a worker without slots."""
        self._store.worker_heartbeat(
            self._pool_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=own_version(),
            queues=[],
            slots=0,
            busy=0,
        )
        self._beat_at = time.monotonic()

    @contextmanager
    def _patient(self) -> Iterator[None]:
        """Ignore transient errors of the database in the block. The next check tries again."""
        try:
            yield
        except StoreError as error:
            if not error.transient:
                raise
            logger.debug("the pool's driver cannot reach the database: %s", error)
