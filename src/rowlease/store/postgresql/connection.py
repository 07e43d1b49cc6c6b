"""Connections to PostgreSQL with bounded waits, direct or through a proxy."""

from __future__ import annotations

import logging
import os
import select
import socket
from collections.abc import Generator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import cache
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict

from rowlease.errors import ConfigError
from rowlease.forks import watch_forks
from rowlease.store import deadlines
from rowlease.store.dsn import redact
from rowlease.store.error_codes import FOREIGN_SCHEMA, our_error
from rowlease.store.pool import Place
from rowlease.store.postgresql.dsn import VERIFY, unverified_host

logger = logging.getLogger("rowlease")

RV = TypeVar("RV")


class Unanswered(psycopg.OperationalError):
    """The server did not answer before the deadline."""


class BoundedConnection(psycopg.Connection):
    """A connection whose waits for the server are bounded. After a timeout it closes itself.

    Attributes:
        patience: the longest time that a single wait may take, in seconds. A wait is an `execute`,
            a commit, a block of a COPY or a fetch of a server-side cursor.
    """

    patience: float = deadlines.CALL.total_seconds()
    place: Place | None = None
    _is_cut = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        watch_forks(self)

    def __del__(self, *_: Any) -> None:
        # A call that a signal handler interrupts drops its connection, and the driver closes it.
        # So there is no warning. In a child that was forked, the driver would leave it open.
        if self._is_cut:
            self.close()

    def forget(self) -> None:
        """Cut this process's copy of the connection, without a word to the server.

        Whoever still uses it in this process finds that the server has gone. The parent's copy goes
        on. The descriptor keeps its number, which libpq would otherwise close a second time.
        """
        self._is_cut = True
        nowhere, other_end = socket.socketpair()
        with nowhere, suppress(psycopg.Error):  # it is closed
            other_end.close()
            os.dup2(nowhere.fileno(), self.pgconn.socket, inheritable=False)

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        try:
            return super().wait(_until(gen, monotonic() + self.patience), *args, **kwargs)
        except Unanswered:
            # A late answer would be taken for the answer to the next call. `close` does not block.
            self.close()
            raise


def _until(gen: PQGen[RV], deadline: float) -> Generator[Any, Any, RV]:
    """Run `gen` until the deadline. psycopg resumes it at least every 0.1 s."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            # An answer that has arrived is read, even if this process was suspended.
            wanted = gen.send(ready)
            if monotonic() >= deadline:
                raise Unanswered("no answer in time")
    except StopIteration as end:
        result: RV = end.value
        return result


def has_no_news(connection: BoundedConnection) -> bool:
    """Whether no data arrived while the connection was idle.

    A server that ends a session sends data. Without this check, a call might be sent on a session
    that has ended, and the caller would not know whether the call took effect.
    """
    if not hasattr(select, "poll"):  # Windows, where `select` takes sockets of any number
        return not select.select([connection.pgconn.socket], [], [], 0)[0]
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return not poll.poll(0)


#: Session settings that affect the meaning of strings and routines. They are set on connecting, and
#: they override the settings of the role, the database and the environment.
PINNED = {
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "array_nulls": "on",
    "bytea_output": "hex",
    "default_transaction_isolation": "read committed",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "xmlbinary": "base64",
}
#: The name of the setting for `deadlines.CLIENT_CHECK_MILLISECONDS`.
CHECK_CLIENT = "client_connection_check_interval"
#: Settings without which requests would be misread. Through a proxy that pools transactions,
#: `connect` sets none of these, so the database itself must have them.
NEEDED = (
    "array_nulls",
    "default_transaction_isolation",
    "standard_conforming_strings",
    "transform_null_equals",
)

#: The oldest major version of PostgreSQL that its makers still support, and that tests run on.
MIN_MAJOR = 15

#: The files in which systems keep the certificates of public CAs: Debian, Fedora, SUSE, macOS.
CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
#: The owner of the schema. Nothing in this expression can be replaced by an object of the database.
OWNER = (
    "(select pg_catalog.pg_get_userbyid(n.nspowner) from pg_catalog.pg_namespace n"
    " where n.nspname operator(pg_catalog.=) 'rowlease')"
)


def connect(
    dsn: str,
    application_name: str,
    *,
    settings: Mapping[str, str] | None = None,
    **parameters: Any,
) -> BoundedConnection:
    """Open a connection whose waits are bounded.

    Args:
        settings: the settings of the session, set at its start. If it is None, no settings are
            sent, because a proxy may refuse them.
        parameters: further parameters of `psycopg.Connection.connect`.

    Raises:
        psycopg.Error: the connection fails.
    """
    if settings is not None:
        given = conninfo_to_dict(dsn).get("options")
        ours = (f"-c {name}={_escaped(value)}" for name, value in settings.items())
        parameters["options"] = " ".join([*([str(given)] if given else []), *ours])
    parameters |= _system_certificates(dsn)
    return BoundedConnection.connect(
        dsn,
        application_name=application_name,
        client_encoding="UTF8",
        connect_timeout=deadlines.CONNECT,
        # A dead network must be noticed within a lease, and not after TCP's default of two hours.
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=20_000,
        **parameters,
    )


def _system_certificates(dsn: str) -> dict[str, str]:
    """What `sslrootcert=system` means, for the OpenSSL of psycopg's binary package.

    That OpenSSL looks for certificates in a folder of the machine on which it was built.
    """
    wanted = conninfo_to_dict(dsn).get("sslrootcert") or os.environ.get("PGSSLROOTCERT")
    is_told = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if wanted != "system" or is_told or psycopg.pq.__impl__ != "binary":
        return {}
    found = next(filter(os.path.exists, CERTIFICATES), None)
    return {"sslmode": "verify-full", "sslrootcert": found} if found else {}


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


@cache  # a program may have many stores
def _warn(host: str) -> None:
    logger.warning(
        "nobody verifies that %s is the database, because the DSN has no sslmode; %s", host, VERIFY
    )


class Connector:
    """Opens connections.

    Args:
        timeout: the patience of the connections. The server cancels a statement slightly earlier.

    Attributes:
        is_proxied: whether there is a proxy such as PgBouncer, which may use another session of the
            server for each transaction. The value is known after the first connection. With a
            proxy no state may outlive a transaction: no prepared statements and no LISTEN.
    """

    def __init__(self, dsn: str, application_name: str, timeout: timedelta) -> None:
        self.is_proxied = False
        self._dsn = dsn
        self._application_name = application_name
        self._settings = {
            **PINNED,
            "statement_timeout": f"{deadlines.at_server(timeout) / timedelta(seconds=1)}s",
            CHECK_CLIENT: str(deadlines.CLIENT_CHECK_MILLISECONDS),
        }
        self._patience = timeout.total_seconds()
        self._is_known = False

    def __call__(self) -> BoundedConnection:
        """Open a connection.

        Raises:
            psycopg.Error: the connection fails.
            ConfigError: the server is older than PostgreSQL 15; a setting of the database has a
                wrong value, and rowlease cannot change it through the proxy; or the schema
                `rowlease` belongs to somebody else.
        """
        if not self._is_known:
            opened = self._first()
        else:
            opened = self._proxied() if self.is_proxied else self._direct()
        opened.patience = self._patience
        return opened

    def _first(self) -> BoundedConnection:
        try:
            connection = self._direct()
        except psycopg.OperationalError as error:
            if CHECK_CLIENT in str(error) and self._settings.pop(CHECK_CLIENT, ""):
                return self._first()  # a server on Windows does not have the setting
            if "unsupported startup parameter" not in str(error):  # PgBouncer's text
                raise
            connection = self._proxied()
        if (major := connection.info.server_version // 10_000) < MIN_MAJOR:
            connection.close()
            raise ConfigError(
                f"{redact(self._dsn)} is PostgreSQL {major}; rowlease needs PostgreSQL {MIN_MAJOR} "
                "or newer, so upgrade the server"
            )
        # The process id that a proxy reports at login differs from pg_backend_pid(), because the
        # proxy chooses the session later.
        columns = ", ".join(f"pg_catalog.current_setting('{name}')" for name in NEEDED)
        ((pid, owner, user, *found),) = connection.execute(
            f"select pg_catalog.pg_backend_pid(), {OWNER}, current_user, {columns}", prepare=False
        ).fetchall()
        if owner not in (None, "rowlease_owner", user):
            connection.close()
            raise our_error([FOREIGN_SCHEMA], owner, redact(self._dsn))
        self.is_proxied = pid != connection.info.backend_pid
        self._is_known = True
        if host := unverified_host(self._dsn):
            _warn(host)
        if not self.is_proxied:
            return connection
        for name, value in zip(NEEDED, found, strict=True):
            if value != PINNED[name]:
                connection.close()
                self._is_known = False
                raise ConfigError(
                    f"{name} of {redact(self._dsn)} is {value}, and it cannot be changed through a "
                    f"proxy; execute: alter database ... set {name} = '{PINNED[name]}' (or "
                    "alter role, if the role has its own setting)"
                )
        connection.prepare_threshold = None
        return connection

    def _direct(self) -> BoundedConnection:
        opened = connect(
            self._dsn,
            self._application_name,
            settings=self._settings,
            autocommit=True,
            prepare_threshold=0,
        )
        # libpq also sends PGTZ and PGDATESTYLE of the environment, which override our settings.
        for name in ("DateStyle", "TimeZone"):
            if opened.info.parameter_status(name) not in (PINNED[name], None):
                opened.execute(f"set {name} = {PINNED[name]}")
        return opened

    def _proxied(self) -> BoundedConnection:
        return connect(self._dsn, self._application_name, autocommit=True, prepare_threshold=None)
