"""Handles signals: SIGTERM and Ctrl-C stop a worker, SIGQUIT writes all stacks to stderr.

A handler in C writes the stack of the main thread, even if that thread is stuck. It must not write
the stacks of other threads: these threads run while it reads their stacks, which can crash the
process. Therefore a Python thread writes those stacks while it holds the GIL. The child processes
write one after the other, so that their lines do not mix.
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

#: The seconds that each process has to write its stacks before the next process begins.
STACK_PAUSE = 0.05
STDERR = 2


class Inspectable(Protocol):
    """A runner that can write the stacks of its slots."""

    @property
    def num_slots(self) -> int: ...
    def running(self) -> Sequence[tuple[Lease, float]]: ...
    def show_stack(self, lease: Lease | None) -> None: ...


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Have SIGTERM and SIGINT call `stop`. Outside the main thread this does nothing."""
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
    """Have SIGQUIT write the stacks of all threads to stderr, then call `show_more` in a thread.

    Outside the main thread this does nothing.
    """
    if current_thread() is not main_thread():
        yield
        return

    def show() -> None:
        faulthandler.dump_traceback(STDERR, all_threads=True)
        show_more()

    def handle(*_: object) -> None:
        threading.Thread(target=show, name="rowlease-stacks", daemon=True).start()

    # Otherwise faulthandler would chain to the previous handler, not to `handle`.
    faulthandler.unregister(signal.SIGQUIT)
    before = signal.signal(signal.SIGQUIT, handle)
    # `chain` calls `handle` after the handler in C has written.
    faulthandler.register(signal.SIGQUIT, STDERR, all_threads=False, chain=True)
    try:
        yield
    finally:
        faulthandler.unregister(signal.SIGQUIT)
        signal.signal(signal.SIGQUIT, before)


def show_stacks(runners: Sequence[Inspectable]) -> None:
    """Write to stderr which requests are running, and the stack of each busy slot.

    An idle child process writes its stack, too.
    """
    number = 0
    for runner in (one for one in runners if one.num_slots):
        running: list[tuple[Lease | None, float]] = [*runner.running()]
        for lease, since in running or [(None, 0.0)]:
            state = "is idle"
            if lease:
                name = f"{lease.request.request_id} ({lease.request.kind})"
                state = f"has been running request {name} for {now() - since:.1f} s"
            write_line(f"worker {os.getpid()}, slot {number} {state}:")
            runner.show_stack(lease)
            time.sleep(STACK_PAUSE)
            number += 1


def write_line(line: str) -> None:
    """Write a line to stderr without Python's buffer, so that the line precedes the stacks."""
    with suppress(OSError):
        os.write(STDERR, f"\n{line}\n".encode(errors="replace"))
