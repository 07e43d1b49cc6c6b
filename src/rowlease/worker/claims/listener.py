"""The listener: a thread that waits for the database's notifications and wakes the receiver."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from typing import Protocol

from rowlease.events import Events, NotificationsLost
from rowlease.store import Consuming, Notifications

logger = logging.getLogger("rowlease")

#: Seconds for which this thread does not notice that it is to stop, or to be quiet.
WAIT = timedelta(seconds=0.2)
#: Seconds between two looks at what came while nobody wanted to hear it.
QUIET_WAIT = 1.0
#: Seconds before the next connection is tried: doubled each time, half of it random.
FIRST_RETRY, LAST_RETRY = 0.1, 5.0


class Wakeable(Protocol):
    """Is woken when requests may have come."""

    def notified(self) -> None: ...
    def announced(self) -> None: ...


class Listener:
    """Waits for notifications; announces idleness while that is wanted.

    Where its connection is lost the receiver polls, until there is a new one.
    """

    def __init__(self, store: Consuming, queues: Sequence[str], events: Events) -> None:
        self._store = store
        self._queues = queues
        self._events = events
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        #: Producers send notifications.
        self.is_announced = False

    def announce(self) -> None:
        """Have producers send notifications; calls `receiver.announced` once they do."""
        self._wanted.set()

    def retract(self) -> None:
        """Have producers stop sending them, soon."""
        if not self._stopped.is_set():
            self._wanted.clear()

    def stop(self) -> None:
        """End `run`."""
        self._stopped.set()
        self._wanted.set()

    def run(self, receiver: Wakeable) -> None:
        """Wake the receiver at every notification, until stopped."""
        pause = FIRST_RETRY
        reported = False
        while not self._stopped.is_set():
            try:
                with closing(self._store.listen(self._queues)) as notifications:
                    pause, reported = FIRST_RETRY, False
                    self._listen(notifications, receiver)
            except Exception as error:
                # Without notifications the worker polls.
                logger.debug("the listener failed", exc_info=True)
                if not reported:
                    reported = True
                    self._events.emit(NotificationsLost(str(error)))
            finally:
                self.is_announced = False
            self._stopped.wait(pause * random.uniform(0.5, 1))
            pause = min(LAST_RETRY, 2 * pause)

    def _listen(self, notifications: Notifications, receiver: Wakeable) -> None:
        while not self._stopped.is_set():
            if self._wanted.is_set():
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
                notifications.wait(timedelta(0))  # what came meanwhile must not pile up
                self._wanted.wait(QUIET_WAIT)
