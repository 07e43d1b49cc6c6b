"""The keeper: a small process that starts the embedded PostgreSQL and stops it when it is unused.

`rowlease.embedded` runs this file as a script. The script uses only the standard library, so it
starts within 30 ms and needs little memory while the server runs.

All processes that use the same data folder (the *home*, ROWLEASE_HOME) coordinate through three
lock files. The kernel releases a lock when its last holder ends, however it ends. So, unlike a pid
in a file, a lock is never stale. The files:

    users.lock    held in shared mode inside `embedded()`. Before it stops an unused server, the
                  keeper takes this lock exclusively, so that new users wait until the server has
                  stopped.
    keeper.lock   held by the keeper. The process that starts a keeper takes this lock and passes
                  the open file to the keeper.
    server.lock   held by PostgreSQL. Its processes inherit the open file from the keeper.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

if sys.platform != "win32":
    import fcntl

#: Seconds between two polls by a process that waits for a lock or for the server.
SERVER_CHECK_SECONDS = 0.01
#: Seconds between two checks by the keeper: does the server still run, and is it still used?
KEEPER_CHECK_SECONDS = 0.1
#: Seconds after which an unused server is stopped, so that commands run one after the other use
#: the same server.
UNUSED_SERVER_SECONDS = 1.0
#: The longest time in seconds for a fast shutdown of PostgreSQL, which writes a checkpoint.
FAST_SHUTDOWN_SECONDS = 30.0
#: The longest time in seconds for an immediate shutdown, which writes no checkpoint.
IMMEDIATE_SHUTDOWN_SECONDS = 10.0

#: PostgreSQL settings for a queue on one machine. The settings for durability (fsync,
#: synchronous_commit) keep their default: on.
DEFAULT_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "jit": "off",
    "search_path": "public",  # the default begins with "$user", which is rowlease's schema
    "autovacuum_naptime": "1s",  # decision 31 in docs/decisions
}


#: The longest path of a Unix socket in bytes: of <sys/un.h>, less one for its end.
MAX_SOCKET_BYTES = 107 if sys.platform == "linux" else 103
#: The name of a PostgreSQL setting that only marks the server's command line.
MARK = "rowlease.home"


class Order(NamedTuple):
    """The server to run: the argument of a keeper's command line.

    Every user of the host can read the command line, so this must not contain secrets.

    Attributes:
        user: the numbers of the user and the group that the server runs as, if this is not the
            keeper's own user. Only the keeper of root has one; see `root.py`.
    """

    home: str
    binaries: str
    major: int
    port: int
    settings: dict[str, str]
    user: tuple[int, int] | None = None

    def path(self, name: str) -> Path:
        return Path(self.home, name)

    @property
    def data(self) -> Path:
        return self.path(f"postgresql-{self.major}")

    def socket(self, port: int) -> Path | None:
        """The server's Unix socket; None if libpq cannot use such a path."""
        path = self.path("socket") / f".s.PGSQL.{port}"
        is_usable = len(os.fsencode(path)) <= MAX_SOCKET_BYTES and "," not in self.home
        return path if is_usable else None


class FileLock:
    """A lock file of the home.

    Child processes do not hold the lock, unless the descriptor is passed to them on purpose. The
    descriptor is closed on exec (PEP 446). A forked child closes its copy of the descriptor;
    otherwise the child would hold the lock until it ends. Closing the copy does not release the
    parent's lock.
    """

    _open: ClassVar[set[FileLock]] = set()

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        FileLock._open.add(self)

    def take(self, *, shared: bool = False, patience: float = 0.0) -> bool:
        """Take the lock. False if another process still holds it after `patience` seconds."""
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(self.fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
            time.sleep(SERVER_CHECK_SECONDS)

    def release(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self in FileLock._open:
            FileLock._open.discard(self)
            os.close(self.fd)

    @classmethod
    def close_all(cls) -> None:
        for lock in list(cls._open):
            lock.close()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=FileLock.close_all)


class Postmaster(NamedTuple):
    """The content of postmaster.pid. It may be stale, because a killed server leaves the file."""

    pid: int
    port: int
    ready: bool

    @classmethod
    def read(cls, data: Path) -> Postmaster | None:
        try:
            lines = (data / "postmaster.pid").read_text().splitlines()
            return cls(int(lines[0]), int(lines[3]), [s.strip() for s in lines[7:8]] == ["ready"])
        except (OSError, ValueError, IndexError):
            return None


class Server:
    """The PostgreSQL server of a home. This keeper or an earlier one has started the server."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.process: subprocess.Popen[bytes] | None = None
        self.lock = FileLock(order.path("server.lock"))

    def find(self) -> bool:
        """Find the server of a keeper that was killed. False if no server is running."""
        deadline = time.monotonic() + FAST_SHUTDOWN_SECONDS
        while not self.lock.take():
            found = Postmaster.read(self.order.data)
            if found and is_postmaster(found.pid, self.order.home):
                self.pid, self.port = found.pid, found.port
                return True
            # The postmaster was killed, too, but some of its processes have not ended yet.
            if time.monotonic() > deadline:
                raise SystemExit(f"processes of a killed server still use {self.order.data}")
            time.sleep(SERVER_CHECK_SECONDS)
        self.port = self.order.port
        return False

    def start(self) -> None:
        """Start PostgreSQL. This process must hold the server lock: then no server is running.

        A killed server leaves its file postmaster.pid. This method removes the file, because
        PostgreSQL does not start if another process has the pid in the file. The file beside the
        socket is the same.
        """
        order, sockets = self.order, self.order.path("socket")
        (order.data / "postmaster.pid").unlink(missing_ok=True)
        sockets.mkdir(mode=0o700, exist_ok=True)
        for left in sockets.iterdir():
            left.unlink()
        program = Path(order.binaries, "postgres")
        with for_server(order, order.data, sockets) as ((data, place), as_user):
            quoted = '"' + place.replace('"', '""') + '"'
            settings = {
                **DEFAULT_SETTINGS,
                "unix_socket_directories": quoted if order.socket(self.port) else "",
                **order.settings,
                "port": str(self.port),
                MARK: order.home,
            }
            options = [part for item in settings.items() for part in ("-c", "=".join(item))]
            as_user["pass_fds"].append(self.lock.fd)
            self.process = subprocess.Popen([program, "-D", data, *options], **as_user)
        self.pid = self.process.pid
        # PostgreSQL's processes hold the lock from now on. Open the lock file again: this process
        # can take the new lock only when all of them have ended.
        self.lock.close()
        self.lock = FileLock(self.order.path("server.lock"))

    def is_gone(self, patience: float = 0.0) -> bool:
        """True if all processes of the server have ended; this process then holds the lock."""
        gone = self.lock.take(patience=patience)
        if gone and self.process:
            self.process.wait()
        return gone

    def has_crashed(self) -> bool:
        """True if the server was killed. A server that shuts down removes postmaster.pid."""
        return Postmaster.read(self.order.data) is not None

    def stop(self) -> None:
        say("stopping")
        for number, patience in (
            (signal.SIGINT, FAST_SHUTDOWN_SECONDS),
            (signal.SIGQUIT, IMMEDIATE_SHUTDOWN_SECONDS),
        ):
            if is_postmaster(self.pid, self.order.home):
                os.kill(self.pid, number)
            if self.is_gone(patience):
                return
        say(f"process {self.pid} did not end")


def keep(order: Order) -> None:
    """Run the server until it shuts down, this process gets SIGTERM, or no user is left."""
    stop_signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stop_signals.append(number))
    server = Server(order)
    adopted = server.find()
    unfinished = order.data.with_name(order.data.name + ".unfinished")
    if adopted:
        say(f"adopting process {server.pid} on port {server.port}")
    else:
        # Remove a data folder that a crash has left incomplete.
        shutil.rmtree(unfinished, ignore_errors=True)
        if not order.data.exists():
            create_cluster(order, unfinished)
        server.start()

    users = FileLock(order.path("users.lock"))
    unused_since: float | None = None
    while not stop_signals:
        if server.is_gone():
            if not server.has_crashed():
                return
            # Use the same port, because the users know the address. The pause limits restarts to
            # one a second.
            say("the server was killed; starting it again")
            time.sleep(1.0)
            server.start()
        if not users.take():
            unused_since = None
        else:
            unused_since = unused_since or time.monotonic()
            if time.monotonic() - unused_since >= UNUSED_SERVER_SECONDS:
                break
            users.release()
        time.sleep(KEEPER_CHECK_SECONDS)
    server.stop()


def create_cluster(order: Order, unfinished: Path) -> None:
    """Create the data folder under another name, and rename it when it is complete.

    So a folder with the real name is never incomplete.
    """
    password = order.path("password")
    if not password.exists():
        draft = order.path("password.unfinished")
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(24))
        draft.rename(password)
    command = [str(Path(order.binaries, "initdb")), "-U", "rowlease", "-E", "UTF8", "-k"]
    if order.major >= 17:  # this locale has the same rules on every platform
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    else:
        command += ["--locale=C.UTF-8"]
    if order.settings.get("fsync") == "off":
        command += ["--no-sync"]
    unfinished.mkdir(mode=0o700)
    with for_server(order, unfinished, password) as ((data, secret), as_user):
        command += ["--no-instructions", "-A", "scram-sha-256", "-D", data, "--pwfile", secret]
        if subprocess.run(command, check=False, **as_user).returncode:
            raise SystemExit("initdb failed")
    unfinished.rename(order.data)
    folder = os.open(order.home, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


@contextmanager
def for_server(order: Order, *paths: Path) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """How the server's user names files of the home, and how `subprocess` starts its processes.

    Another user than the keeper's cannot reach the closed home. It becomes the owner of the files,
    and gets them as open files.
    """
    if order.user is None:
        yield [str(path) for path in paths], {"pass_fds": []}
        return
    uid, gid = order.user
    opened: list[int] = []
    try:
        for path in paths:
            os.chown(path, uid, gid, follow_symlinks=False)
            opened.append(os.open(path, os.O_RDONLY | os.O_NOFOLLOW))
        as_user = {"user": uid, "group": gid, "extra_groups": [], "pass_fds": [*opened]}
        yield [f"/proc/self/fd/{fd}" for fd in opened], as_user
    finally:
        for fd in opened:
            os.close(fd)


def is_postmaster(pid: int, home: str) -> bool:
    """True if process `pid` is the PostgreSQL server of the folder `home`.

    The pid may have been reused. Or the server runs in another container, and in this container the
    pid belongs to a different process.
    """
    with suppress(OSError):
        mark = b"\0" + os.fsencode(f"{MARK}={home}") + b"\0"
        return mark in Path(f"/proc/{pid}/cmdline").read_bytes()
    # /proc/<pid> could not be read: either this is macOS, which has no /proc, or the process does
    # not exist. os.kill distinguishes the two cases.
    with suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


def say(text: str) -> None:
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    sys.stderr.write(f"{now} [{os.getpid()}] keeper: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    # Fork, so that the process that starts the keeper need not reap it when it ends.
    if os.fork():
        os._exit(0)
    keep(Order(**json.loads(sys.argv[1])))
