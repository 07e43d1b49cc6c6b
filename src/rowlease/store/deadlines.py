"""How long a call to the database may take: every call has a deadline on the client's side.

The server cancels a call shortly before the client's deadline, so that the client learns that
nothing was done. The client gives up by itself only if no answer comes.
"""

from __future__ import annotations

from datetime import timedelta

#: One call: it gets a connection from the pool or opens one, sends, and receives the answer.
CALL = timedelta(seconds=30)
#: Calls whose work grows with their arguments; the server cancels them later, too.
LONG = {
    "maintain": timedelta(minutes=2),
    "cancel": timedelta(minutes=5),
    "purge": timedelta(minutes=5),
    "recount": timedelta(minutes=5),
    "requeue": timedelta(minutes=5),
    "begin_load": timedelta(minutes=30),
    "discard_staged": timedelta(minutes=30),
    "promote": timedelta(hours=2),
}
#: Bulk writes and reads: for one block of a COPY or one fetch of a cursor; and for the whole, at
#: the server.
BULK, BULK_AT_SERVER = timedelta(minutes=10), timedelta(hours=2)
#: One statement of `rowlease migrate`; one lock, because others wait behind a migration that waits;
#: and all tries that did not get a lock.
MIGRATE = timedelta(hours=2)
MIGRATION_LOCK = timedelta(milliseconds=500)
MIGRATION = timedelta(minutes=10)
#: Seconds to reach one address of one host of the DSN, with TLS and login.
CONNECT = 10
#: Milliseconds between the server's checks, during a call, that its client is still connected, so
#: that a claim that waited for a lock is not made for a client that has given up.
GONE = 1000
#: Seconds of silence after which a listening session is probed, and seconds for its answer.
LISTENER_SILENT, LISTENER_ANSWER = 10.0, 5.0


def of(routine: str, call_timeout: timedelta) -> timedelta:
    """The timeout of a routine in a store whose default is `call_timeout`."""
    return max(call_timeout, LONG.get(routine, call_timeout))


def at_server(timeout: timedelta) -> timedelta:
    """The time after which the server cancels a call with this timeout of the client."""
    return timeout * 0.95
