"""One of a supervisor's workers: its process, and those that replace it when it dies."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from rowlease.clock import now
from rowlease.worker.host.channel import SupervisorEnd
from rowlease.worker.host.health import HealthReport
from rowlease.worker.times import REPORT_SILENT

#: Seconds before a worker that died is started again: doubled each time, half of it random.
FIRST_RESTART, LAST_RESTART = 0.2, 30.0
#: Seconds a worker must have lived for its next death to count as the first.
STABLE_AFTER = 60.0


class SupervisedWorker:
    """The process that runs now, and how those before it fared.

    Attributes:
        start_at: when to start the next; None while one runs, or none is to come.
        last_message_at: when the worker last sent something.
        signals_sent: how many signals to stop it has been sent.
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
        """Nothing runs, and nothing will."""
        return self.process is None and self.start_at is None

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None) -> None:
        """Start a worker; the part "{}" of the command becomes its end of the channel.

        Raises:
            OSError: it cannot be started.
        """
        self.start_at = None
        self.signals_sent = 0
        self._began_at = self.last_message_at = now()
        channel = SupervisorEnd()
        fd = channel.worker_socket.fileno()
        try:
            # In a process group of its own: Ctrl-C is for the supervisor, which passes it on.
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
        """Have another started, the later the more have died in a row; in how many seconds."""
        at = now()
        if at - self._began_at >= STABLE_AFTER:
            self._deaths_in_a_row = 0
        pause = min(LAST_RESTART, FIRST_RESTART * 2.0**self._deaths_in_a_row)
        pause *= random.uniform(0.5, 1)
        self._deaths_in_a_row = min(self._deaths_in_a_row + 1, 20)
        self.start_at = at + pause
        return pause

    def send(self, number: signal.Signals) -> None:
        """Send the worker a signal, if there is one."""
        if self.process:
            self.process.send_signal(number)

    def report(self, at: float) -> HealthReport:
        """How its worker is."""
        name = f"worker {self.number}"
        if self.process is None:
            if self.start_at is None:
                return HealthReport(True, False, (f"{name} has ended",))
            left = max(0.0, self.start_at - at)
            return HealthReport(True, False, (f"{name} has died and is started in {left:.0f} s",))
        channel = self.channel
        report = channel.report if channel else None
        if report is None:
            return HealthReport(True, False, (f"{name} is starting",))
        why = [f"{name}: {each}" for each in report.why]
        silence = at - self.last_message_at
        if silence > REPORT_SILENT:
            why.append(f"{name} has not been heard of for {silence:.0f} s")
            report = report._replace(live=False, ready=False)
        return report._replace(why=tuple(why))


def ending(code: int) -> str:
    """How a process ended, as text."""
    if code >= 0:
        return f"exited with code {code}"
    with suppress(ValueError):
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"was killed by signal {-code}"
