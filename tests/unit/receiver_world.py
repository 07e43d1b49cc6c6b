"""A receiver and its exchanger among neighbours that a test plays, by a clock that it moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlease.errors import InvalidRequest
from rowlease.events import Event, Events
from rowlease.model import Claim, Exchanged, LeasedRequest, NewRequest, Outcome
from rowlease.tasks.task import Registry, Task
from rowlease.worker import calls
from rowlease.worker.attempt import Returned
from rowlease.worker.claims import exchanger, receiver, receiver_state, suspects
from rowlease.worker.claims.exchanger import Exchanger
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.outcomes import Ended, Outcomes
from rowlease.worker.claims.queues import QueueOrder
from rowlease.worker.claims.receiver import Receiver
from rowlease.worker.claims.suspects import Suspects

AT = datetime(2026, 1, 1, tzinfo=UTC)
UNKNOWN_KIND = "no task is named 'nobody'; the known tasks are: print"
EMPTY = Claim([], more=False, wait=None, floor="f")


def request(number: int, kind: str = "print", payload: str = "{}") -> LeasedRequest:
    ends = AT + timedelta(seconds=30)
    return LeasedRequest(
        *(number, "default", kind, 0, AT, AT, AT, ends, 1, 1, 5, 0, None, None), payload=payload
    )


class World:
    """A receiver and its exchanger, and the store, slots, leases and listener that they use."""

    def __init__(
        self, *, burst: bool = False, can_listen: bool = True, is_isolated: bool = False
    ) -> None:
        self.time = 1000.0
        self.capacity, self.idle, self.held = 2, 2, 0
        self.claims: list[Claim] = []
        self.calls: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.call_seconds = 0.0
        self.meanwhile: Callable[[], object] = lambda: None
        self.outcomes: dict[int, Outcome] = {}
        self.refuses: Callable[[str | None], bool] = lambda answered: False
        self.taken: list[Lease] = []
        self.renewed: list[Lease] = []
        self.starts: list[tuple[list[int], bool]] = []
        self.renewal_error: Exception | None = None
        self.loses: list[int] = []
        self.disowned: list[list[int]] = []
        self.late: list[int] = []
        self.declined: list[tuple[int, str]] = []
        self.dead = False
        self.shortest = 30.0
        self.failing_since: float | None = None
        self.times: list[timedelta] = []
        self.idleness: list[str] = []
        self.is_announced = False
        self.ended, self.may_end = False, True
        self.asked_to_end: list[float] = []
        self.num_wakes = 0
        self.emitted: list[Event] = []
        events = Events()
        events.subscribe(self.emitted.append)
        this: Any = self
        self.exchanger = Exchanger(
            this, "w", QueueOrder(["default"]), Registry([Task(print)]), this, events
        )
        self.receiver = Receiver(
            self.exchanger,
            this,
            this,
            Suspects(self.exchanger, this, this, is_isolated=is_isolated, is_patient=burst),
            events,
            listener=this if can_listen else None,
            poll=5.0,
            drained=self.end if burst else None,
        )

    # The methods that the receiver and the exchanger call.

    def within(self, timeout: timedelta) -> World:
        self.times.append(timeout)
        return self

    def dequeue(self, worker: str, queues: list[str], limit: int, **given: Any) -> Claim:
        return self.exchange(worker, queues, limit, **given).claim

    def exchange(self, worker: str, queues: list[str], limit: int, **given: Any) -> Exchanged:
        given = {"completed": (), "failed": (), **given}
        self.calls.append({"limit": limit, **given})
        self.time += self.call_seconds
        self.meanwhile()
        if self.error:
            raise self.error
        self.refuse([result for _, result in given["completed"]])
        self.refuse([failure.error for _, failure in given["failed"]])
        claim = self.claims.pop(0) if limit and self.claims else EMPTY
        completed, failed = (
            [self.outcomes.get(held.request_id, Outcome.OK) for held, _ in given[which]]
            for which in ("completed", "failed")
        )
        dead = [failure.dead for _, failure in given["failed"]]
        return Exchanged(completed, failed, dead, claim)

    def complete(
        self, held: Sequence[LeasedRequest], results: Sequence[str | None]
    ) -> list[Outcome]:
        self.calls.append({"completed": [one.request_id for one in held]})
        self.refuse(results)
        return [Outcome.OK] * len(held)

    def complete_and_enqueue(
        self, held: LeasedRequest, result: str | None, queue: str, successor: NewRequest
    ) -> Outcome:
        self.calls.append({"completed": held.request_id, "successor": (queue, successor.payload)})
        if self.error:
            raise self.error
        self.refuse([successor.payload])
        return self.outcomes.get(held.request_id, Outcome.OK)

    def refuse(self, texts: Sequence[str | None]) -> None:
        if any(self.refuses(text) for text in texts):
            raise InvalidRequest("no such character")

    def abandon(self, held: Sequence[LeasedRequest]) -> list[Outcome]:
        self.calls.append({"abandoned": [one.request_id for one in held]})
        return [self.outcomes.get(one.request_id, Outcome.OK) for one in held]

    def expire(self, held: Sequence[LeasedRequest]) -> list[Outcome]:
        self.calls.append({"expired": [one.request_id for one in held]})
        return [self.outcomes.get(one.request_id, Outcome.OK) for one in held]

    def snooze(
        self, held: Sequence[LeasedRequest], delays: Sequence[timedelta], reasons: Sequence[str]
    ) -> list[Outcome]:
        self.calls.append({"snoozed": [one.request_id for one in held], "after": delays})
        return [self.outcomes.get(one.request_id, Outcome.OK) for one in held]

    def decline(
        self, held: Sequence[LeasedRequest], errors: Sequence[str]
    ) -> tuple[list[Outcome], list[bool]]:
        if self.error:
            raise self.error
        self.declined += zip([one.request_id for one in held], errors, strict=True)
        return [Outcome.OK] * len(held), [self.dead] * len(held)

    def take(self, leases: list[Lease]) -> None:
        self.num_wakes += not leases
        self.taken += leases
        self.held += len(leases)
        self.idle = max(0, self.idle - len(leases))

    def add(self, leases: list[Lease]) -> None:
        self.renewed += leases

    def drop(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self.renewed.remove(lease)

    def report_start(self, leases: Sequence[Lease], *, has_started: bool) -> None:
        if self.renewal_error:
            raise self.renewal_error
        self.starts.append(([one.request.request_id for one in leases], has_started))
        for one in leases:
            one.lost = one.request.request_id in self.loses

    def requests(self) -> list[LeasedRequest]:
        return [lease.request for lease in self.renewed]

    def disown(
        self, worker: str, queues: list[str], held: Sequence[LeasedRequest]
    ) -> list[tuple[int, Outcome]]:
        assert (worker, queues) == ("w", ["default"])
        self.disowned.append(sorted(one.request_id for one in held))
        if self.error:
            raise self.error
        late, self.late = self.late, []
        return [(number, Outcome.OK) for number in late]

    def announce(self) -> None:
        self.idleness.append("announce")

    def retract(self) -> None:
        self.idleness.append("retract")

    def end(self, claimed_at: float) -> bool:
        self.asked_to_end.append(claimed_at)
        self.ended = self.may_end
        return self.may_end

    # The methods that a test calls.

    def pause(self) -> float:
        self.receiver._read_inbox()
        return self.receiver._pause()

    def exchange_now(self) -> dict[str, Any]:
        assert self.pause() <= 0
        self.receiver._exchange()
        return self.calls[-1]

    def finish(self, *leases: Lease) -> None:
        """Deliver outcomes as the dispatcher does when tasks have returned."""
        over = [one for one in leases if one in self.renewed]
        self.exchanger.deliver(
            Outcomes(done=[Ended(one, Returned(None), 0.1) for one in leases]), over
        )
        self.held -= len(leases)
        self.idle += len(leases)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    world = World(**getattr(request, "param", {}))
    modules = (receiver, receiver_state, exchanger, calls, suspects)
    for module in modules:
        monkeypatch.setattr(module, "now", lambda: world.time)
    return world


def found(*numbers: int, more: bool = True, **given: Any) -> Claim:
    return Claim([request(n, **given) for n in numbers], more=more, wait=None, floor="f")
