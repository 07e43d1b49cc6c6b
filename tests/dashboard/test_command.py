"""`rowlease dashboard`: what it refuses, and that it serves."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from click.testing import CliRunner

import rowlease
from rowlease.cli import cli
from rowlease.cli.dashboard import OPERATOR_TOKEN, READER_TOKEN
from rowlease.errors import ConfigError
from tests.dashboard.conftest import OPERATOR, READER

CERTIFICATE = ["--tls-certificate", __file__]


@pytest.fixture(autouse=True)
def no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(READER_TOKEN, raising=False)
    monkeypatch.delenv(OPERATOR_TOKEN, raising=False)


@pytest.mark.parametrize(
    ("options", "tokens", "message"),
    [
        (["--host", "0.0.0.0"], {}, "visitors must log in; set ROWLEASE_DASHBOARD_READER_TOKEN"),
        (["--host", "queue.example"], {}, "visitors must log in"),
        (["--host", "0.0.0.0"], {READER_TOKEN: READER}, "must use HTTPS"),
        (CERTIFICATE, {}, "needs both --tls-certificate and --tls-key"),
        (["--actions"], {READER_TOKEN: READER}, f"set {OPERATOR_TOKEN} for actions"),
        ([], {READER_TOKEN: "short"}, "has 5 characters"),
        ([], {READER_TOKEN: READER, OPERATOR_TOKEN: READER}, "the same token"),
    ],
)
def test_what_is_not_safe_is_refused(
    options: list[str], tokens: dict[str, str], message: str, dsn: str
) -> None:
    done = CliRunner().invoke(cli, ["dashboard", "--dsn", dsn, *options], env=tokens)
    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)


@pytest.fixture
def served(dsn: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A dashboard in a process of its own: its address and the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rowlease", "dashboard", "--port", "0"],
        env={
            **os.environ,
            "ROWLEASE_DSN": dsn,
            OPERATOR_TOKEN: OPERATOR,
            "PYTHONPATH": str(Path(rowlease.__file__).parents[1]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        found: Any = re.fullmatch(
            r"dashboard: (http://127.0.0.1:\d+/)\n", process.stdout.readline()
        )
        assert found, process.stderr and process.stderr.read()
        yield found[1], process
    finally:
        process.kill()
        process.communicate()


def test_a_request_with_two_lengths_is_the_last_of_its_connection(
    served: tuple[str, subprocess.Popen[str]],
) -> None:
    address = urlsplit(served[0])
    with socket.create_connection((address.hostname, address.port), timeout=60) as client:
        client.sendall(
            b"GET /static/icon.svg HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            b"GET /static/icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        answers = b"".join(iter(lambda: client.recv(65_536), b""))
    assert re.findall(rb"HTTP/1.1 \d+", answers) == [b"HTTP/1.1 400"]


def test_it_serves_until_it_is_stopped(served: tuple[str, subprocess.Popen[str]]) -> None:
    url, process = served
    page = httpx.get(url, follow_redirects=True, timeout=60)
    assert page.status_code == 200
    assert page.url.path == "/login"
    assert "server" not in page.headers
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (out, err) == ("", "")
    assert process.returncode == 0


def test_a_port_that_is_in_use_is_named(
    served: tuple[str, subprocess.Popen[str]], dsn: str
) -> None:
    port = served[0].rstrip("/").rpartition(":")[2]
    done = CliRunner().invoke(cli, ["dashboard", "--dsn", dsn, "--port", port])
    assert isinstance(done.exception, ConfigError), done.output
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use" in str(done.exception)
