"""Drivers that write one load at once, in drawn orders of their steps: one enqueues its own rows.

`ROWLEASE_STRESS_TIMES=20 pytest -s tests/stress/test_load_drivers.py` is the long form, 200
interleavings. A driver is what writes for `format("rowlease")`, without Spark: its tasks copy their
rows over connections of their own, which stay open in mid-COPY until it is their turn to commit.
What is drawn follows from ROWLEASE_STRESS_SEED and the turn, which a failing run names.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from rowlease.errors import LoadLost
from rowlease.model import Begun
from rowlease.spark.load import new_run
from rowlease.spark.parts import Parts, TaskAttempt
from rowlease.store import open_store
from tests.stress.meddler import ANSWERED, Meddler

TIMES = int(os.environ.get("ROWLEASE_STRESS_TIMES", "1"))
SEED = os.environ.get("ROWLEASE_STRESS_SEED", "1")
#: Interleavings for each of TIMES.
TURNS = 10
PARTITIONS, ROWS = 3, 40
#: Seconds that one step may take.
PATIENCE = 60
#: How many rows no load has, because their run was superseded.
LATE = """
    select count(*) from rowlease.lane r
     where not exists (select from rowlease.load l where l.run_number = r.run_number and l.in_lane)
"""
Sql = Callable[..., list[tuple[Any, ...]]]
Step = Callable[[], None]
pytestmark = pytest.mark.timeout(600 + TIMES * 120)


class Task:
    """A task of Spark's; it copies the rows of a partition, and commits when it is let go."""

    def __init__(self, partition: int, attempt: int) -> None:
        self._partition, self._attempt = partition, attempt
        self.copying, self.let_go = threading.Event(), threading.Event()
        self.written: Future[TaskAttempt] | None = None

    def partitionId(self) -> int:
        return self._partition

    def taskAttemptId(self) -> int:
        return self._attempt

    def rows(self, by: str) -> Iterator[Any]:
        """Rows in two batches; before the second, and the end of the COPY, it waits."""
        first = self._partition * ROWS
        for numbers in (range(first, first + ROWS // 2), range(first + ROWS // 2, first + ROWS)):
            texts = [f'{{"n": {n}, "by": "{by}"}}' for n in numbers]
            yield pa.RecordBatch.from_arrays([pa.array(texts)], ["payload"])
            self.copying.set()
            assert self.let_go.wait(PATIENCE)


class Driver:
    """A driver of the load, and its steps in the order in which it makes them.

    Attributes:
        told: its outcome in the end; `died` if it did not get one.
        loses_answer: the first answer to its promotion does not arrive.
        copies: of tasks, which commit when the driver has ended.
    """

    def __init__(
        self, name: str, dsn: str, load_id: str, draw: random.Random, threads: ThreadPoolExecutor
    ) -> None:
        self.name = name
        self.reported = "died"
        self._dsn, self._load_id, self._threads = dsn, load_id, threads
        self._run: Begun | None = None
        self.loses_answer = draw.random() < 0.2
        self.tasks = [Task(partition, partition) for partition in range(PARTITIONS)]
        copied = draw.sample(range(PARTITIONS), draw.choice([0, 0, 1]))
        self.copies = [Task(partition, PARTITIONS + partition) for partition in copied]
        starts = [partial(self._start, task) for task in (*self.tasks, *self.copies)]
        ends = [partial(self._end, task) for task in self.tasks]
        draw.shuffle(ends)
        late = [partial(self._end, task) for task in self.copies]
        dies = draw.random() < 0.15
        promotes = [] if dies else [self._promote]
        self.steps: list[Step] = [self._begin, *starts, *ends, *promotes, *late]

    def _parts(self, dsn: str) -> Parts:
        return Parts(dsn, "k", ["payload"])

    def _begin(self) -> None:
        self._run = self._parts(self._dsn).begin(self._load_id, "default", new_run())
        if self._run is None:
            self.reported = "repeat"

    def _start(self, task: Task) -> None:
        if self._run is None:
            return
        stage = self._parts(self._dsn).stage
        rows = task.rows(self.name)
        task.written = self._threads.submit(stage, self._load_id, self._run, task, rows)
        assert task.copying.wait(PATIENCE), task.written

    def _end(self, task: Task) -> None:
        task.let_go.set()
        if task.written is not None:
            task.written.exception(PATIENCE)

    def _promote(self) -> None:
        """What Spark does when all tasks have ended: commit, or abort if one has failed."""
        if self._run is None:
            return
        try:
            messages = [task.written.result() for task in self.tasks if task.written is not None]
            acts = {ANSWERED: (1, lambda _: False)} if self.loses_answer else {}
            with Meddler(self._dsn, acts) as wire:
                self._parts(wire.dsn).promote(self._load_id, self._run.run_number, messages)
            self.loses_answer = bool(wire.happened)
            self.reported = "done"
        except LoadLost:
            self._parts(self._dsn).discard(self._load_id, self._run.run_number)
            self.reported = "taken over"


def interleaved(drivers: Sequence[Driver], draw: random.Random) -> Iterator[Step]:
    """The drivers' steps in a drawn order; some drivers are faster than others."""
    left = {driver.name: list(driver.steps) for driver in drivers}
    speeds = {name: draw.choice([1, 1, 30]) for name in left}
    while left:
        (name,) = draw.choices([*left], [speeds[each] for each in left])
        yield left[name].pop(0)
        if not left[name]:
            del left[name]


def test_of_drivers_at_once_one_enqueues_its_own_rows(dsn: str, sql: Sql) -> None:
    seen: Counter[str] = Counter()
    began = time.monotonic()
    for turn in range(TIMES * TURNS):
        name, load_id = f"seed {SEED}, turn {turn}", f"load {turn}"
        draw = random.Random(name)
        with ThreadPoolExecutor(16) as threads:
            names = "ABC"[: draw.choice([2, 2, 3])]
            drivers = [Driver(each, dsn, load_id, draw, threads) for each in names]
            try:
                for step in interleaved(drivers, draw):
                    step()
                while not any(driver.reported == "done" for driver in drivers):  # the last one died
                    drivers.append(Driver(f"run {len(drivers)}", dsn, load_id, draw, threads))
                    for step in drivers[-1].steps:
                        step()
            finally:
                for driver in drivers:
                    for task in (*driver.tasks, *driver.copies):
                        task.let_go.set()
        reported = {driver.name: driver.reported for driver in drivers}
        done = [each for each, what in reported.items() if what == "done"]
        found = sql(
            "select (payload ->> 'n')::int, payload ->> 'by' from rowlease.requests"
            " where load_id = %s order by 1",
            [load_id],
        )
        assert found == [(n, done[0]) for n in range(PARTITIONS * ROWS)], f"{name}: {reported}"
        assert len(done) == 1, f"{name}: {reported}"
        ((late,),) = sql(LATE)
        with closing(open_store(dsn)) as fresh:  # a slow sweep makes later ones of its session rare
            fresh.maintain()
        assert sql(LATE) == [(0,)], name
        seen.update(f"told {each}" for each in reported.values())
        seen["interleavings"] += 1
        seen[f"of {len(names)} drivers"] += 1
        seen["rows"] += len(found)
        seen["distinct rows"] += len({n for n, _ in found})
        seen["late rows dropped"] += late
        seen["copies of tasks"] += sum(len(driver.copies) for driver in drivers)
        seen["answers lost"] += sum(
            driver.loses_answer for driver in drivers if driver.reported == "done"
        )
    printed = ", ".join(f"{what} {count}" for what, count in sorted(seen.items()))
    sys.stdout.write(f"\nseed {SEED}: {printed}; {time.monotonic() - began:.0f} s\n")
    assert seen["told taken over"] > 0
    assert seen["told repeat"] > 0
