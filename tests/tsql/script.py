"""A script of sql/sqlserver, its syntax tree, and the words in which rules speak of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.tsql.scriptdom import Node

QUEUE = "queue"


class Finding(NamedTuple):
    file: str
    line: int
    rule: str
    says: str


class File(NamedTuple):
    """A script, its folder and schema, its text, its header's lines as one text, and its tree."""

    name: str
    folder: str
    schema: str
    text: str
    header: str
    tree: Node

    @property
    def procedure(self) -> Node | None:
        return next(self.tree.walk("CreateOrAlterProcedureStatement"), None)

    def source(self, node: Node) -> str:
        """A part of the script, on one line and without names of tables."""
        text = self.text[node.offset : node.offset + node.net.FragmentLength]
        return re.sub(r"\b\w+\.(?=[A-Za-z])", "", re.sub(r"\s+", " ", text))

    def text_of(self, node: Node) -> str:
        """A part of the script in lower case, without blanks and without names of tables."""
        text = self.text[node.offset : node.offset + node.net.FragmentLength].lower()
        return re.sub(r"\s+|\b\w+\.", "", text)


Rule = Callable[[File], Iterator[tuple[Node, str]]]


def name_of(node: Node | None) -> str:
    """The last part of a name, in lower case."""
    parts = list(node.walk("Identifier")) if node is not None else []
    return str(parts[-1].net.Value).lower() if parts else ""


def schema_of(node: Node | None) -> str:
    parts = list(node.walk("Identifier")) if node is not None else []
    return str(parts[-2].net.Value).lower() if len(parts) > 1 else ""


def hints(reference: Node) -> set[str]:
    return {
        str(hint.net.HintKind).lower() for hint in reference.children if hint.role == "TableHints"
    }


def called(execute: Node) -> str:
    """The procedure that an EXECUTE names; empty where it runs a text or a variable."""
    return name_of(next(execute.walk("ProcedureReferenceName"), None))


def statement_of(node: Node) -> Node | None:
    """The innermost statement around a node."""
    return next((above for above in node.above() if above.kind.endswith("Statement")), None)


def is_changed(reference: Node) -> bool:
    """Is a table what its UPDATE or DELETE changes? The FROM clause may name it again."""
    if reference.role == "Target":
        return True
    changes = next(
        (above for above in reference.above() if above.kind.endswith("Specification")), None
    )
    target = changes.get("Target") if changes is not None else None
    name = name_of(reference.get("Alias")) or name_of(reference.get("SchemaObject"))
    return target is not None and name == name_of(target.get("SchemaObject"))


def is_named_again(target: Node) -> bool:
    """Does the FROM clause name what the statement changes?"""
    return target.role == "Target" and any(
        is_changed(other)
        for other in (target.parent or target).walk("NamedTableReference")
        if other is not target
    )


def is_inserted(target: Node) -> bool:
    return target.parent is not None and target.parent.kind == "InsertSpecification"


def name_of_variable(parameter: Node) -> str:
    variable = parameter.net.Variable
    return "" if variable is None else str(variable.Name).lower()
