"""Answers health probes and scrapes, and keeps files for probes that run a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from email.message import Message
from pathlib import Path

from rowlease.errors import ConfigError
from rowlease.http_server import HttpAnswer
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
