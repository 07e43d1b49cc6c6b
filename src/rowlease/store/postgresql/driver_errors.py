"""Converts errors of PostgreSQL, psycopg and the JDBC driver to codes and a text."""

from __future__ import annotations

import re

import psycopg

from rowlease.errors import RowleaseError
from rowlease.store import deadlines, error_codes
from rowlease.store.error_codes import (
    BY_CODE,
    NO_ANSWER,
    NOT_CONNECTED,
    REFUSED,
    REJECTED,
    ROW_SECURITY,
    Code,
)
from rowlease.store.pool import NotConnected
from rowlease.store.postgresql.connection import Unanswered

Error = psycopg.Error | NotConnected


def our_error(error: Error, where: str, *, migrating: bool = False) -> RowleaseError:
    """The exception for an error of psycopg. `where` is the DSN without the password."""
    if migrating and isinstance(error, Unanswered):
        late = f"within {deadlines.MIGRATE}"
        return error_codes.our_error([NO_ANSWER], late, where, migrating=True)
    codes, text = _read(error)
    return error_codes.our_error(codes, text, where, migrating=migrating)


def driver_error(error: BaseException | None) -> BaseException | None:
    """The driver's error in an error of SQLAlchemy, Django or a driver; None if there is none."""
    found = None
    while error is not None:
        if hasattr(error, "sqlstate") or hasattr(error, "pgcode"):
            found = error
        error = getattr(error, "orig", None) or error.__cause__
    return found


def callers_error(error: BaseException, where: str) -> RowleaseError:
    """The exception for an error of psycopg, psycopg2 or asyncpg on the caller's connection."""
    if isinstance(error, psycopg.Error):
        return our_error(error, where)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    diag = getattr(error, "diag", None)
    if diag is None:  # asyncpg's
        text, hint, detail, constraint = (
            getattr(error, name, None) for name in ("message", "hint", "detail", "constraint_name")
        )
    else:  # psycopg2's
        text, hint, detail = diag.message_primary, diag.message_hint, diag.message_detail
        constraint = diag.constraint_name
    first = str(error).strip().partition("\n")[0]
    codes, text = _meaning(state, text or first, hint, detail, constraint) or (("08000",), first)
    return error_codes.our_error(codes, text, where)


def jdbc_error(state: str, text: str, where: str) -> RowleaseError:
    """The exception for an error of the JDBC driver, from its SQLSTATE and first line."""
    codes, text = _connecting(state, text.removeprefix("ERROR: "))
    # The driver has the name of a constraint only in the text.
    constraints = re.findall(r'violates \w+ constraint "(\w+)"', text)
    return error_codes.our_error([*codes, *constraints], text, where)


def is_read_only(error: psycopg.Error) -> bool:
    """Whether the server is read-only. If so, its host name may by now name another server."""
    return error.sqlstate in error_codes.STANDBY.codes


def is_deadlock(error: BaseException | None) -> bool:
    """Whether the server rolled the transaction back to end a deadlock."""
    return isinstance(error, psycopg.errors.DeadlockDetected)


def is_lock_conflict(error: BaseException | None) -> bool:
    """Whether the transaction was rolled back because it did not get a lock."""
    return is_deadlock(error) or isinstance(error, psycopg.errors.LockNotAvailable)


def _read(error: Error) -> tuple[tuple[Code, ...], str]:
    if isinstance(error, NotConnected):
        return (NOT_CONNECTED,), str(error)
    diag = error.diag
    text = diag.message_primary or str(error).strip().splitlines()[0]
    known = _meaning(
        error.sqlstate, text, diag.message_hint, diag.message_detail, diag.constraint_name
    )
    if known:
        return known
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return _connecting("", text)
    # A DataError means that psycopg cannot send a string.
    return ("22021",) if isinstance(error, psycopg.DataError) else (type(error).__name__,), text


def _meaning(
    state: str | None, text: str, hint: str | None, detail: str | None, constraint: str | None
) -> tuple[tuple[Code, ...], str] | None:
    """The codes and text of an error of the server; None if the error has no SQLSTATE."""
    if hint:
        text = f"{text}; {hint}"
    if constraint and constraint in BY_CODE:
        return (constraint,), text
    if state == "22P02":
        # Only PostgreSQL's own error has a detail. An error that a routine raises has none.
        return (state,) if detail else (REJECTED,), detail or text
    if state == "42501" and "row-level security" in text:
        return (ROW_SECURITY,), text
    return ((state,), text) if state else None


def _connecting(state: str, text: str) -> tuple[tuple[Code, ...], str]:
    """The codes and text of an error. An error before the session begins has no SQLSTATE."""
    _, refused, why = text.partition("FATAL:")
    if not refused:
        return (state or "08000",), text
    why = why.strip()
    if any(phrase in why for phrase in ("too many c", "connection slots are reserved")):
        return ("53300",), why
    if "password authentication failed" in why:
        return ("28P01",), why
    return (state or REFUSED,), why


def unencodable(error: UnicodeEncodeError) -> str:
    """The message for a string that psycopg could not send."""
    letter = error.object[error.start]
    if "\ud800" <= letter <= "\udfff":
        return f"a string has half of a Unicode character: {error}"
    return (
        f"the connection's client_encoding has no {letter!r} ({error.encoding}): "
        "open it with client_encoding=UTF8"
    )
