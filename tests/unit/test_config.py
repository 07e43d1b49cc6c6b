"""The DSN of the database, and that its password is never shown."""

from __future__ import annotations

import string
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rowlease.config import DSN_FILE_VARIABLE, DSN_VARIABLE, configured_dsn
from rowlease.errors import ConfigError
from rowlease.store import engine_of, mask_passwords, migrate, open_store, redact
from rowlease.store.postgresql.dsn import libpq_dsn
from rowlease.store.postgresql.engine import PostgreSQL
from rowlease.store.postgresql.jdbc import IN_URL, JDBC_NAMES, OF_LIBPQ

#: A password that is not part of any message.
SECRET = "hunter2"
ODD = st.text(string.ascii_letters + string.digits + "@:/?#[]%&=+ \\'\"é€", min_size=1, max_size=12)


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DSN_VARIABLE, raising=False)
    monkeypatch.delenv(DSN_FILE_VARIABLE, raising=False)


# -- which one ---------------------------------------------------------------------------------


def test_nothing_configured_means_the_embedded_server() -> None:
    assert configured_dsn() is None


def test_the_argument_wins_over_the_environment_and_that_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "dsn"
    file.write_text("  from-the-file \n")
    monkeypatch.setenv(DSN_FILE_VARIABLE, str(file))
    assert configured_dsn() == "from-the-file"
    monkeypatch.setenv(DSN_VARIABLE, "from-the-environment")
    assert configured_dsn() == "from-the-environment"
    assert configured_dsn("given") == "given"


@pytest.mark.parametrize("variable", [DSN_VARIABLE, DSN_FILE_VARIABLE])
def test_an_empty_variable_is_as_good_as_none(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "")
    assert configured_dsn() is None


@pytest.mark.parametrize("dsn", ["", " "])
def test_an_empty_argument_is_not_the_embedded_server(dsn: str) -> None:
    with pytest.raises(ConfigError, match="the DSN is empty"):
        configured_dsn(dsn)


@pytest.mark.parametrize("content", [None, b"", b" \n\n", b"\xff\xfe\x00"])
def test_a_file_that_is_missing_empty_or_no_text_is_named(
    content: bytes | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "dsn"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv(DSN_FILE_VARIABLE, str(file))
    with pytest.raises(ConfigError, match=rf"ROWLEASE_DSN_FILE is {file}"):
        configured_dsn()


def test_a_folder_is_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(DSN_FILE_VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match=r"directory"):
        configured_dsn()


# -- the DSN in messages -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://u:hunter2@h:5432/db", "postgresql://u:***@h:5432/db"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("postgresql://h/db", "postgresql://h/db"),
        ("postgresql:///db", "postgresql:///db"),
        ("postgresql://u:hunter2@h/db?sslmode=require", "postgresql://u:***@h/db"),
        ("postgresql://u:hunter2@[::1]:5432/db", "postgresql://u:***@[::1]:5432/db"),
        ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
        ("postgresql://u:hunter2@a:1,b:2/db", "postgresql://u:***@a:1,b:2/db"),
        ("postgresql://u%3Ahunter2@h/db", "postgresql://u:***@h/db"),
        ("postgresql://u%3ahunter2:x@h/db", "postgresql://u:***@h/db"),
        ("postgresql://u:hunter2@%2Frun%2fpg:5432/db", "postgresql://u:***@/run/pg:5432/db"),
    ],
)
def test_everything_but_the_password_is_shown(dsn: str, shown: str) -> None:
    assert redact(dsn) == shown


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:hunter2@h/db",
        "postgresql://u:a@hunter2@h/db",
        "postgresql://u:hunter2/@h/db",
        "postgresql://u:x?hunter2@h/db",
        "postgresql://:hunter2@h/db",
        "postgresql://u:hunter2",
        "postgresql://u:hunter2/db",
        "postgresql://h/db?password=hunter2",
        "postgresql://h/db?user=u&password=hunter2&sslmode=require",
        "postgresql://h/db?sslpassword=hunter2",
        "postgresql://h/db?p%61ssword=hunter2",
        "postgresql://h/db?password=x@hunter2",
        "postgresql://h/db?user=u@x&password=hunter2",
        "mysql://u:hunter2@h/db",
        "host=h user=u password=hunter2",
        "host=h user=u PASSWORD = 'hunter2'",
        "Driver={ODBC Driver 18};Server=h;UID=u;PWD=hunter2",
        "u:hunter2@h/db",
        "hunter2",
    ],
)
def test_a_password_is_never_shown(dsn: str) -> None:
    assert SECRET not in redact(dsn)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("'postgresql://u:hunter2@h/d' is no integer", "'postgresql://u:***@h/d' is no integer"),
        ("no integer: mssql+pyodbc://u:a hunter2'@b@h/d", "no integer: mssql+pyodbc://u:***@h/d"),
        ("POSTGRES://u%3Ahunter2@h", "POSTGRES://u%3A***@h"),
        ("postgresql://h/d?password=hunter2&x=1", "postgresql://h/d?password=***&x=1"),
        ("see https://example.com/a:b", "see https://example.com/a:b"),
    ],
)
def test_a_password_of_a_dsn_in_a_message_is_masked(text: str, shown: str) -> None:
    assert mask_passwords(text) == shown


@given(ODD, st.booleans())
@example("p@ss", False)
@example("a:b@c/d", False)
@example("a?b@c", False)
@example("12?3", False)
@example("%zz", False)
def test_an_odd_password_is_never_shown(password: str, encoded: bool) -> None:
    frame = "postgresql://usr:***@hst:5432/dbn"
    written = quote(password, safe="") if encoded else password
    assume(password not in frame)
    assume(written not in frame)
    shown = redact(f"postgresql://usr:{written}@hst:5432/dbn?sslmode=require")
    assert written not in shown
    assert password not in shown
    assert shown in (frame, "postgresql://***")


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
def test_the_driver_in_a_dsn_of_sqlalchemy_does_not_matter(driver: str) -> None:
    dsn = f"postgresql+{driver}://me@h:5433/d"
    assert libpq_dsn(dsn) == "postgresql://me@h:5433/d"
    assert isinstance(engine_of(dsn), PostgreSQL)


@pytest.mark.parametrize(
    "dsn",
    [
        "hunter2",
        "mysql://u:hunter2@h/db",
        "host=h password=hunter2",
        "postgresql:/u:hunter2@h/db",
        "postgresql://u:hunter2@[::1/db",
        "postgresql://u:12?hunter2=1",
        "postgresql://u:hunter2%zz@h/db",
        "postgresql://u:hunter2@h..h/db",
        "postgresql://u:a@hunter2@h/db",
        "postgresql://u:a/hunter2@h/db",
        "postgresql://u:hunter2",
        "postgresql://u:hunter2/db",
    ],
)
def test_a_dsn_that_cannot_be_read_is_refused_before_anything_is_dialled(dsn: str) -> None:
    """libpq's own sentences quote parts of the DSN, so they are never passed on."""
    for refuse in (open_store, migrate):
        with pytest.raises(ConfigError, match=r"postgresql://user:password@host") as raised:
            refuse(dsn)
        assert SECRET not in str(raised.value)


def test_an_option_that_libpq_does_not_know_is_named() -> None:
    says = r"'postgresql://u:\*\*\*@h/db' has the option schema, which libpq does not know"
    with pytest.raises(ConfigError, match=says) as raised:
        libpq_dsn("postgresql://u:hunter2@h/db?sslmode=require&schema=public")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("dsn", "options"),
    [
        ("postgresql://u@h/db", {"url": "jdbc:postgresql://h:5432/db"}),
        ("postgresql://u@[::1]:7/db", {"url": "jdbc:postgresql://[::1]:7/db"}),
        (
            "postgresql://u@one,two:7/db?target_session_attrs=read-write",
            {"url": "jdbc:postgresql://one:5432,two:7/db", "targetServerType": "primary"},
        ),
        (
            "postgresql://u@h/db?sslmode=verify-full&sslrootcert=/ca.pem",
            {"sslmode": "verify-full", "sslrootcert": "/ca.pem"},
        ),
        (
            "postgresql://u@h/db?sslrootcert=system",
            {
                "sslmode": "verify-full",
                "sslfactory": "org.postgresql.ssl.DefaultJavaSSLFactory",
            },
        ),
        (
            "postgresql://u@h/db?require_auth=scram-sha-256&channel_binding=require"
            "&sslnegotiation=direct&sslcert=/c&sslkey=/k&gssencmode=disable",
            {
                "requireAuth": "scram-sha-256",
                "channelBinding": "require",
                "sslNegotiation": "direct",
                "sslcert": "/c",
                "sslkey": "/k",
                "gssEncMode": "disable",
            },
        ),
    ],
)
def test_jdbc_options_have_the_values_of_the_dsn(dsn: str, options: dict[str, str]) -> None:
    assert engine_of(dsn).jdbc_options().items() >= options.items()


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("sslcrl=/crl.pem", "no option sslcrl, which the DSN"),
        ("ssl_min_protocol_version=TLSv1.3", "no option ssl_min_protocol_version"),
        ("requirepeer=postgres", "no option requirepeer"),
        ("host=/run/postgresql", "names a Unix socket"),
    ],
)
def test_what_jdbc_cannot_keep_of_a_dsn_is_refused(option: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        engine_of(f"postgresql://u:{SECRET}@/db?{option}").jdbc_options()
    assert SECRET not in str(raised.value)


def test_the_parameters_of_libpq_that_jdbc_is_given_exist() -> None:
    libpq = {each.keyword.decode() for each in psycopg.pq.Conninfo.get_defaults()}
    assert {*IN_URL, *JDBC_NAMES, *OF_LIBPQ} <= libpq


def test_hosts_and_ports_that_do_not_match_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 hosts and 3 ports"):
        engine_of("postgresql://u@/db?host=a,b&port=1,2,3").jdbc_options()
