"""Rules about locked rows: who waits for them, who steps over them, and what is asked again."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from tests.tsql.guards import guards
from tests.tsql.rules.seeks import SEEK, SOUGHT
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

#: Columns that another transaction may change while a row is found, but not yet locked.
MUTABLE = re.compile(
    r"(status|groupblocked|duetime|lockexpirestime|lockedby|locktoken|cancelrequested)(=|<|>|is|in\()"
)
#: Changes of all rows of a queue that no longer has requests.
WHOLE = {("delete_queue", "queuedepth")}


def locked_rows_are_treated_as_listed(file: File) -> Iterator[tuple[Node, str]]:
    """guards.toml lists how each use of a table in a routine treats locked rows."""
    uses: dict[str, list[str]] = defaultdict(list)
    for reference in file.tree.walk("NamedTableReference"):
        table, given = reference.get("SchemaObject"), hints(reference) - SEEK
        if schema_of(table) == "rowlease" and given:
            uses[name_of(table)].append(_way(given) or "+".join(sorted(given)))
    listed = {table: ways.split() for table, ways in guards("rows").get(file.name, {}).items()}
    for table in sorted({*uses, *listed}):
        if uses[table] != listed.get(table, []):
            yield (
                file.tree,
                f"{table} is used so: {' '.join(uses[table]) or 'without a hint'}; "
                f"guards.toml has for {file.name}: {' '.join(listed.get(table, [])) or 'nothing'}",
            )


def _way(given: set[str]) -> str | None:
    """The word of guards.toml for these hints."""
    return next((way for way, said in guards("ways").items() if given == set(said["hints"])), None)


def changes_lock_rows(file: File) -> Iterator[tuple[Node, str]]:
    """Without ROWLOCK a change may lock the page, and READPAST does not skip pages."""
    for reference in file.tree.walk("NamedTableReference"):
        if (
            name_of(reference.get("SchemaObject")) in SOUGHT
            and is_changed(reference)
            and not is_inserted(reference)
            and not is_named_again(reference)
            and not {"rowlock", "holdlock"} & hints(reference)
            and (file.name, name_of(reference.get("SchemaObject"))) not in WHOLE
        ):
            yield reference, "say rowlock"


def what_was_true_is_asked_again(file: File) -> Iterator[tuple[Node, str]]:
    """Between the read that finds a row and the change that locks it, others may change it."""
    for change, target in _changes_of_the_queue(file):
        asked = [file.text_of(one) for one in _conjuncts(change)]
        once = guards("asked_once").get(file.name, ())
        if "readpast" not in hints(target) or _is_held(file, change):
            continue
        for one in sorted(_found_by(file, change) - {*asked, *once}):
            if not (one.startswith("status<>") and any(a.startswith("status=") for a in asked)):
                yield change, f"the row was found by {one}: ask it again"


def changes_ask_as_listed(file: File) -> Iterator[tuple[Node, str]]:
    """guards.toml lists what the changes of the queue ask of columns that others may change."""
    asked = []
    for change, _ in _changes_of_the_queue(file):
        texts = [file.source(one) for one in _conjuncts(change) if MUTABLE.match(file.text_of(one))]
        if texts:
            asked.append(" and ".join(texts))
    listed = guards("asks").get(file.name, [])
    if asked != listed:
        yield file.tree, f"its changes of the queue ask {asked}; guards.toml has {listed}"


def _changes_of_the_queue(file: File) -> Iterator[tuple[Node, Node]]:
    for change in file.tree.walk("UpdateSpecification", "DeleteSpecification"):
        target = _locked(change)
        if target is not None and name_of(target.get("SchemaObject")) == QUEUE:
            yield change, target


def _locked(change: Node) -> Node | None:
    """The reference of what a statement changes, with its hints."""
    named = [one for one in change.walk("NamedTableReference") if is_changed(one)]
    return named[-1] if named else None


def _is_held(file: File, change: Node) -> bool:
    """Has the routine locked the rows before: by a change that put them out, or by a call?"""
    sources = {name_of_source(one) for one in change.walk("VariableTableReference")}
    for output in file.tree.walk("OutputIntoClause"):
        into = next(output.walk("VariableTableReference"), None)
        if into is not None and output.offset < change.offset and name_of_source(into) in sources:
            return True
    before = file.text[: change.offset]
    return any(re.search(rf"\b{one}\b", before) for one in guards("held")["after"])


def _conjuncts(query: Node) -> list[Node]:
    """The conditions of a statement's own WHERE and ON, without those of its subqueries."""
    found = []
    for node in query.walk(
        "BooleanComparisonExpression", "BooleanIsNullExpression", "InPredicate",
        "BooleanTernaryExpression",
    ):  # fmt: skip
        above = [*node.above()]
        inside = above[: above.index(query)]
        if not any(one.kind in ("QuerySpecification", "SearchedWhenClause") for one in inside):
            found.append(node)
    return found


def _found_by(file: File, change: Node) -> set[str]:
    """What the query that found the rows of a change has asked of columns that may change."""
    queries = list(change.walk("QueryDerivedTable"))
    sources = {name_of_source(one) for one in change.walk("VariableTableReference")}
    for insert in file.tree.walk("InsertSpecification"):
        target = insert.get("Target")
        if (
            target is not None
            and name_of_source(target) in sources
            and insert.offset < change.offset
        ):
            queries += (statement_of(insert) or insert).walk("QuerySpecification")
    return {
        text
        for query in queries
        for specification in query.walk("QuerySpecification")
        if any(
            name_of(one.get("SchemaObject")) == QUEUE
            for one in specification.walk("NamedTableReference")
        )
        for one in _conjuncts(specification)
        if MUTABLE.match(text := file.text_of(one))
    }


def name_of_source(node: Node) -> str:
    variable = node.get("Variable")
    return "" if variable is None else str(variable.net.Name).lower()


def readpast_is_said(file: File) -> Iterator[tuple[Node, str]]:
    """A read does not wait; a query that locks says how it treats locked rows."""
    for reference in file.tree.walk("NamedTableReference"):
        given = hints(reference)
        is_said = "skipping locked" in file.header
        if "readpast" in given and "readcommittedlock" not in given and not is_said:
            yield reference, "the header's locks must say: skipping locked ones"
