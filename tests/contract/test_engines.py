"""The engines that this run has, and the page that tells of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

import pytest

from rowlease.store import routines
from tests.contract import engines, runs, sqlserver
from tests.contract.engines import page
from tests.contract.runs import Recorder, Result


def test_the_contract_runs_on_sql_server_too(request: pytest.FixtureRequest) -> None:
    if why := sqlserver.missing():
        pytest.skip(f"{why}; the contract suite ran on PostgreSQL alone")


def test_the_page_shows_engines_side_by_side_and_why_something_was_skipped() -> None:
    run = runs.ended(
        runs.begun(),
        [
            Result("postgresql", "10_speed", "test_a", "passed", ""),
            Result("postgresql", "3_order", "test_b", "passed", ""),
            Result("sqlserver", "10_speed", "test_a", "skipped", "pages are PostgreSQL's"),
            Result("sqlserver", "3_order", "test_b", "failed", "StoreError: no such index"),
        ],
    )
    text = page(run)
    columns = ("PostgreSQL: passed", "failed", "skipped", "SQL Server: passed", "failed", "skipped")
    assert f"| promise | {' | '.join(columns)} |" in text
    assert text.index("| 3 order | 1 | 0 | 0 | 0 | 1 | 0 |") < text.index("| 10 speed | 1 | 0 |")
    assert "* 1: pages are PostgreSQL's (a)" in text
    assert "* 3 order: `test_b`: StoreError: no such index" in text
    assert "| **all** | 2 | 0 | 0 | 0 | 1 | 1 |" in text


def test_the_page_says_what_ran_with_which_scripts_and_has_the_notes() -> None:
    found = [
        Result("sqlserver", "3_order", "test_a", "passed", ""),
        Result("sqlserver", "9_loads", "test_b", "passed", ""),
        Result("sqlserver", "policies", "test_c", "not run", ""),
    ]
    run = runs.ended(runs.begun(), found)
    assert "these scripts" not in page(run)
    text = page(run._replace(older={"abc": [("sqlserver", "3_order")]}), notes=["run again: x"])
    told = ["these scripts: SQL Server (9 loads)", "older scripts, `abc`: SQL Server (3 order)"]
    assert "".join(f"* {item}\n" for item in [*told, "run again: x"]) in text


def test_a_reason_of_many_tests_is_a_line_that_can_be_read() -> None:
    why = "a reason of many words, " * 20
    found = [Result("sqlserver", "3_order", f"test_{n}", "skipped", why) for n in range(50)]
    text = page(runs.ended(runs.begun(), found))
    assert "* 50: a reason of many words" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 120


def test_what_a_driver_says_is_no_markup_of_the_page() -> None:
    said = "('42000', '[42000] [SQL Server]no *sys.dm_locks* <here>')"
    found = [
        Result("sqlserver", "3_order", "test_a", "skipped", said),
        Result("sqlserver", "3_order", "test_b", "failed", said),
    ]
    text = page(runs.ended(runs.begun(), found))
    written = r"('42000', '\[42000\] \[SQL Server\]no \*sys.dm\_locks\* \<here\>')"
    assert f"* 1: {written} (a)\n" in text
    assert f"`test_b`: {written}\n" in text


def test_only_tests_of_an_engine_are_recorded() -> None:
    recorder = Recorder()
    report = pytest.TestReport("x::y", ("x", 1, "y"), {}, "passed", None, "call")
    recorder.pytest_runtest_logreport(report)
    assert recorder.results == []


def test_a_failure_is_recorded_with_the_first_line_of_its_error() -> None:
    recorder = Recorder()
    item: Any = Namespace(nodeid="x::y", callspec=Namespace(params={"engine": "sqlserver"}))
    recorder.pytest_collection_finish(Namespace(items=[item]))  # type: ignore[arg-type]
    error: Any = Namespace(reprcrash=Namespace(message="ValueError: no such index\nat line 1"))
    recorder.pytest_runtest_logreport(
        pytest.TestReport("x::y", ("x", 1, "y"), {}, "failed", error, "call")
    )
    assert [result.reason for result in recorder.results] == ["ValueError: no such index"]


def test_the_suite_warns_when_the_scripts_are_others_than_those_that_ran(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scripts = shutil.copytree(routines.packaged_folder("sql"), tmp_path / "sql")
    monkeypatch.setattr(routines, "packaged_folder", lambda folder: tmp_path / folder)
    monkeypatch.setattr(routines, "load_routines", routines.load_routines.__wrapped__)
    monkeypatch.setattr(engines, "PAGE", tmp_path / "engines.md")
    ran = Result("sqlserver", "3_order", "test_a", "passed", "")
    engines.PAGE.write_text(page(runs.ended(runs.begun(), [ran])), encoding="utf-8")
    assert engines.stale() is None
    renew = scripts / "sqlserver" / "finish" / "renew.sql"
    renew.write_text(f"{renew.read_text(encoding='utf-8')}-- a comment\n", encoding="utf-8")
    assert engines.stale() is None
    renew.write_text(f"{renew.read_text(encoding='utf-8')}select 1;\n", encoding="utf-8")
    warning = engines.stale()
    assert warning is not None
    assert "another sql/sqlserver" in warning
    engines.PAGE.write_text(
        page(runs.ended(runs.begun(), [ran, ran._replace(outcome="not run")])), encoding="utf-8"
    )
    warning = engines.stale()
    assert warning is not None
    assert "ended early" in warning


def test_a_run_may_be_put_together_from_parts_and_tells_what_none_of_them_ran(
    tmp_path: Path,
) -> None:
    every = [Result("sqlserver", "3_order", f"test_{x}", "not run", "") for x in "abcd"]
    a, b, c, d = every
    parts = []
    for number, results in enumerate(
        (
            [a._replace(outcome="passed"), b._replace(outcome="failed")],
            [a._replace(outcome="skipped", reason="x"), b._replace(outcome="passed"), c],
        )
    ):
        runs.ended(runs.begun(), results).keep(tmp_path / f"{number}.json")
        parts.append(runs.kept(tmp_path / f"{number}.json"))
    run = runs.joined(parts, every)
    assert run.results == [a._replace(outcome="passed"), b._replace(outcome="failed"), c, d]
    assert "| 3 order | 1 | 1 | 0 |" in page(run)
    assert "2 of 4 results are missing" in page(run)
    assert "in 2 parts" in page(run)


def test_the_page_says_what_ran_with_older_scripts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = Result("sqlserver", "3_order", "test_a", "passed", "")
    new = Result("sqlserver", "1_one_owner", "test_b", "passed", "")
    before = runs.begun()._replace(scripts={"sqlserver": "0ld", "postgresql": "0ld"})
    parts = [
        runs.ended(before, [old, new._replace(outcome="failed")]),
        runs.ended(runs.begun(), [new]),
    ]
    run = runs.joined(parts, [old, new])
    assert run.results == [old, new]
    assert "* older scripts, `0ld`: SQL Server (3 order)\n" in page(run)
    monkeypatch.setattr(engines, "PAGE", tmp_path / "engines.md")
    engines.PAGE.write_text(page(run), encoding="utf-8")
    warning = engines.stale()
    assert warning is not None
    assert "older scripts" in warning


def test_what_no_part_ran_is_kept_from_the_page() -> None:
    """With the scripts that it ran with, and with what was missing there."""
    every = [
        Result(engine, promise, f"test_{x}", "not run", "")
        for engine in ("postgresql", "sqlserver")
        for promise in ("1_one_owner", "3_order")
        for x in "abc"
    ]
    before = runs.begun()._replace(scripts={"sqlserver": "0ld", "postgresql": "0ld"})
    outcomes = ("passed", "failed", "not run") * 4
    first = [one._replace(outcome=two) for one, two in zip(every, outcomes, strict=True)]
    text = page(runs.joined([runs.ended(before, first)], every))
    again = [one._replace(outcome="passed") for one in every[-3:]]
    run = runs.joined([runs.ended(runs.begun(), again)], every)
    run, notes = engines.with_rows(run, text)
    shown = page(run, notes=notes)
    assert "| 1 one owner | 1 | 1 | 0 | 1 | 1 | 0 |" in shown
    assert "| 3 order | 1 | 1 | 0 | 3 | 0 | 0 |" in shown
    assert "* older scripts, `0ld`: PostgreSQL (1 one owner, 3 order); SQL Server (1 one" in shown
    assert "* these scripts: SQL Server (3 order)" in shown
    assert "kept from the run from" in shown
    assert "3 of 12 results are missing" in shown
    nothing = runs.joined([runs.ended(runs.begun(), [])], every)
    kept, _ = engines.with_rows(nothing, shown)
    assert engines.rows(page(kept)) == engines.rows(shown)
