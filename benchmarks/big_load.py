"""What does a load of ten million rows cost its driver, and the workers beside it?

    python -m benchmarks.big_load [--rows 10000000] [--rate 50] [--heap 1g] [--dsn postgresql://...]

Each way of loading runs on its own database. A driver, in its own process, enqueues the rows into
one queue, while a producer enqueues at a steady rate into another queue, which a worker serves. The
rows are computed while they are written, in 100 partitions, and do not fit into the driver's heap.
Memory is the resident memory of the driver's processes (Python, the JVM, Spark's Python workers).
The longest transaction is that of any task or of the driver, seen by looks 50 ms apart; a long one
holds back vacuum. The time of `promote` is what the server counts for the routine. Latency is
measured as in benchmarks/latency.py. Spark, the server, the producer and the worker share the
machine. The time is compared with that of a COPY of the same rows from a file into a table without
indexes, on one connection, with nothing beside it.

The server is that of ROWLEASE_TEST_PG_DSN, else an embedded one. The databases are created for the
benchmark and dropped after it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg

from benchmarks.latency import began
from benchmarks.servers import add_dsn, database, described, server
from benchmarks.tables import Table, at_most, finish
from rowlease import Client

WAYS = ("rowlease.spark.enqueue, JDBC", 'format("rowlease"), COPY')
PARTITIONS = 100
#: The 99th percentile of the latency, in milliseconds, and the longest transaction, in seconds.
GOAL, LONGEST = 40.0, 1.0
#: The time of a load in times of a COPY of the same rows.
TIMES = 2.0
OLDEST = """
    select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::float
      from pg_stat_activity
     where datname = current_database() and backend_type = 'client backend' and state <> 'idle'
       and pid <> pg_backend_pid()
"""
MIB = 2**20


class Found(NamedTuple):
    """The figures of one load.

    Attributes:
        seconds: the time of the whole load.
        transaction: the longest transaction, in seconds.
        promote: the milliseconds of `promote`.
        first, most: the resident bytes when rows were first reported, and the most.
        p50, p99, longest: the latencies in milliseconds.
    """

    seconds: float
    transaction: float
    promote: float
    first: int
    most: int
    p50: float
    p99: float
    longest: float

    def cells(self) -> list[str]:
        lengths = [f"{self.seconds:.0f} s", f"{self.transaction:.1f} s", f"{self.promote:.0f} ms"]
        sizes = [f"{size / MIB:,.0f} MiB" for size in (self.first, self.most)]
        late = (self.p50, self.p99, self.longest)
        return [*lengths, *sizes, *(f"{each:.0f} ms" for each in late)]


def bare_copy(dsn: str) -> float:
    """The seconds of a COPY of the load's rows from a file into a table without indexes."""
    with psycopg.connect(dsn, autocommit=True) as sql, tempfile.TemporaryFile() as file:
        with sql.cursor().copy(
            "copy (select priority, kind, payload from rowlease.lane) to stdout"
        ) as rows:
            for each in rows:
                file.write(each)
        file.seek(0)
        sql.execute("create table bare (priority smallint, kind text, payload json)")
        sql.execute("checkpoint")
        began_at = time.monotonic()
        with sql.cursor().copy("copy bare from stdin") as copy:
            while block := file.read(2**18):
                copy.write(block)
        return time.monotonic() - began_at


def load(way: str, dsn: str, count: int, heap: str) -> None:
    """Load the rows; this runs in the driver's process."""
    from rowlease.spark import enqueue, local_session, register

    spark = local_session("rowlease big load", memory=heap, dsn=dsn)
    rows = spark.range(0, count, 1, PARTITIONS).selectExpr(
        "cast(id % 10 as int) as priority",
        "to_json(named_struct('n', id, 'path', concat('/archive/2026/', id % 997, '/', id, '.tar'),"
        " 'sum', md5(cast(id as string)), 'again', false)) as payload",
    )
    if way == WAYS[0]:
        enqueue(rows, dsn, queue="bulk", kind="k", priority="priority", payload="payload",
                load_id="big")  # fmt: skip
    else:
        register(spark)
        options = {"dsn": dsn, "queue": "bulk", "kind": "k", "load_id": "big"}
        rows.write.format("rowlease").options(**options).mode("append").save()
    spark.stop()


@contextmanager
def worker(dsn: str) -> Iterator[None]:
    """`rowlease worker`, which has done one request."""
    command = [
        sys.executable,
        "-m",
        "rowlease",
        "worker",
        "benchmarks.latency:began",
        "--log-level=error",
    ]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "ROWLEASE_DSN": dsn}
    with subprocess.Popen(command, env=environment) as process, Client(dsn) as client:
        try:
            client.enqueue(began)
            with psycopg.connect(dsn, autocommit=True) as sql:
                while not sql.execute("select 1 from rowlease.queue_history").fetchall():
                    time.sleep(0.05)
            yield
        finally:
            process.terminate()


class Watcher(threading.Thread):
    """Looks for the longest transaction until `finish`."""

    def __init__(self, dsn: str) -> None:
        super().__init__(daemon=True)
        self._dsn = dsn
        self._over = threading.Event()
        self.longest = 0.0

    def run(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True, prepare_threshold=0) as sql:
            while not self._over.wait(0.05):
                ((age,),) = sql.execute(OLDEST).fetchall()
                self.longest = max(self.longest, age)

    def finish(self) -> None:
        self._over.set()
        self.join()


class Producer(threading.Thread):
    """Enqueues at a steady rate until `finish`; a request that is late is still enqueued."""

    def __init__(self, dsn: str, rate: float) -> None:
        super().__init__(daemon=True)
        self._dsn = dsn
        self._pause = 1 / rate
        self._over = threading.Event()
        #: When each request was sent, by its id.
        self.sent: dict[int, float] = {}

    def run(self) -> None:
        with Client(self._dsn) as client:
            at = time.time()
            while not self._over.wait(max(0.0, at - time.time())):
                sent = time.time()
                self.sent[client.enqueue(began).request_id] = sent
                at += self._pause

    def finish(self) -> None:
        self._over.set()
        self.join()


def resident(pid: int) -> int:
    """The resident memory of a process and all its descendants, in bytes."""
    total = 0
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        total = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                total += resident(int(child))
    except OSError:
        pass
    return total


def measure(way: str, dsn: str, count: int, rate: float, heap: str) -> Found:
    with ExitStack() as stack:
        sql = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        sql.execute("select rowlease.configure_queue('bulk', '{}')")
        sql.execute(f"alter database {sql.info.dbname} set track_functions = 'pl'")
        stack.enter_context(worker(dsn))
        producer = Producer(dsn, rate)
        producer.start()
        watcher = Watcher(dsn)
        watcher.start()
        started = time.time()
        command = [sys.executable, "-m", "benchmarks.big_load", "--load", way, "--dsn", dsn,
                   "--rows", str(count), "--heap", heap]  # fmt: skip
        here = Path(__file__).parents[1]
        driver = stack.enter_context(subprocess.Popen(command, cwd=here))
        #: For each tenth of the rows, the most resident memory while it was staged.
        memory: dict[int, int] = {}
        while driver.poll() is None:
            time.sleep(0.25)
            found = sql.execute("select num_staged from rowlease.load").fetchall()
            tenth = min(10, 10 * found[0][0] // count) if found else 0
            memory[tenth] = max(memory.get(tenth, 0), resident(driver.pid))
        ended = time.time()
        producer.finish()
        watcher.finish()
        if driver.returncode or sql.execute(
            "select num_enqueued from rowlease.load"
        ).fetchall() != [(count,)]:
            raise SystemExit("the load failed")
        give_up = time.monotonic() + 30
        while True:
            found = sql.execute(
                "select request_id, result::text::float from rowlease.queue_history"
            ).fetchall()
            began_at: dict[int, float] = dict(found)
            if producer.sent.keys() <= began_at.keys() or time.monotonic() > give_up:
                break
            time.sleep(0.2)
        ((promote,),) = sql.execute(
            "select sum(total_time)::float from pg_stat_user_functions where funcname = 'promote'"
        ).fetchall()
    sent = producer.sent
    if not sent.keys() <= began_at.keys():
        raise SystemExit("some requests were never started")
    late = sorted(1000 * (began_at[n] - at) for n, at in sent.items())
    return Found(
        seconds=ended - started,
        transaction=watcher.longest,
        promote=promote,
        first=memory[min((tenth for tenth in memory if tenth), default=0)],
        most=max(memory.values()),
        p50=statistics.median(late),
        p99=late[int(0.99 * len(late))],
        longest=late[-1],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second beside it")
    parser.add_argument("--heap", default="1g", help="of the driver's JVM")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    add_dsn(parser)
    given = parser.parse_args()
    if given.load:
        load(given.load, given.dsn, given.rows, given.heap)
        return 0
    rows, goals = [], []
    with server(given.dsn) as place:
        printed = described(place)
        for way in WAYS:
            with database(place) as dsn:
                found = measure(way, dsn, given.rows, given.rate, given.heap)
                bare = bare_copy(dsn)
            rows.append([way, *found.cells(), f"{found.seconds / bare:.2f}"])
            what = f"seconds of COPY into a table without indexes, {way}"
            goals.append(at_most(what, TIMES, found.seconds / bare, "x"))
            what = f"a worker's start latency beside a big load, p99, {way}"
            goals.append(at_most(what, GOAL, found.p99, " ms"))
            what = f"the longest transaction of a big load, {way}"
            goals.append(at_most(what, LONGEST, found.transaction, " s"))
    title = f"{given.rows:,} rows, a heap of {given.heap}, {given.rate:g} requests a second beside"
    columns = ["way", "time", "longest transaction", "promote", "memory at first report",
               "most memory", "latency p50", "p99", "longest", "of a bare COPY"]  # fmt: skip
    return finish(Table(title, printed, columns, rows, goals))


if __name__ == "__main__":
    sys.exit(main())
