"""Calls for the schedule `s` that cross, and what the small queue makes of each."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from rowlease.model import Fired, Outcome
from tests.contract.crossing import Call, Differs, Schedule, World, new, refused
from tests.contract.sessions import Session

HOURLY, DAILY = "0 * * * *", "0 3 * * *"
HOUR, LEASE = timedelta(hours=1), timedelta(seconds=10)


def key(time: datetime) -> str:
    """The dedup key of a firing."""
    return f"s@{time:%Y-%m-%dT%H:%M:%SZ}"


def fire(by_hand: bool = False) -> Call:
    """Fire what `one` has leased; or once more, now, as an operator does."""

    def do(session: Session, world: World) -> list[Fired]:
        if by_hand:
            return session.fire_schedule("s")
        time, token = world.planned or (world.model.now, 0)
        return session.fire_schedule("s", token, [time], time + HOUR)

    def plain(world: World, given: Any) -> Any:
        found, model = world.schedule, world.model
        time, token = world.planned or (model.now, 0)
        if found is None:
            return [Fired(None, Outcome.NOT_FOUND)]
        if not by_hand and found.token != token:
            return [Fired(None, Outcome.LEASE_LOST)]
        if not by_hand and found.locked_by is None:
            return [Fired(found.last_id, Outcome.REPEAT)]
        if not world.has_room(1, 0):
            return refused(given, "is full")
        time = model.now if by_hand else time
        ids = [one.request_id for one in given if isinstance(one, Fired) and one.outcome == "ok"]
        firing = new(kind="tick", priority=0, dedup_key=key(time))
        (added,) = model.enqueue([firing], [id for id in ids if id])
        found.last, found.last_id = time, added.request_id
        if not by_hand:
            found.next, found.locked_by, found.expires = time + HOUR, None, None
        return [Fired(added.request_id, added.outcome)]

    return Call(do, plain)


def put(cron: str) -> Call:
    def do(session: Session, world: World) -> tuple[Outcome, datetime]:
        return session.put_schedule("s", cron, "tick")

    def plain(world: World, given: Any) -> Any:
        found, now = world.schedule, world.model.now
        if world.is_deleted:
            return refused(given, "queue")
        if found is None:
            world.schedule = Schedule(cron, now)
        elif found.cron == cron:
            return Outcome.REPEAT, found.changed
        else:
            found.cron, found.next, found.changed = cron, None, now
            found.change()
        return Outcome.OK, now

    return Call(do, plain)


def set_paused(paused: bool) -> Call:
    def do(session: Session, world: World) -> Outcome:
        return (session.pause_schedule if paused else session.resume_schedule)("s")

    def plain(world: World, given: Any) -> Any:
        found = world.schedule
        if found is None:
            return Outcome.NOT_FOUND
        if found.paused == paused:
            return Outcome.REPEAT
        found.paused = paused
        if not paused:
            found.next, found.changed = None, world.model.now
        found.change()
        return Outcome.OK

    return Call(do, plain)


def remove() -> Call:
    def plain(world: World, given: Any) -> Any:
        outcome = Outcome.OK if world.schedule else Outcome.NOT_FOUND
        world.schedule = None
        return outcome

    return Call(lambda session, world: session.remove_schedule("s"), plain)


def claim() -> Call:
    """A claim of `two`: the tokens and times of what it leases."""

    def do(session: Session, world: World) -> list[tuple[int, datetime | None]]:
        due = session.claim_schedules("two").due
        return [(one.lock_token, one.next_time) for one in due]

    def plain(world: World, given: Any) -> Any:
        found, now = world.schedule, world.model.now
        if found is None or found.paused or "s" in world.model.locked:
            return []
        if (found.next and found.next > now) or (found.expires and found.expires > now):
            return []
        if not given or given[0][0] <= found.token:
            raise Differs
        found.token, found.locked_by, found.expires = given[0][0], "two", now + LEASE
        return [(found.token, found.next)]

    return Call(do, plain, skips=True)
