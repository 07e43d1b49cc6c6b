"""The whole database, without a server: Microsoft's DacFx resolves each name in each routine.

    python -m tests.tsql.model [FOLDER]

prints what it cannot resolve, as JSON, one message per line. DacFx does not look at the columns of
table variables and of temporary tables. So they are tables of the model here, in a schema of their
own. It does not compare types or count arguments, and it does not know the views in `sys`.

DacFx is in the wheel that holds the parser. It needs ICU, and OpenSSL 1.1, which `libraries.txt`
pins, too.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rowlease.store.revisions import upgrade_sql
from rowlease.store.routines import packaged_folder
from tests import machine
from tests.tsql import scriptdom

ASSEMBLY = "Microsoft.SqlServer.Dac.Extensions"
#: The schema of the tables that are variables, or temporary.
LOCAL = "local"
#: What of a revision makes tables and indexes.
TABLES = {
    "CreateTableStatement", "AlterTableAddTableElementStatement", "CreateIndexStatement",
    "CreateSequenceStatement",
}  # fmt: skip
DECLARED = re.compile(r"(?:declare @(\w+) table|create table #(\w+)) (?=\()")
#: A variable for .NET: the version of ICU, which it would otherwise know only up to 60.
ICU = "CLR_ICU_VERSION_OVERRIDE"
LIBRARIES = "LD_LIBRARY_PATH"


def missing() -> str | None:
    """Why the model cannot be had here; None if it can."""
    if reason := scriptdom.missing():
        return reason
    if not _openssl().exists():
        return "OpenSSL for DacFx is not unpacked here; `make test` does it"
    if _icu() is None:
        return machine.lacks("ICU")
    return None


def _openssl() -> Path:
    """The folder of OpenSSL 1.1."""
    return scriptdom.root() / "psycopg2_binary.libs"


def _icu() -> str | None:
    return (machine.library("ICU") or "").rpartition(".so.")[2] or None


def objects(scripts: dict[str, str]) -> Iterator[str]:
    """The objects of the scripts, without tables that are variables or temporary."""
    tables: dict[str, str] = {}
    modules = {}
    for name, text in scripts.items():
        code = re.sub(r"(?m)^--.*\n", "", text)
        if "create or alter" in code:
            modules[name] = _with_tables(name, code, tables).replace("create or alter", "create", 1)
    for name, columns in tables.items():
        yield f"create table {LOCAL}.[{name}] {columns}"
    for code in modules.values():
        yield re.sub(
            r"#(\w+)",
            lambda f: f"{LOCAL}.[temp {f[1]}]" if f"temp {f[1]}" in tables else f[0],
            code,
        )


def _with_tables(name: str, code: str, tables: dict[str, str]) -> str:
    """A script whose table variables are tables. These, and its temporary ones, join `tables`."""
    while found := DECLARED.search(code):
        ends = _end(code, found.end())
        columns = " ".join(code[found.end() : ends].split())
        table = f"{name} {found[1]}" if found[1] else f"temp {found[2]}"
        assert tables.setdefault(table, columns) == columns, f"{table}: two tables of one name"
        code = f"{code[: found.start()]}declare @x{found.start()} int{code[ends:]}"
        if found[1]:
            code = re.sub(rf"@{found[1]}\b", f"{LOCAL}.[{table}]", code)
    return code


def _end(code: str, begin: int) -> int:
    """The place after the parenthesis that closes the one at `begin`."""
    depth = 0
    for place, character in enumerate(code[begin:], begin):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place + 1
    raise ValueError(f"a parenthesis is not closed: {code[begin:]}")


def messages(scripts: dict[str, str]) -> Iterator[str]:
    """What DacFx says about all revisions and these scripts."""
    parse = scriptdom.load(cultures=True)
    import clr

    clr.AddReference(str(scriptdom.folder() / f"{ASSEMBLY}.dll"))
    from Microsoft.SqlServer.Dac.Model import SqlServerVersion, TSqlModel, TSqlModelOptions

    model = TSqlModel(SqlServerVersion.Sql150, TSqlModelOptions())
    for schema in ("rowlease", "rowlease_internal", LOCAL):
        model.AddObjects(f"create schema {schema}")
    for made in (*_tables(parse), *objects(scripts)):
        model.AddObjects(made)
    for message in model.Validate():
        yield f"{message.MessageType} {message.Number}: {message.Message}"


def _tables(parse: scriptdom.Parse) -> Iterator[str]:
    script = scriptdom.known(upgrade_sql("mssql", None))
    tree, errors = parse(script)
    assert tree is not None, errors
    for batch in tree.net.Batches:
        for each in batch.Statements:
            statement: Any = each
            if statement.GetType().Name in TABLES:
                begin = statement.StartOffset
                yield script[begin : begin + statement.FragmentLength]


def _start_again() -> None:
    """Start this process again with its libraries: they are looked for when a process starts."""
    for file in _openssl().glob("lib*-*.so.1.1"):  # .NET knows them by other names
        with suppress(FileExistsError):
            (_openssl() / re.sub(r"-\w+", "", file.name)).symlink_to(file)
    libraries = f"{_openssl()}:{os.environ.get(LIBRARIES, '')}"
    given = {**os.environ, ICU: _icu() or "", LIBRARIES: libraries}
    os.execve(sys.executable, [sys.executable, "-m", "tests.tsql.model", *sys.argv[1:]], given)


def main(arguments: list[str]) -> None:
    if ICU not in os.environ:
        _start_again()
    folders = [packaged_folder("sql") / "sqlserver", *map(Path, arguments)]
    files = [file for each in folders for file in sorted(each.rglob("*.sql"))]
    for message in messages({file.stem: file.read_text(encoding="utf-8") for file in files}):
        print(json.dumps(message))  # noqa: T201 - a command's output


if __name__ == "__main__":
    main(sys.argv[1:])
