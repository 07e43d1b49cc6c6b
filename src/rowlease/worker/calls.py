"""A worker's calls to the database: which ones are stuck, and what follows one that failed.

After a failed call comes another try, other values, or the end of the worker.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rowlease.backoff import Backoff
from rowlease.clock import now
from rowlease.errors import (
    AccessDenied,
    ConfigError,
    InvalidRequest,
    RowleaseError,
    SchemaMismatch,
    StoreError,
    StoreTimeout,
)
from rowlease.events import CallAnswered, CallStuck, Events, StoreLost, StoreRecovered
from rowlease.worker.timings import CALL_SILENT, REFUSAL_TOLERATED

#: Seconds between two checks for stuck calls.
STUCK_CALL_CHECK_SECONDS = 1.0
#: This call is never reported as stuck, because the event `RenewalsLost` reports it.
REPORTED_ELSEWHERE = "renew"


class Call(NamedTuple):
    """A call that is not answered yet.

    Attributes:
        name: the name of the store's method.
        thread: the name of the thread that waits.
        since: when the call began, by `clock.now`.
    """

    name: str
    thread: str
    since: float


class CallMonitor:
    """Records the calls that threads are waiting for. Safe to use from any thread.

    A call is stuck if it has not been answered for 10 s or within its own deadline. Each stuck call
    is reported once. The end of a stuck call is reported when the database answers this call, or
    the next call with the same name from the same thread.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._waiting: dict[int, Call] = {}
        self._stuck: dict[tuple[str, str], float] = {}
        self._ends = threading.Lock()
        self._check_at = 0.0

    def waiting(self) -> list[Call]:
        """The calls that are not answered yet, the longest wait first."""
        return sorted(self._waiting.values(), key=lambda call: call.since)

    def check(self) -> None:
        """Report calls that have become stuck. Only one thread may call this: the dispatcher's."""
        at = now()
        if at < self._check_at:
            return
        self._check_at = at + STUCK_CALL_CHECK_SECONDS
        for call in self.waiting():
            if at - call.since > CALL_SILENT:
                self._note_stuck(call)

    def _note_stuck(self, call: Call) -> None:
        if call.name == REPORTED_ELSEWHERE:
            return
        with self._ends:
            if call[:2] in self._stuck or call not in self._waiting.values():
                return  # the call was reported before, or has just ended
            self._stuck[call[:2]] = call.since
        self._events.emit(CallStuck(call.name, call.thread, now() - call.since))

    def _note_answered(self, call: Call) -> None:
        since = self._stuck.pop(call[:2], None)
        if since is not None:
            self._events.emit(CallAnswered(call.name, call.thread, now() - since))

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Monitor the call that this thread makes in the block; see `Store.monitored`.

        Raises:
            StoreTimeout: the call missed its deadline; the message names the call.
            Exception: any other exception that the call raises.
        """
        thread = threading.current_thread()
        key = threading.get_ident()
        this = Call(name, thread.name.removeprefix("rowlease-"), now())
        self._waiting[key] = this
        is_answered = True
        try:
            yield
        except StoreTimeout as error:
            is_answered = False
            self._note_stuck(this)
            raise StoreTimeout(f"{name}: {error}") from error
        except StoreError as error:
            is_answered = not error.transient
            raise
        finally:
            with self._ends:
                del self._waiting[key]
            if is_answered:
                self._note_answered(this)


class Outage:
    """Whether the database is available, as seen by the calls of one thread.

    Attributes:
        since: when the first call failed; None while calls succeed.
        retry_at: the earliest time for the next call.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._retry_policy = CallRetryPolicy()
        self._pauses = Backoff(0.1, 5.0)
        self.since: float | None = None
        self.retry_at = 0.0

    def failed(self, error: RowleaseError) -> None:
        """Record a call that failed, and delay the next one.

        Raises:
            RowleaseError: `error`, if a retry cannot help.
        """
        if not self._retry_policy.tolerates(error):
            raise error
        at = now()
        if self.since is None:
            self.since = at
            self._events.emit(StoreLost(str(error)))
        self.retry_at = at + next(self._pauses)

    def answered(self) -> None:
        """Record a call that succeeded."""
        self._retry_policy.answered()
        if self.since is not None:
            self._events.emit(StoreRecovered(now() - self.since))
            self.since = None
            self._pauses.reset()

    def retry_now(self) -> None:
        """Allow the next call without a pause."""
        self.retry_at = 0.0


class CallRetryPolicy:
    """Decides whether a failed call of one kind may be repeated later.

    Args:
        worked: whether such a call has succeeded before. A refusal before the first success is
            treated as a mistake in the settings.
    """

    def __init__(self, *, worked: bool = False) -> None:
        self._worked = worked
        self._refused_since: float | None = None

    def answered(self) -> None:
        """Record a call that succeeded."""
        self._worked = True
        self._refused_since = None

    def tolerates(self, error: Exception) -> bool:
        """Whether to repeat the call after this error.

        A call is always repeated after a transient error. After a refusal, it is repeated for a
        minute, if a call has succeeded before.
        """
        if isinstance(error, StoreError) and error.transient:
            return True
        if not (self._worked and isinstance(error, StoreError | InvalidRequest)):
            return False
        at = now()
        if self._refused_since is None:
            self._refused_since = at
        return at - self._refused_since < REFUSAL_TOLERATED


def is_caused_by_data(error: Exception) -> bool:
    """Whether a call that raised this error might succeed with other arguments.

    Other arguments cannot help if the database is unavailable, or if rights or routines are
    missing. The arguments may be the cause of any other exception, including the driver's.
    """
    if isinstance(error, StoreError) and error.transient:
        return False
    return not isinstance(error, AccessDenied | SchemaMismatch | ConfigError)


def ascii_only(text: str) -> str:
    """The string with NUL and all non-ASCII characters escaped. Every database can store it."""
    return text.replace("\0", "\\0").encode("ascii", "backslashreplace").decode()
