"""What a worker is made of while it runs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from rowlease.errors import RowleaseError
from rowlease.worker.call_monitor import CallMonitor
from rowlease.worker.claims.leases import Leases
from rowlease.worker.claims.listener import Listener
from rowlease.worker.claims.pump import Pump
from rowlease.worker.claims.receiver import Receiver
from rowlease.worker.claims.sender import Sender
from rowlease.worker.housekeeping import Housekeeping
from rowlease.worker.slots.dispatcher import Dispatcher
from rowlease.worker.threads import Threads


@dataclass(frozen=True)
class Parts:
    """The parts of one run; see `rowlease.worker.worker` for what each of them does.

    Attributes:
        listener: None in burst mode, and where the database sends no notifications.
    """

    calls: CallMonitor
    leases: Leases
    pump: Pump
    dispatcher: Dispatcher
    listener: Listener | None
    receiver: Receiver
    sender: Sender
    housekeeping: Housekeeping

    def start(self, threads: Threads) -> None:
        """Start a thread for each part that waits; the dispatcher has the caller's."""
        threads.start("receiver", self.receiver.run)
        threads.start("sender", self.sender.run)
        threads.start("leases", self.leases.run, self.dispatcher.lost, self.receiver.go_on)
        threads.start("housekeeping", self.housekeeping.run)
        if self.listener:
            threads.start("listener", self.listener.run, self.receiver)

    def notice(self) -> None:
        """Wake the parts that have something to do, after a step of the dispatcher."""
        self.receiver.notice()
        self.sender.notice()
        self.calls.look()

    def stop(self) -> None:
        """End every thread but the receiver's and the sender's, which are closed before."""
        self.leases.stop()
        self.housekeeping.stop()
        if self.listener:
            self.listener.stop()

    def deliver_rest(self) -> None:
        """Deliver what a late claim brought, or what a failed receiver left."""
        self.dispatcher.give_up()
        with suppress(RowleaseError):
            if self.pump.lost_claims.is_unsure:
                self.pump.disown()
            if self.pump.undelivered:
                self.pump.exchange(0, 0)

    @property
    def undelivered(self) -> int:
        """How many requests are held, or have an outcome that did not reach the database."""
        return self.pump.undelivered + self.dispatcher.held
