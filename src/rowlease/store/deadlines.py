"""The deadlines of calls to the database. The client enforces them for every call.

The server cancels a call shortly before the client's deadline, so that the client learns that
nothing was done. The client gives up only if no answer arrives.
"""

from __future__ import annotations

from datetime import timedelta

#: The default for one call. It covers getting a connection, sending, and receiving the answer.
CALL = timedelta(seconds=30)
#: The longer deadlines of routines that may take long. The server's limit for such a call is longer
#: in proportion.
LONG = {
    "maintain": timedelta(minutes=2),
    "recount": timedelta(minutes=5),
    "begin_load": timedelta(minutes=30),
    "promote": timedelta(hours=2),
}
#: On SQL Server, the longest time that a call waits for one lock of DDL or of somebody's open
#: transaction.
LOCK = timedelta(seconds=10)
#: The deadline of one block of a COPY, or of one fetch of a cursor.
BULK = timedelta(minutes=10)
#: The time after which the server cancels a whole COPY or read.
BULK_AT_SERVER = timedelta(hours=2)
#: The deadline of one statement of `rowlease migrate`.
MIGRATE = timedelta(hours=2)
#: The time that a migration waits for one lock. Meanwhile, other transactions queue behind it.
MIGRATION_LOCK_TIMEOUT = timedelta(milliseconds=500)
#: The time for which a migration is tried again if it does not get a lock.
MIGRATION = timedelta(minutes=10)
#: Seconds to connect to one address of one host of the DSN, including TLS and login.
CONNECT = 10
#: During a call, the server checks at this interval, in milliseconds, that the client is connected.
#: Without the checks, a claim that waits for a lock would be made for a client that has given up.
CLIENT_CHECK_MILLISECONDS = 1000
#: Seconds of silence after which a listening connection is probed.
LISTENER_SILENT = 10.0
#: Seconds that the server has to answer the probe.
LISTENER_ANSWER = 5.0


def deadline_of(routine: str, call_timeout: timedelta) -> timedelta:
    """The deadline of a routine's call in a store whose default is `call_timeout`."""
    return max(call_timeout, LONG.get(routine, call_timeout))


def at_server(timeout: timedelta) -> timedelta:
    """The time after which the server cancels a call whose client waits for `timeout`."""
    return timeout * 0.95


def lock_wait(seconds: float) -> timedelta:
    """The time that a call with a deadline of so many seconds waits for one lock on SQL Server.

    A wait that ends before the deadline is a conflict: nothing was done, and the call is repeated.
    A call that the deadline ends may have taken effect.
    """
    return min(LOCK, timedelta(seconds=seconds) / 3)
