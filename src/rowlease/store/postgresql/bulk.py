"""Writes and reads many rows at once on PostgreSQL, by COPY."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, cast

import psycopg
from psycopg import sql

from rowlease.errors import InvalidRequest
from rowlease.store import deadlines
from rowlease.store.bulk import BulkStore, IdRange, Window
from rowlease.store.postgresql.connection import BoundedConnection
from rowlease.store.postgresql.store import PostgresStore

#: The size from which a block that is read is passed on, in bytes.
BLOCK = 1 << 20
#: The condition for unfinished requests in the view `requests`, which also has the history.
UNFINISHED = "status in ('Scheduled', 'Pending', 'Processing', 'Failed')"
#: The time of a request that a `Window` selects by, for each table. For the history it must be the
#: plain column, so that PostgreSQL can skip partitions.
WHEN = {"queue": "coalesce(completion_time, locked_time)", "queue_history": "completion_time"}


class PostgresBulkStore(PostgresStore, BulkStore):
    """See `rowlease.store.bulk.BulkStore`."""

    def copy_rows(self, table: str, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        command = sql.SQL(f"copy rowlease.{table} ({{}}) from stdin (format csv)").format(names)
        with self._bulk() as connection:
            try:
                with connection.cursor().copy(command) as copy:
                    for block in blocks:
                        copy.write(block)
            except psycopg.errors.InvalidTextRepresentation as error:
                # The server's message quotes the payload.
                raise InvalidRequest("a payload is not JSON; nothing was enqueued") from error

    def id_ranges(
        self,
        table: str,
        equal: Mapping[str, Collection[str]],
        count: int,
        window: Window | None = None,
    ) -> list[IdRange]:
        ends = ["min(request_id)", "max(request_id)"]
        query, values = _selection(table, ends, equal, IdRange(0, None), window)
        with self._bulk() as connection:
            ((first, last),) = connection.execute(query, values).fetchall()
        if first is None:
            return [IdRange(None, None)]
        step = -(-(last - first + 1) // count)
        return [IdRange(at, min(last, at + step - 1)) for at in range(first, last + 1, step)]

    def read_range(
        self,
        table: str,
        columns: Sequence[str],
        equal: Mapping[str, Collection[str]],
        part: IdRange,
        window: Window | None = None,
    ) -> Iterator[bytes]:
        if part.first is None:
            return
        query, values = _selection(table, columns, equal, part, window)
        command = sql.SQL("copy ({}) to stdout (format csv)").format(query)
        block = bytearray()
        with self._bulk() as connection:
            connection.execute("set local timezone = 'UTC'")
            connection.execute("set local datestyle = 'ISO'")
            with connection.cursor().copy(command, values) as rows:
                for row in rows:
                    block += row
                    if len(block) >= BLOCK:
                        yield bytes(block)
                        block.clear()
        yield bytes(block)

    def now(self) -> datetime:
        ((now,),) = self._call("now")
        return cast("datetime", now)

    def _bulk(self) -> AbstractContextManager[BoundedConnection]:
        """A connection for many rows, in a transaction."""
        return self.connection(deadlines.BULK, deadlines.BULK_AT_SERVER)


def _selection(
    table: str,
    expressions: Sequence[str],
    equal: Mapping[str, Collection[str]],
    part: IdRange,
    window: Window | None,
) -> tuple[sql.Composed, dict[str, Any]]:
    since, until = window or Window()
    conditions = [sql.SQL("request_id >= %(first)s")]
    if table == "queue":
        conditions.append(sql.SQL(UNFINISHED))
    if since is not None:
        conditions.append(sql.SQL(f"{WHEN[table]} >= %(since)s::timestamptz"))
    if until is not None:
        conditions.append(sql.SQL(f"{WHEN[table]} < %(until)s::timestamptz"))
    if part.last is not None:
        conditions.append(sql.SQL("request_id <= %(last)s"))
    named = [
        sql.SQL("{} = any({})").format(sql.Identifier(name), sql.Placeholder(name))
        for name in equal
    ]
    query = sql.SQL("select {} from rowlease.{} where {}").format(
        sql.SQL(", ").join(sql.SQL(each) for each in expressions),
        sql.Identifier("requests" if table == "queue" else table),
        sql.SQL(" and ").join([*conditions, *named]),
    )
    values = {name: list(allowed) for name, allowed in equal.items()}
    return query, {
        **values, "first": part.first, "last": part.last, "since": since, "until": until,
    }  # fmt: skip
