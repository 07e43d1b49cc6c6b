"""The sender: delivers outcomes while the receiver waits for a claim.

Without it, what short tasks have finished would lie there until the claim is back, and the server
would do one thing after the other where it can do both at once (docs/decisions/0030).
"""

from __future__ import annotations

import threading

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.worker.claims.pump import Pump
from rowlease.worker.claims.receiver import Receiver

#: So few outcomes are cheaper with the next claim than in a transaction of their own.
FEW = 100
#: Seconds after an error in which all is left to the receiver, who meets it too, or has the only
#: connection there is.
REST = 1.0


class Sender:
    """Delivers outcomes when they are many and the receiver is not there to take them along."""

    def __init__(self, pump: Pump, receiver: Receiver) -> None:
        self._pump = pump
        self._receiver = receiver
        self._wake = threading.Event()
        self._rests_until = 0.0
        self._closed = False

    def notice(self) -> None:
        """There may be more outcomes; from any thread."""
        if self._is_due():
            self._wake.set()

    def close(self) -> None:
        """End `run`; the rest is the receiver's."""
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
                self._pump.exchange(0, 0)
            except RowleaseError:
                self._rests_until = now() + REST
            self._receiver.sent()

    def _is_due(self) -> bool:
        many = self._pump.num_waiting > FEW and now() >= self._rests_until
        return many and self._receiver.is_calling and not self._closed
