"""What a false PostgreSQL server on the network gets: with verified TLS, no password."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from rowlease.doctor import examine
from rowlease.errors import StoreUnavailable
from rowlease.store import engine_of, open_store
from rowlease.store.postgresql import connection

PASSWORD = "s3cret"
NOW = datetime.now(UTC)
YEAR = timedelta(days=365)
#: What asks a client for its password in clear text, and the answer to a client that asks for TLS.
ASK, TLS, NO_TLS = b"R\0\0\0\x08\0\0\0\x03", b"S", b"N"

#: Makes the certificate of a server, from the CA that the client trusts.
Certificate = Callable[[trustme.CA], trustme.LeafCert]
FALSE: dict[str, Certificate | None] = {
    "another CA": lambda _: trustme.CA().issue_cert("localhost"),
    "expired": lambda ca: ca.issue_cert(
        "localhost", not_after=NOW - YEAR / 2, not_before=NOW - YEAR
    ),
    "not valid yet": lambda ca: ca.issue_cert(
        "localhost", not_before=NOW + YEAR, not_after=NOW + 2 * YEAR
    ),
    "another host": lambda ca: ca.issue_cert("elsewhere.example"),
    "a wildcard": lambda ca: ca.issue_cert("*.example"),
    "another address": lambda ca: ca.issue_cert("127.0.0.2"),
    "a CA below another": lambda _: trustme.CA().create_child_ca().issue_cert("localhost"),
    "no TLS": None,
}


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@contextlib.contextmanager
def false_server(certificate: trustme.LeafCert | None) -> Iterator[tuple[int, list[bytes]]]:
    """A server that asks for passwords. Yields its port, and what clients have answered."""
    heard: list[bytes] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if certificate:
        certificate.configure_cert(context)

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return  # the test is over
            with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                stack.enter_context(client)
                client.settimeout(60)
                if len(client.recv(1000)) == 8:  # it asks for TLS
                    client.sendall(TLS if certificate else NO_TLS)
                    if certificate:
                        client = context.wrap_socket(client, server_side=True)
                        stack.enter_context(client)
                    if not client.recv(1000):
                        continue
                client.sendall(ASK)
                heard.append(client.recv(1000))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], heard
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def call(port: int, options: str) -> str:
    dsn = f"postgresql://u:{PASSWORD}@localhost:{port}/d?hostaddr=127.0.0.1&{options}"
    with closing(open_store(dsn)) as store, pytest.raises(StoreUnavailable) as raised:
        store.check_schema()
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


WRONG_HOST = {"another host", "a wildcard", "another address"}
#: The options of a DSN, and the false servers to which libpq then gives the password.
OPTIONS: dict[str, set[str]] = {
    "": set(FALSE),
    "sslmode=prefer": set(FALSE),
    "sslmode=disable": set(FALSE),
    "sslmode=require": set(FALSE) - {"no TLS"},
    "sslmode=require&sslrootcert={ca}": WRONG_HOST,
    "sslmode=verify-ca&sslrootcert={ca}": WRONG_HOST,
    "sslmode=verify-full": set(),
    "sslmode=verify-full&sslrootcert=/absent": set(),
    # What SECURITY.md and the other pages say.
    "sslmode=verify-full&sslrootcert={ca}": set(),
    "sslmode=verify-full&sslrootcert=system": set(),
    "sslrootcert=system": set(),
    "require_auth=scram-sha-256": set(),
}


@pytest.mark.parametrize("name", FALSE)
def test_a_false_server_gets_the_password_as_libpq_has_it(
    name: str, ca: trustme.CA, tmp_path: Path
) -> None:
    make, file = FALSE[name], tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(file)
    with false_server(make and make(ca)) as (port, heard):
        for options, given in OPTIONS.items():
            heard.clear()
            call(port, options.format(ca=file))
            was_given = any(PASSWORD.encode() in each for each in heard)
            assert was_given == (name in given), options


@pytest.mark.parametrize("options", ["sslrootcert={ca}", "sslrootcert=system"])
def test_the_server_with_the_right_certificate_gets_it(
    options: str, ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(file)
    monkeypatch.setattr(connection, "CERTIFICATES", ("/absent", str(file)))
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    with false_server(ca.issue_cert("localhost")) as (port, heard):
        call(port, f"sslmode=verify-full&{options.format(ca=file)}")
    assert any(PASSWORD.encode() in each for each in heard)
    with false_server(ca.issue_cert("elsewhere.example")) as (port, heard):
        call(port, options.format(ca=f"{file}&sslmode=verify-full"))
    assert not any(PASSWORD.encode() in each for each in heard)


def test_a_file_of_openssl_s_variable_is_the_systems(
    ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("PGSSLROOTCERT", "system")
    with false_server(ca.issue_cert("localhost")) as (port, heard):
        call(port, "sslmode=verify-full")
    assert any(PASSWORD.encode() in each for each in heard)


@pytest.mark.parametrize(
    ("dsn", "host"),
    [
        ("postgresql://u@db.example/d", "db.example"),
        ("postgresql://u@localhost,10.0.0.1/d", "10.0.0.1"),
        ("postgresql://u@/d?host=/run/postgresql", None),
        ("postgresql:///d", None),
        ("postgresql://u@[::1]/d", None),
        ("postgresql://u@db.example/d?sslmode=prefer", None),
        ("postgresql://u@db.example/d?sslrootcert=system", None),
        ("mssql://u@db.example/d", None),
    ],
)
def test_a_host_of_the_network_without_a_choice_is_named(dsn: str, host: str | None) -> None:
    assert [each.subject for each in engine_of(dsn).diagnose_dsn()] == ([host] if host else [])


def test_a_choice_in_the_environment_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert engine_of("postgresql://u@db.example/d").diagnose_dsn() == []


def test_an_unverified_host_is_logged_once_and_a_finding(
    dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = dsn.replace("127.0.0.1", "db.example") + "?hostaddr=127.0.0.1"
    connection._warn.cache_clear()
    for _ in range(2):
        with closing(open_store(elsewhere)) as store:
            store.check_schema()
    (record,) = caplog.records
    assert record.getMessage().startswith("nobody verifies that db.example is the database")
    assert [each.subject for each in examine(elsewhere) if each.finding == "tls"] == ["db.example"]
    assert "tls" not in {each.finding for each in examine(dsn)}
