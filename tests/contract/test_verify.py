"""`rowlease engines verify` passes on a sound database, and each check notices what breaks it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from rowlease.model import Outcome
from rowlease.store import Store, engine_of, open_store
from rowlease.verify import _made, checks, verify
from rowlease.verify.checks import CHECKS, Broken, Trial, cleaned_up
from tests.contract.sessions import Session
from tests.refusals import refusals, refused_at


def test_the_core_of_the_contract_holds_and_the_queue_is_gone(store: Session, dsn: str) -> None:
    report = verify(dsn, 200)
    core = report.results[: len(CHECKS)]
    assert [(each.check, each.detail) for each in core if each.outcome != "passed"] == []
    assert [each.queue_name for each in store.list_queues()] == ["default"]
    assert f"passed: one owner: {core[0].detail}\n" in report.text()
    *locks, last = report.results[len(CHECKS) :]
    assert last.outcome == "passed"
    if not store.skips_locked:
        pytest.skip(f"no engine with SQL Server's locks: {', '.join(each[0] for each in locks)}")
    assert [each for each in locks if each.outcome != "passed"] == []
    assert report.is_sound


Call = Callable[..., Any]
#: How the store is broken for a check.
Forgery = Callable[[pytest.MonkeyPatch, type[Store]], None]


def broken(**methods: Callable[[Call], Call]) -> Forgery:
    def forge(patch: pytest.MonkeyPatch, kind: type[Store]) -> None:
        for name, breaks in methods.items():
            patch.setattr(kind, name, breaks(getattr(kind, name)))

    return forge


def without(**gone: Any) -> Callable[[Call], Call]:
    """A call that ignores these arguments, or these columns of requests."""

    def breaks(call: Call) -> Call:
        def forged(store: Store, queue: str, *requests: Any, **given: Any) -> Any:
            plain = [
                [replace(each, **{name: gone[name] for name in gone if hasattr(each, name)})
                 for each in some]
                for some in requests
            ]  # fmt: skip
            kept = {name: gone.get(name, value) for name, value in given.items()}
            return call(store, queue, *plain, **kept)

        return forged

    return breaks


def claims(change: Callable[[str, list[Any]], list[Any]]) -> Callable[[Call], Call]:
    """A claim that returns to a worker other requests than it has leased."""

    def breaks(call: Call) -> Call:
        def forged(store: Store, worker: str, *given: Any, **options: Any) -> Any:
            claim = call(store, worker, *given, **options)
            return claim._replace(requests=change(worker, claim.requests))

        return forged

    return breaks


def claims_twice(call: Call) -> Call:
    last: list[Any] = []

    def forged(*given: Any, **options: Any) -> Any:
        claim = call(*given, **options)
        again = claim._replace(requests=[*claim.requests, *last[-1:]])
        last[:] = claim.requests or last
        return again if claim.requests else claim

    return forged


def claims_again_as_two(call: Call) -> Call:
    last: list[Any] = []

    def forged(store: Store, worker: str, *given: Any, **options: Any) -> Any:
        if worker != "two":
            last[:] = [call(store, worker, *given, **options)]
        return last[0]

    return forged


def answers(outcome: Outcome) -> Callable[[Call], Call]:
    return lambda call: (
        lambda store, held, *rest, **options: (
            call(store, held, *rest, **options) and [outcome for _ in held]
        )
    )


def requeues_nothing(call: Call) -> Call:
    return lambda store, verb, **options: (
        None if verb == "requeue" else call(store, verb, **options)
    )


def promotes(**forged: Any) -> Callable[[Call], Call]:
    return lambda call: lambda *given, **options: call(*given, **options)._replace(**forged)


def answers_other_ids(call: Call) -> Call:
    return lambda *given, **options: [
        each._replace(request_id=hash(threading.current_thread()))
        for each in call(*given, **options)
    ]


def loses_the_transaction(number: int, *, enqueues: bool) -> Callable[[Call], Call]:
    """One of the calls in a caller's transaction enqueues outside of it, or not at all."""

    def breaks(call: Call) -> Call:
        calls = count(1)

        def forged(store: Store, queue: str, requests: Any, **given: Any) -> Any:
            if given.get("connection") is None or queue.endswith("unknown"):
                return call(store, queue, requests, **given)
            if next(calls) == number:
                return call(store, queue, requests) if enqueues else []
            return call(store, queue, requests, **given)

        return forged

    return breaks


def runs_a_group_twice(patch: pytest.MonkeyPatch, kind: type[Store]) -> None:
    """Of four workers, each gets the groups of the first, who completes none meanwhile."""
    refused, lock, first = threading.Event(), threading.Lock(), list[Any]()
    expected, claim, complete = checks.expect, kind.dequeue, kind.complete

    def expect(holds: bool, otherwise: str) -> None:
        if not holds:
            refused.set()
        expected(holds, otherwise)

    def claims_the_same(store: Store, worker: str, *given: Any, **options: Any) -> Any:
        if not worker.startswith("w"):
            return claim(store, worker, *given, **options)
        with lock:
            first[:] = first or [claim(store, worker, *given, **options)]
            return first[0]

    def completes_late(*given: Any, **options: Any) -> Any:
        assert refused.wait(60)
        return complete(*given, **options)

    patch.setattr(checks, "expect", expect)
    patch.setattr(kind, "dequeue", claims_the_same)
    patch.setattr(kind, "complete", completes_late)


def claims_nothing_for_a_minute(patch: pytest.MonkeyPatch, kind: type[Store]) -> None:
    seconds = count(0, 10)
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    patch.setattr(checks, "time", clock)
    broken(dequeue=claims(lambda worker, found: [] if worker[0] == "w" else found))(patch, kind)


def reversed_ids(worker: str, found: list[Any]) -> list[Any]:
    sign = -1 if worker.startswith("w") else 1
    return [each._replace(request_id=sign * each.request_id) for each in found]


def completes_reversed_ids(call: Call) -> Call:
    return lambda store, held, *rest, **options: call(
        store, [each._replace(request_id=abs(each.request_id)) for each in held], *rest, **options
    )


#: For each check, wrong answers of the store: one for each sentence with which it fails.
FORGED: dict[str, list[Forgery]] = {
    "one_owner": [
        broken(complete=answers(Outcome.REPEAT)),
        broken(dequeue=claims_twice, complete=answers(Outcome.OK)),
        broken(dequeue=claims(lambda _, found: found[1:])),
    ],
    "order": [broken(dequeue=claims(lambda _, found: found[::-1]))],
    "fencing": [
        broken(dequeue=claims(lambda _, found: [each._replace(lock_token=1) for each in found])),
        broken(complete=answers(Outcome.OK)),
        broken(complete=answers(Outcome.LEASE_LOST)),
    ],
    "dead_letters": [
        broken(fail=lambda _: lambda store, held, failures: store.abandon(held)),
        broken(operate=requeues_nothing),
    ],
    "dedup": [
        broken(enqueue_many=without(dedup_key=None)),
        broken(enqueue_many=answers_other_ids),
    ],
    "groups": [
        broken(enqueue_many=without(group_key=None)),
        broken(dequeue=claims_again_as_two),
        runs_a_group_twice,
        claims_nothing_for_a_minute,
        broken(dequeue=claims(reversed_ids), complete=completes_reversed_ids),
    ],
    "capacity": [broken(configure_queue=without(capacity=None))],
    "callers_transaction": [
        broken(enqueue_many=loses_the_transaction(1, enqueues=True)),
        broken(enqueue_many=loses_the_transaction(2, enqueues=True)),
        broken(enqueue_many=loses_the_transaction(3, enqueues=False)),
    ],
    "loads": [broken(promote=promotes(num_enqueued=0)), broken(promote=promotes(outcome="ok"))],
}


@pytest.mark.only_on("postgresql", why="the store is broken in Python, which is the same for both")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_check_refuses_each_wrong_answer(
    store: Session, dsn: str, check: Callable[[Trial], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = set()
    for forge in FORGED[check.__name__]:
        with closing(open_store(dsn)) as opened:
            trial = Trial(opened, engine_of(dsn).observe(), 100)
            opened.configure_queue(trial.queue)
            with monkeypatch.context() as patch:
                forge(patch, type(opened))
                with pytest.raises(Broken) as raised:
                    check(trial)
            refused.add(refused_at(raised.value))
    assert refused == refusals(check)


def test_a_queue_that_cannot_be_deleted_is_no_success(
    store: Session, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_store(dsn)) as opened:
        found = _made(cleaned_up, Trial(opened, engine_of(dsn).observe(), 100))
    assert (found.outcome, found.check) == ("error", "cleaned up")
    assert "does not exist" in found.detail
