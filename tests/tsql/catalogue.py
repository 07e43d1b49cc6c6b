"""The tables and grants that the scripts for SQL Server declare, read by Microsoft's own grammar.

    python -m tests.tsql.catalogue

prints them as sql/sqlserver/catalogue.json has them, for `rowlease migrate --check`. They are not
read from a database, so that no engine's spelling or omission gets into them. A statement that is
not known here is an error: a revision that brings a new one extends this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from rowlease.store.revisions import upgrade_sql
from rowlease.store.routines import packaged_folder
from rowlease.store.sqlserver.catalogue import comparisons
from tests.tsql.scriptdom import load

#: Statements that declare nothing, or what is not compared.
PASSED_OVER = {
    "CreateSchemaStatement", "IfStatement", "InsertStatement", "UpdateStatement", "DeleteStatement",
    "AlterAuthorizationStatement", "DeclareVariableStatement",
}  # fmt: skip
#: Types whose columns have a collation.
TEXTS = ("nvarchar", "nchar", "varchar", "char")
#: Index options, and their words in a definition where they are off.
OFF = {"AllowPageLocks": "without page locks", "AllowRowLocks": "without row locks"}


def declared() -> dict[str, str]:
    """The objects that all revisions and grants.sql declare, with their definitions."""
    grants = (packaged_folder("sql") / "sqlserver" / "grants.sql").read_text(encoding="utf-8")
    script = f"{upgrade_sql('mssql', None)}\nGO\n{grants}"
    tree, errors = load()(script)
    assert tree is not None, errors
    found = {f"schema {name}": "owner as of schema rowlease" for name in schemas(script)}
    for batch in tree.net.Batches:
        for statement in batch.Statements:
            found.update(objects(statement, found))
    return found


def schemas(script: str) -> set[str]:
    """They are made by dynamic SQL, because a batch may not begin with IF and make one."""
    return set(re.findall(r"create schema (\w+)", script))


def objects(statement: Any, before: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What one statement declares."""
    kind = statement.GetType().Name
    match kind:
        case "CreateTableStatement":
            table = name_of(statement.SchemaObjectName)
            yield f"table {table}", ""
            yield from elements(table, statement.Definition)
        case "AlterTableAddTableElementStatement":
            yield from elements(name_of(statement.SchemaObjectName), statement.Definition)
        case "AlterTableSetStatement":
            (option,) = statement.Options
            table = name_of(statement.SchemaObjectName)
            yield f"table {table}", f"lock escalation {str(option.Value).lower()}"
        case "CreateIndexStatement":
            yield (
                f"index {name_of(statement.OnName)}.{statement.Name.Value}",
                index(statement, "unique " if statement.Unique else "", bool(statement.Clustered)),
            )
        case "CreateSequenceStatement":
            yield f"sequence object {name_of(statement.Name)}", ""
        case "AlterRoleStatement":
            role, action = statement.Name.Value, statement.Action
            assert action.GetType().Name == "AddMemberAlterRoleAction"
            yield f"member {action.Member.Value} of {role}", ""
        case "GrantStatement":
            table = name_of(statement.SecurityTargetObject.ObjectName.MultiPartIdentifier)
            for permission in statement.Permissions:
                words = " ".join(word.Value for word in permission.Identifiers).lower()
                for principal in statement.Principals:
                    yield f"grant {words} on {table} to {principal.Identifier.Value}", ""
        case _:
            assert kind in PASSED_OVER, f"line {statement.StartLine}: {kind} is not known here"


def elements(table: str, definition: Any) -> Iterator[tuple[str, str]]:
    for column in definition.ColumnDefinitions:
        yield f"column {table}.{column.ColumnIdentifier.Value}", column_of(column)
    for constraint in definition.TableConstraints:
        name = f"constraint {table}.{constraint.ConstraintIdentifier.Value}"
        if constraint.GetType().Name == "CheckConstraintDefinition":
            yield name, f"check {comparisons(text_of(constraint.CheckCondition))}"
        else:
            assert constraint.GetType().Name == "UniqueConstraintDefinition"
            is_key = bool(constraint.IsPrimaryKey)
            # Without a word, a primary key is clustered, and another key is not.
            clustered = is_key if constraint.Clustered is None else bool(constraint.Clustered)
            yield name, index(constraint, "primary key " if is_key else "unique ", clustered)


def column_of(column: Any) -> str:
    if column.ComputedColumnExpression is not None:
        words = ["as", comparisons(text_of(column.ComputedColumnExpression))]
        return " ".join([*words, *(["persisted"] if column.IsPersisted else [])])
    words = [text_of(column.DataType).lower()]
    if words[0].startswith(TEXTS):
        words += ["collate", column.Collation.Value if column.Collation else "database_default"]
    for constraint in column.Constraints:
        assert constraint.GetType().Name == "NullableConstraintDefinition"
        words += [] if constraint.Nullable else ["not null"]
    if column.IdentityOptions is not None:
        words.append("identity")
    if column.DefaultConstraint is not None:
        words += ["default", comparisons(text_of(column.DefaultConstraint.Expression))]
    return " ".join(words)


def index(made: Any, unique: str, clustered: bool) -> str:
    """The definition of an index or a key."""
    keys = (
        key.Column.MultiPartIdentifier.Identifiers[0].Value
        + (" desc" if str(key.SortOrder) == "Descending" else "")
        for key in made.Columns
    )
    parts = [f"{unique}{'' if clustered else 'non'}clustered ({', '.join(keys)})"]
    includes = [
        one.MultiPartIdentifier.Identifiers[0].Value for one in getattr(made, "IncludeColumns", [])
    ]
    if includes:
        parts.append(f"include ({', '.join(sorted(includes))})")
    if getattr(made, "FilterPredicate", None) is not None:
        parts.append(f"where {comparisons(text_of(made.FilterPredicate))}")
    for option in made.IndexOptions:
        assert str(option.OptionState) == "Off", text_of(option)
        parts.append(OFF[str(option.OptionKind)])
    return " ".join(parts)


def name_of(parts: Any) -> str:
    return ".".join(part.Value for part in parts.Identifiers)


def text_of(node: Any) -> str:
    """The text of a node, as the script has it, without comments."""
    tokens = [
        node.ScriptTokenStream[i] for i in range(node.FirstTokenIndex, node.LastTokenIndex + 1)
    ]
    return "".join(one.Text for one in tokens if "Comment" not in str(one.TokenType))


if __name__ == "__main__":
    print(json.dumps(declared(), indent=1, sort_keys=True))  # noqa: T201 - its output
