"""The health of a worker, and its reports to systemd, health files and HTTP clients."""

from __future__ import annotations

import gzip
import http.client
import os
import queue
import select
import socket
import threading
from datetime import UTC, datetime, timedelta
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from rowlease.errors import ConfigError
from rowlease.events import (
    Events,
    RenewalsLost,
    RenewalsRecovered,
    StoreLost,
    StoreRecovered,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from rowlease.http_server import MAX_REQUEST, HttpAnswer, HttpServer, read_address
from rowlease.worker.calls import Call
from rowlease.worker.host import health as module
from rowlease.worker.host.health import Health, HealthReport, HealthReporter, interval_of
from rowlease.worker.host.probes import HealthFile, Systemd, answer, probe_answers
from rowlease.worker.timings import CALL_SILENT, CALL_STUCK, STALLED

READY = HealthReport(True, True, (), slots=4, busy=1, finished=1234, started=True)


class Parts:
    """A dispatcher, calls and the housekeeping, as far as health reads them."""

    def __init__(self) -> None:
        self.stepped_at = self.answered_at = 0.0
        self.calls: list[Call] = []
        self.slots_able = 4

    def waiting(self) -> list[Call]:
        return self.calls

    def busy(self) -> int:
        return 1

    def num_ready(self) -> int:
        return self.slots_able


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def parts() -> Parts:
    return Parts()


@pytest.fixture
def health(events: Events, parts: Parts, clock: list[float]) -> Health:
    """The health of a running worker."""
    found = Health(events, 4)
    calls: Any = parts
    found.watch(parts, calls, parts, lambda: 1234)
    events.emit(WorkerStarted("w", ("default",), 4))
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock: its last number is the time."""
    times = [0.0]
    monkeypatch.setattr(module, "now", lambda: times[-1])
    return times


def test_a_starting_worker_is_live_and_not_ready(events: Events) -> None:
    report = Health(events, 4).report()
    assert report == HealthReport(True, False, ("its slots are not ready yet",), slots=4)


def test_a_running_worker_is_ready(health: Health) -> None:
    assert health.report() == READY
    assert str(READY) == "1 of 4 slots busy, 1,234 finished"


def test_a_worker_whose_dispatcher_is_stalled_is_not_live(
    health: Health, parts: Parts, clock: list[float]
) -> None:
    parts.answered_at = 100.0
    clock.append(STALLED)
    assert health.report().live
    clock.append(STALLED + 1)
    assert health.report()[:3] == (
        False,
        False,
        ("its dispatcher has been stalled for 11 s",),
    )


def test_a_worker_with_a_slow_call_is_not_ready_and_with_a_stuck_call_not_live(
    health: Health, parts: Parts, clock: list[float]
) -> None:
    parts.calls = [Call("disown", "receiver", 0.0), Call("exchange", "sender", CALL_STUCK)]
    for at, live in ((CALL_STUCK, True), (CALL_STUCK + 1, False)):
        clock.append(at)
        parts.stepped_at = parts.answered_at = at
        assert health.report()[:3] == (
            live,
            False,
            (f"the call disown of its thread receiver has not been answered for {at:.0f} s",),
        )


def test_a_slow_maintain_leaves_a_worker_ready_until_it_is_stuck(
    health: Health, parts: Parts, clock: list[float]
) -> None:
    parts.calls = [Call("maintain", "housekeeping", 0.0)]
    for at, ready in ((CALL_STUCK, True), (CALL_STUCK + 1, False)):
        clock.append(at)
        parts.stepped_at = parts.answered_at = at
        assert health.report()[:2] == (ready, ready)


def test_a_worker_that_cannot_renew_leases_is_live_and_not_ready(
    health: Health, events: Events
) -> None:
    since = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
    events.emit(RenewalsLost("renew", since, "renew: no answer"))
    assert health.report()[:3] == (
        True,
        False,
        (
            "leases have not been renewed since 12:30:00 UTC (the call renew fails), so it claims "
            "nothing: renew: no answer",
        ),
    )
    events.emit(RenewalsRecovered(1.0))
    assert health.report().ready


def test_a_worker_is_live_and_not_ready_while_the_database_is_away(
    health: Health, parts: Parts, events: Events, clock: list[float]
) -> None:
    events.emit(StoreLost("no route to host\nmore"))
    assert health.report()[:3] == (True, False, ("the database is unavailable: no route to host",))
    events.emit(StoreRecovered(1.0))
    assert health.report().ready
    clock.append(CALL_SILENT + 1)
    parts.stepped_at = clock[-1]
    report = health.report()
    assert report[:3] == (True, False, ("the database has not answered for 11 s",))


def test_a_worker_without_a_ready_slot_is_not_ready(health: Health, parts: Parts) -> None:
    parts.slots_able = 0
    report = health.report()
    assert report.live
    assert not report.ready
    assert "no slot is ready" in report.why[0]


def test_a_draining_worker_is_live_to_its_end(
    health: Health, events: Events, clock: list[float]
) -> None:
    health.changed.clear()
    events.emit(WorkerStopping("w", timedelta(seconds=1)))
    assert health.changed.is_set()
    report = health.report()
    assert report.live
    assert report.draining
    assert not report.ready
    assert str(report).startswith("draining; 1 of 4")
    events.emit(WorkerStopped("w", 0))
    clock.append(1000.0)
    assert health.report().live


@pytest.mark.parametrize(
    ("path", "report", "code"),
    [
        ("live", READY, 200),
        ("live", READY._replace(live=False), 503),
        ("ready", READY, 200),
        ("ready", READY._replace(ready=False, why=("x",)), 503),
        ("", READY, 404),
        ("slots", READY, 404),
        ("_replace", READY, 404),
        ("startup", READY._replace(ready=False), 200),
        ("startup", READY._replace(started=False), 503),
    ],
)
def test_a_probe_is_answered_by_its_path(path: str, report: HealthReport, code: int) -> None:
    assert answer(path, report)[0] == code


@pytest.mark.parametrize(
    ("sent", "code", "is_answered"),
    [
        (b"GET /live?x=1 HTTP/1.1\r\nHost: x\r\n\r\n", 200, True),
        (b"GET //ready/ HTTP/1.0\n\n", 200, True),
        (b"HEAD /live HTTP/1.1\r\n\r\n", 200, False),
        (b"POST /live HTTP/1.1\r\n\r\n", 501, True),
        (b"\r\n\r\n", 400, True),
        (b"GET\xff /live\r\n\r\n", 400, True),
        (b"GET /live HTTP/1.1\r\n" + 200 * b"a: b\r\n" + b"\r\n", 400, True),
        (b"GET /live HTTP/1.1\r\na: " + MAX_REQUEST * b"x", 400, True),
        (b"GET /error HTTP/1.1\r\n\r\n", 500, False),
    ],
)
def test_every_request_gets_one_answer(sent: bytes, code: int, is_answered: bool) -> None:
    def answered(path: str, _: Message) -> HttpAnswer:
        if path == "error":
            raise RuntimeError
        return HttpAnswer(200, "text/plain", path.encode())

    with (
        HttpServer("127.0.0.1", 0, answered) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as client,
    ):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)  # it still reads
        head, _, body = b"".join(iter(lambda: client.recv(65_536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 %d " % code)
    assert bool(body) == is_answered


def test_a_request_may_come_in_parts() -> None:
    with (
        HttpServer("127.0.0.1", 0, lambda path, _: HttpAnswer(200, "text/plain", b"ok")) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as client,
    ):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in (b"GET /li", b"ve HTTP/1.1\r\n\r", b"\n"):
            assert not select.select([client], [], [], 0.05)[0]
            client.sendall(part)
        assert client.recv(100).startswith(b"HTTP/1.0 200 OK\r\n")


def test_who_accepts_gzip_gets_it() -> None:
    with HttpServer("127.0.0.1", 0, lambda *_: HttpAnswer(200, "text/plain", b"text")) as server:
        request = Request(f"http://127.0.0.1:{server.port}", headers={"Accept-Encoding": "gzip"})
        with urlopen(request, timeout=60) as answered:
            assert gzip.decompress(answered.read()) == b"text"


def test_a_silent_client_does_not_delay_other_clients() -> None:
    with (
        HttpServer("127.0.0.1", 0, probe_answers(lambda: READY)) as server,
        socket.create_connection(("127.0.0.1", server.port)),
    ):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("HEAD", "/ready")
        response = connection.getresponse()
        assert response.status == 200
        assert response.read() == b""
        connection.close()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:80", ("::1", 80)),
        ("host:0", ("host", 0)),
    ],
)
def test_a_valid_address_is_read(text: str, address: tuple[str, int]) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize("text", ["", ":8080", "host", "host:", "host:http", "99999", "1:-1"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        read_address(text)


def test_files_follow_the_reports(tmp_path: Path) -> None:
    live, ready = tmp_path / "worker", tmp_path / "worker.ready"
    file = HealthFile(live)
    assert live.exists()
    file.show(READY)
    assert ready.exists()
    os.utime(live, (0, 0))
    file.show(READY._replace(live=False, ready=False))
    assert live.stat().st_mtime == 0
    assert not ready.exists()
    file.show(READY._replace(ready=False))
    assert live.stat().st_mtime > 0
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_a_health_file_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot keep the health file .*No such file"):
        HealthFile(tmp_path / "nowhere" / "file")


def test_systemd_gets_each_change_once(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    environment = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "30000000", "OTHER": "1"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.setblocking(False)

        def hear() -> list[str]:
            try:
                return manager.recv(4096).decode().splitlines()
            except BlockingIOError:
                return []

        systemd = Systemd.of_environment(environment)
        assert systemd
        assert environment == {"OTHER": "1"}
        assert systemd.watchdog == 30.0
        systemd.show(READY._replace(ready=False, why=("its slots are\nnot ready yet",)))
        assert hear() == [
            "WATCHDOG=1",
            "STATUS=1 of 4 slots busy, 1,234 finished; its slots are not ready yet",
        ]
        systemd.show(READY)
        assert hear() == ["READY=1", "WATCHDOG=1", "STATUS=1 of 4 slots busy, 1,234 finished"]
        systemd.show(READY)
        assert hear() == ["WATCHDOG=1"]
        systemd.show(READY._replace(live=False))
        assert hear() == []
        systemd.show(READY._replace(draining=True))
        assert hear()[0] == "STOPPING=1"
    os.unlink(path)
    systemd.show(READY)  # nothing is raised while systemd restarts
    systemd.close()


@pytest.mark.parametrize(
    "environment",
    [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1", "WATCHDOG_USEC": "1"}],
)
def test_without_a_socket_systemd_gets_no_notification(environment: dict[str, str]) -> None:
    assert Systemd.of_environment(environment) is None


def test_the_watchdog_of_another_process_gets_no_notification(tmp_path: Path) -> None:
    systemd = Systemd.of_environment(
        {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}
    )
    assert systemd
    assert systemd.watchdog is None
    systemd.close()


def test_the_health_reporter_reports_a_change_at_once() -> None:
    changed = threading.Event()
    shown: queue.Queue[HealthReport | None] = queue.Queue()

    class Outlet:
        def show(self, report: HealthReport) -> None:
            shown.put(report)

        def close(self) -> None:
            shown.put(None)

    with HealthReporter(lambda: READY, [Outlet()], changed, interval=1000.0):
        assert shown.get(timeout=30) == READY
        changed.set()
        assert shown.get(timeout=30) == READY
    assert shown.get(timeout=30) is None


def test_a_watchdog_gets_two_reports_within_its_time() -> None:
    assert interval_of([]) == 1.0
    assert interval_of([30.0]) == 1.0
    assert interval_of([0.5]) == 0.25
