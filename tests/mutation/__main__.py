"""Do the tests notice when a guard is missing?

    python -m tests.mutation [--only TEXT] [--jobs 2] [--list] [--lint] [--skip-baseline]

Each mutant of this folder (mutants.py) breaks one guard: a comparison, a lock, an order, a count.
For each of them the checkout is copied, the mutant is put into the copy, and the tests that are to
notice are run until one fails. Those of sql/sqlserver that the lint is to notice are first read by
it, all in one pass; `--lint` does nothing else. The command prints which test caught which mutant,
and exits with 1 if any survived, or if the tests do not pass unchanged. A mutant that does not fit
any more is an error.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.machine import TOOLS
from tests.mutation.linted import can_be_linted, lint
from tests.mutation.mutants import ROOT, Mutant, apply, changed, mutants
from tests.servers import embedded_server

COPIED = (
    "src",
    "sql",
    "migrations",
    "tests",
    "benchmarks",
    "deploy",
    "docs",
    "examples",
    "requirements",
    "README.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "pyproject.toml",
    "alembic.ini",
    "Dockerfile",
    ".dockerignore",
    "docker-compose.yml",
)
#: The variable that names the server of the tests.
VARIABLE = "ROWLEASE_TEST_PG_DSN"
#: Seconds that a mutant may take; one that hangs is noticed too, but should fail earlier.
PATIENCE = 300
#: Seconds that one test may take on a mutant.
PATIENCE_OF_TEST = 70


class Verdict(NamedTuple):
    mutant: Mutant
    caught_by: str | None
    seconds: float
    trouble: str | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=first_line())
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--only", default="", help="mutants whose file or name holds this text")
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    parser.add_argument("--lint", action="store_true", help="only those that the lint may notice")
    parser.add_argument("--skip-baseline", action="store_true", help="the tests are known to pass")
    given = parser.parse_args(arguments)
    chosen = [one for one in mutants() if given.only in one.path or given.only in one.name]
    if not chosen:
        parser.error(f"no mutant has {given.only!r} in its file or name")
    for one in chosen:
        changed(one, ROOT)  # before anything is run
    if given.list:
        for one in chosen:
            print(f"{one.path:60} {one.name}")  # noqa: T201 - a command's output
        return 0
    linted = [one for one in chosen if can_be_linted(one)]
    left = [one for one in chosen if one not in linted] + read_by_lint(linted, given.jobs)
    if given.lint or not left:
        return int(any(can_be_linted(one) for one in left))
    with one_server():
        return run(left, given.jobs, skip_baseline=given.skip_baseline)


def read_by_lint(chosen: list[Mutant], jobs: int) -> list[Mutant]:
    """Print which rules of the lint notice the mutants; returns those that none does."""
    if not chosen:
        return []
    rules = lint(chosen, jobs)
    for one, rule in zip(chosen, rules, strict=True):
        print(f"{one.path:40} {one.name}: {rule or 'not noticed by the lint'}")  # noqa: T201
    left = [one for one, rule in zip(chosen, rules, strict=True) if rule is None]
    print(f"{len(chosen) - len(left)} of {len(chosen)} mutants caught by the lint")  # noqa: T201
    return left


def run(chosen: list[Mutant], jobs: int, *, skip_baseline: bool) -> int:
    """Judge the mutants, and print each verdict; returns the exit code."""
    if not skip_baseline and not passes(sorted({t for one in chosen for t in one.tests})):
        print("the tests fail as they are, so they can judge no mutant")  # noqa: T201
        return 1
    survivors = 0
    with ThreadPoolExecutor(jobs) as pool:
        for number, verdict in enumerate(pool.map(judge, chosen), 1):
            outcome = verdict.caught_by or verdict.trouble or "SURVIVED"
            survivors += verdict.caught_by is None
            print(  # noqa: T201
                f"{number:>3}/{len(chosen)} {verdict.seconds:>4.0f} s  {verdict.mutant.path:60}"
                f" {verdict.mutant.name}: {outcome}",
                flush=True,
            )
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants caught")  # noqa: T201
    return 1 if survivors else 0


@contextmanager
def one_server() -> Iterator[None]:
    """A server for all mutants, unless one is given: to start one takes longer than most tests."""
    if VARIABLE in os.environ:
        yield
        return
    with embedded_server() as dsn:
        os.environ[VARIABLE] = dsn
        yield
        del os.environ[VARIABLE]


def first_line() -> str:
    return (__doc__ or "").partition("\n")[0]


def judge(one: Mutant) -> Verdict:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rowlease-mutant-") as folder:
        home = copied(Path(folder))
        apply(one, home)
        try:
            run = pytest(home, one.tests, f"--timeout={PATIENCE_OF_TEST}")
        except subprocess.TimeoutExpired:
            return Verdict(one, "(it hangs)", time.monotonic() - began)
    seconds = time.monotonic() - began
    failed = re.search(r"^FAILED tests/(.+?)(?: - .*)?$", run.stdout, re.M)
    if run.returncode == 1 and failed:
        return Verdict(one, failed[1].replace(".py::", ": "), seconds)
    if "+ Timeout +" in run.stdout + run.stderr:
        return Verdict(one, "(it hangs)", seconds)
    if run.returncode == 0:
        return Verdict(one, None, seconds)
    # No test failed, but one could not run: the mutant is no SQL or no Python.
    return Verdict(one, None, seconds, f"TROUBLE {run.stdout.strip()[-300:]}")


def passes(tests: Sequence[str]) -> bool:
    with tempfile.TemporaryDirectory(prefix="rowlease-mutant-") as folder:
        run = pytest(copied(Path(folder)), tests, patience=1800)
    if run.returncode:
        print(run.stdout[-3000:])  # noqa: T201
    return run.returncode == 0


def copied(home: Path) -> Path:
    """A copy of what the tests need; its package finds its own routines."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, home / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, home / name)
    return home


def pytest(
    home: Path, tests: Sequence[str], *options: str, patience: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly"]
    command += ["-p", "no:cacheprovider", "--tb=no", "-rf", *options, *tests]
    return subprocess.run(
        command,
        cwd=home,
        env={"ROWLEASE_MODEL_EXAMPLES": "1000", "ROWLEASE_INTERLEAVINGS": "90"}
        | os.environ
        | {
            "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(home / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
