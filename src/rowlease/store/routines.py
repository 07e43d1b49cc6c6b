"""Reads the routines in sql/: their names, headers and bodies.

Every file begins with a header of five fields. Calls are built from the field `params`, so that
only the file of a routine defines its parameters.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from rowlease.errors import RowleaseError

HEADER_FIELDS = ("params", "returns", "errors", "locks", "why")
#: The schema of the routines that a role may call.
PUBLIC = "rowlease"
#: The schema of the helpers: the files in a folder `internal`.
INTERNAL = "rowlease_internal"


@dataclass(frozen=True, slots=True)
class Routine:
    """One file of sql/<engine>/.

    Attributes:
        name: the name of the routine and of the file, without ".sql"; unique for an engine.
        schema: PUBLIC or INTERNAL.
        summary: the sentence in the first line.
        header: the five fields. Continuation lines are joined.
        params: the SQL type of each parameter, by name and in order.
        body: the whole text of the file.
    """

    name: str
    schema: str
    summary: str
    header: dict[str, str]
    params: dict[str, str]
    body: str


def packaged_folder(folder: str) -> Path:
    """The folder `sql` or `migrations`, in the checkout or in the installed package."""
    package = Path(__file__).resolve().parents[1]
    # A checkout comes first: an editable install may have left an outdated copy in the package.
    for root in (package.parents[1] / folder, package / f"_{folder}"):
        if root.is_dir() and (package.parent.name == "src" or root.parent == package):
            return root
    raise RowleaseError(f"the installed rowlease lacks its folder {folder!r}; install it again")


@cache
def roles_of(routine: str) -> list[str]:
    """The roles that may call a routine; the engines have the same grants."""
    grants = (packaged_folder("sql") / "postgresql" / "grants.sql").read_text(encoding="utf-8")
    granted = re.findall(r"^grant execute on function (.*?)\n +to (.*?);", grants, re.M | re.S)
    return sorted(
        {
            role
            for routines, roles in granted
            if re.search(rf"rowlease\.{re.escape(routine)}\b", routines)
            for role in roles.split(", ")
        }
    )


@cache
def load_routines(engine: str) -> dict[str, Routine]:
    """All routines of an engine by name, without views and grants."""
    root = packaged_folder("sql") / engine
    apart = {root / "views", root / "testing", root}
    files = (path for path in root.rglob("*.sql") if path.parent not in apart)
    return {path.stem: read_routine(path) for path in sorted(files, key=lambda path: path.stem)}


def all_files(engine: str) -> list[Routine]:
    """Every file that `rowlease migrate` executes, in this order."""
    root = packaged_folder("sql") / engine
    views = map(read_routine, sorted((root / "views").glob("*.sql")))
    return [*load_routines(engine).values(), *views, read_routine(root / "grants.sql")]


def scripts_hash(engine: str) -> str:
    """A hash of `all_files` and of the comments on tables (SHA-256, hexadecimal)."""
    digest = hashlib.sha256()
    for file in sorted((packaged_folder("migrations") / "versions").glob("*.sql")):
        digest.update(file.read_bytes())
    for script in all_files(engine):
        digest.update(f"{script.name}\0{script.body}\0{script.header}\0".encode())
    return digest.hexdigest()


def read_routine(path: Path) -> Routine:
    """Parse one file.

    Raises:
        ValueError: the header lacks a field, or the first line does not name the file.
    """
    body = path.read_text(encoding="utf-8")
    name, summary, own = read_header(body)
    header = {**common_fields(path), **own}
    if name != path.stem or tuple(header) != HEADER_FIELDS:
        raise ValueError(f"{path.name}: the header must name the file and hold {HEADER_FIELDS}")
    schema = INTERNAL if path.parent.name == "internal" else PUBLIC
    return Routine(name, schema, summary, header, _params(header["params"]), body)


def read_header(body: str) -> tuple[str, str, dict[str, str]]:
    """The name and the sentence in the first line of a file, and its fields."""
    comment = [line[3:] for line in takewhile(lambda line: line[:2] == "--", body.splitlines())]
    name, _, summary = comment[0].partition(": ") if comment else ("", "", "")
    header: dict[str, str] = {}
    for line in comment[1:]:
        if match := re.match(r"(\w+): +(.*)", line):
            field, header[match[1]] = match.groups()
        elif header:
            header[field] += " " + line.strip()
    return name, summary, header


def common_fields(path: Path) -> dict[str, str]:
    """The fields that a file of SQL Server need not repeat: those of PostgreSQL's file."""
    root = packaged_folder("sql")
    if not path.resolve().is_relative_to(root / "sqlserver"):
        return {}
    other = root / "postgresql" / path.resolve().relative_to(root / "sqlserver")
    return read_header(other.read_text(encoding="utf-8"))[2] if other.exists() else {}


def _params(field: str) -> dict[str, str]:
    """The names and types in `p_name type (remark), variadic p_names type[] -- remark`.

    A remark in parentheses follows a space, so `nvarchar(max)` has no remark.
    """
    plain = re.sub(r"\s\([^)]*\)", "", field).partition(" -- ")[0]
    pairs = (part.removeprefix(" ").removeprefix("variadic ").split() for part in plain.split(","))
    return {name: " ".join(kind) for name, *kind in pairs if name.startswith("p_")}
