"""The embedded PostgreSQL server, which is used when no database is configured.

Every process that uses it is a *user*: it holds a shared lock. A *keeper* process starts the server
and stops it after the last user has ended, in whatever way; see `keeper.py`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from rowlease.embedded import keeper
from rowlease.embedded.binaries import server_binaries
from rowlease.embedded.keeper import LOOK_EVERY, FileLock, Order, Postmaster
from rowlease.errors import ConfigError, RowleaseError, StoreError, StoreUnavailable
from rowlease.store.postgresql.databases import make_database

#: Seconds; crash recovery of a full write-ahead log takes many, a usual start less than one.
START_TIMEOUT = 60.0
#: Seconds to create its database, on a busy machine.
ANSWER = 120.0
#: Another program may take a free port before PostgreSQL listens on it.
START_ATTEMPTS = 3
#: Bytes. The log gets a few lines per start; only failing statements can make it large.
LOG_LIMIT = 10 * 2**20


@contextmanager
def embedded(
    data_dir: Path | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    port: int | None = None,
    starting: Callable[[str, bool], object] | None = None,
) -> Iterator[str]:
    """Run the embedded PostgreSQL for a `with` block.

    All processes of this machine with the same home share one server: the first one starts it, and
    it stops about a second after the last one has left its block or was killed; leaving does not
    wait for that. The data stays. A server that is killed while in use is started again at the same
    address. Threads may enter at the same time, and blocks may nest. A forked child may use the
    DSN, but only its parent keeps the server up. Where a container ends with its main process, the
    server is killed, and recovers at the next start.

    Args:
        data_dir: the home, for data, password, log and locks; on a local file system. Default: the
            environment's ROWLEASE_HOME, else the user's data folder for applications.
        settings: PostgreSQL settings, by name, for a server that this block starts; a running
            server keeps its own. By default every commit is durable.
        port: TCP port on 127.0.0.1, 1 to 65535. Default: the environment's ROWLEASE_EMBEDDED_PORT,
            else the one of the last start, if it is free, else any free one.
        starting: called before this block starts a server, but not if one runs: with the home, and
            True if it is the first start there, which takes longer.

    Yields:
        A DSN, postgresql://rowlease:<password>@127.0.0.1:<port>/rowlease, of a superuser.

    Raises:
        ConfigError: the port is in use, or the server runs on another one; there are no binaries;
            the data belongs to another major version; or the home is not writable.
        StoreUnavailable: the server did not answer within 60 s; carries the end of its log.
    """
    if sys.platform == "win32" or (os.geteuid() == 0 and sys.platform != "linux"):
        raise ConfigError(
            "The embedded PostgreSQL runs on Linux, and on macOS for users other than root. "
            "Give the DSN of a server instead."
        )
    home = data_dir or Path(
        os.environ.get("ROWLEASE_HOME") or platformdirs.user_data_dir("rowlease")
    )
    order = _order(home.expanduser().absolute(), dict(settings or {}), _wanted_port(port))
    try:
        Path(order.home).mkdir(mode=0o700, parents=True, exist_ok=True)
        users = FileLock(order.path("users.lock"))
    except OSError as error:
        raise ConfigError(
            f"The folder {order.home} is not usable: {error.strerror}. "
            "Set ROWLEASE_HOME to a folder of your own."
        ) from error
    try:
        if not users.take(shared=True, patience=START_TIMEOUT):
            raise StoreUnavailable(f"The server of {order.home} does not end.{_log_end(order)}")
        yield _wait_for_server(order, starting)
    finally:
        _leave_to_keeper(order)
        users.close()


def _order(home: Path, settings: dict[str, str], port: int) -> Order:
    """Decide which server to run; nothing is changed on disk."""
    for name, instead in {"port": "port=", "data_directory": "data_dir="}.items():
        if name in settings:
            raise ConfigError(f"Give {instead} instead of the setting {name}.")
    binaries, major = server_binaries()
    for version in home.glob("postgresql-*/PG_VERSION"):
        if version.parent.name.endswith(".half-made"):
            continue
        found = version.read_text().strip()
        if found != str(major):
            raise ConfigError(
                f"{version.parent} was written by PostgreSQL {found}, and {binaries} is {major}. "
                f"Point ROWLEASE_PG_BIN to the binaries of {found}, or ROWLEASE_HOME elsewhere."
            )
    return Order(str(home), str(binaries), major, port, settings)


def _wanted_port(port: int | None) -> int:
    """Return the port of the argument or the environment, or 0."""
    named = os.environ.get("ROWLEASE_EMBEDDED_PORT")
    if port is None and not named:
        return 0
    wanted = str(port if port is not None else named)
    if not wanted.isdecimal() or not 1 <= int(wanted) <= 65535:
        raise ConfigError(f"The port of the embedded PostgreSQL is 1 to 65535, not {wanted!r}.")
    return int(wanted)


def _wait_for_server(order: Order, starting: Callable[[str, bool], object] | None) -> str:
    """Start a keeper if there is none, wait for its server, and return the DSN."""
    deadline = time.monotonic() + START_TIMEOUT
    attempts = 0
    while True:
        keeper = FileLock(order.path("keeper.lock"))
        try:
            if keeper.take():
                # There is no keeper: not yet, or the last one failed or was killed.
                if attempts == START_ATTEMPTS:
                    raise StoreUnavailable(f"PostgreSQL does not start.{_log_end(order)}")
                attempts += 1
                if attempts == 1 and starting:
                    starting(order.home, not order.data.exists())
                _start_keeper(order, keeper)
        finally:
            keeper.close()
        failure: Exception | None = None
        try:
            found = _answering(order)
        except StoreError as error:
            found, failure = None, error
        if found:
            if order.port and order.port != found.port:
                raise ConfigError(
                    f"The server of {order.home} already runs on port {found.port}, not on "
                    f"{order.port}. Leave the port out, or stop what uses the server."
                )
            return _dsn(order, found.port, "rowlease")
        if time.monotonic() > deadline:
            raise StoreUnavailable(
                f"PostgreSQL does not answer ({failure or 'not ready'}).{_log_end(order)}"
            ) from failure
        # A failed try leaves a line in the server's log, so there are fewer of them.
        time.sleep(0.1 if failure else LOOK_EVERY)


def _start_keeper(order: Order, lock: FileLock) -> None:
    """Start a keeper and pass it its lock; the keeper finds out whether a server runs already."""
    server = FileLock(order.path("server.lock"))
    try:
        if server.take():
            # No server runs here; after a crash, or in a copied home, this file is stale.
            (order.data / "postmaster.pid").unlink(missing_ok=True)
            port = _port(order)
        else:
            port = order.port or _free_port(0)  # used if that server ends before it is adopted
    finally:
        server.close()
    log = order.path("server.log")
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        log.replace(order.path("server.log.1"))
    # Isolated, without site-packages: it starts fast, and no folder here shadows a module.
    python = [sys.executable, "-I", "-S"]
    argument = json.dumps(order._replace(port=port)._asdict())
    command = [*python, keeper.__file__, argument]
    if os.geteuid() == 0:
        places = [order.home, str(order.data), order.binaries]
        become_nobody = str(Path(__file__).with_name("root.py"))
        command = [*python, become_nobody, *places, *command]
    try:
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
                pass_fds=[lock.fd],
                start_new_session=True,
                check=True,
            )
    except (OSError, subprocess.CalledProcessError) as error:
        raise StoreUnavailable(f"The keeper does not start: {error}.{_log_end(order)}") from error


def _port(order: Order) -> int:
    """The wanted port; else that of the last start, so that addresses stay valid; else any."""
    if order.port:
        return _free_port(order.port)
    last = order.path("port")
    try:
        return _free_port(int(last.read_text()))
    except (OSError, ValueError, OverflowError, ConfigError):
        port = _free_port(0)
        last.write_text(f"{port}\n")
        return port


def _free_port(wanted: int) -> int:
    """Return the wanted port if it is free, any free one for 0."""
    with socket.socket() as probe:
        # As PostgreSQL does, ignore lingering connections of a former server.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            raise ConfigError(
                f"Port {wanted} of 127.0.0.1 is not available for the embedded PostgreSQL: "
                f"{error.strerror}. Choose another one (ROWLEASE_EMBEDDED_PORT), or none."
            ) from error
        return int(probe.getsockname()[1])


def _answering(order: Order) -> Postmaster | None:
    """Return the server of this home if it answers and has the database; None if it is not ready.

    Raises:
        StoreError: it claims to be ready, but does not answer or cannot create the database yet.
    """
    claim = Postmaster.read(order.data)
    if claim is None or not claim.ready:
        return None
    make_database(_dsn(order, claim.port, "postgres"), "rowlease", ANSWER)
    return claim


def _leave_to_keeper(order: Order) -> None:
    """If the keeper was killed, start another one, so that the server is stopped."""
    with suppress(OSError, RowleaseError):  # then the next user finds the server
        lock = FileLock(order.path("keeper.lock"))
        try:
            if lock.take() and _answering(order):
                _start_keeper(order, lock)
        finally:
            lock.close()


def _dsn(order: Order, port: int, database: str) -> str:
    try:
        password = order.path("password").read_text()
    except OSError as error:
        raise ConfigError(
            f"{order.path('password')} cannot be read ({error.strerror}). "
            f"Without it, nobody can log in to the server of {order.data}."
        ) from error
    return f"postgresql://rowlease:{password}@127.0.0.1:{port}/{database}"


def _log_end(order: Order) -> str:
    log = order.path("server.log")
    lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
    return "\n".join(["", f"The end of {log}:", *lines])
