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
    counts = Counter(passed=1200, skipped=2)
    ran = dict.fromkeys(versions.SUITES, counts) | {"doctor": Counter(failed=1)}
    table = versions.lines({"15.18": ran}, "2026-11-24")
    assert table[2] == "| PostgreSQL | contract | migrations | doctor | upgrade under load |"
    assert table[4].startswith("| 15.18 | 1,200 passed, 2 skipped | ")
    assert "| 1 failed |" in table[4]


def test_a_suite_that_did_not_run_is_not_shown_as_passed() -> None:
    assert versions.cell(Counter()) == "nothing ran"
