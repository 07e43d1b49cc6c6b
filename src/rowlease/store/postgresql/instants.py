"""Times outside Python's calendar, which PostgreSQL can store and a DBA may have written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap, Buffer, Transformer
from psycopg.types.datetime import TimestamptzBinaryLoader

#: The values for them: a day inside the calendar, so that they exist in every time zone.
FIRST, LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


def all_rows(cursor: psycopg.Cursor[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """As `fetchall`, with times outside Python's calendar moved to its ends.

    Only rows with such a time are read a second time, because a check of every time would slow
    down every claim.
    """
    try:
        return cursor.fetchall()
    except psycopg.DataError:
        if cursor.pgresult is None:
            raise
        transformer = Transformer(Bounded())
        transformer.set_pgresult(cursor.pgresult)
        return transformer.load_rows(0, cursor.pgresult.ntuples, tuple)


class Bounding(TimestamptzBinaryLoader):
    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except psycopg.DataError:
            microseconds = int.from_bytes(bytes(data), "big", signed=True)
            return FIRST if microseconds < 0 else LAST


class Bounded:
    """A context of psycopg with these loaders."""

    connection = None
    adapters = AdaptersMap(psycopg.adapters)


Bounded.adapters.register_loader("timestamptz", Bounding)
