"""Shares one listening connection among all callers in this process that wait."""

from __future__ import annotations

import threading
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Protocol

from rowlease.forks import watch_forks
from rowlease.store.notice import Notice, Notices

#: Seconds after the start of a session at which all callers are woken, because some events are not
#: notified: those before the session listened, and those of a transaction that looked for listeners
#: before that, found none, and committed later.
WAKE_ALL_AFTER = (0.0, 0.02, 0.2)
#: Seconds between two checks whether any caller is still waiting.
WAITER_CHECK_SECONDS = 0.1
#: Seconds for which the session stays open when no caller waits, because another caller may follow.
UNUSED_SESSION_SECONDS = 1.0
#: Seconds until a session that failed or could not be opened is opened again.
REOPEN_SECONDS = 1.0


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
        self._listen = listen
        self._can_listen = can_listen
        self._closed = threading.Event()
        self._notices = Notices()
        self.forget()
        watch_forks(self)

    def forget(self) -> None:
        """Begin without a thread, in a child that was forked."""
        self.is_listening = False
        self._lock = threading.Lock()
        #: The thread puts an item here when it ends; None if there is no thread.
        self._ended: SimpleQueue[None] | None = None
        is_closed, self._closed = self._closed.is_set(), threading.Event()
        if is_closed:
            self._closed.set()

    @property
    def num_waiting(self) -> int:
        """The number of requests or queues for which callers wait."""
        return len(self._notices)

    @contextmanager
    def expecting(self, key: str) -> Iterator[Notice]:
        """A notice that is set when the event may have happened.

        It is set when a notification with the key arrives, and whenever a notification may have
        been missed. So the caller must then check whether the event has happened. The caller must
        also check at the start of the block, because the event may have happened before.

        Args:
            key: the word in a notification that stands for the event.
        """
        with self._notices.expecting(key) as notice:
            with self._lock:
                if self._ended is None and self._can_listen() and not self._closed.is_set():
                    ended: SimpleQueue[None] = SimpleQueue()
                    start_new_thread(self._run, (ended,))
                    self._ended = ended
            yield notice

    def close(self) -> None:
        """End the session."""
        self._closed.set()
        ended = self._ended
        if ended is not None:
            with suppress(Empty):  # a thread that is connecting may take longer
                ended.get(timeout=10 * WAITER_CHECK_SECONDS)

    def _run(self, ended: SimpleQueue[None]) -> None:
        while self._is_needed():
            try:
                with closing(self._listen()) as session:
                    self._serve(session)
            except Exception:
                # Callers poll meanwhile.
                self._closed.wait(REOPEN_SECONDS)
            finally:
                self.is_listening = False
                self._notices.set(self._notices.keys)
        ended.put(None)

    def _is_needed(self) -> bool:
        with self._lock:
            if self._notices.keys and not self._closed.is_set():
                return True
            self._ended = None
            return False

    def _serve(self, session: Session) -> None:
        self.is_listening = True
        looks = [monotonic() + seconds for seconds in WAKE_ALL_AFTER]
        needed_at = monotonic()
        while not self._closed.is_set():
            if looks and looks[0] <= monotonic():
                looks.pop(0)
                self._notices.set(self._notices.keys)
            pause = looks[0] - monotonic() if looks else WAITER_CHECK_SECONDS
            for message in session.heard(min(WAITER_CHECK_SECONDS, max(0.0, pause))):
                self._notices.set([message, *message.split()])
            if self._notices.keys:
                needed_at = monotonic()
            elif monotonic() - needed_at > UNUSED_SESSION_SECONDS:
                return
