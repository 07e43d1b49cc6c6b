"""Receives notifications from PostgreSQL, by LISTEN on a separate connection."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import LiteralString

from rowlease.store import deadlines
from rowlease.store.postgresql.connection import BoundedConnection

#: The channel of requests that were cancelled while they ran: the routine cancel_requests.
CANCEL_CHANNEL = "rowlease_cancel"


class PostgresNotifications:
    """Listens on a separate connection; see `rowlease.store.Notifications`.

    An idle worker holds each queue's advisory lock in shared mode. The routine `wake_workers` sends
    a NOTIFY only while the lock is held. If the connection is cut off silently, no notification
    ever arrives. So a connection that has been silent for a while is probed.
    """

    def __init__(
        self,
        connection: BoundedConnection,
        queues: Sequence[str] = (),
        listen: LiteralString = "select rowlease.listen()",
    ) -> None:
        self._connection = connection
        self._queues = list(queues)
        connection.patience = deadlines.LISTENER_ANSWER
        connection.execute(listen)
        self._idle = False
        self.cancelled: list[int] = []
        self._heard_at = time.monotonic()

    def announce_idle(self, idle: bool) -> None:
        if idle != self._idle:
            self._connection.execute(
                "select rowlease.announce_idle(%s::text[], %s)", (self._queues, idle)
            )
            self._idle = idle
            self._heard_at = time.monotonic()

    def wait(self, timeout: timedelta) -> bool:
        deadline = time.monotonic() + timeout.total_seconds()
        while True:  # one channel serves all queues, so those of other workers are skipped
            left = max(0.0, min(deadline - time.monotonic(), deadlines.LISTENER_ANSWER / 2))
            if any(each in self._queues for each in self.heard(left)):
                return True
            if self.cancelled or time.monotonic() >= deadline:
                return False

    def heard(self, seconds: float) -> list[str]:
        """The next notifications; empty if none arrives within `seconds`.

        Those of cancelled requests are left out, and added to `cancelled`.
        """
        found = list(self._connection.notifies(timeout=seconds, stop_after=1))
        notified = [each.payload for each in found if each.channel != CANCEL_CHANNEL]
        if len(notified) < len(found):
            messages = (each.payload for each in found if each.channel == CANCEL_CHANNEL)
            self.cancelled += [int(word) for message in messages for word in message.split()]
        if found:
            self._heard_at = time.monotonic()
        elif time.monotonic() - self._heard_at > deadlines.LISTENER_SILENT:
            self._connection.execute("select")
            self._heard_at = time.monotonic()
        return notified

    def close(self) -> None:
        self._connection.close()
