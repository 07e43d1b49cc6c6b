"""DSNs of PostgreSQL, as libpq and JDBC read them; connections, through a proxy or not."""

from __future__ import annotations

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

from rowlease.errors import ConfigError
from rowlease.store import redact


def libpq_dsn(dsn: str) -> str:
    """The DSN as libpq reads it: without SQLAlchemy's driver name.

    Raises:
        ConfigError: it cannot be read. libpq's own sentence is not passed on: it quotes passwords.
    """
    text = dsn.replace("postgresql+psycopg://", "postgresql://", 1)
    if not _is_readable(text):
        raise ConfigError(
            f"the DSN {redact(dsn)!r} cannot be read; write it as "
            "postgresql://user:password@host:port/database, and @ / : % in a password as "
            "%40 %2F %3A %25"
        )
    return text


def _is_readable(dsn: str) -> bool:
    # A password's own @ or / would end up in the host or in the database's name.
    if not re.fullmatch(r"\w+://([^@/]*@)?[^@/?]*(/[^@?]*)?(\?.*)?", dsn):
        return False
    try:
        parts = conninfo_to_dict(dsn)
        for host in str(parts.get("host") or "").split(","):
            if not host.startswith(("/", "@")):
                host.encode("idna")  # as looking it up will do
    except (psycopg.ProgrammingError, UnicodeError):
        return False
    return re.fullmatch(r"[\d,]*", str(parts.get("port") or "")) is not None


def jdbc_options(dsn: str) -> dict[str, str]:
    """url, user, password and what else the PostgreSQL JDBC driver is to be told.

    Raises:
        ConfigError: the DSN cannot be read.
    """
    parts = {key: str(value) for key, value in conninfo_to_dict(libpq_dsn(dsn)).items()}
    hosts = parts.get("host", "localhost").split(",")
    ports = parts.get("port", "5432").split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    if len(ports) != len(hosts):
        raise ConfigError(f"the DSN names {len(hosts)} hosts and {len(ports)} ports")
    servers = ",".join(
        f"{f'[{host}]' if ':' in host else host}:{port or 5432}"
        for host, port in zip(hosts, ports, strict=True)
    )
    writes = parts.get("target_session_attrs") in ("read-write", "primary")
    return {
        "url": f"jdbc:postgresql://{servers}/{parts.get('dbname', parts.get('user', ''))}",
        **{key: parts[key] for key in ("sslmode", "sslrootcert") if key in parts},
        **({"targetServerType": "primary"} if writes else {}),
        "user": parts.get("user", ""),
        "password": parts.get("password", ""),
        "driver": "org.postgresql.Driver",
        "ApplicationName": "rowlease spark",
        # Texts find their own type: the columns are json, timestamptz and varchar.
        "stringtype": "unspecified",
        # Else an error quotes the rows of a whole batch, and payloads end up in logs.
        "logServerErrorDetail": "false",
        "tcpKeepAlive": "true",
        "connectTimeout": "10",
    }


class Connector:
    """Opens connections.

    Attributes:
        is_proxied: a proxy (PgBouncer and its like) stands between, which may give each transaction
            another session of the server; known after the first connection. Then nothing may
            outlive a transaction: there are no prepared statements, and nobody can LISTEN.
    """

    def __init__(self, dsn: str, application_name: str) -> None:
        self.is_proxied = False
        self._dsn = dsn
        self._application_name = application_name
        self._is_known = False

    def __call__(self) -> psycopg.Connection:
        """A new connection.

        Raises:
            psycopg.Error: there is none to be had.
            ConfigError: the database's default isolation level is not READ COMMITTED, and no other
                can be asked for through the proxy.
        """
        if not self._is_known:
            return self._first()
        return self._proxied() if self.is_proxied else self._direct()

    def _first(self) -> psycopg.Connection:
        try:
            connection = self._direct()
        except psycopg.OperationalError as error:
            if "unsupported startup parameter" not in str(error):  # PgBouncer's words
                raise
            connection = self._proxied()
        # A proxy does not know which session will serve a client, so the number it gave is its own.
        ((pid, isolation),) = connection.execute(
            "select pg_backend_pid(), current_setting('default_transaction_isolation')",
            prepare=False,
        ).fetchall()
        self.is_proxied = pid != connection.info.backend_pid
        self._is_known = True
        if not self.is_proxied:
            return connection
        if isolation != "read committed":
            connection.close()
            self._is_known = False
            raise ConfigError(
                f"the default isolation level of {redact(self._dsn)} is {isolation}, and through a "
                "proxy no other can be asked for; say: alter database ... set "
                "default_transaction_isolation = 'read committed'"
            )
        connection.prepare_threshold = None
        return connection

    def _direct(self) -> psycopg.Connection:
        # READ COMMITTED whatever the database's default is; the routines rely on it.
        return self._open(0, "-c default_transaction_isolation=read\\ committed -c timezone=UTC")

    def _proxied(self) -> psycopg.Connection:
        return self._open(None, "")

    def _open(self, prepare_threshold: int | None, options: str) -> psycopg.Connection:
        return psycopg.connect(
            self._dsn,
            autocommit=True,
            prepare_threshold=prepare_threshold,
            application_name=self._application_name,
            connect_timeout=10,
            options=options,
            # A dead network must be noticed within a lease, not after TCP's two hours.
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=20_000,
        )
