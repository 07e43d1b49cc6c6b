"""Converts the Arrow batches of a frame to blocks of CSV for COPY."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rowlease.errors import InvalidRequest
from rowlease.spark.columns import MAX_INTEGER
from rowlease.store.bulk import LANE

#: As the routine check_request has them.
MAX_KIND, MAX_PAYLOAD = 200, 1_048_576
#: Larger ones are clamped; promote clamps to the queue's maximum.
MAX_PRIORITY = 255


def lane_block(
    batch: Any, run_number: int | None, part: int, kind: str | None
) -> tuple[bytes, Counter[int]]:
    """Rows for the lane, and the number of rows of each priority.

    Args:
        batch: with the column payload, perhaps also kind and priority.
        kind: for rows without a kind.

    Raises:
        InvalidRequest: see `check_rows`.
    """
    import pyarrow as pa
    from pyarrow import compute

    rows = batch.num_rows
    given = dict(zip(batch.schema.names, batch.columns, strict=True))
    priorities = given.get("priority", pa.nulls(rows, pa.int32())).fill_null(0)
    priorities = compute.min_element_wise(priorities, MAX_PRIORITY).cast(pa.int32())
    kinds = given.get("kind", pa.nulls(rows, pa.string())).fill_null(kind or "")
    payloads = given["payload"].fill_null("{}")
    check_rows(kinds, priorities, payloads)
    ids = [pa.repeat(number, rows) for number in (run_number, part)]
    found = compute.value_counts(priorities).to_pylist()
    counts = Counter({each["values"]: each["counts"] for each in found})
    return as_csv([*ids, priorities, kinds, payloads], LANE), counts


def as_csv(columns: list[Any], names: Sequence[str]) -> bytes:
    """Rows as CSV for PostgreSQL: null is an empty field, and an empty text is quoted."""
    import pyarrow as pa
    from pyarrow import csv

    block = pa.BufferOutputStream()
    how = csv.WriteOptions(include_header=False, quoting_style="needed")
    csv.write_csv(pa.RecordBatch.from_arrays(columns, list(names)), block, how)
    return bytes(block.getvalue().to_pybytes())


def check_rows(kind: Any, priority: Any, payload: Any) -> None:
    """Check rows for the lane; the routine check_request has the same limits for others.

    Raises:
        InvalidRequest: the message does not quote the row.
    """
    from pyarrow import compute

    if not len(kind):
        return
    lengths = compute.min_max(compute.utf8_length(kind))
    if lengths["min"].as_py() == 0 or lengths["max"].as_py() > MAX_KIND:
        raise InvalidRequest(f"kind must name a task in 1 to {MAX_KIND} characters")
    if (lowest := compute.min(priority).as_py()) < 0:
        raise InvalidRequest(
            f"priority is {lowest}; it must be 0 or more, and bigger is more urgent"
        )
    if (size := compute.max(compute.binary_length(payload)).as_py()) > MAX_PAYLOAD:
        raise InvalidRequest(
            f"payload has {size} bytes; at most {MAX_PAYLOAD} fit, store the rest elsewhere and "
            "enqueue a reference"
        )


def as_staged(name: str, column: Any) -> Any:
    """A column converted to the type of the table `staging`."""
    import pyarrow as pa
    from pyarrow import compute

    if name == "priority":
        high = compute.min_element_wise(column, MAX_INTEGER, skip_nulls=False)
        return compute.max_element_wise(high, -MAX_INTEGER, skip_nulls=False).cast(pa.int32())
    if name == "due_time":
        return column.cast(pa.timestamp("us", "UTC"))
    return column
