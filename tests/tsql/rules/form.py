"""Rules about the form of a script: its settings, names, calls, errors and results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from rowlease.store.routines import load_routines
from tests.tsql.script import File, called, name_of, name_of_variable, schema_of
from tests.tsql.scriptdom import Node

#: What a THROW may say: the errors of sql/README.md.
OUR_ERRORS = range(51001, 51100)
#: Routines that handle an error in the caller's transaction, which XACT_ABORT would end.
KEEPS_TRANSACTION = {"candidates_by_policy", "ms_until_event"}


def one_batch(file: File) -> Iterator[tuple[Node, str]]:
    batches = list(file.tree.walk("TSqlBatch"))
    if len(batches) != 1:
        yield file.tree, "a file is one batch; a driver knows no GO"
    for kind in ("CreateProcedureStatement", "AlterProcedureStatement", "CreateFunctionStatement",
                 "CreateViewStatement", "CreateTriggerStatement"):  # fmt: skip
        for node in file.tree.walk(kind):
            yield node, "write create or alter: the file is applied again and again"


def named_as_its_file(file: File) -> Iterator[tuple[Node, str]]:
    for kind, role in (
        ("CreateOrAlterProcedureStatement", "ProcedureReference"),
        ("CreateOrAlterFunctionStatement", "Name"),
        ("CreateOrAlterViewStatement", "SchemaObjectName"),
    ):
        for node in file.tree.walk(kind):
            name = node.get(role)
            wanted = file.name.replace("_", "") if kind.endswith("ViewStatement") else file.name
            if (schema_of(name), name_of(name)) != (file.schema, wanted.lower()):
                yield node, f"the file {file.name} makes {file.schema}.{file.name}"


def begins_with_its_settings(file: File) -> Iterator[tuple[Node, str]]:
    triggers = [*file.tree.walk("CreateOrAlterTriggerStatement")]
    routine = file.procedure or next(iter(triggers), None)
    if routine is None:
        return
    body = [node for node in routine.children if node.role == "StatementList"]
    first = body[0].children if body else []
    while len(first) == 1 and first[0].kind == "BeginEndBlockStatement":
        first = first[0].children[0].children
    printed = [_setting(node) for node in first[:3]]
    if printed[:2] != ["nocount on", "xactabort on"]:
        yield routine, "a procedure begins with set nocount on; set xact_abort on;"
    elif printed[2:] != ["isolation readcommitted"] and (triggers or _begins_a_transaction(file)):
        yield routine, "then comes set transaction isolation level read committed;"
    for node in file.tree.walk("PredicateSetStatement", "SetTransactionIsolationLevelStatement"):
        setting = _setting(node)
        if setting == "xactabort off" and file.name in KEEPS_TRANSACTION:
            continue
        if setting.endswith(" off") or (
            setting.startswith("isolation") and setting != "isolation readcommitted"
        ):
            yield node, f"{setting}: the settings of the first lines hold to the end"


def _begins_a_transaction(file: File) -> bool:
    """What does not runs in its caller's, with its caller's isolation level."""
    return any(file.tree.walk("BeginTransactionStatement"))


def _setting(node: Node) -> str:
    if node.kind == "PredicateSetStatement":
        return f"{str(node.net.Options).lower()} {'on' if node.net.IsOn else 'off'}"
    if node.kind == "SetTransactionIsolationLevelStatement":
        return f"isolation {str(node.net.Level).lower()}"
    return node.kind


def temporary_tables_are_its_own(file: File) -> Iterator[tuple[Node, str]]:
    """SQL Server compiles a routine that uses a table of its caller once for each session."""
    made = {
        name_of(node.get("SchemaObjectName")) for node in file.tree.walk("CreateTableStatement")
    }
    made |= {name_of(node.get("Into")) for node in file.tree.walk("SelectStatement")}
    for reference in file.tree.walk("NamedTableReference"):
        name = name_of(reference.get("SchemaObject"))
        if name.startswith("#") and name not in made:
            yield reference, f"{name} is the caller's: return JSON in an xml parameter"


def json_in_xml_is_escaped(file: File) -> Iterator[tuple[Node, str]]:
    """Text with & or < is no content of an xml parameter."""
    outputs = set(re.findall(r"(@\w+) xml output", file.text))
    for node in file.tree.walk("SetVariableStatement"):
        text = file.text_of(node)
        name = text.removeprefix("set").partition("=")[0]
        if name in outputs and "forjson" in text and "=as_xml(" not in text:
            yield node, f"{name} is xml: set it to rowlease_internal.as_xml((...))"


def no_dynamic_sql(file: File) -> Iterator[tuple[Node, str]]:
    if "dynamic sql" in file.header.lower().partition("why:")[2]:
        return
    for node in file.tree.walk("ExecutableStringList"):
        yield node, "dynamic SQL needs a reason in the header's why"
    for node in file.tree.walk("ExecuteSpecification"):
        if called(node) in ("sp_executesql", "sp_execute"):
            yield node, "dynamic SQL needs a reason in the header's why"


def throw_our_errors(file: File) -> Iterator[tuple[Node, str]]:
    for node in file.tree.walk("RaiseErrorStatement", "RaiseErrorLegacyStatement"):
        yield node, "throw, not raiserror: that goes on with the next statement"
    for node in file.tree.walk("ThrowStatement"):
        number = node.get("ErrorNumber")
        if number is None or number.kind != "IntegerLiteral":
            continue  # again what was caught, or a number that was
        if int(number.net.Value) not in OUR_ERRORS:
            yield node, f"{number.net.Value} is none of the errors in sql/README.md"
        elif not {number.net.Value, f"RL{number.net.Value[2:]}"} & set(
            re.findall(r"\w+", file.header)
        ):
            yield node, f"{number.net.Value} is not among the header's errors"


def results_after_commit(file: File) -> Iterator[tuple[Node, str]]:
    if file.procedure is None:
        return
    begins = list(file.procedure.walk("BeginTransactionStatement"))
    if begins and not any(file.procedure.walk("CommitTransactionStatement")):
        yield begins[0], "a transaction that is begun is committed here"
    for node in file.procedure.walk("OutputClause"):
        yield node, "output goes into a table variable, or it is a result set before the commit"
    for node in file.procedure.walk("SelectStatement"):
        if _is_result_set(node) and _last_word(node) == "BeginTransactionStatement":
            yield (
                node,
                "a result set comes after commit: a failed commit must not look like success",
            )


def _last_word(node: Node) -> str:
    """The kind of statement about transactions that a statement is reached from."""
    while node.parent is not None:
        before = [one for one in node.parent.children if one.offset < node.offset]
        for one in reversed(before):
            if one.kind in ("BeginTransactionStatement", "CommitTransactionStatement"):
                return one.kind
        node = node.parent
    return ""


def _is_result_set(select: Node) -> bool:
    # A query below an INSERT, a cursor or an IF is no SelectStatement, but a cursor's is.
    if any(
        above.kind in ("CursorDefinition", "DeclareCursorStatement") for above in select.above()
    ):
        return False
    if select.get("Into") is not None:
        return False
    return not any(node.kind == "SelectSetVariable" for node in select.walk())


def calls_fit(file: File) -> Iterator[tuple[Node, str]]:
    """SQL Server counts the arguments of a call only when the call is made."""
    for node in file.tree.walk("ExecuteSpecification"):
        params = parameters().get(called(node))
        if params is None:
            continue
        given = list(node.walk("ExecuteParameter"))
        names = list(params)
        by_name = {
            name_of_variable(one) or f"@{name}" for one, name in zip(given, names, strict=False)
        }
        if len(given) > len(names):
            yield node, f"{called(node)} takes {len(names)} arguments, not {len(given)}"
        for name in names:
            if f"@{name}" not in by_name and not params[name].has_default:
                yield node, f"{called(node)} needs {name}"
        for one, name in zip(given, names, strict=False):
            param = params.get(name_of_variable(one).removeprefix("@") or name)
            if param is not None and one.net.IsOutput and not param.is_output:
                yield node, f"{called(node)} has no output in {name}"


class Parameter(NamedTuple):
    has_default: bool
    is_output: bool


@cache
def parameters() -> dict[str, dict[str, Parameter]]:
    """The parameters of our procedures, in order."""
    found = {}
    for routine in load_routines("sqlserver").values():
        code = "\n".join(line for line in routine.body.splitlines() if line[:2] != "--")
        head = re.split(r"\n(?:as|returns)\b", code, maxsplit=1)[0]
        found[routine.name] = {
            name: Parameter("=" in rest, "output" in rest.lower())
            for name, rest in re.findall(r"@(p_\w+)\s+([^@]*)", head)
        }
    return found


def inserts_fit(file: File) -> Iterator[tuple[Node, str]]:
    """As many values as columns: SQL Server looks only when a temporary table is there."""
    for node in file.tree.walk("InsertSpecification"):
        columns = [one for one in node.children if one.role == "Columns"]
        for row in node.walk("RowValue", "QuerySpecification"):
            if not _is_source_of(row, node):
                continue
            values = [one for one in row.children if one.role in ("ColumnValues", "SelectElements")]
            if columns and len(values) != len(columns):
                yield row, f"{len(columns)} columns, but {len(values)} values"


def _is_source_of(row: Node, insert: Node) -> bool:
    """Are its rows those that are inserted, and not those of a query within?"""
    above = row.parent
    while above is not None and above.kind == "BinaryQueryExpression":
        above = above.parent
    return above is not None and above.role == "InsertSource" and above.parent is insert


def every_t_sql_engine_has_it(file: File) -> Iterator[tuple[Node, str]]:
    for kind, why in (
        ("MergeStatement", "no merge: it locks what it does not change, and has open faults"),
        ("WaitForStatement", "no waitfor: it keeps one of the server's threads"),
        ("SelectStarExpression", "list the columns"),
        ("GoToStatement", "no goto"),
        ("UserDataTypeReference", "arrays are JSON text, not table-valued parameters"),
    ):
        for node in file.tree.walk(kind):
            if kind != "SelectStarExpression" or not _is_listed_outside(node):
                yield node, why
    for node in file.tree.walk("AssignmentSetClause", "SelectSetVariable", "SetVariableStatement"):
        if str(node.net.AssignmentKind) != "Equals":
            yield node, "write x = x + 1: not every T-SQL engine knows +="


def _is_listed_outside(star: Node) -> bool:
    """A star of a subquery whose outer query lists the columns."""
    return any(above.kind == "QueryDerivedTable" for above in star.above())


def names_have_schemas(file: File) -> Iterator[tuple[Node, str]]:
    own = {name_of(node.get("ExpressionName")) for node in file.tree.walk("CommonTableExpression")}
    own |= {name_of(node.get("Alias")) for node in file.tree.walk() if node.get("Alias")}
    own |= {"inserted", "deleted"}
    for reference in file.tree.walk("NamedTableReference"):
        name = reference.get("SchemaObject")
        if not schema_of(name) and name_of(name) not in own and name_of(name)[:1] != "#":
            yield reference, f"{name_of(name)} needs its schema"
