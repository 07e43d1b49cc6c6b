"""Many rows at once, past the routines: into the table `staging` and out of the views. PostgreSQL.

Writing and reading by the million is COPY's and a cursor's work, and no routine's. What is written
here no worker sees before `promote`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from psycopg import sql

from rowlease.errors import ConfigError
from rowlease.store import is_sqlserver, redact
from rowlease.store.postgresql import PostgresStore

#: Rows that a reader holds at once.
FETCHED = 5_000


class Window(NamedTuple):
    """From when (included) to when (not) requests ended; of unfinished ones, were last leased.

    Attributes:
        since, until: as PostgreSQL reads times; None: no such end.
    """

    since: str | None = None
    until: str | None = None


#: What a window looks at. Only by the plain column can partitions of the history be left out.
WHEN = {"queue": "coalesce(completion_time, locked_time)", "queue_history": "completion_time"}


class Slice(NamedTuple):
    """A range of request ids, both ends included; None: no rows at all."""

    first: int | None
    last: int | None


def bulk_store(dsn: str, application_name: str) -> PostgresStore:
    """A store that can do what is here.

    Raises:
        ConfigError: the DSN cannot be read, or names another engine.
    """
    if is_sqlserver(dsn):
        raise ConfigError(
            f"{redact(dsn)} is SQL Server, which has no COPY; write with rowlease.spark.enqueue"
        )
    return PostgresStore(dsn, application_name)


def copy_staged(store: PostgresStore, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
    """Write rows of a load, all of them or none: blocks of CSV, a row never cut by a block's end.

    Raises:
        StoreError: and its kin; also InvalidRequest for a text that the database cannot hold.
    """
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    command = sql.SQL("copy rowlease.staging ({}) from stdin (format csv)").format(names)
    with store.connection() as connection, connection.cursor().copy(command) as copy:
        for block in blocks:
            copy.write(block)


def clock(store: PostgresStore) -> datetime:
    """What the database's clock shows."""
    ((now,),) = store._call("now")
    return cast("datetime", now)


def slices(
    store: PostgresStore,
    table: str,
    equal: Mapping[str, str],
    count: int,
    window: Window | None = None,
) -> list[Slice]:
    """Cut the request ids of what is asked for into about equal ranges."""
    ends = ["min(request_id)", "max(request_id)"]
    query, values = _selection(table, ends, equal, Slice(0, None), window)
    with store.connection() as connection:
        ((first, last),) = connection.execute(query, values).fetchall()
    if first is None:
        return [Slice(None, None)]
    step = -(-(last - first + 1) // count)
    return [Slice(at, min(last, at + step - 1)) for at in range(first, last + 1, step)]


def read_slice(
    store: PostgresStore,
    table: str,
    columns: Sequence[str],
    equal: Mapping[str, str],
    part: Slice,
    window: Window | None = None,
) -> Iterator[tuple[Any, ...]]:
    """The rows of one range, in one snapshot; never all of them in memory."""
    if part.first is None:
        return
    query, values = _selection(table, columns, equal, part, window)
    with (
        store.connection() as connection,
        connection.transaction(),
        connection.cursor("rowlease") as cursor,
    ):
        cursor.itersize = FETCHED
        yield from cursor.execute(query, values)


def _selection(
    table: str,
    expressions: Sequence[str],
    equal: Mapping[str, str],
    part: Slice,
    window: Window | None,
) -> tuple[sql.Composed, dict[str, Any]]:
    since, until = window or Window()
    conditions = [sql.SQL("request_id >= %(first)s")]
    if since is not None:
        conditions.append(sql.SQL(f"{WHEN[table]} >= %(since)s::timestamptz"))
    if until is not None:
        conditions.append(sql.SQL(f"{WHEN[table]} < %(until)s::timestamptz"))
    if part.last is not None:
        conditions.append(sql.SQL("request_id <= %(last)s"))
    named = [
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in equal
    ]
    query = sql.SQL("select {} from rowlease.{} where {}").format(
        sql.SQL(", ").join(sql.SQL(each) for each in expressions),
        sql.Identifier(table),
        sql.SQL(" and ").join([*conditions, *named]),
    )
    return query, {
        **equal, "first": part.first, "last": part.last, "since": since, "until": until,
    }  # fmt: skip
