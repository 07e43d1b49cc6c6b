"""Which calls of the database a worker's threads wait for, and since when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, cast

from rowlease.clock import now
from rowlease.errors import StoreError, StoreTimeout
from rowlease.events import CallAnswered, CallStuck, Events
from rowlease.store import Store
from rowlease.worker.times import CALL_SILENT

#: Seconds between two looks for such calls.
CHECK_INTERVAL = 1.0
#: The call that RenewalsLost reports: the log must not name one cause twice.
REPORTED_ELSEWHERE = "renew"


class Call(NamedTuple):
    """A call that is not answered yet.

    Attributes:
        name: of the store's method.
        thread: who waits.
        since: when the call began.
    """

    name: str
    thread: str
    since: float


class CallMonitor:
    """Knows what every thread waits for; any thread may ask.

    A call that is stuck is reported once, and once more when the database answers it, or the next
    call of this name and thread. It is stuck after 10 s, or when its own deadline is over.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._waiting: dict[int, Call] = {}
        self._stuck: dict[tuple[str, str], float] = {}
        self._ends = threading.Lock()
        self._check_at = 0.0

    def through(self, store: Store) -> Store:
        """The same store, whose calls are noted here."""
        return cast("Store", MonitoredStore(store, self, ""))

    def waiting(self) -> list[Call]:
        """Those that wait now, the one that waits longest first."""
        return sorted(self._waiting.values(), key=lambda call: call.since)

    def look(self) -> None:
        """Tell which calls are stuck by now. For one thread, which makes no calls itself."""
        at = now()
        if at < self._check_at:
            return
        self._check_at = at + CHECK_INTERVAL
        for call in self.waiting():
            if at - call.since > CALL_SILENT:
                self._note_stuck(call)

    def _note_stuck(self, call: Call) -> None:
        if call.name == REPORTED_ELSEWHERE:
            return
        with self._ends:
            if call[:2] in self._stuck or call not in self._waiting.values():
                return  # reported before, or it has just ended
            self._stuck[call[:2]] = call.since
        self._events.emit(CallStuck(call.name, call.thread, now() - call.since))

    def _note_answered(self, call: Call) -> None:
        since = self._stuck.pop(call[:2], None)
        if since is not None:
            self._events.emit(CallAnswered(call.name, call.thread, now() - since))

    def make(self, name: str, call: Callable[[], Any]) -> Any:
        """Make a call of this thread.

        Raises:
            StoreTimeout: its sentence names the call.
            Exception: what the call raises.
        """
        thread = threading.current_thread()
        key = threading.get_ident()
        this = Call(name, thread.name.removeprefix("rowlease-"), now())
        self._waiting[key] = this
        is_answered = True
        try:
            return call()
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


class MonitoredStore:
    """A store or its notifications, whose methods are calls."""

    def __init__(self, of: Any, calls: CallMonitor, prefix: str) -> None:
        self._of = of
        self._calls = calls
        self._prefix = prefix

    def within(self, timeout: timedelta) -> MonitoredStore:
        return MonitoredStore(self._of.within(timeout), self._calls, self._prefix)

    def listen(self, *arguments: Any, **named: Any) -> MonitoredStore:
        made = self._calls.make("listen", lambda: self._of.listen(*arguments, **named))
        return MonitoredStore(made, self._calls, "listen.")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            return self._calls.make(self._prefix + name, lambda: found(*arguments, **named))

        return call
