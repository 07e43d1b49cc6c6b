"""A cluster as the worker pool: on two executors of one core, and on one of two cores.

Real clusters, in processes of their own; only a database's answers are waited for.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

import rowlease.spark
from rowlease.client.batch import Batch
from rowlease.client.batch_reads import BatchReads
from rowlease.model import NewRequest
from rowlease.spark.pool import ExecutorPool
from rowlease.store import Store
from tests.spark.clusters import STANDALONE, Driver, driver, until

Sql = Callable[..., list[tuple[Any, ...]]]
TASKS = "tests.spark.pool_tasks"
LEASE = 1.5  # seconds; a lost executor's requests are free again then


@pytest.fixture(scope="module")
def two_executors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver with two executors of one core each, which its own JVM has started."""
    folder = tmp_path_factory.mktemp("local-cluster")
    with driver("local-cluster[2,1,1024]", folder) as made:
        yield made


@pytest.fixture(scope="module")
def one_executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver with one executor of two cores, on a standalone cluster."""
    folder = tmp_path_factory.mktemp("standalone")
    cores = {"spark.executor.cores": "2", "spark.cores.max": "2"}
    with driver(STANDALONE, folder, **cores) as made:
        yield made


@pytest.fixture
def naps(sql: Sql) -> Callable[[int, float], None]:
    """Enqueues so many requests that take so many seconds."""

    def enqueue(count: int, seconds: float) -> None:
        sql(
            "select rowlease.enqueue('default', 'nap', %s) from generate_series(1, %s)",
            (f'{{"seconds": {seconds}}}', count),
        )

    return enqueue


def complete(sql: Sql) -> tuple[int, int]:
    """How many outcomes there are, and of how many requests."""
    ((rows, distinct),) = sql(
        "select count(*), count(distinct request_id) from rowlease.queue_history"
        " where status = 'Complete'"
    )
    return rows, distinct


def statuses(sql: Sql) -> dict[str, int]:
    """The requests in the queue."""
    return dict(sql("select status, count(*) from rowlease.queue group by status"))


@pytest.mark.parametrize("way", ["enqueue", "format"])
def test_executors_enqueue_and_read_back(two_executors: Driver, dsn: str, way: str) -> None:
    if way == "format" and rowlease.spark._is_older(4, 1):
        pytest.skip(f'format("rowlease") needs PySpark 4.1; this is {rowlease.spark.PYSPARK}')
    assert two_executors.load(way, dsn, 1000) == {"Pending": 1000}


def test_a_queue_is_drained_by_all_executors(
    two_executors: Driver, dsn: str, sql: Sql, naps: Callable[[int, float], None]
) -> None:
    naps(60, 0.05)
    sql("select rowlease.enqueue('default', 'fails', p_max_attempts => 1)")
    sql("select rowlease.enqueue('default', 'nap', p_delay_ms => 3600000)")
    place = sa.make_url(dsn)
    secret = str(place.password or "s3cret-of-the-pool")  # a server that trusts takes any
    place = place.set(password=secret)
    answer = two_executors.work(TASKS, place.render_as_string(hide_password=False), executors=2)
    assert answer["summary"] | {"seconds": 0, "task_seconds": 0} == {
        **dict.fromkeys(
            ("abandoned", "cancelled", "declined", "snoozed", "lost", "crashed", "undelivered"), 0
        ),
        "dead": 1,
        **{"claimed": 61, "finished": 60, "failed": 1, "slots": 2, "seconds": 0, "task_seconds": 0},
    }
    assert complete(sql) == (60, 60)
    assert statuses(sql) == {"Failed": 1, "Scheduled": 1}
    ((workers, slots),) = sql(
        "select count(distinct locked_by), count(distinct result ->> 'child')"
        " from rowlease.queue_history"
    )
    assert (workers, slots) == (2, 2)
    assert sql("select count(*) from rowlease.worker") == [(0,)], "every worker has removed itself"
    written = [path for path in two_executors.folder.rglob("*") if path.is_file()]
    assert not [path for path in written if secret.encode() in path.read_bytes()]


def test_a_pool_runs_what_waits_for_its_batches(
    two_executors: Driver, dsn: str, store: Store, sql: Sql
) -> None:
    nap = NewRequest(kind="nap", payload='{"seconds": 0}')
    store.enqueue_many("default", [nap] * 20, batch_id="load")
    store.enqueue_many("default", [nap], after="load")
    two_executors.work(TASKS, dsn, executors=2)
    assert complete(sql) == (21, 21)
    assert Batch("load", BatchReads(store)).wait(timedelta(minutes=1)).num_complete == 20


def test_a_pool_goes_on_with_what_the_end_of_a_batch_makes_due(store: Store) -> None:
    request = NewRequest(kind="nap")
    store.enqueue_many("default", [request], batch_id="load")
    store.enqueue_many("default", [request], after="load")
    store.complete(store.dequeue("one", ["default"], 1).requests)
    done = []

    class Job:
        """Executors that finish no batch."""

        def ends_within(self, seconds: float) -> bool:
            requests = store.dequeue("one", ["default"], 9).requests
            done.append(len(store.complete(requests)))
            return False

    job: Any = Job()
    ExecutorPool(store, "pool", ["default"], lambda _: None)._watch(job, True, None)
    assert sum(done) == 1


def test_tasks_may_be_passed_as_objects_and_run_in_threads(
    two_executors: Driver, dsn: str, sql: Sql, naps: Callable[[int, float], None]
) -> None:
    naps(10, 0.0)
    answer = two_executors.work(
        None, dsn, task_of=TASKS, executors=2, executor="thread", concurrency=3
    )
    assert "summary" in answer, answer
    assert (answer["summary"]["finished"], answer["summary"]["slots"]) == (10, 6)
    assert sql("select count(*) from rowlease.queue_history where result ->> 'child' = ''") == [
        (0,)
    ]


def test_an_executor_killed_in_the_middle_loses_no_request(
    two_executors: Driver, dsn: str, sql: Sql, naps: Callable[[int, float], None]
) -> None:
    naps(16, 0.2)
    two_executors.start(TASKS, dsn, executors=2, lease=5.0)  # the others are done before it ends
    until(lambda: complete(sql)[0] >= 4, "four requests complete")
    two_executors.executors()[0].kill()
    answer = two_executors.answer()
    assert complete(sql) == (16, 16)
    assert statuses(sql) == {}
    assert answer["summary"]["failed"] == 0
    assert sql("select max(num_attempts) > 1 from rowlease.queue_history") == [(True,)]


def test_a_pool_takes_an_executor_that_is_just_coming_back(
    two_executors: Driver, dsn: str, sql: Sql
) -> None:
    until(lambda: len(two_executors.executors()) == 2, "both are there")
    gone = two_executors.executors()[1]
    gone.kill()
    until(lambda: gone not in two_executors.executors(), "it is gone")
    two_executors.start(TASKS, dsn, until_drained=False)
    until(lambda: sql("select sum(slots) from rowlease.worker") == [(2,)], "both work")
    two_executors.signal(signal.SIGINT)
    assert two_executors.answer()["summary"]["slots"] == 2


def test_the_only_executor_killed_in_the_middle_loses_no_request(
    one_executor: Driver, dsn: str, sql: Sql, naps: Callable[[int, float], None]
) -> None:
    naps(30, 0.2)
    one_executor.start(TASKS, dsn, executors=1, lease=LEASE)
    until(lambda: complete(sql)[0] >= 4, "four requests complete")
    one_executor.executors()[0].kill()
    answer = one_executor.answer()
    assert complete(sql) == (30, 30)
    assert statuses(sql) == {}
    assert answer["summary"]["slots"] == 2, "the cores of the executor"
    assert sql(
        "select count(*), max(slots) from (select count(distinct result ->> 'child') as slots"
        " from rowlease.queue_history group by locked_by) x"
    ) == [(2, 2)], "one worker before and one after, each with two slots"


def test_a_pool_ends_when_its_time_is_over(
    one_executor: Driver, dsn: str, sql: Sql, naps: Callable[[int, float], None]
) -> None:
    naps(2000, 0.05)
    answer = one_executor.work(TASKS, dsn, executors=1, duration=10.0, until_drained=False)
    done, distinct = complete(sql)
    assert 0 < done == distinct < 2000
    assert answer["summary"]["finished"] == done
    assert statuses(sql) == {"Pending": 2000 - done}, "nothing is leased any more"


def test_ctrl_c_on_the_driver_drains(
    two_executors: Driver, dsn: str, sql: Sql, naps: Callable[[int, float], None]
) -> None:
    naps(2000, 0.05)
    two_executors.start(TASKS, dsn, executors=2, until_drained=False)
    until(lambda: complete(sql)[0] >= 4, "four requests complete")
    two_executors.signal(signal.SIGINT)
    answer = two_executors.answer()
    done, _ = complete(sql)
    assert answer["summary"]["finished"] == done
    assert statuses(sql) == {"Pending": 2000 - done}


def test_a_cancelled_spark_job_leaves_leases_that_end(
    two_executors: Driver, dsn: str, sql: Sql, naps: Callable[[int, float], None]
) -> None:
    sql("select rowlease.enqueue('default', 'hang') from generate_series(1, 2)")
    two_executors.start(TASKS, dsn, executors=2, lease=LEASE)
    until(lambda: sql("select sum(busy) from rowlease.worker") == [(2,)], "both run")
    two_executors.signal(signal.SIGINT)
    drains = "select from rowlease.worker where slots = 0"
    until(lambda: not sql(drains), "the driver has removed itself")
    two_executors.signal(signal.SIGINT)
    answer = two_executors.answer()
    assert answer.get("error") == "RowleaseError", json.dumps(answer)
    assert "Spark ended the pool's job: " in answer["says"]
    assert statuses(sql) == {"Processing": 2}
    sql("update rowlease.queue set kind = 'nap'")
    assert two_executors.work(TASKS, dsn, executors=2)["summary"]["finished"] == 2
    assert complete(sql) == (2, 2)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"tasks": "nowhere"}, "ConfigError", "there is no module 'nowhere'"),
        ({"tasks": "only_there"}, "ConfigError", "there is no module 'only_there'"),
        ({"task_of": "only_there"}, "ConfigError", "there is no module 'only_there'"),
        ({"tasks": "json"}, "UnknownTask", "there is no task in json"),
        ({"own_task": True}, "ConfigError", "task own (own) is in the script itself"),
        ({"queues": []}, "ConfigError", "queues is []; it must be a list of different names"),
        ({"queues": ["nobody's"]}, "InvalidRequest", "nobody's"),
        ({"executors": 0}, "ConfigError", "executors is 0; it must be 1 or more"),
        ({"duration": 0}, "ConfigError", "duration is 0:00:00; it must be positive"),
        ({"lease": 0.01}, "ConfigError", "lease is 0:00:00.010000; it must be 100 ms to 1 day"),
        ({"executor": "magic"}, "ConfigError", "executor is 'magic'; it must be one of"),
        ({"dsn": "postgresql://a:s3cret@127.0.0.1:1/x"}, "StoreUnavailable", "cannot reach"),
        ({"dsn": "postgres//a"}, "ConfigError", "names no engine that rowlease knows"),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_leased(
    given: dict[str, Any],
    error: str,
    says: str,
    two_executors: Driver,
    dsn: str,
    sql: Sql,
    naps: Callable[[int, float], None],
) -> None:
    naps(1, 0.0)
    answer = two_executors.work(**{"tasks": TASKS, "dsn": dsn, "executors": 2, **given})
    assert answer.get("error") == error, answer
    assert says in answer["says"]
    assert "\n" not in answer["says"]
    assert "s3cret" not in answer["says"]
    assert sql("select status, num_attempts from rowlease.queue") == [("Pending", 0)]
    assert sql("select count(*) from rowlease.worker") == [(0,)]
