"""Reads times beyond the range of Python's `datetime`, which PostgreSQL can store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap, Buffer, Transformer
from psycopg.types.datetime import TimestamptzBinaryLoader

#: The value for all earlier times. It is a day after the earliest `datetime`, so that it exists in
#: every time zone.
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
#: The value for all later times, a day before the latest `datetime`.
LATEST = datetime(9999, 12, 30, tzinfo=UTC)


def bounded_rows(cursor: psycopg.Cursor[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of a cursor whose `fetchall` failed. Times out of range become EARLIEST or LATEST.

    Rows are loaded again only if they have such a time, because a check of every time would slow
    down every claim.
    """
    result = cursor.pgresult
    assert result is not None
    transformer = Transformer(Bounded())
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple)


class Bounding(TimestamptzBinaryLoader):
    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except psycopg.DataError:
            microseconds = int.from_bytes(bytes(data), "big", signed=True)
            return EARLIEST if microseconds < 0 else LATEST


class Bounded:
    """A context for psycopg's `Transformer` in which `Bounding` loads times."""

    connection = None
    adapters = AdaptersMap(psycopg.adapters)


Bounded.adapters.register_loader("timestamptz", Bounding)
