"""The slots of coroutines: what a signal handler may do to them."""

from __future__ import annotations

import sys
from threading import Thread
from types import FrameType
from typing import Any

from rowlease.tasks.task import Registry
from rowlease.worker.slots.coroutines import Coroutines

PATIENCE = 60.0  # seconds; only a failing test waits that long


def test_a_signal_handler_may_call_wake_wherever_it_interrupts_poll() -> None:
    slots = Coroutines(Registry(()), 1, "coroutine")

    def interrupt(frame: FrameType, event: str, argument: object) -> Any:
        slots.wake()  # as a signal handler would: between two lines of the interrupted thread
        return interrupt

    def poll() -> None:
        sys.settrace(interrupt)
        slots.poll(0.0)
        slots.poll(0.0)

    thread = Thread(target=poll, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    slots.close()
    assert not thread.is_alive()
