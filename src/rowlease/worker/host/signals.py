"""Signals: SIGTERM and Ctrl-C stop a worker, SIGQUIT writes all stacks.

The main thread's stack is written by a handler in C, so also when that thread is stuck. The others
follow from Python, which stops them meanwhile: read while they run, as the handler in C would, they
crash the process. The children are asked one after the other, or what they write would run into
each other.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from typing import Protocol

from rowlease.clock import now
from rowlease.worker.claims.leases import Lease

#: Seconds a child has to write its stacks before the next one is asked.
STACK_PAUSE = 0.05
STDERR = 2


class Inspectable(Protocol):
    """A slot whose stack can be shown."""

    ready: bool

    def running(self) -> tuple[Lease, float] | None: ...
    def show_stack(self) -> None: ...


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """SIGTERM and SIGINT call `stop` while inside, where that can be had: in the main thread."""
    if current_thread() is not main_thread():
        yield
        return
    before = {
        number: signal.signal(number, lambda *_: stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stacks_on_sigquit(show_more: Callable[[], object]) -> Iterator[None]:
    """SIGQUIT writes the stacks of all threads to stderr, then calls `show_more`, in a thread.

    Only the main thread can have that; in another nothing changes.
    """
    if current_thread() is not main_thread():
        yield
        return

    def show() -> None:
        faulthandler.dump_traceback(STDERR, all_threads=True)
        show_more()

    def handle(*_: object) -> None:
        threading.Thread(target=show, name="rowlease-stacks", daemon=True).start()

    faulthandler.unregister(signal.SIGQUIT)  # or it would not see that the handler has changed
    before = signal.signal(signal.SIGQUIT, handle)
    # Chained: it writes first, then comes the handler above.
    faulthandler.register(signal.SIGQUIT, STDERR, all_threads=False, chain=True)
    try:
        yield
    finally:
        faulthandler.unregister(signal.SIGQUIT)
        signal.signal(signal.SIGQUIT, before)


def show_stacks(slots: Sequence[Inspectable]) -> None:
    """Write to stderr what each slot runs, and its stack."""
    for number, slot in enumerate(slots):
        if not slot.ready:
            continue
        doing = "is idle"
        if running := slot.running():
            lease, since = running
            request = lease.request
            doing = f"runs request {request.request_id} ({request.kind}) for {now() - since:.1f} s"
        write_line(f"worker {os.getpid()}, slot {number} {doing}:")
        slot.show_stack()
        time.sleep(STACK_PAUSE)


def write_line(line: str) -> None:
    """A line on stderr, past Python's buffers, as the stacks are."""
    with suppress(OSError):
        os.write(STDERR, f"\n{line}\n".encode(errors="replace"))
