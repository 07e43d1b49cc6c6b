"""Which outcomes the sender delivers, and which it leaves to the receiver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlease.errors import AccessDenied, StoreUnavailable
from rowlease.events import Events
from rowlease.model import Claim, Exchanged, LeasedRequest, Outcome
from rowlease.tasks.task import Registry, Task
from rowlease.worker.attempt import Returned
from rowlease.worker.claims import receiver as sender_module
from rowlease.worker.claims.exchanger import Exchanger
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.outcomes import FEW, Ended, Outcomes
from rowlease.worker.claims.queues import QueueOrder
from rowlease.worker.claims.receiver import PAUSE_AFTER_ERROR, OutcomeSender

AT = datetime(2026, 1, 1, tzinfo=UTC)
MANY = FEW + 1


class World:
    """A sender with its exchanger, and the store and the receiver that they use, in one object."""

    def __init__(self) -> None:
        self.is_calling = True
        self.num_sent = 0
        self.calls: list[list[int]] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.next_id = 0
        this: Any = self
        self.exchanger = Exchanger(
            this, "w", QueueOrder(["default"]), Registry([Task(print)]), this, Events()
        )
        self.outcome_sender = OutcomeSender(self.exchanger, this)

    def exchange(
        self, worker: str, queues: list[str], limit: int, *, completed: Sequence[Any], **_: Any
    ) -> Exchanged:
        self.calls.append([held.request_id for held, _ in completed])
        self.meanwhile()
        return Exchanged([Outcome.OK] * len(completed), [], [], Claim([], False, None, "f"))

    shortest = 30.0

    def within(self, timeout: timedelta) -> World:
        return self

    def add(self, leases: list[Lease]) -> None: ...

    def drop(self, leases: Sequence[Lease]) -> None: ...

    def sent(self) -> None:
        self.num_sent += 1

    def finish(self, count: int) -> list[int]:
        """Deliver outcomes as the dispatcher does when `count` tasks have returned."""
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        ends = AT + timedelta(seconds=30)
        self.exchanger.deliver(
            Outcomes(
                done=[
                    Ended(
                        Lease(
                            LeasedRequest(
                                *(number, "default", "print", 0, AT, AT, AT, ends),
                                *(1, 1, 5, 0, None, None),
                                payload="{}",
                            ),
                            *(0, None, 0.0),
                        ),
                        *(Returned(None), 0.1),
                    )
                    for number in ids
                ]
            )
        )
        return ids

    def run(self) -> None:
        """Run the sender once."""
        self.outcome_sender.notice()
        if self.outcome_sender._wake.is_set():
            self.outcome_sender._serve()


@pytest.fixture
def world() -> World:
    return World()


@contextmanager
def in_a_thread(run: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(10)
    assert not thread.is_alive()


def test_many_outcomes_do_not_wait_for_the_claim(world: World) -> None:
    ids = world.finish(MANY)
    world.run()
    assert world.calls == [ids]
    assert (world.exchanger.undelivered, world.num_sent) == (0, 1)


def test_few_outcomes_wait_for_the_next_claim(world: World) -> None:
    world.finish(FEW)
    world.run()
    assert world.calls == []


@pytest.mark.parametrize("what", ["away", "closed"])
def test_outcomes_that_the_receiver_can_send_are_left_to_it(world: World, what: str) -> None:
    world.finish(MANY)
    if what == "away":
        world.is_calling = False
    else:
        world.outcome_sender.close()
    world.run()
    assert world.calls == []


def test_outcomes_that_came_meanwhile_follow_if_they_are_many(world: World) -> None:
    first = world.finish(MANY)
    second: list[int] = []

    def meanwhile() -> None:
        second.extend(world.finish(MANY if len(world.calls) == 1 else FEW))

    world.meanwhile = meanwhile
    world.run()
    assert world.calls == [first, second[:MANY]]
    assert world.exchanger.undelivered == FEW


def test_outcomes_that_were_not_delivered_keep_their_order(world: World) -> None:
    """An outcome may have been recorded; the next exchange then gets `repeat`."""
    first = world.finish(MANY)

    def away() -> None:
        world.finish(1)
        raise StoreUnavailable("away")

    world.meanwhile = away
    world.run()
    assert world.num_sent == 1
    assert world.exchanger.undelivered == MANY + 1
    assert world.exchanger.waiting_since is not None
    world.meanwhile = lambda: None
    world.exchanger.exchange(0, 0)
    assert world.calls[1] == [*first, MANY]
    assert world.exchanger.undelivered == 0


def test_after_an_error_only_the_receiver_makes_calls_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [1000.0]
    monkeypatch.setattr(sender_module, "now", lambda: times[0])
    world.finish(MANY)

    def refuse() -> None:
        raise AccessDenied("revoked")

    world.meanwhile = refuse
    world.run()
    world.run()
    assert len(world.calls) == 1
    times[0] += PAUSE_AFTER_ERROR
    world.run()
    assert len(world.calls) == 2
    assert world.exchanger.undelivered == MANY


def test_outcomes_that_are_being_sent_beside_a_claim_are_not_sent_twice(world: World) -> None:
    first = world.finish(MANY)
    on_its_way, answered = threading.Event(), threading.Event()

    def meanwhile() -> None:
        if len(world.calls) == 1:
            on_its_way.set()
            assert answered.wait(10)

    world.meanwhile = meanwhile
    with in_a_thread(lambda: world.exchanger.exchange(0, 0)):
        assert on_its_way.wait(10)
        assert world.exchanger.undelivered == MANY
        second = world.finish(2)
        world.exchanger.exchange(5, 1)
        assert world.exchanger.undelivered == MANY
        answered.set()
    assert world.calls == [first, second]
    assert world.exchanger.undelivered == 0
    assert world.exchanger.counts.finished == MANY + 2


def test_the_sender_ends_when_it_is_closed(world: World) -> None:
    with in_a_thread(world.outcome_sender.run):
        world.finish(MANY)
        world.outcome_sender.notice()
        world.outcome_sender.close()
