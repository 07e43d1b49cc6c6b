"""Shows a frame each second in the terminal, until q is pressed."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from rowlease.errors import StoreError
from rowlease.top.frame import Frame
from rowlease.top.sample import Sampler, TopSample

#: Seconds between two samples.
INTERVAL = 1.0
#: The keys that quit: q, Ctrl-C, Ctrl-D and Escape.
QUIT = (b"q", b"Q", b"\x03", b"\x04", b"\x1b")


def watch(sampler: Sampler, where: str, console: Console) -> None:
    """Show a frame each second until q or Ctrl-C is pressed.

    Raises:
        StoreError: the first sample failed, or a later sample failed with an error that is not
            transient.
    """
    sample, error = sampler.sample(), ""
    with (
        interrupted() as leave,
        keys() as pressed,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(Frame(sample, where, error), refresh=True)
            if leave.is_set() or pressed(INTERVAL) or leave.is_set():
                return
            sample, error = again(sampler, sample)


def again(sampler: Sampler, last: TopSample) -> tuple[TopSample, str]:
    """The next sample. After a transient error, the last sample and the error."""
    try:
        return sampler.sample(), ""
    except StoreError as error:
        if not error.transient:
            raise
        return last, f"{time.strftime('%H:%M:%S')}  {error}".splitlines()[0]


@contextmanager
def interrupted() -> Iterator[threading.Event]:
    """Yields an event that the first Ctrl-C sets. A second Ctrl-C raises KeyboardInterrupt.

    The first Ctrl-C does not raise an exception, because Python ignores exceptions in finalizers.
    """
    leave = threading.Event()

    def first(*_: object) -> None:
        leave.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield leave
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def keys() -> Iterator[Key]:
    """Yields a function that waits for a key that quits."""
    fd = sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
    before = termios.tcgetattr(fd) if fd is not None else None
    try:
        if fd is not None:
            tty.setcbreak(fd)
        yield Key(fd)
    finally:
        if fd is not None and before is not None:
            termios.tcsetattr(fd, termios.TCSADRAIN, before)


class Key:
    """Waits for a key that quits."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def __call__(self, seconds: float) -> bool:
        """Wait up to `seconds`. True if a key that quits was pressed."""
        until = time.monotonic() + seconds
        while self._fd is not None:
            left = max(0.0, until - time.monotonic())
            if not select.select([self._fd], [], [], left)[0]:
                return False
            if (pressed := os.read(self._fd, 1)) in QUIT or not pressed:
                return True
        time.sleep(seconds)
        return False
