"""Rules about plans: which index a statement seeks, and that it can."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.tsql.script import (
    QUEUE,
    File,
    hints,
    is_changed,
    is_inserted,
    is_named_again,
    name_of,
    schema_of,
    statement_of,
)
from tests.tsql.scriptdom import Node

#: Columns by which the partial indexes of the queue are filtered: a predicate that compares them
#: with a variable cannot use the index, with any value of the variable.
FILTERED = {"status", "groupblocked", "returned"}
SEEK = {"index", "forceseek"}
#: Tables that grow, of which no statement may scan what it changes.
LARGE = {"queue", "queuehistory", "queuedepth", "lane", "enqueuereceipt"}
#: Tables with rows of many requests, of which no statement of a worker may scan anything, either.
SOUGHT = LARGE | {
    "lanepart", "attempt", "operation", "requeued", "batch", "batchwait", "progress", "ratestart",
    "unknownkind", "cancellation", "deadlettertask",
}  # fmt: skip
#: Folders in which each look at those tables is a seek of a named index, too; but a receipt is
#: looked up by its key, which is all the query has.
PINNED = {"dequeue", "enqueue", "finish", "load", "maintain"}
BY_KEY = {"enqueuereceipt"}
#: Tables of which most rows are history: each look without the key is a seek of a named index.
LEDGERS = {"load"}
#: Routines that read a whole queue or all counts, and the tables.
READ_WHOLE = {
    ("sample_requests", "queue"), ("sample_requests", "lane"), ("recount_queues", "queuedepth"),
    ("fold_depth", "queuedepth"), ("finish_idle_batches", "queuedepth"),
    ("begin_day", "queuedepth"), ("sweep_progress", "progress"), ("due_steps", "progress"),
    ("due_steps", "queuedepth"), ("advance_ids", "lanepart"),
}  # fmt: skip
#: Routines that change all counts of a queue, or look at all parts of the lane, and the table.
CHANGED_WHOLE = {
    ("delete_queue", "queuedepth"), ("delete_queue", "unknownkind"), ("sweep_lane", "lanepart"),
    ("delete_queue", "deadlettertask"),
    ("forget_stream", "load"),
}  # fmt: skip
MIGRATIONS = Path(__file__).resolve().parents[3] / "migrations" / "versions"
INDEX = re.compile(
    r"create (?:unique )?(?:clustered )?index (\w+) on rowlease\.(\w+) \((.*?)\)"
    r"(?: include \((.*?)\))?(?: where (.*?))?(?: with \((.*?)\))?;"
)
KEY = re.compile(
    r"constraint (\w+_pkey) primary key (?:clustered )?\(([\w, ]+)\)(?: with \((.*?)\))?[, ]"
)
COUNTS = {"correct_counts"}


class Index(NamedTuple):
    """An index: its table, columns, included columns, the conditions of its filter, its options.

    Attributes:
        descending: those of its columns that are in descending order.
    """

    table: str
    columns: list[str]
    included: list[str]
    conditions: list[str]
    options: str
    descending: frozenset[str] = frozenset()


class Seek(NamedTuple):
    """The seek that a hint demands: its index, and the columns that it names."""

    of: str
    columns: list[str]


def seek_of(reference: Node) -> Seek | None:
    for hint in reference.children:
        if hint.kind == "ForceSeekTableHint":
            named = next(reference.walk("IdentifierOrValueExpression"), None)
            columns = [name_of(one) for one in hint.children if one.role == "ColumnValues"]
            return Seek(name_of(named), columns)
    return None


@cache
def indexes() -> dict[str, Index]:
    found: dict[str, Index] = {}
    for path in sorted(MIGRATIONS.glob("*_sqlserver.sql")):
        found |= indexes_of(path.read_text(encoding="utf-8"))
    return found


def key_of(table: str) -> list[str]:
    """The columns of a table's primary key."""
    return next(
        index.columns
        for name, index in indexes().items()
        if index.table == table and name.endswith("_pkey")
    )


def _has_key(reference: Node, table: str) -> bool:
    """Does a query compare each column of the primary key?"""
    return all(
        any(is_equality(node) for node, is_alone in predicates(reference, column) if is_alone)
        for column in key_of(table)
    )


def indexes_of(script: str) -> dict[str, Index]:
    """The indexes that a script makes."""
    text = re.sub(r"\s+", " ", re.sub(r"--.*|[][]", "", script)).lower()
    found = {}
    for made in text.split("create table rowlease."):
        for name, columns, options in KEY.findall(made):
            found[name] = Index(made.partition(" ")[0], columns.split(", "), [], [], options)
    for name, table, columns, included, condition, options in INDEX.findall(text):
        found[name] = Index(
            table,
            [column.split()[0] for column in columns.split(", ")],
            included.split(", ") if included else [],
            [one.replace(" ", "") for one in condition.split(" and ") if one],
            options,
            frozenset(one.split()[0] for one in columns.split(", ") if one.endswith(" desc")),
        )
    return found


def seeks_are_pinned(file: File) -> Iterator[tuple[Node, str]]:
    """A plan is made for the rows of one moment: a scan would lock the whole table at another."""
    for reference in file.tree.walk("NamedTableReference"):
        table = name_of(reference.get("SchemaObject"))
        if table not in SOUGHT | LEDGERS or is_inserted(reference):
            continue
        if table in LEDGERS and _has_key(reference, table):
            continue
        seek = next((n for n in reference.children if n.kind == "ForceSeekTableHint"), None)
        columns = seek is not None and seek.get("ColumnValues") is not None
        if hints(reference) & SEEK and reference.role == "Target":
            yield reference, "SQL Server takes index and forceseek only in the from clause"
        elif columns and is_changed(reference):
            yield reference, "SQL Server takes no forceseek with columns for what is changed"
        is_pinned = file.folder in PINNED and table not in BY_KEY
        if not (is_pinned or is_changed(reference)) or is_named_again(reference):
            continue
        whole = CHANGED_WHOLE if is_changed(reference) else READ_WHOLE
        if (file.name, table) in whole or file.name in COUNTS:
            continue
        if seek is None or not (columns or "index" in hints(reference)):
            yield reference, "name the index and say forceseek"
        else:
            yield from _seeks_well(file, reference, seek, table)
        yield from _joins_well(reference, columns)


def _seeks_well(file: File, reference: Node, seek: Node, table: str) -> Iterator[tuple[Node, str]]:
    """A seek that SQL Server cannot make is its error 8622, in each call."""
    named = next(reference.walk("IdentifierOrValueExpression"))
    index = indexes().get(name_of(named))
    columns = [name_of(one) for one in seek.children if one.role == "ColumnValues"]
    query = next(above for above in reference.above() if above.kind.endswith("Specification"))
    if index is None or index.table != table or columns != index.columns[: len(columns)]:
        yield reference, f"{table} has no index {name_of(named)} that begins with these columns"
    elif missing := [one for one in index.conditions if one not in file.text_of(query)]:
        yield (
            reference,
            f"{name_of(named)} has only rows where {' and '.join(missing)}: ask for them",
        )


def _joins_well(reference: Node, columns: bool) -> Iterator[tuple[Node, str]]:
    """A seek by the columns of a join leaves one plan; a seek of an index alone does not."""
    statement = statement_of(reference)
    given = getattr(statement and statement.net, "OptimizerHints", ())
    said = {str(hint.HintKind) for hint in given}
    is_joined = any(above.kind == "QualifiedJoin" for above in reference.above())
    if is_joined and not columns and not {"LoopJoin", "ForceOrder"} <= said:
        yield reference, "say option (loop join, force order), or forceseek with columns"
    if (is_changed(reference) or "updlock" in hints(reference)) and "MaxDop" not in said:
        yield reference, "say option (maxdop 1): parallel threads lock rows in any order"


def literals_for_filtered_indexes(file: File) -> Iterator[tuple[Node, str]]:
    for comparison in file.tree.walk("BooleanComparisonExpression"):
        sides = comparison.children
        for one, other in ((sides[0], sides[-1]), (sides[-1], sides[0])):
            if (
                one.kind == "ColumnReferenceExpression"
                and name_of(one) in FILTERED
                and other.kind == "VariableReference"
                and _is_of_the_queue(one)
            ):
                yield comparison, f"{name_of(one)} = a variable cannot use a filtered index"


def _is_of_the_queue(column: Node) -> bool:
    """Is the column one of the queue's, as far as the statement's own names tell?"""
    statement = statement_of(column)
    if statement is None:
        return False
    qualifier = schema_of(column)
    for reference in statement.walk("NamedTableReference"):
        if name_of(reference.get("SchemaObject")) == QUEUE:
            alias = name_of(reference.get("Alias")) or QUEUE
            if qualifier in ("", alias):
                return True
    return False


#: Predicates in which a column stands alone, so that an index can be sought by it.
PREDICATES = ("BooleanComparisonExpression", "InPredicate", "BooleanTernaryExpression",
              "BooleanIsNullExpression", "LikePredicate")  # fmt: skip


def columns_stand_alone(file: File) -> Iterator[tuple[Node, str]]:
    """A function, a cast or a collation round an indexed column hides it from the index."""
    for reference in file.tree.walk("NamedTableReference"):
        seek = seek_of(reference)
        if seek is None or (index := indexes().get(seek.of)) is None:
            continue
        for column in seek.columns or index.columns[:1]:
            asked = [*predicates(reference, column)]
            if not any(is_alone and _is_own(node, reference) for node, is_alone in asked):
                yield reference, f"{seek.of} is sought by {column}: ask for it"
            for node, is_alone in asked:
                if not is_alone:
                    yield node, f"{column} must stand alone, or {seek.of} cannot be sought"


def the_longest_seek_is_named(file: File) -> Iterator[tuple[Node, str]]:
    """A hint that names fewer columns, or a worse index, reads and locks more rows."""
    for reference in file.tree.walk("NamedTableReference"):
        seek = seek_of(reference)
        if seek is None or (index := indexes().get(seek.of)) is None:
            continue
        named, query = _num_asked(reference, index), _query_of(reference)
        for name, other in indexes().items():
            has_rows = all(one in file.text_of(query) for one in other.conditions)
            if other.table == index.table and has_rows and _num_asked(reference, other) > named:
                yield reference, f"{name} is sought by more columns than {seek.of}"
        if seek.columns and len(seek.columns) < _num_given(reference, index):
            yield reference, f"name the other columns of {seek.of} that are asked for"


def _num_asked(reference: Node, index: Index) -> int:
    """How many leading columns of an index a query asks for, the last one also by a range."""
    number = 0
    for column in index.columns:
        asked = [node for node, is_alone in predicates(reference, column) if is_alone]
        if not any(is_equality(one) for one in asked):
            return number + bool(asked)
        number += 1
    return number


def _num_given(reference: Node, index: Index) -> int:
    """How many leading columns of an index a query compares with variables and literals."""
    given = [
        any(is_equality(one) and _is_given(one) for one, _ in predicates(reference, column))
        for column in index.columns
    ]
    return [*given, False].index(False)


def is_alternative(node: Node) -> bool:
    """Is a condition one side of an OR?"""
    return any(
        one.kind == "BooleanBinaryExpression" and str(one.net.BinaryExpressionType) == "Or"
        for one in node.above()
    )


def _is_given(column: Node) -> bool:
    others = [one for one in (column.parent or column).children if one is not column]
    return not is_alternative(column) and all(
        one.kind == "VariableReference" or one.kind.endswith("Literal") for one in others
    )


def is_equality(column: Node) -> bool:
    predicate = column.parent
    return predicate is not None and (
        predicate.kind == "InPredicate"
        or (
            predicate.kind == "BooleanComparisonExpression"
            and str(predicate.net.ComparisonType) == "Equals"
        )
    )


def predicates(reference: Node, column: str) -> Iterator[tuple[Node, bool]]:
    """The uses of a table's column in conditions; does the column stand alone there?"""
    alias = name_of(reference.get("Alias")) or name_of(reference.get("SchemaObject"))
    for node in _query_of(reference).walk("ColumnReferenceExpression"):
        name = node.get("MultiPartIdentifier")  # without a collation
        if name_of(name) != column or schema_of(name) not in ("", alias) or node.parent is None:
            continue
        if node.role == "ColumnValues":
            continue  # of a hint
        inside = [*node.above()]
        conditions = [one for one in inside if one.role in ("WhereClause", "SearchCondition")]
        if conditions and not any(
            one.role == "SelectElements" for one in inside[: inside.index(conditions[0])]
        ):
            yield node, node.parent.kind in PREDICATES and node.net.Collation is None


def _is_own(node: Node, reference: Node) -> bool:
    """Is a condition of the query itself, and not of a query within?"""
    inside = next(above for above in node.above() if above.kind.endswith("Specification"))
    return inside is _query_of(reference)


def _query_of(reference: Node) -> Node:
    return next(above for above in reference.above() if above.kind.endswith("Specification"))


def literals_have_the_column_s_type(file: File) -> Iterator[tuple[Node, str]]:
    """N'...' beside a varchar column converts the column, and no index helps."""
    for literal in file.tree.walk("StringLiteral"):
        predicate = literal.parent
        if predicate is None or predicate.kind not in PREDICATES or not literal.net.IsNational:
            continue
        for one in predicate.children:
            if one.kind == "ColumnReferenceExpression" and name_of(one) in varchars():
                yield literal, f"{name_of(one)} is varchar: leave the N out"


@cache
def varchars() -> set[str]:
    """Columns that are varchar in each table that has them."""
    text = "".join(p.read_text(encoding="utf-8") for p in MIGRATIONS.glob("*_sqlserver.sql"))
    found = re.findall(r"^  (\w+) +(n?varchar)\b", text.lower(), re.MULTILINE)
    return {name for name, _ in found} - {name for name, kind in found if kind == "nvarchar"}
