"""Calls of producers and operators that cross, and what the small queue makes of each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from rowlease.model import Begun, Enqueued, NewRequest, Outcome, Promoted
from tests.contract.crossing import Call, Refused, World, new, refused
from tests.contract.sessions import Session
from tests.contract.small_queue import LIVE, VERBS, WAITING, Batch, Model

# -- producers


def enqueue(
    *requests: NewRequest, waits: bool = False, comes_back: bool = False, **options: Any
) -> Call:
    """Enqueue requests.

    Args:
        waits: whether the producer waits if the queue is full.
        comes_back: whether it is the one that waits since before.
    """

    def do(session: Session, world: World) -> list[Enqueued]:
        if waits or comes_back:
            options["wait"] = timedelta(seconds=1)
        waiter = world.waiter if comes_back else None
        return session.enqueue_many("default", requests, waiter_id=waiter, **options)

    def plain(world: World, given: Any) -> Any:
        if world.is_deleted:
            return refused(given, "queue")
        model, batch_id, after = world.model, options.get("batch_id"), options.get("after")
        if options.get("receipt_key") and world.receipt is not None:
            return [one._replace(outcome=Outcome.REPEAT) for one in world.receipt]
        waiter = world.waiter if comes_back else None
        priority = max(one.priority for one in requests)
        if not world.has_room(len(requests), priority, waiter):
            if not (waits or comes_back) or len(requests) > (model.capacity or 0):
                return refused(given, "is full")
            place = waiter if waiter in world.waiters else given[0].request_id
            world.waiters[place] = priority, len(requests)
            return [Enqueued(place, Outcome.FULL, None)]
        if batch_id and model.batches[batch_id].finished:
            return refused(given, "finished")
        ids = [
            one.request_id or 0
            for one in given
            if isinstance(one, Enqueued) and one.outcome == "ok"
        ]
        answers = model.enqueue(requests, ids)
        world.waiters.pop(waiter or 0, None)
        if options.get("receipt_key"):
            world.receipt = answers
        if batch_id:
            model.batches[batch_id].members += ids
        if after and not model.batches[after].finished:
            model.wait(model.batches[after], ids)
        return answers

    return Call(do, plain)


def insert() -> Call:
    """An INSERT into the inbox."""

    def do(session: Session, world: World) -> None:
        session.insert("inbox", queue_name="default", kind="inserted", priority=1)

    def plain(world: World, given: Any) -> Any:
        if world.is_deleted:
            return refused(given, "queue")
        if not world.has_room(1, 1):
            return refused(given, "is full")
        ids = world.ids["inserted"] or [0]  # nobody knows the id of one that went with its queue
        world.model.enqueue([new(kind="inserted")], ids)
        world.ids["inserted"] = ids[1:]
        return None

    return Call(do, plain)


#: The rows of two loads: one stays in the lane, one is moved, for its key.
LOADS = {"load": [new(priority=2)] * 2, "keys": [new(priority=2), new(priority=2, dedup_key="k")]}


def promote(load_id: str) -> Call:
    requests = LOADS[load_id]

    def do(session: Session, world: World) -> int:
        return session.promote(load_id, world.runs[load_id], len(requests)).num_enqueued

    def plain(world: World, given: Any) -> Any:
        if world.is_deleted:
            return refused(given, "queue")
        if load_id in world.over:
            return refused(given, world.over[load_id])
        if load_id not in world.loaded:
            if not world.has_room(len(requests), 0):
                return refused(given, "is full")
            answers = world.model.enqueue(requests, world.ids[load_id])
            ids = [one.request_id or 0 for one in answers if one.outcome == "ok"]
            world.model.batches[load_id] = Batch(ids)
            world.loaded[load_id] = len(ids)
        return world.loaded[load_id]

    return Call(do, plain)


def discard_load() -> Call:
    def do(session: Session, world: World) -> None:
        session.discard_load("load")

    def plain(world: World, given: Any) -> Any:
        if "load" in world.loaded:
            return refused(given, "promoted")
        if world.over.get("load") == "ended":
            return refused(given, "ended")
        world.over["load"] = "ended"
        return None

    return Call(do, plain)


def take_over() -> Call:
    """Another run begins the load."""

    def do(session: Session, world: World) -> Any:
        begun = session.begin_load("load", "default", "two", None)
        return begun.num_enqueued if isinstance(begun, Promoted) else type(begun)

    def plain(world: World, given: Any) -> Any:
        if "load" in world.loaded:
            return world.loaded["load"]
        world.over["load"] = "taken over"
        return Begun

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


def set_paused(verb: str) -> Call:
    """`pause` or `resume`."""

    def plain(world: World, given: Any) -> Any:
        if world.is_deleted:
            return refused(given, "queue")
        world.model.paused = verb == "pause"
        return None

    return Call(lambda session, world: getattr(session, verb)("default"), plain)


def limits(**given: int | None) -> dict[str, Any]:
    """Settings of the queue that the small queue has as numbers."""
    rate = given.get("rate")
    return given | ({"rate": rate and f"{rate}/10s"} if "rate" in given else {})


def configure(**settings: int | None) -> Call:
    def do(session: Session, world: World) -> None:
        session.configure_queue("default", **limits(**settings))

    def plain(world: World, given: Any) -> Any:
        for name, value in settings.items():
            setattr(world.model, name, value)
        for r in world.model.of(*LIVE, "Failed"):
            r.priority = min(r.priority, world.model.max_priority)

    return Call(do, plain)


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


def recount() -> Call:
    """It finds no wrong count, whatever another is doing."""
    return Call(lambda session, world: session.recount(), lambda world, given: [])


def delete_queue() -> Call:
    def do(session: Session, world: World) -> int:
        return session.delete_queue("default", purge=True)

    def plain(world: World, given: Any) -> Any:
        if world.is_deleted:
            return refused(given, "queue")
        if isinstance(given, Refused) and "call again" in given.says:
            return given
        if world.model.of("Processing") or world.schedule or world.is_known:
            return refused(given, "cannot be deleted")
        world.is_deleted = True
        return world.model.purge((*WAITING, "Failed"))

    return Call(do, plain)
