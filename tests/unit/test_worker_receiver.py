"""The receiver and its exchanger, with a clock that the test moves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from rowlease.backoff import Backoff
from rowlease.errors import (
    AccessDenied,
    InvalidRequest,
    RoutineError,
    SchemaMismatch,
    StoreError,
    StoreTimeout,
    StoreUnavailable,
)
from rowlease.events import (
    Abandoned,
    Claimed,
    Disowned,
    Event,
    Events,
    Failed,
    Finished,
    KindUnknown,
    LeaseLostEvent,
    NotificationsLost,
    OutcomeRefused,
    Snoozed,
    StoreLost,
    StoreRecovered,
    WorkerIdle,
)
from rowlease.model import Claim, Failure, Outcome
from rowlease.worker import attempt
from rowlease.worker.attempt import NOTHING, Returned
from rowlease.worker.claims.exchanger import MANY_LEFT_SECONDS
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.listener import Listener
from rowlease.worker.claims.outcomes import (
    FEW,
    MANY_BATCHES,
    REMEMBERED_KINDS,
    DeliveredOutcomes,
    Ended,
    Outcomes,
)
from rowlease.worker.claims.receiver import AWAKE_SECONDS, FLUSH
from rowlease.worker.claims.receiver_state import CREDIT_A_SECOND, FLOOR_DROPPED, MOST_CREDIT
from rowlease.worker.summary import Counts
from rowlease.worker.timings import REFUSAL_TOLERATED
from tests.unit.receiver_world import AT, EMPTY, UNKNOWN_KIND, World, found, request, world

__all__ = ["world"]


def test_free_slots_are_filled_at_once_and_full_ones_wait(world: World) -> None:
    world.claims = [found(1, 2)]
    call = world.exchange_now()
    assert (call["limit"], call["slots"]) == (2, 2)
    assert [one.request.request_id for one in world.taken] == [1, 2]
    assert world.renewed == world.taken
    assert world.taken[0].ends == 1000.0 + 30
    assert world.pause() == float("inf")
    world.finish(world.taken[0])
    call = world.exchange_now()
    assert (call["limit"], call["slots"]) == (1, 1)
    assert [held.request_id for held, _ in call["completed"]] == [1]


def test_more_is_claimed_when_half_of_the_prefetched_requests_are_finished(world: World) -> None:
    world.capacity, world.idle, world.held = 102, 0, 52
    assert world.pause() == float("inf")
    world.held = 51
    assert world.pause() <= 0
    world.held, world.idle = 60, 1
    assert world.pause() <= 0


def test_outcomes_wait_a_moment_for_the_next_claim(world: World) -> None:
    world.capacity, world.idle, world.held = 102, 0, 102
    world.finish(Lease(request(1), 0, None, world.time))
    world.idle = 0
    assert world.pause() == pytest.approx(FLUSH)
    world.time += FLUSH
    assert world.exchange_now()["limit"] == 1


def test_the_next_claim_goes_out_while_the_other_half_runs(world: World) -> None:
    world.capacity, world.call_seconds = 102, 0.010
    world.claims = [found(*range(1, 103))]
    world.exchange_now()
    world.idle = 0
    world.finish(*world.taken[:50])
    world.idle = 0
    assert world.pause() > 0
    world.finish(world.taken[50])
    world.idle = 0
    assert world.pause() <= 0


def test_a_claim_leaves_many_outcomes_to_the_sender_for_a_moment(world: World) -> None:
    calling = []
    world.receiver.begins_call = lambda: calling.append(world.receiver.is_calling)
    world.capacity = world.idle = 300
    world.claims = [found(*range(FEW + 1)), found(200), found(201)]
    world.exchange_now()
    world.finish(*world.taken)
    assert not world.exchange_now()["completed"]
    assert calling == [True, True]
    world.time += MANY_LEFT_SECONDS
    assert len(world.exchange_now()["completed"]) == FEW + 1
    assert world.exchanger.undelivered == 0


def test_a_claim_takes_many_outcomes_along_after_the_queue_was_empty(world: World) -> None:
    world.capacity = world.idle = 300
    world.claims = [found(*range(FEW + 1), more=False)]
    world.exchange_now()
    world.exchange_now()
    world.finish(*world.taken)
    assert len(world.exchange_now()["completed"]) == FEW + 1


def test_outcomes_are_sent_at_once_after_the_queue_was_empty(world: World) -> None:
    world.claims = [found(1)]
    world.exchange_now()
    world.exchange_now()
    assert world.pause() > 1
    world.finish(world.taken[0])
    assert len(world.exchange_now()["completed"]) == 1


def test_an_idle_worker_announces_itself_and_claims_three_times_more(world: World) -> None:
    world.exchange_now()
    assert world.idleness == ["announce"]
    assert world.pause() == pytest.approx(5.0, rel=0.2)
    world.is_announced = True
    world.receiver.announced()
    world.exchange_now()
    pauses = []
    for _ in range(3):
        pauses.append(world.pause())
        world.time += max(0.0, pauses[-1])
        world.exchange_now()
    assert pauses == [pytest.approx(0.0), pytest.approx(0.02), pytest.approx(0.2)]
    assert world.emitted[-1] == WorkerIdle(announced=True)


def test_a_sleeping_worker_claims_once_more_when_its_floor_is_dropped(world: World) -> None:
    world.receiver.notified()
    world.claims = [Claim([], more=False, wait=timedelta(seconds=0.5), floor="f")]
    world.exchange_now()
    world.time += world.pause()
    world.exchange_now()
    assert world.time + world.pause() == pytest.approx(1000 + FLOOR_DROPPED)
    world.time += world.pause()
    world.exchange_now()
    assert world.pause() == pytest.approx(5.0, rel=0.21)


@pytest.mark.parametrize(
    ("wait", "pause"), [(0.0, 0.02), (0.7, 0.7), (60.0, 5.0)], ids=["now", "soon", "far"]
)
def test_an_idle_worker_wakes_when_a_request_is_due(
    world: World, wait: float, pause: float
) -> None:
    world.claims = [Claim([], more=False, wait=timedelta(seconds=wait), floor=None)]
    world.exchange_now()
    assert world.pause() == pytest.approx(pause, rel=0.21)


def test_a_claim_that_left_requests_is_followed_by_another_at_once(world: World) -> None:
    world.claims = [Claim([], more=True, wait=None, floor=None), found(1)]
    world.exchange_now()
    assert world.exchange_now()["limit"] == 2
    assert world.taken


def test_after_claiming_a_single_request_it_waits_for_a_notification(world: World) -> None:
    world.claims = [found(1, more=False)]
    world.exchange_now()
    assert world.pause() <= 0  # no producer sends notifications yet
    world.exchange_now()
    world.is_announced = True
    world.finish(world.taken[0])
    world.claims = [found(2, more=False)]
    world.exchange_now()
    assert world.pause() == pytest.approx(FLOOR_DROPPED)  # a late commit may be below the floor
    world.receiver.notified()
    world.claims = [found(3)]
    world.exchange_now()
    assert world.taken[-1].request.request_id == 3
    assert len([event for event in world.emitted if isinstance(event, WorkerIdle)]) == 1


def test_a_worker_that_claimed_several_requests_claims_again(world: World) -> None:
    world.exchange_now()
    world.is_announced = True
    world.capacity = world.idle = 5
    world.claims = [found(1, 2, more=False)]
    world.receiver.notified()
    world.exchange_now()
    assert world.pause() <= 0


def waits(world: World, claims: Sequence[Claim]) -> list[float]:
    """Notify an idle worker whose next claim finds this, again and again; how long it waited."""
    found = []
    for claim in claims:
        world.receiver.notified()
        found.append(max(0.0, world.pause()))
        world.receiver.notified()
        assert max(0.0, world.pause()) == found[-1]  # many notifications do not change a wait
        world.time += found[-1] + 1e-6
        world.claims = [claim]
        world.exchange_now()
        world.finish(*world.taken)
        world.taken.clear()
        world.exchange_now()  # the outcome, or a claim that is planned anyhow
        assert world.pause() > 0
    return found


def test_a_notified_worker_waits_if_others_got_the_last_requests(world: World) -> None:
    world.exchange_now()
    world.is_announced = True
    got, missed = found(1, more=False), EMPTY
    assert waits(world, [got] * 20) == [0.0] * 20
    burst = [missed] * int(MOST_CREDIT)
    assert waits(world, burst) == [0.0] * len(burst)
    many = waits(world, [missed] * 100)
    assert statistics.mean(many) == pytest.approx(1 / CREDIT_A_SECOND, rel=0.1)
    assert len(set(many)) > 50
    (_, *after) = waits(world, [got, *burst])
    assert after[:2] == [0.0, 0.0]
    assert max(after) > 0
    world.time += 60
    (*first, last) = waits(world, [*burst, missed])
    assert first == [0.0] * len(burst)
    assert last > 0


@pytest.mark.parametrize("world", [{"can_listen": False}], indirect=True)
def test_without_notifications_it_claims_until_nothing_is_left(world: World) -> None:
    world.claims = [found(1, more=False)]
    world.exchange_now()
    assert world.pause() <= 0


def test_a_worker_that_is_busy_for_long_retracts_its_announcement(world: World) -> None:
    world.exchange_now()
    world.is_announced = True
    world.claims = [found(1), found(2), found(3)]
    world.receiver.notified()
    world.exchange_now()
    assert world.idleness == ["announce"]
    world.time += AWAKE_SECONDS + 0.1
    world.receiver.notified()
    world.exchange_now()
    assert world.idleness == ["announce", "retract"]


def test_a_worker_with_full_slots_is_busy(world: World) -> None:
    world.exchange_now()
    world.held = 2
    world.time += AWAKE_SECONDS + 0.1
    world.receiver._wait(0.0)
    assert world.idleness == ["announce", "retract"]


@pytest.mark.parametrize("world", [{"burst": True, "can_listen": False}], indirect=True)
def test_a_burst_ends_when_no_request_is_found_or_held(world: World) -> None:
    world.claims = [found(1)]
    world.exchange_now()
    world.exchange_now()
    assert not world.ended
    world.finish(world.taken[0])
    assert world.exchange_now()["floor"] == "f"
    assert not world.ended  # the floor may hide what a late commit has put below it
    assert world.exchange_now()["floor"] is None
    assert world.ended


@pytest.mark.parametrize("world", [{"burst": True, "can_listen": False}], indirect=True)
def test_a_burst_waits_for_a_due_request_that_another_transaction_has_locked(world: World) -> None:
    locked = EMPTY._replace(wait=timedelta(0), floor=None)
    world.claims = [locked] * 8
    pauses = []
    for _ in range(8):
        world.exchange_now()
        pauses.append(world.pause())
        world.time += pauses[-1]
    assert pauses == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5, 0.5])
    assert not world.asked_to_end
    world.exchange_now()
    assert world.ended


@pytest.mark.parametrize("world", [{"burst": True, "can_listen": False}], indirect=True)
def test_a_burst_claims_once_more_if_its_last_claim_may_have_missed_requests(world: World) -> None:
    world.claims = [EMPTY._replace(floor=None)]
    world.call_seconds = 0.1
    world.may_end, began = False, world.time
    world.exchange_now()
    assert world.asked_to_end == [began]
    assert 0 < world.pause() < 0.1
    world.time += world.pause()
    world.may_end = True
    world.exchange_now()
    assert world.ended


def test_a_notification_during_a_claim_is_not_lost(world: World) -> None:
    """The claim may have read the queue before the announced request was committed."""
    world.exchange_now()
    world.meanwhile = world.receiver.notified
    world.receiver.notified()
    world.exchange_now()
    world.meanwhile = lambda: None
    world.exchange_now()
    assert world.pause() > 0


def test_the_pauses_between_calls_grow_in_an_outage(world: World) -> None:
    world.claims = [found(1)]
    world.exchange_now()
    world.finish(world.taken[0])
    world.error = StoreUnavailable("away")
    pauses = []
    for _ in range(9):
        world.exchange_now()
        pauses.append(world.pause())
        world.time += pauses[-1]
    for n, pause in enumerate(pauses):
        longest = min(5.0, 0.1 * 2**n)
        assert longest / 2 <= pause <= longest
    world.error = None
    call = world.exchange_now()
    assert [held.request_id for held, _ in call["completed"]] == [1]
    assert [type(event) for event in world.emitted if "Store" in type(event).__name__] == [
        StoreLost,
        StoreRecovered,
    ]
    assert world.exchanger.undelivered == 0


def test_a_notification_is_not_lost_with_a_claim_that_failed(world: World) -> None:
    world.exchange_now()
    world.receiver.notified()
    world.error = StoreUnavailable("away")
    world.exchange_now()
    world.error = None
    world.time += world.pause()
    world.claims = [found(1)]
    world.exchange_now()
    assert world.taken


def test_a_store_that_refuses_for_good_ends_the_receiver(world: World) -> None:
    world.error = RoutineError("wrong")
    with pytest.raises(RoutineError):
        world.receiver.run()
    assert world.receiver.is_quiet


@pytest.mark.parametrize(
    "error", [AccessDenied("no"), SchemaMismatch("no"), StoreError("no"), InvalidRequest("no")]
)
def test_a_refusal_after_an_answer_is_tolerated_for_a_minute(
    world: World, error: Exception
) -> None:
    world.exchange_now()
    world.receiver.notified()
    world.error = error
    began = world.time

    def go_on() -> None:
        while world.time - began < 2 * REFUSAL_TOLERATED:
            world.time += max(0.0, world.pause())
            world.exchange_now()

    with pytest.raises(type(error)):
        go_on()
    assert REFUSAL_TOLERATED <= world.time - began < REFUSAL_TOLERATED + 5.0
    assert [event for event in world.emitted if isinstance(event, StoreLost)] == [StoreLost("no")]


def test_a_refused_outcome_is_found_by_halves_and_fails_while_the_others_are_delivered(
    world: World,
) -> None:
    leases = [Lease(request(number), 0, None, 0.0) for number in range(100)]
    world.refuses = lambda answered: "€" in (answered or "")
    done = [
        Ended(one, Returned('"€"' if place in (17, 60) else None), 0.1)
        for place, one in enumerate(leases[:80])
    ]
    answered = Failure("5 €", after=timedelta(seconds=3))
    failed = [
        Ended(one, answered if place == 5 else Failure("no"), 0.1)
        for place, one in enumerate(leases[80:])
    ]
    world.exchanger.deliver(Outcomes(done, failed))
    world.claims = [Claim([request(1000)], more=False, wait=None, floor="f")]
    taken, _ = world.exchanger.exchange(5, 1)
    assert [one.request.request_id for one in taken] == [1000]
    assert world.exchanger.undelivered == 0
    counts = world.exchanger.counts
    assert (counts.finished, counts.failed, counts.lost) == (78, 22, 0)
    reported = {
        event.request.request_id: event.error
        for event in world.emitted
        if isinstance(event, Failed)
    }
    assert reported[17] == reported[60] == "the database refused the result: no such character"
    assert reported[85] == "5 \\u20ac"
    assert len(world.calls) < 60


def test_an_outcome_that_is_refused_in_every_form_is_dropped(world: World) -> None:
    lease = Lease(request(1), 0, None, 0.0)
    world.refuses = lambda answered: answered is not None
    world.exchanger.deliver(Outcomes([Ended(lease, Returned("1"), 0.1)]))
    world.exchanger.exchange(0, 0)
    assert OutcomeRefused(lease.request, "no such character") in world.emitted
    assert (world.exchanger.undelivered, world.exchanger.counts.lost) == (0, 1)


def test_outcomes_not_refused_are_sent_again_after_an_outage(
    world: World,
) -> None:
    leases = [Lease(request(number), 0, None, 0.0) for number in range(4)]
    world.exchanger.deliver(Outcomes([Ended(one, Returned("€"), 0.1) for one in leases]))

    def refuse(answered: str | None) -> bool:
        if len(world.calls) == 3:
            raise StoreUnavailable("away")
        return answered == "€"

    world.refuses = refuse
    with pytest.raises(StoreUnavailable):
        world.exchanger.exchange(0, 0)
    assert world.exchanger.undelivered == 4
    world.refuses = lambda answered: False
    world.exchanger.exchange(0, 0)
    assert (world.exchanger.undelivered, world.exchanger.counts.finished) == (0, 4)


CHAINED = '{"$next":{"kind":"print","payload":{},"queue":"web","result_as":"text"}}'


def ended(*numbers: int, payload: str = CHAINED) -> list[Ended[Returned]]:
    return [
        Ended(Lease(request(number, payload=payload), 0, None, 0.0), Returned(str(number)), 0.1)
        for number in numbers
    ]


def test_requests_with_a_successor_are_completed_one_by_one_and_others_together(
    world: World,
) -> None:
    world.outcomes = {3: Outcome.REPEAT, 5: Outcome.LEASE_LOST}
    plain = ended(2, payload="{}") + ended(4, payload='{"a":{"$next":1}}')
    world.exchanger.deliver(Outcomes(ended(1) + plain + ended(3, 5)))
    world.exchanger.exchange(0, 0)
    assert world.calls[:3] == [
        {"completed": number, "successor": ("web", f'{{"text":{number}}}')} for number in (1, 3, 5)
    ]
    assert [held.request_id for held, _ in world.calls[3]["completed"]] == [2, 4]
    counts = world.exchanger.counts
    assert (counts.finished, counts.lost, world.exchanger.undelivered) == (4, 1, 0)


def test_a_successor_that_is_refused_fails_its_request_and_no_other(world: World) -> None:
    world.refuses = lambda text: text == '{"text":2}'
    wrong = ended(4, payload='{"$next":5}')
    world.exchanger.deliver(Outcomes(ended(1, 2, 3) + wrong))
    world.exchanger.exchange(0, 0)
    failed = {held.request_id: failure.error for held, failure in world.calls[-1]["failed"]}
    assert failed[2] == "the next link of the chain was refused: no such character"
    assert failed[4].startswith("the next link of the chain was refused: the successor of")
    assert len(failed) == 2
    counts = world.exchanger.counts
    assert (counts.finished, counts.failed, world.exchanger.undelivered) == (2, 2, 0)


def test_requests_with_a_successor_are_sent_again_after_an_outage(world: World) -> None:
    world.exchanger.deliver(Outcomes(ended(1, 2)))
    world.error = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        world.exchanger.exchange(0, 0)
    assert world.exchanger.undelivered == 2
    world.error = None
    world.exchanger.exchange(0, 0)
    assert [call["completed"] for call in world.calls] == [1, 1, 2]
    assert (world.exchanger.undelivered, world.exchanger.counts.finished) == (0, 2)


def test_while_renewals_fail_nothing_is_claimed_and_outcomes_are_sent(
    world: World,
) -> None:
    world.claims = [found(1)]
    world.exchange_now()
    world.failing_since = world.time
    world.receiver.notified()
    assert world.pause() == math.inf
    world.finish(*world.taken)
    assert world.exchange_now()["limit"] == 0
    assert world.pause() == math.inf
    world.failing_since = None
    world.receiver.go_on()
    assert world.exchange_now()["limit"] == 2


def test_the_next_call_is_made_at_once_when_renewals_succeed_again(world: World) -> None:
    world.error = StoreUnavailable("away")
    for _ in range(9):
        world.exchange_now()
        world.time += world.pause()
    world.exchange_now()
    assert world.pause() > 5.0 / 3
    world.receiver.go_on()
    assert world.pause() <= 0


@pytest.mark.parametrize(
    ("lease", "answer"),
    [(0.5, 1.0), (6.0, 3.0), (30.0, 15.0), (3600.0, 30.0), (math.inf, 15.0)],
    ids=["0.5 s", "6 s", "30 s", "1 h", "not known yet"],
)
def test_an_exchange_may_take_half_of_the_shortest_lease(
    world: World, lease: float, answer: float
) -> None:
    world.shortest = lease
    world.exchange_now()
    assert world.times == [timedelta(seconds=answer)]


def leave_an_outcome(world: World) -> None:
    """Drain, and leave an outcome that the database has not answered."""
    world.claims = [found(1)]
    world.exchange_now()
    world.receiver.drain()
    assert world.pause() == math.inf
    world.finish(world.taken[0])
    world.error = StoreUnavailable("away")
    world.receiver.close(world.time + 7)
    world.exchange_now()


def test_outcomes_left_at_the_end_are_given_up_in_time(world: World) -> None:
    leave_an_outcome(world)
    world.time += 8
    world.receiver.run()
    assert world.exchanger.undelivered == 1


def test_outcomes_left_at_the_end_are_delivered_once_the_database_answers(world: World) -> None:
    leave_an_outcome(world)
    world.error = None
    world.time += world.pause()
    world.receiver.run()
    assert world.exchanger.undelivered == 0
    assert world.calls[-1]["limit"] == 0


# -- a claim whose answer was lost -----------------------------------------------------------------


def lose_a_claim(world: World, error: StoreError | None = None) -> None:
    """Hold requests 1 and 2, lose the answer to a claim, and wait for the next call."""
    world.capacity = 4
    world.idle = 4
    world.claims = [found(1, 2)]
    world.exchange_now()
    world.error = error or StoreTimeout("no answer")
    world.exchange_now()
    assert world.disowned == []
    world.error = None
    world.time += world.pause()


def test_a_lost_claim_is_disowned_before_the_next_claim(world: World) -> None:
    lose_a_claim(world)
    num_claims = len(world.calls)
    world.late = [3]
    world.meanwhile = lambda: world.disowned.append([])  # the claim itself
    world.exchange_now()
    assert world.disowned == [[1, 2], []]
    assert len(world.calls) == num_claims + 1
    assert [event for event in world.emitted if isinstance(event, Disowned)] == [Disowned(1)]


def test_a_lost_claim_that_commits_late_is_found_for_ten_seconds(world: World) -> None:
    lose_a_claim(world)
    lost_at = world.time
    world.claims = [found(3, 4)]
    world.exchange_now()
    looked_at: list[float] = []
    while (pause := world.pause()) < 100:
        world.time += max(0.0, pause)
        world.receiver._exchange()
        if len(world.disowned) > 1 + len(looked_at):
            looked_at.append(world.time)
            assert world.disowned[-1] == [1, 2, 3, 4]
        assert world.time < lost_at + 60
    pauses = [two - one for one, two in pairwise([lost_at, *looked_at])]
    assert pauses == [pytest.approx(1.0)] * len(pauses)
    assert 9 <= len(looked_at) <= 10


def test_requests_disowned_late_are_claimed_at_once(world: World) -> None:
    lose_a_claim(world)
    world.exchange_now()
    world.late = [9]
    world.time += 1.0
    world.exchange_now()
    world.claims = [found(9)]
    world.exchange_now()
    assert world.taken[-1].request.request_id == 9


def test_a_call_that_did_nothing_is_not_disowned(world: World) -> None:
    lose_a_claim(world, StoreUnavailable("not reached"))
    world.exchange_now()
    assert world.disowned == []


def test_after_an_outage_a_lost_claim_is_disowned_before_the_next_claim(world: World) -> None:
    lose_a_claim(world)
    num_calls = len(world.calls)
    world.error = StoreUnavailable("not reached")
    world.exchange_now()
    assert (len(world.disowned), len(world.calls)) == (1, num_calls)
    world.error = None
    world.time += 60
    world.exchange_now()
    assert (len(world.disowned), len(world.calls)) == (2, num_calls + 1)
    assert world.pause() > 0
    world.time += 2
    world.receiver._exchange()
    assert len(world.disowned) == 2  # the lost claim has ended long ago


def test_a_worker_that_ends_after_a_lost_claim_disowns_it_first(world: World) -> None:
    lose_a_claim(world)
    world.receiver.close(world.time + 7)
    world.receiver.run()
    assert world.disowned == [[1, 2]]
    assert world.exchanger.undelivered == 0


def test_a_request_whose_outcome_is_being_sent_counts_as_held(world: World) -> None:
    lose_a_claim(world)
    world.finish(*world.taken)

    def at_once() -> None:
        world.meanwhile = lambda: None
        world.exchanger.disown()

    world.meanwhile = at_once
    world.exchanger.exchange(0, 0)
    assert world.disowned == [[1, 2]]
    world.exchanger.disown()
    assert world.disowned[-1] == []


def test_requests_whose_outcomes_are_sent_in_parts_count_as_held(world: World) -> None:
    lose_a_claim(world)
    one, two = world.taken
    world.exchanger.deliver(
        Outcomes(done=[Ended(one, Returned("1"), 0.1), Ended(two, Returned("bad"), 0.1)]),
        [one, two],
    )

    def refuses(answered: str | None) -> bool:
        world.exchanger.disown()
        return answered == "bad"

    world.refuses = refuses
    world.exchanger.exchange(0, 0)
    assert set(map(tuple, world.disowned)) == {(1, 2)}


# -- the exchanger -------------------------------------------------------------------------------


def test_outcomes_are_counted_and_emitted_by_the_answers_of_the_database(world: World) -> None:
    leases = [Lease(request(n), 0, None, world.time) for n in range(1, 7)]
    world.outcomes = {
        2: Outcome.LEASE_LOST,
        3: Outcome.REPEAT,
        5: Outcome.NOT_FOUND,
        6: Outcome.LEASE_LOST,
    }
    no = Failure("no")
    world.exchanger.deliver(
        Outcomes(
            [Ended(one, Returned('"x"'), 0.5) for one in leases[:3]],
            [Ended(one, no, 0.5) for one in leases[3:5]],
            leases[5:],
        )
    )
    assert world.exchanger.undelivered == 6
    assert world.exchanger.exchange(0, 0) == ([], None)
    assert world.exchanger.undelivered == 0
    assert world.emitted == [
        LeaseLostEvent(leases[5].request, Outcome.LEASE_LOST),
        LeaseLostEvent(leases[1].request, Outcome.LEASE_LOST),
        Finished(leases[0].request, 0.5),
        Finished(leases[2].request, 0.5),
        LeaseLostEvent(leases[4].request, Outcome.NOT_FOUND),
        Failed(leases[3].request, 0.5, "no", False),
    ]
    counts = world.exchanger.counts
    assert (counts.finished, counts.failed, counts.abandoned, counts.lost) == (2, 1, 0, 3)


def test_an_exchange_of_nothing_makes_no_call(world: World) -> None:
    assert world.exchanger.exchange(0, 0) == ([], None)
    world.exchanger.deliver(Outcomes(abandoned=[Lease(request(1), 0, None, world.time)]))
    world.exchanger.exchange(0, 0)
    assert world.calls == [{"abandoned": [1]}]
    assert world.emitted == [Abandoned(request(1))]


def test_requests_that_have_expired_are_cancelled_and_not_started(world: World) -> None:
    in_time, late, other = (request(number) for number in (1, 2, 3))
    in_time = in_time._replace(headers='{"expires_seconds":"0"}')
    late = late._replace(
        headers='{"expires_seconds":"5"}', requested_time=AT - timedelta(seconds=6)
    )
    world.claims = [Claim([in_time, late, other], more=False, wait=None, floor=None)]
    world.exchange_now()
    assert [one.request.request_id for one in world.taken] == [1, 3]
    world.exchanger.deliver(Outcomes(abandoned=world.taken[1:]), world.taken[1:])
    world.exchanger.exchange(0, 0)
    assert world.calls[-2:] == [{"abandoned": [3]}, {"expired": [2]}]
    assert world.exchanger.undelivered == 0


def test_snoozes_are_delivered_and_counted(world: World) -> None:
    first, late = (Lease(request(number), 0, None, world.time) for number in (1, 2))
    world.outcomes = {2: Outcome.LEASE_LOST}
    minute = timedelta(minutes=1)
    outcomes = Outcomes()
    for lease in (first, late):
        outcomes.add(Ended(lease, attempt.SnoozeAsked(minute, "why"), 0.5))
    world.exchanger.deliver(outcomes)
    assert world.exchanger.undelivered == 2
    world.exchanger.exchange(0, 0)
    assert world.exchanger.undelivered == 0
    assert world.calls == [{"snoozed": [1, 2], "after": [minute, minute]}]
    assert world.emitted == [
        LeaseLostEvent(late.request, Outcome.LEASE_LOST),
        Snoozed(first.request, 0.5, minute, "why"),
    ]
    assert (world.exchanger.counts.snoozed, world.exchanger.counts.lost) == (1, 1)


def test_requests_of_an_unknown_kind_are_declined_and_the_kind_is_reported_once(
    world: World,
) -> None:
    world.claims = [found(1, 2, kind="nobody"), found(3, kind="nobody")]
    world.exchange_now()
    assert (world.taken, world.renewed) == ([], [])
    assert world.exchanger.counts.claimed == 2
    assert [type(event) for event in world.emitted] == [Claimed]
    assert world.exchanger.undelivered == 2
    world.exchange_now()
    assert world.declined == [(1, UNKNOWN_KIND), (2, UNKNOWN_KIND)]
    world.dead = True
    world.exchange_now()
    assert world.declined[2:] == [(3, UNKNOWN_KIND)]
    counts = world.exchanger.counts
    assert (counts.declined, counts.abandoned, counts.failed, counts.dead) == (2, 0, 0, 1)
    assert [event for event in world.emitted if isinstance(event, KindUnknown)] == [
        KindUnknown("default", "nobody", dead=False),
        KindUnknown("default", "nobody", dead=True),
    ]


def test_a_full_worker_declines_at_once(world: World) -> None:
    requests = [request(1), request(2), request(3, kind="nobody")]
    world.claims = [Claim(requests, more=True, wait=None, floor="f")]
    world.exchange_now()
    world.exchange_now()
    assert world.declined == [(3, UNKNOWN_KIND)]


def test_made_up_kinds_do_not_fill_the_memory(world: World) -> None:
    def is_reported(number: int) -> bool:
        before = len(world.emitted)
        lease = Lease(request(1, kind=f"made up {number}"), -1, None, 0.0)
        world.exchanger._delivered.declined([lease], [Outcome.OK], [False])
        return len(world.emitted) > before

    assert all(is_reported(number) for number in range(REMEMBERED_KINDS + 1))
    assert not is_reported(REMEMBERED_KINDS)
    assert is_reported(0)


def test_a_decline_that_fails_in_an_outage_is_sent_again(world: World) -> None:
    world.claims = [found(1, kind="nobody")]
    world.exchange_now()
    world.error = StoreUnavailable("away")
    world.exchange_now()
    world.error = None
    world.time += world.pause()
    world.exchange_now()
    assert world.declined == [(1, UNKNOWN_KIND)]
    assert world.exchanger.undelivered == 0


def test_results_that_are_all_empty_are_not_sent_as_null_json(world: World) -> None:
    lease = Lease(request(1), 0, None, world.time)
    world.exchanger.deliver(Outcomes(done=[Ended(lease, Returned(None), 0.1)]))
    world.exchanger.exchange(0, 0)
    assert world.calls[0]["completed"] == [(lease.request, None)]


# -- the listener --------------------------------------------------------------------------------


class ScriptedNotifications:
    """A store whose notifications follow a script."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.did: list[str] = []
        self.cancelled: list[int] = []
        self.listener: Listener | None = None

    def listen(self, queues: Sequence[str]) -> ScriptedNotifications:
        self.did.append("connect")
        return self

    def announce_idle(self, idle: bool) -> None:
        self.did.append("idle" if idle else "busy")

    def wait(self, timeout: timedelta) -> bool:
        step = self.script.pop(0) if self.script else "stop"
        assert self.listener
        if isinstance(step, Exception):
            raise step
        if step == "stop":
            self.listener.stop()
        elif step == "announce":
            self.listener.announce()
        elif step == "retract":
            self.listener.retract()
        elif isinstance(step, int):
            self.cancelled.append(step)
        return step == "notify"

    def close(self) -> None:
        self.did.append("close")

    def notified(self) -> None:
        self.did.append("notified")

    def announced(self) -> None:
        self.did.append("announced")


def test_a_listener_announces_when_asked_and_reconnects_after_a_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rowlease.worker.claims.listener.Backoff", lambda *_: Backoff(0.0, 0.0))
    lost = OSError("cut off")
    store = ScriptedNotifications(
        7, "announce", 8, "notify", "retract", "announce", lost, lost, 9, "notify"
    )
    emitted: list[Event] = []
    events = Events()
    events.subscribe(emitted.append)
    checked: list[Any] = []
    this: Any = store
    store.listener = Listener(this, ["default"], events, checked.append)
    monkeypatch.setattr("rowlease.worker.claims.listener.READ_INTERVAL", 0.0)
    store.listener.run(store)
    assert store.did == [
        *("connect", "idle", "announced", "notified", "busy", "idle", "announced", "close"),
        *("connect", "idle", "announced", "close"),
        *("connect", "idle", "announced", "notified", "close"),
    ]
    assert emitted == [NotificationsLost("cut off"), NotificationsLost("cut off")]
    assert checked == [None, [7], [8], None, None, [9]]
    assert not store.listener.is_announced


def test_a_worker_asks_for_the_batches_of_which_it_runs_no_request_and_for_all_if_many() -> None:
    delivered = DeliveredOutcomes(Counts(), Events())

    def done(*batches: str | None) -> None:
        for batch_id in batches:
            member = request(1)._replace(load_id=batch_id)
            delivered.done([Ended(Lease(member, 0, None, 0.0), NOTHING, 0.0)], [Outcome.OK])

    done("a", "b", None)
    assert delivered.take_batches([request(2)._replace(load_id="b")]) == ["a"]
    assert delivered.take_batches([]) == ["b"]
    assert delivered.take_batches([]) == []
    done(*map(str, range(MANY_BATCHES + 1)))
    assert delivered.take_batches([]) == [None]
