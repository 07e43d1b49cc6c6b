"""Do the tests notice when a guard is missing?

    python -m tests.mutation [--only TEXT] [--jobs 2] [--list] [--skip-baseline]

Each diff below this folder breaks one guard: a comparison, a lock, an order, a count. It begins
with the tests that are to notice. For each of them the checkout is copied, the diff is applied to
the copy, and those tests are run until one fails. The command prints which test caught which
mutant, and exits with 1 if any survived, or if the tests do not pass unchanged. A diff that does
not apply any more is an error: `git apply --check` says where.
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

from tests.servers import embedded_server

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
COPIED = (
    "src",
    "sql",
    "migrations",
    "tests",
    "benchmarks",
    "deploy",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "pyproject.toml",
    "alembic.ini",
)
#: The variable that names the server of the tests.
VARIABLE = "ROWLEASE_TEST_PG_DSN"
#: Seconds that a mutant may take; one that hangs is noticed too, but should fail earlier.
PATIENCE = 300
#: Seconds that one test may take on a mutant.
PATIENCE_OF_TEST = 70


class Mutant(NamedTuple):
    """One guard, broken.

    Attributes:
        file: the diff.
        name: what is missing, as its first line says.
        tests: files that are to notice, in the order to try.
    """

    file: Path
    name: str
    tests: tuple[str, ...]

    @property
    def path(self) -> str:
        return self.file.relative_to(HERE).with_suffix("").as_posix()


class Verdict(NamedTuple):
    mutant: Mutant
    caught_by: str | None
    seconds: float
    trouble: str | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=first_line())
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--only", default="", help="mutants whose path or name holds this text")
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    parser.add_argument("--skip-baseline", action="store_true", help="the tests are known to pass")
    given = parser.parse_args(arguments)
    chosen = [one for one in mutants() if given.only in one.path or given.only in one.name]
    for one in chosen:
        apply(one, ROOT, "--check")  # before anything is run
    if given.list:
        for one in chosen:
            print(f"{one.path:60} {one.name}")  # noqa: T201 - a command's output
        return 0
    with one_server():
        return run(chosen, given.jobs, skip_baseline=given.skip_baseline)


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
                f" {outcome}",
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


def mutants() -> list[Mutant]:
    """All diffs of this folder.

    Raises:
        ValueError: a diff does not begin with its name and its tests, or a test is not there.
    """
    return [read(file) for file in sorted(HERE.rglob("*.diff"))]


def read(file: Path) -> Mutant:
    head = re.match(r"mutant: (.+)\ntests: (.+)\n--- a/", file.read_text(encoding="utf-8"))
    if head is None:
        raise ValueError(f"{file}: the first two lines must be `mutant: ...` and `tests: ...`")
    tests = tuple(head[2].split())
    for test in tests:
        if not (ROOT / test.partition("::")[0]).exists():
            raise ValueError(f"{file}: there is no {test}")
    return Mutant(file, head[1], tests)


def apply(one: Mutant, root: Path, *options: str) -> None:
    """Apply a diff to a copy of the checkout.

    Raises:
        ValueError: it does not fit.
    """
    command = ["git", "apply", "--unidiff-zero", "--recount", *options, str(one.file)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{one.path}.diff does not apply: {done.stderr.strip()}")


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
        | {"PYTHONPATH": str(home / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
