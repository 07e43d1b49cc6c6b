"""A database with one queue in memory, and the store of those who call it over a bad network.

The queue is the one which the routines of each engine are compared with.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from rowlease.errors import StoreTimeout, StoreUnavailable
from rowlease.model import (
    Claim,
    Enqueued,
    Exchanged,
    Failure,
    Held,
    LeasedRequest,
    NewRequest,
    Outcome,
    Renewal,
)
from tests.contract.small_queue import Model, Request
from tests.search.world import World
from tests.stress.history import Change, Effect

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
T = TypeVar("T")
Leases = Sequence[Held | LeasedRequest]
#: How long a call may be under way whose caller has given it up; the worker reckons with 10 s.
LATEST = 9.0


@dataclass
class Disk:
    """What a crash or a failover may set back."""

    model: Model
    receipts: dict[str, list[int]] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    seen: dict[int, Change] = field(default_factory=dict)

    def copy(self) -> Disk:
        """A copy that does not change with this one."""
        model = copy.copy(self.model)
        model.requests = {id: replace(one) for id, one in model.requests.items()}
        return Disk(
            model, self.receipts.copy(), self.owners.copy(), self.numbers.copy(),
            self.changes.copy(), self.effects.copy(), self.seen.copy(),
        )  # fmt: skip


class Database:
    """A server. It acts on one call at a time, and writes down each change of a row.

    Attributes:
        bug: what it does wrong, or none.
        server: how many servers have been promoted.
        down_until: until when it answers nothing.
        slow_until: until when many calls are late.
        is_calm: whether no call is lost or late any more.
    """

    def __init__(self, world: World, bug: str = "") -> None:
        self.world, self.bug = world, bug
        self.disk = Disk(Model(EPOCH))
        self.server = 0
        self.starts = 0
        self.ahead = 0.0
        self.down_until = 0.0
        self.slow_until = 0.0
        self.is_calm = False
        #: The runners that run each request, and what more than one of them ran at once.
        self._runs: dict[int, list[object]] = {}
        self.side_by_side: set[int] = set()
        #: As it was before the claims that are not on disk; none if all is.
        self._durable: Disk | None = None

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.world.time + self.ahead)

    def act(self, do: Callable[[], T], *, asynchronously: bool = False) -> T:
        """One transaction."""
        if not asynchronously:
            self._durable = None
        elif self._durable is None:
            self._durable = self.disk.copy()
        self.disk.model.now = self.now()
        answer = do()
        self.note_changes()
        return answer

    def crash(self) -> None:
        self.disk, self._durable = self._durable or self.disk, None
        self.starts += 1
        self.down_until = self.world.time + self.world.draw.uniform(0, 40)

    def promote(self, standby: Disk) -> None:
        """A standby takes over that had less than this."""
        self._durable = None
        self.crash()
        self.disk = standby
        self.server += 1

    def begins(self, request: LeasedRequest, runner: object) -> None:
        runs = self._runs.setdefault(request.request_id, [])
        runs.append(runner)
        if len(runs) > 1:
            self.side_by_side.add(request.request_id)

    def ends(self, request: LeasedRequest, runner: object) -> None:
        if runner in (runs := self._runs[request.request_id]):
            runs.remove(runner)

    def forget(self, runner: object) -> None:
        """A process has died, and its runs with it."""
        for id, runs in self._runs.items():
            self._runs[id] = [one for one in runs if one is not runner]

    def note_changes(self) -> None:
        disk, at = self.disk, (self.now() - EPOCH).total_seconds()
        for id, r in disk.model.requests.items():
            is_leased = r.status in ("Processing", "Complete")
            expires = (r.expires - EPOCH).total_seconds() if r.expires else None
            if r.broken:  # its end stays in the row
                expires = disk.seen[id].expires
            change = Change(
                id, r.status, 0.0, r.token, disk.owners.get(id) if is_leased else None,
                expires, r.attempts, r.crashes,
                r.abandons, r.max_attempts, (r.due - EPOCH).total_seconds(), disk.numbers[id],
            )  # fmt: skip
            if disk.seen.get(id) != change:
                disk.seen[id] = change
                disk.changes.append(change._replace(at=at))

    # -- the routines

    def enqueue(
        self, new: Sequence[NewRequest], receipt: str, numbers: list[int]
    ) -> list[Enqueued]:
        disk, model = self.disk, self.disk.model
        if (known := disk.receipts.get(receipt)) and self.bug != "receipts are forgotten":
            return [Enqueued(id, Outcome.REPEAT, model.requests[id].requested) for id in known]
        first = len(model.requests) + 1
        answers = model.enqueue(new, range(first, first + len(new)))
        disk.receipts[receipt] = [answer.request_id or 0 for answer in answers]
        disk.numbers.update(zip(disk.receipts[receipt], numbers, strict=True))
        return answers

    def dequeue(self, worker: str, limit: int, slots: int) -> Claim:
        model, draw = self.disk.model, self.world.draw
        claimed = []
        model.housekeeping()
        self.note_changes()
        for place, r in enumerate(model.claimable(limit, slots)):
            grows = 0 if self.bug == "tokens stay" else draw.randint(1, 2**32)
            model.lease(r, r.token + grows, place < slots)
            self.disk.owners[r.id] = worker
            claimed.append(self._leased(r))
        if self.bug == "a claim takes what is leased":
            for r in model.of("Processing")[: limit - len(claimed)]:
                model.lease(r, r.token + 1, True)
                claimed.append(self._leased(r))
        return Claim(claimed, bool(claimed), timedelta(seconds=1), None)

    def _leased(self, r: Request) -> LeasedRequest:
        now, expires = self.now(), r.expires
        assert expires is not None
        return LeasedRequest(
            r.id, "default", "task", r.priority, r.requested, r.due, now, expires, r.token,
            r.attempts, r.max_attempts, r.crashes, r.group, None, "{}",
        )  # fmt: skip

    def answered(self, held: Leases, word: Callable[[Request], object]) -> list[Outcome]:
        known = [Held(one.request_id, one.lock_token) for one in held]
        if self.bug == "outcomes compare no token":
            requests = self.disk.model.requests
            tokens = {r.id: r.token for r in requests.values()}
            known = [Held(h.request_id, tokens.get(h.request_id, 0)) for h in known]
        if self.bug == "outcomes are not kept" and self.world.draw.random() < 0.1:
            return [Outcome.OK] * len(held)
        answers = [Outcome(answer) for answer in self.disk.model.answered(known, word)]
        self.note_changes()  # the same transaction may claim the request again
        return answers

    def complete(self, held: Leases) -> list[Outcome]:
        return self.answered(held, lambda r: self.disk.model.end(r, "Complete"))

    def fail(self, failed: Sequence[tuple[Held | LeasedRequest, Failure]]) -> list[Outcome]:
        why = {held.request_id: failure for held, failure in failed}
        fail = self.disk.model.fail
        return self.answered([held for held, _ in failed], lambda r: fail(r, why[r.id]))

    def pay(self, held: Held) -> Outcome:
        """A transaction of the user: an effect, and the outcome."""
        (answer,) = self.complete([held])
        if answer == Outcome.OK or self.bug == "effects are kept without an outcome":
            self.disk.effects.append(Effect(*held))
        return answer


@dataclass
class Link:
    """The way from a process to the server.

    Attributes:
        cut_until: until when nothing arrives, in either direction.
    """

    cut_until: float = 0.0


class Caller:
    """The store of a process; its calls get lost, come late, or are not answered."""

    can_notify = False

    def __init__(self, database: Database, link: Link | None = None, timeout: float = 10.0) -> None:
        self._database = database
        self._world = database.world
        self._link = link or Link()
        self._timeout = timeout

    def within(self, timeout: timedelta) -> Caller:
        return Caller(self._database, self._link, timeout.total_seconds())

    def _call(self, do: Callable[[], T], *, asynchronously: bool = False) -> T:
        world, database = self._world, self._database
        draw, starts = world.draw, database.starts
        world.sleep(draw.uniform(0, 0.02))
        fate = 1.0 if database.is_calm else draw.random()
        if world.time < self._link.cut_until:
            world.sleep(min(self._timeout, self._link.cut_until - world.time))
            raise StoreTimeout
        if world.time < database.down_until or fate < 0.02:
            raise StoreUnavailable
        is_late = fate < 0.06 or (world.time < database.slow_until and fate > 0.5)
        late = draw.uniform(0, LATEST) if is_late else 0.0
        answer_late, late = (late, 0.0) if draw.random() < 0.5 else (0.0, late)
        if late > self._timeout:

            def arrive() -> None:
                if database.starts == starts:
                    database.act(do, asynchronously=asynchronously)

            world.after(late, arrive)
            world.sleep(self._timeout)
            raise StoreTimeout
        world.sleep(late)
        if fate < 0.09 or database.starts != starts:
            lost = StoreUnavailable()
            lost.maybe_done = True
            raise lost
        answer = database.act(do, asynchronously=asynchronously)
        starts = database.starts
        world.sleep(min(self._timeout, answer_late + draw.uniform(0, 0.02)))
        if answer_late > self._timeout:
            raise StoreTimeout
        if world.time < self._link.cut_until:
            world.sleep(min(self._timeout, self._link.cut_until - world.time))
            raise StoreTimeout
        if fate < 0.14 or database.starts != starts or world.time < database.down_until:
            lost = StoreUnavailable()
            lost.maybe_done = True
            raise lost
        return answer

    # -- as `rowlease.store.Store`

    def enqueue_many(
        self, queue: str, new: Sequence[NewRequest], *, receipt_key: str, **more: Any
    ) -> list[Enqueued]:
        numbers = [int(one.payload[5:-1]) for one in new]
        return self._call(lambda: self._database.enqueue(new, receipt_key, numbers))

    def dequeue(
        self, worker: str, queues: Sequence[str], limit: int, *, slots: int, **more: Any
    ) -> Claim:
        do = self._database.dequeue
        return self._call(lambda: do(worker, limit, slots), asynchronously=True)

    def exchange(
        self,
        worker: str,
        queues: Sequence[str],
        limit: int,
        *,
        completed: Sequence[tuple[LeasedRequest, str | None]] = (),
        failed: Sequence[tuple[LeasedRequest, Failure]] = (),
        slots: int = 0,
        **more: Any,
    ) -> Exchanged:
        database = self._database

        def do() -> Exchanged:
            done = database.complete([held for held, _ in completed])
            answers = database.fail(failed)
            requests = database.disk.model.requests
            ended = [requests.get(held.request_id) for held, _ in failed]
            dead = [r is not None and r.status == "Failed" for r in ended]
            claim = (
                database.dequeue(worker, limit, slots) if limit else Claim([], False, None, None)
            )
            return Exchanged(done, answers, dead, claim)

        return self._call(do)

    def abandon(self, held: Leases) -> list[Outcome]:
        database = self._database
        return self._call(lambda: database.answered(held, database.disk.model.abandon))

    expire = abandon  # no request of this folder expires

    def snooze(
        self, held: Leases, delays: Sequence[timedelta], reasons: Sequence[str]
    ) -> list[Outcome]:
        database = self._database
        waits = {one.request_id: delay for one, delay in zip(held, delays, strict=True)}

        def do() -> list[Outcome]:
            snooze = database.disk.model.snooze
            return database.answered(held, lambda r: snooze(r, waits[r.id]))

        return self._call(do)

    def disown(self, worker: str, queues: Sequence[str], held: Leases) -> list[tuple[int, Outcome]]:
        database = self._database
        known = {(one.request_id, one.lock_token) for one in held}

        def do() -> list[tuple[int, Outcome]]:
            disk = database.disk
            left = [
                Held(r.id, r.token)
                for r in disk.model.of("Processing")
                if disk.owners[r.id] == worker and (r.id, r.token) not in known
            ]
            answers = database.answered(left, disk.model.abandon)
            return [(one.request_id, answer) for one, answer in zip(left, answers, strict=True)]

        return self._call(do)

    def renew(self, held: Leases, *, lease: timedelta, started: Sequence[bool]) -> list[Renewal]:
        database = self._database
        begun = {one.request_id: has for one, has in zip(held, started, strict=True)}

        def do() -> list[Renewal]:
            model = database.disk.model
            asked = {r.id for r in model.of("Processing") if r.asked}
            answers = database.answered(held, lambda r: model.renew(r, begun[r.id]))
            return [
                Renewal(
                    one.request_id,
                    Outcome.CANCEL_REQUESTED
                    if answer == "ok" and one.request_id in asked
                    else answer,
                    None,
                )
                for one, answer in zip(held, answers, strict=True)
            ]

        return self._call(do)

    def pay(self, held: Held) -> Outcome:
        return self._call(lambda: self._database.pay(held))

    def maintain(self) -> None:
        self._call(lambda: self._database.disk.model.housekeeping())

    def report_progress(self, reports: Sequence[object]) -> int:
        return 0
