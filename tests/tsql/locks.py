"""A model of SQL Server's locks: what a worker's call meets of a transaction that is open.

The rules are those of READ COMMITTED without READ_COMMITTED_SNAPSHOT. A transaction keeps an
exclusive lock on each entry of an index that it has written, also of one that it has removed, until
it ends. A read, and the search of a change, ask for a lock on each entry that they visit, and wait
for that transaction, up to the session's lock time-out. With READPAST they skip the entry, and with
NOWAIT they end with error 1222 at once. They visit what the sought columns say, whatever else the
query asks: the server compares the rest of a row when it has the lock. A look without a seek visits
all rows. Locks stay on rows, because escalation is off. An application lock is waited for unless
the call says that it is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from rowlease.store import deadlines
from rowlease.store.routines import all_files
from tests.tsql import scriptdom
from tests.tsql.rules.app_locks import sequence
from tests.tsql.rules.seeks import Index, indexes, is_equality, predicates
from tests.tsql.script import hints, is_changed, is_inserted, is_named_again, name_of, schema_of
from tests.tsql.scriptdom import Node

#: A value that no other transaction can know yet, such as the id of a row that is not committed.
OWN = object()
#: A row, as an index sees it. What is not named may have any value.
Row = dict[str, object]
FILES = {file.name: file.body for file in all_files("sqlserver")}
CONDITION = re.compile(r"(\w+?)(=|<>|>|in|isnotnull|isnull)(.*)")


class Open(NamedTuple):
    """A transaction that stays open.

    Attributes:
        routines: what it has called.
        without: what those do not call in it.
        rows: what it has written, by table.
    """

    routines: tuple[str, ...]
    without: frozenset[str]
    rows: dict[str, list[Row]]


class Meeting(NamedTuple):
    """A look at a table that visits an entry which another transaction has locked.

    Attributes:
        waits_ms: how long the look waits for a transaction that does not end.
    """

    routine: str
    table: str
    reference: Node
    waits_ms: int


def called_by(*names: str, without: frozenset[str] = frozenset()) -> set[str]:
    """These routines, and all that they call."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name in FILES and name not in found | without:
            found.add(name)
            code = re.sub("--.*|'(?:[^']|'')*'", "", FILES[name])
            left += re.findall(r"\browlease(?:_internal)?\.(\w+)", code)
    return found


@cache
def references(text: str) -> list[Node]:
    """The looks of a script at tables of the schema."""
    tree, errors = scriptdom.load()(text)
    assert tree is not None, errors
    return [
        one
        for one in tree.walk("NamedTableReference")
        if schema_of(one.get("SchemaObject")) == "rowlease"
    ]


def written_by(other: Open) -> set[str]:
    """The tables that the routines of a transaction write."""
    return {
        name_of(one.get("SchemaObject"))
        for routine in called_by(*other.routines, without=other.without)
        for one in references(FILES[routine])
        if is_inserted(one) or is_changed(one)
    }


def meetings(text: str, other: Open, routine: str = "") -> Iterator[Meeting]:
    """What the statements of a script meet of an open transaction's rows."""
    for one in references(text):
        table = name_of(one.get("SchemaObject"))
        if is_inserted(one) or is_named_again(one):
            continue
        if any(_visits(one, row) for row in other.rows.get(table, ())):
            yield Meeting(routine, table, one, _patience(text, one))


def _visits(reference: Node, row: Row) -> bool:
    named = next(reference.walk("IdentifierOrValueExpression"), None)
    index = indexes().get(name_of(named))
    return index is None or (_has(index, row) and not _is_elsewhere(reference, index, row))


def _has(index: Index, row: Row) -> bool:
    """May a row be in a filtered index?"""
    return all(_may_be(condition, row) for condition in index.conditions)


def _may_be(condition: str, row: Row) -> bool:
    found = CONDITION.fullmatch(condition)
    assert found is not None, condition
    column, operator, right = found.groups()
    if column not in row or row[column] is OWN:
        return True
    value = row[column]
    if operator in ("isnull", "isnotnull"):
        return (value is None) == (operator == "isnull")
    given = str(value) if isinstance(value, int) else f"'{value}'".lower()
    same = given in re.findall(r"'\w+'|\d+", right)
    return same != (operator == "<>") if operator != ">" else True


def _is_elsewhere(reference: Node, index: Index, row: Row) -> bool:
    """Is a row in another place of an index than a look that seeks?"""
    for column in index.columns:
        asked = [one for one, is_alone in predicates(reference, column) if is_alone]
        equal = [one for one in asked if is_equality(one)]
        if not equal:
            return False
        if row.get(column) is OWN:
            return True
    return False


def _patience(text: str, reference: Node) -> int:
    if hints(reference) & {"readpast", "nowait"}:
        return 0
    times = re.findall(r"set lock_timeout (\d+)", text[: reference.offset])
    return int(times[-1]) if times else round(deadlines.LOCK.total_seconds() * 1000)


def without_hint(text: str, reference: Node) -> str:
    """A script in which one look does not say how it treats locked rows."""
    end = reference.offset + reference.net.FragmentLength
    own = re.sub(
        r"\b(readpast|readcommittedlock|nowait)\b", "rowlock", text[reference.offset : end]
    )
    return text[: reference.offset] + own + text[end:]


def refused(call: str, other: Open) -> set[str]:
    """The kinds of application locks of an open transaction for which a call waits."""
    held = {
        (lock.kind, lock.mode)
        for name in other.routines
        for lock in sequence(name, FILES[name], tuple(other.without))
    }
    return {
        lock.kind
        for lock in sequence(call, FILES[call])
        if lock.waits
        and any(kind == lock.kind and {mode, lock.mode} != {"shared"} for kind, mode in held)
    }
