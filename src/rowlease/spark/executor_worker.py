"""What runs on an executor: one worker, with a slot for each of the executor's cores.

It is `rowlease.worker.Worker` as on any host, in the Python process of a Spark task. Spark's daemon
has forked that process and may kill it; the worker's child processes die with it, and what they ran
is free again when its leases end. Nothing is written to stdout.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

from rowlease.errors import ConfigError, RowleaseError, StoreError
from rowlease.store import Reading, Store, open_store
from rowlease.task_loading import Place, import_named, load_places, load_tasks, registry_of
from rowlease.tasks import Registry, Task
from rowlease.worker import Summary, Worker
from rowlease.worker.settings import WorkerSettings
from rowlease.worker.slots.executors import wanted
from rowlease.worker.times import WORKER_GONE

logger = logging.getLogger("rowlease")

APPLICATION = "rowlease spark"
#: Seconds between two looks at whether the driver is there: more where many look.
LOOK, LOOKERS = 1.0, 100
#: Task modules come to executors in these ways.
BRING = "bring modules to executors with sc.addPyFile, or spark-submit --py-files"

Places = tuple[Place, ...]


@dataclass(frozen=True)
class Plan:
    """What every executor of a pool is told; it travels with Spark's task, as functions do.

    Attributes:
        pool_id: what the driver is called in the table `worker` while the pool is to run.
        tasks: what `load_tasks` takes; or of each task its module, its name there and its own.
        count: executors that the driver found.
        cores: of each executor.
        settings: of each executor's worker; where they leave the concurrency open, child processes
            take the executor's cores.
        late: seconds that a second attempt waits which finds its pool over: see `run`.
    """

    pool_id: str
    dsn: str = field(repr=False)
    tasks: str | Places
    count: int
    cores: int
    settings: WorkerSettings
    late: float

    def registry(self) -> Registry:
        """The tasks, imported here.

        Raises:
            ConfigError, UnknownTask: they cannot be.
        """
        if isinstance(self.tasks, str):
            return load_tasks(self.tasks)
        for module, _, _ in self.tasks:
            import_named(module)
        try:
            return Registry(load_places(self.tasks))
        except (KeyError, AttributeError) as error:
            raise ConfigError(f"a task is not where it was on the driver: {error}") from error

    def worker(self, store: Store, index: int) -> Worker:
        """The worker of one executor."""
        registry, settings = self.registry(), self.settings
        executor = settings.executor or wanted(registry)
        if settings.concurrency is None and executor == "process":
            settings = replace(settings, concurrency=self.cores)
        worker = Worker.of(store, registry, settings)
        worker.worker_id = f"{self.pool_id}:{index}:{worker.worker_id}"
        return worker


def places(tasks: str | Task | Iterable[Task] | Registry) -> str | Places:
    """The tasks by name, so that executors import them: nothing of them is pickled.

    Raises:
        ConfigError: a task is in no module that another machine could import.
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
    """Yield why this executor could not work, if so; leases nothing."""
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
    """Work until the driver ends or falls silent; yield how that went.

    An attempt that starts when the pool is over has nothing to do. With speculation it may be the
    copy of one that still drains, which Spark would kill if the copy ended first: so it waits.
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
            with stopped_by(driver, worker, LOOK * max(1.0, plan.count / LOOKERS)):
                yield worker.run()
    except RowleaseError as error:
        yield raisable(error)


def raisable(error: RowleaseError, hint: str = "") -> RowleaseError:
    """The error as the driver is to raise it: it travels without its cause."""
    sentence = f"on the executor at {socket.gethostname()}: {error}"
    return type(error)(f"{sentence}; {hint}" if hint else sentence)


class SparkDriver:
    """Whether the pool's driver still wants it, as the database says.

    Executors need no way to the driver but the database, and Spark has no word for a task that it
    is to end soon: one that is cancelled is killed, without notice.
    """

    def __init__(self, store: Reading, plan: Plan) -> None:
        self._store = store
        self._pool_id = plan.pool_id
        self._heard = time.monotonic()

    def is_there(self) -> bool:
        """Is the driver registered, and has it sent a heartbeat recently?"""
        try:
            rows = self._store.list_workers()
        except StoreError as error:
            logger.debug("cannot look whether the pool's driver is there: %s", error)
            self._heard = time.monotonic()  # the driver cannot say anything either
            return True
        silences = [one.silent for one in rows if one.worker_id == self._pool_id]
        if silences and silences[0].total_seconds() < WORKER_GONE:
            self._heard = time.monotonic()
        return bool(silences) and time.monotonic() - self._heard < WORKER_GONE


@contextmanager
def stopped_by(driver: SparkDriver, worker: Worker, pause: float) -> Iterator[None]:
    """Stop the worker when the driver is not there any more; look every `pause` seconds."""
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
