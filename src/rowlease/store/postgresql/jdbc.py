"""Spark's way to PostgreSQL, over JDBC."""

from __future__ import annotations

from typing import Any

from psycopg.conninfo import conninfo_to_dict

from rowlease.errors import ConfigError, RowleaseError
from rowlease.store import deadlines
from rowlease.store.dsn import redact
from rowlease.store.engine import Engine, JdbcDriver
from rowlease.store.postgresql.driver_errors import jdbc_error
from rowlease.store.postgresql.dsn import libpq_dsn

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


class PostgresJdbc(Engine):
    """Spark's way to PostgreSQL, over JDBC."""

    jdbc_driver = JdbcDriver(
        "PostgreSQL",
        "org.postgresql:postgresql:42.7.14",
        "org.postgresql.Driver",
        "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
    )

    def check_reads_back(self) -> None:
        pass

    def jdbc_options(self) -> dict[str, str]:
        parts = {key: str(value) for key, value in conninfo_to_dict(libpq_dsn(self.dsn)).items()}
        if parts.get("host", "").startswith(("/", "@")):
            raise ConfigError(
                f"{redact(self.dsn)} names a Unix socket, to which Spark's JDBC driver cannot "
                "connect; name a host"
            )
        if unknown := sorted(parts.keys() - IN_URL - JDBC_NAMES.keys() - OF_LIBPQ):
            raise ConfigError(
                f"Spark's JDBC driver has no option {unknown[0]}, which the DSN of "
                f"{redact(self.dsn)} has; leave it out, or write with "
                'df.write.format("rowlease")'
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
            "driver": self.jdbc_driver.class_name,
            "ApplicationName": "rowlease spark",
            # The server infers the types of texts from the columns: json, timestamptz and varchar.
            "stringtype": "unspecified",
            # Otherwise errors quote the rows of a batch, so that payloads end up in logs.
            "logServerErrorDetail": "false",
            "tcpKeepAlive": "true",
            "connectTimeout": str(deadlines.CONNECT),
            "socketTimeout": str(round(deadlines.BULK.total_seconds())),
        }

    def jdbc_writing_options(self) -> dict[str, str]:
        return self.jdbc_options() | {"reWriteBatchedInserts": "true"}

    def jdbc_frame(self, view: str, frame: Any) -> tuple[str, Any]:
        return f"rowlease.{view}", frame

    def jdbc_error(self, state: str, number: int, text: str) -> RowleaseError:
        return jdbc_error(state, text, redact(self.dsn))
