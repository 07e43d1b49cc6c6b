"""The retired words of docs/glossary.md stay out of public names and of the documentation."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

GLOSSARY = Path("docs/glossary.md")
HEADING = "\n## Retired words\n"
#: Written by a program, from a run of the tests.
GENERATED = Path("docs/engines.md")


@pytest.fixture(scope="module")
def retired(repository: Path) -> re.Pattern[str]:
    """Finds a retired word in a text."""
    _, _, section = (repository / GLOSSARY).read_text(encoding="utf-8").partition(HEADING)
    rows = re.findall(r"^\| (.+?) \|", section, re.M)[1:]
    words = [word.strip() for row in rows for word in row.split(",")]
    assert words
    return re.compile(rf"\b({'|'.join(map(re.escape, words))})\b", re.IGNORECASE)


def pages(repository: Path) -> Iterator[tuple[Path, str]]:
    """The pages of the documentation, without the list of retired words."""
    for folder in (".", "docs", "docs/decisions", "sql", "tests"):
        for path in sorted((repository / folder).glob("*.md")):
            if path != repository / GENERATED:
                yield path, path.read_text(encoding="utf-8").partition(HEADING)[0]


def words_of(name: str) -> str:
    """`NotificationsLost` and `notifications_lost` as `notifications lost`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_.]", " ", name)


def names(repository: Path) -> Iterator[str]:
    """Modules, public names of Python, routines, and what tables are made of."""
    package = repository / "src" / "rowlease"
    for path in package.rglob("*.py"):
        yield path.relative_to(package).with_suffix("").as_posix().replace("/", ".")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                    yield name
                case ast.AnnAssign(target=ast.Name(id=name)):
                    yield name
    for path in (repository / "sql").rglob("*.sql"):
        yield path.stem
    catalogue = repository / "sql" / "postgresql" / "catalogue.json"
    yield from json.loads(catalogue.read_text(encoding="utf-8"))


def test_no_page_of_the_documentation_has_a_retired_word(
    repository: Path, retired: re.Pattern[str]
) -> None:
    found = {
        f"{path.relative_to(repository)}: {line.strip()}"
        for path, text in pages(repository)
        for line in text.splitlines()
        if retired.search(line)
    }
    assert not found


def test_no_name_has_a_retired_word(repository: Path, retired: re.Pattern[str]) -> None:
    assert not {name for name in names(repository) if retired.search(words_of(name))}


def test_no_summary_of_a_routine_has_a_retired_word(
    repository: Path, retired: re.Pattern[str]
) -> None:
    files = list((repository / "sql").rglob("*.sql"))
    first = {path: path.read_text(encoding="utf-8").partition("\n")[0] for path in files}
    assert not {path.name for path, line in first.items() if retired.search(line)}


#: Names that two engines, two copies of one module, or two models of Django share on purpose.
SHARED = {"ENGINE", "FRAME_SIZE", "MIGRATION_LOCK", "Meta", "_HOMES", "_NAMES"}


def test_no_two_classes_or_constants_have_one_name(repository: Path) -> None:
    found: dict[str, list[str]] = {}
    for path in sorted((repository / "src" / "rowlease").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for inner in ast.walk(tree):
            if isinstance(inner, ast.ClassDef):
                found.setdefault(inner.name, []).append(path.name)
        for node in tree.body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ):
                    if name.isupper() and len(name) > 1:  # shorter ones are type variables
                        found.setdefault(name, []).append(path.name)
    assert {name: paths for name, paths in found.items() if len(paths) > 1}.keys() == SHARED


@pytest.mark.parametrize(
    ("text", "is_found"),
    [("The Doorbell", True), ("fetched ahead", True), ("a string", False), ("a scandal", False)],
)
def test_the_rule_finds_whole_words(retired: re.Pattern[str], text: str, is_found: bool) -> None:
    assert bool(retired.search(text)) == is_found
