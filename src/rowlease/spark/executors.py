"""How many executors a session has, and how a Spark job gets one task on each."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from rowlease.errors import ConfigError

#: Seconds that the first executor of a session may take to register.
PATIENCE = 60.0
#: Seconds after an executor came or went in which others are awaited: they register one by one when
#: a session starts, and one that died is started again.
SETTLED = 10.0
LOOK = 0.1


class Executors(NamedTuple):
    """What a pool takes of a session.

    Attributes:
        num: how many Spark tasks, one for each executor.
        cores: how many cores each of them has to itself.
        shares: several tasks fit an executor unless each asks Spark for this many cores.
    """

    num: int
    cores: int
    shares: bool

    def job(self, sc: Any, function: Any) -> Any:
        """An RDD with a partition for each executor, which is what `function` makes of its index.

        Spark is asked for all cores of an executor for each task (stage-level scheduling), so no
        two of them, and nothing else, run on one executor meanwhile.
        """
        rdd = sc.parallelize(range(self.num), self.num).mapPartitionsWithIndex(function)
        if self.shares:
            from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

            requests = TaskResourceRequests().cpus(self.cores)
            rdd.withResources(ResourceProfileBuilder().require(requests).build)
        return rdd


def executors_of(sc: Any, count: int | None) -> Executors:
    """The executors that a pool takes: so many, or all there are.

    Raises:
        ConfigError: how many cannot be told, or none registers within a minute.
    """
    if count is not None and count < 1:
        raise ConfigError(f"executors is {count}; it must be 1 or more")
    conf = sc.getConf()
    if sc.master.startswith("local") and not sc.master.startswith("local-cluster"):
        return Executors(1, sc.defaultParallelism, shares=False)
    if count is None and conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise ConfigError(
            "this session allocates executors dynamically; say how many the pool may take: "
            "executors=10"
        )
    told = conf.get("spark.executor.cores")
    found = [] if told and count else registered(sc, 0.0 if count else SETTLED)
    cores = int(told or min(found))
    return Executors(
        count or sum(each // cores for each in found),
        cores,
        shares=cores > int(conf.get("spark.task.cpus", "1")),
    )


def registered(sc: Any, settled: float) -> list[int]:
    """The cores of each executor, once there is one and none came or went for so many seconds.

    A cluster on which they come and go all the time is taken as it is after a minute.
    """
    until = time.monotonic() + PATIENCE
    cores: list[int] = []
    while time.monotonic() < until:
        listed = sc._jsc.sc().statusStore().executorList(False)
        each = [listed.apply(place) for place in range(listed.size())]
        cores = [one.totalCores() for one in each if one.isActive() and one.totalCores()]
        if cores and time.time() - max(map(changed_at, each)) >= settled:
            return cores
        time.sleep(LOOK)
    if cores:
        return cores
    raise ConfigError(
        f"no Spark executor has registered within {PATIENCE:.0f} s; look at the cluster's workers, "
        "and whether they have the memory and cores that this session asks for"
    )


def changed_at(executor: Any) -> float:
    """When it came, or went: seconds since 1970 by the driver's clock."""
    gone = executor.removeTime()
    return float((gone.get() if gone.isDefined() else executor.addTime()).getTime()) / 1000
