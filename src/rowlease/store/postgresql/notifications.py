"""Receives notifications from PostgreSQL, by LISTEN on a separate connection."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import LiteralString

from rowlease.store import deadlines
from rowlease.store.postgresql.connection import BoundedConnection


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
            if time.monotonic() >= deadline:
                return False

    def heard(self, seconds: float) -> list[str]:
        """The next notifications of the channel; empty if none arrives within `seconds`."""
        notified = [
            each.payload for each in self._connection.notifies(timeout=seconds, stop_after=1)
        ]
        if notified:
            self._heard_at = time.monotonic()
        elif time.monotonic() - self._heard_at > deadlines.LISTENER_SILENT:
            self._connection.execute("select")
            self._heard_at = time.monotonic()
        return notified

    def close(self) -> None:
        self._connection.close()
