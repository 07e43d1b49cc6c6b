"""Writes many rows at once on PostgreSQL, by COPY."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, cast

import psycopg
from psycopg import sql

from rowlease.errors import InvalidRequest
from rowlease.store import deadlines
from rowlease.store.bulk import BulkStore
from rowlease.store.postgresql.connection import BoundedConnection
from rowlease.store.postgresql.store import PostgresStore


class PostgresBulkStore(PostgresStore, BulkStore):
    """See `rowlease.store.bulk.BulkStore`."""

    def copy_rows(self, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        command = sql.SQL("copy rowlease.lane ({}) from stdin (format csv)").format(names)
        with self._bulk() as connection:
            try:
                with connection.cursor().copy(command) as copy:
                    for block in blocks:
                        copy.write(block)
            except psycopg.errors.InvalidTextRepresentation as error:
                # The server's message quotes the value.
                raise InvalidRequest("a payload or a row's headers are not JSON") from error

    def now(self) -> datetime:
        ((now,),) = self._call("now")
        return cast("datetime", now)

    def one_row(self, query: str) -> tuple[Any, ...]:
        with self._bulk() as connection:
            (row,) = connection.execute(query.encode()).fetchall()
        return row

    def _bulk(self) -> AbstractContextManager[BoundedConnection]:
        """A connection for many rows, in a transaction."""
        return self.connection(deadlines.BULK, deadlines.BULK_AT_SERVER)
