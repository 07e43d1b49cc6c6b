"""The listener: a thread that waits for the database's notifications and wakes the receiver."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from typing import Protocol

from rowlease.events import BellLost, Events
from rowlease.store import Consuming, Doorbell

logger = logging.getLogger("rowlease")

#: Seconds for which this thread does not notice that it is to stop, or to be quiet.
WAIT = timedelta(seconds=0.2)
#: Seconds between two looks at what came while nobody wanted to hear it.
QUIET_WAIT = 1.0
#: Seconds before the next connection is tried: doubled each time, half of it random.
FIRST_RETRY, LAST_RETRY = 0.1, 5.0


class Wakeable(Protocol):
    """Is woken when requests may have come."""

    def ring(self) -> None: ...
    def announced(self) -> None: ...


class Listener:
    """Waits for the doorbell; announces idleness while that is wanted.

    Where the doorbell's connection is lost the receiver polls, until there is a new one.
    """

    def __init__(self, store: Consuming, queues: Sequence[str], events: Events) -> None:
        self._store = store
        self._queues = queues
        self._events = events
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        #: Producers ring.
        self.is_announced = False

    def announce(self) -> None:
        """Have producers ring; the receiver hears when they do, if they do not yet."""
        self._wanted.set()

    def retract(self) -> None:
        """Have them ring no more, soon."""
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
                with closing(self._store.doorbell(self._queues)) as doorbell:
                    pause, reported = FIRST_RETRY, False
                    self._listen(doorbell, receiver)
            except Exception as error:
                # Whatever went wrong with it, a worker can do without: it polls.
                logger.debug("the doorbell failed", exc_info=True)
                if not reported:
                    reported = True
                    self._events.emit(BellLost(str(error)))
            finally:
                self.is_announced = False
            self._stopped.wait(pause * random.uniform(0.5, 1))
            pause = min(LAST_RETRY, 2 * pause)

    def _listen(self, doorbell: Doorbell, receiver: Wakeable) -> None:
        while not self._stopped.is_set():
            if self._wanted.is_set():
                if not self.is_announced:
                    doorbell.announce_idle(True)
                    self.is_announced = True
                    receiver.announced()
                if doorbell.wait(WAIT):
                    receiver.ring()
            else:
                if self.is_announced:
                    doorbell.announce_idle(False)
                    self.is_announced = False
                doorbell.wait(timedelta(0))  # what came meanwhile must not pile up
                self._wanted.wait(QUIET_WAIT)
