"""Tells others the health of a worker: probes over HTTP, probes that run a command, and systemd.

Source of systemd's protocol: sd_notify(3). Each message is one datagram of `NAME=value` lines.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from email.message import Message
from pathlib import Path

from rowlease.errors import ConfigError
from rowlease.http_server import HttpAnswer
from rowlease.visible import visible
from rowlease.worker.host.health import HealthReport


def probe_answers(
    report: Callable[[], HealthReport],
    metrics: Callable[[str], tuple[str, bytes]] | None = None,
) -> Callable[[str, Message], HttpAnswer]:
    """A function that answers `/live`, `/ready` and `/startup` with 200 or 503, and JSON.

    Args:
        report: a function that returns the current health.
        metrics: a function that returns the content type and the body for `/metrics`, from the
            header Accept; None: there are none.
    """

    def answered(path: str, headers: Message) -> HttpAnswer:
        if metrics and path == "metrics":
            return HttpAnswer(200, *metrics(headers.get("Accept", "")))
        code, body = answer(path, report())
        return HttpAnswer(code, "application/json", json.dumps(body).encode() + b"\n")

    return answered


def answer(path: str, report: HealthReport) -> tuple[int, dict[str, object]]:
    """The status code and the body for the path of a probe."""
    body = report._asdict()
    if path == "metrics":
        return 404, {"error": "metrics need prometheus_client; pip install 'rowlease[metrics]'"}
    if path not in ("live", "ready", "startup"):
        return 404, {"error": "ask for /live, /ready, /startup or /metrics"}
    return (200 if body["started" if path == "startup" else path] else 503), body


class HealthFile:
    """Files for probes that run a command. Reports touch them; the worker deletes them at its end.

    Args:
        path: a file that each report touches while the worker is live. Reports also touch
            `path.ready`, which exists only while the worker is ready.

    Raises:
        ConfigError: the file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._live = path
        self._ready = path.with_name(path.name + ".ready")
        try:
            self._ready.unlink(missing_ok=True)
            self._live.touch()
        except OSError as error:
            raise ConfigError(f"cannot keep the health file {path}: {error.strerror}") from error

    def show(self, report: HealthReport) -> None:
        """Touch `path` if live and `path.ready` if ready. Delete `path.ready` if not ready."""
        with suppress(OSError):  # a file that cannot be touched becomes old, and the probe notices
            if report.live:
                self._live.touch()
            if report.ready:
                self._ready.touch()
            else:
                self._ready.unlink(missing_ok=True)

    def close(self) -> None:
        """Delete both files."""
        for path in (self._ready, self._live):
            with suppress(OSError):
                path.unlink(missing_ok=True)


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
