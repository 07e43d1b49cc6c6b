"""Creates missing indexes again, while workers work.

CREATE INDEX CONCURRENTLY lets others read and write, but it must be the only statement of its
transaction. On a partitioned table it is not possible: there the index is created on each
partition, and attached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import psycopg

from rowlease.store.calls import to_milliseconds
from rowlease.store.deadlines import MIGRATION_LOCK_TIMEOUT
from rowlease.store.differences import read_catalogue
from rowlease.store.postgresql import catalogue

#: In the definition of an index of the partitioned table, and of one of its default partition.
ON_HISTORY, ON_DEFAULT = " ON ONLY rowlease.queue_history ", " ON rowlease.queue_history_default "
#: Partitions of the history that have no index of their own for this one.
PARTITIONS = """
select p.relname from pg_inherits i join pg_class p on p.oid = i.inhrelid
 where i.inhparent = 'rowlease.queue_history'::regclass
   and not exists (select from pg_inherits h join pg_index x on x.indexrelid = h.inhrelid
                    where h.inhparent = to_regclass(%s) and x.indrelid = p.oid)
 order by 1"""
#: What an interrupted CREATE INDEX CONCURRENTLY has left.
INTERRUPTED_QUERY = """
select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid
 where c.relnamespace = 'rowlease'::regnamespace and c.relkind = 'i' and not i.indisvalid"""


class Missing(NamedTuple):
    """A missing index.

    Attributes:
        name: its name, with the schema.
        statements: those that create it. Each is to be sent alone, outside of a transaction.
    """

    name: str
    statements: list[str]


def missing_indexes(connection: psycopg.Connection) -> list[Missing]:
    """The indexes of this release that the database does not have, or not whole."""
    expected = read_catalogue("postgresql")
    found = catalogue.read(connection, [catalogue.INDEXES])
    left = {name for (name,) in connection.execute(INTERRUPTED_QUERY)}
    return [
        Missing(
            key.removeprefix("index "),
            _on_history(connection, key, expected, left)
            if ON_HISTORY in definition
            else _create(definition, left),
        )
        for key, definition in expected.items()
        if is_recreated(key, expected, found.get(key)) and ON_DEFAULT not in definition
    ]


def is_recreated(name: str, expected: Mapping[str, str], found: str | None) -> bool:
    """Whether `rowlease migrate` on PostgreSQL creates an object again, alone and at once.

    It does so with an index that is missing or only half made, unless it is that of a constraint.

    Args:
        name: the kind and name of the object.
        expected: the definitions of this release.
        found: the definition in the database; None if the object is missing there.
    """
    kind, _, index = name.partition(" ")
    return (
        kind == "index"
        and name in expected
        and found in (None, f"{expected[name]} invalid")
        and not any(
            one.startswith("constraint ")
            and one.rpartition(".")[2] == index.rpartition(".")[2]
            and definition.startswith(("PRIMARY KEY", "UNIQUE"))
            for one, definition in expected.items()
        )
    )


def _create(definition: str, left: set[str]) -> list[str]:
    create, _, rest = definition.partition("INDEX ")
    name = rest.partition(" ")[0]
    drop = [f"drop index concurrently if exists rowlease.{name}"] if name in left else []
    return [*drop, f"{create}INDEX CONCURRENTLY IF NOT EXISTS {rest}"]


def _on_history(
    connection: psycopg.Connection, key: str, expected: dict[str, str], left: set[str]
) -> list[str]:
    definition = expected[key]
    parent, what = key.removeprefix("index "), definition.partition(ON_HISTORY)[2]
    of_default = next(
        name for name, other in expected.items() if other.endswith(f"{ON_DEFAULT}{what}")
    )
    created, attached = [], []
    for (partition,) in connection.execute(PARTITIONS, [parent]):
        index = f"{partition}{parent.removeprefix('rowlease.queue_history')}"
        if partition == "queue_history_default":
            index = of_default.removeprefix("index rowlease.")
        created += _create(f"CREATE INDEX {index} ON rowlease.{partition} {what}", left)
        attached.append(f"alter index {parent} attach partition rowlease.{index}")
    of_parent = definition.replace("INDEX", "INDEX IF NOT EXISTS", 1)
    return [_briefly(of_parent), *created, _briefly(*attached)]


def _briefly(*statements: str) -> str:
    """A transaction that locks writers out for a moment. It does not wait long for its turn."""
    limit = f"set local lock_timeout = {to_milliseconds(MIGRATION_LOCK_TIMEOUT)}"
    return "; ".join(["begin", limit, *statements, "commit"])
