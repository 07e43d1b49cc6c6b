"""The embedded PostgreSQL server, which is used when no database is configured.

Every process that uses the server is a *user*, and holds a shared lock. A *keeper* process starts
the server, and stops it when no user is left; see `keeper.py`.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import platformdirs

from rowlease.embedded import keeper
from rowlease.embedded.binaries import server_binaries
from rowlease.embedded.home import check_home
from rowlease.embedded.keeper import SERVER_CHECK_SECONDS, FileLock, Order, Postmaster
from rowlease.errors import ConfigError, RowleaseError, StoreError, StoreUnavailable
from rowlease.store.postgresql.databases import make_database

#: The longest time in seconds to wait for a start. A usual start takes less than a second. Crash
#: recovery of a full write-ahead log takes longer.
START_TIMEOUT = 60.0
#: The longest time in seconds to create the database, on a busy machine.
ANSWER_SECONDS = 120.0
#: The maximum number of attempts to start the server. An attempt fails if another program takes the
#: free port before PostgreSQL listens on it.
MAX_START_ATTEMPTS = 3
#: The size of the log in bytes from which a new log is begun. Only failing statements make a log
#: large.
MAX_LOG_BYTES = 10 * 2**20
#: The environment variables that the server inherits: where programs and libraries are.
PASSED_ON = ("PATH", "LD_LIBRARY_PATH")
#: The option with which libpq and JDBC send a password only to a server that proves to know it.
PROOF_OF_SERVER = {"require_auth": "scram-sha-256"}


@contextmanager
def embedded(
    data_dir: Path | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    port: int | None = None,
    starting: Callable[[str, bool], object] | None = None,
) -> Iterator[str]:
    """Run the embedded PostgreSQL for a `with` block.

    All processes of this machine with the same home share one server. The first process starts the
    server. About a second after the last process has left its block or was killed, the server
    stops; no block waits for that. The data stays. If the server is killed while a process uses it,
    the keeper starts it again at the same address.

    Threads may enter at the same time, and blocks may nest. A forked child may use the DSN, but
    does not keep the server running. If the container in which the server runs ends, the server is
    killed, and recovers at the next start.

    Args:
        data_dir: the home: a folder on a local file system for data, password, log and locks. The
            default is ROWLEASE_HOME, or else the user's data folder for applications.
        settings: PostgreSQL settings, by name, for a server that this block starts. A server that
            already runs keeps its settings. Commits are durable unless a setting changes this.
        port: the TCP port on 127.0.0.1, 1 to 65535. The default is ROWLEASE_EMBEDDED_PORT, or else
            the port of the last start if it is free, or else any free port.
        starting: a function that is called before this block starts a server. Its arguments are the
            home, and True if this is the first start there, which takes longer.

    Yields:
        The DSN of a superuser. The server listens on a Unix socket in the home, which the DSN
        names, and on 127.0.0.1; see `over_tcp`.

    Raises:
        ConfigError: the port is in use, or the server runs on another port; there are no binaries;
            the data belongs to another major version; the home is not writable; others may write to
            it; or it has files that rowlease did not make.
        StoreUnavailable: the server did not answer within 60 s. The message has the end of its log.
    """
    if sys.platform == "win32" or (os.geteuid() == 0 and sys.platform != "linux"):
        raise ConfigError(
            "the embedded PostgreSQL runs only on Linux, and on macOS for users other than root; "
            "give the DSN of a server instead"
        )
    try:
        home = data_dir or Path(
            os.environ.get("ROWLEASE_HOME") or platformdirs.user_data_dir("rowlease")
        )
        home = home.expanduser().absolute()
    except RuntimeError as error:  # as in a container without HOME
        raise ConfigError(
            "no database is configured, and the user has no home for an embedded one; set "
            "ROWLEASE_DSN to the DSN of a server, or ROWLEASE_HOME to a folder"
        ) from error
    order = _order(home, dict(settings or {}), _wanted_port(port))
    try:
        Path(order.home).mkdir(mode=0o700, parents=True, exist_ok=True)
        check_home(Path(order.home))
        users = FileLock(order.path("users.lock"))
    except OSError as error:
        raise ConfigError(
            f"the folder {order.home} cannot be used: {error.strerror}; set ROWLEASE_HOME to a "
            "folder that you may write to"
        ) from error
    try:
        if not users.take(shared=True, patience=START_TIMEOUT):
            raise StoreUnavailable(f"the server of {order.home} does not stop{_log_end(order)}")
        yield _wait_for_server(order, starting)
    finally:
        _leave_to_keeper(order)
        users.close()


def _order(home: Path, settings: dict[str, str], port: int) -> Order:
    """The server to run, after a check of the settings. Nothing is changed on disk."""
    for name, instead in {"port": "port=", "data_directory": "data_dir="}.items():
        if name in settings:
            raise ConfigError(f"{name} is not allowed in settings; use {instead} instead")
    binaries, major = server_binaries()
    for version in home.glob("postgresql-*/PG_VERSION"):
        if version.parent.name.endswith(".unfinished"):
            continue
        found = version.read_text().strip()
        if found != str(major):
            raise ConfigError(
                f"{version.parent} was written by PostgreSQL {found}, but {binaries} is {major}; "
                f"set ROWLEASE_PG_BIN to binaries of {found}, or ROWLEASE_HOME to another folder"
            )
    return Order(str(home), str(binaries), major, port, settings)


def _wanted_port(port: int | None) -> int:
    """The port of the argument or of the environment; 0 if there is neither."""
    named = os.environ.get("ROWLEASE_EMBEDDED_PORT")
    if port is None and not named:
        return 0
    wanted = str(port if port is not None else named)
    if not wanted.isdecimal() or not 1 <= int(wanted) <= 65535:
        raise ConfigError(
            f"the port of the embedded PostgreSQL is {wanted!r}; it must be 1 to 65535"
        )
    return int(wanted)


def _wait_for_server(order: Order, starting: Callable[[str, bool], object] | None) -> str:
    """Start a keeper if there is none, wait for its server, and return the DSN."""
    deadline = time.monotonic() + START_TIMEOUT
    attempts = 0
    while True:
        keeper = FileLock(order.path("keeper.lock"))
        try:
            if keeper.take():
                # There is no keeper: none has started yet, or the last one failed or was killed.
                if attempts == MAX_START_ATTEMPTS:
                    raise StoreUnavailable(f"PostgreSQL does not start{_log_end(order)}")
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
            if "password authentication failed" in str(error):
                raise _wrong_password(order, "is not that of the server") from error
            found, failure = None, error
        if found:
            if order.port and order.port != found.port:
                raise ConfigError(
                    f"the server of {order.home} already runs on port {found.port}, not on "
                    f"{order.port}; leave the port out, or end the programs that use the server"
                )
            return _dsn(order, found.port, "rowlease")
        if time.monotonic() > deadline:
            raise StoreUnavailable(
                f"PostgreSQL does not answer ({failure or 'not ready'}){_log_end(order)}"
            ) from failure
        # Pause longer after a failed try, because each failed try adds a line to the server's log.
        time.sleep(0.1 if failure else SERVER_CHECK_SECONDS)


def _start_keeper(order: Order, lock: FileLock) -> None:
    """Start a keeper, and pass the keeper's lock to it. A server may already be running."""
    server = FileLock(order.path("server.lock"))
    try:
        if server.take():
            # No server runs. So a server that crashed has left this file, or the file was copied
            # together with the home.
            (order.data / "postmaster.pid").unlink(missing_ok=True)
            port = _port(order)
        else:
            port = order.port or _free_port(0)  # used if the server ends before it is adopted
    finally:
        server.close()
    log = order.path("server.log")
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(order.path("server.log.1"))
    # Without site-packages the keeper starts fast. In isolated mode no folder can shadow a module.
    python = [sys.executable, "-I", "-S"]
    argument = json.dumps(order._replace(port=port)._asdict())
    command = [*python, keeper.__file__, argument]
    if os.geteuid() == 0:
        command = [*python, str(Path(__file__).with_name("root.py")), *command]
    # The server's superuser can read the server's environment, so no secret must be there.
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    try:
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env={**environment, "LC_ALL": "C", "TZ": "UTC"},
                pass_fds=[lock.fd],
                start_new_session=True,
                check=True,
            )
    except (OSError, subprocess.CalledProcessError) as error:
        raise StoreUnavailable(f"the keeper does not start{_log_end(order)}") from error


def _port(order: Order) -> int:
    """The wanted port, or else the port of the last start if it is free, or else any free port.

    If the port of the last start is used again, DSNs that programs have stored stay valid.
    """
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
    """The wanted port, if it is free. For 0, any free port."""
    with socket.socket() as probe:
        # Ignore lingering connections of a former server, as PostgreSQL does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            raise ConfigError(
                f"port {wanted} of 127.0.0.1 is not available for the embedded PostgreSQL: "
                f"{error.strerror}; choose another port (ROWLEASE_EMBEDDED_PORT), or none"
            ) from error
        return int(probe.getsockname()[1])


def _answering(order: Order) -> Postmaster | None:
    """The server of this home, after a check that it has the database; None if it is not ready.

    Raises:
        StoreError: the server reports that it is ready, but does not answer, or cannot create the
            database yet.
    """
    claim = Postmaster.read(order.data)
    if claim is None or not claim.ready:
        return None
    make_database(_dsn(order, claim.port, "postgres"), "rowlease", ANSWER_SECONDS)
    return claim


def _leave_to_keeper(order: Order) -> None:
    """Start another keeper if the keeper was killed. Otherwise no process would stop the server."""
    with suppress(OSError, RowleaseError):  # if this fails, the next user starts a keeper
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
        raise _wrong_password(order, f"cannot be read ({error.strerror})") from error
    if not re.fullmatch("[0-9a-f]{48}", password):
        raise _wrong_password(order, "was not written by rowlease")
    # Another program may take the port while no server runs. It must not pass on to the server what
    # a client says, and must not get the password. It cannot take the socket.
    path = order.socket(port)
    if path and path.exists():
        address, options = "", f"host={quote(os.fsencode(path.parent))}&port={port}"
    else:
        address, options = f"127.0.0.1:{port}", urlencode(PROOF_OF_SERVER)
    return f"postgresql://rowlease:{password}@{address}/{database}?{options}"


def _wrong_password(order: Order, why: str) -> ConfigError:
    return ConfigError(
        f"the password in {order.path('password')} {why}; without it, the server of {order.data} "
        "cannot be used, so restore the file, or use another ROWLEASE_HOME"
    )


def over_tcp(dsn: str) -> str:
    """The DSN for a driver that cannot use a Unix socket, such as one of JDBC.

    A DSN that is not of an embedded server with a socket is returned as it is.
    """
    try:
        parts = urlsplit(dsn)
    except ValueError:  # who opens it says what is wrong with it
        return dsn
    options = dict(parse_qsl(parts.query))
    folder = Path(options.pop("host", ""))
    if folder.name != "socket" or not folder.with_name("keeper.lock").exists():
        return dsn
    address = f"{parts.netloc}127.0.0.1:{options.pop('port')}"
    return parts._replace(netloc=address, query=urlencode(PROOF_OF_SERVER | options)).geturl()


def _log_end(order: Order) -> str:
    log = order.path("server.log")
    lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
    return "\n".join([f"; the end of {log}:", *lines])
