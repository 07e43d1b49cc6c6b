"""What rowlease calls the errors of SQL Server and its driver: the same sentences as PostgreSQL's.

Numbers: https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rowlease.errors import (
    AccessDenied,
    ConfigError,
    InvalidRequest,
    QueueFull,
    RoutineError,
    RowleaseError,
    SchemaMismatch,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)

#: Numbers of our own, the RL001... of PostgreSQL plus 51,000 (sql/README.md).
BAD_ARGUMENT, QUEUE_FULL = 51001, 51005
INVALID_REQUEST = {51002, 51003, 51004, 51006, 51007, 51008, 51009, 51010, 51011, 51013}
#: OPENJSON and its kin met text that is not JSON.
NOT_JSON = {13609, 13608, 13610}
#: An overflow, or a text that is no time of the calendar.
OUT_OF_RANGE = {220, 232, 241, 242, 244, 248, 517, 535, 8115, 8114, 8134, 295, 9807}
TOO_LONG = {8152, 2628}
DENIED = {229, 230, 262, 297, 300, 916, 15151, 15247}
#: No such object, procedure, schema or column; too few or too many arguments.
OTHER_SCHEMA = {208, 2812, 2760, 207, 201, 8144, 8145}
#: Deadlock victim, lock timeout, update conflict, no lock left, a named lock that was not had:
#: XACT_ABORT has rolled all back.
ROLLED_BACK = {1205, 1222, 3960, 1204, 51012}
DUPLICATE = {2601, 2627}
#: Login failed, no such database, the server stops or starts, or has no resources.
UNREACHABLE = {
    2, 53, 64, 121, 233, 596, 4060, 4064, 6005, 10053, 10054, 10060, 10061, 10928, 10929, 17142,
    17187, 17197, 17809, 17892, 18401, 18452, 18456, 18470, 18486, 18487, 18488, 40143, 40197,
    40501, 40613, 40615, 49918, 49919, 49920,
}  # fmt: skip
#: A database that takes no writes, or no sessions, because it is a secondary of its availability
#: group; after a failover another server is behind the same name.
SECONDARY = {976, 978, 982, 983, 3906}
#: Those after which Azure's documentation asks clients to connect again at once.
SERVER_BUSY = {4060, 10928, 10929, 40143, 40197, 40501, 40613, 49918, 49919, 49920}
#: `[SQLSTATE] [who][says]...the sentence (number) (the ODBC function)`, of possibly several.
RECORD = re.compile(
    r"\[(\w{5})\] ((?:\[[^\]]*\])*)(.*?) \((-?\d+)\)(?: \((SQL\w+)\))?(?=; \[\w{5}\] |$)", re.DOTALL
)


class Said(NamedTuple):
    """What pyodbc's exception says.

    Attributes:
        state: SQLSTATE.
        code: the server's number, or 0.
        text: the sentence alone.
        in_connecting: it came before anything was sent.
    """

    state: str
    code: int
    text: str
    in_connecting: bool

    @classmethod
    def by(cls, error: BaseException) -> Said:
        """Read one of pyodbc's errors."""
        state = str(error.args[0]) if error.args else ""
        message = str(error.args[-1]) if error.args else ""
        records = [Said._record(match) for match in RECORD.finditer(message)]
        if not records:
            return cls(state, 0, message.strip() or type(error).__name__, False)
        connecting = "(SQLDriverConnect)" in message
        # A failed login comes with the database that could not be opened; a THROW stands alone.
        first = next((said for said in records if said.code), records[0])
        return first._replace(in_connecting=connecting)

    @staticmethod
    def _record(match: re.Match[str]) -> Said:
        state, _, text, code, _ = match.groups()
        return Said(state, int(code), text.strip(), False)

    @property
    def is_disconnect(self) -> bool:
        """Is the connection of no use any more?"""
        lost = self.state.startswith("08") or self.state in ("HYT01", "01002", "HY010")
        return lost or self.code in SECONDARY


def our_error(said: Said, where: str) -> RowleaseError:
    """The exception for an error at a database; `where` names it without a password."""
    code, text = said.code, said.text
    if code == QUEUE_FULL:
        return QueueFull(text)
    if code in INVALID_REQUEST:
        return InvalidRequest(text)
    if code == BAD_ARGUMENT:
        return RoutineError(text)
    if code in NOT_JSON:
        return InvalidRequest(f"the payload or result is not JSON: {text}")
    if code in OUT_OF_RANGE or said.state in ("22003", "22008") or _broke(said, "queue_due"):
        return InvalidRequest(f"a number, time or delay is out of range: {text}")
    if code in TOO_LONG or said.state == "22001":
        return InvalidRequest(f"a name or key is too long: {text}")
    if code in DENIED:
        return AccessDenied(
            f"{text} at {where}; grant its user rowlease_producer, rowlease_worker, "
            "rowlease_operator or rowlease_reader"
        )
    if code in OTHER_SCHEMA:
        return SchemaMismatch(
            f"the database at {where} lacks what this version calls ({text}); "
            "run `rowlease migrate`"
        )
    if code in ROLLED_BACK:
        return StoreConflict(text)
    if code in DUPLICATE and "queue_group_in_flight" in text:
        return StoreConflict("two requests of one group were claimed at once")
    if (said.state == "01000" and "Can't open lib" in text) or said.state in ("IM002", "IM003"):
        return ConfigError(
            f"the ODBC driver for SQL Server cannot be loaded: {text}; install "
            "rowlease[sqlserver], or Microsoft's package msodbcsql18"
        )
    if code in SECONDARY:
        return StoreUnavailable(
            f"the server at {where} is a secondary, or read-only: {text}; name the listener of its "
            "availability group in the DSN"
        )
    if code in UNREACHABLE or said.state[:2] in ("08", "28") or said.state in ("HYT00", "HYT01"):
        return StoreUnavailable(
            f"cannot reach the database at {where}: {text}; check the DSN and that the server is up"
        )
    return StoreError(f"{text} ({code or said.state})")


def _broke(said: Said, constraint: str) -> bool:
    return said.code == 547 and constraint in said.text
