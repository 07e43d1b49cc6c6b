"""Rules about housekeeping: it stops nobody, and works in small steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.tsql.guards import guards
from tests.tsql.rules.seeks import SOUGHT, indexes, is_alternative, key_of, seek_of
from tests.tsql.script import File, is_changed, name_of
from tests.tsql.scriptdom import Node

#: Routines outside of the folder maintain that work in steps, too.
STEPS = {
    "break_expired", "lower_priorities", "sweep_lane", "sweep_loads", "take_group", "wake_due",
}  # fmt: skip


def housekeeping_waits_for_nobody(file: File) -> Iterator[tuple[Node, str]]:
    """What a worker calls beside its work loses each deadlock, and waits for no lock."""
    if file.folder != "maintain" or file.schema != "rowlease":
        return
    begins = next(file.tree.walk("BeginTransactionStatement"), None)
    if begins is None:
        return
    before = file.text[: begins.offset].lower()
    for setting in ("set deadlock_priority low;", "set lock_timeout 0;"):
        if setting not in before:
            yield begins, f"before its first transaction housekeeping says: {setting}"


def listed_texts_are_there(file: File) -> Iterator[tuple[Node, str]]:
    """guards.toml lists texts that no other rule can derive."""
    for pattern, why in guards("says").get(file.name, ()):
        if not re.search(pattern, file.text, re.DOTALL):
            yield file.tree, f"{why}: {pattern}"


def steps_are_bounded(file: File) -> Iterator[tuple[Node, str]]:
    """Each row that a transaction changes is a lock until its commit."""
    if file.folder != "maintain" and file.name not in STEPS:
        return
    for node in file.tree.walk("UpdateSpecification", "DeleteSpecification", "InsertSpecification"):
        derived = [one.get("QueryExpression") for one in node.walk("QueryDerivedTable")]
        source = node.get("InsertSource")
        for query in [
            *derived,
            node if source is None else next(source.walk("QuerySpecification"), None),
        ]:
            if query is None or query.get("TopRowFilter") is not None or _has_a_list(query):
                continue
            tables = {
                name_of(one.get("SchemaObject")) for one in query.walk("NamedTableReference")
                if (is_changed(one) if query is node else _is_of(one, query))
            }  # fmt: skip
            few = guards("top")["few_rows"].get(file.name, ())
            for table in sorted((tables & SOUGHT) - set(few)):
                yield query, f"{table} grows: say top"


def _is_of(reference: Node, query: Node) -> bool:
    """Is a table in the FROM clause of this query, and not in one within?"""
    return (
        next(above for above in reference.above() if above.kind.endswith("Specification")) is query
    )


def _has_a_list(query: Node) -> bool:
    """Does a table variable, or JSON of the caller, say which rows it is about?"""
    return any(
        _is_of(one, query)
        for one in query.walk(
            "VariableTableReference", "OpenJsonTableReference", "QueryDerivedTable"
        )
    )


def the_first_rows_are_the_index_s(file: File) -> Iterator[tuple[Node, str]]:
    """TOP takes rows in the order of the index that is named, so it reads no others."""
    for query in file.tree.walk("QuerySpecification"):
        top, order = query.get("TopRowFilter"), query.get("OrderByClause")
        references = [one for one in query.walk("NamedTableReference") if _is_of(one, query)]
        large = [one for one in references if name_of(one.get("SchemaObject")) in SOUGHT]
        if top is None or not large:
            continue
        if order is None:
            if file.name not in guards("top")["any_row_will_do"]:
                yield query, "say in which order: top takes any rows"
            continue
        seek = seek_of(large[0])
        if len(references) > 1 or seek is None or seek.of not in indexes():
            continue
        index = indexes()[seek.of]
        fixed = {
            name_of(one.children[0])
            for one in query.walk("BooleanComparisonExpression")
            if str(one.net.ComparisonType) == "Equals"
            and one.children[0].kind == "ColumnReferenceExpression"
            and not is_alternative(one)
        }
        left = [one for one in index.columns if one not in fixed] or key_of(index.table)
        wanted = [f"{one}{' desc' if one in index.descending else ''}" for one in left]
        given = re.split(r",", file.text_of(order).removeprefix("orderby"))
        said = [re.sub(r"desc$", " desc", re.sub(r"asc$", "", one)) for one in given]
        is_one = file.text_of(top) in ("top(1)", "top1")
        if is_one and file.name in guards("top")["newest_first"]:
            said = [one.removesuffix(" desc") for one in said]
        if said != (wanted[: len(said)] if is_one else wanted):
            yield order, f"{seek.of} is in the order {', '.join(wanted)}"
