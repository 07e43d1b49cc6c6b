"""The operations on requests, by verb: what the client, the command line and the dashboard share.

The database decides which requests an operation changes (sql/*/operate/operate.sql). A contract
test compares it with this module.
"""

from __future__ import annotations

from typing import NamedTuple

from rowlease.counts import counted
from rowlease.model.outcomes import Outcome


class Verb(NamedTuple):
    """A verb of an operation.

    Attributes:
        title: its name on a button.
        summary: what it does, in a sentence.
        limits: what it does only if it is asked for; the rest of its help.
        done: what was done to the requests: "requests were …".
        takes: the statuses of the requests that it can change.
        takes_unnamed: those that it changes if a filter names neither a status nor ids.
        argument: the argument that it needs, or None.
        is_dangerous: whether its effect cannot be undone.
    """

    title: str
    summary: str
    limits: str
    done: str
    takes: tuple[str, ...]
    takes_unnamed: tuple[str, ...]
    argument: str | None = None
    is_dangerous: bool = False


_WAITING = ("Scheduled", "Pending")
_LIVE = (*_WAITING, "Processing")

#: All verbs, in the order in which lists show them.
VERBS = {
    "cancel": Verb(
        "Cancel",
        "Cancel waiting requests, and ask running ones to stop.",
        "Dead letters are cancelled only by status:failed or by their ids.",
        "cancelled, or asked to stop if running",
        (*_LIVE, "Failed"),
        _LIVE,
    ),
    "requeue": Verb(
        "Requeue",
        "Make dead letters wait again.",
        "With status:complete or status:cancelled, or by their ids, finished requests are enqueued "
        "again as new requests.",
        "requeued",
        ("Failed", "Complete", "Cancelled"),
        ("Failed",),
    ),
    "reprioritise": Verb(
        "Reprioritise",
        "Change the priority of waiting and running requests.",
        "Dead letters are changed only by status:failed or by their ids. A priority above the "
        "maximum of a queue is lowered to it.",
        "given the new priority",
        (*_LIVE, "Failed"),
        _LIVE,
        "priority",
    ),
    "reschedule": Verb(
        "Reschedule",
        "Change the due time of waiting requests.",
        "Without --delay or --at, they are due now. Requests that wait for a batch are changed "
        "only by their ids.",
        "given the new due time",
        _WAITING,
        _WAITING,
        "delay",
    ),
    "break": Verb(
        "Break the lease",
        "End the leases of running requests, so that they wait again.",
        "A request without attempts left becomes a dead letter. worker:ID ends all leases of a "
        "worker; worker:HOST those of a host.",
        "taken from the worker, to wait again",
        ("Processing",),
        ("Processing",),
        is_dangerous=True,
    ),
    "purge": Verb(
        "Purge",
        "Delete dead letters for good.",
        "Waiting and finished requests are deleted only by their status or by their ids.",
        "deleted for good",
        (*_WAITING, "Failed", "Complete", "Cancelled"),
        ("Failed",),
        is_dangerous=True,
    ),
}

#: Why an operation left a request as it was, by outcome.
WHY_UNCHANGED = {
    Outcome.DUPLICATE: "a live request has the same dedup key",
    Outcome.WAITS: "waiting for a batch; select it by its id to change its due time",
    Outcome.NOT_FOUND: "the payload was not kept, or the queue was deleted",
}


def were_done(verb: str, num: int) -> str:
    """What an operation has done, such as `2 requests were requeued`."""
    return f"{counted(num, 'request')} {'was' if num == 1 else 'were'} {VERBS[verb].done}"


def would_be_done(verb: str, num: int, more: bool) -> str:
    """What an operation would do, such as `1 request would be requeued`.

    Args:
        more: whether not all requests are counted.
    """
    many = f"{num:,} or more requests" if more else counted(num, "request")
    return f"{many} would be {VERBS[verb].done}"
