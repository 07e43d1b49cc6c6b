"""What operators may do: cancel, requeue, purge, pause and resume, explain."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rowlease.errors import InvalidRequest, RoutineError
from rowlease.model import Failure, LeasedRequest, NewRequest, Outcome
from tests.contract.sessions import IGNORES_HINTS, Clock, Session

AT_ONCE = Failure("x", after=timedelta(0))


def dead_letters(store: Session, count: int = 1, error: str = "x", **fields: Any) -> list[int]:
    ids = store.put(count, **fields)
    held = [request for request in store.claim(limit=count) if request.request_id in ids]
    store.fail(held, [Failure(error, dead=True)] * len(held))
    assert len(held) == count
    return ids


def time_passes(store: Session, clock: Clock) -> None:
    clock.advance(seconds=31)
    store.maintain()


def another_dequeues(store: Session, clock: Clock) -> None:
    clock.advance(seconds=31)
    store.claim("two")


def statuses(store: Session, ids: list[int]) -> list[str]:
    return [store.row(request)["status"] for request in ids]


# -- get -------------------------------------------------------------------------------------------


def test_a_request_is_shown_whatever_its_status(store: Session, clock: Clock) -> None:
    (dead,) = dead_letters(store, dedup_key="d")
    running, waiting = store.put(2, payload='{"a":1}', group_key=None)
    store.claim(limit=1)
    assert store.get_request(2**40) is None
    for request, status, error in ((dead, "Failed", "x"), (running, "Processing", None),
                                   (waiting, "Pending", None)):  # fmt: skip
        found = store.get_request(request)
        assert found
        assert (found.request_id, found.status, found.last_error) == (request, status, error)
    found_all = store.find_requests().requests
    assert found_all == [store.get_request(each) for each in (waiting, running, dead)]
    store.complete(store.claim(limit=1), ['{"b":2}'])
    found = store.get_request(waiting)
    assert found
    assert (found.status, found.payload, found.result) == ("Complete", '{"a":1}', '{"b":2}')


# -- cancel ----------------------------------------------------------------------------------------


def test_a_waiting_request_is_cancelled_at_once(store: Session, clock: Clock) -> None:
    scheduled, pending = store.put(delay=timedelta(hours=1)) + store.put()
    (failed,) = dead_letters(store, priority=1)
    ids = [failed, pending, scheduled]
    clock.advance(seconds=1)
    assert store.cancel([*ids, 2**40, pending]) == [
        Outcome.OK, Outcome.OK, Outcome.OK, Outcome.NOT_FOUND, Outcome.OK,
    ]  # fmt: skip
    assert statuses(store, ids) == ["Cancelled"] * 3
    assert {store.row(request)["completion_time"] for request in ids} == {clock.now}
    assert store.row(failed)["last_error"] == "x"
    assert (store.depth(), store.claim()) == ([], [])
    assert store.cancel(ids) == [Outcome.NOT_FOUND] * 3
    assert store.cancel([]) == []


def cancelled_while_it_runs(store: Session) -> tuple[int, list[LeasedRequest]]:
    (request,) = store.put()
    held = store.claim("one")
    assert store.cancel([request]) == [Outcome.CANCEL_REQUESTED]
    assert store.row(request)["status"] == "Processing"
    return request, held


def test_a_running_request_is_asked_to_stop_and_keeps_its_lease(
    store: Session, clock: Clock
) -> None:
    request, held = cancelled_while_it_runs(store)
    assert store.cancel([request]) == [Outcome.CANCEL_REQUESTED]
    for _ in range(3):
        clock.advance(seconds=20)
        (answer,) = store.renew(held)
        assert answer.outcome == Outcome.CANCEL_REQUESTED
        assert answer.lock_expires_time == clock.now + timedelta(seconds=30)
    assert store.claim("two") == []


def test_a_running_request_that_was_cancelled_may_still_complete(store: Session) -> None:
    request, held = cancelled_while_it_runs(store)
    assert store.complete(held, ["1"]) == [Outcome.OK]
    row = store.row(request)
    assert (row["status"], row["result"], row["cancel_requested"]) == ("Complete", 1, True)


ENDS: dict[str, Callable[[Session, Clock, list[LeasedRequest]], object]] = {
    "fail": lambda store, clock, held: store.fail(held, [Failure("x")]),
    "fail at once": lambda store, clock, held: store.fail(held, [AT_ONCE]),
    "give up": lambda store, clock, held: store.fail(held, [Failure("x", dead=True)]),
    "abandon": lambda store, clock, held: store.abandon(held),
    "exchange": lambda store, clock, held: store.exchange(
        "one", ["default"], 0, failed=[(held[0], AT_ONCE)]
    ),
    "maintain": lambda store, clock, held: time_passes(store, clock),
    "another's dequeue": lambda store, clock, held: another_dequeues(store, clock),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_running_request_that_was_cancelled_ends_cancelled_however_its_lease_ends(
    store: Session, clock: Clock, end: str
) -> None:
    # Neither the last attempt nor the last crash makes a dead letter of it.
    store.configure_queue("default", max_crashes=1, max_attempts=1)
    request, held = cancelled_while_it_runs(store)
    ENDS[end](store, clock, held)
    row = store.row(request)
    assert (row["status"], row["cancel_requested"]) == ("Cancelled", True)
    assert row["completion_time"] == clock.now
    assert (store.rows("queue", "request_id"), store.depth()) == ([], [])
    expired = end in ("maintain", "another's dequeue")
    assert store.complete(held) == [Outcome.LEASE_LOST if expired else Outcome.REPEAT]


def cancelling(store: Session, request: int) -> tuple[str | None, Any]:
    found = store.get_request(request)
    assert found
    assert store.find_requests(ids=[request]).requests == [found]
    return found.cancelled_by, found.cancel_time


def test_a_request_tells_who_has_cancelled_it_and_when(store: Session, clock: Clock) -> None:
    running, untouched = store.put(2)
    held = store.claim(limit=2)
    (waiting,) = store.put()
    clock.advance(seconds=5)
    asked_at = clock.now
    store.operate("cancel", ids=[waiting, running], actor="ann")
    assert cancelling(store, waiting) == ("ann", asked_at)
    assert cancelling(store, running) == ("ann", asked_at)
    assert cancelling(store, untouched) == (None, None)
    assert store.explain(running).reason == "cancelling"
    assert store.explain(running).message.startswith("ann has cancelled it at ")
    clock.advance(seconds=5)
    store.fail(held, [AT_ONCE] * 2)
    assert statuses(store, [waiting, running]) == ["Cancelled"] * 2
    assert cancelling(store, running) == ("ann", asked_at)
    for request in (waiting, running):
        assert store.explain(request).message.endswith(", by ann")


def test_without_a_name_the_login_has_cancelled_it(store: Session) -> None:
    (request,) = store.put()
    store.cancel([request])
    (operation,) = store.list_operations()
    assert cancelling(store, request)[0] == operation.login


def test_a_worker_learns_whether_to_kill_the_task(store: Session, clock: Clock) -> None:
    killed, asked = store.put(2)
    held = store.claim(limit=2)
    store.operate("cancel", ids=[killed, asked], actor="ann")
    assert [one.kills for one in store.renew(held)] == [False, False]
    clock.advance(seconds=1)
    store.operate("cancel", arguments={"kill": True}, ids=[killed], actor="bob")
    found = {one.request_id: one for one in store.renew(held)}
    assert {one.outcome for one in found.values()} == {Outcome.CANCEL_REQUESTED}
    assert (found[killed].kills, found[asked].kills) == (True, False)
    assert cancelling(store, killed) == ("bob", clock.now)
    store.operate("cancel", ids=[killed])
    assert [one.kills for one in store.renew(held) if one.request_id == killed] == [True]


@pytest.mark.parametrize("kill", ["yes", 1, {}])
def test_kill_is_true_or_false(kill: Any, store: Session) -> None:
    (request,) = store.put()
    with pytest.raises(RoutineError, match="cancel takes kill: true or false"):
        store.operate("cancel", arguments={"kill": kill}, ids=[request])
    assert statuses(store, [request]) == ["Pending"]


def test_cancelling_the_head_of_a_group_lets_the_next_go(store: Session) -> None:
    first, second, third = store.put(3, group_key="g")
    store.cancel([first, second])
    assert [held.request_id for held in store.claim(limit=9)] == [third]


# -- requeue ---------------------------------------------------------------------------------------


def test_a_dead_letter_is_explained_by_the_first_line_of_its_error(store: Session) -> None:
    (request,) = dead_letters(store, error="no such file\n  at line 1")
    found = store.explain(request)
    assert found.reason == "dead_letter"
    assert found.message.endswith("attempt 1 of 5: no such file; revive it with requeue")


def test_a_dead_letter_gets_a_new_life(store: Session, clock: Clock) -> None:
    (request,) = dead_letters(store)
    clock.advance(hours=1)
    assert store.requeue([request]) == [Outcome.OK]
    row = store.row(request)
    assert (row["status"], row["due_time"], row["completion_time"]) == ("Pending", clock.now, None)
    assert (row["num_attempts"], row["last_error"]) == (0, "x")
    assert [depth[2:] for depth in store.depth()] == [(0, 1, 0, 0)]
    (held,) = store.claim()
    assert (held.request_id, held.num_attempts) == (request, 1)
    assert held.lock_token > row["lock_token"] > 0


def test_only_a_dead_letter_can_be_requeued(store: Session) -> None:
    (done,) = store.put()
    store.complete(store.claim())
    (running,) = store.put()
    store.claim()
    (waiting,) = store.put()
    before = store.everything()
    ids = [done, running, waiting, 2**40]
    assert store.requeue(ids) == [Outcome.NOT_FOUND] * 4
    assert store.everything() == before
    assert store.requeue([]) == []


def test_a_dead_letter_whose_key_is_live_again_stays_dead(store: Session) -> None:
    (dead,) = dead_letters(store, dedup_key="k")
    (live,) = store.put(dedup_key="k")
    assert store.requeue([dead]) == [Outcome.DUPLICATE]
    assert store.requeue([dead], dry_run=True) == [Outcome.DUPLICATE]
    assert statuses(store, [dead, live]) == ["Failed", "Pending"]
    store.complete(store.claim())
    assert store.requeue([dead]) == [Outcome.OK]


def test_of_dead_letters_with_one_key_the_first_lives_again(store: Session) -> None:
    first, second = dead_letters(store, dedup_key="k") + dead_letters(store, dedup_key="k")
    assert store.requeue([first, second]) == [Outcome.OK, Outcome.DUPLICATE]
    assert statuses(store, [first, second]) == ["Pending", "Failed"]


def test_an_enqueue_that_takes_the_key_at_the_same_moment_wins(
    store: Session, another: Callable[[], Session]
) -> None:
    (dead,) = dead_letters(store, dedup_key="k")
    producer = another()
    producer.begin()
    producer.put(dedup_key="k")
    revived = store.waiting(lambda: store.requeue([dead]))
    producer.commit()
    assert revived.result() == [Outcome.DUPLICATE]
    assert statuses(store, [dead]) == ["Failed"]


def test_a_requeued_request_takes_its_old_place_in_its_group(store: Session) -> None:
    first, second, third = store.put(3, group_key="g")
    store.fail(store.claim(), [Failure("x", dead=True)])
    running = store.claim(limit=9)
    assert [held.request_id for held in running] == [second]
    store.requeue([first])
    assert store.claim(limit=9) == []
    store.complete(running)
    for request in (first, third):
        (held,) = store.claim(limit=9)
        assert held.request_id == request
        store.complete([held])


# -- purge -----------------------------------------------------------------------------------------


def test_purge_deletes_what_waits_or_has_failed_and_nothing_else(
    store: Session, clock: Clock
) -> None:
    (done,) = store.put()
    store.complete(store.claim())
    dead_letters(store, 2)
    (running,) = store.put()
    store.claim()
    store.put(3)
    store.put(4, delay=timedelta(hours=1))
    assert store.purge(dry_run=True) == 2
    assert store.purge(["Scheduled", "Pending", "Failed"], dry_run=True) == 9
    assert len(store.rows("queue", "request_id")) == 10
    assert store.purge() == 2
    assert [depth[2:] for depth in store.depth()] == [(4, 3, 1, 0)]
    assert store.purge(["Scheduled"]) == 4
    assert store.purge(["Pending"]) == 3
    assert store.purge(["Scheduled", "Pending", "Failed"]) == 0
    assert store.rows("requests", "request_id", "status") == [
        (done, "Complete"),
        (running, "Processing"),
    ]
    assert [depth[2:] for depth in store.depth()] == [(0, 0, 1, 0)]


def test_purging_the_head_of_a_group_lets_the_next_go(store: Session) -> None:
    store.put(kind="head", group_key="g")
    (second,) = store.put(group_key="g")
    assert store.purge(["Pending"], kind="head") == 1
    assert [held.request_id for held in store.claim(limit=9)] == [second]


# -- pause and resume ------------------------------------------------------------------------------


def test_a_paused_queue_gives_nothing_from_the_next_claim_on(store: Session) -> None:
    store.put(3)
    floor = store.dequeue("one", ["default"], 1).floor
    store.pause("default")
    assert store.claim("one", floor=floor) == []
    assert store.claim("two") == []
    assert store.exchange("one", ["default"], 1).claim.requests == []
    store.resume("default")
    assert len(store.claim("one", floor=floor)) == 1


def test_running_requests_and_producers_continue_in_a_paused_queue(
    store: Session, clock: Clock
) -> None:
    store.put(3)
    done, failed, late = store.claim(limit=3)
    store.pause("default")
    assert store.renew([done])[0].outcome == Outcome.OK
    assert store.complete([done]) == [Outcome.OK]
    assert store.fail([failed], [AT_ONCE]) == [Outcome.OK]
    assert len(store.put()) == 1
    clock.advance(seconds=31)
    store.maintain()
    assert store.row(late.request_id)["status"] == "Pending"
    store.resume("default")
    assert len(store.claim(limit=9)) == 3


def test_only_the_paused_queue_pauses(store: Session) -> None:
    store.configure_queue("mail")
    store.put()
    (mail,) = store.put(queue="mail")
    store.pause("default")
    claim = store.dequeue("one", ["default", "mail"], 9)
    assert [held.request_id for held in claim.requests] == [mail]
    for call in (store.pause, store.resume):
        with pytest.raises(InvalidRequest, match='"defualt" does not exist'):
            call("defualt")


# -- explain ---------------------------------------------------------------------------------------


def heartbeat(store: Session) -> None:
    store.worker_heartbeat("one", host="h", pid=1, version="1", queues=["default"], slots=1, busy=0)


def test_explain_knows_no_request_that_is_not_there(store: Session) -> None:
    assert store.explain(1).reason == "unknown"


def test_explain_says_that_a_request_is_finished(store: Session, clock: Clock) -> None:
    done, dropped = store.put(2)
    store.complete(store.claim())
    store.cancel([dropped])
    assert store.explain(done) == (
        "finished",
        f"it has been Complete since {clock.now:%Y-%m-%d %X}+00",
    )
    assert store.explain(dropped).message.startswith("it has been Cancelled")


def test_explain_says_why_a_dead_letter_died(store: Session) -> None:
    (request,) = dead_letters(store, error="disk on fire")
    reason, message = store.explain(request)
    assert reason == "dead_letter"
    assert "attempt 1 of 5" in message
    assert "disk on fire" in message


def test_explain_names_the_worker_of_a_request_and_whether_its_lease_ran_out(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put()
    store.claim("worker 7")
    reason, message = store.explain(request)
    assert (reason, "worker 7" in message) == ("running", True)
    clock.advance(seconds=31)
    reason, message = store.explain(request)
    assert (reason, "worker 7" in message) == ("expired", True)
    store.pause("default")
    assert store.explain(request).reason == "paused"


def test_explain_says_when_a_request_is_due(store: Session, clock: Clock) -> None:
    (request,) = store.put(delay=timedelta(minutes=2))
    assert store.explain(request) == (
        "scheduled",
        f"it is due at {clock.now + timedelta(minutes=2):%Y-%m-%d %X}+00, in 00:02:00",
    )
    heartbeat(store)
    clock.advance(minutes=2)
    heartbeat(store)
    assert store.explain(request).reason == "next"


def test_explain_names_the_request_of_the_group_that_comes_first(store: Session) -> None:
    first, second = store.put(2, group_key="g")
    heartbeat(store)
    assert store.explain(first).reason == "next"
    says = f'request {first} of its group "g" comes first'
    assert store.explain(second)[:2] == ("group", says)
    held = store.claim()
    assert store.explain(second)[:2] == ("group", f"{says}, and is running")
    store.fail(held, [Failure("x", after=timedelta(hours=1))])
    assert store.explain(second).message.startswith(f"{says}, and is due at 20")


def test_explain_says_that_as_many_as_may_are_in_flight(store: Session) -> None:
    store.configure_queue("default", max_in_flight=1)
    _, second = store.put(2)
    heartbeat(store)
    store.claim()
    assert store.explain(second).reason == "in_flight"


def test_explain_reports_that_there_is_no_worker(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    assert store.explain(request).reason == "no_worker"
    heartbeat(store)
    assert store.explain(request).reason == "next"
    clock.advance(seconds=31)
    assert store.explain(request).reason == "no_worker"
    heartbeat(store)
    store.remove_worker("one")
    assert store.explain(request).reason == "no_worker"


def beat(
    store: Session, name: str, *, priority: int = 0, busy: int = 0, kinds: list[str] | None = None
) -> None:
    store.worker_heartbeat(
        name, host="h", pid=1, version="1", queues=["default"], slots=1, busy=busy,
        consumer_priority=priority, kinds=None if kinds is None else dict.fromkeys(kinds, "app"),
    )  # fmt: skip


def test_explain_reports_that_no_live_worker_knows_the_kind(store: Session, clock: Clock) -> None:
    (request,) = store.put(kind="resize")
    (far,) = store.put(kind="resize", delay=timedelta(hours=1))
    beat(store, "one", kinds=["mail"])
    says = (
        "unknown_kind",
        'no live worker of the queue "default" knows the kind "resize"; start one that does, or it '
        "becomes a dead letter after 600 s",
    )
    assert store.explain(request) == says
    store.decline(store.claim(), ["unknown kind"])  # it is due again a moment later
    assert store.explain(request) == says
    assert store.explain(far).reason == "scheduled"
    beat(store, "two", kinds=["resize"])
    assert store.explain(request).reason == "scheduled"
    beat(store, "two", kinds=["mail"])
    beat(store, "three")  # it may know any kind
    clock.advance(seconds=2)
    assert store.explain(request).reason == "next"
    clock.advance(seconds=31)
    assert store.explain(request).reason == "no_worker"


def test_explain_names_the_worker_whose_consumer_priority_goes_first(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put(kind="resize")
    beat(store, "low", kinds=["resize"])
    beat(store, "high", priority=5, kinds=["resize"])
    assert store.explain(request) == (
        "next",
        'nothing is ahead of it: the next claim takes it; worker "high" has free slots and goes '
        "first (consumer priority 5)",
    )
    beat(store, "high", priority=5, kinds=["mail"])
    assert store.explain(request) == (
        "consumer_priority",
        'worker "high" has free slots and goes first (consumer priority 5), but does not know '
        'the kind "resize"; workers of a lower consumer priority claim nothing until its slots are '
        "full",
    )
    beat(store, "high", priority=5, busy=1, kinds=["mail"])
    assert store.explain(request).message == "nothing is ahead of it: the next claim takes it"
    beat(store, "high", priority=5, kinds=["mail"])
    clock.advance(seconds=3)
    assert store.explain(request).reason == "next"


def test_explain_counts_the_requests_ahead(store: Session, clock: Clock) -> None:
    heartbeat(store)
    first, second = store.put(2)
    clock.advance(seconds=1)
    (urgent,) = store.put(priority=5)
    (third,) = store.put()
    store.abandon(store.claim())  # it is in the index of returned requests
    assert [store.explain(request).reason for request in (urgent, first, second, third)] == [
        "next", "behind", "behind", "behind",
    ]  # fmt: skip
    assert store.explain(first).message == "1 request is ahead of it (policy strict)"
    assert store.explain(third).message == "3 requests are ahead of it (policy strict)"
    assert [held.request_id for held in store.claim(limit=4)] == [urgent, first, second, third]


def test_explain_stops_counting_at_ten_thousand(store: Session) -> None:
    heartbeat(store)
    store.enqueue_many("default", [NewRequest(kind="a")] * 10_001)
    (last,) = store.put()
    assert store.explain(last).message.startswith("10000 or more requests")


def locked_row(dba: Session, request: int) -> None:
    dba.forge("queue", request, num_crashes=0)


def locked_gate(dba: Session, request: int) -> None:
    dba.configure_queue("default", max_in_flight=2)
    dba.begin()
    dba.hold_gate("default")


LOCKS: dict[str, tuple[Callable[[Session, int], object], str]] = {
    "row": (locked_row, "has locked the request's row"),
    "gate": (locked_gate, 'the gate of the queue "default"'),
}


@pytest.mark.parametrize("what", LOCKS)
def test_explain_names_the_session_that_has_locked_a_row_or_a_gate(
    store: Session, another: Callable[[], Session], what: str
) -> None:
    """Not one that claims: that is gone when it looks again."""
    if what == "row" and not store.skips_locked:
        pytest.skip(IGNORES_HINTS)
    lock, says = LOCKS[what]
    (request,) = store.put()
    heartbeat(store)
    assert store.explain(request).reason == "next"
    dba = another()
    if what == "row":
        dba.begin()
    lock(dba, request)
    reason, message = store.explain(request)
    assert (reason, says in message) == ("locked", True)
    assert dba.names_itself_in(message)
    assert store.claim() == []
    dba.rollback()
    assert store.explain(request).reason == "next"


def test_explain_names_a_lock_that_keeps_an_expired_lease_from_being_broken(
    store: Session, another: Callable[[], Session], clock: Clock
) -> None:
    if not store.skips_locked:
        pytest.skip(IGNORES_HINTS)
    (request,) = store.put()
    store.claim()
    clock.advance(seconds=31)
    assert store.explain(request).reason == "expired"
    dba = another()
    dba.begin()
    dba.forge("queue", request, num_crashes=0)
    assert store.explain(request).reason == "locked"


@pytest.mark.only_on("postgresql", why="the only one on which rows are shared so")
def test_explain_names_one_of_those_that_share_a_row(
    store: Session, another: Callable[[], Session]
) -> None:
    (request,) = store.put()
    sharers = [another(), another()]
    for dba in sharers:
        dba.begin()
        dba.execute("select from rowlease.queue for share")
    reason, message = store.explain(request)
    assert reason == "locked"
    assert any(dba.names_itself_in(message) for dba in sharers)
    for dba in sharers:
        dba.rollback()
    assert store.explain(request).reason == "no_worker"


@pytest.mark.only_on("postgresql", why="elsewhere only an administrator may see who locks a table")
@pytest.mark.parametrize(
    ("table", "mode"),
    [
        ("queue", "access exclusive"),
        ("queue", "share"),
        ("queue_depth", "exclusive"),
        ("queue_settings", "access exclusive"),
        ("queue_history", "access exclusive"),
    ],
)
def test_explain_names_the_session_that_has_locked_a_table(
    store: Session, another: Callable[[], Session], table: str, mode: str
) -> None:
    (request,) = store.put()
    heartbeat(store)
    dba = another()
    dba.begin()
    dba.execute(f"lock table rowlease.{table} in {mode} mode")
    reason, message = store.explain(request)
    assert reason == "locked"
    assert (
        f"holds a lock ({mode.title().replace(' ', '')}Lock) on the table rowlease.{table}"
        in message
    )
    assert dba.names_itself_in(message)
    dba.rollback()
    assert store.explain(request).reason == "next"


@pytest.mark.only_on("postgresql", why="elsewhere only an administrator may see who locks a table")
def test_explain_names_the_session_that_waits_for_a_table(
    store: Session, another: Callable[[], Session]
) -> None:
    """Later lock requests queue behind it."""
    (request,) = store.put()
    reader, dba = another(), another()
    reader.begin()
    reader.rows("queue", "request_id")
    reader.execute("select from rowlease.queue")
    dba.begin()
    waiting = dba.waiting(lambda: dba.execute("lock table rowlease.queue"))
    reason, message = store.explain(request)
    assert (reason, "waits for a lock (AccessExclusiveLock)" in message) == ("locked", True)
    assert dba.names_itself_in(message)
    reader.rollback()
    waiting.result()


def test_explain_sees_a_group_whose_first_request_is_gone(store: Session) -> None:
    first, second = store.put(2, group_key="g")
    store.remove("queue", request_id=first)
    reason, message = store.explain(second)
    assert (reason, "that no longer exists; recount unblocks it" in message) == ("group", True)
    heartbeat(store)
    store.recount()
    assert store.explain(second).reason == "next"


def test_explain_sees_leases_that_are_counted_and_gone(store: Session) -> None:
    store.configure_queue("default", max_in_flight=2)
    *_, waiting = store.put(3)
    first, _ = store.claim(limit=2)
    assert store.explain(waiting).message.endswith("and as many are running")
    store.remove("queue", request_id=first.request_id)
    reason, message = store.explain(waiting)
    assert reason == "in_flight"
    assert message.endswith("fewer are running (1), but more are counted; recount corrects that")


def test_explain_says_that_a_queue_lost_its_settings(store: Session) -> None:
    (request,) = store.put()
    store.remove("queue_settings", queue_name="default")
    assert store.explain(request).reason == "no_queue"
    store.configure_queue("default")
    heartbeat(store)
    assert store.explain(request).reason == "next"


def test_explain_names_a_claim_that_lasts(store: Session, another: Callable[[], Session]) -> None:
    if not store.skips_locked:
        pytest.skip(IGNORES_HINTS)
    first, _ = store.put(2)
    worker = another()
    worker.begin()
    worker.claim("one")
    reason, message = store.explain(first)
    assert (reason, worker.names_itself_in(message)) == ("locked", True)
    worker.commit()
    assert store.explain(first).reason == "running"
