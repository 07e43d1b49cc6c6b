"""Two or three sessions make calls about one request, in every order of their steps.

`STATES` has the answer to each call that runs alone, and the state that it leads to. The expected
result of every interleaving follows from it: a call that meets a locked row either waits for the
lock, and then finds the state that the other call has left, or skips the row and does nothing.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from itertools import combinations, permutations, product
from typing import NamedTuple

import pytest

from rowlease.errors import StoreConflict
from rowlease.model import Failure, Held, Outcome
from tests.contract import sessions
from tests.contract.sessions import Clock, Session

AT_ONCE = Failure("x", after=timedelta(0))
#: How many of the 90 orders of three transactions a run draws, by the seed of pytest-randomly.
DRAWN = int(os.environ.get("ROWLEASE_INTERLEAVINGS", "15"))


class State(NamedTuple):
    """A state of a request that the worker `one` has, or had, leased.

    Attributes:
        status: the status of its row; None if the row is deleted.
        late: the answer to a call of `one` that changes nothing any more.
        transitions: for each call that has an effect: its answer, and the state that follows.
    """

    status: str | None
    late: str
    transitions: dict[str, tuple[str, str]]


RETURNED = {
    "cancel": ("ok", "cancelled"),
    "purge": ("purged", "deleted"),
    "dequeue": ("claimed", "leased by two"),
}
RUNNING = {
    "complete": ("ok", "complete"),
    "fail": ("ok", "returned"),
    "give up": ("ok", "dead"),
    "abandon": ("ok", "returned"),
    "renew": ("ok", "running"),
    "cancel": ("cancel_requested", "cancel requested"),
}
CANCEL_REQUESTED = {
    "complete": ("ok", "complete"),
    "fail": ("ok", "cancelled"),
    "give up": ("ok", "cancelled"),
    "abandon": ("ok", "cancelled"),
    "renew": ("cancel_requested", "cancel requested"),
    "cancel": ("cancel_requested", "cancel requested"),
}
STATES = {
    "new": State("Pending", "lease_lost", RETURNED | {"cancel": ("ok", "cancelled, lease lost")}),
    "running": State("Processing", "", RUNNING),
    "expired": State(
        "Processing",
        "",
        RUNNING
        | {
            "cancel": ("cancel_requested", "cancel requested, expired"),
            "dequeue": ("claimed", "leased by two"),
            "maintain": ("broken", "lease broken"),
        },
    ),
    "cancel requested": State("Processing", "", CANCEL_REQUESTED),
    "cancel requested, expired": State(
        "Processing",
        "",
        CANCEL_REQUESTED
        | {
            "cancel": ("cancel_requested", "cancel requested, expired"),
            "dequeue": ("nothing", "cancelled, lease lost"),
            "maintain": ("broken", "cancelled, lease lost"),
        },
    ),
    "returned": State("Pending", "repeat", RETURNED),
    "lease broken": State(
        "Pending", "lease_lost", RETURNED | {"cancel": ("ok", "cancelled, lease lost")}
    ),
    "leased by two": State(
        "Processing",
        "lease_lost",
        {"cancel": ("cancel_requested", "leased by two, cancel requested")},
    ),
    "leased by two, cancel requested": State(
        "Processing",
        "lease_lost",
        {"cancel": ("cancel_requested", "leased by two, cancel requested")},
    ),
    "dead": State(
        "Failed",
        "repeat",
        {
            "cancel": ("ok", "cancelled"),
            "purge": ("purged", "deleted"),
            "requeue": ("ok", "returned"),
        },
    ),
    "complete": State("Complete", "repeat", {}),
    "cancelled": State("Cancelled", "repeat", {}),
    "cancelled, lease lost": State("Cancelled", "lease_lost", {}),
    "deleted": State(None, "not_found", {}),
}


def one(outcomes: Sequence[str]) -> str:
    (outcome,) = outcomes
    return str(outcome)


#: The calls that the worker `one` and others can make; each returns its answer as one word.
CALLS: dict[str, Callable[[Session, Held], str]] = {
    "complete": lambda session, held: one(session.complete([held])),
    "fail": lambda session, held: one(session.fail([held], [AT_ONCE])),
    "give up": lambda session, held: one(session.fail([held], [Failure("x", dead=True)])),
    "abandon": lambda session, held: one(session.abandon([held])),
    "renew": lambda session, held: one([answer.outcome for answer in session.renew([held])]),
    "cancel": lambda session, held: one(session.cancel([held.request_id])),
    "requeue": lambda session, held: one(session.requeue([held.request_id])),
    "purge": lambda session, held: (
        "purged" if session.purge(["Scheduled", "Pending", "Failed"]) else "nothing"
    ),
    "dequeue": lambda session, held: "claimed" if session.claim("two") else "nothing",
    "maintain": lambda session, held: (
        "broken" if any(done.what == "leases broken" for done in session.maintain()) else "nothing"
    ),
}
#: The calls that never wait, and their answers when they skip a locked row.
SKIPPING = {"renew": "busy", "dequeue": "nothing", "maintain": "nothing"}


def alone(state: str, name: str) -> tuple[str, str]:
    """The answer to a call that runs alone, and the state that follows."""
    if name in STATES[state].transitions:
        return STATES[state].transitions[name]
    if name in ("complete", "fail", "give up", "abandon", "renew"):
        return STATES[state].late, state
    return ("not_found" if name in ("cancel", "requeue") else "nothing"), state


class Scene:
    """One request in a given state, and the sessions around it."""

    def __init__(self, store: Session, clock: Clock, another: Callable[[], Session]) -> None:
        self.store, self.clock = store, clock
        self.sessions = [another() for _ in range(3)]
        self.noon = clock.now
        self.held = Held(0, 0)
        store.maintain()  # makes today's history partition before a transaction is open

    def set(self, state: str) -> None:
        """Replace the request by a new one in this state."""
        self.store.reset()
        self.clock.now = self.noon
        self.clock.advance()
        (request,) = self.store.put()
        self.held = Held(request, 0)
        if state == "new":
            return
        (self.held,) = [Held(held.request_id, held.lock_token) for held in self.store.claim("one")]
        if state == "expired":
            self.clock.advance(seconds=31)
        elif state == "returned":
            self.store.abandon([self.held])
        elif state == "dead":
            self.store.fail([self.held], [Failure("x", dead=True)])

    def call(self, session: Session, name: str) -> str:
        return CALLS[name](session, self.held)

    def call_in_background(self, session: Session, name: str) -> Future[str]:
        return session.in_background(lambda: self.call(session, name))

    def check(self, state: str, reported: object) -> None:
        """Check the state of the request and the counts, and that the request can be finished."""
        rows = self.store.rows("requests", "status", "lock_token")
        assert [row[0] for row in rows] == [s for s in (STATES[state].status,) if s], reported
        assert len(rows) <= 1, reported
        assert self.store.depth() == self.store.counted(), reported
        if late := STATES[state].late:
            assert self.call(self.store, "complete") == late, reported
        # After the lease has run out, any request that is not finished or dead can be completed.
        self.clock.advance(seconds=62)
        self.store.complete(self.store.claim("three"))
        left = self.store.rows("queue", "status")
        assert left == ([("Failed",)] if state == "dead" else []), reported
        assert self.store.depth() == self.store.counted(), reported


@pytest.fixture
def scene(store: Session, clock: Clock, another: Callable[[], Session]) -> Scene:
    return Scene(store, clock, another)


STARTS = ["new", "running", "expired", "returned", "dead"]
#: One after the other is what test_model and test_status_life are about.
ORDERS = ["while the first is open", "before the first rolls back"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("start", STARTS)
def test_two_concurrent_calls_are_linearizable(scene: Scene, start: str, order: str) -> None:
    one, two, _ = scene.sessions
    for first, second in product(CALLS, CALLS):
        reported = (start, first, second, order)
        scene.set(start)
        answer, between = alone(start, first)
        found = start if order == "before the first rolls back" else between
        one.begin()
        assert scene.call(one, first) == answer, reported
        two.begin()
        call = scene.call_in_background(two, second)
        settled = two.settles(call)
        # A call waits only for a row that both change, and sees no uncommitted change.
        locked = {first, second} <= STATES[
            start
        ].transitions.keys() or first == second == "maintain"
        skips = second in SKIPPING and (settled or two.skips_locked)
        if not locked:
            expected = alone(start, second)[0]
            end = alone(start, second)[1] if second in STATES[start].transitions else found
        elif skips:
            expected, end = SKIPPING[second], found
        else:
            expected, end = alone(found, second)
        assert settled == (not locked or skips), reported
        one.commit() if order == "while the first is open" else one.rollback()
        assert call.result() == expected, reported
        two.commit()
        scene.check(end, reported)


# -- three sessions, every order of their steps ----------------------------------------------------

#: The state of the request, and three calls, each in its own transaction.
TRIOS = [
    ("running", "complete", "fail", "abandon"),
    ("running", "complete", "cancel", "dequeue"),
    ("running", "renew", "cancel", "complete"),
    ("running", "give up", "requeue", "dequeue"),
    ("running", "give up", "purge", "cancel"),
    ("running", "abandon", "dequeue, rolled back", "cancel"),
    ("running", "complete, rolled back", "fail", "dequeue"),
    ("expired", "complete", "dequeue", "cancel"),
    ("expired", "complete", "maintain", "requeue"),
    ("expired", "renew", "maintain", "dequeue"),
    ("expired", "fail", "dequeue", "maintain"),
    ("expired", "complete, rolled back", "maintain", "cancel"),
    ("expired", "dequeue, rolled back", "complete", "cancel"),
    ("dead", "requeue", "cancel", "dequeue"),
]


def orders(count: int) -> Iterator[tuple[int, ...]]:
    """Every order of `count` transactions of two steps each: make the call, end it."""
    return iter(sorted(set(permutations([number for number in range(count) for _ in "ab"]))))


class Interleaving:
    """Transactions of one call each, driven step by step."""

    def __init__(self, scene: Scene, names: Sequence[str]) -> None:
        self.scene = scene
        self.names = [name.removesuffix(", rolled back") for name in names]
        self.rolls_back = [name.endswith(", rolled back") for name in names]
        self.calls: dict[int, Future[str]] = {}
        self.ends: list[int] = []
        self.reported: dict[int, str] = {}

    def run(self, order: Sequence[int]) -> None:
        """Make the steps in this order; a call that waits for a lock ends as soon as it has it."""
        for number in order:
            if number not in self.calls:
                session = self.scene.sessions[number]
                session.begin()
                name = self.names[number]
                self.calls[number] = self.scene.call_in_background(session, name)
            else:
                self.ends.append(number)
            self.settle()
        assert len(self.reported) == len(self.names), "a call still waits"

    def settle(self) -> None:
        """End the calls that can end, until only calls that wait for a lock or a step are left."""
        has_ended = True
        while has_ended:
            has_ended = False
            for number, call in self.calls.items():
                settled = number in self.reported or self.scene.sessions[number].settles(call)
                if settled and number in self.ends and number not in self.reported:
                    self.reported[number] = call.result()
                    session = self.scene.sessions[number]
                    session.rollback() if self.rolls_back[number] else session.commit()
                    has_ended = True

    def explained(self, start: str) -> set[str]:
        """The final states of those sequential orders of the calls that give these answers.

        A call that skips locked rows may have found the request locked. A call that was rolled
        back gave an answer that was true at the time, but it changed nothing.
        """
        found = set()
        for sequence in permutations(self.reported):
            ends = {start}
            for number in sequence:
                name, answer = self.names[number], self.reported[number]
                after = set()
                for state in ends:
                    expected, end = alone(state, name)
                    if answer == expected:
                        after.add(state if self.rolls_back[number] else end)
                    if answer == SKIPPING.get(name):
                        after.add(state)
                ends = after
            found |= ends
        return found


@pytest.mark.parametrize(("start", "names"), [(t[0], t[1:]) for t in TRIOS], ids=str)
def test_three_concurrent_calls_are_linearizable(
    scene: Scene, start: str, names: tuple[str, str, str]
) -> None:
    every = [*orders(3)]
    for order in random.sample(every, min(DRAWN, len(every))):
        scene.set(start)
        interleaving = Interleaving(scene, names)
        interleaving.run(order)
        reported = (start, order, [interleaving.reported[number] for number in range(3)])
        ends = interleaving.explained(start)
        status = [status for (status,) in scene.store.rows("requests", "status")]
        ends = {end for end in ends if [s for s in (STATES[end].status,) if s] == status}
        assert ends, reported
        late = scene.call(scene.store, "complete") if all(STATES[end].late for end in ends) else ""
        ends = {end for end in ends if STATES[end].late == late}
        assert ends, (reported, late)
        scene.check(ends.pop(), reported)


# -- batches that cross ----------------------------------------------------------------------------

#: Calls about two requests at once, in the order of requests in which two calls could deadlock.
BATCHES: dict[str, Callable[[Session, Held, Held], Sequence[str]]] = {
    "complete": lambda session, low, high: session.complete([high, low]),
    "fail": lambda session, low, high: session.fail([high, low], [AT_ONCE] * 2),
    "abandon": lambda session, low, high: session.abandon([high, low]),
    "cancel": lambda session, low, high: session.cancel([high.request_id, low.request_id]),
    "exchange": lambda session, low, high: (
        (done := session.exchange("one", ["default"], 1, completed=[(high, None)],
                                  failed=[(low, AT_ONCE)])).completed + done.failed
    ),
    "renew": lambda session, low, high: [a.outcome for a in session.renew([high, low])],
}  # fmt: skip


@pytest.mark.parametrize("first", BATCHES)
def test_batches_that_name_the_same_requests_in_any_order_do_not_block_each_other_for_ever(
    store: Session, another: Callable[[], Session], first: str
) -> None:
    one, two, gate = another(), another(), another()
    deadlocks = 0

    def start(session: Session, name: str, held: list[Held]) -> Future[Sequence[str]]:
        call = session.in_background(lambda: BATCHES[name](session, *held))
        session.settles(call)
        return call

    for second, locked in product(BATCHES, (0, 1)):
        store.reset()
        store.put(2)
        held = [Held(request.request_id, request.lock_token) for request in store.claim("one", 2)]
        gate.begin()
        gate.forge("queue", held[locked].request_id, priority=0)
        calls = [start(one, first, held), start(two, second, held)]
        gate.rollback()
        reported: list[Sequence[str]] = []
        for call in calls:
            try:
                reported.append(call.result())
            except StoreConflict:
                if store.skips_locked:
                    raise
                deadlocks += 1
                reported.append(["nothing was done"] * 2)
        settled = [
            sum(
                answers[place] == Outcome.OK
                for name, answers in zip((first, second), reported, strict=True)
                if name in ("complete", "fail", "abandon", "exchange")
            )
            for place in (0, 1)
        ]
        assert max(settled) <= 1, (first, second, locked, reported)
        assert store.depth() == store.counted()
    if deadlocks:
        pytest.skip(sessions.IN_ANY_ORDER)


def test_a_batch_of_dead_letters_can_be_requeued_and_cancelled_at_once(
    store: Session, another: Callable[[], Session]
) -> None:
    one, two, gate = another(), another(), another()
    for locked in (0, 1):
        store.reset()
        ids = store.put(2)
        store.fail(store.claim(limit=2), [Failure("x", dead=True)] * 2)
        gate.begin()
        gate.forge("queue", ids[locked], priority=0)
        requeued = one.waiting(partial(one.requeue, ids[::-1]))
        cancelled = two.waiting(partial(two.cancel, ids))
        gate.rollback()
        assert set(requeued.result()) == {Outcome.OK}
        assert cancelled.result() == [Outcome.OK] * 2


# -- groups ----------------------------------------------------------------------------------------

#: Calls that may overlap at the head of a group, each in its own transaction.
GROUP_CALLS: dict[str, Callable[[Session, list[Held]], object]] = {
    "complete the head": lambda session, ids: session.complete([ids[0]]),
    "give the head up": lambda session, ids: session.fail([ids[0]], [Failure("x", dead=True)]),
    "cancel the next": lambda session, ids: session.cancel([ids[1].request_id]),
    "add one more": lambda session, ids: session.put(group_key="g"),
    "dequeue": lambda session, ids: session.claim("two", 9),
    "purge": lambda session, ids: session.purge(["Pending"], limit=1),
}


@pytest.mark.parametrize("names", [*combinations(GROUP_CALLS, 2)], ids=" | ".join)
def test_no_request_of_a_group_is_forgotten_whatever_happens_at_its_head(
    store: Session, another: Callable[[], Session], clock: Clock, names: tuple[str, str]
) -> None:
    sessions = [another(), another()]
    store.maintain()
    for order in [*orders(2)]:
        store.reset()
        clock.advance(seconds=1)
        group = store.put(3, group_key="g")
        (first,) = store.claim("one", 9)
        ids = [Held(id, first.lock_token) for id in group]
        calls: dict[int, Future[object]] = {}
        ends: set[int] = set()
        for number in [*order, *order]:  # twice: a call that waited ends in the second round
            session = sessions[number]
            if number not in calls:
                session.begin()
                calls[number] = session.in_background(
                    partial(GROUP_CALLS[names[number]], session, ids)
                )
                session.settles(calls[number])
            elif number not in ends and session.settles(calls[number]):
                calls[number].result()
                session.commit()
                ends.add(number)
        assert ends == {0, 1}, (names, order)
        in_flight = store.rows("queue", "request_id", status="Processing")
        assert len(in_flight) <= 1, (names, order)
        # The remaining requests can be claimed one at a time.
        clock.advance(seconds=62)
        for _ in range(4):
            held = store.claim("three", 9)
            assert len(held) <= 1, (names, order)
            store.complete(held)
            clock.advance(seconds=2)
        left = store.rows("queue", "status")
        assert left == [("Failed",)] * left.count(("Failed",)), (names, order)
        assert store.depth() == store.counted(), (names, order)


@pytest.mark.only_on("postgresql", why="there alone a query lists the rows that are not locked")
def test_a_batch_locks_its_requests_in_their_order(
    store: Session, another: Callable[[], Session]
) -> None:
    """Two batches of the same requests wait for each other otherwise."""
    store.put(2)
    first, second = sorted(store.dequeue("one", ["default"], 2).requests)
    holder = another()
    holder.begin()
    holder.complete([second])
    call = store.waiting(lambda: store.complete([second, first]))
    free = another().execute("select request_id from rowlease.queue for update skip locked")
    assert free == []  # the call has locked the first, and waits for the second
    holder.rollback()
    assert call.result() == [Outcome.OK, Outcome.OK]
