"""Options come from arguments, the environment or a TOML file, in this order; errors say where."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from rowlease.cli import cli
from rowlease.cli.config import commands, settable_parameters, variable_name
from rowlease.cli.options import login_name
from rowlease.config import CONFIG_VARIABLE, configured_dsn
from rowlease.errors import ConfigError, RowleaseError
from tests import machine
from tests.commands import in_test

#: Commands that print no data, or the output of another program.
WITHOUT_JSON = {("dashboard",), ("exporter",), ("psql",), ("up",), ("url",)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("ROWLEASE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> str:
    ran = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def shown(*arguments: str) -> dict[str, tuple[object, str]]:
    """What `config show` prints: value and place by setting."""
    rows = json.loads(run("config", "show", "--json", *arguments))
    return {row["setting"]: (row["value"], row["source"]) for row in rows}


@pytest.mark.parametrize("place", ["argument", "environment", "file"])
def test_a_dsn_in_the_place_of_another_value_is_shown_without_its_password(
    place: str, folder: Path
) -> None:
    dsn = "postgresql://me:hunter2@db/app"
    in_file = f'concurrency = "{dsn}"' if place == "file" else ""
    (folder / "some.toml").write_text(f"[worker]\n{in_file}\n")
    given = ["--concurrency", dsn] if place == "argument" else []
    variables: Any = {"ROWLEASE_WORKER_CONCURRENCY": dsn} if place == "environment" else {}
    done = in_test(folder)(
        "worker", "nothing", *given, ROWLEASE_CONFIG=str(folder / "some.toml"), **variables
    )
    assert done.returncode == 2
    assert "postgresql://me:***@db/app" in done.stderr
    assert "hunter2" not in done.stderr


def test_each_value_says_where_it_comes_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "rowlease.toml"
    file.write_text(
        'dsn = "postgresql://me:hunter2@db/app"\n[worker]\nconcurrency = 3\nprefetch = 4\n'
        "[requests.list]\nlimit = 7\n[spark-enqueue]\nwriters = 2\n"
    )
    monkeypatch.setenv("ROWLEASE_WORKER_PREFETCH", "5")
    found = shown()
    assert found["worker.concurrency"] == (3, f"{file}: worker.concurrency")
    assert found["worker.prefetch"] == ("5", "environment variable ROWLEASE_WORKER_PREFETCH")
    assert found["requests.list.limit"] == (7, f"{file}: requests.list.limit")
    assert found["spark-enqueue.writers"] == (2, f"{file}: spark-enqueue.writers")
    assert found["dsn"] == ("postgresql://me:***@db/app", f"{file}: dsn")
    assert "hunter2" not in run("config", "show", "--all")
    assert shown("--all")["worker.executor"][1] == "default"
    assert shown("--all")["queue.pause.actor"] == (login_name(), "default")


@pytest.mark.parametrize(
    ("argument", "environment", "file", "used"),
    [
        ("2", "3", "4", 2),
        (None, "3", "4", 3),
        (None, None, "4", 4),
        (None, "", "4", 4),
        (None, None, None, 50),
    ],
)
def test_arguments_win_over_the_environment_and_that_over_the_file(
    argument: str | None,
    environment: str | None,
    file: str | None,
    used: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if file:
        (folder / "rowlease.toml").write_text(f"[requests.list]\nlimit = {file}\n")
    if environment is not None:
        monkeypatch.setenv("ROWLEASE_REQUESTS_LIST_LIMIT", environment)
    seen: list[int] = []
    (command,) = [each for path, each in commands(cli) if path == ("requests", "list")]
    monkeypatch.setattr(command, "callback", lambda **given: seen.append(given["limit"]))
    run("requests", "list", *(["--limit", argument] if argument else []))
    assert seen == [used]


def test_settings_of_a_pyproject_that_are_no_table_are_refused(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool]\nrowlease = 5\n")
    with pytest.raises(ConfigError, match=r"tool\.rowlease in .* is 5; it must be a table"):
        configured_dsn()


def test_the_table_of_a_pyproject_above_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "pyproject.toml").write_text('[tool.rowlease]\ndsn = "postgresql://db/above"\n')
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    (folder / ".git").mkdir()
    (below / "pyproject.toml").write_text("[tool.other]\n")
    monkeypatch.chdir(below)
    assert configured_dsn() == "postgresql://db/above"
    (below / "rowlease.toml").write_text('dsn = "postgresql://db/here"\n')
    assert configured_dsn() == "postgresql://db/here"
    (folder / "mine.toml").write_text('dsn_file = "secret"\n')
    (folder / "secret").write_text("postgresql://db/secret\n")
    monkeypatch.setenv(CONFIG_VARIABLE, str(folder / "mine.toml"))
    assert configured_dsn() == "postgresql://db/secret"
    monkeypatch.setenv("ROWLEASE_DSN_FILE", str(folder / "secret"))
    monkeypatch.setenv("ROWLEASE_DSN", "postgresql://db/environment")
    assert configured_dsn() == "postgresql://db/environment"


@pytest.mark.parametrize(
    ("marker", "is_found"),
    [
        (None, False),
        ("folder/.git", True),
        ("folder/pyproject.toml", True),
        ("folder/project/.git", False),
        ("folder/project/pyproject.toml", False),
    ],
)
def test_a_settings_file_above_the_project_is_not_read(
    folder: Path, marker: str | None, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = folder / "folder" / "project" / "src"
    below.mkdir(parents=True)
    (folder / "folder" / "rowlease.toml").write_text('dsn = "postgresql://db/shared"\n')
    if marker:
        (folder / marker).touch()
    monkeypatch.chdir(below)
    assert configured_dsn() == ("postgresql://db/shared" if is_found else None)


#: How somebody else may have written a settings file.
STRANGERS: dict[str, Callable[[Path], None]] = {
    "a file of another user": lambda file: give_away(file),
    "a file in a folder of another user": lambda file: give_away(file.parent),
    "a file that everybody may write": lambda file: file.chmod(0o666),
    "a folder that everybody may write to": lambda file: file.parent.chmod(0o777),
    "a link of another user": lambda file: give_away(link(file)),
    "a link to a file of another user": lambda file: give_away(link(file).resolve()),
}


def give_away(path: Path) -> None:
    os.chown(path, 65534, -1, follow_symlinks=False)


def link(file: Path) -> Path:
    file.rename(file.parent / "elsewhere")
    file.symlink_to("elsewhere")
    return file


@pytest.mark.parametrize("marker", [".git", "pyproject.toml", None])
@pytest.mark.parametrize("name", ["rowlease.toml", "pyproject.toml"])
@pytest.mark.parametrize("how", STRANGERS)
def test_a_settings_file_that_somebody_else_may_have_written_is_refused(
    how: str, name: str, marker: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0 and "user" in how:
        pytest.skip("only root can give a file away")
    shared, below = folder / "shared", folder / "shared" / "victim"
    below.mkdir(parents=True)
    if marker:
        (shared / marker).touch()
    file = shared / name
    table = "[tool.rowlease]\n" if name == "pyproject.toml" else ""
    file.write_text(f'{table}dsn = "mssql://u:p@127.0.0.1:1/x?Driver=evil.so"\n')
    STRANGERS[how](file)
    monkeypatch.chdir(below if marker else shared)
    with pytest.raises(ConfigError, match=rf"{file} is not used.*set {CONFIG_VARIABLE}={file}"):
        configured_dsn()
    for command in ("depth", "config show", "worker"):
        ran = CliRunner().invoke(cli, command.split())
        assert isinstance(ran.exception, ConfigError), ran.output
    monkeypatch.setenv(CONFIG_VARIABLE, os.devnull)
    assert configured_dsn() is None
    run("config", "show")


def test_root_and_its_own_user_are_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "rowlease.toml").write_text('dsn = "postgresql://db/x"\n')
    if os.geteuid() == 0:
        give_away(folder / "rowlease.toml")
        monkeypatch.setenv("SUDO_UID", "65534")
    folder.chmod(0o1777)  # as /tmp: others cannot replace the file
    assert configured_dsn() == "postgresql://db/x"


@pytest.mark.parametrize(
    "text",
    [
        'dsn = "mssql://u:p@h/d?Driver=/tmp/evil.so"',
        'dsn = "mssql://u:p@h/d?Encrypt=yes&dRiVer=evil"',
        'dsn = "postgresql://h/d?sslkeylogfile=/root/x"',
        'dsn = "postgresql://h/d?a=b&%73slkeylogfile=x"',
        'dsn_file = "secret"',
        '[psql]\narguments = ["-c", "\\\\! id"]',
    ],
)
def test_no_file_makes_a_command_load_a_library_write_a_file_or_run_a_program(
    text: str, folder: Path
) -> None:
    (folder / "secret").write_text("mssql://u:p@h/d?Driver=evil.so")
    (folder / "rowlease.toml").write_text(f"{text}\n")
    ran = CliRunner().invoke(cli, ["config", "show"])
    assert isinstance(ran.exception, ConfigError)
    assert re.search(r"loads a library or writes a file|psql runs what it says", str(ran.exception))
    assert "u:p" not in str(ran.exception)


def test_a_variable_that_nothing_reads_is_shown_with_the_right_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWLEASE_WORKER_CONCURENCY", "hunter2")
    monkeypatch.setenv("ROWLEASE_SHOE_SIZE", "43")
    monkeypatch.setenv("ROWLEASE_DASHBOARD_READER_TOKEN", "hunter2")
    found = shown()
    unknown = "environment; no setting has this name"
    near = f"{unknown}; did you mean ROWLEASE_WORKER_CONCURRENCY?"
    assert found["ROWLEASE_WORKER_CONCURENCY"] == ("***", near)
    assert found["ROWLEASE_SHOE_SIZE"] == ("***", unknown)
    assert "ROWLEASE_DASHBOARD_READER_TOKEN" not in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[worker\n", "is not valid TOML"),
        ("[worker]\nconcurency = 3\n", "worker.concurency .* did you mean concurrency"),
        ("[workr]\n", "workr .* did you mean worker"),
        ("[requests.lists]\n", "requests.lists .* did you mean list"),
        ("worker = 3\n", r"worker .* must be a table: \[worker\]"),
        ("[worker]\nburst = 1\n", "worker.burst .* it must be true or false"),
        ("[worker]\nconcurrency = true\n", "worker.concurrency .* a string or a number"),
        ("[enqueue]\nheader = 'a=b'\n", "enqueue.header .* it must be a list"),
        ("[worker]\ndsn = 'x'\n", "worker.dsn .* belongs at the top"),
        ("dsn = 3\n", "dsn .* must be a string"),
        ("dsn = 'a'\ndsn_file = 'b'\n", "has both dsn and dsn_file"),
    ],
)
def test_an_error_names_the_file_and_the_key(text: str, message: str, folder: Path) -> None:
    file = folder / "rowlease.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        run("config", "show")
    assert str(file) in str(raised.value)


def test_a_file_that_is_named_and_missing_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, str(folder / "none.toml"))
    with pytest.raises(RowleaseError, match=r"ROWLEASE_CONFIG is .*none\.toml, .* cannot be"):
        run("depth")


def rowlease(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from rowlease.cli import main; main()", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_a_value_that_an_option_refuses_says_where_it_comes_from(folder: Path) -> None:
    (folder / "rowlease.toml").write_text('[requests.list]\nlimit = "many"\n')
    ran = rowlease(folder, "requests", "list")
    assert ran.returncode == 2
    assert f"(from requests.list.limit in {folder / 'rowlease.toml'})" in ran.stderr
    ran = rowlease(folder, "requests", "list", ROWLEASE_REQUESTS_LIST_LIMIT="0")
    assert "(from the environment variable ROWLEASE_REQUESTS_LIST_LIMIT)" in ran.stderr
    assert rowlease(folder, "requests", "list", "--limit", "0").stderr.count("(from") == 0


def test_a_shell_completes_commands_and_options(folder: Path) -> None:
    complete = {
        "_ROWLEASE_COMPLETE": "bash_complete",
        "COMP_CWORD": "1",
        "COMP_WORDS": "rowlease sch",
    }
    assert rowlease(folder, **complete).stdout.strip() == "plain,schedule"
    complete |= {"COMP_CWORD": "2", "COMP_WORDS": "rowlease depth --js"}
    assert rowlease(folder, **complete).stdout.strip() == "plain,--json"


#: For each shell: its options, a program that completes `rowlease sch`, and what it prints.
SHELLS = {
    "bash": (
        ["--norc", "-c"],
        "COMP_WORDS=(rowlease sch); COMP_CWORD=1; _rowlease_completion rowlease; echo $COMPREPLY",
        "schedule",
    ),
    # Only the line editor of zsh completes, so this shows what it would call.
    "zsh": (["-f", "-c"], "echo ${_comps[rowlease]}", "_rowlease_completion"),
    "fish": (["--no-config", "-c"], "complete -C 'rowlease sch' | cut -f 1", "schedule"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_line_of_the_page_makes_a_shell_complete(
    shell: str, folder: Path, repository: Path
) -> None:
    started = shell if shell == "bash" else machine.path_of(shell)
    page = (repository / "docs" / "configuration.md").read_text()
    (line,) = re.findall(rf"^(.*_ROWLEASE_COMPLETE=.*?)\s+# {shell}: ", page, re.M)
    options, program, printed = SHELLS[shell]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        [started, *options, f"{line}\n{program}"],
        env={**os.environ, "PATH": path, "HOME": str(folder), "ZDOTDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (ran.stdout.strip(), ran.stderr) == (printed, "")


def test_every_option_has_a_variable_of_its_own() -> None:
    names = [
        variable_name(path, each)
        for path, command in commands(cli)
        for each in settable_parameters(command)
    ]
    assert len(names) == len(set(names)) > 100


def test_every_command_that_prints_data_can_print_json() -> None:
    without = {
        path
        for path, command in commands(cli)
        if not any("--json" in each.opts for each in command.params)
    }
    assert without == WITHOUT_JSON
    assert isinstance(cli, click.Group)
