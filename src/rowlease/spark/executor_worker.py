"""Runs a worker on a Spark executor, with a slot for each of the executor's cores.

The worker is the same `rowlease.worker.Worker` as on any host. It runs in the Python process of a
Spark task, which Spark's daemon has forked and may kill. The worker's child processes then die with
this process, and their requests run again when the leases have run out. Nothing is written to
stdout.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

from rowlease.errors import ConfigError, RowleaseError, StoreError
from rowlease.model import WORKER_GONE
from rowlease.store import Store, open_store
from rowlease.tasks.loading import (
    Place,
    Tasks,
    import_named,
    load_places,
    load_tasks,
    registry_of,
)
from rowlease.tasks.task import Registry
from rowlease.worker import Summary, Worker
from rowlease.worker.settings import WorkerSettings
from rowlease.worker.slots.executors import executor_of_tasks

logger = logging.getLogger("rowlease")

APPLICATION = "rowlease spark"
#: Seconds between two checks that the driver is alive, in a pool of up to LOOKERS executors.
DRIVER_CHECK_SECONDS = 1.0
#: In a pool with more executors than this, the time between two checks grows with their number.
LOOKERS = 100
#: The advice in errors about modules that executors cannot import.
BRING = "ship modules to executors with sc.addPyFile, or spark-submit --py-files"

Places = tuple[Place, ...]


@dataclass(frozen=True)
class Plan:
    """The settings of a pool, for every executor. They are pickled with Spark's task.

    Attributes:
        pool_id: the driver's id in the table `worker`, where it is registered while the pool runs.
        dsn: the DSN of the database.
        tasks: an argument of `load_tasks`, or each task's module, qualified name and task name.
        count: the number of executors that the driver found.
        cores: the number of cores of each executor.
        settings: the settings of each executor's worker. If they name no concurrency, there is one
            child process for each core of the executor.
        late: the seconds that a second attempt of a Spark task waits if the pool has ended (see
            `run`).
    """

    pool_id: str
    dsn: str = field(repr=False)
    tasks: str | Places
    count: int
    cores: int
    settings: WorkerSettings
    late: float

    def registry(self) -> Registry:
        """Import the tasks.

        Raises:
            ConfigError, UnknownTask: the tasks cannot be imported.
        """
        if isinstance(self.tasks, str):
            return load_tasks(self.tasks)
        for module, _, _ in self.tasks:
            import_named(module)
        try:
            return Registry(load_places(self.tasks))
        except (KeyError, AttributeError) as error:
            raise ConfigError(
                f"a task is not in the same module as on the driver: {error}"
            ) from error

    def worker(self, store: Store, index: int) -> Worker:
        """The worker of one executor."""
        registry, settings = self.registry(), self.settings
        executor = settings.executor or executor_of_tasks(registry)
        if settings.concurrency is None and executor == "process":
            settings = replace(settings, concurrency=self.cores)
        worker = Worker.of(store, registry, settings)
        worker.worker_id = f"{self.pool_id}:{index}:{worker.worker_id}"
        return worker


def places(tasks: Tasks) -> str | Places:
    """The tasks by name, so that executors import them instead of unpickling them.

    Raises:
        ConfigError: a task is not in a module that other machines can import.
    """
    if isinstance(tasks, str):
        return tasks
    found = []
    for each in registry_of(tasks).values():
        module, qualname = each.function.__module__, each.function.__qualname__
        if module == "__main__" or "<" in qualname:
            raise ConfigError(
                f"task {each.name} ({qualname}) is in the script itself, which executors cannot "
                f"import; move it to the top level of a module, and {BRING}"
            )
        found.append((module, qualname, each.name))
    return tuple(found)


def check(plan: Plan, index: int, _: Iterator[int]) -> Iterator[RowleaseError]:
    """Yield the error that prevents this executor from working, if there is one. Lease nothing."""
    try:
        plan.registry()
    except RowleaseError as error:
        yield raisable(error, BRING)
        return
    try:
        with closing(open_store(plan.dsn, application_name=APPLICATION)) as store:
            plan.worker(store, index)
            store.check_schema()
    except RowleaseError as error:
        yield raisable(error)


def run(plan: Plan, index: int, _: Iterator[int]) -> Iterator[Summary | RowleaseError]:
    """Work until the driver ends or is silent. Yield a summary or an error.

    An attempt of a Spark task that starts after the end of the pool has nothing to do. But with
    speculation, this attempt may be a copy of an attempt that is still draining. Spark would kill
    the draining attempt if the copy ended first, so the copy waits.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    try:
        with closing(open_store(plan.dsn, application_name=APPLICATION)) as store:
            driver = SparkDriver(store, plan)
            if not driver.is_there():
                if context is not None and context.attemptNumber() > 0:
                    time.sleep(plan.late)
                return
            worker = plan.worker(store, index)
            with stopped_by(driver, worker, DRIVER_CHECK_SECONDS * max(1.0, plan.count / LOOKERS)):
                yield worker.run()
    except RowleaseError as error:
        yield raisable(error)


def raisable(error: RowleaseError, hint: str = "") -> RowleaseError:
    """A copy of the error, without its cause, for the driver to raise."""
    sentence = f"on the executor at {socket.gethostname()}: {error}"
    return type(error)(f"{sentence}; {hint}" if hint else sentence)


class SparkDriver:
    """Checks in the database whether the pool's driver is alive.

    So executors need no connection to the driver. Spark itself cannot ask a task to end: it kills
    a cancelled task without notice.
    """

    def __init__(self, store: Store, plan: Plan) -> None:
        self._store = store
        self._pool_id = plan.pool_id
        self._heard = time.monotonic()

    def is_there(self) -> bool:
        """Whether the driver is registered and has sent a heartbeat recently."""
        try:
            rows = self._store.list_workers()
        except StoreError as error:
            logger.debug("cannot check whether the pool's driver is alive: %s", error)
            self._heard = time.monotonic()  # the driver cannot send a heartbeat either
            return True
        found = [one for one in rows if one.worker_id == self._pool_id]
        if found and found[0].is_alive:
            self._heard = time.monotonic()
        return bool(found) and time.monotonic() - self._heard < WORKER_GONE


@contextmanager
def stopped_by(driver: SparkDriver, worker: Worker, pause: float) -> Iterator[None]:
    """Stop the worker when the driver is gone, which is checked every `pause` seconds."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(pause):
            if not driver.is_there():
                worker.stop()
                return

    thread = threading.Thread(target=watch, name="rowlease-driver", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
