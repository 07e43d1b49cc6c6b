"""Writes the rows of a load by COPY, from Python on the executors.

`mapInArrow` gives a task the rows of its partition. The task writes them as parts of the load, and
returns one row, its report. Spark returns the report of one attempt of each task.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from rowlease.errors import ConfigError
from rowlease.model import Begun
from rowlease.spark.arrow_csv import texts
from rowlease.spark.jdbc import database_errors, is_connect
from rowlease.spark.load_progress import logged
from rowlease.spark.parts import Parts, TaskAttempt, staged, this_task
from rowlease.spark.promotion import NOT_STAGED, Load, Staged
from rowlease.spark.source_errors import one_sentence
from rowlease.store import Store, engine_of

logger = logging.getLogger("rowlease")

#: How rows are written; None means COPY where the executors can.
Way: TypeAlias = Literal["copy", "jdbc"] | None
#: Whether the executors of a session can write by COPY.
_can_copy: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def write_by_copy(rows: Any, load: Load, store: Store | None) -> Staged:
    """Write rows with `request_columns`. Log their number if there is a store.

    Raises:
        RowleaseError: nothing was staged, or nothing that counts; see `enqueue`.
    """
    parts = Parts(load.dsn, load.kind, rows.columns)
    with (
        logged(store, load.load_id, load.run.run_number),
        database_errors(load.dsn, NOT_STAGED),
    ):
        write = part_writer(parts, load.load_id, load.run)
        found = rows.mapInArrow(write, "report string").collect()
    attempts = [TaskAttempt(**json.loads(row["report"])) for row in found]
    return staged(load.load_id, load.run.run_number, attempts)


def part_writer(parts: Parts, load_id: str, run: Begun) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function that a Spark task runs: from the rows of a partition to the task's report."""

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        with one_sentence():
            attempt = parts.stage(load_id, run, this_task(), batches)
        yield pa.RecordBatch.from_arrays([texts([json.dumps(vars(attempt))])], ["report"])

    return write


def copies(spark: Any, dsn: str, by: Way) -> bool:
    """Whether the rows of a load are written by COPY, and not over JDBC.

    Raises:
        ConfigError: this cannot be done in the way `by`, or not at all.
    """
    has_copy = engine_of(dsn).has_copy
    if by == "copy" and not has_copy:
        raise ConfigError('SQL Server has no COPY; leave out by="copy"')
    found = by == "copy" or (by is None and has_copy and can_copy(spark))
    if not found and is_connect(spark):
        raise ConfigError(
            "in a session of Spark Connect, rows are written by COPY: the database must be "
            "PostgreSQL, and the executors' Python needs rowlease and psycopg"
        )
    return found


def can_copy(spark: Any) -> bool:
    """Whether the executors' Python has what `write_by_copy` needs.

    A job of one task finds out, once for each session: also a local one may run another Python. A
    job that fails is no answer, since somebody may have cancelled it.
    """
    if spark in _can_copy:
        return _can_copy[spark]
    try:
        found = spark.range(1, numPartitions=1).mapInArrow(probe(), "missing string").collect()
    except Exception as error:  # PySpark's, of many classes: Python itself may not work there
        _warn(str(error).strip().rpartition("\n")[2])
        return False
    if missing := found[0]["missing"]:
        _warn(missing)
    _can_copy[spark] = not missing
    return not missing


def _warn(missing: str) -> None:
    logger.warning("rows are written over JDBC, not by COPY: on the executors, %s", missing)


def probe() -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function for `mapInArrow` that imports what a task of `write_by_copy` needs.

    Its row tells what is missing. Spark sends a function inside a function as code, and not by its
    name, so this one needs no rowlease.
    """

    def imports(batches: Iterator[Any]) -> Iterator[Any]:
        from importlib import import_module

        import pyarrow as pa

        missing = ""
        try:
            for name in ("psycopg", "rowlease.spark.copy_writer"):
                import_module(name)
        except ImportError as error:
            missing = str(error)
        yield pa.RecordBatch.from_arrays([pa.array([missing])], ["missing"])

    return imports
