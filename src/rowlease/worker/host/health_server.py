"""Answers health probes and scrapes over HTTP, and keeps files for probes that run a command."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET, AF_INET6
from socketserver import TCPServer

from rowlease.errors import ConfigError
from rowlease.silent_clients import LimitedHandler, LimitedServer
from rowlease.worker.host.health import HealthReport


class HealthServer:
    """Answers `/live`, `/ready` and `/startup` with 200 or 503 and the report as JSON.

    Args:
        host: the address to listen on.
        port: the port to listen on; 0 means any free port.
        report: a function that returns the current health. It is called in threads of the server.
        metrics: a function that returns the content type and the body for `/metrics`, from the
            header Accept; None: there are none.

    Raises:
        ConfigError: the server cannot listen on this address.

    Attributes:
        port: the port that the server listens on.
    """

    def __init__(
        self,
        host: str,
        port: int,
        report: Callable[[], HealthReport],
        metrics: Callable[[str], tuple[str, bytes]] | None = None,
    ) -> None:
        class Server(LimitedServer, ThreadingHTTPServer):
            address_family = AF_INET6 if ":" in host else AF_INET

            def server_bind(self) -> None:
                # HTTPServer.server_bind would make a DNS query for a name that is not used.
                TCPServer.server_bind(self)

        class Handler(LimitedHandler):
            server_version = "rowlease"
            sys_version = ""

            def do_GET(self) -> None:
                if metrics and path_of(self.path) == "metrics":
                    code = 200
                    content_type, data = metrics(self.headers.get("Accept", ""))
                else:
                    code, body = answer(self.path, report())
                    content_type, data = "application/json", json.dumps(body).encode() + b"\n"
                self.send_response(code)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_HEAD = do_GET

        try:
            self._server = Server((host, port), Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"cannot listen for health probes at {host}:{port}: {error}"
            ) from error
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> HealthServer:
        threading.Thread(
            target=self._server.serve_forever, name="rowlease-health", daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def path_of(target: str) -> str:
    """The path of a request, without slashes and query."""
    return target.partition("?")[0].strip("/")


def answer(path: str, report: HealthReport) -> tuple[int, dict[str, object]]:
    """The status code and the body for the path of a probe."""
    body = report._asdict()
    probe = path_of(path)
    if probe == "metrics":
        return 404, {"error": "metrics need prometheus_client; pip install 'rowlease[metrics]'"}
    if probe not in ("live", "ready", "startup"):
        return 404, {"error": "ask for /live, /ready, /startup or /metrics"}
    return (200 if body["started" if probe == "startup" else probe] else 503), body


def read_address(text: str) -> tuple[str, int]:
    """Read an address: `8080` (on the loopback), `0.0.0.0:8080` or `[::]:8080`.

    Raises:
        ConfigError: the text is not an address.
    """
    host, colon, port = text.rpartition(":")
    if not colon:
        host = "127.0.0.1"
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(
            f"{text!r} is not an address; write a port (then only this host can connect) or "
            "0.0.0.0:8080"
        )
    return host, int(port)


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
