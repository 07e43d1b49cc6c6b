"""The mutants of this folder, and how one is put into a copy of the checkout.

A file has the mutants of a folder of `sql/` or of a package: a target for each routine or module,
and in it its mutants:

    [[target]]
    file = "sql/sqlserver/dequeue/internal/lease.sql"   # of each mutant that names none
    tests = ["tests/tsql/test_lint.py"]                 # those that are to notice, in order

    [[target.mutant]]
    name = "a claim waits for rows that another claim has locked"
    old = "updlock, readpast, rowlock"                  # a text that the file has once
    new = "updlock, rowlock"                            # what stands there instead

A mutant that changes several places has `edits`, a list of tables with `file`, `old` and `new`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent


class Edit(NamedTuple):
    """A text of a file, and what stands there instead."""

    file: str
    old: str
    new: str


class Mutant(NamedTuple):
    """One guard, broken.

    Attributes:
        name: what is missing.
        tests: files that are to notice, in the order to try.
        edits: what it changes.
    """

    name: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...]

    @property
    def path(self) -> str:
        return self.edits[0].file


def mutants() -> list[Mutant]:
    """All mutants of this folder.

    Raises:
        ValueError: one has no name, no test or no text, two of a target have one name, or a test
            is not there.
    """
    found = [one for file in sorted(HERE.rglob("*.toml")) for one in read_toml(file)]
    for one in found:
        for test in one.tests:
            if not (ROOT / test.partition("::")[0]).exists():
                raise ValueError(f"{one.path}, {one.name}: there is no {test}")
    return found


def read_toml(file: Path) -> Iterator[Mutant]:
    for target in tomllib.loads(file.read_text(encoding="utf-8"))["target"]:
        names = set()
        for entry in target.pop("mutant"):
            one = target | entry
            try:
                mutant = Mutant(one["name"], tuple(one["tests"]), tuple(edits_of(one)))
            except KeyError as missing:
                raise ValueError(f"{file}: a mutant has no {missing}: {entry}") from missing
            if mutant.name in names:
                raise ValueError(f"{file}: two mutants are called {mutant.name}")
            names.add(mutant.name)
            yield mutant


def edits_of(one: dict[str, Any]) -> Iterator[Edit]:
    for edit in one.get("edits", [one]):
        yield Edit(edit.get("file", one.get("file")), edit["old"], edit["new"])


def changed(one: Mutant, root: Path) -> dict[str, str]:
    """The files that a mutant changes, with their new texts.

    Raises:
        ValueError: a file does not have its text exactly once.
    """
    texts: dict[str, str] = {}
    for edit in one.edits:
        text = texts.get(edit.file) or (root / edit.file).read_text(encoding="utf-8")
        if (count := text.count(edit.old)) != 1:
            raise ValueError(
                f"{one.path}, {one.name}: {edit.file} has this text {count} times: {edit.old}"
            )
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts


def apply(one: Mutant, root: Path) -> None:
    """Put a mutant into a copy of the checkout.

    Raises:
        ValueError: it does not fit.
    """
    for name, text in changed(one, root).items():
        (root / name).write_text(text, encoding="utf-8")
