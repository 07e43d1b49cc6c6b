"""Clients that send nothing, or too slowly, do not keep a server from answering others.

`ROWLEASE_STRESS_SILENT` is the number of these clients.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

import rowlease
from rowlease import silent_clients
from rowlease.http_server import HttpAnswer, HttpServer
from rowlease.model import NewRequest
from rowlease.silent_clients import MAX_SILENT, SILENT_SECONDS, SilentClients
from rowlease.store import Store

SOURCE = str(Path(rowlease.__file__).parents[1])
NUMBER = int(os.environ.get("ROWLEASE_STRESS_SILENT", "260"))
COMMANDS = {
    "dashboard": (["dashboard", "--port", "0"], "/static/icon.svg"),
    "exporter": (["exporter", "--listen", "0"], "/metrics"),
    "health": (["worker", "idle_tasks", "--executor", "thread", "--health", "0"], "/live"),
}
HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Half: "
FORM = (
    b"POST /actions/pause HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 99\r\n\r\nqueue="
)
#: Runs a command whose clients must be fast.
IMPATIENT = """
from rowlease import silent_clients
silent_clients.SILENT_SECONDS = 0.5
from rowlease.cli import main
main()
"""


@contextmanager
def served(
    dsn: str, folder: Path, command: list[str], program: tuple[str, str] = ("-m", "rowlease")
) -> Iterator[tuple[str, int]]:
    """The address of a server in a process of its own."""
    (folder / "idle_tasks.py").write_text("from rowlease import task\n\n@task\ndef f(): ...\n")
    process = subprocess.Popen(
        [sys.executable, *program, *command],
        cwd=folder,
        env={**os.environ, "ROWLEASE_DSN": dsn, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    try:
        for line in process.stdout:
            if found := re.search(r"https?://([\d.]+):(\d+)", line):
                yield found[1], int(found[2])
                break
        else:
            pytest.fail("the command ended before it listened")
    finally:
        process.kill()
        process.communicate()


def status_at(address: tuple[str, int], path: str) -> int:
    connection = http.client.HTTPConnection(*address, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def is_closed(client: socket.socket) -> bool:
    """Read until the server closes the connection; False if it does not within a minute."""
    client.settimeout(60)
    try:
        while client.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:  # it was reset
        pass
    return True


@pytest.mark.parametrize("name", COMMANDS)
def test_others_are_answered(
    name: str, dsn: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    command, path = COMMANDS[name]
    with served(dsn, tmp_path, command) as address, ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(address)) for _ in range(NUMBER)]
        for client in clients[::2]:
            with suppress(OSError):  # it may be disconnected already
                client.sendall(HALF)
        began = time.monotonic()
        assert status_at(address, path) == 200
        record_property("seconds", time.monotonic() - began)
        assert is_closed(clients[0])


@pytest.mark.parametrize("sent", [b"", HALF], ids=["nothing", "half a request"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_client_that_sends_no_request_is_disconnected(
    name: str, sent: bytes, dsn: str, tmp_path: Path
) -> None:
    command, path = COMMANDS[name]
    with (
        served(dsn, tmp_path, command, ("-c", IMPATIENT)) as address,
        socket.create_connection(address) as client,
    ):
        client.sendall(sent)
        assert is_closed(client)
        assert status_at(address, path) == 200


def test_a_visitor_who_sends_half_a_form_is_disconnected(dsn: str, tmp_path: Path) -> None:
    command = [*COMMANDS["dashboard"][0], "--actions"]
    with (
        served(dsn, tmp_path, command, ("-c", IMPATIENT)) as address,
        socket.create_connection(address) as client,
    ):
        client.sendall(FORM)
        client.settimeout(60)
        assert client.recv(1) == b""  # and not the answer of the page, which waits longer


def is_established(address: tuple[str, int], client: socket.socket) -> bool:
    """Whether the server's end of the connection is open. Only Linux tells."""
    ends = (address[1], client.getsockname()[1])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ports = {tuple(int(end[-4:], 16) for end in row[1:3]): row[3] for row in rows}
    return ports.get(ends) == "01"


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells")
def test_a_visitor_who_does_not_read_is_disconnected(
    store: Store, dsn: str, tmp_path: Path
) -> None:
    store.enqueue_many(
        "default", [NewRequest(kind="big", payload=json.dumps({"text": "x" * 1_000_000}))]
    )
    command, path = COMMANDS["dashboard"]
    with served(dsn, tmp_path, command, ("-c", IMPATIENT)) as address, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address)
        client.sendall(60 * b"GET /requests/1/payload HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until = time.monotonic() + 60
        while is_established(address, client):
            assert time.monotonic() < until
            assert status_at(address, path) == 200


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells")
def test_a_client_that_does_not_read_its_answer_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(silent_clients, "SILENT_SECONDS", 0.5)
    large = HttpAnswer(200, "text/plain", b"x" * 20_000_000)
    with HttpServer("127.0.0.1", 0, lambda *_: large) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        until = time.monotonic() + 60
        while is_established(("127.0.0.1", server.port), client):
            assert time.monotonic() < until
            time.sleep(0.05)


def test_a_visitor_who_does_not_speak_tls_is_disconnected(dsn: str, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    request = "openssl req -x509 -nodes -newkey rsa:2048 -keyout key -out pem -subj /CN=localhost"
    subprocess.run(request.split(), cwd=tmp_path, check=True, capture_output=True)
    command = [*COMMANDS["dashboard"][0], "--tls-certificate", "pem", "--tls-key", "key"]
    with (
        served(dsn, tmp_path, command, ("-c", IMPATIENT)) as address,
        socket.create_connection(address) as client,
    ):
        assert is_closed(client)
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(*address, timeout=60, context=context)
        connection.request("GET", "/static/icon.svg")
        assert connection.getresponse().status == 200
        connection.close()


class Clients:
    """Clients of a server, as sockets of this process."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.known = SilentClients()

    def connect(self, address: str) -> tuple[socket.socket, int]:
        """The client's end, and the number of the server's end."""
        here, there = map(self._stack.enter_context, socket.socketpair())
        here.setblocking(False)
        self.known.accepted(there, address)
        return here, there.fileno()


@pytest.fixture
def clients() -> Iterator[Clients]:
    with ExitStack() as stack:
        yield Clients(stack)


def is_open(client: socket.socket) -> bool:
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True


def test_the_addresses_of_one_network_are_one_crowd(clients: Clients) -> None:
    other, _ = clients.connect("2001:db8:0:7::1")
    crowd = [clients.connect(f"2001:db8:0:8::{n:x}")[0] for n in range(MAX_SILENT)]
    assert is_open(other)
    assert [is_open(client) for client in crowd] == [False] + [True] * (MAX_SILENT - 1)


def test_the_crowd_of_one_address_makes_room_for_others(clients: Clients) -> None:
    other, _ = clients.connect("other")
    busy, number = clients.connect("crowd")
    clients.known.worked_for(number)
    crowd = [clients.connect("crowd")[0] for _ in range(MAX_SILENT - 1)]
    assert all(map(is_open, crowd))
    late, _ = clients.connect("late")
    assert [is_open(each) for each in crowd] == [False] + [True] * (MAX_SILENT - 2)
    assert all(map(is_open, (other, busy, late)))


def test_who_was_answered_is_waited_for_anew(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = 100.0
    monkeypatch.setattr(silent_clients, "now", lambda: at)
    silent, _ = clients.connect("a")
    answered, number = clients.connect("a")
    busy, other = clients.connect("a")
    clients.known.worked_for(number)
    clients.known.worked_for(other)
    at += SILENT_SECONDS
    clients.known.waited_for(number)
    clients.known.disconnect_late()
    assert is_open(silent)
    at += 0.1
    clients.known.disconnect_late()
    assert (is_open(silent), is_open(answered), is_open(busy)) == (False, True, True)
    at += SILENT_SECONDS
    clients.known.disconnect_late()
    assert (is_open(answered), is_open(busy)) == (False, True)
