"""The scenes: which calls cross in each, and the requests that there are before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rowlease.model import Held, NewRequest
from tests.contract import crossing_schedules as schedules
from tests.contract.crossing import Call, Schedule, World, new
from tests.contract.crossing_calls import (
    LOADS,
    configure,
    delete_queue,
    discard_load,
    enqueue,
    finish_batch,
    insert,
    limits,
    maintain,
    operate,
    promote,
    recount,
    set_paused,
    take_over,
)
from tests.contract.crossing_leases import (
    ABANDON,
    COMPLETE,
    DEAD,
    EXPIRE,
    FAIL,
    GIVE_UP,
    SECOND,
    SNOOZE,
    complete_and_enqueue,
    decline,
    dequeue,
    disown,
    exchange,
    heartbeat,
    renew,
    report_progress,
)
from tests.contract.sessions import Clock, Session
from tests.contract.small_queue import SETTINGS, WAITING, Batch, Model

#: After a lease has run out.
LATER = timedelta(seconds=31)
#: The firing that is due.
PLANNED = timedelta(seconds=1)

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
    "pause": set_paused("pause"),
    "maintain": maintain(),
    "finish a batch": finish_batch(),
}
#: What the worker `one` reports, and what is done to its leases.
OF_LEASES = {
    "exchange": exchange(),
    "complete": COMPLETE,
    "complete and enqueue": complete_and_enqueue(),
    "fail": FAIL,
    "give up": GIVE_UP,
    "snooze": SNOOZE,
    "abandon": ABANDON,
    "decline": decline(),
    "expire": EXPIRE,
    "renew": renew(),
    "disown": disown(),
    "break": operate("break", queue="default"),
    "promote": promote("load"),
    "promote keys": promote("keys"),
}
#: What does not depend on whether leases have run out.
ONCE = {
    "insert into the inbox": insert(),
    "discard a load": discard_load(),
    "take a load over": take_over(),
    "report progress": report_progress(),
    "heartbeat": heartbeat(),
    "recount": recount(),
    "lower the maximum": configure(max_priority=0),
}
CLAIMS = {name: ALWAYS[name] for name in ("dequeue one", "dequeue many", "maintain")} | {
    name: OF_LEASES[name]
    for name in ("exchange", "complete", "fail", "abandon", "decline", "break")
}
#: The calls that cross in each scene. A queue with leases cannot be deleted.
SCENES: dict[str, dict[str, Call]] = {
    "leased": ALWAYS | OF_LEASES | ONCE,
    "expired": ALWAYS | OF_LEASES,
    "idle": ALWAYS
    | {
        "insert into the inbox": insert(),
        "heartbeat": heartbeat(),
        "recount": recount(),
        "resume": set_paused("resume"),
        "delete the queue": delete_queue(),
    },
    # Three more may wait, and one more may run.
    "limited": CLAIMS
    | {
        "enqueue two": enqueue(new(), new()),
        "enqueue and wait": enqueue(new(), new(), new(), waits=True),
        "come back": enqueue(new(priority=0), comes_back=True),
        "enqueue a key": ALWAYS["enqueue a key"],
        "enqueue with a receipt": ALWAYS["enqueue with a receipt"],
        "insert into the inbox": insert(),
        "promote": promote("load"),
        "promote keys": promote("keys"),
        "complete and enqueue": complete_and_enqueue(),
        "cancel": ALWAYS["cancel"],
        "requeue": ALWAYS["requeue"],
        "pause": ALWAYS["pause"],
        "lower the limits": configure(capacity=1, max_in_flight=2),
        "lift the limits": configure(capacity=None, max_in_flight=None),
    },
    # One more may start.
    "rated": CLAIMS
    | {"lower the rate": configure(rate=4), "raise the rate": configure(rate=7)}
    | {"lift the rate": configure(rate=None)},
    # One more may wait, and the worker that is to fire the schedule is late.
    "scheduled": {
        "fire": schedules.fire(),
        "fire by hand": schedules.fire(by_hand=True),
        "put the same": schedules.put(schedules.HOURLY),
        "put another": schedules.put(schedules.DAILY),
        "pause the schedule": schedules.set_paused(True),
        "resume the schedule": schedules.set_paused(False),
        "remove the schedule": schedules.remove(),
        "claim schedules": schedules.claim(),
        "enqueue": ALWAYS["enqueue with a receipt"],
        "purge": ALWAYS["purge"],
        "lift the limits": configure(capacity=None),
        "delete the queue": delete_queue(),
    },
}
WITH_LEASES = ("leased", "expired", "limited", "rated")


def set_up(store: Session, clock: Clock, name: str) -> World:
    """Requests in all states. In most scenes, the worker `one` has leased three."""
    store.configure_queue("default", **SETTINGS, **limits(rate=6 if name == "rated" else None))
    store.maintain()
    world = World(model := Model(clock.now, rate=6 if name == "rated" else None))

    def put(*requests: NewRequest, **options: Any) -> list[int]:
        answers = store.enqueue_many("default", requests, **options)
        ids = [one.request_id or 0 for one in answers]
        assert model.enqueue(requests, ids) == answers
        return ids

    def lease(worker: str) -> list[Held]:
        found = [Held(one.request_id, one.lock_token) for one in store.claim(worker, 9)]
        assert model.dequeue(9, 9, [one.lock_token for one in found]) == found
        return found

    put(new(dedup_key="k"))
    (dead,) = lease("three")
    store.fail([dead], [DEAD])
    model.answered([dead], lambda r: model.fail(r, DEAD))
    put(new())
    declined = lease("three")
    store.decline(declined, ["x"])
    model.answered(declined, lambda r: model.decline(r, SECOND))
    world.unknown_since = clock.now
    model.batches["b"] = Batch(put(new(), batch_id="b"))
    first, _ = put(new(), new(group_key="g"))
    if name in WITH_LEASES:
        world.held = lease("one")
        for load_id, rows in LOADS.items():
            columns = [{"priority": 2, "dedup_key": one.dedup_key} for one in rows]
            run = world.runs[load_id] = store.staged(load_id, columns)
            staged = store.rows("lane", "request_id", run_number=run)
            world.ids[load_id] = [id for (id,) in staged]
    grouped, *_ = put(new(group_key="g"), new(), new(priority=0))
    (later,) = put(new(delay=LATER))
    model.wait(model.batches["b"], put(new(), after="b"))
    world.first = {r.id: r.status for r in model.requests.values()}
    world.named = [dead.request_id, first, grouped, later]
    if name == "expired":
        clock.advance(LATER)
    elif name == "limited":
        limit(store, world)
    elif name == "scheduled":
        schedule(store, clock, world)
    model.now = clock.now
    return world


def limit(store: Session, world: World) -> None:
    """A queue that is nearly full, where a producer waits, and all but one slot are taken."""
    both(heartbeat(), store, world)
    waiting = len(world.model.of(*WAITING))
    store.configure_queue("default", capacity=waiting)
    (place,) = store.enqueue_many("default", [new(priority=0)], wait=SECOND)
    world.waiter = place.request_id or 0
    world.waiters[world.waiter] = (0, 1)
    both(configure(capacity=waiting + 3, max_in_flight=4), store, world)


def schedule(store: Session, clock: Clock, world: World) -> None:
    """A schedule that a worker has leased, too long ago, in a queue that is nearly full."""
    cron, created = schedules.HOURLY, clock.now
    store.put_schedule("s", cron, "tick")
    (due,) = store.claim_schedules("one").due
    store.fire_schedule("s", due.lock_token, [], created + PLANNED)
    clock.advance(PLANNED)
    (due,) = store.claim_schedules("one").due
    world.schedule = Schedule(cron, created, due.lock_token, next=clock.now, locked_by="one")
    world.schedule.expires = clock.now + schedules.LEASE
    world.planned = clock.now, due.lock_token
    clock.advance(schedules.LEASE)
    world.model.now = clock.now
    both(configure(capacity=len(world.model.of(*WAITING)) + 1), store, world)


def both(call: Call, store: Session, world: World) -> None:
    """Make a call, and do it to the small queue."""
    call.plain(world, call.do(store, world))
