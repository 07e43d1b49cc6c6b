"""DSNs of PostgreSQL, as libpq and JDBC read them."""

from __future__ import annotations

import os
import re
from ipaddress import ip_address

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rowlease.errors import ConfigError
from rowlease.store import deadlines
from rowlease.store.dsn import redact

#: Parameters of libpq that are parts of a JDBC URL, or have a value of their own there.
IN_URL = {"host", "port", "dbname", "user", "password", "target_session_attrs"}
#: The JDBC driver's names of parameters that decide who is connected to whom, and how.
JDBC_NAMES = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "sslnegotiation": "sslNegotiation",
    "channel_binding": "channelBinding",
    "require_auth": "requireAuth",
    "gssencmode": "gssEncMode",
    "krbsrvname": "kerberosServerName",
    "options": "options",
}
#: Parameters that may be different over JDBC. Any other parameter is refused.
OF_LIBPQ = {
    "application_name", "client_encoding", "connect_timeout", "fallback_application_name",
    "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval",
    "load_balance_hosts", "sslcompression", "sslsni", "tcp_user_timeout",
}  # fmt: skip
#: The class of the JDBC driver that trusts the certificates of the JVM, as libpq's
#: `sslrootcert=system` trusts those of the operating system.
JVM_CERTIFICATES = "org.postgresql.ssl.DefaultJavaSSLFactory"
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


def jdbc_options(dsn: str) -> dict[str, str]:
    """The options of the PostgreSQL JDBC driver, such as url, user and password.

    Raises:
        ConfigError: the DSN cannot be read, or it has an option that the driver cannot keep.
    """
    parts = {key: str(value) for key, value in conninfo_to_dict(libpq_dsn(dsn)).items()}
    if parts.get("host", "").startswith(("/", "@")):
        raise ConfigError(
            f"{redact(dsn)} names a Unix socket, to which Spark's JDBC driver cannot connect; name "
            "a host"
        )
    if unknown := sorted(parts.keys() - IN_URL - JDBC_NAMES.keys() - OF_LIBPQ):
        raise ConfigError(
            f"Spark's JDBC driver has no option {unknown[0]}, which the DSN of {redact(dsn)} has; "
            'leave it out, or write with df.write.format("rowlease")'
        )
    same = {JDBC_NAMES[key]: parts[key] for key in JDBC_NAMES if key in parts}
    if same.get("sslrootcert") == "system":
        del same["sslrootcert"]
        same |= {"sslmode": "verify-full", "sslfactory": JVM_CERTIFICATES}
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
        **same,
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
