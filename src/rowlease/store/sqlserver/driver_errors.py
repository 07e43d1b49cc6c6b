"""Converts errors of SQL Server, pyodbc and Microsoft's JDBC driver to codes and a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rowlease.errors import RowleaseError
from rowlease.store import error_codes
from rowlease.store.error_codes import (
    BY_CODE,
    CONFLICT,
    LOST,
    NO_ANSWER,
    NOT_CONNECTED,
    SECONDARY,
    Code,
)
from rowlease.store.pool import NotConnected

#: The constraints and indexes whose names are codes in `error_codes.ERROR_TEXTS`.
NAMED_CONSTRAINTS = ("queue_pkey", "queue_due", "queue_group_in_flight", "names_end_in_no_blank")
#: The errors whose text names a constraint or index.
ABOUT_A_NAME = (547, 2601, 2627)
#: The errors after which Azure's documentation tells clients to reconnect.
SERVER_BUSY = {4060, 10928, 10929, 40143, 40197, 40501, 40613, 49918, 49919, 49920}
#: The errors of a call for which the server has no memory, no memory for locks, or no disk space.
EXHAUSTED = {701, 802, 1101, 1105, 1204, 8628, 8645, 8651, 9002, 40544}
#: The error of a transaction that was rolled back to end a deadlock.
DEADLOCK = 1205
#: The error of a statement that waited too long for a lock.
LOCK_TIMEOUT = 1222
#: One record of a message: `[SQLSTATE] [vendor][driver]...text (number) (ODBC function)`.
RECORD = re.compile(
    r"\[(\w{5})\] ((?:\[[^\]]*\])*)(.*?) \((-?\d+)\)(?: \((SQL\w+)\))?(?=; \[\w{5}\] |$)", re.DOTALL
)
#: English texts of some errors, and their numbers. Microsoft's JDBC driver reports an error of a
#: bulk copy by its text alone, without SQLSTATE and number.
TEXTS = {
    "deadlock victim": DEADLOCK,
    "Lock request time out period exceeded": LOCK_TIMEOUT,
    "permission was denied": 229,
    "transaction log for database": 9002,
    "Could not allocate space": 1105,
    "would be truncated": 2628,
    "kind must be a task name": 51006,
    "a name or key ends in a blank": 51019,
    "it must be 0 or more, and bigger is more urgent": 51003,
    "Store large data elsewhere": 51004,
    "a payload, result or header is not JSON": 51011,
    "of a load is over": 51014,
    "headers must be a JSON object": 51016,
    "nothing was done, call again": 51012,
    "Connection reset": 64,
    "connection is closed": 64,
}


#: The texts of errors in all languages of the server.
MESSAGES = "select m.message_id, m.text from sys.messages as m where m.message_id in ({})"
#: Where a text has a value: `%.*ls` in English, and `%1!` in other languages.
VALUE = re.compile(r"%(?:\d+!|[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:I64|ll|l|h)?[a-zA-Z])")


class OdbcError(NamedTuple):
    """An error of the ODBC driver or the server, parsed from an exception of pyodbc.

    Attributes:
        state: the SQLSTATE.
        code: the server's error number, or 0.
        text: the message without codes.
        in_connecting: whether the connection could not be opened, so that nothing was sent.
    """

    state: str
    code: int
    text: str
    in_connecting: bool

    @classmethod
    def read(cls, error: BaseException) -> OdbcError:
        """Parse an exception of pyodbc."""
        state = str(error.args[0]) if error.args else ""
        message = str(error.args[-1]) if error.args else ""
        records = [OdbcError._record(match) for match in RECORD.finditer(message)]
        if not records:
            return cls(state, 0, message.strip() or type(error).__name__, False)
        connecting = "(SQLDriverConnect)" in message
        # The error of a failed login has several records. The first with a number has the reason.
        first = next((found for found in records if found.code), records[0])
        return first._replace(in_connecting=connecting)

    @staticmethod
    def _record(match: re.Match[str]) -> OdbcError:
        state, _, text, code, _ = match.groups()
        return OdbcError(state, int(code), text.strip(), False)

    @property
    def is_disconnect(self) -> bool:
        """Whether the connection cannot be used any more."""
        lost = self.state.startswith("08") or self.state in ("HYT01", "01002", "HY010")
        return lost or self.is_late or self.code in (*LOST.codes, *SECONDARY.codes)

    @property
    def is_late(self) -> bool:
        """Whether a statement exceeded its timeout."""
        return self.state == "HYT00" and not self.in_connecting

    @property
    def was_rolled_back(self) -> bool:
        """Whether the server rolled the transaction back, so that the call can be repeated."""
        return self.code in CONFLICT.codes

    @property
    def codes(self) -> tuple[Code, ...]:
        """The codes to look up in the table of errors, the most specific first."""
        if self.is_late:
            return (NO_ANSWER,)
        if self.state == "01000" and "Can't open lib" in self.text:
            return ("IM003",)
        if self.code == 0:
            return (self.state,)
        names = NAMED_CONSTRAINTS if self.code in ABOUT_A_NAME else ()
        return (*(name for name in names if name in self.text), self.code, self.state)


def is_lock_conflict(error: BaseException | None) -> bool:
    """Whether the transaction was rolled back because it did not get a lock."""
    return error is not None and OdbcError.read(error).code in (DEADLOCK, LOCK_TIMEOUT)


def our_error(error: BaseException, where: str, *, migrating: bool = False) -> RowleaseError:
    """The exception for an error of pyodbc. `where` is the DSN without the password."""
    if isinstance(error, NotConnected):
        return error_codes.our_error((NOT_CONNECTED,), str(error), where)
    return _our_error(OdbcError.read(error), where, migrating)


def jdbc_error(
    state: str, number: int, text: str, where: str, messages: Callable[[str], Sequence[Any]]
) -> RowleaseError:
    """The exception for an error of the JDBC driver, from its codes and first line.

    Args:
        messages: executes MESSAGES, and returns its rows; it is called for a text without codes.
    """
    if not state and not number:
        number = next((TEXTS[said] for said in TEXTS if said in text), 0)
        number = number or number_of(text, messages(messages_query()))
    return _our_error(OdbcError(state, number, text, in_connecting=False), where)


def messages_query() -> str:
    """MESSAGES, for the errors of the server that `error_codes` has."""
    known = sorted(code for code in BY_CODE if isinstance(code, int) and code < 50000)
    return MESSAGES.format(", ".join(map(str, known)))


def number_of(text: str, messages: Sequence[Any]) -> int:
    """The number of the error with a text, in any language; 0 if no message is like it."""
    for number, message in sorted(messages, key=lambda row: -len(VALUE.sub("", row[1]))):
        pattern = ".*".join(map(re.escape, VALUE.split(message)))
        if re.search(pattern, text, re.DOTALL):
            return int(number)
    return 0


def _our_error(found: OdbcError, where: str, migrating: bool = False) -> RowleaseError:
    text = "in time" if found.is_late else found.text
    return error_codes.our_error(found.codes, text, where, migrating=migrating)
