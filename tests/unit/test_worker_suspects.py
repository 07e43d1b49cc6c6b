"""Suspects run alone: neither beside others, nor before the outcomes of others are delivered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from rowlease.errors import StoreUnavailable
from rowlease.model import Claim
from rowlease.tasks.task import Task
from rowlease.worker import Worker
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.suspects import ALONE_WAIT_SECONDS, HANDED_BACK
from tests.unit.receiver_world import World, found, request, world

__all__ = ["world"]


def test_a_suspect_is_a_request_that_the_next_crash_may_make_a_dead_letter() -> None:
    one = request(1)._replace(max_attempts=5)
    assert not one._replace(num_attempts=5).is_suspect
    assert not one._replace(num_attempts=2, num_crashes=1).is_suspect
    assert one._replace(num_attempts=3, num_crashes=2).is_suspect
    assert one._replace(num_attempts=5, num_crashes=1).is_suspect


def test_a_suspect_waits_until_nothing_runs_and_all_outcomes_are_delivered(world: World) -> None:
    world.claims = [found(1), with_suspects(2, 3)]
    world.exchange_now()
    world.exchange_now()
    assert ids(world.taken) == [1]
    assert world.starts == [([2, 3], False)], "neither would be at fault for a crash"
    assert claims_nothing(world)

    world.finish(world.taken[0])
    assert world.exchange_now()["completed"]
    assert ids(world.taken) == [1], "the outcome of 1 would have been lost with the process"
    world.exchange_now()
    assert ids(world.taken) == [1, 2]
    assert world.starts[1:] == [([2], True)]
    assert claims_nothing(world)

    world.finish(world.taken[1])
    world.exchange_now()
    world.exchange_now()
    assert ids(world.taken) == [1, 2, 3]
    world.finish(world.taken[2])
    assert world.exchange_now()["limit"] == 2


def test_others_of_the_same_claim_run_first(world: World) -> None:
    claim = with_suspects(1)
    world.claims = [claim._replace(requests=[*claim.requests, request(2)])]
    world.exchange_now()
    assert ids(world.taken) == [2]


def test_suspects_are_handed_back_if_others_run_for_long(world: World) -> None:
    world.claims = [found(1), with_suspects(2)]
    world.exchange_now()
    world.exchange_now()
    assert world.pause() == ALONE_WAIT_SECONDS
    world.time += ALONE_WAIT_SECONDS
    world.exchange_now()
    assert {"snoozed": [2], "after": [HANDED_BACK]} in world.calls
    assert world.calls[-1]["limit"] == 1
    assert ids(world.taken) == [1]


def test_the_worker_claims_again_if_a_suspect_runs_for_long(world: World) -> None:
    world.claims = [with_suspects(1, 2)]
    world.exchange_now()
    world.exchange_now()
    assert ids(world.taken) == [1]
    assert world.pause() == ALONE_WAIT_SECONDS
    world.time += ALONE_WAIT_SECONDS
    assert world.exchange_now()["limit"] == 1
    assert {"snoozed": [2], "after": [HANDED_BACK]} in world.calls


@pytest.mark.parametrize("world", [{"burst": True, "can_listen": False}], indirect=True)
def test_a_burst_waits_for_its_suspects(world: World) -> None:
    world.claims = [found(1), with_suspects(2)]
    world.exchange_now()
    world.exchange_now()
    assert world.pause() == math.inf


@pytest.mark.parametrize("world", [{"is_isolated": True}], indirect=True)
def test_a_suspect_starts_at_once_if_each_slot_is_a_process(world: World) -> None:
    world.claims = [found(1), with_suspects(2)]
    world.exchange_now()
    world.exchange_now()
    assert ids(world.taken) == [1, 2]


def test_a_suspect_whose_lease_was_lost_does_not_start(world: World) -> None:
    world.claims = [with_suspects(1, 2)]
    world.exchange_now()
    world.loses = [1]
    world.exchange_now()
    world.exchange_now()
    assert ids(world.taken) == [2]


def test_a_suspect_does_not_start_while_its_start_cannot_be_recorded(world: World) -> None:
    world.claims = [with_suspects(1)]
    world.exchange_now()
    world.renewal_error = StoreUnavailable()
    world.exchange_now()
    assert world.taken == []
    world.renewal_error = None
    world.time += world.pause()
    world.exchange_now()
    assert ids(world.taken) == [1]


def test_a_worker_that_stops_abandons_its_suspects(world: World) -> None:
    world.claims = [found(1), with_suspects(2)]
    world.exchange_now()
    world.exchange_now()
    world.receiver.drain()
    world.exchange_now()
    assert {"abandoned": [2]} in world.calls


@pytest.mark.parametrize(("holds_claims", "busy"), [(True, 9), (False, 2)])
def test_a_worker_with_a_suspect_says_that_no_slot_is_free(holds_claims: bool, busy: int) -> None:
    """Else workers of a lower consumer priority would wait for it."""
    worker = Worker("postgresql://nowhere/x", [Task(print)], concurrency=9, executor="thread")
    dispatcher: Any = SimpleNamespace(busy=lambda: 2)
    suspects: Any = SimpleNamespace(holds_claims=holds_claims)
    assert worker._busy(dispatcher, suspects) == busy


def with_suspects(*numbers: int) -> Claim:
    return found()._replace(requests=[request(each)._replace(num_crashes=2) for each in numbers])


def ids(leases: Sequence[Lease]) -> list[int]:
    return [lease.request.request_id for lease in leases]


def claims_nothing(world: World) -> bool:
    return 0 < world.pause() <= ALONE_WAIT_SECONDS
