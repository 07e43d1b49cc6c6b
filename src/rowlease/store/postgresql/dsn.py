"""DSNs of PostgreSQL, as libpq and JDBC read them."""

from __future__ import annotations

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rowlease.errors import ConfigError
from rowlease.store import deadlines
from rowlease.store.dsn import redact


def libpq_dsn(dsn: str) -> str:
    """The DSN for libpq: without SQLAlchemy's driver name.

    Raises:
        ConfigError: the DSN cannot be read. libpq's message is dropped, since it quotes passwords.
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
    # An unescaped @ or / in a password would end up in the name of the host or database.
    if not re.fullmatch(r"\w+://([^@/]*@)?[^@/?]*(/[^@?]*)?(\?.*)?", dsn):
        return False
    try:
        parts = conninfo_to_dict(dsn)
        for host in str(parts.get("host") or "").split(","):
            if not host.startswith(("/", "@")):
                host.encode("idna")  # the lookup of the host does the same
    except (psycopg.ProgrammingError, UnicodeError):
        return False
    return re.fullmatch(r"[\d,]*", str(parts.get("port") or "")) is not None


def without_password(dsn: str) -> tuple[str, str | None]:
    """A connection string for a command line, and the password for the environment.

    Raises:
        ConfigError: the DSN cannot be read.
    """
    parts = conninfo_to_dict(libpq_dsn(dsn))
    password = parts.pop("password", None)
    return make_conninfo("", **parts), None if password is None else str(password)


def jdbc_options(dsn: str) -> dict[str, str]:
    """The options of the PostgreSQL JDBC driver, such as url, user and password.

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
        # The server infers the types of texts from the columns: json, timestamptz and varchar.
        "stringtype": "unspecified",
        # Otherwise errors quote the rows of a batch, so that payloads end up in logs.
        "logServerErrorDetail": "false",
        "tcpKeepAlive": "true",
        "connectTimeout": str(deadlines.CONNECT),
        "socketTimeout": str(round(deadlines.BULK.total_seconds())),
    }
