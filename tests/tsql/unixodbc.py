"""The library unixODBC, which pyodbc needs, on a machine whose system has none.

The wheels of pyodbc for Python 3.11 and newer do not include it. `libraries.txt` pins the last
wheel that does, and `make` unpacks it into the environment. The libraries have names there that
only that wheel knows, such as `libodbc-2003e41d.so.2.0.0`. `unpacked` makes copies with the usual
names. When `libodbc.so.2` is loaded, pyodbc finds it by that name.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from rowlease.errors import ConfigError
from rowlease.store.sqlserver.connection import driver, pyodbc
from tests import machine
from tests.tsql import scriptdom

#: In the order in which they are loaded: the second needs the first.
NAMES = ("libltdl.so.7", "libodbc.so.2")
#: A name as the wheel changed it: in a file, and between two zero bytes in a library.
CHANGED = re.compile(rb"(?<=\0)(lib\w+)-[0-9a-f]{8}(\.so\.\d+)[.\d]*(?=\0)")


def missing() -> str | None:
    """Why pyodbc or Microsoft's driver cannot be used here; None if they can."""
    _load()
    try:
        pyodbc()
        driver()
    except ConfigError as error:
        return str(error)
    return None


def needed() -> pytest.MarkDecorator:
    """Skips tests where they cannot be used."""
    why = missing()
    return pytest.mark.skipif(why is not None, reason=why or "")


@cache
def _load() -> None:
    """Load the system's unixODBC, or else the one of the wheel, if there is either."""
    if not machine.is_bare():
        with suppress(OSError):
            ctypes.CDLL(NAMES[-1])
            return
    for library in unpacked():
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def unpacked() -> list[Path]:
    """The libraries of the wheel with their usual names; none if the wheel is not unpacked."""
    root = scriptdom.root()
    for file in (root / "pyodbc.libs").glob("lib*"):
        named = CHANGED.sub(_usual, b"\0%b\0" % file.name.encode()).strip(b"\0").decode()
        if not (root / named).exists():
            handle, new = tempfile.mkstemp(dir=root)  # another process may do the same
            with os.fdopen(handle, "wb") as opened:
                opened.write(CHANGED.sub(_usual, file.read_bytes()))
            Path(new).rename(root / named)
    return [root / name for name in NAMES if (root / name).exists()]


def _usual(name: re.Match[bytes]) -> bytes:
    """A name as it was, filled up to the length that it has in the library."""
    return (name[1] + name[2]).ljust(len(name[0]), b"\0")
