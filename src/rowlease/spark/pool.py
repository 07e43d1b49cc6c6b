"""A Spark cluster as the worker pool: its executors lease requests and run them.

The driver decides how long: it looks at the queues' counters and at the clock. Executors hear it
through the database, by a row of its own in the table `worker`: when that is gone, they drain.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any

from rowlease.config import configured_dsn
from rowlease.errors import ConfigError, RowleaseError, StoreError
from rowlease.spark.executor_worker import APPLICATION, Plan, check, places, run
from rowlease.spark.executors import executors_of
from rowlease.spark.job import Job
from rowlease.spark.observer import Observer, PoolProgress, log_progress
from rowlease.store import Store, open_store
from rowlease.store.revisions import own_version
from rowlease.task_loading import registry_of
from rowlease.tasks import Registry, Task
from rowlease.worker import Summary
from rowlease.worker.claims.queue_order import QueueOrder
from rowlease.worker.claims.queues import queues_of
from rowlease.worker.host.signals import stopped_by_signals
from rowlease.worker.settings import WorkerSettings
from rowlease.worker.times import HEARTBEAT, POOL_FAREWELL

logger = logging.getLogger("rowlease")

#: Seconds between two looks at the queues, and two lines about how it goes.
LOOK, TELL = 0.5, 5.0


def work(
    spark: Any,
    tasks: str | Task | Iterable[Task] | Registry,
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
    """Lease and run requests on the executors of a session; returns when the pool has ended.

    One Spark job with one task for each executor, which asks Spark for all of its cores and runs a
    worker with as many slots, in child processes. An executor that dies takes no request along: its
    leases end, and others run what it had. Spark starts its task again where there is room.

    In the main thread SIGTERM and Ctrl-C drain the pool; the second one cancels the Spark job. When
    Spark ends the job or the application, tasks are killed at once and requests are free again when
    their leases end.

    Args:
        spark: a session, whose executors have rowlease installed and reach the database.
        tasks: `package.module` or `package.module:name`, imported on the executors; or tasks of a
            module, which is imported there again.
        queues: as for `rowlease.Worker`. To know those of the tasks, the driver imports the module.
        dsn: the database, as executors reach it. None takes ROWLEASE_DSN or ROWLEASE_DSN_FILE of
            the driver.
        until_drained: end when nothing waits or runs in the queues, whoever runs it. Requests
            scheduled for later, retries too, and paused queues are not waited for.
        duration: end after this time at the latest.
        executors: how many; None takes those that are there, once none came or went for 10 seconds.
            More than that wait for room.
        concurrency: slots of each executor; None takes its cores, 32 for threads, 100 for
            coroutines.
        executor, prefetch, lease, consumer_priority: as for `rowlease.Worker`. Short leases let
            requests of a lost executor run again soon.
        grace: how long running tasks may go on when the pool ends; then they are handed back.
        progress: is told every 5 seconds how it goes, on the driver; `print` will do.

    Returns:
        What the workers did, summed; `seconds` of the longest. What an executor that died had done
        by then is in the database, and not in here.

    Raises:
        ConfigError, UnknownTask: an argument is wrong, or executors cannot import the tasks.
            Nothing was leased.
        InvalidRequest: there is no such queue. Nothing was leased.
        StoreError and its kin: the driver or the executors cannot work with the database.
        RowleaseError: Spark ended the job; what it had leased is free when the leases end.
    """
    place = configured_dsn(dsn)
    if place is None:
        raise ConfigError(
            "no database: say dsn='postgresql://user:password@host/database', a host that the "
            "executors reach, too"
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
            store.depth(name)  # an unknown one is said before Spark starts anything
        sc = spark.sparkContext
        found = executors_of(sc, executors)
        patience = grace.total_seconds() + POOL_FAREWELL
        plan = Plan(
            pool_id=f"spark:{secrets.token_hex(4)}",
            dsn=place,
            tasks=named,
            count=found.num,
            cores=found.cores,
            settings=settings,
            late=patience if sc.getConf().get("spark.speculation", "false") == "true" else 0.0,
        )
        start = partial(Job, sc, plan, found, f"rowlease: {', '.join(names)}")
        return Pool(store, plan.pool_id, names, progress).run(
            start, until_drained=until_drained, duration=duration, patience=patience
        )


class Pool:
    """Watches over the job: says that the driver is there, looks, tells, and ends it."""

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
        start: Callable[[Any], Job],
        *,
        until_drained: bool,
        duration: timedelta | None,
        patience: float,
    ) -> Summary:
        """Check, start, watch, drain.

        Args:
            start: starts a job of what an executor is to do.
            patience: seconds that the executors may take to drain.
        """
        with stopped_by_signals(self._stop):
            checking = start(check)
            while not checking.ends_within(LOOK):
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

    def _watch(self, job: Job, until_drained: bool, duration: timedelta | None) -> None:
        """Until it is time to end, or the job has ended."""
        observer = Observer(self._store, self._queues, f"{self._pool_id}:")
        began = told_at = time.monotonic()
        while not (self._num_stops or job.ends_within(LOOK)):
            at = time.monotonic()
            if duration is not None and at - began >= duration.total_seconds():
                return
            with self._patient():
                if at - self._beat_at >= HEARTBEAT:
                    self._beat()
                if at - told_at >= TELL:
                    told_at = at
                    self._progress(observer.look())
                if until_drained and observer.is_drained():
                    return

    def _drain(self, job: Job, patience: float) -> None:
        """Have the executors drain; end it by force if asked twice, or if it takes too long."""
        began, said = time.monotonic(), False
        while not job.ends_within(LOOK):
            if self._num_stops > 1 or time.monotonic() - began > patience:
                logger.warning("the pool is ended by force; its leases have to run out")
                job.cancel()
                return
            if not said:
                with self._patient():
                    self._store.remove_worker(self._pool_id)
                    said = True

    def _beat(self) -> None:
        """Say that the driver is there: a worker without slots or queues, which claims nothing."""
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
        """A database that is away is asked again at the next look."""
        try:
            yield
        except StoreError as error:
            if not error.transient:
                raise
            logger.debug("the pool's driver cannot reach the database: %s", error)
