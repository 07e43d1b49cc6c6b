"""Delivers outcomes while the receiver waits for the answer to a claim.

Without this component, the outcomes of short tasks would wait until the claim is answered, and the
server could not process outcomes and a claim at the same time (decision 30 in docs/decisions).
"""

from __future__ import annotations

import threading

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.worker.claims.exchanger import Exchanger
from rowlease.worker.claims.outcomes import FEW
from rowlease.worker.claims.receiver import Receiver

#: Seconds after an error during which only the receiver makes calls. The receiver handles errors,
#: and it may have the only connection.
PAUSE_AFTER_ERROR = 1.0


class OutcomeSender:
    """Delivers outcomes when many wait and the receiver waits for an answer."""

    def __init__(self, exchanger: Exchanger, receiver: Receiver) -> None:
        self._exchanger = exchanger
        self._receiver = receiver
        self._wake = threading.Event()
        self._paused_until = 0.0
        self._closed = False
        receiver.begins_call = self.notice

    def notice(self) -> None:
        """Wake the sender if it has outcomes to deliver. Safe from any thread."""
        if self._is_due():
            self._wake.set()

    def close(self) -> None:
        """Ask `run` to end. The receiver delivers the remaining outcomes."""
        self._closed = True
        self._wake.set()

    def run(self) -> None:
        """Deliver until closed."""
        while not self._closed:
            self._wake.wait()
            self._serve()

    def _serve(self) -> None:
        self._wake.clear()
        while self._is_due():
            try:
                self._exchanger.exchange(0, 0)
            except RowleaseError:
                self._paused_until = now() + PAUSE_AFTER_ERROR
            self._receiver.sent()

    def _is_due(self) -> bool:
        many = self._exchanger.num_waiting > FEW and now() >= self._paused_until
        return many and self._receiver.is_calling and not self._closed
