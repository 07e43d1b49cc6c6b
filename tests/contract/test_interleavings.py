"""Interleavings: two or three sessions at one request, in every order of their steps.

`LIFE` says what one session alone would be told, and where that leaves the request. From it follows
what any order of steps must come to: who meets a locked row waits for it and then finds the request
as the other left it, or passes over it and has done nothing.
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
#: Of the 90 orders of three transactions a run draws so many, by the seed of pytest-randomly.
DRAWN = int(os.environ.get("ROWLEASE_INTERLEAVINGS", "30"))


class State(NamedTuple):
    """A request as the worker `one` knows it, who has (or had) the lease.

    Attributes:
        status: None if the request is gone.
        late: what `one` is told when its word changes nothing any more.
        moves: for each word that finds something to do: the answer, and the state it leaves.
    """

    status: str | None
    late: str
    moves: dict[str, tuple[str, str]]


HANDED_BACK = {
    "cancel": ("ok", "cancelled"),
    "purge": ("purged", "gone"),
    "dequeue": ("took", "theirs"),
}
RUNNING = {
    "complete": ("ok", "complete"),
    "fail": ("ok", "handed back"),
    "give up": ("ok", "dead"),
    "abandon": ("ok", "handed back"),
    "renew": ("ok", "running"),
    "cancel": ("cancel_requested", "asked"),
}
ASKED = {
    "complete": ("ok", "complete"),
    "fail": ("ok", "cancelled"),
    "give up": ("ok", "cancelled"),
    "abandon": ("ok", "cancelled"),
    "renew": ("cancel_requested", "asked"),
    "cancel": ("cancel_requested", "asked"),
}
LIFE = {
    "new": State("Pending", "lease_lost", HANDED_BACK | {"cancel": ("ok", "cancelled too late")}),
    "running": State("Processing", "", RUNNING),
    "expired": State(
        "Processing",
        "",
        RUNNING
        | {
            "cancel": ("cancel_requested", "asked and expired"),
            "dequeue": ("took", "theirs"),
            "maintain": ("broke", "taken back"),
        },
    ),
    "asked": State("Processing", "", ASKED),
    "asked and expired": State(
        "Processing",
        "",
        ASKED
        | {
            "cancel": ("cancel_requested", "asked and expired"),
            "dequeue": ("nothing", "cancelled too late"),
            "maintain": ("broke", "cancelled too late"),
        },
    ),
    "handed back": State("Pending", "repeat", HANDED_BACK),
    "taken back": State(
        "Pending", "lease_lost", HANDED_BACK | {"cancel": ("ok", "cancelled too late")}
    ),
    "theirs": State(
        "Processing", "lease_lost", {"cancel": ("cancel_requested", "theirs and asked")}
    ),
    "theirs and asked": State(
        "Processing", "lease_lost", {"cancel": ("cancel_requested", "theirs and asked")}
    ),
    "dead": State(
        "Failed",
        "repeat",
        {
            "cancel": ("ok", "cancelled"),
            "purge": ("purged", "gone"),
            "requeue": ("ok", "handed back"),
        },
    ),
    "complete": State("Complete", "repeat", {}),
    "cancelled": State("Cancelled", "repeat", {}),
    "cancelled too late": State("Cancelled", "lease_lost", {}),
    "gone": State(None, "not_found", {}),
}


def one(outcomes: Sequence[str]) -> str:
    (outcome,) = outcomes
    return str(outcome)


#: What can be said, by the worker `one` or by anybody else, and the answer in one word.
WORDS: dict[str, Callable[[Session, Held], str]] = {
    "complete": lambda session, held: one(session.complete([held])),
    "fail": lambda session, held: one(session.fail([held], [AT_ONCE])),
    "give up": lambda session, held: one(session.fail([held], [Failure("x", dead=True)])),
    "abandon": lambda session, held: one(session.abandon([held])),
    "renew": lambda session, held: one([answer.outcome for answer in session.renew([held])]),
    "cancel": lambda session, held: one(session.cancel([held.request_id])),
    "requeue": lambda session, held: one([a.outcome for a in session.requeue([held.request_id])]),
    "purge": lambda session, held: (
        "purged" if session.purge("default", ["Scheduled", "Pending", "Failed"]) else "nothing"
    ),
    "dequeue": lambda session, held: "took" if session.claim("two") else "nothing",
    "maintain": lambda session, held: (
        "broke" if any(done.what == "leases broken" for done in session.maintain()) else "nothing"
    ),
}
#: The words that never wait: they pass over a row that is locked, and say this.
PASSING = {"renew": "busy", "purge": "nothing", "dequeue": "nothing", "maintain": "nothing"}


def alone(state: str, word: str) -> tuple[str, str]:
    """The answer to a word that nobody disturbs, and the state it leaves."""
    if word in LIFE[state].moves:
        return LIFE[state].moves[word]
    if word in ("complete", "fail", "give up", "abandon", "renew"):
        return LIFE[state].late, state
    return ("not_found" if word in ("cancel", "requeue") else "nothing"), state


class Scene:
    """One request in a given state, and the sessions around it."""

    def __init__(self, store: Session, clock: Clock, another: Callable[[], Session]) -> None:
        self.store, self.clock = store, clock
        self.sessions = [another() for _ in range(3)]
        self.noon = clock.now
        self.held = Held(0, 0)
        store.maintain()  # today's history partition is not made in a transaction left open

    def set(self, state: str) -> None:
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
        elif state == "handed back":
            self.store.abandon([self.held])
        elif state == "dead":
            self.store.fail([self.held], [Failure("x", dead=True)])

    def say(self, session: Session, word: str) -> str:
        return WORDS[word](session, self.held)

    def say_aside(self, session: Session, word: str) -> Future[str]:
        return session.in_background(lambda: self.say(session, word))

    def check(self, state: str, reported: object) -> None:
        """The request is in this state, and nothing was lost or left hanging."""
        rows = self.store.rows("requests", "status", "lock_token")
        assert [row[0] for row in rows] == [s for s in (LIFE[state].status,) if s], reported
        assert len(rows) <= 1, reported
        assert self.store.depth() == self.store.counted(), reported
        if late := LIFE[state].late:
            assert self.say(self.store, "complete") == late, reported
        # Whatever is neither finished nor dead comes to its end when time has passed.
        self.clock.advance(seconds=62)
        self.store.complete(self.store.claim("three"))
        left = self.store.rows("queue", "status")
        assert left == ([("Failed",)] if state == "dead" else []), reported
        assert self.store.depth() == self.store.counted(), reported


@pytest.fixture
def scene(store: Session, clock: Clock, another: Callable[[], Session]) -> Scene:
    return Scene(store, clock, another)


STARTS = ["new", "running", "expired", "handed back", "dead"]
ORDERS = ["one after the other", "while the first is open", "while the first is undone"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("start", STARTS)
def test_two_concurrent_calls_are_linearizable(scene: Scene, start: str, order: str) -> None:
    one, two, _ = scene.sessions
    for first, second in product(WORDS, WORDS):
        reported = (start, first, second, order)
        scene.set(start)
        answer, between = alone(start, first)
        found = start if order == "while the first is undone" else between
        one.begin()
        assert scene.say(one, first) == answer, reported
        if order == "one after the other":
            one.commit()
        two.begin()
        call = scene.say_aside(two, second)
        settled = two.settles(call)
        if order != "one after the other":
            # Only what both would change is locked; what the first has not committed is not seen.
            locked = {first, second} <= LIFE[start].moves.keys() or first == second == "maintain"
            passes = second in PASSING and (settled or two.skips_locked)
            if not locked:
                expected = alone(start, second)[0]
                end = alone(start, second)[1] if second in LIFE[start].moves else found
            elif passes:
                expected, end = PASSING[second], found
            else:
                expected, end = alone(found, second)
            assert settled == (not locked or passes), reported
            one.commit() if order == "while the first is open" else one.rollback()
        else:
            expected, end = alone(found, second)
            assert settled, reported
        assert call.result() == expected, reported
        two.commit()
        scene.check(end, reported)


# -- three sessions, every order of their steps ----------------------------------------------------

#: Where the request stands, and three words, each said in a transaction of its own.
TRIOS = [
    ("running", "complete", "fail", "abandon"),
    ("running", "complete", "cancel", "dequeue"),
    ("running", "renew", "cancel", "complete"),
    ("running", "give up", "requeue", "dequeue"),
    ("running", "give up", "purge", "cancel"),
    ("running", "abandon", "dequeue, undone", "cancel"),
    ("running", "complete, undone", "fail", "dequeue"),
    ("expired", "complete", "dequeue", "cancel"),
    ("expired", "complete", "maintain", "requeue"),
    ("expired", "renew", "maintain", "dequeue"),
    ("expired", "fail", "dequeue", "maintain"),
    ("expired", "complete, undone", "maintain", "cancel"),
    ("expired", "dequeue, undone", "complete", "cancel"),
    ("dead", "requeue", "cancel", "dequeue"),
]


def orders(count: int) -> Iterator[tuple[int, ...]]:
    """Every order of `count` transactions of two steps each: make the call, end it."""
    return iter(sorted(set(permutations([number for number in range(count) for _ in "ab"]))))


class Interleaving:
    """Transactions of one call each, driven step by step."""

    def __init__(self, scene: Scene, words: Sequence[str]) -> None:
        self.scene = scene
        self.words = [word.removesuffix(", undone") for word in words]
        self.undone = [word.endswith(", undone") for word in words]
        self.calls: dict[int, Future[str]] = {}
        self.ends: list[int] = []
        self.reported: dict[int, str] = {}

    def run(self, order: Sequence[int]) -> None:
        """Make the steps in this order; who waits for a lock ends as soon as it has it."""
        for number in order:
            if number not in self.calls:
                session = self.scene.sessions[number]
                session.begin()
                self.calls[number] = self.scene.say_aside(session, self.words[number])
            else:
                self.ends.append(number)
            self.settle()
        assert len(self.reported) == len(self.words), "nobody waits for ever"

    def settle(self) -> None:
        """Let everybody go on who can, until all others wait for them."""
        moved = True
        while moved:
            moved = False
            for number, call in self.calls.items():
                settled = number in self.reported or self.scene.sessions[number].settles(call)
                if settled and number in self.ends and number not in self.reported:
                    self.reported[number] = call.result()
                    session = self.scene.sessions[number]
                    session.rollback() if self.undone[number] else session.commit()
                    moved = True

    def explained(self, start: str) -> set[str]:
        """The states in which some order of the calls, one by one, ends with these answers.

        A word that passes over locked rows may have found the request locked. What was undone has
        told the truth, but changed nothing.
        """
        found = set()
        for sequence in permutations(self.reported):
            ends = {start}
            for number in sequence:
                word, answer = self.words[number], self.reported[number]
                after = set()
                for state in ends:
                    expected, end = alone(state, word)
                    if answer == expected:
                        after.add(state if self.undone[number] else end)
                    if answer == PASSING.get(word):
                        after.add(state)
                ends = after
            found |= ends
        return found


@pytest.mark.parametrize(("start", "words"), [(t[0], t[1:]) for t in TRIOS], ids=str)
def test_three_concurrent_calls_are_linearizable(
    scene: Scene, start: str, words: tuple[str, str, str]
) -> None:
    every = [*orders(3)]
    for order in random.sample(every, min(DRAWN, len(every))):
        scene.set(start)
        interleaving = Interleaving(scene, words)
        interleaving.run(order)
        reported = (start, order, [interleaving.reported[number] for number in range(3)])
        ends = interleaving.explained(start)
        status = [status for (status,) in scene.store.rows("requests", "status")]
        ends = {end for end in ends if [s for s in (LIFE[end].status,) if s] == status}
        assert ends, reported
        late = scene.say(scene.store, "complete") if all(LIFE[end].late for end in ends) else ""
        ends = {end for end in ends if LIFE[end].late == late}
        assert ends, (reported, late)
        scene.check(ends.pop(), reported)


# -- batches that cross ----------------------------------------------------------------------------

#: Words about two requests at once, named in the order in which a deadlock would need them.
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

    def say(session: Session, word: str, held: list[Held]) -> Future[Sequence[str]]:
        call = session.in_background(lambda: BATCHES[word](session, *held))
        session.settles(call)
        return call

    for second, locked in product(BATCHES, (0, 1)):
        store.reset()
        store.put(2)
        held = [Held(request.request_id, request.lock_token) for request in store.claim("one", 2)]
        gate.begin()
        gate.forge("queue", held[locked].request_id, priority=0)
        calls = [say(one, first, held), say(two, second, held)]
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
                for word, answers in zip((first, second), reported, strict=True)
                if word in ("complete", "fail", "abandon", "exchange")
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
        assert {answer.outcome for answer in requeued.result()} == {Outcome.OK}
        assert cancelled.result() == [Outcome.OK] * 2


# -- groups ----------------------------------------------------------------------------------------

#: What may happen around the head of a group at one moment, each in a transaction of its own.
GROUP_WORDS: dict[str, Callable[[Session, list[Held]], object]] = {
    "complete the head": lambda session, ids: session.complete([ids[0]]),
    "give the head up": lambda session, ids: session.fail([ids[0]], [Failure("x", dead=True)]),
    "cancel the next": lambda session, ids: session.cancel([ids[1].request_id]),
    "add one more": lambda session, ids: session.put(group_key="g"),
    "dequeue": lambda session, ids: session.claim("two", 9),
    "purge": lambda session, ids: session.purge("default", ["Pending"], limit=1),
}


@pytest.mark.parametrize("words", [*combinations(GROUP_WORDS, 2)], ids=" | ".join)
def test_no_request_of_a_group_is_forgotten_whatever_happens_at_its_head(
    store: Session, another: Callable[[], Session], clock: Clock, words: tuple[str, str]
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
        for number in [*order, *order]:  # twice: who waited ends in the second round
            session = sessions[number]
            if number not in calls:
                session.begin()
                calls[number] = session.in_background(
                    partial(GROUP_WORDS[words[number]], session, ids)
                )
                session.settles(calls[number])
            elif number not in ends and session.settles(calls[number]):
                calls[number].result()
                session.commit()
                ends.add(number)
        assert ends == {0, 1}, (words, order)
        flying = store.rows("queue", "request_id", status="Processing")
        assert len(flying) <= 1, (words, order)
        # Whoever is left comes to its turn, one at a time.
        clock.advance(seconds=62)
        for _ in range(4):
            held = store.claim("three", 9)
            assert len(held) <= 1, (words, order)
            store.complete(held)
            clock.advance(seconds=2)
        left = store.rows("queue", "status")
        assert left == [("Failed",)] * left.count(("Failed",)), (words, order)
        assert store.depth() == store.counted(), (words, order)
