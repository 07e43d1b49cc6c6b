"""Runs the command line, in the process of the test or in a process of its own.

Most tests take the first: it runs the same code, from `main` to the exit code, without the half
second of processor time in which an interpreter starts and imports a driver. Signals, streams that
are closed, what a command imports, and workers that run tasks need the second.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from contextlib import chdir, suppress
from pathlib import Path
from typing import Protocol
from unittest.mock import patch

from click.testing import CliRunner

import rowlease
from rowlease.cli import main

SOURCE = Path(rowlease.__file__).parents[1]
PATIENCE = 60.0  # seconds; only a failing test waits that long

Done = subprocess.CompletedProcess[str]


class Run(Protocol):
    """Runs `rowlease` with these arguments, in a folder of the test's own."""

    def __call__(self, *arguments: str | bytes, stdin: bytes = b"", **environment: str) -> Done: ...


def environment_of(folder: Path, given: dict[str, str]) -> dict[str, str]:
    """An environment with only the given variables; the embedded server is in `folder`."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ROWLEASE_")}
    home = {"XDG_DATA_HOME": str(folder), "PYTHONPATH": str(SOURCE), "COLUMNS": "100"}
    return {**clean, **home, **given}


def in_test(folder: Path) -> Run:
    """Commands run in the process of the test. A worker does not take stderr over."""

    def call(*arguments: str | bytes, stdin: bytes = b"", **environment: str) -> Done:
        wanted = environment_of(folder, environment)
        changes = {name: wanted.get(name) for name in os.environ.keys() | wanted.keys()}
        command = ["rowlease", *map(os.fsdecode, arguments)]
        code: object = None
        importlib.invalidate_caches()
        with (
            CliRunner().isolation(stdin, changes) as (out, err, _),
            chdir(folder),
            patch.object(sys, "argv", command),
            patch.object(sys, "path", [*sys.path]),
            patch("rowlease.cli.logs.write_behind_stderr"),
        ):
            try:
                main()
            except SystemExit as ended:
                code = ended.code
            finally:
                forget_modules(folder)
            printed, said = out.getvalue().decode(), err.getvalue().decode()
        assert code is None or isinstance(code, int)
        return subprocess.CompletedProcess(command, code or 0, printed, said)

    return call


def forget_modules(folder: Path) -> None:
    """Let the next test import its own modules of these names."""
    for name, module in list(sys.modules.items()):
        with suppress(ValueError):
            if (file := getattr(module, "__file__", None)) and Path(file).relative_to(folder):
                del sys.modules[name]


def in_process(folder: Path) -> Run:
    """Each command runs in a process of its own."""

    def call(*arguments: str | bytes, stdin: bytes = b"", **environment: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "rowlease", *arguments],
            input=stdin,
            capture_output=True,
            cwd=folder,
            env=environment_of(folder, environment),
            timeout=2 * PATIENCE,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    return call
