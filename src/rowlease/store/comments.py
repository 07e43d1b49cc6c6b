"""Collects the comments of rowlease's objects from the SQL files, for the database to show.

Each comment is written once. The comment of a routine or view is the header of its file. The
comment of a table is above its definition in the migrations, and the comment of a column is at the
end of the column's line there. A column without a comment gets the comment of the first column with
the same name. A table or column of SQL Server without a comment gets that of PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rowlease.store.routines import PUBLIC, Routine, all_files, packaged_folder

#: The comments of objects that no file defines: the schemas and Alembic's table.
OTHERS = {
    "schema rowlease": "The job queue rowlease: its tables and views, and the routines for roles.",
    "schema rowlease_internal": "Routines that only the routines of rowlease call.",
    "table rowlease.alembic_version": "The revision of the tables. `rowlease migrate` writes it.",
    "column rowlease.alembic_version.version_num": "the last revision that was applied",
}


#: The first line of a table.
TABLE_LINE = re.compile(
    r"create (?:unlogged )?table (rowlease\.\w+)(?: partition of (rowlease\.\w+))?"
)
#: A column in a table's definition.
COLUMN = re.compile(r"  (?!constraint )(\w+) +\w")
#: A column that a later revision added.
ADDED = re.compile(r"alter table (rowlease\.\w+) add (?:column )?(?!constraint )(\w+) ")
#: The first line of a routine, view or trigger.
MADE = re.compile(r"^create or (?:replace|alter) (\w+) (rowlease\w*\.\w+)", re.MULTILINE)


def read_comments(engine: str, spelt: Callable[[str], str] = str) -> dict[str, str]:
    """The comments, by the kind and name of an object, such as `column rowlease.queue.kind`.

    Args:
        engine: the engine's folder in sql/.
        spelt: a function that spells a name of PostgreSQL as this engine does.
    """
    others = {spelt(name): text for name, text in _of_tables("postgresql").items()}
    found = {name: text or others.get(name, "") for name, text in _of_tables(engine).items()}
    meanings: dict[str, str] = {}
    for name, text in found.items():
        meanings[_last(name)] = meanings.get(_last(name)) or text
    found = {name: text or meanings[_last(name)] for name, text in found.items()}
    for script in all_files(engine):
        made = MADE.search(script.body)
        if made is None or made[1] == "trigger":
            continue  # the file of grants defines no object, and triggers have no comments
        kind = "view" if made[1] == "view" else "routine"
        found[f"{kind} {made[2]}"] = _header(script)
        if kind == "view":
            for column, remark in _columns_of_view(script):
                name = spelt(column)
                found[f"column {made[2]}.{name}"] = remark or meanings.get(name, "")
    return {**OTHERS, **{name: text for name, text in found.items() if text}}


def _of_tables(engine: str) -> dict[str, str]:
    """The comments of the tables and columns in the migrations; empty if there is none."""
    found: dict[str, str] = {}
    for file in sorted((packaged_folder("migrations") / "versions").glob(f"*_{engine}.sql")):
        table, above = "", list[str]()
        for line in re.sub(r"[\[\]]", "", file.read_text(encoding="utf-8")).splitlines():
            remark = line.partition("  -- ")[2]
            if made := TABLE_LINE.match(line):
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
    """The columns of a view and their remarks, read from a string such as `name, name (remark)`.

    `the columns of queue` means the columns of that table. A view that is only written to (an
    inbox) lists its columns in the field `params`.
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
