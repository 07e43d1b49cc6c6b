"""Converts the Arrow batches of a frame to blocks of CSV for COPY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowlease.errors import InvalidRequest
from rowlease.model import DUE_RANGE, DUE_TIMES, Begun
from rowlease.spark.columns import MAX_INTEGER
from rowlease.store.bulk import LANE


def lane_block(
    batch: Any, run: Begun, part: int, kind: str | None, ends_part: bool
) -> tuple[bytes, int]:
    """A batch as CSV rows for the table `lane`, and the number of priorities that were too high.

    Such priorities are lowered to the queue's maximum.

    Args:
        batch: an Arrow batch with the column `payload`, and optionally `kind`, `priority` and
            `headers`.
        kind: the kind of rows without one.
        ends_part: whether to set the column `ends_part` in the first row. Exactly one row of each
            part must have it, and any row will do.
    """
    import pyarrow as pa
    from pyarrow import compute

    rows = batch.num_rows
    given = dict(zip(batch.schema.names, batch.columns, strict=True))
    priorities = given.get("priority", pa.nulls(rows, pa.int32())).fill_null(0)
    clamped = compute.sum(compute.greater(priorities, run.max_priority)).as_py() or 0
    columns = [
        pa.repeat(run.run_number, rows),
        pa.repeat(part, rows),
        pa.array([ends_part or None, *[None] * (rows - 1)][:rows], pa.bool_()),
        compute.min_element_wise(priorities, run.max_priority),
        given.get("kind", pa.nulls(rows, pa.string())).fill_null(kind or ""),
        given["payload"].fill_null("{}"),
    ]
    names = [*LANE]
    if "headers" in given:
        columns.append(given["headers"])
        names.append("headers")
    return as_csv(columns, names), clamped


def as_csv(columns: list[Any], names: Sequence[str]) -> bytes:
    """Rows as CSV for PostgreSQL: null is an empty field, and an empty string is quoted."""
    import pyarrow as pa
    from pyarrow import csv

    block = pa.BufferOutputStream()
    how = csv.WriteOptions(include_header=False, quoting_style="needed")
    csv.write_csv(pa.RecordBatch.from_arrays(columns, list(names)), block, how)
    return bytes(block.getvalue().to_pybytes())


def as_staged(name: str, column: Any) -> Any:
    """A column converted to its type in the table `staging`; priorities are clamped.

    Raises:
        InvalidRequest: a due time is out of range.
    """
    import pyarrow as pa
    from pyarrow import compute

    if name == "priority":
        high = compute.min_element_wise(column, MAX_INTEGER, skip_nulls=False)
        return compute.max_element_wise(high, -MAX_INTEGER, skip_nulls=False).cast(pa.int32())
    if name == "due_time":
        utc = pa.timestamp("us", "UTC")
        times = column.cast(utc)
        earliest, latest = (pa.scalar(time, utc).value for time in DUE_TIMES)
        found = compute.min_max(times)
        if (
            found["min"].is_valid
            and not earliest <= found["min"].value <= found["max"].value <= latest
        ):
            raise InvalidRequest(DUE_RANGE)
        return times
    return column
