"""What a crossing is made of: the calls, and the small queue with what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from rowlease.errors import RowleaseError
from rowlease.model import Enqueued, Held, NewRequest
from tests.contract.sessions import Session
from tests.contract.small_queue import WAITING, Model


class Differs(Exception):
    """The small queue would not have done this."""


@dataclass
class Schedule:
    """The schedule `s`."""

    cron: str
    changed: datetime
    token: int = 0
    paused: bool = False
    next: datetime | None = None
    last: datetime | None = None
    last_id: int | None = None
    locked_by: str | None = None
    expires: datetime | None = None

    def change(self) -> None:
        """Refuse who is about to fire it."""
        self.locked_by, self.expires, self.token = None, None, self.token + 1


@dataclass
class World:
    """The small queue, with what it lacks.

    Attributes:
        held: the leases of the worker `one`.
        named: the ids that an operator names.
        receipt: the answer that the receipt `r` has.
        runs: the number of the run of each load that is staged.
        over: why the runs of loads are over, in a word of the error.
        loaded: how many requests each promoted load has.
        ids: the ids of the requests of calls that do not tell them: of each load, or kind.
        first: the status that each request had before the calls.
        waiters: the priority and the number of requests of producers that wait, by their ids.
        waiter: the id of the one that waits since before the calls.
        uncounted: the ids of requests that a call has not counted, which came without room.
        is_known: whether a live worker, `two`, knows the kind of all requests.
        unknown_since: since when a kind that was declined has been unknown.
        schedule: the schedule, which `one` has leased.
        planned: the firing that is due, and the token of this lease.
    """

    model: Model
    held: list[Held] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    receipt: list[Enqueued] | None = None
    runs: dict[str, int] = field(default_factory=dict)
    over: dict[str, str] = field(default_factory=dict)
    loaded: dict[str, int] = field(default_factory=dict)
    ids: dict[str, list[int]] = field(default_factory=lambda: {"load": []})
    first: dict[int, str] = field(default_factory=dict)
    waiters: dict[int, tuple[int, int]] = field(default_factory=dict)
    waiter: int = 0
    uncounted: frozenset[int] = frozenset()
    is_known: bool = False
    unknown_since: datetime | None = None
    schedule: Schedule | None = None
    planned: tuple[datetime, int] | None = None
    is_deleted: bool = False

    def has_room(self, number: int, priority: int, waiter: int | None = None) -> bool:
        """Is there room besides the places of producers that are ahead in line?"""
        if self.model.capacity is None:
            return True
        counted = [r for r in self.model.of(*WAITING) if r.id not in self.uncounted]
        ahead = sum(
            count
            for id, (other, count) in self.waiters.items()
            if other > priority or (other == priority and (waiter is None or id < waiter))
        )
        return len(counted) + ahead + number <= self.model.capacity


class Call(NamedTuple):
    """A call of a session.

    Attributes:
        do: makes it; what it answers.
        plain: does it to the small queue; what it must answer, given what the session answered.
        skips: whether it skips rows that another has locked.
        may_do_nothing: whether it does nothing while another is doing the same.
    """

    do: Callable[[Session, World], Any]
    plain: Callable[[World, Any], Any]
    skips: bool = False
    may_do_nothing: bool = False


class Refused(NamedTuple):
    """The error that a call had."""

    error: str
    says: str


def answer(call: Call, session: Session, world: World) -> Any:
    try:
        return call.do(session, world)
    except RowleaseError as error:
        return Refused(type(error).__name__, str(error))


def refused(given: Any, word: str) -> Any:
    """The answer itself, if it is an error with this word."""
    if isinstance(given, Refused) and word in given.says:
        return given
    raise Differs(f"an error with {word!r}")


def new(**given: Any) -> NewRequest:
    return NewRequest(**{"kind": "a", "priority": 1, **given})
