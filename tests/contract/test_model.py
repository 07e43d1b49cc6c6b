"""A state machine: in every sequence of calls, the routines answer as a small queue in memory.

The clock is stopped; only a step moves it, so an example that fails can be repeated.
ROWLEASE_MODEL_EXAMPLES=100000 makes the test longer.
"""

from __future__ import annotations

import os
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

from rowlease.errors import InvalidRequest
from rowlease.filters.filter import Filter
from rowlease.model import Claim, Depth, Enqueued, Failure, Held, NewRequest, Outcome
from tests.contract.sessions import Clock, Session
from tests.contract.small_queue import (
    LEASE,
    LIVE,
    SETTINGS,
    VERBS,
    WAITING,
    Batch,
    Model,
    Request,
)

EXAMPLES = int(os.environ.get("ROWLEASE_MODEL_EXAMPLES", "100"))
STEPS = 25
#: So few live requests that no routine reaches the bound of a step.
MOST = 10


class Machine(RuleBasedStateMachine):
    """Does the same to the routines and to the model, and compares."""

    def __init__(self, store: Session, clock: Clock, noon: datetime) -> None:
        super().__init__()
        self.store, self.clock, self.noon = store, clock, noon
        self.leases: list[Held] = []
        self.receipts: dict[str, list[int]] = {}
        self.loads = 0
        self.floor: str | None = None

    @initialize(
        with_floors=st.booleans(),
        rate=st.sampled_from([None, None, 1, 3]),
        most=st.sampled_from([None, None, 2, 4]),
    )
    def begin(self, with_floors: bool, rate: int | None, most: int | None) -> None:
        self.store.reset()
        self.store.with_floors = with_floors
        self.model = Model(self.noon, rate=rate, max_in_flight=most)
        self.configure()
        self.clock.now = self.noon
        self.clock.advance()

    def configure(self) -> None:
        rate = self.model.rate
        self.store.configure_queue(
            "default",
            **SETTINGS,
            rate=rate and f"{rate}/10s",
            max_in_flight=self.model.max_in_flight,
        )
        self.beat("default")

    def beat(self, *queues: str) -> None:
        """The worker knows the kind of all requests, so it takes what another has declined."""
        self.store.worker_heartbeat(
            "one", host="h", pid=1, version="1", queues=queues, slots=4, busy=0, kinds={"a": "a"}
        )

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
        new=st.lists(
            st.builds(
                NewRequest,
                kind=st.just("a"),
                priority=st.integers(0, 3),
                dedup_key=st.sampled_from([None, None, None, "k", "l"]),
                group_key=st.sampled_from([None, None, None, "g", "h"]),
            ),
            min_size=1,
            max_size=4,
        ),
        moves=st.booleans(),
        cut=st.integers(1, 4),
    )
    def load(self, new: list[NewRequest], moves: bool, cut: int) -> None:
        """A load is due when it is promoted. No other request is due at that very moment.

        It has a part up to the cut, and another one after it.
        """
        self.loads += 1
        name = f"load {self.loads}"
        run = self.store.begun(name)
        more = {"due_time": self.store.now()} if moves else {}  # promote moves it into the queue
        rows = [
            {"priority": one.priority, "dedup_key": one.dedup_key, "group_key": one.group_key}
            for one in new
        ]
        for number, part in enumerate(filter(None, (rows[:cut], rows[cut:]))):
            self.store.lay(name, run, [row | more for row in part], number << 16)
        self.time_passes(0.001)
        promoted = self.store.promote(name, run, len(rows))
        ids = [id for (id,) in self.store.rows("requests", "request_id", load_id=name)]
        answers = self.model.enqueue(new, ids)
        assert [one.request_id for one in answers if one.outcome == Outcome.OK] == ids
        assert promoted[1:4] == (len(rows), len(ids), len(rows) - len(ids))
        self.model.batches[name] = Batch(ids)
        self.time_passes(0.001)

    @rule(new=requests, picks=picks)
    def roll_back(self, new: list[NewRequest], picks: list[int]) -> None:
        self.store.begin()
        try:
            self.store.enqueue_many("default", new, receipt_key="rolled back")
            self.store.complete([*self.store.claim(limit=3), *self.held(picks)])
            self.store.cancel(self.ids(picks))
        finally:
            self.store.rollback()

    # -- batches

    @precondition(lambda self: len(self.model.of(*LIVE, "Failed")) < MOST)
    @rule(
        name=st.sampled_from("bc"),
        number=st.integers(1, 2),
        group=st.sampled_from([None, "g"]),
        waits=st.booleans(),
    )
    def enqueue_for_batch(self, name: str, number: int, group: str | None, waits: bool) -> None:
        """Members of a batch, or requests that wait for it; it begins with its first member."""
        batch = self.model.batches.get(name)
        new = [NewRequest(kind="a", priority=1, group_key=group)] * number
        if waits:
            if batch is None:
                return
            answers = self.store.enqueue_many("default", new, after=name)
        elif batch and batch.finished:
            with pytest.raises(InvalidRequest, match="finished"):
                self.store.enqueue_many("default", new, batch_id=name)
            return
        else:
            batch = self.model.batches.setdefault(name, Batch())
            answers = self.store.enqueue_many("default", new, batch_id=name)
        ids = [answer.request_id or 0 for answer in answers]
        assert answers == self.model.enqueue(new, ids)
        if not waits:
            batch.members += ids
        elif not batch.finished:
            self.model.wait(batch, ids)

    @rule(name=st.none() | st.sampled_from("bc"))
    def finish_batches(self, name: str | None) -> None:
        batches = self.model.batches
        chosen = batches.values() if name is None else filter(None, [batches.get(name)])
        assert self.store.finish_batches(name) == sum(map(self.model.finish, chosen))

    # -- workers

    @rule(limit=st.integers(1, 4), slots=st.integers(0, 4), echo=st.booleans())
    def dequeue(self, limit: int, slots: int, echo: bool) -> None:
        claim = self.store.dequeue(
            "one", ["default"], limit, slots=slots, floor=self.floor if echo else None
        )
        self.floor = claim.floor
        self.check(claim, limit, slots)

    def check(self, claim: Claim, limit: int, slots: int) -> None:
        """Is it what a worker gets that knows the kind of all requests?"""
        taken = [Held(held.request_id, held.lock_token) for held in claim.requests]
        if not self.model.paused:
            self.model.housekeeping()
            self.model.hand_on(self.model.room(limit, slots))
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

    @rule(picks=picks)
    def decline(self, picks: list[int]) -> None:
        """A live worker knows the kind, so others leave the request to it for half a minute."""
        self.beat("default")
        held = self.held(picks)
        done = self.model.answered(held, lambda r: self.model.decline(r, timedelta(seconds=30)))
        assert self.store.decline(held, ["x"] * len(held))[0] == done

    @rule(picks=picks)
    def expire(self, picks: list[int]) -> None:
        held = self.held(picks)
        assert self.store.expire(held) == self.model.answered(held, self.model.expire)

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
        if limit:
            self.check(answer.claim, limit, limit)

    # -- the clock

    @rule(seconds=st.sampled_from([0.04, 0.4, 0.9, 1.5, 3, 10, 31, 31]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)
        self.model.now = self.clock.now

    @rule()
    def maintain(self) -> None:
        self.store.maintain()
        for batch in self.model.batches.values():
            self.model.finish(batch)
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

    @rule(
        verb=st.sampled_from([*VERBS]),
        picks=st.none() | picks,
        priority=st.none() | st.integers(0, 2),
        argument=st.integers(0, 3),
        dry=st.booleans(),
    )
    def operate(
        self, verb: str, picks: list[int] | None, priority: int | None, argument: int, dry: bool
    ) -> None:
        """A verb by a filter: of ids or of the queue, and from a priority on."""
        takes, default = VERBS[verb]
        filters: Filter = {"min_priority": priority}
        if picks is None:
            chosen = self.model.of(*default)
            filters["queue"] = "default"
        else:
            known = [id for id in self.ids(picks) if id in self.model.requests]
            chosen = [r for r in self.model.of(*takes) if r.id in known]
            filters["ids"] = known
        chosen = [r for r in chosen if r.priority >= (priority or 0)]
        ids = [r.id for r in chosen]
        left = []
        if verb == "reschedule" and picks is None:
            left = [id for id in ids if self.model.waits(self.model.requests[id])]
            ids = [id for id in ids if id not in left]
        amount = {"reprioritise": "priority", "reschedule": "delay_ms"}.get(verb)
        arguments = {amount: argument * (1000 if verb == "reschedule" else 1)} if amount else {}
        if dry:
            planned = self.store.operate(verb, arguments=arguments, dry_run=True, **filters)
            assert sorted(one.request_id for one in planned.touched) == sorted(ids + left)
        touched = self.store.operate(verb, arguments=arguments, **filters).touched
        answers = dict(zip(ids, self.model.operate(verb, ids, argument), strict=True))
        assert {one.request_id: one.outcome for one in touched} == answers | dict.fromkeys(
            left, Outcome.WAITS
        )

    @rule(dry=st.booleans())
    def delete_queue(self, dry: bool) -> None:
        """The queue goes with what waits in it, unless something of it runs, and comes again."""
        if self.model.of("Processing"):
            with pytest.raises(InvalidRequest, match="cannot be deleted"):
                self.store.delete_queue("default", purge=True, dry_run=dry)
            return
        self.beat()
        gone = (*WAITING, "Failed")
        count = len(self.model.of(*gone))
        assert self.store.delete_queue("default", purge=True, dry_run=dry) == count
        if not dry:
            self.model.purge(gone)
            self.model.paused, self.model.starts = False, []
            self.configure()
        self.beat("default")

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
        assert {one.batch_id: one[1:6] for one in self.store.list_batches()} == {
            name: self.model.counts(batch) for name, batch in self.model.batches.items()
        }
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
