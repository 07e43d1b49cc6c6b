"""A supervised worker: its process, its restarts, and the channel to it.

The channel carries one JSON message per line. When either process ends, the channel closes, and so
the other process notices the end.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from rowlease.backoff import Backoff
from rowlease.clock import now
from rowlease.metrics.tally import Tally
from rowlease.worker.host.health import HealthReport
from rowlease.worker.summary import Summary
from rowlease.worker.timings import REPORT_SILENT

CHANNEL_READ_BYTES = 1 << 16


class WorkerEnd:
    """The worker's end of the channel. It is an outlet of the worker's health reporter.

    Args:
        fd: the descriptor inherited from the supervisor.
        gone: a function that is called in another thread when the supervisor has ended.
        tally: the counts of the worker. Each report includes them.
    """

    def __init__(self, fd: int, gone: Callable[[], object], tally: Tally | None = None) -> None:
        os.set_inheritable(fd, False)  # processes that a task starts must not keep the channel open
        self._socket = socket.socket(fileno=fd)
        self._gone = gone
        self._tally = tally
        self._sending = threading.Lock()
        threading.Thread(target=self._listen, name="rowlease-channel", daemon=True).start()

    def show(self, report: HealthReport) -> None:
        """Send a report."""
        self._send({"report": report, **self._counted()})

    def summary(self, summary: Summary) -> None:
        """Send the summary of the worker's run."""
        self._send({"summary": summary, **self._counted()})

    def _counted(self) -> dict[str, Any]:
        return {"tally": self._tally.as_json()} if self._tally else {}

    def close(self) -> None:
        """Close the channel."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends the listening thread, too
        self._socket.close()

    def _send(self, message: dict[str, Any]) -> None:
        with suppress(OSError), self._sending:  # an error means that the supervisor has ended
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _listen(self) -> None:
        with suppress(OSError):
            while self._socket.recv(CHANNEL_READ_BYTES):
                pass
        self._gone()


class SupervisorEnd:
    """The supervisor's end of the channel.

    Attributes:
        worker_socket: the socket that the worker inherits.
        report: the worker's last report, or None.
        summary: the summary of the worker's run, or None before the run has ended.
        tally: the counts of the worker, as `Tally.as_json` returned them, or None.
    """

    def __init__(self) -> None:
        self._socket, self.worker_socket = socket.socketpair()
        self._socket.setblocking(False)
        self._rest = b""
        self.report: HealthReport | None = None
        self.summary: Summary | None = None
        self.tally: Any = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def close_worker_socket(self) -> None:
        """Close this process's copy of the worker's socket: it would keep the channel open."""
        self.worker_socket.close()

    def read(self) -> bool:
        """Read the messages that have arrived. Return False if the worker closed the channel."""
        try:
            data = self._socket.recv(CHANNEL_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            for kind, value in json.loads(line).items():
                if kind == "report":
                    live, ready, why, *numbers = value
                    self.report = HealthReport(live, ready, tuple(why), *numbers)
                elif kind == "tally":
                    self.tally = value
                else:
                    self.summary = Summary(*value)
        return bool(data)

    def close(self) -> None:
        self._socket.close()
        self.worker_socket.close()


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
