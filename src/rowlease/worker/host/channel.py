"""The channel between a supervisor and one of its workers. It carries one JSON message per line.

When either process ends, the channel closes, and so the other process notices the end.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rowlease.metrics.tally import Tally
from rowlease.worker.host.health import HealthReport
from rowlease.worker.summary import Summary

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
