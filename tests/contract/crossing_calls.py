"""Calls that cross, and what the small queue makes of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, NamedTuple

from rowlease.errors import RowleaseError
from rowlease.model import Enqueued, Failure, Held, LeasedRequest, NewRequest, Outcome
from tests.contract.sessions import Session
from tests.contract.small_queue import VERBS, WAITING, Batch, Model

AT_ONCE = Failure("x", after=timedelta(0))
DEAD = Failure("x", dead=True)
SECOND = timedelta(seconds=1)
#: After a lease has run out.
LATER = timedelta(seconds=31)


class Differs(Exception):
    """The small queue would not have done this."""


@dataclass
class World:
    """The small queue, with what it lacks.

    Attributes:
        held: the leases of the worker `one`.
        named: the ids that an operator names.
        receipt: the answer that the receipt `r` has.
        runs: the number of the run of each load that is staged.
        loaded: how many requests each promoted load has.
        ids: the ids of the requests that each load becomes.
        first: the status that each request had before the calls.
    """

    model: Model
    held: list[Held] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    receipt: list[Enqueued] | None = None
    runs: dict[str, int] = field(default_factory=dict)
    loaded: dict[str, int] = field(default_factory=dict)
    ids: dict[str, list[int]] = field(default_factory=lambda: {"load": [], "keys": []})
    first: dict[int, str] = field(default_factory=dict)
    is_deleted: bool = False


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


# -- producers


def new(**given: Any) -> NewRequest:
    return NewRequest(kind="a", **{"priority": 1, **given})


def enqueue(*requests: NewRequest, **options: Any) -> Call:
    def do(session: Session, world: World) -> list[Enqueued]:
        return session.enqueue_many("default", requests, **options)

    def plain(world: World, given: Any) -> Any:
        if world.is_deleted:
            return refused(given, "queue")
        model, batch_id, after = world.model, options.get("batch_id"), options.get("after")
        if options.get("receipt_key") and world.receipt is not None:
            return [one._replace(outcome=Outcome.REPEAT) for one in world.receipt]
        if batch_id and model.batches[batch_id].finished:
            return refused(given, "finished")
        ids = [
            one.request_id or 0
            for one in given
            if isinstance(one, Enqueued) and one.outcome == "ok"
        ]
        answers = model.enqueue(requests, ids)
        if options.get("receipt_key"):
            world.receipt = answers
        if batch_id:
            model.batches[batch_id].members += ids
        if after and not model.batches[after].finished:
            model.wait(model.batches[after], ids)
        return answers

    return Call(do, plain)


def refused(given: Any, word: str) -> Any:
    """The answer itself, if it is an error with this word."""
    if isinstance(given, Refused) and word in given.says:
        return given
    raise Differs(f"an error with {word!r}")


def promote(load_id: str, *requests: NewRequest) -> Call:
    def do(session: Session, world: World) -> int:
        return session.promote(load_id, world.runs[load_id], len(requests)).num_enqueued

    def plain(world: World, given: Any) -> Any:
        if world.is_deleted:
            return refused(given, "queue")
        if load_id not in world.loaded:
            answers = world.model.enqueue(requests, world.ids[load_id])
            ids = [one.request_id or 0 for one in answers if one.outcome == "ok"]
            world.model.batches[load_id] = Batch(ids)
            world.loaded[load_id] = len(ids)
        return world.loaded[load_id]

    return Call(do, plain)


# -- workers


def leased(requests: list[LeasedRequest]) -> list[Held]:
    return sorted(Held(one.request_id, one.lock_token) for one in requests)


def claim(world: World, limit: int, given: Any) -> Any:
    """The same requests in any order, which depends on when each row came."""
    if isinstance(given, Refused):
        return given if world.is_deleted else None
    if world.is_deleted:
        return Claimed([], given.more)
    tokens = {one.request_id: one.lock_token for one in given.held}
    order = world.model.claimable(limit, limit)
    held = world.model.dequeue(limit, limit, [tokens.get(r.id, 0) for r in order])
    return Claimed(sorted(held), given.more)


class Claimed(NamedTuple):
    """A claim, which may be short if there is more."""

    held: list[Held]
    more: bool


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


def disown() -> Call:
    def do(session: Session, world: World) -> list[int]:
        given = session.disown("one", ["default"], world.held[:1])
        return [id for id, outcome in sorted(given) if outcome == "ok"]

    def plain(world: World, given: Any) -> Any:
        told = world.model.answered(world.held[1:], world.model.abandon)
        return [h.request_id for h, one in zip(world.held[1:], told, strict=True) if one == "ok"]

    return Call(do, plain)


# -- operators


def operate(verb: str, amount: int = 0, **filters: Any) -> Call:
    """A verb by a filter of the queue, or of the ids that the scene names."""
    of_queue = "queue" in filters
    takes = filters.get("status") or VERBS[verb][of_queue]
    words = {"reprioritise": {"priority": amount}, "reschedule": {"delay_ms": amount * 1000}}

    def do(session: Session, world: World) -> Any:
        given = filters if of_queue else {"ids": world.named, **filters}
        touched = session.operate(verb, arguments=words.get(verb, {}), **given).touched
        return {one.request_id: str(one.outcome) for one in touched}

    def plain(world: World, given: Any) -> Any:
        model = world.model
        chosen = [r.id for r in model.of(*takes) if of_queue or r.id in world.named]
        # What has come to match since the call looked is left alone.
        ids = [id for id in chosen if id in given or world.first.get(id) in takes]
        if verb == "purge":
            for id in ids:
                del model.requests[id]
            return dict.fromkeys(ids, "ok")
        if verb == "requeue":
            return dict(zip(ids, model.requeue(ids), strict=True))
        waits = [id for id in ids if verb == "reschedule" and model.waits(model.requests[id])]
        ids = [id for id in ids if id not in waits]
        told = dict(zip(ids, model.operate(verb, ids, amount), strict=True))
        return told | dict.fromkeys(waits, "waits")

    return Call(do, plain)


def pause() -> Call:
    def plain(world: World, given: Any) -> Any:
        if world.is_deleted:
            return refused(given, "queue")
        world.model.paused = True
        return None

    return Call(lambda session, world: session.pause("default"), plain)


def finish(model: Model, name: str) -> int:
    """Finish a batch. If another has locked a request that waits for it, it is finished later."""
    batch = model.batches[name]
    busy = [id for id in batch.waiting if id in model.locked]
    if name in model.locked or batch.finished:
        return 0
    free = replace(batch, waiting=[id for id in batch.waiting if id not in busy])
    count = model.finish(free)
    batch.finished = free.finished and not busy
    return count - bool(busy)


def housekeeping(model: Model) -> None:
    for name in model.batches:
        finish(model, name)
    model.housekeeping()


def maintain() -> Call:
    def do(session: Session, world: World) -> None:
        assert [one for one in session.maintain() if one.error] == []

    return Call(do, lambda world, given: housekeeping(world.model), skips=True, may_do_nothing=True)


def finish_batch() -> Call:
    return Call(
        lambda session, world: session.finish_batches("b"),
        lambda world, given: finish(world.model, "b"),
        skips=True,
        may_do_nothing=True,
    )


def delete_queue() -> Call:
    def do(session: Session, world: World) -> int:
        return session.delete_queue("default", purge=True)

    def plain(world: World, given: Any) -> Any:
        if world.is_deleted:
            return refused(given, "queue")
        if isinstance(given, Refused) and "call again" in given.says:
            return given
        if world.model.of("Processing"):
            return refused(given, "cannot be deleted")
        world.is_deleted = True
        return world.model.purge((*WAITING, "Failed"))

    return Call(do, plain)


#: The rows of two loads: one stays in the lane, one is moved, for its key.
LOADS = {"load": [new(priority=2)] * 2, "keys": [new(priority=2), new(priority=2, dedup_key="k")]}

#: What needs no lease and no load.
ALWAYS = {
    "enqueue a key": enqueue(new(dedup_key="k"), new()),
    "enqueue with a receipt": enqueue(new(), receipt_key="r"),
    "enqueue into a group": enqueue(new(group_key="g")),
    "enqueue into a batch": enqueue(new(), batch_id="b"),
    "enqueue after a batch": enqueue(new(), after="b"),
    "dequeue one": dequeue(1),
    "dequeue many": dequeue(9),
    "cancel": operate("cancel"),
    "requeue": operate("requeue", status=["Failed"]),
    "reprioritise": operate("reprioritise", 0, queue="default"),
    "reschedule": operate("reschedule", 3, queue="default"),
    "purge": operate("purge", queue="default", status=["Pending", "Failed"]),
    "pause": pause(),
    "maintain": maintain(),
    "finish a batch": finish_batch(),
}
#: What the worker `one` reports, and what is done to its leases.
OF_LEASES = {
    "exchange": exchange(),
    "complete": report(lambda s, held: s.complete(held), lambda m, r: m.end(r, "Complete")),
    "fail": report(lambda s, held: s.fail(held, [AT_ONCE] * 3), lambda m, r: m.fail(r, AT_ONCE)),
    "give up": report(lambda s, held: s.fail(held, [DEAD] * 3), lambda m, r: m.fail(r, DEAD)),
    "snooze": report(
        lambda s, held: s.snooze(held, [SECOND] * 3), lambda m, r: m.snooze(r, SECOND)
    ),
    "abandon": report(lambda s, held: s.abandon(held), lambda m, r: m.abandon(r)),
    "renew": renew(),
    "disown": disown(),
    "break": operate("break", queue="default"),
    "promote": promote("load", *LOADS["load"]),
    "promote keys": promote("keys", *LOADS["keys"]),
}
#: The calls that cross in each scene. A queue with leases cannot be deleted.
SCENES = {
    "leased": ALWAYS | OF_LEASES,
    "expired": ALWAYS | OF_LEASES,
    "idle": ALWAYS | {"delete the queue": delete_queue()},
}
