"""What rowlease calls the errors of databases, whichever driver brings them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from rowlease.errors import (
    AccessDenied,
    InvalidRequest,
    RowleaseError,
    SchemaMismatch,
    StoreConflict,
    StoreError,
    StoreTimeout,
    StoreUnavailable,
)
from rowlease.store import engine_of
from rowlease.store.error_codes import (
    BY_CODE,
    CONFLICT,
    ERROR_TEXTS,
    NO_ANSWER,
    ROLES,
    our_error,
    timeout_error,
)
from rowlease.store.postgresql import driver_errors as postgresql
from rowlease.store.postgresql.connection import Unanswered

DSN = "postgresql://u:hunter2@h/db"
WHERE = "postgresql://u:***@h/db"


def psycopg_error(state: str, text: str = "x", constraint: str | None = None) -> psycopg.Error:
    """As a server's answer makes it."""

    class Answered(psycopg.errors.lookup(state) if state else psycopg.OperationalError):  # type: ignore[misc]
        diag = SimpleNamespace(
            message_primary=text,
            message_hint=None,
            message_detail=None,
            constraint_name=constraint,
        )

    error = Answered(text)
    assert isinstance(error, psycopg.Error)
    return error


def test_every_code_is_in_the_table_once() -> None:
    assert len(BY_CODE) == sum(len(entry.codes) for entry in ERROR_TEXTS)


def test_the_engines_own_codes_mean_the_same(repository: Path) -> None:
    listed = re.findall(r"^\| `(RL\d+)` ", (repository / "sql/README.md").read_text(), re.M)
    assert len(listed) > 10
    for code in listed:
        assert BY_CODE[code] is BY_CODE[51000 + int(code[2:])], code


@pytest.mark.parametrize(
    ("state", "kind", "sentence"),
    [
        ("22021", InvalidRequest, "a string has a character that the database refuses: x"),
        ("22003", InvalidRequest, "a number, time or delay is out of range: x"),
        ("23502", InvalidRequest, "a value is missing: x"),
        ("22004", InvalidRequest, "a value is missing: x"),
        ("2201W", InvalidRequest, "a limit is below 0: x"),
        ("21000", InvalidRequest, "a name or key is given twice: x"),
        ("2202E", InvalidRequest, "an array has more than one dimension: x"),
        ("22001", InvalidRequest, "a name or key is too long: x; a queue's name has at most "
         "100 characters, a kind or a group key 200, a dedup key 400"),
        ("42501", AccessDenied, f"x at {WHERE}; grant its user rowlease_producer, rowlease_worker, "
         "rowlease_operator or rowlease_reader"),
        ("42883", SchemaMismatch, f"the database at {WHERE} lacks an object of this version (x); "
         "run `rowlease migrate`"),
        ("42703", SchemaMismatch, f"the database at {WHERE} lacks an object of this version (x); "
         "run `rowlease migrate`"),
        ("40P01", StoreConflict, "x"),
        ("40001", StoreConflict, "x"),
        ("55P03", StoreConflict, "x"),
        ("57014", StoreConflict, "x"),
        ("25006", StoreUnavailable, f"the server at {WHERE} is read-only (x); it may be a standby: "
         "in the DSN, name the primary, or name all servers and set "
         "target_session_attrs=read-write"),
        ("53400", StoreUnavailable, f"the database at {WHERE} has reached a limit: x"),
        ("57P01", StoreUnavailable, f"cannot reach the database at {WHERE}: x; check the DSN and "
         "that the server is up"),
        ("54001", StoreError, "x (54001)"),
        ("55006", StoreError, "x (55006)"),
        ("23514", StoreError, "x (23514)"),
    ],
)  # fmt: skip
def test_psycopg_and_jdbc_have_the_same_message(
    state: str, kind: type[RowleaseError], sentence: str
) -> None:
    for found in (
        postgresql.our_error(psycopg_error(state), WHERE),
        engine_of(DSN).jdbc_error(state, 0, "ERROR: x"),
    ):
        assert (type(found), str(found)) == (kind, sentence)


@pytest.mark.parametrize(
    ("constraint", "kind"),
    [("queue_due", InvalidRequest), ("queue_group_in_flight", StoreConflict), ("x", StoreError)],
)
def test_a_broken_constraint_may_have_its_own_meaning(
    constraint: str, kind: type[RowleaseError]
) -> None:
    assert type(postgresql.our_error(psycopg_error("23514", "x", constraint), WHERE)) is kind


@pytest.mark.parametrize(
    ("state", "text", "sentence"),
    [
        ("", "failed: FATAL:  no such user", f"the database at {WHERE} refuses the connection: no "
         "such user"),
        ("28P01", 'failed: FATAL:  password authentication failed for user "a"', f"the database at "
         f'{WHERE} refuses the login: password authentication failed for user "a"; check the user '
         "and the password of the DSN"),
        ("", "FATAL: sorry, too many clients already", f"the database at {WHERE} accepts no more "
         "connections: sorry, too many clients already"),
        ("", "server closed the connection", f"cannot reach the database at {WHERE}: server closed "
         "the connection; check the DSN and that the server is up"),
    ],
)  # fmt: skip
def test_the_error_says_why_there_is_no_connection(state: str, text: str, sentence: str) -> None:
    for found in (
        postgresql.our_error(psycopg.OperationalError(text), WHERE),
        engine_of(DSN).jdbc_error(state, 0, text),
    ):
        kind = AccessDenied if "refuses the login" in sentence else StoreUnavailable
        assert (type(found), str(found)) == (kind, sentence)


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("permission denied for function find_requests", "rowlease_operator or rowlease_reader"),
        ("permission denied for function enqueue", "rowlease_producer"),
        ("The EXECUTE permission was denied on the object 'fail', database 'x'", "rowlease_worker"),
        ("permission denied for table queue", ", ".join(ROLES[:-1]) + f" or {ROLES[-1]}"),
    ],
)
def test_a_denied_call_names_the_roles_that_may_make_it(text: str, roles: str) -> None:
    for code in ("42501", 229):
        assert str(our_error([code], text, WHERE)) == f"{text} at {WHERE}; grant its user {roles}"


def test_a_jdbc_error_of_sql_server_is_read_by_its_number() -> None:
    found = engine_of("mssql://u:hunter2@h/db").jdbc_error("S0001", 229, "denied")
    assert type(found) is AccessDenied
    assert str(found).startswith("denied at mssql://u:***@h/db; grant its user rowlease_producer")
    late = engine_of("mssql://u:hunter2@h/db").jdbc_error("HYT00", 0, "The query has timed out.")
    assert type(late) is StoreTimeout
    assert "did not answer in time" in str(late)


def test_a_call_that_was_given_up_says_after_how_long() -> None:
    assert str(timeout_error(0.4999, WHERE)) == (
        f"the database at {WHERE} did not answer within 0.5 s; "
        "it is not known whether the call took effect"
    )


@pytest.mark.parametrize(
    ("code", "kind", "ends"),
    [
        ("42501", AccessDenied, "grant rowlease_owner to THIS_USER with admin option"),
        (262, AccessDenied, "as db_owner may"),
        ("40P01", StoreConflict, f"x at {WHERE}; run `rowlease migrate` again"),
        (1205, StoreConflict, f"x at {WHERE}; run `rowlease migrate` again"),
        ("53300", StoreUnavailable, f"the database at {WHERE} accepts no more connections: x"),
        (NO_ANSWER, StoreTimeout, "did not answer x; run `rowlease migrate` again"),
        # Advice for callers does not help whoever runs the migration.
        ("42P01", StoreError, f"x (42P01) at {WHERE}; nothing was changed"),
        ("RL003", StoreError, f"x (RL003) at {WHERE}; nothing was changed"),
        (547, StoreError, f"x (547) at {WHERE}; nothing was changed"),
    ],
)
def test_a_migration_has_its_own_messages(
    code: str | int, kind: type[RowleaseError], ends: str
) -> None:
    found = our_error([code], "x", WHERE, migrating=True)
    assert type(found) is kind
    assert str(found).endswith(ends)


def test_a_migration_that_was_given_up_says_after_how_long() -> None:
    found = postgresql.our_error(Unanswered("no answer in time"), WHERE, migrating=True)
    assert "did not answer within 2:00:00; run" in str(found)


def test_a_text_with_braces_is_passed_on_as_it_is() -> None:
    assert str(our_error(CONFLICT.codes, "{where}", WHERE)) == "{where}"


@pytest.mark.parametrize(
    ("state", "conflicts"), [("40P01", True), ("55P03", True), ("40001", False), ("57014", False)]
)
def test_a_migration_is_tried_again_if_it_did_not_get_a_lock(state: str, conflicts: bool) -> None:
    assert postgresql.is_lock_conflict(psycopg_error(state)) is conflicts
