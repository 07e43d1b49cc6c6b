"""The embedded server of a test run, and where files of tests are: in memory if there is room."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import getpid
from pathlib import Path

import psutil

from rowlease.embedded import embedded, over_tcp
from rowlease.embedded.keeper import Postmaster
from rowlease.testing.plugin import UNSAFE_BUT_FAST

#: Tests create and drop hundreds of databases, of some 350 files each. On a disk, that takes as
#: much processor time as everything else that the server does.
MEMORY = Path("/dev/shm")
#: With the second of the embedded server, an idle server of a run takes 2 % of a core.
SETTINGS = {**UNSAFE_BUT_FAST, "autovacuum_naptime": "1min"}
#: Bytes that must be free there. The tests of speed fill a few tables with a million rows each.
ROOM = 8 * 2**30
PREFIX = "rowlease-tests-"
#: Seconds for a server without users to stop, on a busy machine.
PATIENCE = 60.0


@contextmanager
def embedded_server() -> Iterator[str]:
    """A server without durability; its folder is removed afterwards."""
    parent = memory_or_disk()
    remove_left(parent)
    home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{getpid()}-", dir=parent))
    try:
        with embedded(home, settings=SETTINGS) as dsn:
            # Proxies of tests and some drivers need TCP, and not every driver knows require_auth.
            yield over_tcp(dsn).partition("?")[0]
    finally:
        deadline = time.monotonic() + PATIENCE
        while is_running(home) and time.monotonic() < deadline:
            time.sleep(0.05)
        shutil.rmtree(home, ignore_errors=True)


def memory_or_disk() -> Path:
    """The folder for the files of tests: in memory, if there is room and programs can be run."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM
    if has_room and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return MEMORY
    return Path(tempfile.gettempdir())


def remove_left(parent: Path) -> None:
    """Remove the folders of runs that were killed."""
    for home in parent.glob(f"{PREFIX}*"):
        pid = home.name.removeprefix(PREFIX).partition("-")[0]
        if not (pid.isdecimal() and psutil.pid_exists(int(pid))) and not is_running(home):
            shutil.rmtree(home, ignore_errors=True)


def is_running(home: Path) -> bool:
    found = [Postmaster.read(data) for data in home.glob("postgresql-*")]
    return any(one is not None and psutil.pid_exists(one.pid) for one in found)
