"""Starts, wakes and stops the components of a running worker."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from rowlease.errors import RowleaseError
from rowlease.worker.call_monitor import CallMonitor
from rowlease.worker.claims.exchanger import Exchanger
from rowlease.worker.claims.leases import Leases
from rowlease.worker.claims.listener import Listener
from rowlease.worker.claims.outcome_sender import OutcomeSender
from rowlease.worker.claims.receiver import Receiver
from rowlease.worker.housekeeping import Housekeeping
from rowlease.worker.slots.dispatcher import Dispatcher
from rowlease.worker.threads import Threads


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
        threads.start("leases", self.leases.run, self.dispatcher.lost, self.receiver.go_on)
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
