"""The settings of a session: texts mean the same with any settings of roles and databases."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from rowlease.errors import ConfigError, InvalidRequest, StoreError, StoreUnavailable
from rowlease.model import NewRequest, Outcome
from rowlease.store import Store, migrate, open_store
from rowlease.store.postgresql.connection import CHECK_CLIENT, PINNED
from rowlease.store.postgresql.store import PostgresStore

Sql = Callable[..., list[tuple[Any, ...]]]

#: Pinned besides PINNED: the encoding as a parameter of the connection, two by the deadline.
ALSO_PINNED = {"client_encoding", "statement_timeout", "client_connection_check_interval"}
#: Categories of pg_settings in which no setting changes what a text or a routine means.
HARMLESS_CATEGORIES = (
    "Client Connection Defaults / Other Defaults",  # where files of extensions are
    "Client Connection Defaults / Shared Library Preloading",
    "Connections and Authentication",  # of roles that are made, and TCP
    "Developer Options",  # tracing, and superuser's own risk
    "Error Handling",
    "Lock Management",
    "Query Tuning",  # how, not what; routines rule out the plans that are wrong for them
    "Replication",
    "Reporting and Logging",
    "Resource Usage",  # a limit that is too low is an error
    "Statistics",
    "Vacuuming",
    "Write-Ahead Log",  # how durable, which is the owner's choice
)
#: Settings in the other categories, and why each may be what it is.
HARMLESS = {
    # How people read numbers and messages; nothing of that is parsed.
    "lc_messages", "lc_monetary", "lc_numeric", "lc_time", "client_min_messages",
    "default_text_search_config", "icu_validation_level", "timezone_abbreviations",
    # Limits and refusals of the owner's: an error, and nothing done.
    "default_transaction_read_only", "transaction_read_only", "idle_in_transaction_session_timeout",
    "idle_session_timeout", "lock_timeout", "transaction_timeout", "row_security",
    "restrict_nonsystem_relation_kind", "plpgsql.extra_errors", "plpgsql.check_asserts",
    # The present transaction's, which follow from those of the session.
    "transaction_isolation", "transaction_deferrable",
    # For SERIALIZABLE and READ ONLY together.
    "default_transaction_deferrable",
    # Where and how tables are stored, and to whom roles are granted: the owner's choice.
    "default_table_access_method", "default_tablespace", "default_toast_compression",
    "temp_tablespaces", "createrole_self_grant", "gin_pending_list_limit", "lo_compat_privileges",
    "check_function_bodies",
    # Every name in a statement or a routine is qualified (tests/unit/test_routines.py).
    "search_path", "quote_all_identifiers",
    # Superusers only: they switch triggers off.
    "event_triggers", "session_replication_role", "plpgsql.variable_conflict",
    # No XML is parsed, no quote is escaped by a backslash, warnings are not read, and no result
    # is promised an order without an ORDER BY.
    "xmloption", "backslash_quote", "escape_string_warning", "synchronize_seqscans",
    "plpgsql.extra_warnings", "plpgsql.print_strict_params",
}  # fmt: skip
#: For each setting that is pinned, another value, which a role may well have.
OTHER = {
    "DateStyle": "German, DMY",
    "IntervalStyle": "iso_8601",
    "TimeZone": "Asia/Kolkata",
    "array_nulls": "off",
    "bytea_output": "escape",
    "client_encoding": "LATIN1",
    "client_connection_check_interval": "0",
    "default_transaction_isolation": "serializable",
    "extra_float_digits": "-10",
    "standard_conforming_strings": "off",
    "statement_timeout": "1ms",
    "transform_null_equals": "on",
    "xmlbinary": "hex",
}


@pytest.fixture
def set_role(dsn: str, sql: Sql) -> Iterator[Callable[..., str]]:
    """The DSN of a new role with these settings, which may do everything."""
    name = f"rowlease_test_{secrets.token_hex(6)}"

    def made(**settings: str) -> str:
        sql(f"create role {name} superuser login password 'x'")
        for setting, value in settings.items():
            sql(f"alter role {name} set {setting} = '{value}'")
        url = sa.make_url(dsn).set(username=name, password="x")
        return url.render_as_string(hide_password=False)

    yield made
    sql(f"reassign owned by {name} to current_user")
    sql(f"drop owned by {name}")
    sql(f"drop role {name}")


def values(store: Store, *names: str) -> dict[str, str]:
    assert isinstance(store, PostgresStore)
    with store.connection() as connection:
        rows = connection.execute(
            "select name, current_setting(name) from pg_settings where name = any(%s)",
            (list(names),),
        ).fetchall()
    return dict(rows)


def test_every_setting_is_pinned_or_was_found_harmless(sql: Sql) -> None:
    sql("load 'plpgsql'")
    found = sql("select name, category from pg_settings where context in ('user', 'superuser')")
    pinned = set(PINNED) | ALSO_PINNED
    unknown = {
        name
        for name, category in found
        if name not in pinned | HARMLESS and not category.startswith(HARMLESS_CATEGORIES)
    }
    assert not unknown, "does one of these change what a text or a routine means?"
    assert not pinned & HARMLESS
    assert pinned <= {name for name, _ in found}
    assert set(OTHER) == pinned


def test_what_is_pinned_wins_over_the_role(set_role: Callable[..., str]) -> None:
    with closing(open_store(set_role(**OTHER))) as store:
        found = values(store, *OTHER)
    expected = {
        **PINNED,
        "client_encoding": "UTF8",
        "client_connection_check_interval": "1s",
        "statement_timeout": "28500ms",
    }
    assert found == expected


def test_what_is_pinned_wins_over_the_environment_and_the_dsn_keeps_its_own_options(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PGTZ": "Asia/Kolkata",
        "PGDATESTYLE": "German",
        "PGCLIENTENCODING": "LATIN1",
        "PGOPTIONS": "-c array_nulls=off",
    }.items():
        monkeypatch.setenv(name, value)
    with closing(
        open_store(f"{dsn}?options=-c%20work_mem%3D7MB%20-c%20array_nulls%3Doff")
    ) as store:
        found = values(store, "TimeZone", "DateStyle", "client_encoding", "array_nulls", "work_mem")
    assert found == {
        "TimeZone": "UTC",
        "DateStyle": "ISO, MDY",
        "client_encoding": "UTF8",
        "array_nulls": "on",
        "work_mem": "7MB",
    }


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_texts_arrive_as_they_were_sent_whatever_encoding_the_role_has(
    encoding: str, set_role: Callable[..., str]
) -> None:
    with closing(open_store(set_role(client_encoding=encoding))) as store:
        store.check_schema()
        store.enqueue_many("default", [NewRequest(kind="x", payload='{"price": "5 €"}')])
        (leased,) = store.dequeue("w", ["default"], 1).requests
        store.complete([leased], ['"6 €"'])
        assert (leased.payload, store.find_requests().requests[0].result) == (
            '{"price": "5 €"}',
            '"6 €"',
        )


def test_requests_without_a_dedup_key_are_not_duplicates_of_one_another(
    set_role: Callable[..., str],
) -> None:
    with closing(open_store(set_role(array_nulls="off"))) as store:
        answers = store.enqueue_many(
            "default",
            [NewRequest(kind="x", dedup_key="a"), NewRequest(kind="x"), NewRequest(kind="x")],
        )
    assert [answer.outcome for answer in answers] == [Outcome.OK] * 3


def test_a_database_without_an_encoding_is_migrated_and_used(server_dsn: str) -> None:
    name = f"rowlease_test_{secrets.token_hex(6)}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(
            f"create database {name} encoding SQL_ASCII locale 'C' template template0"
        )
        try:
            dsn = sa.make_url(server_dsn).set(database=name).render_as_string(hide_password=False)
            assert migrate(dsn).changed
            assert not migrate(dsn).changed
            with closing(open_store(dsn)) as store:
                store.check_schema()
                store.enqueue_many("default", [NewRequest(kind="x", payload='{"price": "5 €"}')])
                assert store.find_requests().requests[0].payload == '{"price": "5 €"}'
        finally:
            connection.execute(f"drop database {name} with (force)")


def test_migrate_takes_its_own_settings_along(set_role: Callable[..., str]) -> None:
    assert not migrate(set_role(**OTHER)).changed


def test_a_server_that_cannot_look_whether_its_client_is_there_does_without(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rowlease.store.deadlines.CLIENT_CHECK_MILLISECONDS", -1
    )  # refused, as any value on Windows
    with closing(open_store(dsn)) as store:
        found = values(store, CHECK_CLIENT, "array_nulls")
    assert found == {CHECK_CLIENT: "0", "array_nulls": "on"}


def test_a_callers_connection_whose_encoding_lacks_a_character_is_refused(
    dsn: str, store: Store
) -> None:
    with (
        psycopg.connect(dsn, client_encoding="LATIN1") as connection,
        pytest.raises(InvalidRequest, match=r"client_encoding has no '€'.*UTF8"),
    ):
        store.enqueue_many(
            "default", [NewRequest(kind="x", payload='{"price": "€"}')], connection=connection
        )


# -- what a server runs out of ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("53100", r"has no disk space left: out of it; make room$"),
        ("53200", r"is out of memory: out of it; make room$"),
        ("53400", r"has reached a limit: out of it; make room$"),
    ],
)
def test_the_error_names_the_resource_that_the_server_lacks(
    state: str, says: str, store: Store, sql: Sql
) -> None:
    sql(
        "create function rowlease.runs_out() returns trigger language plpgsql as $$ begin "
        f"raise 'out of it' using errcode = '{state}', hint = 'make room'; end $$"
    )
    sql(
        "create trigger runs_out before insert on rowlease.queue"
        " for each row execute function rowlease.runs_out()"
    )
    with pytest.raises(
        StoreUnavailable, match=rf"^the database at postgresql://.* {says}"
    ) as printed:
        store.enqueue_many("default", [NewRequest(kind="x")])
    assert "check the DSN" not in str(printed.value)
    assert printed.value.transient
    assert not printed.value.maybe_done


def test_a_server_that_takes_no_more_connections_is_not_called_unreachable(
    set_role: Callable[..., str], sql: Sql
) -> None:
    dsn = set_role()
    user = sa.make_url(dsn).username
    sql(f"alter role {user} nosuperuser connection limit 0")
    for call in (migrate, lambda dsn: open_store(dsn).depth()):
        with pytest.raises(
            StoreError, match="accepts no more connections: too many connect"
        ) as printed:
            call(dsn)
        assert printed.value.transient


def test_a_server_that_is_too_old_gets_one_sentence_at_the_first_call(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlease.store.postgresql.connection.MIN_MAJOR", 99)
    sentence = r"is PostgreSQL \d\d; rowlease needs PostgreSQL 99 or newer"
    with pytest.raises(ConfigError, match=sentence):
        migrate(dsn)
    with closing(open_store(dsn)) as store, pytest.raises(ConfigError, match=sentence):
        store.depth()
