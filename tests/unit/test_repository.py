"""The rules of the repository: where things are, and in which direction imports point."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rowlease
import rowlease.testing

PACKAGE = Path(rowlease.__file__).parent
ROOT = Path(__file__).parents[2]

#: A module is split by idea, never to get below this. Longer ones have several ideas.
MAX_LINES = 400
#: Modules with SQL text, and why it is not a routine. All others call the store.
WITH_SQL = {
    "store/comments.py": "reads the statements of the migrations",
    "store/postgresql/catalogue.py": "reads the server's catalogue, of databases of any release",
    "store/postgresql/connection.py": "asks who is at the other end, before there is a schema",
    "store/postgresql/databases.py": "makes the database that the schema then goes into",
    "store/postgresql/notifications.py": "calls routines on a connection of its own",
    "store/postgresql/migrate.py": "asks what is there, where there may be no routine yet",
    "store/postgresql/indexes.py": "a part of store/postgresql/migrate.py",
    "store/postgresql/scratch.py": "makes the databases of tests, and drops them",
    "store/postgresql/store.py": "builds the calls of the routines from their headers",
    "store/postgresql/transaction.py": "calls a routine on a connection of the caller's",
    "store/sqlserver/driver_errors.py": "asks the server for its texts of errors",
    "store/sqlserver/connection.py": "asks who owns the schema, before a routine of it is called",
    "store/sqlserver/transaction.py": "asks whether the caller's transaction is open",
    "store/postgresql/observer.py": "as store/sqlserver/observer.py",
    "store/sqlserver/observer.py": "asks the server's views for locks and plans; stages rows",
    "store/sqlserver/catalogue.py": "as store/postgresql/catalogue.py",
    "store/sqlserver/descriptions.py": "a part of store/sqlserver/migrate.py",
    "store/sqlserver/migrate.py": "as store/postgresql/migrate.py",
    "spark/jdbc_reader.py": "what Spark's JDBC reader calls a table is a query",
    "demo/ledger.py": "what Spark's JDBC reader calls a table is a query",
}
NAMES_THAT_SAY_NOTHING = {"util", "helper", "common", "base", "manager", "misc"}

SQL = re.compile(
    r"^\s*(select|insert into|delete from|truncate|merge|set local|set session|lock table)\s"
    r"|^\s*(create|alter|drop|grant|revoke)\s+(or replace\s+)?"
    r"(database|schema|role|table|view|index|function|procedure|routine|trigger|usage|execute)\s"
    r"|\bselect\b.*\bfrom\b|\bupdate\s+\S+\s+set\b|\binsert\s+into\b|\bdelete\s+from\b",
    re.DOTALL,
)


def modules() -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def strings(path: Path) -> Iterator[str]:
    """The texts of a module without its documentation; x replaces formatted values."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in documentation:
            yield str(node.value)


@pytest.fixture(scope="module")
def contracts(repository: Path) -> dict[str, dict[str, Any]]:
    with (repository / "pyproject.toml").open("rb") as file:
        listed = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return {contract["name"]: contract for contract in listed}


def test_the_contracts_know_every_part_of_the_package(
    contracts: dict[str, dict[str, Any]],
) -> None:
    parts = {"rowlease." + name.partition("/")[0].removesuffix(".py") for name in modules()}
    parts -= {"rowlease.__init__", "rowlease.__main__"}
    layered = {
        part
        for layer in contracts["Imports point one way"]["layers"]
        for part in layer.split(" | ")
    }
    assert layered == parts
    assert set(contracts["Only the store knows a database"]["source_modules"]) == parts - {
        "rowlease.store"
    }


def test_sql_is_written_in_sql_files() -> None:
    found = {
        name for name in modules() if any(SQL.search(text) for text in strings(PACKAGE / name))
    }
    assert found == set(WITH_SQL)


@pytest.mark.parametrize(
    ("text", "is_sql"),
    [
        ("select 1", True),
        ("select rowlease.listen(%s)", True),
        ("(select x from y) z", True),
        ("with a as (\n delete from b) select", True),
        ("update x set y = 1", True),
        ("insert into x", True),
        ("create role x", True),
        ("grant usage on schema x", True),
        ("create or replace function x()", True),
        ("select one of them", True),
        ("no selection from here", False),
        ("update the settings", False),
        ("grant its user rowlease_producer", False),
        ("create it with rowlease.configure_queue", False),
        ("Selects requests", False),
    ],
)
def test_the_rule_for_sql_knows_sql_when_it_sees_it(text: str, is_sql: bool) -> None:
    assert bool(SQL.search(text)) == is_sql


def test_a_module_fits_on_a_few_pages() -> None:
    lengths = {
        name: len((PACKAGE / name).read_text(encoding="utf-8").splitlines()) for name in modules()
    }
    assert not [name for name, length in lengths.items() if length > MAX_LINES]


def test_every_name_says_what_is_inside(repository: Path) -> None:
    names = [
        path.relative_to(repository)
        for folder in ("src", "sql", "migrations", "tests")
        for path in (repository / folder).rglob("*")
        if "__pycache__" not in path.parts
    ]
    assert names
    vague = {
        str(path)
        for path in names
        for word in re.split(r"[_.]", path.name.lower())
        if word.removesuffix("s") in NAMES_THAT_SAY_NOTHING
    }
    assert not vague


def test_the_public_names_are_few_and_there() -> None:
    assert len(rowlease.__all__) <= 30
    assert sorted(rowlease.__all__) == rowlease.__all__
    for name in rowlease.__all__:
        assert getattr(rowlease, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = rowlease.Nonsense
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert rowlease.__version__ == project["version"]


def test_pages_import_a_public_name_from_where_it_is_public() -> None:
    """What they import from other modules is public by docs/upgrading.md."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = {
        (page.name, module, name.partition(" as ")[0])
        for page in pages
        for module, names in re.findall(
            r"^ *from (rowlease\.[\w.]+) import \(?([\w, ]+)", page.read_text(), re.M
        )
        for name in names.split(", ")
    }
    assert found
    assert not [each for each in found if each[2] in rowlease.__all__]


def test_the_errors_that_a_user_catches_are_public() -> None:
    for name in ("DeadLetter", "EnqueueUnknown", "LeaseLost", "QueueFull", "Retry", "Snooze"):
        assert getattr(rowlease, name) is getattr(rowlease.errors, name)
        assert name in rowlease.__all__


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        name
        for name in modules()
        if not ast.get_docstring(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))
    ]
    assert not silent


def test_every_mutant_still_applies() -> None:
    command = [sys.executable, "-m", "tests.mutation", "--list"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert listed.returncode == 0, listed.stderr
    assert len(listed.stdout.splitlines()) > 200


def test_no_module_has_the_name_of_what_its_package_exports() -> None:
    """As soon as such a module is imported, the package's attribute is the module."""
    for package in (rowlease, rowlease.testing):
        modules = {path.stem for path in Path(package.__path__[0]).iterdir()}
        assert not modules & set(package.__all__)
