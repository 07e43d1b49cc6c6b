"""Converts the Arrow batches of a frame to blocks of CSV for COPY.

PyArrow imports pandas to convert a value of Python, which takes each of Spark's processes longer
than a small load. So constants are made of bytes here.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

from rowlease.errors import InvalidRequest
from rowlease.model import DUE_RANGE, DUE_TIMES, Begun
from rowlease.store.bulk import LANE, NULLABLE


def lane_block(
    batch: Any, run: Begun, part: int, kind: str | None, ends_part: bool
) -> tuple[bytes, int]:
    """A batch as CSV rows for the table `lane`, and the number of priorities that were too high.

    Such priorities are lowered to the queue's maximum.

    Args:
        batch: an Arrow batch with the column `payload`, and optionally `kind`, `priority` and
            those of NULLABLE.
        kind: the kind of rows without one.
        ends_part: whether to set the column `ends_part` in the first row. Exactly one row of each
            part must have it, and any row will do.

    Raises:
        InvalidRequest: a due time is out of range.
    """
    import pyarrow as pa
    from pyarrow import compute

    rows = batch.num_rows
    given = dict(zip(batch.schema.names, batch.columns, strict=True))
    highest = number(run.max_priority)
    priorities = filled(given.get("priority", pa.nulls(rows, pa.int32())), number(0))
    clamped = compute.sum(compute.greater(priorities, highest)).as_py() or 0
    columns = [
        pa.repeat(number(run.run_number), rows),
        pa.repeat(number(part), rows),
        first_true(rows) if ends_part else pa.nulls(rows, pa.bool_()),
        compute.min_element_wise(priorities, highest),
        filled(given.get("kind", pa.nulls(rows, pa.string())), text(kind or "")),
        filled(given["payload"], text("{}")),
    ]
    more = {name: given[name] for name in NULLABLE if name in given}
    if "due_time" in more:
        more["due_time"] = due_times(more["due_time"])
    table = pa.RecordBatch.from_arrays([*columns, *more.values()], [*LANE, *more])
    if more.keys() <= {"headers"}:
        # In the order of the lane's key, rows cost the server less. The sort is stable. Groups and
        # equal keys have the order of the frame, across priorities.
        table = table.take(compute.array_sort_indices(columns[LANE.index("priority")]))
    return as_csv(table), clamped


def number(value: int) -> Any:
    """An integer as a scalar."""
    return numbers([value])[0]


def numbers(values: Sequence[int]) -> Any:
    """Integers as a column."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(array("q", values))])


def text(value: str) -> Any:
    """A string as a scalar."""
    return texts([value])[0]


def texts(values: Sequence[str]) -> Any:
    """Strings as a column."""
    import pyarrow as pa

    utf8 = [value.encode() for value in values]
    ends = [0, *accumulate(map(len, utf8))]
    buffers = [None, pa.py_buffer(array("i", ends)), pa.py_buffer(b"".join(utf8))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def filled(column: Any, value: Any) -> Any:
    """The column with a scalar in the place of nulls."""
    from pyarrow import compute

    return compute.coalesce(column, value.cast(column.type))


def first_true(rows: int) -> Any:
    """A column with true in the first row, and null in the others."""
    import pyarrow as pa

    bits = pa.py_buffer(b"\1" + bytes(rows // 8))
    return pa.Array.from_buffers(pa.bool_(), rows, [bits, bits])


def as_csv(rows: Any) -> bytes:
    """A batch as CSV for PostgreSQL: null is an empty field, and an empty string is quoted."""
    import pyarrow as pa
    from pyarrow import csv

    block = pa.BufferOutputStream()
    how = csv.WriteOptions(include_header=False, quoting_style="needed")
    csv.write_csv(rows, block, how)
    return bytes(block.getvalue().to_pybytes())


def due_times(column: Any) -> Any:
    """Due times in microseconds of UTC.

    Raises:
        InvalidRequest: a due time is out of range.
    """
    import pyarrow as pa
    from pyarrow import compute

    times = column.cast(pa.timestamp("us", "UTC"))
    earliest, latest = (
        (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) for time in DUE_TIMES
    )
    found = compute.min_max(times)
    if found["min"].is_valid and not earliest <= found["min"].value <= found["max"].value <= latest:
        raise InvalidRequest(DUE_RANGE)
    return times
