"""The house's rules for T-SQL, checked on the syntax tree of Microsoft's own grammar.

    python -m tests.tsql.lint sql/sqlserver

prints findings as JSON, one per line.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from rowlease.store.routines import load_routines
from tests.tsql.scriptdom import Node, Parse, load

#: Columns by which the partial indexes of the queue are filtered: a predicate that compares them
#: with a variable cannot use the index, with any value of the variable.
FILTERED = {"status", "groupblocked", "returned"}
QUEUE = "queue"
#: Hints that a reference to a table may carry. NOLOCK reads what may never be; XLOCK and TABLOCK
#: make everybody wait (one routine may say TABLOCK); HOLDLOCK is for a key that must not appear
#: meanwhile.
HINTS = {"rowlock", "updlock", "readpast", "holdlock", "serializable", "index", "forceseek",
         "readcommittedlock", "tablock"}  # fmt: skip
#: Those on the queue: of the statement that finds what to claim, of one that changes rows, and of
#: one that looks without keeping a lock.
CLAIMS = {"claim_carefully", "lease"}
COUNTS = {"correct_counts"}
SEEK = {"index", "forceseek"}
CLAIMED = {"updlock", "readpast", "rowlock", "readcommittedlock"} | SEEK
CHANGED = {"rowlock", "readpast"} | SEEK
LOOKED_AT = {"readpast", "readcommittedlock"} | SEEK
#: Tables that grow, of which no statement may scan what it changes.
LARGE = {"queue", "queuehistory", "queuedepth", "staging", "lane", "enqueuereceipt"}
#: Folders in which each look at those tables is a seek of a named index, too; but a receipt is
#: looked up by its key, which is all the query has.
PINNED = {"dequeue", "enqueue", "finish", "load", "maintain"}
BY_KEY = {"enqueuereceipt"}
#: Routines that read a whole queue or all counts, and the tables.
READ_WHOLE = {
    ("sample_requests", "queue"), ("sample_requests", "lane"), ("recount_queues", "queuedepth"),
    ("fold_depth", "queuedepth"), ("finish_idle_batches", "queuedepth"),
}  # fmt: skip
#: Routines of operators that change all counts of a queue, and the table.
CHANGED_WHOLE = {("delete_queue", "queuedepth")}
#: Routines that change rows of the queue without skipping locked ones: their callers name the
#: requests, or they have locked the rows before.
NAMED = {
    "abandon", "break_expired", "change_due_time", "change_priority", "complete_held", "decline",
    "do_verb", "end_leases", "fail_held", "purge_found", "renew", "revive_found", "snooze",
    "take_held", "take_out", "unblock_groups",
}  # fmt: skip
MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations" / "versions"
INDEX = re.compile(
    r"create (?:unique )?(?:clustered )?index (\w+) on rowlease\.(\w+) \((.*?)\)"
    r"(?: include \((.*?)\))?(?: where (.*?))?(?: with \((.*?)\))?;"
)
KEY = re.compile(
    r"constraint (\w+_pkey) primary key (?:clustered )?\(([\w, ]+)\)(?: with \((.*?)\))?[, ]"
)
#: What a THROW may say: the errors of sql/README.md.
OUR_ERRORS = range(51001, 51100)


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

    def text_of(self, node: Node) -> str:
        """A part of the script in lower case, without blanks and without names of tables."""
        text = self.text[node.offset : node.offset + node.net.FragmentLength].lower()
        return re.sub(r"\s+|\b\w+\.", "", text)


class Index(NamedTuple):
    """An index: its table, columns, included columns, the conditions of its filter, its options."""

    table: str
    columns: list[str]
    included: list[str]
    conditions: list[str]
    options: str


@cache
def indexes() -> dict[str, Index]:
    found: dict[str, Index] = {}
    for path in sorted(MIGRATIONS.glob("*_sqlserver.sql")):
        found |= indexes_of(path.read_text(encoding="utf-8"))
    return found


def indexes_of(script: str) -> dict[str, Index]:
    """The indexes that a script makes."""
    text = re.sub(r"\s+", " ", re.sub(r"--.*", "", script)).lower()
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
        )
    return found


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


# -- the rules ---------------------------------------------------------------------------------


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
    if file.procedure is None:
        return
    body = [node for node in file.procedure.children if node.role == "StatementList"]
    first = body[0].children if body else []
    while len(first) == 1 and first[0].kind == "BeginEndBlockStatement":
        first = first[0].children[0].children
    printed = [_setting(node) for node in first[:3]]
    if printed[:2] != ["nocount on", "xactabort on"]:
        yield file.procedure, "a procedure begins with set nocount on; set xact_abort on;"
    elif printed[2:] != ["isolation readcommitted"] and _begins_a_transaction(file):
        yield file.procedure, "then comes set transaction isolation level read committed;"
    for node in file.tree.walk("PredicateSetStatement", "SetTransactionIsolationLevelStatement"):
        setting = _setting(node)
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


def no_hint_that_lies(file: File) -> Iterator[tuple[Node, str]]:
    for reference in file.tree.walk("NamedTableReference"):
        given = hints(reference)
        for hint in sorted(given - HINTS):
            yield reference, f"{hint} is no hint of this house"
        if "tablock" in given and file.name not in COUNTS:
            yield reference, "tablock makes everybody wait"
        # A statement that changes rows takes update locks while it looks for them.
        holds = given & {"updlock", "readcommittedlock"} or is_changed(reference)
        if "readpast" in given and not holds:
            yield reference, "readpast without updlock skips rows that it does not then hold"
        if "readpast" in given and "readcommittedlock" not in given and "rowlock" not in given:
            yield reference, "lock rows, not pages: say rowlock, too"


def hints_on_the_queue_only_where_allowed(file: File) -> Iterator[tuple[Node, str]]:
    for reference in file.tree.walk("NamedTableReference"):
        if name_of(reference.get("SchemaObject")) != QUEUE:
            continue
        allowed = CHANGED if is_changed(reference) else LOOKED_AT
        if file.name in CLAIMS and not is_changed(reference):
            allowed = CLAIMED
        if file.name in COUNTS:
            allowed = {"tablock", "holdlock"}
        for hint in sorted(hints(reference) - allowed):
            yield reference, f"{hint} is not for this use of the queue"


def found_rows_are_skipped(file: File) -> Iterator[tuple[Node, str]]:
    """Who waits for a row while it holds other rows can be part of a deadlock."""
    for reference in file.tree.walk("NamedTableReference"):
        if (
            name_of(reference.get("SchemaObject")) == QUEUE
            and file.name not in NAMED | COUNTS
            and is_changed(reference)
            and not is_inserted(reference)
            and not is_named_again(reference)
            and "readpast" not in hints(reference)
        ):
            yield reference, "skip locked rows: only a caller that names requests may wait for them"


def staged_rows_go_in_steps(file: File) -> Iterator[tuple[Node, str]]:
    """Each deleted row of a load is a lock until the commit."""
    for node in file.tree.walk("DeleteSpecification"):
        target = node.get("Target")
        names = {name_of(one.get("SchemaObject")) for one in node.walk("NamedTableReference")}
        if target is not None and "staging" in names and node.get("TopRowFilter") is None:
            yield node, "say delete top: a load has any number of rows, and each row is a lock"


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


def seeks_are_pinned(file: File) -> Iterator[tuple[Node, str]]:
    """A plan is made for the rows of one moment: a scan would lock the whole table at another."""
    for reference in file.tree.walk("NamedTableReference"):
        table = name_of(reference.get("SchemaObject"))
        if table not in LARGE or is_inserted(reference):
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


def is_inserted(target: Node) -> bool:
    return target.parent is not None and target.parent.kind == "InsertSpecification"


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
    if is_changed(reference) and "MaxDop" not in said:
        yield reference, "say option (maxdop 1): parallel threads lock rows in any order"


def readpast_is_said(file: File) -> Iterator[tuple[Node, str]]:
    """A read does not wait; a query that locks says how it treats locked rows."""
    for reference in file.tree.walk("NamedTableReference"):
        given = hints(reference)
        is_said = "skipping locked" in file.header
        if "readpast" in given and "readcommittedlock" not in given and not is_said:
            yield reference, "the header's locks must say: skipping locked ones"


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


def app_locks_are_answered(file: File) -> Iterator[tuple[Node, str]]:
    for node in file.tree.walk("ExecuteSpecification"):
        if called(node) != "sp_getapplock":
            continue
        given = {
            name_of_variable(parameter): parameter for parameter in node.walk("ExecuteParameter")
        }
        if not {"@resource", "@lockowner"} <= given.keys():
            yield node, "say @Resource and @LockOwner"
        if "@locktimeout" not in given and "lock_timeout" not in file.header:
            yield node, "say @LockTimeout, or in the header that it waits for the lock_timeout"
        if node.get("Variable") is None:
            yield node, "keep its answer: below 0 the lock is not had"
        if "@dbprincipal" not in given:
            yield node, "say @DbPrincipal, or anybody may hold the lock"


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


def name_of_variable(parameter: Node) -> str:
    variable = parameter.net.Variable
    return "" if variable is None else str(variable.Name).lower()


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


RULES: tuple[Rule, ...] = (
    one_batch,
    named_as_its_file,
    begins_with_its_settings,
    no_hint_that_lies,
    hints_on_the_queue_only_where_allowed,
    found_rows_are_skipped,
    staged_rows_go_in_steps,
    temporary_tables_are_its_own,
    json_in_xml_is_escaped,
    seeks_are_pinned,
    readpast_is_said,
    no_dynamic_sql,
    throw_our_errors,
    results_after_commit,
    literals_for_filtered_indexes,
    app_locks_are_answered,
    calls_fit,
    inserts_fit,
    every_t_sql_engine_has_it,
    names_have_schemas,
)


def findings(path: Path, parse: Parse) -> Iterator[Finding]:
    """All that is wrong with one file."""
    text = path.read_text(encoding="utf-8")
    tree, errors = parse(text)
    for line, says in errors:
        yield Finding(str(path), line, "grammar", says)
    if tree is None:
        return
    comment = takewhile(lambda line: line.startswith("--"), text.splitlines())
    header = re.sub(r"\s+", " ", " ".join(line[2:] for line in comment))
    internal = path.parent.name == "internal"
    folder = path.parent.parent.name if internal else path.parent.name
    schema = "rowlease_internal" if internal else "rowlease"
    file = File(path.stem, folder, schema, text, header, tree)
    for rule in RULES:
        for node, says in rule(file):
            yield Finding(str(path), node.line, rule.__name__, says)


def main(arguments: list[str]) -> int:
    parse = load()
    found: list[Any] = []
    for argument in map(Path, arguments):
        for path in sorted(argument.rglob("*.sql")) if argument.is_dir() else [argument]:
            found += findings(path, parse)
    for finding in found:
        print(json.dumps(finding._asdict()))  # noqa: T201 - a command's output
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
