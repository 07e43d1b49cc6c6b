"""The supervisor runs several workers, each in its own process, and replaces those that die.

The supervisor has one thread, which sleeps until a signal or a report arrives, or until a worker
must be started. If the supervisor dies, its workers drain and end.
"""

from __future__ import annotations

import selectors
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta

from rowlease.clock import now
from rowlease.events import Events, SupervisorStopping, WorkerDied, WorkerSpawned
from rowlease.metrics.tally import Tally
from rowlease.metrics.worker_metrics import count_events
from rowlease.worker.host.health import HealthReport, Outlet
from rowlease.worker.host.signals import STACK_PAUSE, stacks_on_sigquit, write_line
from rowlease.worker.host.supervised import SupervisedWorker, exit_text
from rowlease.worker.summary import Summary
from rowlease.worker.timings import REPORT, STALLED, SUPERVISOR_SHUTDOWN

#: The exit code for a wrong command or setting. A restart would fail in the same way.
USAGE_ERROR = 2
#: The signals for the first and the second call of `stop`. A worker treats both signals alike. They
#: are two because the kernel delivers two pending signals of the same kind as one.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: The exit codes of a worker that gets a stop signal before it has installed its handlers.
STOP_EXIT_CODES = (-signal.SIGTERM, -signal.SIGINT, 130)


class Supervisor:
    """Keeps workers running until it is stopped, or in burst mode until nothing is left to do.

    Args:
        command: the command line of a worker. The argument "{}" is replaced by the descriptor of
            the worker's channel.
        count: the number of workers.
        grace: the grace time of the workers.
        burst: whether to replace only workers that a signal has killed, and not workers that exit.
        outlets: the places that get a report every `interval` seconds.

    Attributes:
        num_restarts: the number of times that a worker was replaced.
        exit_code: the exit code for this process, once `run` has returned.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        events: Events,
        *,
        grace: timedelta,
        burst: bool = False,
        outlets: Sequence[Outlet] = (),
        interval: float = REPORT,
    ) -> None:
        self._command = command
        self._events = events
        self._grace = grace
        self._burst = burst
        self._outlets = outlets
        self._interval = interval
        self._workers = [SupervisedWorker(number) for number in range(1, count + 1)]
        self._stops = 0
        self._kill_at: float | None = None
        self._was_ready = False
        self._stepped_at = now()
        self._summaries: list[Summary] = []
        self._tally = count_events(events)
        #: Held while the counts of a worker that has ended move from its channel to `_tally`.
        self._counting = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self.num_restarts = 0
        self.exit_code = 0

    def stop(self) -> None:
        """Drain the workers. After a second call, they abandon their running requests at once."""
        self._stops += 1

    def report(self) -> HealthReport:
        """The health of all workers together. Safe from any thread."""
        at = now()
        each = [worker.report(at) for worker in self._workers]
        why = [sentence for one in each for sentence in one.why]
        since_step = at - self._stepped_at
        if since_step > STALLED:
            why.append(f"the supervisor has been stalled for {since_step:.0f} s")
        return HealthReport(
            all(one.live for one in each) and since_step <= STALLED,
            all(one.ready for one in each) and since_step <= STALLED,
            tuple(why),
            self._stops > 0,
            sum(one.slots for one in each),
            sum(one.busy for one in each),
            sum(one.finished for one in each) + sum(one.finished for one in self._summaries),
            all(one.started for one in each),
        )

    def tally(self) -> Tally:
        """The counts of all workers and of this process. Safe from any thread."""
        total = Tally()
        with self._counting:
            total.add(self._tally.as_json())
            for worker in self._workers:
                if worker.channel and worker.channel.tally:
                    total.add(worker.channel.tally)
        return total

    def run(self) -> Summary:
        """Supervise until every worker has ended. Call this once, in the main thread.

        SIGTERM and Ctrl-C call `stop`. SIGQUIT writes the stacks of all processes to stderr.
        """
        began_at = now()
        with self._signals(), stacks_on_sigquit(self._show_stacks):
            show_at = 0.0
            while not all(worker.is_over for worker in self._workers):
                self._stepped_at = at = now()
                self._pass_stops_on(at)
                for worker in self._workers:
                    if worker.start_at is not None and at >= worker.start_at:
                        self._start(worker)
                if at >= show_at:
                    self._show()
                    show_at = at + self._interval
                times = [worker.start_at for worker in self._workers if worker.start_at is not None]
                self._wait(min([show_at, *times]) - now())
        self._selector.close()
        for outlet in self._outlets:
            outlet.close()
        done = Summary.of(self._summaries)
        return done._replace(seconds=now() - began_at)

    # -- one worker ------------------------------------------------------------------------------

    def _start(self, worker: SupervisedWorker) -> None:
        try:
            worker.start(self._command)
        except OSError as error:
            self._died(worker, None, f"could not be started: {error}")
            return
        assert worker.process
        assert worker.channel
        self._selector.register(worker.channel, selectors.EVENT_READ, worker)
        self._events.emit(WorkerSpawned(worker.number, worker.process.pid))

    def _read_channel(self, worker: SupervisedWorker) -> None:
        if worker.channel is None:
            return
        if not worker.channel.read():
            self._selector.unregister(worker.channel)
        elif (report := worker.channel.report) is not None:
            worker.last_message_at = now()
            self._was_ready = self._was_ready or report.ready

    def _reap(self) -> None:
        for worker in self._workers:
            if worker.process is None or (code := worker.process.poll()) is None:
                continue
            channel = worker.channel
            assert channel is not None
            while channel.fileno() in self._selector.get_map():
                if not channel.read():
                    self._selector.unregister(channel)
            channel.close()
            pid, worker.process = worker.process.pid, None
            if channel.summary:
                self._summaries.append(channel.summary)
            with self._counting:
                worker.channel = None
                if channel.tally:
                    self._tally.add(channel.tally)
            self._ended(worker, pid, code)

    def _ended(self, worker: SupervisedWorker, pid: int, code: int) -> None:
        if self._stops or (self._burst and code >= 0):
            is_stopped = self._stops > 0 and code in STOP_EXIT_CODES
            if code != 0 and not is_stopped:
                self.exit_code = self.exit_code or max(code, 1)
                self._events.emit(WorkerDied(worker.number, pid, exit_text(code), None))
        elif code == USAGE_ERROR and not self._was_ready:
            self.exit_code = code
            self._events.emit(WorkerDied(worker.number, pid, exit_text(code), None))
            self.stop()
        else:
            self._died(worker, pid, exit_text(code))

    def _died(self, worker: SupervisedWorker, pid: int | None, how: str) -> None:
        self.num_restarts += 1
        self._events.emit(WorkerDied(worker.number, pid, how, worker.start_again()))

    # -- all workers ----------------------------------------------------------------------------

    def _pass_stops_on(self, at: float) -> None:
        """Pass stop signals on, and kill workers that do not end in time."""
        if not self._stops:
            return
        if self._kill_at is None:
            self._events.emit(SupervisorStopping(self._grace))
            self._kill_at = at + self._grace.total_seconds() + SUPERVISOR_SHUTDOWN
        if self._stops > 1:
            self._kill_at = min(self._kill_at, at + SUPERVISOR_SHUTDOWN)
        for worker in self._workers:
            worker.start_at = None
            for number in STOP_SIGNALS[worker.signals_sent : self._stops]:
                worker.signals_sent += 1
                worker.send(number)
            if at >= self._kill_at:
                worker.send(signal.SIGKILL)  # the worker's kill pipes then end its child processes

    def _show(self) -> None:
        report = self.report()
        for outlet in self._outlets:
            outlet.show(report)

    def _wait(self, pause: float) -> None:
        for key, _ in self._selector.select(max(0.0, pause)):
            if isinstance(key.data, SupervisedWorker):
                self._read_channel(key.data)
            else:
                with suppress(BlockingIOError):
                    while key.data.recv(4096):
                        pass
        self._reap()

    def _show_stacks(self) -> None:
        for worker in self._workers:
            # Before its first report a worker may have no handler, and the signal would end it.
            if worker.process and worker.channel and (report := worker.channel.report):
                write_line(f"worker {worker.number} (process {worker.process.pid}), {report}:")
                worker.send(signal.SIGQUIT)
                time.sleep(STACK_PAUSE * (2 + report.slots))

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Install signal handlers. Each signal also wakes `run`."""
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        self._selector.register(woken, selectors.EVENT_READ, woken)
        wakeup = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
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
            self._selector.unregister(woken)
            woken.close()
            waker.close()
