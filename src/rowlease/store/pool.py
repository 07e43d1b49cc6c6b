"""A connection pool. Each call uses one connection, for which it waits until its deadline.

A signal handler may raise an exception in the main thread between any two steps of Python code. So
nothing here depends on code that runs afterwards: a place is free again when its object is dropped,
a connection that is dropped is closed by its driver, and what threads share is changed by single
calls of C code. Semaphore, Condition, Event, Future and Thread of the standard library are Python
code: an exception at the wrong moment leaves their locks locked for ever.
"""

from __future__ import annotations

import time
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Generic, Protocol, TypeVar
from weakref import ref

from rowlease.forks import check_fork, watch_forks

#: The maximum number of connections that are in use or idle.
MAX_OPEN = 33
#: Seconds after which an idle connection is closed, unless it is the only one. If this were much
#: shorter, a program with a burst of calls now and then would log in again for each burst.
IDLE_TIME = 30.0
#: Seconds between two searches for connections that have been idle for IDLE_TIME.
IDLE_CHECK_SECONDS = 3.0
#: Seconds after which a call that waits for a place looks for one itself: a place that was dropped
#: instead of given back is not handed over.
PLACE_CHECK_SECONDS = 0.1


class Place:
    """The right to use a connection. It ends when the object is dropped."""

    __slots__ = ("__weakref__",)


class Pooled(Protocol):
    #: The place of the call that uses the connection.
    place: Place | None

    def close(self) -> None: ...


C = TypeVar("C", bound=Pooled)
T = TypeVar("T")


class NotConnected(Exception):
    """No connection was available before the deadline; nothing was sent."""


class ConnectionPool(Generic[C]):
    """A connection pool that is safe to use from several threads, and in forked children.

    The connection that was used last is used next, so that those which are not needed become idle.

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
        self._closed = False
        self.forget()
        watch_forks(self)

    def forget(self) -> None:
        """Begin without connections, in a child that was forked."""
        #: Idle connections with the time at which they became idle; the last one is used next.
        self._idle: deque[tuple[float, C]] = deque()
        self._places: set[ref[Place]] = set()
        #: The calls that wait for a place, in their order.
        self._line: deque[ref[SimpleQueue[Place]]] = deque()
        self._closer: ref[_Closer] | None = None

    def take(self, seconds: float) -> C:
        """Take a connection from the pool, or open one. The caller must give it back.

        Raises:
            NotConnected: no connection was available in time.
            ConfigError: the process was forked without Python's knowledge.
            Exception: an exception of `connect`.
        """
        check_fork()
        ends = monotonic() + seconds
        place = (None if self._line else self._free_place()) or self._wait_for_place(seconds)
        while (idle := self._popped()) is not None:
            if self._is_alive is None or self._is_alive(idle):
                idle.place = place
                return idle
            _close(idle)
        opened = self.open(ends - monotonic())
        opened.place = place
        return opened

    def give_back(self, connection: C, *, is_sound: bool) -> None:
        """Put a connection back into the pool. Close a connection that is not sound."""
        place, connection.place = connection.place, None
        if is_sound:
            self._keep(connection)
        else:
            _close(connection)
        while place is not None and self._line:
            with suppress(IndexError):  # another thread has handed its place over
                first = self._line.popleft()()
                if first is not None:
                    first.put(place)
                    return

    def close(self) -> None:
        """Close the idle connections now, and the others when they are given back."""
        self._closed = True
        self.close_idle()

    def open(self, seconds: float) -> C:
        """Open a connection outside the pool.

        Raises: the same as `take`.
        """
        try:
            return in_thread(self._connect, seconds, late=self._keep)  # late ones: the next call
        except TimeoutError:
            raise NotConnected(f"no connection within {round(seconds, 1):g} s") from None

    def close_idle(self) -> None:
        """Close the idle connections."""
        while (idle := self._popped()) is not None:
            _close(idle)

    def _free_place(self) -> Place | None:
        place = Place()
        self._places.add(ref(place, self._places.discard))
        return place if len(self._places) <= MAX_OPEN else None

    def _wait_for_place(self, seconds: float) -> Place:
        ends = monotonic() + seconds
        turn: SimpleQueue[Place] = SimpleQueue()
        self._line.append(waits := ref(turn))
        try:
            while True:
                left = ends - monotonic()
                with suppress(Empty):
                    return turn.get(timeout=max(0.0, min(left, PLACE_CHECK_SECONDS)))
                if (place := self._free_place()) is not None:
                    return place
                if left <= PLACE_CHECK_SECONDS:
                    raise NotConnected(
                        f"all {MAX_OPEN} connections of the store were in use for {seconds:g} s"
                    )
        finally:
            with suppress(ValueError):  # it was called
                self._line.remove(waits)

    def _popped(self) -> C | None:
        with suppress(IndexError):
            return self._idle.pop()[1]
        return None

    def _keep(self, connection: C) -> None:
        self._idle.append((monotonic(), connection))
        if self._closed:  # must be checked last, because `close` may run at the same time
            self.close_idle()
        elif len(self._idle) > 1 and (self._closer is None or self._closer() is None):
            closer = _Closer()
            self._closer = ref(closer)
            start_new_thread(self._close_unused, (closer,))

    def _close_unused(self, _: _Closer) -> None:
        """Close connections that have been idle for long, until only one is idle."""
        while len(self._idle) > 1:
            time.sleep(IDLE_CHECK_SECONDS)
            with suppress(IndexError):
                while len(self._idle) > 1:
                    idle = self._idle.popleft()
                    if idle[0] > monotonic() - IDLE_TIME:
                        self._idle.appendleft(idle)
                        break
                    _close(idle[1])


class _Closer:
    """Exists for as long as a thread closes the connections of a pool that are not used."""


def in_thread(
    work: Callable[[], T], seconds: float, *, late: Callable[[T], object] | None = None
) -> T:
    """Run `work` in a new thread, for which neither this call nor the interpreter's exit waits.

    Args:
        seconds: the longest time to wait.
        late: a function that gets the result if nobody waits for it any more.

    Raises:
        TimeoutError: there was no result in time. The thread goes on.
        BaseException: an exception of `work`.
    """
    answer: SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = SimpleQueue()
    waiting = ref(answer)  # dead when this call has ended, however it ended

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            if (asked := waiting()) is not None:
                asked.put((None, error))
        else:
            if (asked := waiting()) is not None:
                asked.put((result, None))
            elif late is not None:
                late(result)

    start_new_thread(run, ())
    try:
        result, error = answer.get(timeout=max(0.0, seconds))
    except Empty:
        del answer  # otherwise the traceback of this error would keep it
        raise TimeoutError from None
    if error is not None:
        try:
            raise error
        finally:
            del error  # it refers to this frame
    return result  # type: ignore[return-value]  # there is a result, because there is no error


def _close(connection: Pooled) -> None:
    with suppress(Exception):  # the connection is discarded anyway
        connection.close()
