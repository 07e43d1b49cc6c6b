"""A connection pool. Each call uses one connection, for which it waits until its deadline."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from time import monotonic
from typing import Generic, Protocol, TypeVar

#: The maximum number of idle connections that are kept open.
MAX_IDLE = 5
#: The maximum number of open connections.
MAX_OPEN = 33


class Connection(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Connection)
T = TypeVar("T")


class NotConnected(Exception):
    """No connection was available before the deadline; nothing was sent."""


class Pool(Generic[C]):
    """A connection pool that is safe to use from several threads.

    Args:
        connect: a function that opens a connection. It runs in a separate thread, because a name
            lookup or a DSN with several hosts may take longer than the caller's deadline.
        is_alive: a function that returns whether an idle connection is still usable, without a
            round trip. None means that all are.
    """

    def __init__(
        self, connect: Callable[[], C], is_alive: Callable[[C], bool] | None = None
    ) -> None:
        self._connect = connect
        self._is_alive = is_alive
        self._idle: deque[C] = deque()
        self._places = threading.Semaphore(MAX_OPEN)
        self._closed = False

    def take(self, seconds: float) -> C:
        """Take a connection from the pool, or open one. The caller must give it back.

        Raises:
            NotConnected: no connection was available in time.
            Exception: an exception of `connect`.
        """
        ends = monotonic() + seconds
        if not self._places.acquire(timeout=max(0.0, seconds)):
            raise NotConnected(
                f"all {MAX_OPEN} connections of the store were in use for {seconds:g} s"
            )
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
        """Put a connection back into the pool. Close a connection that is not sound.

        All idle connections are then closed as well, because they probably have the same fault.
        """
        self._places.release()
        if is_sound:
            self._keep(connection)
        else:
            _close(connection)
            self.close_idle()

    def close(self) -> None:
        """Close the idle connections now, and the others when they are given back."""
        self._closed = True
        self.close_idle()

    def open(self, seconds: float) -> C:
        """Open a connection outside the pool.

        Raises: the same as `take`.
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
            self._keep(opened.result())  # for the next call

    def _keep(self, connection: C) -> None:
        if len(self._idle) >= MAX_IDLE:
            _close(connection)
        else:
            self._idle.append(connection)
            if self._closed:  # must be checked last, because `close` may run at the same time
                self.close_idle()

    def close_idle(self) -> None:
        """Close the idle connections."""
        with suppress(IndexError):
            while True:
                _close(self._idle.pop())


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a new daemon thread, for which the interpreter does not wait at exit."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # raised by result(), in the caller's thread
            result.set_exception(error)

    threading.Thread(target=run, name="rowlease-call", daemon=True).start()
    return result


def _close(connection: Connection) -> None:
    with suppress(Exception):  # the connection is discarded anyway
        connection.close()
