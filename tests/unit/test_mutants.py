"""The form of tests/mutation: a mutant names its text, and what is not there is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation import mutants
from tests.mutation.mutants import apply, changed, read_toml

TWO_PLACES = """
[[target]]
tests = ["tests/unit/test_a.py"]

[[target.mutant]]
name = "both guards are missing"
edits = [
  { file = "a.py", old = "if a:", new = "if True:" },
  { file = "a.py", old = "if b:", new = "if True:" },
]
"""
ONE = """
[[target]]
file = "a.py"
tests = ["tests/unit/test_a.py"]

[[target.mutant]]
name = "a guard is missing"
old = "if a:"
new = "if True:"
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mutants, "HERE", tmp_path)
    (tmp_path / "a.py").write_text("if a:\n  pass\nif b:\n  pass\n")
    return tmp_path


def read(folder: Path, text: str) -> list[mutants.Mutant]:
    (folder / "a.toml").write_text(text)
    return list(read_toml(folder / "a.toml"))


def test_a_mutant_changes_its_text_and_nothing_else(checkout: Path) -> None:
    (one,) = read(checkout, ONE)
    apply(one, checkout)
    assert (checkout / "a.py").read_text() == "if True:\n  pass\nif b:\n  pass\n"


def test_a_mutant_may_change_two_places_of_a_file(checkout: Path) -> None:
    (one,) = read(checkout, TWO_PLACES)
    assert changed(one, checkout) == {"a.py": "if True:\n  pass\nif True:\n  pass\n"}


@pytest.mark.parametrize(("text", "count"), [("if c:", 0), ("if a:\nif a:\n", 2)])
def test_a_text_that_is_not_there_once_is_an_error(checkout: Path, text: str, count: int) -> None:
    (checkout / "a.py").write_text(text)
    (one,) = read(checkout, ONE)
    with pytest.raises(ValueError, match=f"this text {count} times"):
        changed(one, checkout)


@pytest.mark.parametrize("missing", ["name", "old", "new", "tests"])
def test_a_mutant_without_a_part_is_an_error(checkout: Path, missing: str) -> None:
    text = "\n".join(line for line in ONE.splitlines() if not line.startswith(missing))
    with pytest.raises(ValueError, match=f"has no '{missing}'"):
        read(checkout, text)


def test_two_mutants_of_one_name_are_an_error(checkout: Path) -> None:
    with pytest.raises(ValueError, match="two mutants are called a guard is missing"):
        read(checkout, ONE + ONE[ONE.index("[[target.mutant]]") :])
