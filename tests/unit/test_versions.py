"""The table of PostgreSQL's versions tells what a run of pytest reported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests import versions

REPORT = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"/>
<testcase name="c"><failure message="no"/></testcase>
<testcase name="d"><error message="no"/></testcase>
<testcase name="e"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


def test_failures_and_errors_of_a_report_are_failures(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    found = versions.outcomes(tmp_path / "report.xml")
    assert found == Counter(passed=2, failed=2, skipped=1)


def test_the_table_has_a_row_for_each_version_and_a_column_for_each_suite() -> None:
    counts = {"passed": 1199, "passed alone": 1, "skipped": 2}
    ran = {suite: Counter(counts) for suite in versions.SUITES} | {"doctor": Counter(failed=1)}
    told = versions.row("15.18", ran, "2026-11-24, 71db0783")
    table = versions.with_rows([], [told])
    assert table[3].startswith("| PostgreSQL | contract | ")
    assert table[-1].startswith("| 15.18 | 1,199 passed, 1 passed alone, 2 skipped | ")
    assert "| 1 failed |" in table[-1]
    assert table[-1].endswith("| 2026-11-24, 71db0783 |")
    assert {line.count("|") for line in table[3:]} == {len(versions.SUITES) + 3}


def test_a_row_takes_the_place_of_that_of_its_version() -> None:
    section = versions.with_rows([], ["| 16.14 | old |", "| 15.18 | old |"])
    assert section[-2:] == ["| 15.18 | old |", "| 16.14 | old |"]
    assert versions.with_rows(section, ["| 16.15 | new |"])[-2:] == [
        "| 15.18 | old |",
        "| 16.15 | new |",
    ]


def test_a_suite_that_did_not_run_is_not_shown_as_passed() -> None:
    assert versions.cell(Counter()) == "nothing ran"
