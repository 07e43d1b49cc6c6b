"""`rowlease worker --processes N` with real processes and real signals.

No test sleeps: each waits for a line of the log, which is JSON, or for a pipe that a task reads.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import rowlease
from rowlease.client.client import Client
from rowlease.cores import usable_cores
from tests.waiting import PAUSE, until

PATIENCE = 60.0  # seconds; only a failing test waits that long
SOURCE = Path(rowlease.__file__).parents[1]
Sql = Callable[..., list[tuple[Any, ...]]]

JOBS = """
import os
import threading
from pathlib import Path
from rowlease import task

@task
def pid():
    return os.getppid()

@task
def wait_at_the_gate(gate):
    return Path(gate).read_text()

@task
def be_busy(gate):
    def deep(levels):
        return deep(levels - 1) if levels else 0
    Path(f"{gate}.{threading.get_ident()}").touch()
    # `exists` releases the GIL. Two threads that do so all the time can starve all others.
    while os.path.exists(gate):
        for _ in range(1000):
            deep(900)

@task
def end_the_worker():
    os.kill(os.getppid(), 9)
"""


class Command:
    """A running `rowlease worker`, and its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.printed: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put(None)  # every process that could write has ended

    def until(self, accepts: Callable[[str], Any]) -> Any:
        """The result of `accepts` for the next line that it accepts."""
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            self.printed.append(line)
            if found := accepts(line):
                return found
        raise AssertionError("".join(self.printed))

    def event(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.until(lambda line: parsed(line, name))
        return found

    def events(self, name: str, count: int) -> list[dict[str, Any]]:
        return [self.event(name) for _ in range(count)]

    def all_of(self, *names: str) -> list[dict[str, Any]]:
        """The first events of these names, in any order."""
        missing = list(names)
        found = []
        while missing:
            printed = self.until(
                lambda line: next(filter(None, (parsed(line, n) for n in missing)), 0)
            )
            missing.remove(printed["event"])
            found.append(printed)
        return found

    def all_ended(self) -> None:
        """Wait until all its processes have ended, the workers and their children included."""
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            self.printed.append(line)

    def ended(self) -> tuple[int, dict[str, Any]]:
        """Its exit code and its summary."""
        assert self.process.stdout
        code = self.process.wait(PATIENCE)
        text = self.process.stdout.read()
        return code, json.loads(text) if text else {}


def parsed(line: str, name: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    printed: dict[str, Any] = json.loads(line)
    return printed if printed.get("event") == name else None


@contextmanager
def working(
    dsn: str, folder: Path, *options: str, tasks: str = "jobs", **environment: str
) -> Iterator[Command]:
    (folder / "jobs.py").write_text(JOBS)
    process = subprocess.Popen(
        [sys.executable, "-m", "rowlease", "worker", tasks, "--json", *options],
        cwd=folder,
        env={
            **os.environ,
            "ROWLEASE_DSN": dsn,
            "PYTHONPATH": str(SOURCE),
            "ROWLEASE_LOG_FORMAT": "json",
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        yield Command(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe
            pipe.close()


def probe(port: int, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)


def port_of(command: Command) -> int:
    def port(line: str) -> int:
        printed = json.loads(line).get("message", "") if line.startswith("{") else ""
        return (
            int(printed.rpartition("/")[0].rpartition(":")[2]) if "health probes" in printed else 0
        )

    return int(command.until(port))


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "gate")
    return tmp_path / "gate"


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    with Client(dsn) as opened:
        yield opened


def test_the_workers_share_the_cores_and_drain_together(dsn: str, tmp_path: Path) -> None:
    with working(dsn, tmp_path, "--processes", "2") as command:
        started = command.events("worker_started", 2)
        assert [one["slots"] for one in started] == [max(1, usable_cores() // 2)] * 2
        assert len({one["process"] for one in started} | {command.pid}) == 3
        command.process.send_signal(signal.SIGTERM)
        command.events("worker_stopped", 2)
        code, summary = command.ended()
        command.all_ended()
    assert code == 0
    assert summary["processes"] == 2
    assert summary["restarts"] == 0
    assert summary["slots"] == 2 * started[0]["slots"]


def test_a_burst_ends_by_itself_and_its_summary_counts_all_requests(
    dsn: str, tmp_path: Path, client: Client
) -> None:
    client.enqueue_many([rowlease.untyped_request("pid")] * 20)
    with working(dsn, tmp_path, "--processes", "2", "--burst") as command:
        code, summary = command.ended()
    assert (code, summary["finished"], summary["restarts"]) == (0, 20, 0)


def test_a_worker_that_dies_in_a_burst_is_replaced(
    dsn: str, tmp_path: Path, client: Client, sql: Sql
) -> None:
    # One crash makes a dead letter. Otherwise the request would kill the other worker, too.
    sql("select rowlease.configure_queue('default', '{\"max_crashes\": 1}')")
    client.enqueue_untyped("end_the_worker")
    client.enqueue_untyped("pid")
    options = ("--processes", "2", "--concurrency", "1", "--burst")
    with working(dsn, tmp_path, *options) as command:
        died = command.event("worker_died")
        code, summary = command.ended()
    assert died["how"] == "was killed by signal 9 (SIGKILL)"
    assert 0.1 <= died["restart"] <= 0.2
    assert (code, summary["restarts"]) == (0, 1)
    assert sql("select status from rowlease.requests where kind = 'pid'") == [("Complete",)]


def test_a_second_signal_abandons_running_requests(
    dsn: str, tmp_path: Path, client: Client, gate: Path, sql: Sql
) -> None:
    client.enqueue_untyped("wait_at_the_gate", {"gate": str(gate)})
    with working(dsn, tmp_path, "--processes", "2", "--log-level", "debug") as command:
        command.all_of("started", "worker_started", "worker_started")
        command.process.send_signal(signal.SIGINT)
        command.events("worker_stopping", 2)
        assert sql("select status from rowlease.queue") == [("Processing",)]
        command.process.send_signal(signal.SIGINT)
        code, summary = command.ended()
        command.all_ended()
    assert code == 0, "".join(command.printed)
    assert summary["abandoned"]
    assert sql("select status, num_attempts from rowlease.queue") == [("Pending", 0)]


def test_workers_whose_supervisor_is_killed_drain_and_end(
    dsn: str, tmp_path: Path, client: Client, gate: Path, sql: Sql
) -> None:
    client.enqueue_untyped("wait_at_the_gate", {"gate": str(gate)})
    with working(dsn, tmp_path, "--processes", "2", "--log-level", "debug") as command:
        command.all_of("started", "worker_started", "worker_started")
        command.process.kill()
        command.events("worker_stopping", 2)
        gate.write_text("through")
        command.all_ended()
    assert sql("select status, result #>> '{}' from rowlease.requests") == [("Complete", "through")]
    assert sql("select count(*) from rowlease.worker") == [(0,)]


def test_sigquit_writes_all_stacks_and_stops_nothing(
    dsn: str, tmp_path: Path, client: Client, gate: Path, sql: Sql
) -> None:
    request_id = client.enqueue_untyped("wait_at_the_gate", {"gate": str(gate)}).request_id
    options = ("--processes", "2", "--concurrency", "1", "--log-level", "debug", "--health", "0")
    with working(dsn, tmp_path, *options) as command:
        port = port_of(command)
        until(lambda: probe(port, "/ready")[0] == 200)
        with gate.open("w") as opened:  # by the task, too, which waits there now
            command.process.send_signal(signal.SIGQUIT)
            # On a busy machine one process may begin before another has written everything.
            missing = [
                ("supervisor.py", "_wait"),
                ("\nworker 1 (process ",),
                ("\nworker 2 (process ",),
                ("dispatcher.py", "step"),
                ("in wait_at_the_gate",),
            ]

            def is_last(line: str) -> bool:
                missing[:] = [
                    parts for parts in missing if not all(part in f"\n{line}" for part in parts)
                ]
                return not missing

            command.until(is_last)
            running = f"has been running request {request_id} (wait_at_the_gate) for "
            assert any(running in line for line in command.printed)
            opened.write("through")
        command.event("finished")
        command.process.send_signal(signal.SIGTERM)
        code, summary = command.ended()
    assert (code, summary["finished"], summary["crashed"], summary["restarts"]) == (0, 1, 0, 0)
    assert sql("select num_attempts from rowlease.queue_history") == [(1,)]


def test_a_worker_without_a_supervisor_writes_its_stacks(
    dsn: str, tmp_path: Path, client: Client, gate: Path
) -> None:
    client.enqueue_untyped("wait_at_the_gate", {"gate": str(gate)})
    with working(dsn, tmp_path, "--concurrency", "1", "--log-level", "debug") as command:
        with gate.open("w") as opened:  # by the task, too, which waits there now
            command.process.send_signal(signal.SIGQUIT)
            command.until(lambda line: "in wait_at_the_gate" in line)
            opened.write("through")
        command.event("finished")


def test_sigquit_does_not_crash_a_process_with_busy_threads(
    dsn: str, tmp_path: Path, client: Client, gate: Path
) -> None:
    for _ in range(2):
        client.enqueue_untyped("be_busy", {"gate": str(gate)})
    options = ("--executor", "thread", "--concurrency", "2", "--log-level", "debug")
    with working(dsn, tmp_path, *options) as command, deleted_after(gate):
        until(lambda: len(list(gate.parent.glob("gate.*"))) == 2)
        for _ in range(20):
            command.process.send_signal(signal.SIGQUIT)
            # The stacks are written when the threads leave the GIL: in `deep`, or in `exists`.
            command.until(lambda line: "jobs.py" in line)
            command.until(lambda line: ", slot 1 " in line)  # the last line of each
        gate.unlink()
        command.process.send_signal(signal.SIGTERM)
        code, summary = command.ended()  # lines of the log may be between the lines of a stack
    assert (code, summary["finished"]) == (0, 2)


@contextmanager
def deleted_after(gate: Path) -> Iterator[None]:
    """Delete the gate at the end of the test, so that busy tasks end even if the test fails."""
    try:
        yield
    finally:
        gate.unlink(missing_ok=True)


def test_a_usage_error_of_a_worker_ends_the_supervisor_with_its_exit_code(
    dsn: str, tmp_path: Path
) -> None:
    with working(dsn, tmp_path, "--processes", "2", tasks="nothing_of_that_name") as command:
        code, _ = command.ended()
        command.all_ended()
    assert code == 2
    assert any("there is no module 'nothing_of_that_name'" in line for line in command.printed)


def test_a_missing_database_is_reported_once(tmp_path: Path) -> None:
    nowhere = "postgresql://127.0.0.1:1/x"
    with working(nowhere, tmp_path, "--processes", "2") as command:
        code, _ = command.ended()
        command.all_ended()
    assert code == 3
    assert len(command.printed) == 1
    assert "cannot reach" in command.printed[0]


@pytest.mark.parametrize("processes", ["1", "2"])
def test_probes_are_answered_over_http(
    processes: str, dsn: str, tmp_path: Path, client: Client, gate: Path
) -> None:
    client.enqueue_untyped("wait_at_the_gate", {"gate": str(gate)})
    options = ("--processes", processes, "--health", "0", "--log-level", "debug")
    with working(dsn, tmp_path, *options) as command:
        port = port_of(command)
        assert probe(port, "/live")[0] == 200
        assert probe(port, "/nonsense")[0] == 404
        command.event("started")
        code, printed = probe(port, "/ready")
        while code != 200:  # reports come once a second
            assert code == 503
            assert printed["why"]
            time.sleep(PAUSE)
            code, printed = probe(port, "/ready")
        command.process.send_signal(signal.SIGTERM)
        command.events("worker_stopping", int(processes))
        printed = until(
            lambda: next((printed for code, printed in [probe(port, "/ready")] if code == 503), {})
        )
        assert "it is draining and claims no more" in printed["why"][0]
        assert printed["draining"]
        assert probe(port, "/live")[0] == 200
        gate.write_text("through")
        assert command.ended()[0] == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_health_files_show_live_and_ready(processes: str, dsn: str, tmp_path: Path) -> None:
    live, ready = tmp_path / "health", tmp_path / "health.ready"
    ready.touch()  # as a killed worker leaves it
    options = ("--processes", processes, "--health-file", str(live))
    with working(dsn, tmp_path, *options) as command:
        command.event("worker_started")
        while not ready.exists():
            assert command.process.poll() is None
        assert live.exists()
        command.process.send_signal(signal.SIGTERM)
        assert command.ended()[0] == 0
        assert not live.exists()
        assert not ready.exists()


@pytest.mark.parametrize("address", ["{folder}/notify", "@rowlease-test-{pid}"])
@pytest.mark.parametrize("processes", ["1", "2"])
def test_systemd_gets_notifications(processes: str, address: str, dsn: str, tmp_path: Path) -> None:
    address = address.format(folder=tmp_path, pid=os.getpid())
    printed: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address.replace("@", "\0", 1))
        manager.settimeout(PATIENCE)

        def hear(line: str) -> None:
            while line not in printed:
                printed.extend(manager.recv(4096).decode().splitlines())

        with working(
            dsn,
            tmp_path,
            *("--processes", processes, "--concurrency", "1"),
            NOTIFY_SOCKET=address,
            WATCHDOG_USEC="200000",
        ) as command:
            hear("READY=1")
            hear("WATCHDOG=1")
            hear(f"STATUS=0 of {processes} slots busy, 0 finished")
            assert "STOPPING=1" not in printed
            command.process.send_signal(signal.SIGTERM)
            hear("STOPPING=1")
            assert command.ended()[0] == 0
    assert printed.count("READY=1") == 1


def test_an_address_in_use_is_an_error(dsn: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with working(dsn, tmp_path, "--health", str(port)) as command:
            code, _ = command.ended()
            command.all_ended()
    assert code == 2
    assert f"cannot listen at 127.0.0.1:{port}" in command.printed[-1]
