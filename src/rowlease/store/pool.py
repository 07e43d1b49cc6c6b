"""A connection pool: a connection serves one call, and no call waits for one past its deadline."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from time import monotonic
from typing import Generic, Protocol, TypeVar

#: How many idle connections are kept, and how many may be open at all.
KEPT, MOST = 5, 33


class Connection(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Connection)
T = TypeVar("T")


class NotConnected(Exception):
    """No connection was available before the deadline; nothing was sent."""


class Pool(Generic[C]):
    """Safe to use from several threads.

    Args:
        connect: opens a connection. It runs in a separate thread, because a name lookup or a DSN
            with several hosts may take longer than the caller's deadline.
        is_alive: whether an idle connection is still usable, as far as is known without a round
            trip; None: all are.
    """

    def __init__(
        self, connect: Callable[[], C], is_alive: Callable[[C], bool] | None = None
    ) -> None:
        self._connect = connect
        self._is_alive = is_alive
        self._idle: deque[C] = deque()
        self._places = threading.Semaphore(MOST)
        self._closed = False

    def take(self, seconds: float) -> C:
        """Check a connection out; the caller gives it back.

        Raises:
            NotConnected: no connection was available in time.
            Exception: an exception of `connect`.
        """
        ends = monotonic() + seconds
        if not self._places.acquire(timeout=max(0.0, seconds)):
            raise NotConnected(f"all {MOST} connections of the store were in use for {seconds:g} s")
        try:
            while (idle := self._popped()) is not None:
                if self._is_alive is None or self._is_alive(idle):
                    return idle
                _close(idle)
            return self.open(ends - monotonic())
        except BaseException:
            self._places.release()
            raise

    def give_back(self, connection: C, *, is_sound: bool) -> None:
        """Check a connection in; one that is not sound is closed.

        Then the idle ones are closed, too, because the same fault has probably hit them.
        """
        self._places.release()
        if is_sound:
            self._keep(connection)
        else:
            _close(connection)
            self.close_idle()

    def close(self) -> None:
        """Close the idle connections now, and those in use when they are given back."""
        self._closed = True
        self.close_idle()

    def open(self, seconds: float) -> C:
        """Open a connection outside the pool.

        Raises:
            as `take`.
        """
        opened = in_thread(self._connect)
        if wait([opened], max(0.0, seconds)).done:
            return opened.result()
        opened.add_done_callback(self._came_late)
        raise NotConnected(f"no connection within {round(seconds, 1):g} s")

    def _popped(self) -> C | None:
        with suppress(IndexError):
            return self._idle.popleft()
        return None

    def _came_late(self, opened: Future[C]) -> None:
        if opened.exception() is None:
            self._keep(opened.result())  # the next call need not wait as long

    def _keep(self, connection: C) -> None:
        if len(self._idle) >= KEPT:
            _close(connection)
        else:
            self._idle.append(connection)
            if self._closed:  # checked last: `close` may run at the same time
                self.close_idle()

    def close_idle(self) -> None:
        """Close the idle connections."""
        with suppress(IndexError):
            while True:
                _close(self._idle.pop())


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Run it in a daemon thread of its own; the interpreter does not wait for it at exit."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # raised by result(), in the caller's thread
            result.set_exception(error)

    threading.Thread(target=run, name="rowlease-call", daemon=True).start()
    return result


def _close(connection: Connection) -> None:
    with suppress(Exception):  # it is discarded anyway
        connection.close()
