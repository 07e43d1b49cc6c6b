"""The supervisor: several workers on one host, each a process of its own, started again if it dies.

It runs in one thread, which sleeps until a signal, a word from a worker, or a time comes. Workers
that lose it drain and end.
"""

from __future__ import annotations

import selectors
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta

from rowlease.events import Events, SupervisorStopping, WorkerDied, WorkerSpawned
from rowlease.worker.beacon import INTERVAL, Outlet
from rowlease.worker.child import now
from rowlease.worker.health import Report
from rowlease.worker.seat import Seat, ending
from rowlease.worker.signals import TURN, say, stacks_on_sigquit
from rowlease.worker.summary import Summary

#: Seconds a worker may take to end beyond the grace time, for its last words to the database.
FAREWELL = 15.0
#: Seconds in which this process must have looked around.
STALLED = 10.0
#: The exit code of a mistake: the same command would end the same way again.
USAGE = 2
#: What the workers get for the first and the second `stop`. Both stop a worker; two of one kind
#: might reach it as one.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: How a worker ends on those before it listens to them.
STOPPED_EARLY = (-signal.SIGTERM, -signal.SIGINT, 130)


class Supervisor:
    """Keeps workers running until told to stop, or in burst mode until nothing is left to do.

    Args:
        command: starts a worker, with the number of its end of the line at the place of "{}".
        count: how many workers.
        grace: what the workers were told.
        burst: a worker that ends as it should is not replaced, nor one that says what is wrong.
        environment: of the workers.
        outlets: are shown a report every `interval` seconds.

    Attributes:
        num_restarts: how often a worker was replaced.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        events: Events,
        *,
        grace: timedelta,
        burst: bool = False,
        environment: Mapping[str, str] | None = None,
        outlets: Sequence[Outlet] = (),
        interval: float = INTERVAL,
    ) -> None:
        self._command = command
        self._events = events
        self._grace = grace
        self._burst = burst
        self._environment = environment
        self._outlets = outlets
        self._interval = interval
        self._seats = [Seat(number) for number in range(1, count + 1)]
        self._stops = 0
        self._kill_at: float | None = None
        self._was_ready = False
        self._looked_at = now()
        self._summaries: list[Summary] = []
        self._selector = selectors.DefaultSelector()
        self.num_restarts = 0
        self.exit_code = 0

    def stop(self) -> None:
        """Have the workers drain; called again: have them hand back at once what they run."""
        self._stops += 1

    def report(self) -> Report:
        """How all of them are, together. Safe from any thread."""
        at = now()
        each = [seat.report(at) for seat in self._seats]
        why = [sentence for one in each for sentence in one.why]
        looked = at - self._looked_at
        if looked > STALLED:
            why.append(f"the supervisor has stood still for {looked:.0f} s")
        return Report(
            all(one.live for one in each) and looked <= STALLED,
            all(one.ready for one in each) and looked <= STALLED,
            tuple(why),
            self._stops > 0,
            sum(one.slots for one in each),
            sum(one.busy for one in each),
            sum(one.finished for one in each) + sum(one.finished for one in self._summaries),
        )

    def run(self) -> Summary:
        """Supervise until every worker has ended; `exit_code` says how that went.

        SIGTERM and Ctrl-C call `stop`. SIGQUIT writes the stacks of all processes to stderr. Call
        it in the main thread, once.
        """
        began_at = now()
        with self._signals(), stacks_on_sigquit(self._show_stacks):
            show_at = 0.0
            while not all(seat.is_over for seat in self._seats):
                self._looked_at = at = now()
                self._obey(at)
                for seat in self._seats:
                    if seat.start_at is not None and at >= seat.start_at:
                        self._start(seat)
                if at >= show_at:
                    self._show()
                    show_at = at + self._interval
                times = [seat.start_at for seat in self._seats if seat.start_at is not None]
                self._wait(min([show_at, *times]) - now())
        self._selector.close()
        for outlet in self._outlets:
            outlet.close()
        done = Summary.of(self._summaries)
        return done._replace(seconds=now() - began_at)

    # -- one worker ------------------------------------------------------------------------------

    def _start(self, seat: Seat) -> None:
        try:
            seat.start(self._command, self._environment)
        except OSError as error:
            self._died(seat, None, f"could not be started: {error}")
            return
        assert seat.process
        assert seat.line
        self._selector.register(seat.line, selectors.EVENT_READ, seat)
        self._events.emit(WorkerSpawned(seat.number, seat.process.pid))

    def _hear(self, seat: Seat) -> None:
        if seat.line is None:
            return
        if not seat.line.read():
            self._selector.unregister(seat.line)
        elif (report := seat.line.report) is not None:
            seat.heard_at = now()
            self._was_ready = self._was_ready or report.ready

    def _reap(self) -> None:
        for seat in self._seats:
            if seat.process is None or (code := seat.process.poll()) is None:
                continue
            line, seat.line = seat.line, None
            assert line is not None
            while line.fileno() in self._selector.get_map():
                if not line.read():
                    self._selector.unregister(line)
            line.close()
            pid, seat.process = seat.process.pid, None
            if line.summary:
                self._summaries.append(line.summary)
            self._ended(seat, pid, code)

    def _ended(self, seat: Seat, pid: int, code: int) -> None:
        if self._stops or (self._burst and code >= 0):
            asked = self._stops > 0 and code in STOPPED_EARLY
            if code != 0 and not asked:
                self.exit_code = self.exit_code or max(code, 1)
                self._events.emit(WorkerDied(seat.number, pid, ending(code), None))
        elif code == USAGE and not self._was_ready:
            self.exit_code = code
            self._events.emit(WorkerDied(seat.number, pid, ending(code), None))
            self.stop()
        else:
            self._died(seat, pid, ending(code))

    def _died(self, seat: Seat, pid: int | None, how: str) -> None:
        self.num_restarts += 1
        self._events.emit(WorkerDied(seat.number, pid, how, seat.start_again()))

    # -- all of them -----------------------------------------------------------------------------

    def _obey(self, at: float) -> None:
        """Pass signals on; end by force what does not end."""
        if not self._stops:
            return
        if self._kill_at is None:
            self._events.emit(SupervisorStopping(self._grace))
            self._kill_at = at + self._grace.total_seconds() + FAREWELL
        if self._stops > 1:
            self._kill_at = min(self._kill_at, at + FAREWELL)
        for seat in self._seats:
            seat.start_at = None
            for number in STOP_SIGNALS[seat.signals_sent : self._stops]:
                seat.signals_sent += 1
                seat.send(number)
            if at >= self._kill_at:
                seat.send(signal.SIGKILL)  # its children see that it is gone

    def _show(self) -> None:
        report = self.report()
        for outlet in self._outlets:
            outlet.show(report)

    def _wait(self, pause: float) -> None:
        for key, _ in self._selector.select(max(0.0, pause)):
            if isinstance(key.data, Seat):
                self._hear(key.data)
            else:
                with suppress(BlockingIOError):
                    while key.data.recv(4096):
                        pass
        self._reap()

    def _show_stacks(self) -> None:
        for seat in self._seats:
            # One that has said nothing yet may not be ready for the signal, and would end by it.
            if seat.process and seat.line and (report := seat.line.report):
                say(f"worker {seat.number} (process {seat.process.pid}), {report}:")
                seat.send(signal.SIGQUIT)
                time.sleep(TURN * (2 + report.slots))

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Signals end the wait; SIGCHLD does nothing but that."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self._selector.register(ours, selectors.EVENT_READ, ours)
        wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        handlers = {
            number: signal.signal(number, handler)
            for number, handler in (
                (signal.SIGTERM, lambda *_: self.stop()),
                (signal.SIGINT, lambda *_: self.stop()),
                (signal.SIGCHLD, lambda *_: None),
            )
        }
        try:
            yield
        finally:
            for number, before in handlers.items():
                signal.signal(number, before)
            signal.set_wakeup_fd(wakeup)
            self._selector.unregister(ours)
            ours.close()
            theirs.close()
