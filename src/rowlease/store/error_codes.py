"""One table that maps the errors of all engines and drivers to exceptions.

A driver supplies the codes and the text of an error. `our_error` finds the class and the message.

Codes: https://www.postgresql.org/docs/current/errcodes-appendix.html,
https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
and sql/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rowlease.errors import (
    AccessDenied,
    ConfigError,
    InvalidRequest,
    LoadDiffers,
    LoadLost,
    QueueFull,
    RoutineError,
    RowleaseError,
    SchemaMismatch,
    StoreConflict,
    StoreError,
    StoreTimeout,
    StoreUnavailable,
)
from rowlease.model import DUE_RANGE
from rowlease.store.routines import roles_of

#: A code that is a string is an SQLSTATE, the class of SQLSTATEs (their first two characters), the
#: name of a constraint, or one of the names below. An integer is an error number of SQL Server.
Code = str | int
#: There is no connection.
NOT_CONNECTED = "not connected"
#: No answer came before the deadline.
NO_ANSWER = "no answer"
#: The server refused the connection.
REFUSED = "refused"
#: The schema belongs to somebody else, whom the text names.
FOREIGN_SCHEMA = "foreign schema"
#: A policy of row level security refuses or hides rows.
ROW_SECURITY = "row security"
#: A routine rejected the request, with its own message.
REJECTED = "rejected"


class Entry(NamedTuple):
    """Errors with the same meaning.

    Attributes:
        error: the class of the exception.
        codes: the codes of these errors.
        sentence: the message. `{text}` is the database's message, and `{where}` names the database.
        migrating: the message for callers of `migrate`; None means a general one.
    """

    error: type[RowleaseError]
    codes: tuple[Code, ...]
    sentence: str
    migrating: str | None = None


#: The transaction was rolled back, and the same call may succeed: a deadlock, a lock timeout, a
#: serialization failure, a cancelled query.
CONFLICT = Entry(
    StoreConflict,
    (
        "40", "55P03", "57014", 601, 669, 1203, 1205, 1222, 2021, 2816, 3948, 3950, 3960, 3961,
        3966, 10922, 20041, 22335, 41301, 41302, 41305, 41325, 41839, 51012,
    ),
    "{text}",
    "{text} at {where}; run `rowlease migrate` again",
)  # fmt: skip
#: The server is read-only. After a failover, another server may have the same name.
STANDBY = Entry(
    StoreUnavailable,
    ("25006",),
    "the server at {where} is read-only ({text}); it may be a standby: in the DSN, name the "
    "primary, or name all servers and set target_session_attrs=read-write",
)
SECONDARY = Entry(
    StoreUnavailable,
    (976, 978, 982, 983, 3906),
    "the server at {where} is a secondary, or read-only: {text}; name the listener of its "
    "availability group in the DSN",
)
#: The connection failed, or the server is stopping, starting or failing. On SQL Server, also a
#: missing database: it may be the one that is failing over.
LOST = Entry(
    StoreUnavailable,
    (
        "08", "57", "58", "HYT00", "HYT01",
        2, 20, 53, 64, 121, 233, 596, 615, 921, 922, 926, 927, 941, 942, 952, 988, 997, 4060, 4064,
        4221, 6005, 10053, 10054, 10060, 10061, 11001, 17142, 17187, 17197, 17889, 17892, 18401,
        35278, 40143, 40189, 40197, 40501, 40549, 40550, 40551, 40552, 40553, 40613, 40615, 40642,
        40648, 40675, 42108, 42109, 49918, 49919, 49920, 49977, 49983,
    ),
    "cannot reach the database at {where}: {text}; check the DSN and that the server is up",
)  # fmt: skip
LOGIN = (
    "the database at {where} refuses the login: {text}; check the user and the password of the DSN"
)
DENIED = "{text} at {where}; grant its user {roles}"
ROLES = ["rowlease_producer", "rowlease_worker", "rowlease_operator", "rowlease_reader"]

ERROR_TEXTS = (
    CONFLICT,
    STANDBY,
    SECONDARY,
    # Errors of routines already have a message.
    Entry(QueueFull, ("RL005", 51005), "{text}"),
    Entry(LoadLost, ("RL014", 51014), "{text}"),
    Entry(LoadDiffers, ("RL008", 51008), "{text}"),
    Entry(RoutineError, ("RL001", 51001), "{text}"),
    Entry(ConfigError, ("25000",), "{text}"),
    Entry(
        InvalidRequest,
        (
            REJECTED, "RL002", "RL003", "RL004", "RL006", "RL007", "RL009", "RL010",
            "RL013", "RL015", "RL016", "RL017",
            51002, 51003, 51004, 51006, 51007, 51009, 51010, 51011, 51013, 51015, 51016, 51017,
            51019,
        ),
        "{text}",
    ),
    Entry(
        StoreError,
        ("queue_pkey",),
        "the next request id is in use already ({text}): the sequence of ids is behind, as after a "
        "restore or a replication that copies no sequences; `rowlease migrate` advances it",
    ),
    Entry(
        InvalidRequest,
        ("lane_priority",),
        "a priority is below 0 or above 255; it must be 0 or more, and bigger is more urgent",
    ),
    Entry(InvalidRequest, ("lane_kind",), "kind must be a task name of 1 to 200 characters"),
    Entry(
        InvalidRequest,
        ("lane_payload",),
        "a payload has over 1048576 bytes; store large data elsewhere and enqueue a reference",
    ),
    Entry(
        InvalidRequest,
        ("lane_payload_object",),
        "payload must be a JSON object of arguments by name, without half of a surrogate pair "
        "(\\ud800 to \\udfff)",
    ),
    Entry(
        InvalidRequest,
        ("lane_headers",),
        "headers must be a JSON object of strings, of at most 8192 bytes",
    ),
    Entry(
        InvalidRequest,
        ("names_end_in_no_blank",),
        "a name or key ends in a blank; leave the blank out",
    ),
    Entry(
        InvalidRequest,
        ("22P02", 13608, 13609, 13610),
        "a payload, result or header is not JSON: {text}",
    ),
    Entry(
        InvalidRequest,
        ("22021", "22P05"),
        "a string has a character that the database refuses: {text}",
    ),
    Entry(
        InvalidRequest,
        (
            "22003", "22008",
            220, 232, 241, 242, 244, 248, 295, 517, 535, 8114, 8115, 8134, 9807,
        ),
        "a number, time or delay is out of range: {text}",
    ),
    # Mistakes of callers in SQL, against which the client checks its own arguments.
    Entry(InvalidRequest, ("22004", "23502", 515), "a value is missing: {text}"),
    Entry(InvalidRequest, ("2201W", "2201X", 127, 10742), "a limit is below 0: {text}"),
    Entry(InvalidRequest, ("21000",), "a name or key is given twice: {text}"),
    Entry(InvalidRequest, ("2202E",), "an array has more than one dimension: {text}"),
    Entry(InvalidRequest, ("queue_due", "lane_due"), DUE_RANGE),
    Entry(
        InvalidRequest,
        ("22001", 2628, 8152),
        "a name or key is too long: {text}; a queue's name has at most 100 characters, a kind or a "
        "group key 200, a dedup key 400",
    ),
    Entry(
        StoreConflict,
        ("queue_group_in_flight",),
        "two requests of one group were claimed at once",
    ),
    # It has the SQLSTATE of missing rights, but no grant would help.
    Entry(
        AccessDenied,
        (ROW_SECURITY,),
        "{text} at {where}: somebody has switched on row level security for a table of rowlease, "
        "which hides requests from its routines; `rowlease migrate --check` names the table: "
        "alter table ... disable row level security, no force row level security",
    ),
    Entry(
        AccessDenied,
        ("42501",),
        DENIED,
        "{text} at {where}; `rowlease migrate` needs a user that may create a schema and roles. If "
        "another database of the server already has rowlease, run there as a superuser: grant "
        "rowlease_owner to THIS_USER with admin option",
    ),
    Entry(
        AccessDenied,
        (229, 230, 262, 297, 300, 916, 2759, 15151, 15247, 15406),
        DENIED,
        "{text} at {where}; `rowlease migrate` needs a user that may create a schema, roles, "
        "tables and procedures, as db_owner may",
    ),
    Entry(
        ConfigError,
        (1934,),
        "{text}; begin the session with: set quoted_identifier, ansi_warnings, ansi_padding, "
        "arithabort, concat_null_yields_null on; set numeric_roundabort off",
    ),
    # A login that is refused stays refused: the password is wrong, or it is locked, disabled or
    # expired. A worker that had been let in before tries for another minute.
    Entry(
        AccessDenied,
        ("28P01", 18452, 18456, 18470, 18486, 18487, 18488),
        LOGIN,
        LOGIN,
    ),
    # Whoever owns the schema decides what its routines do, with the rights of their caller.
    Entry(
        ConfigError,
        (FOREIGN_SCHEMA, 51020),
        "the schema rowlease at {where} belongs to {text}, and not to rowlease_owner, to whom "
        "`rowlease migrate` gives it; so nothing in it was called. If you know that it is from "
        "`rowlease migrate`, make rowlease_owner its owner; if not, drop it",
    ),
    # Before the first migration, somebody has put something into the schema.
    Entry(SchemaMismatch, ("42P06", 51018), "{text}", "{text}, at {where}; nothing was changed"),
    # A routine, table, schema, column or unique index is missing, or a routine has other
    # parameters.
    Entry(
        SchemaMismatch,
        ("42883", "42P01", "42P10", "3F000", "42703", 201, 207, 208, 2760, 2812, 8144, 8145),
        "the database at {where} lacks an object of this version ({text}); run `rowlease migrate`",
    ),
    Entry(
        ConfigError,
        ("IM002", "IM003"),
        "the ODBC driver for SQL Server cannot be loaded: {text}; install rowlease[sqlserver], or "
        "Microsoft's package msodbcsql18",
    ),
    Entry(
        StoreTimeout,
        (NO_ANSWER,),
        "the database at {where} did not answer {text}; it is not known whether the call took "
        "effect",
        "the database at {where} did not answer {text}; run `rowlease migrate` again",
    ),
    Entry(
        StoreUnavailable,
        ("53100", 1101, 1105, 9002, 40544),
        "the database at {where} has no disk space left: {text}",
    ),
    Entry(
        StoreUnavailable,
        (1204,),
        "the database at {where} has no memory for more locks: {text}; give the server more "
        "memory, or split a large load into several load ids",
    ),
    Entry(
        StoreUnavailable,
        ("53200", 701, 802, 8628, 8645, 8651),
        "the database at {where} is out of memory: {text}",
    ),
    Entry(
        StoreUnavailable,
        ("53300", 10928, 10929, 10930, 10936, 17189, 17300, 17809),
        "the database at {where} accepts no more connections: {text}",
    ),
    Entry(StoreUnavailable, ("53",), "the database at {where} has reached a limit: {text}"),
    Entry(
        StoreUnavailable,
        (REFUSED, "28", "3D"),
        "the database at {where} refuses the connection: {text}",
    ),
    Entry(StoreUnavailable, (NOT_CONNECTED,), "cannot reach the database at {where}: {text}"),
    LOST,
)  # fmt: skip
BY_CODE = {code: entry for entry in ERROR_TEXTS for code in entry.codes}


def our_error(
    codes: Sequence[Code], text: str, where: str, *, migrating: bool = False
) -> RowleaseError:
    """The exception for an error of a database.

    Args:
        codes: the codes of the error, the most specific first. The first code that the table has
            decides.
        text: the database's message.
        where: the DSN without the password.
        migrating: whether the caller is `migrate`.
    """
    entry = next(filter(None, map(_entry, codes)), None)
    sentence = entry and _sentence(entry, migrating)
    if entry is None or sentence is None:
        changed = f" at {where}; nothing was changed" if migrating else ""
        return StoreError(f"{text} ({codes[0]}){changed}")
    return entry.error(sentence.format(text=text, where=where, roles=_roles(text)))


def _roles(text: str) -> str:
    """The roles that may call the routine which the database's message names; else all roles."""
    named = re.search(r"(?:function|procedure|object) '?(\w+)", text)
    *most, last = (named and roles_of(named[1])) or ROLES
    return f"{', '.join(most)} or {last}" if most else last


def timeout_error(seconds: float, where: str) -> RowleaseError:
    """The exception for a call that was not answered before its deadline."""
    return our_error((NO_ANSWER,), f"within {seconds:.3g} s", where)


def _entry(code: Code) -> Entry | None:
    if code in BY_CODE or isinstance(code, int):
        return BY_CODE.get(code)
    return BY_CODE.get(code[:2])  # an SQLSTATE's class


def _sentence(entry: Entry, migrating: bool) -> str | None:
    """The message; None means the general message of `migrate`."""
    if not migrating or issubclass(entry.error, ConfigError):
        return entry.sentence
    if issubclass(entry.error, StoreUnavailable):
        return entry.migrating or entry.sentence
    return entry.migrating
