"""`rowlease engines verify` passes on a sound database, and each check notices what breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from rowlease.model import Outcome
from rowlease.store import Store, observe, open_store
from rowlease.verify import _made, verify
from rowlease.verify.checks import CHECKS, Trial
from tests.contract.sessions import Session


def test_the_core_of_the_contract_holds_and_the_queue_is_gone(store: Session, dsn: str) -> None:
    report = verify(dsn, 200)
    core = report.results[: len(CHECKS)]
    assert [(each.check, each.detail) for each in core if each.outcome != "passed"] == []
    assert [each.queue_name for each in store.list_queues()] == ["default"]
    assert f"passed: one owner: {core[0].detail}\n" in report.text()
    *locks, last = report.results[len(CHECKS) :]
    assert last.outcome == "passed"
    if not store.skips_locked:
        pytest.skip(f"not an engine with SQL Server's locks: {[each[:3] for each in locks]}")
    assert [each for each in locks if each.outcome != "passed"] == []
    assert report.is_sound


def without(**gone: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A call that ignores these arguments, or these columns of requests."""

    def breaks(call: Callable[..., Any]) -> Callable[..., Any]:
        def broken(store: Store, queue: str, *requests: Any, **given: Any) -> Any:
            plain = [
                [replace(each, **{name: gone[name] for name in gone if hasattr(each, name)})
                 for each in some]
                for some in requests
            ]  # fmt: skip
            kept = {name: gone.get(name, value) for name, value in given.items()}
            return call(store, queue, *plain, **kept)

        return broken

    return breaks


def claims_backwards(call: Callable[..., Any]) -> Callable[..., Any]:
    def broken(*given: Any, **options: Any) -> Any:
        claim = call(*given, **options)
        return claim._replace(requests=claim.requests[::-1])

    return broken


def claims_twice(call: Callable[..., Any]) -> Callable[..., Any]:
    last: list[Any] = []

    def broken(*given: Any, **options: Any) -> Any:
        claim = call(*given, **options)
        again = claim._replace(requests=[*claim.requests, *last[-1:]])
        last[:] = claim.requests or last
        return again if claim.requests else claim

    return broken


def completes_all(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda store, held, *rest, **options: (
        call(store, held, *rest, **options) and [Outcome.OK for _ in held]
    )


def requeues_nothing(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda store, verb, **options: (
        None if verb == "requeue" else call(store, verb, **options)
    )


def promotes_again(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **options: call(*given, **options)._replace(outcome=Outcome.OK)


#: For each check: the method of the store that is broken, how, and what the check then says.
BROKEN: dict[str, tuple[str, Callable[[Callable[..., Any]], Callable[..., Any]], str]] = {
    "one_owner": ("dequeue", claims_twice, "had two owners|a completion answered"),
    "order": ("dequeue", claims_backwards, "claimed in the order"),
    "fencing": ("complete", completes_all, "the late completion answered"),
    "dead_letters": ("operate", requeues_nothing, "requeue did not revive it"),
    "dedup": ("enqueue_many", without(dedup_key=None), "requests have one dedup key"),
    "groups": ("enqueue_many", without(group_key=None), "two requests of a group ran at once"),
    "capacity": ("configure_queue", without(capacity=None), "an eleventh request fit"),
    "callers_transaction": (
        "enqueue_many",
        without(connection=None),
        "back left its request",
    ),
    "loads": ("promote", promotes_again, "the second promote answered"),
}


@pytest.fixture
def trial(store: Session, dsn: str) -> Iterator[Trial]:
    with closing(open_store(dsn)) as opened:
        found = Trial(opened, observe(dsn), 100)
        store.configure_queue(found.queue)
        yield found


@pytest.mark.only_on("postgresql", why="the store is broken in Python, which is the same for both")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_check_notices_what_breaks_it(
    trial: Trial, check: Callable[[Trial], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    method, breaks, says = BROKEN[check.__name__]
    kind = type(trial.store)
    monkeypatch.setattr(kind, method, breaks(getattr(kind, method)))
    found = _made(check, trial)
    assert found.outcome == "failed", found
    assert pytest.raises(AssertionError, match=says).matches(AssertionError(found.detail)), found
