"""A supervised worker: its process, and its restarts after the process has died."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from rowlease.backoff import Backoff
from rowlease.clock import now
from rowlease.worker.host.channel import SupervisorEnd
from rowlease.worker.host.health import HealthReport
from rowlease.worker.timings import REPORT_SILENT

#: Seconds after which a running worker counts as stable. Its next death then counts as the first in
#: a row.
STABLE_AFTER = 60.0


class SupervisedWorker:
    """One worker of a supervisor. After a death, another process runs the same worker.

    Attributes:
        number: the number of the worker, from 1.
        process: the current process, or None.
        channel: the channel to the current process, or None.
        start_at: when to start the next process; None while a process runs, or if no other process
            will be started.
        last_message_at: when the last report arrived.
        signals_sent: the number of stop signals sent to the current process.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.channel: SupervisorEnd | None = None
        self.start_at: float | None = 0.0
        self.last_message_at = 0.0
        self.signals_sent = 0
        self._has_started = False
        self._began_at = 0.0
        self._restart_pauses = Backoff(0.2, 30.0)

    @property
    def is_over(self) -> bool:
        """Whether no process runs and none will be started."""
        return self.process is None and self.start_at is None

    def start(self, command: Sequence[str]) -> None:
        """Start a process.

        Args:
            command: the command line. The argument "{}" is replaced by the descriptor of the
                worker's channel.

        Raises:
            OSError: the process cannot be started.
        """
        self.start_at = None
        self.signals_sent = 0
        self._began_at = self.last_message_at = now()
        channel = SupervisorEnd()
        fd = channel.worker_socket.fileno()
        try:
            # The process has its own process group, so that Ctrl-C reaches only the supervisor.
            # The supervisor then sends the stop signal to each worker.
            self.process = subprocess.Popen(
                [str(fd) if part == "{}" else part for part in command],
                pass_fds=[fd],
                process_group=0,
            )
        except OSError:
            channel.close()
            raise
        channel.close_worker_socket()
        self.channel = channel

    def start_again(self) -> float:
        """Plan a restart and return the pause before it, which grows with each death in a row."""
        at = now()
        if at - self._began_at >= STABLE_AFTER:
            self._restart_pauses.reset()
        pause = next(self._restart_pauses)
        self.start_at = at + pause
        return pause

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the current process, if there is one."""
        if self.process:
            self.process.send_signal(number)

    def report(self, at: float) -> HealthReport:
        """The health of the worker. A worker that has started once remains started."""
        report = self._report(at)
        self._has_started = self._has_started or report.started
        return report._replace(started=self._has_started)

    def _report(self, at: float) -> HealthReport:
        name = f"worker {self.number}"
        if self.process is None:
            if self.start_at is None:
                return HealthReport(True, False, (f"{name} has ended",))
            left = max(0.0, self.start_at - at)
            reason = f"{name} has died and will be restarted in {left:.0f} s"
            return HealthReport(True, False, (reason,))
        channel = self.channel
        report = channel.report if channel else None
        if report is None:
            return HealthReport(True, False, (f"{name} is starting",))
        why = [f"{name}: {each}" for each in report.why]
        silence = at - self.last_message_at
        if silence > REPORT_SILENT:
            why.append(f"{name} has sent no report for {silence:.0f} s")
            report = report._replace(live=False, ready=False)
        return report._replace(why=tuple(why))


def exit_text(code: int) -> str:
    """Describe how a process ended, for messages."""
    if code >= 0:
        return f"exited with code {code}"
    with suppress(ValueError):
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"was killed by signal {-code}"
