"""Starts, wakes and stops the components of a running worker, and its threads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.worker.calls import CallMonitor
from rowlease.worker.claims.exchanger import Exchanger
from rowlease.worker.claims.leases import Leases
from rowlease.worker.claims.listener import Listener
from rowlease.worker.claims.receiver import OutcomeSender, Receiver
from rowlease.worker.housekeeping import Housekeeping
from rowlease.worker.slots.dispatcher import Dispatcher

logger = logging.getLogger("rowlease")


class Threads:
    """The threads of a worker, by name.

    Args:
        failed: a function that a thread calls when it ends with an error.

    Attributes:
        error: the first error that ended a thread, or None.
    """

    def __init__(self, failed: Callable[[], object]) -> None:
        self._failed = failed
        self._threads: dict[str, Thread] = {}
        self.error: BaseException | None = None

    def start(self, name: str, run: Callable[..., object], *arguments: object) -> None:
        """Call `run` in a new thread."""

        def guarded() -> None:
            try:
                run(*arguments)
            except BaseException as error:
                logger.debug("the thread %s failed", name, exc_info=True)
                self.error = self.error or error
                self._failed()

        thread = Thread(target=guarded, name=f"rowlease-{name}", daemon=True)
        thread.start()
        self._threads[name] = thread

    def has_ended(self, name: str, within: float) -> bool:
        """Wait up to `within` seconds for a thread to end. Return False if it still runs."""
        if name not in self._threads:
            return True
        self._threads[name].join(within)
        return not self._threads[name].is_alive()

    def wait(self, names: Iterable[str], within: float) -> None:
        """Wait up to `within` seconds for all of these threads to end."""
        until = now() + within
        for name in names:
            self.has_ended(name, max(0.0, until - now()))


@dataclass(frozen=True)
class Components:
    """The components of one run of a worker. `rowlease.worker.worker` describes them.

    Attributes:
        listener: the listener; None in burst mode, or if the database sends no notifications.
    """

    calls: CallMonitor
    leases: Leases
    exchanger: Exchanger
    dispatcher: Dispatcher
    listener: Listener | None
    receiver: Receiver
    outcome_sender: OutcomeSender
    housekeeping: Housekeeping

    def start(self, threads: Threads) -> None:
        """Start the threads. The dispatcher needs none: it runs in the caller's thread."""
        threads.start("receiver", self.receiver.run)
        threads.start("sender", self.outcome_sender.run)
        threads.start(
            "leases",
            self.leases.run,
            self.dispatcher.lost,
            self.dispatcher.cancel,
            self.receiver.go_on,
        )
        threads.start("heartbeats", self.housekeeping.run_heartbeats)
        threads.start("housekeeping", self.housekeeping.run)
        if self.listener:
            threads.start("listener", self.listener.run, self.receiver)

    def notice(self) -> None:
        """After a step of the dispatcher: wake the components with work, report stuck calls."""
        self.receiver.notice()
        self.outcome_sender.notice()
        self.calls.check()

    def stop(self) -> None:
        """Ask the other threads to end. The receiver and the outcome sender are closed earlier."""
        self.leases.stop()
        self.housekeeping.stop()
        if self.listener:
            self.listener.stop()

    def deliver_rest(self) -> None:
        """Abandon the requests of a late claim, and deliver outcomes that the receiver left."""
        self.dispatcher.give_up()
        with suppress(RowleaseError):
            if self.exchanger.lost_claims.is_unsure:
                self.exchanger.disown()
            if self.exchanger.undelivered:
                self.exchanger.exchange(0, 0)

    @property
    def undelivered(self) -> int:
        """The number of requests still held, or whose outcomes did not reach the database."""
        return self.exchanger.undelivered + self.dispatcher.held
