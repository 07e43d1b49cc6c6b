"""Shares one listening connection among all callers in this process that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from time import monotonic
from typing import Protocol

#: Seconds after the start of a session at which all callers are woken, because some events are not
#: notified: those before the session listened, and those of a transaction that looked for listeners
#: before that, found none, and committed later.
WAKE_ALL_AFTER = (0.0, 0.02, 0.2)
#: Seconds between two checks whether any caller is still waiting.
CHECK_INTERVAL = 0.1
#: Seconds for which the session stays open when no caller waits, because another caller may follow.
UNUSED_TIME = 1.0
#: Seconds until a session that failed or could not be opened is opened again.
REOPEN_AFTER = 1.0


class Session(Protocol):
    """A connection that listens."""

    def heard(self, seconds: float) -> list[str]:
        """The next notifications; empty if none arrives within `seconds`."""

    def close(self) -> None: ...


class SharedListener:
    """Wakes callers that wait for notifications.

    The session and its thread exist only while a caller waits. Safe to use from several threads and
    event loops: no call waits for the database.

    Args:
        listen: a function that opens the session.
        can_listen: a function that returns whether the database can send notifications.

    Attributes:
        is_listening: whether notifications arrive now. If not, callers must poll more often.
    """

    def __init__(self, listen: Callable[[], Session], can_listen: Callable[[], bool]) -> None:
        self.is_listening = False
        self._listen = listen
        self._can_listen = can_listen
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Future[None]]] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @property
    def num_waiting(self) -> int:
        """The number of requests or queues for which callers wait."""
        return len(self._waiting)

    @contextmanager
    def expecting(self, key: str) -> Iterator[Future[None]]:
        """A future that is done when the event may have happened.

        It is done when a notification with the key arrives, and whenever a notification may have
        been missed. So the caller must then check whether the event has happened. The caller must
        also check at the start of the block, because the event may have happened before.

        Args:
            key: the word in a notification that stands for the event.
        """
        future: Future[None] = Future()
        with self._lock:
            self._waiting.setdefault(key, set()).add(future)
            if self._thread is None and self._can_listen() and not self._closed.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="rowlease-listener", daemon=True
                )
                self._thread.start()
        try:
            yield future
        finally:
            future.cancel()
            with self._lock:
                self._waiting[key].discard(future)
                if not self._waiting[key]:
                    del self._waiting[key]

    def close(self) -> None:
        """End the session."""
        self._closed.set()
        thread = self._thread
        if thread is not None:
            thread.join(10 * CHECK_INTERVAL)  # a thread that is connecting may take longer

    def _run(self) -> None:
        while self._is_needed():
            try:
                with closing(self._listen()) as session:
                    self._serve(session)
            except Exception:
                # Callers poll meanwhile.
                self._closed.wait(REOPEN_AFTER)
            finally:
                self.is_listening = False
                self._wake(list(self._waiting))

    def _is_needed(self) -> bool:
        with self._lock:
            if self._waiting and not self._closed.is_set():
                return True
            self._thread = None
            return False

    def _serve(self, session: Session) -> None:
        self.is_listening = True
        looks = [monotonic() + seconds for seconds in WAKE_ALL_AFTER]
        needed_at = monotonic()
        while not self._closed.is_set():
            if looks and looks[0] <= monotonic():
                looks.pop(0)
                self._wake(list(self._waiting))
            pause = looks[0] - monotonic() if looks else CHECK_INTERVAL
            for message in session.heard(min(CHECK_INTERVAL, max(0.0, pause))):
                self._wake([message, *message.split()])
            if self._waiting:
                needed_at = monotonic()
            elif monotonic() - needed_at > UNUSED_TIME:
                return

    def _wake(self, keys: Iterable[str]) -> None:
        with self._lock:
            woken = [future for key in keys for future in self._waiting.get(key, ())]
        for future in woken:
            # The future of a caller that no longer waits is cancelled.
            if not future.done() and future.set_running_or_notify_cancel():
                future.set_result(None)
