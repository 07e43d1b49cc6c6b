"""Mutants of sql/sqlserver, judged by the lint alone: one process reads them all.

    python -m tests.mutation.linted < PAIRS

reads a JSON list of pairs, the path of a script and another text in its place, and prints for each
the first rule that notices the difference, or null. A copy of the checkout and a run of pytest for
each would take hours.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.mutation.mutants import ROOT, Mutant, changed

LINT = "tests/tsql/test_lint.py"
SCRIPTS = "sql/sqlserver/"


def can_be_linted(one: Mutant) -> bool:
    files = {edit.file for edit in one.edits}
    return LINT in one.tests and len(files) == 1 and min(files).startswith(SCRIPTS)


def lint(chosen: Sequence[Mutant], jobs: int = 1) -> list[str | None]:
    """The rule that notices each mutant; None where none does."""
    pairs = [next(iter(changed(one, ROOT).items())) for one in chosen]
    with ThreadPoolExecutor(jobs) as pool:
        parts = list(pool.map(_in_a_process, [pairs[turn::jobs] for turn in range(jobs)]))
    return [parts[place % jobs][place // jobs] for place in range(len(pairs))]


def _in_a_process(pairs: Sequence[tuple[str, str]]) -> list[str | None]:
    """A .NET runtime is loaded into a process for good, so it gets one of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.mutation.linted"],
        cwd=ROOT,
        input=json.dumps(pairs),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str | None] = json.loads(ran.stdout)
    return found


def main() -> None:
    from tests.tsql.lint import findings
    from tests.tsql.scriptdom import load

    parse = load()
    noticed = []
    for path, text in json.loads(sys.stdin.read()):
        found = findings(ROOT / path, parse, text)
        noticed.append(next((one.rule for one in found), None))
    print(json.dumps(noticed))  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
