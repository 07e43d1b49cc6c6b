"""Notifies systemd of the state of the service: ready, stopping, alive, and a status line.

Source: sd_notify(3). Each message is one datagram of `NAME=value` lines.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

from rowlease.visible import visible
from rowlease.worker.host.health import HealthReport

#: The number of characters of a status that `systemctl status` shows on one line.
MAX_STATUS = 300


class Systemd:
    """Sends reports to systemd's notification socket.

    Args:
        address: the path of the socket. A path that begins with @ names an abstract socket.
        watchdog: the seconds within which systemd expects a message that the service is alive, or
            None.
    """

    def __init__(self, address: str, watchdog: float | None = None) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self.watchdog = watchdog
        self._sent: set[str] = set()
        self._status = ""

    @classmethod
    def of_environment(cls, environment: MutableMapping[str, str] = os.environ) -> Systemd | None:
        """The outlet for the systemd that started this process, or None if systemd did not.

        systemd's variables are removed from the environment, so that child processes do not notify
        systemd.
        """
        address = environment.pop("NOTIFY_SOCKET", "")
        microseconds = environment.pop("WATCHDOG_USEC", "")
        pid = environment.pop("WATCHDOG_PID", "")
        if not address.startswith(("/", "@")):
            return None
        is_ours = not pid or pid == str(os.getpid())
        watchdog = int(microseconds) / 1e6 if microseconds.isdecimal() and is_ours else None
        return cls(address, watchdog)

    def show(self, report: HealthReport) -> None:
        """Send the changes, and the message for the watchdog."""
        lines = []
        if report.ready and "READY" not in self._sent:
            self._sent.add("READY")
            lines.append("READY=1")
        if report.draining and "STOPPING" not in self._sent:
            self._sent.add("STOPPING")
            lines.append("STOPPING=1")
        if report.live and self.watchdog:
            lines.append("WATCHDOG=1")
        status = visible(" ".join(str(report).split()))[:MAX_STATUS]
        if status != self._status:
            self._status = status
            lines.append(f"STATUS={status}")
        if lines:
            with suppress(OSError):  # if systemd is restarting, it gets the next message
                self._socket.sendto("\n".join(lines).encode(), self._address)

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()
