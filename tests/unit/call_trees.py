"""The call trees in the README of each folder of sql/: drawn from the routines themselves.

python -m tests.unit.call_trees

writes them again after a routine has changed; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rowlease.store.routines import Routine, load_routines, packaged_folder

ENGINES = ("postgresql", "sqlserver")
BLOCK = re.compile(r"```text\n.*?```\n", re.DOTALL)


def folders(engine: str) -> list[Path]:
    """The folders that have routines."""
    return sorted(
        path
        for path in (packaged_folder("sql") / engine).iterdir()
        if path.is_dir() and path.name not in ("views", "testing")
    )


def called(routine: Routine, routines: dict[str, Routine]) -> list[str]:
    """What a routine calls, in the order of the first call."""
    body = "\n".join(line for line in routine.body.splitlines() if line.lstrip()[:2] != "--")
    body = re.sub(r"'(?:[^']|'')*'", "''", body)  # an error's text may name a routine
    found = re.findall(r"\browlease(?:_internal)?\.(\w+)\b(?!\.)", body)
    return [name for name in dict.fromkeys(found) if name in routines and name != routine.name]


def tree(folder: Path) -> str:
    """The public routines of a folder with what they call, as a block of text.

    A helper of another folder is a leaf that names its folder. A helper that was drawn before is a
    leaf, too. The clock is left out: nearly all call it.
    """
    routines = load_routines(folder.parent.name)
    homes = {
        path.stem: path.parent.parent.name if path.parent.name == "internal" else path.parent.name
        for path in folder.parent.rglob("*.sql")
        if path.parent.name != "testing"
    }
    mine = [name for name, home in homes.items() if home == folder.name and name in routines]
    drawn: set[str] = set()

    def lines(name: str, depth: int) -> Iterator[str]:
        label = "  " * depth + name
        if homes[name] != folder.name:
            yield f"{label}  ({homes[name]}/)"
            return
        if name in drawn:
            yield f"{label}  (above)"
            return
        drawn.add(name)
        yield f"{label:<30} {routines[name].summary}"
        for other in called(routines[name], routines):
            if other != "now":
                yield from lines(other, depth + 1)

    public = [name for name in sorted(mine) if routines[name].schema == "rowlease"]
    text = [line for name in public for line in lines(name, 0)]
    # Triggers, and helpers that other folders call.
    rest = [name for name in sorted(mine) if name not in drawn]
    roots = [n for n in rest if not any(n in called(routines[m], routines) for m in rest if m != n)]
    text += [line for name in roots for line in lines(name, 0)]
    return "```text\n" + "\n".join(line.rstrip() for line in text) + "\n```\n"


def main() -> None:
    for engine in ENGINES:
        for folder in folders(engine):
            page = folder / "README.md"
            text = page.read_text(encoding="utf-8")
            (block,) = BLOCK.findall(text)
            page.write_text(text.replace(block, tree(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
