"""A supervised worker: its process, and the restarts after that process has died."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from rowlease.clock import now
from rowlease.worker.host.channel import SupervisorEnd
from rowlease.worker.host.health import HealthReport
from rowlease.worker.time_limits import REPORT_SILENT

#: Seconds before a worker that died is started again: doubled each time, half of it random.
FIRST_RESTART, LAST_RESTART = 0.2, 30.0
#: Seconds after which a running worker counts as stable: its next death is the first in a row.
STABLE_AFTER = 60.0


class SupervisedWorker:
    """One worker of a supervisor, across the processes that run it one after the other.

    Attributes:
        number: the number of the worker, from 1.
        process: the process that runs now, or None.
        channel: the channel to that process, or None.
        start_at: when to start the next process; None while one runs, or if none is to follow.
        last_message_at: when the last report came.
        signals_sent: how many stop signals the process has been sent.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.channel: SupervisorEnd | None = None
        self.start_at: float | None = 0.0
        self.last_message_at = 0.0
        self.signals_sent = 0
        self._began_at = 0.0
        self._deaths_in_a_row = 0

    @property
    def is_over(self) -> bool:
        """Whether no process runs and none will be started."""
        return self.process is None and self.start_at is None

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None) -> None:
        """Start a process.

        Args:
            command: the argument "{}" is replaced by the descriptor of the worker's channel.

        Raises:
            OSError: the process cannot be started.
        """
        self.start_at = None
        self.signals_sent = 0
        self._began_at = self.last_message_at = now()
        channel = SupervisorEnd()
        fd = channel.worker_socket.fileno()
        try:
            # In its own process group: Ctrl-C reaches only the supervisor, which passes it on.
            self.process = subprocess.Popen(
                [str(fd) if part == "{}" else part for part in command],
                pass_fds=[fd],
                env=environment,
                process_group=0,
            )
        except OSError:
            channel.close()
            raise
        channel.close_worker_socket()
        self.channel = channel

    def start_again(self) -> float:
        """Plan the next process, after a pause that grows with each death in a row; return it."""
        at = now()
        if at - self._began_at >= STABLE_AFTER:
            self._deaths_in_a_row = 0
        pause = min(LAST_RESTART, FIRST_RESTART * 2.0**self._deaths_in_a_row)
        pause *= random.uniform(0.5, 1)
        self._deaths_in_a_row = min(self._deaths_in_a_row + 1, 20)
        self.start_at = at + pause
        return pause

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if one runs."""
        if self.process:
            self.process.send_signal(number)

    def report(self, at: float) -> HealthReport:
        """The health of the worker."""
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
    """How a process ended, as text."""
    if code >= 0:
        return f"exited with code {code}"
    with suppress(ValueError):
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"was killed by signal {-code}"
