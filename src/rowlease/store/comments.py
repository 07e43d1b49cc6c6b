"""The comments of rowlease's objects, which a database shows beside each of them.

Each is written once: a routine's or a view's in the header of its file, a table's above its
definition in the migrations, and a column's at the end of its line there. A column without one
means what the first column of that name means. A table or column of SQL Server without one means
what the same means on PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rowlease.store.routines import PUBLIC, Routine, packaged, scripts

#: What no file defines: the schemas, and Alembic's table.
OTHERS = {
    "schema rowlease": "The job queue rowlease: its tables and views, and the routines for roles.",
    "schema rowlease_internal": "Routines that only the routines of rowlease call.",
    "table rowlease.alembic_version": "The revision of the tables. `rowlease migrate` writes it.",
    "column rowlease.alembic_version.version_num": "the last revision that was applied",
}


#: The first line of what makes a table, a column, or a routine, view or trigger.
TABLE = re.compile(r"create (?:unlogged )?table (rowlease\.\w+)(?: partition of (rowlease\.\w+))?")
COLUMN = re.compile(r"  (?!constraint )(\w+) +\w")
ADDED = re.compile(r"alter table (rowlease\.\w+) add (?:column )?(?!constraint )(\w+) ")
MADE = re.compile(r"^create or (?:replace|alter) (\w+) (rowlease\w*\.\w+)", re.MULTILINE)


def comments(engine: str) -> dict[str, str]:
    """The comments by the kind and name of an object, such as `column rowlease.queue.kind`.

    Args:
        engine: "postgresql" or "sqlserver".
    """
    found = _of_tables(engine)
    if engine == "sqlserver":
        others = {_pascal(name): text for name, text in comments("postgresql").items()}
        found = {name: text or others.get(name, "") for name, text in found.items()}
    meanings: dict[str, str] = {}
    for name, text in found.items():
        meanings[_last(name)] = meanings.get(_last(name)) or text
    found = {name: text or meanings[_last(name)] for name, text in found.items()}
    for script in scripts(engine):
        made = MADE.search(script.body)
        if made is None or made[1] == "trigger":
            continue  # the grants are no object
        kind = "view" if made[1] == "view" else "routine"
        found[f"{kind} {made[2]}"] = _header(script)
        if kind == "view":
            for column, remark in _columns_of_view(script):
                name = _pascal(column) if engine == "sqlserver" else column
                found[f"column {made[2]}.{name}"] = remark or meanings.get(name, "")
    return {**OTHERS, **{name: text for name, text in found.items() if text}}


def _of_tables(engine: str) -> dict[str, str]:
    """The tables and columns of the migrations with their comments, empty if they have none."""
    found: dict[str, str] = {}
    for file in sorted((packaged("migrations") / "versions").glob(f"*_{engine}.sql")):
        table, above = "", list[str]()
        for line in re.sub(r"[\[\]]", "", file.read_text(encoding="utf-8")).splitlines():
            remark = line.partition("  -- ")[2]
            if made := TABLE.match(line):
                table = made[1]
                found[f"table {table}"] = "\n".join(above)
                if made[2]:
                    found |= {
                        f"column {table}.{_last(name)}": text
                        for name, text in found.items()
                        if name.startswith(f"column {made[2]}.")
                    }
            elif table and (made := COLUMN.match(line)):
                found[f"column {table}.{made[1]}"] = remark
            elif made := ADDED.match(line):
                found[f"column {made[1]}.{made[2]}"] = remark
            elif line.startswith(")"):
                table = ""
            above = [*above, line[3:]] if line.startswith("--") else []
    return found


def _header(script: Routine) -> str:
    fields = (f"{field}: {text}" for field, text in script.header.items())
    return "\n".join([script.summary, *fields])


def _columns_of_view(script: Routine) -> Iterator[tuple[str, str]]:
    """The columns of a view and the remarks on them: `name, name (remark), …`.

    `the columns of queue` are those of that table. A view that cannot be read lists its columns as
    params.
    """
    listed = script.header["params"]
    if listed == "none":
        listed = script.header["returns"]
    if of := re.match(r"the columns of (\w+)(?:, and )?", listed):
        listed = listed.removeprefix(of[0])
        for name in _of_tables("postgresql"):
            if name.startswith(f"column {PUBLIC}.{of[1]}."):
                yield _last(name), ""
    for made in re.finditer(r"(\w+)(?: \(([^)]*)\))?(?:, |$)", listed):
        yield made[1], made[2] or ""


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _pascal(name: str) -> str:
    """`column rowlease.queue.lock_token` as `column rowlease.Queue.LockToken`."""
    schema, dot, rest = name.rpartition("rowlease.")
    words = re.sub(r"(?:^|(?<=\.)|_)(\w)", lambda first: first[1].upper(), rest)
    return f"{schema}{dot}{words}"
