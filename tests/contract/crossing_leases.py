"""Calls of workers that cross, and what the small queue makes of each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from rowlease.model import Failure, Held, LeasedRequest, Outcome
from tests.contract.crossing import Call, Differs, Refused, World, new, refused
from tests.contract.sessions import Session
from tests.contract.small_queue import Model

AT_ONCE = Failure("x", after=timedelta(0))
DEAD = Failure("x", dead=True)
SECOND = timedelta(seconds=1)
#: What a live worker that knows the kind has for a declined request.
HALF_MINUTE = timedelta(seconds=30)
#: What follows a completion; its dedup key may be taken.
NEXT = new(kind="next", dedup_key="k")


class Claimed(NamedTuple):
    """A claim, which may be short if there is more."""

    held: list[Held]
    more: bool


def leased(requests: list[LeasedRequest]) -> list[Held]:
    return sorted(Held(one.request_id, one.lock_token) for one in requests)


def claim(world: World, limit: int, given: Any) -> Any:
    """The same requests in any order, which depends on when each row came."""
    if isinstance(given, Refused):
        return given if world.is_deleted else None
    if world.is_deleted:
        return Claimed([], given.more)
    model = world.model
    if world.is_known and not model.paused:
        model.housekeeping()
        model.hand_on(model.room(limit, limit))
    tokens = {one.request_id: one.lock_token for one in given.held}
    order = model.claimable(limit, limit)
    held = model.dequeue(limit, limit, [tokens.get(r.id, 0) for r in order])
    return Claimed(sorted(held), given.more)


def dequeue(limit: int) -> Call:
    def do(session: Session, world: World) -> Claimed:
        found = session.dequeue("two", ["default"], limit)
        return Claimed(leased(found.requests), found.more)

    return Call(do, lambda world, given: claim(world, limit, given), skips=True)


def report(
    do: Callable[[Session, list[Held]], list[Outcome]], word: Callable[[Model, Any], object]
) -> Call:
    """The outcome of all leases of the worker `one`."""
    return Call(
        lambda session, world: [str(one) for one in do(session, world.held)],
        lambda world, given: world.model.answered(world.held, lambda r: word(world.model, r)),
    )


def exchange() -> Call:
    def do(session: Session, world: World) -> Any:
        done, failed, *_ = world.held
        answer = session.exchange(
            "two", ["default"], 2, completed=[(done, None)], failed=[(failed, AT_ONCE)]
        )
        told = [str(one) for one in answer.completed + answer.failed]
        return told, Claimed(leased(answer.claim.requests), answer.claim.more)

    def plain(world: World, given: Any) -> Any:
        model, (done, failed, *_) = world.model, world.held
        told = model.answered([done], lambda r: model.end(r, "Complete"))
        told += model.answered([failed], lambda r: model.fail(r, AT_ONCE))
        if isinstance(given, Refused):
            raise Differs
        return told, claim(world, 2, given[1])

    return Call(do, plain, skips=True)


def complete_and_enqueue() -> Call:
    """The first lease, which is of a request of the batch `b`. A full queue takes what follows."""

    def do(session: Session, world: World) -> str:
        return str(session.complete_and_enqueue(world.held[0], None, "default", NEXT))

    def plain(world: World, given: Any) -> Any:
        model = world.model
        if world.is_deleted:
            return refused(given, "queue")
        (told,) = model.answered(world.held[:1], lambda r: model.end(r, "Complete"))
        if told == "ok":
            (added,) = model.enqueue([NEXT], world.ids["next"])
            if added.outcome == "ok":
                model.batches["b"].members.append(added.request_id or 0)
        return told

    return Call(do, plain)


def decline() -> Call:
    def do(session: Session, world: World) -> list[str]:
        told, _ = session.decline(world.held, ["x"] * len(world.held))
        return [str(one) for one in told]

    def plain(world: World, given: Any) -> Any:
        model = world.model
        unknown = model.now - (world.unknown_since or model.now)
        delay = HALF_MINUTE if world.is_known else min(max(unknown / 4, SECOND), HALF_MINUTE)
        return model.answered(world.held, lambda r: model.decline(r, delay))

    return Call(do, plain)


def renew() -> Call:
    def do(session: Session, world: World) -> list[str]:
        return [str(one.outcome) for one in session.renew(world.held, started=[True] * 3)]

    def plain(world: World, given: Any) -> Any:
        model = world.model
        asked = {r.id for r in model.of("Processing") if r.asked}
        locked = {h for h in world.held if h.request_id in model.locked}
        free = [h for h in world.held if h not in locked]
        told = dict(
            zip(free, model.answered(free, lambda r: model.renew(r, True)), strict=True)
        ) | dict.fromkeys(locked, "busy")
        return [
            "cancel_requested" if told[h] == "ok" and h.request_id in asked else told[h]
            for h in world.held
        ]

    return Call(do, plain, skips=True)


def report_progress() -> Call:
    """It counts the leases that are valid."""

    def do(session: Session, world: World) -> int:
        return session.report_progress([(held, 0.5, "") for held in world.held])

    def plain(world: World, given: Any) -> Any:
        return world.model.answered(world.held, lambda r: None).count("ok")

    return Call(do, plain)


def disown() -> Call:
    def do(session: Session, world: World) -> list[int]:
        given = session.disown("one", ["default"], world.held[:1])
        return [id for id, outcome in sorted(given) if outcome == "ok"]

    def plain(world: World, given: Any) -> Any:
        told = world.model.answered(world.held[1:], world.model.abandon)
        return [h.request_id for h, one in zip(world.held[1:], told, strict=True) if one == "ok"]

    return Call(do, plain)


def heartbeat() -> Call:
    """That of the worker `two`, which knows the kind of all requests."""

    def do(session: Session, world: World) -> None:
        session.worker_heartbeat(
            "two", host="h", pid=1, version="0", queues=["default"], slots=9, busy=0,
            kinds={"a": "a", "next": "next"},
        )  # fmt: skip

    def plain(world: World, given: Any) -> Any:
        world.is_known, world.unknown_since = True, None

    return Call(do, plain)


#: What the worker `one` reports of its leases, and what is done to them.
COMPLETE = report(lambda s, held: s.complete(held), lambda m, r: m.end(r, "Complete"))
FAIL = report(lambda s, held: s.fail(held, [AT_ONCE] * 3), lambda m, r: m.fail(r, AT_ONCE))
GIVE_UP = report(lambda s, held: s.fail(held, [DEAD] * 3), lambda m, r: m.fail(r, DEAD))
SNOOZE = report(lambda s, held: s.snooze(held, [SECOND] * 3), lambda m, r: m.snooze(r, SECOND))
ABANDON = report(lambda s, held: s.abandon(held), lambda m, r: m.abandon(r))
EXPIRE = report(lambda s, held: s.expire(held), lambda m, r: m.expire(r))
