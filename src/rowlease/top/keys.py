"""Reads keys from the terminal."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

#: The bytes of keys that are not characters. Ctrl-C arrives as a signal, see `screen`.
KEY_NAMES = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[C": "right", b"\x1b[D": "left",
    b"\x1bOA": "up", b"\x1bOB": "down", b"\x1bOC": "right", b"\x1bOD": "left",
    b"\x1b[5~": "page up", b"\x1b[6~": "page down", b"\x1b[H": "home", b"\x1b[F": "end",
    b"\x1b[1~": "home", b"\x1b[4~": "end", b"\x1b": "escape", b"\r": "enter", b"\n": "enter",
    b"\x7f": "backspace", b"\x08": "backspace", b"\x03": "interrupt", b"\x04": "interrupt",
    b"\x15": "clear",
}  # fmt: skip
#: A sequence of an unknown key, a key with a name, or a character of UTF-8.
KEY_SEQUENCE = re.compile(
    rb"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|\x1b|[\x00-\x7f]|[\xc2-\xf4][\x80-\xbf]*|.", re.DOTALL
)


def keys_of(data: bytes) -> list[str]:
    """The keys in the bytes that a terminal sent: names and characters, without unknown keys."""
    found = []
    for part in KEY_SEQUENCE.findall(data):
        if name := KEY_NAMES.get(part):
            found.append(name)
        elif (text := part.decode(errors="replace")).isprintable() and len(text) == 1:
            found.append(text)
    return found


class Keys:
    """Waits for keys."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def wait(self, seconds: float) -> list[str]:
        """Wait for a key, at most this time. Return the keys that were pressed, if any."""
        if self._fd is None:
            time.sleep(seconds)
            return []
        if not select.select([self._fd], [], [], max(0.0, seconds))[0]:
            return []
        data = os.read(self._fd, 1024)
        return keys_of(data) if data else ["interrupt"]  # the terminal has been closed


@contextmanager
def keys() -> Iterator[Keys]:
    """Yields the keys of the terminal, if stdin is one, and restores the terminal afterwards."""
    fd = sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
    before = termios.tcgetattr(fd) if fd is not None else None
    try:
        if fd is not None:
            tty.setcbreak(fd)
        yield Keys(fd)
    finally:
        if fd is not None and before is not None:
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
