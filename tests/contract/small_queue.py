"""A small queue in memory: what the routines of each engine, and the search, are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rowlease.model import Enqueued, Failure, Held, NewRequest, Outcome

LEASE = timedelta(seconds=30)
SETTINGS: dict[str, Any] = {
    "max_priority": 2,
    "lease_seconds": 30,
    "max_attempts": 3,
    "max_crashes": 2,
    "retry_base_ms": 4000,
    "retry_cap_ms": 10_000,
}
WAITING = ("Scheduled", "Pending")
LIVE = (*WAITING, "Processing")
#: The verbs of operate, with the statuses that each takes, and those that it takes of a queue.
VERBS = {
    "cancel": ((*LIVE, "Failed"), LIVE),
    "reprioritise": ((*LIVE, "Failed"), LIVE),
    "reschedule": (WAITING, WAITING),
    "break": (("Processing",), ("Processing",)),
}


#: The due time of a request that waits for a batch.
WAITS = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass
class Request:
    """What a request is, as far as anybody can tell from outside."""

    id: int
    priority: int
    due: datetime
    max_attempts: int
    dedup: str | None
    group: str | None
    status: str
    requested: datetime
    token: int = 0
    attempts: int = 0
    crashes: int = 0
    abandons: int = 0
    started: bool = False
    expires: datetime | None = None
    asked: bool = False
    #: The last lease was broken.
    broken: bool = False
    #: If it was declined: when it was due before.
    place: datetime | None = None


@dataclass
class Batch:
    """Requests that end together, and those that wait for the end.

    Attributes:
        members: the ids of all that were ever enqueued into it.
    """

    members: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    finished: bool = False


@dataclass
class Model:
    """A queue."""

    now: datetime
    requests: dict[int, Request] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    paused: bool = False
    max_priority: int = SETTINGS["max_priority"]
    #: How many may wait, and how many may run.
    capacity: int | None = None
    max_in_flight: int | None = None
    #: How many may start in ten seconds, and when each claim has started how many.
    rate: int | None = None
    starts: list[tuple[datetime, int]] = field(default_factory=list)
    #: The ids of rows that another transaction has locked, for calls that skip these.
    locked: frozenset[Any] = frozenset()
    #: Those that a claim passes over.
    passed: frozenset[Any] = frozenset()

    def of(self, *statuses: str) -> list[Request]:
        return [r for r in self.requests.values() if r.status in statuses]

    def free(self, status: str) -> list[Request]:
        """Those that nobody has locked."""
        return [r for r in self.of(status) if r.id not in self.locked]

    def live(self, dedup: str | None) -> Request | None:
        """The one request that has this key."""
        return next((r for r in self.of(*LIVE) if dedup and r.dedup == dedup), None)

    # -- producers

    def enqueue(self, new: Sequence[NewRequest], ids: Iterable[int]) -> list[Enqueued]:
        """Ids are taken for those that are new, in order."""
        fresh, answers = iter(ids), []
        for n in new:
            if found := self.live(n.dedup_key):
                answers.append(Enqueued(found.id, Outcome.DUPLICATE, found.requested))
                continue
            due = self.now + (n.delay or timedelta(0))
            request = Request(
                next(fresh), min(n.priority, self.max_priority), due,
                n.max_attempts or SETTINGS["max_attempts"], n.dedup_key, n.group_key,
                "Scheduled" if due > self.now else "Pending", self.now,
            )  # fmt: skip
            self.requests[request.id] = request
            answers.append(Enqueued(request.id, Outcome.OK, self.now))
        return answers

    # -- batches

    def counts(self, batch: Batch) -> tuple[int, ...]:
        """How many of its requests there are, and are live, complete, dead, and cancelled."""
        found = [self.requests[id].status for id in batch.members if id in self.requests]
        live = sum(status in LIVE for status in found)
        done, dead = found.count("Complete"), found.count("Failed")
        gone = len(batch.members) - live - done - dead
        return len(batch.members), live, done, dead, gone

    def wait(self, batch: Batch, ids: Sequence[int]) -> None:
        """Have requests that were just enqueued wait for a batch."""
        batch.waiting += ids
        for r in (self.requests[id] for id in ids):
            r.status, r.due = "Scheduled", WAITS

    def waits(self, r: Request) -> bool:
        return r.status == "Scheduled" and r.due == WAITS

    def finish(self, batch: Batch) -> int:
        """Finish a batch of which nothing waits or runs; how many were finished and made due."""
        if batch.finished or self.counts(batch)[1]:
            return 0
        batch.finished = True
        due = [r for id in batch.waiting if (r := self.requests.get(id)) and self.waits(r)]
        for r in due:
            r.due = self.now
        return 1 + len(due)

    # -- the clock

    def housekeeping(self) -> None:
        for r in self.free("Processing"):
            if r.expires is not None and r.expires <= self.now:
                self.crash(r)
        for r in self.free("Scheduled"):
            if r.due <= self.now:
                r.status, r.place = "Pending", None

    def crash(self, r: Request) -> None:
        if r.started:
            r.crashes, r.abandons = r.crashes + 1, 0
        else:
            r.attempts -= 1
        dead = r.crashes >= SETTINGS["max_crashes"] or r.attempts >= r.max_attempts
        self.end(r, "Failed" if dead else "Pending", broken=True)

    def end(self, r: Request, status: str, *, broken: bool = False) -> None:
        """A lease ends; a request that was asked to stop is cancelled with any outcome."""
        r.status = "Cancelled" if r.asked and status != "Complete" else status
        r.broken, r.started, r.expires = broken, False, None

    # -- workers

    def first(self, r: Request) -> bool:
        """May this request of a group be claimed?"""
        return r.group is None or all(
            other.id >= r.id and other.status != "Processing"
            for other in self.of(*LIVE)
            if other.group == r.group
        )

    def room(self, limit: int, slots: int) -> int:
        """How many a claim may take."""
        if self.max_in_flight is not None:
            limit = min(limit, self.max_in_flight - len(self.of("Processing")))
        if self.rate is not None:
            begin = self.now - timedelta(seconds=10)
            recent = sum(number for at, number in self.starts if at > begin)
            limit = min(limit, slots, self.rate - recent)
        return max(limit, 0)

    def claimable(self, limit: int, slots: int) -> list[Request]:
        """What a claim takes."""
        if self.paused:
            return []
        self.housekeeping()
        order = sorted(self.of("Pending"), key=lambda r: (-r.priority, r.due, r.id))
        free = [r for r in order if self.first(r) and r.id not in self.passed]
        return free[: self.room(limit, slots)]

    def hand_on(self, limit: int) -> None:
        """Make declined requests due for a worker that knows their kind."""
        declined = [(-r.priority, r.place, r.id) for r in self.free("Scheduled") if r.place]
        for *_, id in sorted(declined)[:limit]:
            r = self.requests[id]
            r.status, r.due, r.place = "Pending", r.place or r.due, None

    def lease(self, r: Request, token: int, starts: bool) -> None:
        r.status, r.expires, r.started = "Processing", self.now + LEASE, starts
        r.token, r.attempts, r.broken = token, r.attempts + 1, False

    def dequeue(self, limit: int, slots: int, tokens: Iterable[int]) -> list[Held]:
        """Tokens are random, and larger at each claim of a request."""
        taken = self.claimable(limit, slots)
        for place, (r, token) in enumerate(zip(taken, tokens, strict=True)):
            assert token > r.token
            self.lease(r, token, place < slots)
        self.starts.append((self.now, len(taken)))
        return [Held(r.id, r.token) for r in taken]

    def answered(self, held: Sequence[Held], word: Callable[[Request], object]) -> list[str]:
        """Apply a report to requests whose lease is valid; returns the outcome of each."""
        before = {h.request_id: replace(r) for h in held if (r := self.requests.get(h.request_id))}
        answers, done = [], set()
        for h in held:
            r = before.get(h.request_id)
            if r is None:
                answers.append("not_found")
            elif r.token != h.lock_token:
                answers.append("lease_lost")
            elif r.status == "Processing":
                answers.append("ok")
                done.add(r.id)
            else:
                answers.append("lease_lost" if r.broken and r.status != "Complete" else "repeat")
        for id in sorted(done):
            word(self.requests[id])
        return answers

    def fail(self, r: Request, failure: Failure) -> None:
        """With `after`, or dead; the back-off of its own is random."""
        r.abandons = 0
        if r.asked or failure.dead or r.attempts >= r.max_attempts:
            self.end(r, "Failed")
        else:
            r.due = self.now + (failure.after or timedelta(0))
            self.end(r, "Scheduled" if failure.after else "Pending")

    def abandon(self, r: Request) -> None:
        r.abandons += 1
        if r.abandons < 10:
            r.attempts -= 1
        else:
            r.abandons = 0
        dead = r.abandons == 0 and r.attempts >= r.max_attempts
        self.end(r, "Failed" if dead else "Pending")

    def snooze(self, r: Request, delay: timedelta) -> None:
        r.attempts, r.abandons = r.attempts - 1, 0
        if not r.asked:
            r.due = self.now + max(delay, timedelta(seconds=1))
        self.end(r, "Scheduled")

    def decline(self, r: Request, delay: timedelta) -> None:
        r.attempts -= 1
        if not r.asked:
            r.place, r.due = r.due, self.now + delay
        self.end(r, "Scheduled")

    def expire(self, r: Request) -> None:
        r.asked = True
        self.abandon(r)

    def renew(self, r: Request, started: bool) -> None:
        r.expires, r.started = self.now + LEASE, started

    # -- operators

    def cancel(self, ids: Sequence[int]) -> list[str]:
        before = {id: self.requests[id].status for id in ids if id in self.requests}
        for id, status in before.items():
            if status == "Processing":
                self.requests[id].asked = True
            elif status in (*WAITING, "Failed"):
                self.requests[id].status, self.requests[id].asked = "Cancelled", True
        words = dict.fromkeys(("Complete", "Cancelled", ""), "not_found")
        words["Processing"] = "cancel_requested"
        return [words.get(before.get(id, ""), "ok") for id in ids]

    def requeue(self, ids: Sequence[int]) -> list[str]:
        dead = [id for id in sorted(set(ids)) if id in {r.id for r in self.of("Failed")}]
        alive = set()
        for r in (self.requests[id] for id in dead):
            if self.live(r.dedup) is None:
                r.status, r.due = "Pending", self.now
                r.attempts = r.crashes = r.abandons = 0
                alive.add(r.id)
        return ["ok" if id in alive else "duplicate" if id in dead else "not_found" for id in ids]

    def operate(self, verb: str, ids: Sequence[int], argument: int) -> list[str]:
        if verb == "cancel":
            return self.cancel(ids)
        for r in (self.requests[id] for id in ids):
            if verb == "reprioritise":
                r.priority = min(argument, self.max_priority)
            elif verb == "break":
                self.end_lease(r)
            elif argument or r.status == "Scheduled":
                r.due = self.now + timedelta(seconds=argument)
                r.status, r.place = "Scheduled" if argument else "Pending", None
        return ["ok"] * len(ids)

    def end_lease(self, r: Request) -> None:
        """As a lease that expires, but it counts no crash, and the token fits no report."""
        r.token += 1
        if r.started:
            r.abandons = 0
        else:
            r.attempts -= 1
        self.end(r, "Failed" if r.attempts >= r.max_attempts else "Pending", broken=True)

    def purge(self, statuses: Sequence[str]) -> int:
        gone = self.of(*statuses)
        for r in gone:
            del self.requests[r.id]
        return len(gone)
