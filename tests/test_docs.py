"""What the pages say is true: the quick start runs, and nothing a user can set is left out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rowlease.cli import cli


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


def test_the_quick_start_runs_as_it_stands(
    repository: Path, tmp_path: Path, dsn: str, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    (program, *_) = code_blocks(repository / "README.md", "python")
    (tmp_path / "app.py").write_text(program)
    ran = subprocess.run(
        [sys.executable, "app.py"],
        cwd=tmp_path,
        env={**os.environ, "ROWLEASE_DSN": dsn, "PYTHONPATH": str(repository / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert sql("select result ->> 'image' from rowlease.queue_history order by 1") == [
        ("a.png",),
        ("b.png",),
    ]


def test_the_example_of_the_testing_page_passes(
    repository: Path, tmp_path: Path, server_dsn: str
) -> None:
    (program,) = code_blocks(repository / "docs" / "testing.md", "python")
    (tmp_path / "test_reminders.py").write_text(program)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "rowlease.testing.plugin"],
        cwd=tmp_path,
        env={
            **os.environ,
            "ROWLEASE_TEST_DSN": server_dsn,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # it may be there twice otherwise
            "PYTHONPATH": str(repository / "src"),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_the_tasks_of_the_page_on_tasks_do_what_it_says(
    repository: Path, tmp_path: Path, dsn: str, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    (program,) = code_blocks(repository / "docs" / "tasks.md", "python")
    (tmp_path / "reports.py").write_text(program)
    sql("select rowlease.configure_queue('web')")
    sql("select rowlease.enqueue('default', 'report', '{\"customer\": 1}')")
    sql("select rowlease.enqueue('default', 'report', '{\"customer\": -1}')")
    sql("select rowlease.enqueue('default', 'report', '{\"nobody\": 1}')")
    sql("select rowlease.enqueue('web', 'ping', '{\"host\": \"h\"}')")
    for arguments in (["reports:report"], ["reports:ping", "--queue", "web"]):
        ran = subprocess.run(
            [sys.executable, "-m", "rowlease", "worker", *arguments, "--burst"],
            cwd=tmp_path,
            env={**os.environ, "ROWLEASE_DSN": dsn, "PYTHONPATH": str(repository / "src")},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
    assert sql("select result from rowlease.queue_history order by request_id") == [
        ({"customer": 1, "attempt": 1},),
        ("h is there",),
    ]
    assert sql("select status, num_attempts from rowlease.queue") == [("Failed", 1)] * 2


def test_the_quick_start_has_at_most_20_lines(repository: Path) -> None:
    (program, *_) = code_blocks(repository / "README.md", "python")
    assert len(program.splitlines()) <= 20


@pytest.mark.parametrize("page", ["README.md", "docs/operations.md"])
def test_the_sql_of_the_pages_runs(
    repository: Path, dsn: str, sql: Callable[..., list[tuple[Any, ...]]], page: str
) -> None:
    sql("select rowlease.configure_queue('mail')")
    blocks = code_blocks(repository / page, "sql")
    assert blocks
    for block in blocks:
        sql(block)


def test_every_command_is_in_the_readme_or_its_help(repository: Path) -> None:
    pages = (repository / "README.md").read_text() + (cli.help or "")
    assert [name for name in cli.commands if f"rowlease {name}" not in pages] == []


def test_every_setting_of_a_queue_is_in_the_operations_page(
    repository: Path, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    page = (repository / "docs" / "operations.md").read_text()
    settings = sql(
        "select attname from pg_attribute where attrelid = 'rowlease.queue_settings'::regclass"
        " and attnum > 0 and attname not in ('queue_name', 'consumer_priorities')"
    )
    assert [name for (name,) in settings if name not in page] == []


def test_every_link_of_the_pages_leads_somewhere(repository: Path) -> None:
    pages = [*repository.glob("*.md"), *repository.glob("docs/*.md"), *repository.glob("sql/*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
