"""The keeper: a small process that starts the embedded PostgreSQL and stops it when it is unused.

`rowlease.embedded` runs this file as a script. It uses only the standard library, so it starts
within 30 ms and stays small while the server runs.

The processes of one home coordinate by three lock files. The kernel drops a lock when its last
holder ends, in whatever way, so a lock is never stale, as a pid in a file can be:

    users.lock    held in shared mode inside `embedded()`; the keeper takes it exclusively to stop
                  the server, so that new users wait until it has stopped
    keeper.lock   held by the keeper; the user who starts one takes it and passes the open file on
    server.lock   held by PostgreSQL: its processes inherit the open file from the keeper
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
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple

if sys.platform != "win32":
    import fcntl

#: Seconds between two checks: of a waiting process, and of a keeper while its server runs.
LOOK_EVERY = 0.01
WATCH_EVERY = 0.1
#: Seconds that an unused server stays up, for commands that run one after the other.
LINGER = 1.0
#: Seconds for a shutdown of PostgreSQL: fast writes a checkpoint, immediate does not.
FAST_SHUTDOWN = 30.0
IMMEDIATE_SHUTDOWN = 10.0

#: For a queue on one machine. Durability (fsync, synchronous_commit) stays on, the default.
DEFAULT_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "jit": "off",
    "autovacuum_naptime": "1s",  # docs/decisions/0031
}


class Order(NamedTuple):
    """The argument of a keeper's command line. Every user of the host can read it: no secrets."""

    home: str
    binaries: str
    major: int
    port: int
    settings: dict[str, str]

    def path(self, name: str) -> Path:
        return Path(self.home, name)

    @property
    def data(self) -> Path:
        return self.path(f"postgresql-{self.major}")


class FileLock:
    """A lock file of the home.

    Child processes do not hold it: the file is closed on exec (PEP 446), and after a fork in the
    child, which would otherwise hold the lock until it ends. Closing the copy does not unlock the
    original.
    """

    _open: ClassVar[set[FileLock]] = set()

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        FileLock._open.add(self)

    def take(self, *, shared: bool = False, patience: float = 0.0) -> bool:
        """Take the lock; False if another process still holds it after `patience` seconds."""
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(self.fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
            time.sleep(LOOK_EVERY)

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
    """The content of postmaster.pid. A killed server leaves the file behind, so it may be stale."""

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
    """The PostgreSQL of one home, started by this keeper or left behind by a killed one."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.process: subprocess.Popen[bytes] | None = None
        self.lock = FileLock(order.path("server.lock"))

    def find(self) -> bool:
        """Look for a server that a killed keeper has left; False if there is none."""
        deadline = time.monotonic() + FAST_SHUTDOWN
        while not self.lock.take():
            found = Postmaster.read(self.order.data)
            if found and is_postmaster(found.pid, self.order.data):
                self.pid, self.port = found.pid, found.port
                return True
            # The postmaster was killed, too; its backends are still ending.
            if time.monotonic() > deadline:
                raise SystemExit(f"processes of a dead server still hold {self.order.data}")
            time.sleep(LOOK_EVERY)
        self.port = self.order.port
        return False

    def start(self) -> None:
        """Start PostgreSQL. This process holds the server lock, so postmaster.pid is stale.

        It is removed, because PostgreSQL does not start if another process has the old pid.
        """
        data = self.order.data
        (data / "postmaster.pid").unlink(missing_ok=True)
        settings = {**DEFAULT_SETTINGS, **self.order.settings, "port": str(self.port)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.process = subprocess.Popen(
            [Path(self.order.binaries, "postgres"), "-D", data, *options], pass_fds=[self.lock.fd]
        )
        self.pid = self.process.pid
        # From here on PostgreSQL holds the lock; another open file shows when it is free.
        self.lock.close()
        self.lock = FileLock(self.order.path("server.lock"))

    def is_gone(self, patience: float = 0.0) -> bool:
        """Has every process of the server ended? If so, this takes the server lock."""
        gone = self.lock.take(patience=patience)
        if gone and self.process:
            self.process.wait()
        return gone

    def has_crashed(self) -> bool:
        """Was the server killed? One that shuts down removes its postmaster.pid."""
        return Postmaster.read(self.order.data) is not None

    def stop(self) -> None:
        say("stopping")
        for number, patience in (
            (signal.SIGINT, FAST_SHUTDOWN),
            (signal.SIGQUIT, IMMEDIATE_SHUTDOWN),
        ):
            if is_postmaster(self.pid, self.order.data):
                os.kill(self.pid, number)
            if self.is_gone(patience):
                return
        say(f"process {self.pid} does not end")


def keep(order: Order) -> None:
    """Run the server until it shuts down, this process gets SIGTERM, or nothing uses it."""
    stop_signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stop_signals.append(number))
    server = Server(order)
    adopted = server.find()
    half_made = order.data.with_name(order.data.name + ".half-made")
    if adopted:
        say(f"adopting process {server.pid} on port {server.port}")
    else:
        # Left by a crash. A cluster gets its real name when it is complete.
        shutil.rmtree(half_made, ignore_errors=True)
        if not order.data.exists():
            create_cluster(order, half_made)
        server.start()

    users = FileLock(order.path("users.lock"))
    unused_since: float | None = None
    while not stop_signals:
        if server.is_gone():
            if not server.has_crashed():
                return
            # Its users know the address, so it gets the same port; at most one start a second.
            say("the server was killed; starting it again")
            time.sleep(1.0)
            server.start()
        if not users.take():
            unused_since = None
        else:
            unused_since = unused_since or time.monotonic()
            if time.monotonic() - unused_since >= LINGER:
                break
            users.release()
        time.sleep(WATCH_EVERY)
    server.stop()


def create_cluster(order: Order, half_made: Path) -> None:
    """Make the data folder under another name, so that a crash leaves no incomplete one."""
    password = order.path("password")
    if not password.exists():
        draft = order.path("password.half-made")
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(24))
        draft.rename(password)
    command: list[str | Path] = [Path(order.binaries, "initdb"), "-D", half_made, "-U", "rowlease"]
    command += ["-A", "scram-sha-256", "--pwfile", password, "-E", "UTF8", "-k"]
    if order.major >= 17:  # the same order and case rules on every platform
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    else:
        command += ["--locale=C.UTF-8"]
    if order.settings.get("fsync") == "off":
        command += ["--no-sync"]
    if subprocess.run([*command, "--no-instructions"], check=False).returncode:
        raise SystemExit("initdb failed")
    half_made.rename(order.data)
    folder = os.open(order.home, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def is_postmaster(pid: int, data: Path) -> bool:
    """Is this process PostgreSQL on this folder?

    Another process may have its number by now, or have it in this container while the server runs
    in another one.
    """
    with suppress(OSError):
        return os.fsencode(data) in Path(f"/proc/{pid}/cmdline").read_bytes()
    with suppress(OSError):  # macOS has no /proc; on Linux there is no such process
        os.kill(pid, 0)
        return True
    return False


def say(text: str) -> None:
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    sys.stderr.write(f"{now} [{os.getpid()}] keeper: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    if os.fork():  # the process that started the keeper need not reap it
        os._exit(0)
    keep(Order(**json.loads(sys.argv[1])))
