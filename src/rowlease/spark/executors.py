"""Counts the executors of a session, and runs a Spark job with one task on each executor."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from rowlease.errors import ConfigError

#: The maximum number of seconds that the first executor of a session may take to register.
EXECUTOR_START_SECONDS = 60.0
#: Seconds to wait for further executors after one was added or removed. When a session starts, its
#: executors register one by one, and a dead executor is replaced.
SETTLED_SECONDS = 10.0
#: Seconds between two checks for changes.
CHANGE_CHECK_SECONDS = 0.1


class Executors(NamedTuple):
    """The executors of a pool.

    Attributes:
        num: the number of Spark tasks, one for each executor.
        cores: the number of cores of each executor.
        shares: whether an executor has cores for several Spark tasks at once. If so, `job` makes
            each task request all cores.
    """

    num: int
    cores: int
    shares: bool

    def job(self, sc: Any, function: Any) -> Any:
        """An RDD with one partition for each executor. `function` makes the rows of a partition.

        If executors can run several tasks at once, each task requests all cores of its executor
        (stage-level scheduling), so the executor runs no other task meanwhile.
        """
        rdd = sc.parallelize(range(self.num), self.num).mapPartitionsWithIndex(function)
        if self.shares:
            from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

            requests = TaskResourceRequests().cpus(self.cores)
            rdd.withResources(ResourceProfileBuilder().require(requests).build)
        return rdd


def executors_of(sc: Any, count: int | None) -> Executors:
    """The executors of a pool.

    Args:
        count: the number of executors; None means all.

    Raises:
        ConfigError: `count` is less than 1, the number of executors cannot be known (dynamic
            allocation), or no executor registers within a minute.
    """
    if count is not None and count < 1:
        raise ConfigError(f"executors is {count}; it must be 1 or more")
    conf = sc.getConf()
    if sc.master.startswith("local") and not sc.master.startswith("local-cluster"):
        return Executors(1, sc.defaultParallelism, shares=False)
    if count is None and conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise ConfigError(
            "this session allocates executors dynamically, so their number is not known; pass the "
            "number of executors for the pool, for example executors=10"
        )
    set_cores = conf.get("spark.executor.cores")
    found = [] if set_cores and count else registered(sc, 0.0 if count else SETTLED_SECONDS)
    cores = int(set_cores or min(found))
    return Executors(
        count or sum(each // cores for each in found),
        cores,
        shares=cores > int(conf.get("spark.task.cpus", "1")),
    )


def registered(sc: Any, settled: float) -> list[int]:
    """The cores of each executor, once none has been added or removed for `settled` seconds.

    If executors keep being added or removed, this function returns the cores of the current
    executors after a minute.
    """
    until = time.monotonic() + EXECUTOR_START_SECONDS
    cores: list[int] = []
    while time.monotonic() < until:
        listed = sc._jsc.sc().statusStore().executorList(False)
        each = [listed.apply(place) for place in range(listed.size())]
        cores = [one.totalCores() for one in each if one.isActive() and one.totalCores()]
        if cores and time.time() - max(map(changed_at, each)) >= settled:
            return cores
        time.sleep(CHANGE_CHECK_SECONDS)
    if cores:
        return cores
    raise ConfigError(
        f"no Spark executor has registered within {EXECUTOR_START_SECONDS:.0f} s; check that the"
        " cluster's workers are up, and have the memory and cores that this session requests"
    )


def changed_at(executor: Any) -> float:
    """The time when an executor was added or removed, since 1970 by the driver's clock."""
    gone = executor.removeTime()
    return float((gone.get() if gone.isDefined() else executor.addTime()).getTime()) / 1000
