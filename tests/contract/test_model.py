"""A state machine: in every sequence of calls, the routines answer as a small queue in memory.

`Model` is the only in-memory queue of the project; every engine is checked against it. The clock
is stopped; only a step moves it, so an example that fails can be repeated.
ROWLEASE_MODEL_EXAMPLES=100000 makes the test longer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rowlease.model import Depth, Enqueued, Failure, Held, NewRequest, Outcome
from tests.contract.sessions import Clock, Session

EXAMPLES = int(os.environ.get("ROWLEASE_MODEL_EXAMPLES", "100"))
STEPS = 25
#: So few live requests that no routine reaches the bound of a step.
MOST = 10

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


@dataclass
class Model:
    """A queue."""

    now: datetime
    requests: dict[int, Request] = field(default_factory=dict)
    paused: bool = False
    #: How many may start in ten seconds, and when each claim has started how many.
    rate: int | None = None
    starts: list[tuple[datetime, int]] = field(default_factory=list)

    def of(self, *statuses: str) -> list[Request]:
        return [r for r in self.requests.values() if r.status in statuses]

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
                next(fresh), min(n.priority, SETTINGS["max_priority"]), due,
                n.max_attempts or SETTINGS["max_attempts"], n.dedup_key, n.group_key,
                "Scheduled" if due > self.now else "Pending", self.now,
            )  # fmt: skip
            self.requests[request.id] = request
            answers.append(Enqueued(request.id, Outcome.OK, self.now))
        return answers

    # -- the clock

    def housekeeping(self) -> None:
        for r in self.of("Processing"):
            if r.expires is not None and r.expires <= self.now:
                self.crash(r)
        for r in self.of("Scheduled"):
            if r.due <= self.now:
                r.status = "Pending"

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

    def claimable(self, limit: int, slots: int) -> list[Request]:
        """What a claim takes."""
        if self.paused:
            return []
        self.housekeeping()
        if self.rate is not None:
            begin = self.now - timedelta(seconds=10)
            recent = sum(number for at, number in self.starts if at > begin)
            limit = min(limit, slots, self.rate - recent)
        order = sorted(self.of("Pending"), key=lambda r: (-r.priority, r.due, r.id))
        return [r for r in order if self.first(r)][:limit]

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

    def purge(self, statuses: Sequence[str]) -> int:
        gone = self.of(*statuses)
        for r in gone:
            del self.requests[r.id]
        return len(gone)


class Machine(RuleBasedStateMachine):
    """Does the same to the routines and to the model, and compares."""

    def __init__(self, store: Session, clock: Clock, noon: datetime) -> None:
        super().__init__()
        self.store, self.clock, self.noon = store, clock, noon
        self.leases: list[Held] = []
        self.receipts: dict[str, list[int]] = {}
        self.loads = 0
        self.floor: str | None = None

    @initialize(with_floors=st.booleans(), rate=st.sampled_from([None, None, 1, 3]))
    def begin(self, with_floors: bool, rate: int | None) -> None:
        self.store.reset()
        self.store.with_floors = with_floors
        self.store.configure_queue("default", **SETTINGS, rate=rate and f"{rate}/10s")
        self.clock.now = self.noon
        self.clock.advance()
        self.model = Model(self.noon, rate=rate)

    # -- what to do it to

    def held(self, picks: list[int]) -> list[Held]:
        """Leases of now or of once, some of them twice."""
        return [self.leases[-1 - pick % len(self.leases)] for pick in picks] if self.leases else []

    def ids(self, picks: list[int]) -> list[int]:
        known = [*self.model.requests, 2**40]
        return [known[-1 - pick % len(known)] for pick in picks]

    picks = st.lists(st.integers(0, 11), min_size=1, max_size=4)
    requests = st.lists(
        st.builds(
            NewRequest,
            kind=st.just("a"),
            priority=st.integers(0, 3),
            delay=st.sampled_from([None, None, timedelta(seconds=2), timedelta(seconds=40)]),
            dedup_key=st.sampled_from([None, None, "k", "l"]),
            group_key=st.sampled_from([None, None, "g", "h"]),
            max_attempts=st.sampled_from([None, 1]),
        ),
        min_size=1,
        max_size=4,
    )
    failures = st.one_of(
        st.sampled_from([timedelta(0), timedelta(seconds=3)]).map(lambda t: Failure("x", after=t)),
        st.just(Failure("x", dead=True)),
    )

    # -- producers

    @precondition(lambda self: len(self.model.of(*LIVE, "Failed")) < MOST)
    @rule(new=requests, key=st.sampled_from([None, None, "1", "2"]))
    def enqueue(self, new: list[NewRequest], key: str | None) -> None:
        answers = self.store.enqueue_many("default", new, receipt_key=key)
        ids = [answer.request_id for answer in answers]
        if key is not None and key in self.receipts:
            found = [(id, self.model.requests.get(id)) for id in self.receipts[key]]
            assert answers == [
                Enqueued(id, Outcome.REPEAT, one.requested if one else None) for id, one in found
            ]
            return
        fresh = [id for id, outcome, _ in answers if outcome == "ok" and id is not None]
        assert fresh == sorted(set(fresh) - self.model.requests.keys())
        assert answers == self.model.enqueue(new, fresh)
        if key is not None:
            self.receipts[key] = [id for id in ids if id is not None]

    @precondition(lambda self: len(self.model.of(*LIVE, "Failed")) < MOST)
    @rule(
        priorities=st.lists(st.integers(0, 3), min_size=1, max_size=4),
        moves=st.booleans(),
        cut=st.integers(1, 4),
    )
    def load(self, priorities: list[int], moves: bool, cut: int) -> None:
        """A load is due when it is promoted. No other request is due at that very moment.

        It has a part up to the cut, and another one after it.
        """
        self.loads += 1
        name = f"load {self.loads}"
        run = self.store.begun(name)
        rows = [{"kind": "a", "priority": priority} for priority in priorities]
        more = {"due_time": self.store.now()} if moves else {}  # promote moves it into the queue
        for number, part in enumerate(filter(None, (rows[:cut], rows[cut:]))):
            self.store.lay(name, run, [row | more for row in part], number << 16)
        self.time_passes(0.001)
        assert self.store.promote(name, run, len(rows)).num_enqueued == len(rows)
        ids = [id for (id,) in self.store.rows("requests", "request_id", load_id=name)]
        fresh = [NewRequest(kind="a", priority=priority) for priority in priorities]
        assert [answer.request_id for answer in self.model.enqueue(fresh, ids)] == ids
        self.time_passes(0.001)

    @rule(new=requests, picks=picks)
    def roll_back(self, new: list[NewRequest], picks: list[int]) -> None:
        self.store.begin()
        self.store.enqueue_many("default", new, receipt_key="rolled back")
        self.store.complete([*self.store.claim(limit=3), *self.held(picks)])
        self.store.cancel(self.ids(picks))
        self.store.rollback()

    # -- workers

    @rule(limit=st.integers(1, 4), slots=st.integers(0, 4), echo=st.booleans())
    def dequeue(self, limit: int, slots: int, echo: bool) -> None:
        claim = self.store.dequeue(
            "one", ["default"], limit, slots=slots, floor=self.floor if echo else None
        )
        self.floor = claim.floor
        taken = [Held(held.request_id, held.lock_token) for held in claim.requests]
        assert taken == self.model.dequeue(limit, slots, [held.lock_token for held in taken])
        self.leases += taken

    @rule(picks=picks)
    def complete(self, picks: list[int]) -> None:
        held = self.held(picks)
        done = self.model.answered(held, lambda r: self.model.end(r, "Complete"))
        assert self.store.complete(held) == done

    @rule(picks=picks, failure=failures)
    def fail(self, picks: list[int], failure: Failure) -> None:
        held = self.held(picks)
        done = self.model.answered(held, lambda r: self.model.fail(r, failure))
        assert self.store.fail(held, [failure] * len(held)) == done

    @rule(picks=picks)
    def fail_with_back_off(self, picks: list[int]) -> None:
        held = self.held(picks)

        def back_off(r: Request) -> None:
            self.model.fail(r, Failure("x", after=timedelta(days=1)))
            if r.status == "Scheduled":
                full = min(timedelta(seconds=10), timedelta(seconds=4) * 2 ** (r.attempts - 1))
                r.due = self.store.row(r.id)["due_time"]
                assert full / 2 <= r.due - self.model.now <= full

        answers = self.store.fail(held, [Failure("x")] * len(held))
        assert answers == self.model.answered(held, back_off)

    @rule(picks=picks)
    def abandon(self, picks: list[int]) -> None:
        held = self.held(picks)
        assert self.store.abandon(held) == self.model.answered(held, self.model.abandon)

    @rule(picks=picks, seconds=st.sampled_from([0, 0.5, 3, 40]))
    def snooze(self, picks: list[int], seconds: float) -> None:
        held, delay = self.held(picks), timedelta(seconds=seconds)
        done = self.model.answered(held, lambda r: self.model.snooze(r, delay))
        assert self.store.snooze(held, [delay] * len(held)) == done

    @precondition(lambda self: any(r.abandons for r in self.model.of("Pending")))
    @rule(times=st.integers(5, 9))
    def reject_again_and_again(self, times: int) -> None:
        for _ in range(times):
            self.dequeue(1, 1, False)
            self.abandon([0])

    @rule(picks=picks, started=st.booleans())
    def renew(self, picks: list[int], started: bool) -> None:
        held = self.held(picks)
        asked = {r.id for r in self.model.of("Processing") if r.asked}
        done = self.model.answered(held, lambda r: self.model.renew(r, started))
        answers = self.store.renew(held, started=[started] * len(held))
        assert [answer.outcome for answer in answers] == [
            "cancel_requested" if outcome == "ok" and h.request_id in asked else outcome
            for h, outcome in zip(held, done, strict=True)
        ]
        for answer, outcome in zip(answers, done, strict=True):
            assert answer.lock_expires_time == (self.model.now + LEASE if outcome == "ok" else None)

    @rule(done=picks, failed=picks, failure=failures, limit=st.integers(0, 2))
    def exchange(self, done: list[int], failed: list[int], failure: Failure, limit: int) -> None:
        completed, failing = self.held(done), self.held(failed)
        answer = self.store.exchange(
            "one",
            ["default"],
            limit,
            completed=[(held, None) for held in completed],
            failed=[(held, failure) for held in failing],
        )
        assert answer.completed == self.model.answered(
            completed, lambda r: self.model.end(r, "Complete")
        )
        assert answer.failed == self.model.answered(failing, lambda r: self.model.fail(r, failure))
        taken = [Held(held.request_id, held.lock_token) for held in answer.claim.requests]
        tokens = [held.lock_token for held in taken]
        assert taken == (self.model.dequeue(limit, limit, tokens) if limit else [])
        self.leases += taken

    # -- the clock

    @rule(seconds=st.sampled_from([0.04, 0.4, 0.9, 1.5, 3, 10, 31, 31]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)
        self.model.now = self.clock.now

    @rule()
    def maintain(self) -> None:
        self.store.maintain()
        self.model.housekeeping()

    # -- operators

    @rule(picks=picks)
    def cancel(self, picks: list[int]) -> None:
        ids = self.ids(picks)
        assert self.store.cancel(ids) == self.model.cancel(ids)

    @precondition(lambda self: self.model.of("Failed"))
    @rule(picks=st.none() | picks)
    def requeue(self, picks: list[int] | None) -> None:
        if picks is None:
            ids = sorted(r.id for r in self.model.of("Failed"))
            step = self.store.operate("requeue", queue="default")
            answers = [one.outcome for one in reversed(step.touched)]
        else:
            ids = self.ids(picks)
            answers = self.store.requeue(ids)
        assert answers == self.model.requeue(ids)

    @rule(statuses=st.lists(st.sampled_from([*WAITING, "Failed"]), min_size=1, unique=True))
    def purge(self, statuses: list[str]) -> None:
        assert self.store.purge(statuses, dry_run=True) == len(self.model.of(*statuses))
        assert self.store.purge(statuses) == self.model.purge(statuses)

    @rule()
    def pause_or_resume(self) -> None:
        (self.store.resume if self.model.paused else self.store.pause)("default")
        self.model.paused = not self.model.paused

    # -- what must always hold

    @invariant()
    def all_is_as_the_model_has_it(self) -> None:
        found = self.store.rows(
            "requests", "request_id", "status", "priority", "lock_token", "num_attempts",
            "num_crashes", "num_abandons", "due_time", "cancel_requested",
        )  # fmt: skip
        assert found == [
            (r.id, r.status, r.priority, r.token, r.attempts, r.crashes, r.abandons, r.due, r.asked)
            for _, r in sorted(self.model.requests.items())
        ]

        words = (*LIVE, "Failed")
        counts: dict[int, list[int]] = {}
        for r in self.model.of(*words):
            counts.setdefault(r.priority, [0, 0, 0, 0])[words.index(r.status)] += 1
        assert self.store.depth() == [
            Depth("default", priority, *counts[priority]) for priority in sorted(counts)[::-1]
        ]
        groups = [r.group for r in self.model.of("Processing") if r.group]
        assert len(groups) == len(set(groups))


@pytest.mark.timeout(0)
def test_the_routines_do_what_a_small_queue_in_memory_does(store: Session, clock: Clock) -> None:
    store.maintain()
    noon = clock.now

    class Here(Machine):
        def __init__(self) -> None:
            super().__init__(store, clock, noon)

    checked: Any = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    run_state_machine_as_test(Here, settings=checked)
