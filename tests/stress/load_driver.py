"""A driver of a load: it does what `format("rowlease")` does, without Spark."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import pyarrow as pa

from rowlease.errors import LoadLost
from rowlease.spark.parts import Parts

PARTITIONS, ROWS = 2, 40
#: Seconds between two batches of a partition, at most.
PAUSE = 0.02


class Task(NamedTuple):
    """A task of Spark's, with one attempt."""

    partition: int

    def partitionId(self) -> int:
        return self.partition

    def taskAttemptId(self) -> int:
        return self.partition


def rows(partition: int, by: str, draw: random.Random) -> Iterator[Any]:
    first = partition * ROWS
    for numbers in (range(first, first + ROWS // 2), range(first + ROWS // 2, first + ROWS)):
        texts = [f'{{"n": {n}, "by": "{by}"}}' for n in numbers]
        yield pa.RecordBatch.from_arrays([pa.array(texts)], ["payload"])
        time.sleep(draw.uniform(0, PAUSE))


def drive(dsn: str, load_id: str, name: str, said: Connection) -> None:
    """Be a driver; say `begun`, and how it ended."""
    parts, draw = Parts(dsn, "k", ["payload"]), random.Random(name)
    run = parts.begin(load_id, "default", f"{name}:{os.getpid()}")
    if run is None:
        said.send("repeat")
        return
    said.send("begun")
    try:
        written = [
            parts.stage(load_id, run, Task(each), rows(each, name, draw))
            for each in range(PARTITIONS)
        ]
        parts.promote(load_id, run.run_number, written)
        said.send("done")
    except LoadLost:
        parts.discard(load_id, run.run_number)
        said.send("taken over")
