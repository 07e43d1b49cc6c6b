"""The channel between a supervisor and one of its workers: JSON, a message on each line.

It is also how each of them notices that the other is gone: the channel ends, however it went.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rowlease.worker.host.health import HealthReport
from rowlease.worker.summary import Summary

READ_BYTES = 1 << 16


class WorkerEnd:
    """The worker's end; an outlet of its health reporter.

    Args:
        fd: as inherited from the supervisor.
        gone: called, in another thread, when the supervisor is gone.
    """

    def __init__(self, fd: int, gone: Callable[[], object]) -> None:
        os.set_inheritable(fd, False)  # a task's processes must not hold the channel
        self._socket = socket.socket(fileno=fd)
        self._gone = gone
        self._sending = threading.Lock()
        threading.Thread(target=self._listen, name="rowlease-channel", daemon=True).start()

    def show(self, report: HealthReport) -> None:
        """Send a report."""
        self._send({"report": report})

    def summary(self, summary: Summary) -> None:
        """Send what the worker did."""
        self._send({"summary": summary})

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # the listener is gone then, too
        self._socket.close()

    def _send(self, message: dict[str, Any]) -> None:
        # An error: nobody is there to hear it.
        with suppress(OSError), self._sending:
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _listen(self) -> None:
        with suppress(OSError):
            while self._socket.recv(READ_BYTES):
                pass
        self._gone()


class SupervisorEnd:
    """The supervisor's end.

    Attributes:
        worker_socket: what the worker is to inherit; None once it was handed over.
        report, summary: the last that the worker has sent.
    """

    def __init__(self) -> None:
        self._socket, self.worker_socket = socket.socketpair()
        self._socket.setblocking(False)
        self._rest = b""
        self.report: HealthReport | None = None
        self.summary: Summary | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def close_worker_socket(self) -> None:
        """The worker has its end: the channel must end with it."""
        self.worker_socket.close()

    def read(self) -> bool:
        """Take in what has come; False: the worker has hung up."""
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            for what, value in json.loads(line).items():
                if what == "report":
                    live, ready, why, *numbers = value
                    self.report = HealthReport(live, ready, tuple(why), *numbers)
                else:
                    self.summary = Summary(*value)
        return bool(data)

    def close(self) -> None:
        self._socket.close()
        self.worker_socket.close()
