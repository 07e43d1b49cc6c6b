"""The switch for a bare machine, what the make targets bring, and the run of CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests import machine
from tests.tsql import unixodbc

#: A test module of two tests, of which the machine that it runs on has neither program.
SKIPS = """
from tests import machine
machine.BROUGHT_BY["nowhere"] = "make nowhere"

@machine.needs("nowhere")
def test_a() -> None: ...

def test_b() -> None:
    machine.path_of("nowhere")
"""


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that alone is on PATH; nothing is hidden yet."""
    monkeypatch.delenv(machine.BARE, raising=False)
    monkeypatch.setattr(machine, "TOOLS", tmp_path / "tools")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path / "path"


def test_a_program_of_the_checkout_comes_before_that_of_the_system(
    path: Path, tmp_path: Path
) -> None:
    assert machine.program("helm") is None
    system = executable(path / "helm")
    assert machine.program("helm") == str(system)
    ours = executable(tmp_path / "tools" / "helm")
    assert machine.program("helm") == str(ours)


def test_a_browser_is_found_by_each_of_its_names(path: Path) -> None:
    found = executable(path / "google-chrome")
    assert machine.program("chromium") == str(found)


def test_the_switch_hides_programs_and_libraries(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(path / "helm")
    executable(tmp_path / "tools" / "promtool")
    monkeypatch.setattr(machine, "find_library", lambda name: f"lib{name}.so.1")
    assert machine.library("ICU") == "libicuuc.so.1"
    monkeypatch.setenv(machine.BARE, "1")
    assert (machine.program("helm"), machine.program("promtool")) == (None, None)
    assert machine.library("ICU") is None


class Engine(BaseHTTPRequestHandler):
    """Answers as a Docker engine answers a ping."""

    def do_GET(self) -> None:
        self.send_response_only(200)
        self.end_headers()


def test_the_switch_hides_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(machine.BARE, raising=False)
    with HTTPServer(("127.0.0.1", 0), Engine) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
        seen = machine.docker_answers(timeout=60)
        monkeypatch.setenv(machine.BARE, "1")
        hidden = machine.docker_answers(timeout=60)
        server.shutdown()
        thread.join()
    assert (seen, hidden) == (True, False)


def test_the_switch_takes_programs_out_of_the_path_and_leaves_others(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("psql", "java", "chromium-browser", "zsh", "cat"):
        executable(path / name)
    plain = executable(tmp_path / "plain" / "sed").parent
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (path, tmp_path / "absent", plain))))
    monkeypatch.setenv("JAVA_HOME", "/a/java")
    (links := tmp_path / "links").mkdir()
    machine.hide(links)
    assert [shutil.which(name) for name in ("psql", "java", "chromium-browser", "zsh")] == [
        None
    ] * 4
    assert shutil.which("cat") == str(links / "0" / "cat")
    assert shutil.which("sed") == str(plain / "sed")
    assert "JAVA_HOME" not in os.environ


def test_every_test_module_that_asks_is_in_the_table(repository: Path) -> None:
    asks = re.compile(r"\b(needs|path_of|model\.missing|unixodbc\.(needed|missing))\(")
    asking = {
        module.relative_to(repository).as_posix()
        for module in (repository / "tests").rglob("test_*.py")
        if asks.search(module.read_text(encoding="utf-8"))
    }
    here = {Path(__file__).relative_to(repository).as_posix()}
    assert set(machine.ASKED_BY) - asking == {"tests/acceptance/test_cli_psql.py"}
    assert asking - here <= set(machine.ASKED_BY)


def test_the_summary_has_one_line_for_each_reason(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
    ran = subprocess.run(
        [*command, "-c", "pyproject.toml", "--confcutdir", ".", "-p", "tests.conftest", tmp_path],
        cwd=repository, capture_output=True, text=True,
    )  # fmt: skip
    assert "2 skipped: no nowhere: `make nowhere` brings it\n" in ran.stdout


def test_every_make_target_that_a_reason_names_is_there(repository: Path) -> None:
    makefile = (repository / "Makefile").read_text()
    named = [how.split()[1] for how in machine.BROUGHT_BY.values() if how.startswith("make ")]
    assert sorted(named) == ["chromium", "helm", "promtool"]
    for name in named:
        assert re.search(rf"^{name}: \$\(TOOLS\)/{name} ## ", makefile, re.M)
        assert re.search(rf"^\$\(TOOLS\)/{name}:", makefile, re.M)


def test_ci_runs_the_command_of_the_readme_and_installs_nothing(repository: Path) -> None:
    lines = (repository / ".ci" / "run").read_text().splitlines()
    code = [line for line in lines if line and not line.startswith("#")]
    assert code == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "make test"]
    assert re.search(r"^make test  ", (repository / "README.md").read_text(), re.M)


def test_the_wheels_unixodbc_has_the_name_that_pyodbc_looks_for() -> None:
    libraries = unixodbc.unpacked()
    if not libraries:
        pytest.skip("unixODBC is not unpacked here; `make test` does it on Linux for x86-64")
    assert [library.name for library in libraries] == list(unixodbc.NAMES)
    for library in libraries:
        assert not unixodbc.CHANGED.search(library.read_bytes())
