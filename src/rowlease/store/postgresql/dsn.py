"""DSNs of PostgreSQL, as libpq reads them."""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from urllib.parse import parse_qsl

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rowlease.errors import ConfigError
from rowlease.store.dsn import redact

#: What to do if nobody verifies the server.
VERIFY = (
    "add sslmode=verify-full&sslrootcert=system (or a file with the CA's certificate), or "
    "sslmode=disable in a network that you trust"
)


def libpq_dsn(dsn: str) -> str:
    """The DSN for libpq: without SQLAlchemy's driver name.

    Raises:
        ConfigError: the DSN cannot be read. libpq's message is dropped, since it quotes passwords.
    """
    text = re.sub(r"^postgresql\+\w+://", "postgresql://", dsn)
    if not _is_readable(text):
        if unknown := _unknown_option(text):
            raise ConfigError(
                f"the DSN {redact(dsn)!r} has the option {unknown}, which libpq does not know; "
                "leave it out"
            )
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


def _unknown_option(dsn: str) -> str | None:
    """The first option that libpq does not know. None if it may be a part of a password."""
    address, _, query = dsn.partition("?")
    if "@" not in address or "@" in query:
        return None
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    return next((name for name, _ in parse_qsl(query) if name not in known), None)


def unverified_host(dsn: str) -> str | None:
    """A host of the network for which nobody has chosen whether its certificate is verified.

    Returns:
        The host. None if there is no such host, or if the DSN, a service or the environment of
        libpq has an `sslmode`. libpq's default sends the password to whoever answers.
    """
    parts = conninfo_to_dict(libpq_dsn(dsn))
    chosen = ("sslmode", "service", "requiressl")
    if parts.get("sslrootcert") == "system" or any(
        parts.get(name) or os.environ.get(f"PG{name.upper()}") for name in chosen
    ):
        return None
    hosts = str(parts.get("host") or os.environ.get("PGHOST") or "").split(",")
    return next((host for host in hosts if not _is_on_this_machine(host)), None)


def _is_on_this_machine(host: str) -> bool:
    if host in ("", "localhost") or host.startswith(("/", "@")):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def for_psql(dsn: str) -> tuple[str, dict[str, str]]:
    """A connection string for a command line, and what psql gets by its environment.

    Other users may see the command line, so the password is not there. `require_auth` is not there,
    because libpq before version 16 refuses it; such a libpq does not read its variable either.

    Raises:
        ConfigError: the DSN cannot be read.
    """
    parts = conninfo_to_dict(libpq_dsn(dsn))
    names = {"password": "PGPASSWORD", "require_auth": "PGREQUIREAUTH"}
    environment = {names[key]: str(parts.pop(key)) for key in names.keys() & parts.keys()}
    return make_conninfo("", **parts), environment
