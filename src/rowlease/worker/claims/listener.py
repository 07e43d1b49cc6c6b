"""The listener waits for notifications from the database and wakes the receiver."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Protocol

from rowlease.backoff import Backoff
from rowlease.events import Events, NotificationsLost
from rowlease.store import Notifications, Store

logger = logging.getLogger("rowlease")

#: The maximum duration of one wait for a notification. `stop` and `retract` take effect after the
#: wait.
WAIT = timedelta(seconds=0.2)
#: Seconds between two reads of notifications while the worker is busy. It discards those of waiting
#: requests, but stops the tasks of cancelled ones.
READ_INTERVAL = 0.2


class Wakeable(Protocol):
    """The methods of the receiver that the listener calls."""

    def notified(self) -> None: ...
    def announced(self) -> None: ...


class Listener:
    """Waits for notifications, and announces to producers whether this worker is idle.

    While the listener has no connection, the receiver polls.

    Args:
        check: a function that renews the leases of these requests now. It is called with the ids
            of running requests that were cancelled, also those of other workers, and with None
            when the connection is new: before, a cancel may have been missed, and the server may
            have crashed and have lost claims.
    """

    def __init__(
        self,
        store: Store,
        queues: Sequence[str],
        events: Events,
        check: Callable[[Collection[int] | None], object],
    ) -> None:
        self._store = store
        self._queues = queues
        self._events = events
        self._check = check
        self._is_idle = threading.Event()
        self._stopped = threading.Event()
        #: Whether this worker is announced as idle. If so, producers send notifications.
        self.is_announced = False

    def announce(self) -> None:
        """Ask `run` to announce that the worker is idle. `run` then calls `receiver.announced`."""
        self._is_idle.set()

    def retract(self) -> None:
        """Ask `run` to withdraw the announcement, so that producers stop sending notifications."""
        if not self._stopped.is_set():
            self._is_idle.clear()

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stopped.set()
        self._is_idle.set()

    def run(self, receiver: Wakeable) -> None:
        """Wake the receiver at every notification, until stopped."""
        pauses = Backoff(0.1, 5.0)
        reported = False
        while not self._stopped.is_set():
            try:
                with closing(self._store.listen(self._queues)) as notifications:
                    pauses.reset()
                    reported = False
                    self._check(None)
                    self._listen(notifications, receiver)
            except Exception as error:
                logger.debug("the listener failed", exc_info=True)
                if not reported:
                    reported = True
                    self._events.emit(NotificationsLost(str(error)))
            finally:
                self.is_announced = False
            self._stopped.wait(next(pauses))

    def _listen(self, notifications: Notifications, receiver: Wakeable) -> None:
        while not self._stopped.is_set():
            if self._is_idle.is_set():
                if not self.is_announced:
                    notifications.announce_idle(True)
                    self.is_announced = True
                    receiver.announced()
                if notifications.wait(WAIT):
                    receiver.notified()
            else:
                if self.is_announced:
                    notifications.announce_idle(False)
                    self.is_announced = False
                notifications.wait(timedelta(0))  # discard notifications, or they would pile up
                self._is_idle.wait(READ_INTERVAL)
            if notifications.cancelled:
                found, notifications.cancelled = notifications.cancelled, []
                self._check(found)
