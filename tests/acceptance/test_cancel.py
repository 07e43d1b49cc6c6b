"""A cancel stops a running task. Leases last an hour, so no renewal tells of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowlease.client.client import Client
from rowlease.errors import NoResult
from rowlease.events import Cancelled, CancelRequested, Failed, Started
from rowlease.model import Outcome
from rowlease.store import Store
from tests.acceptance import coroutine_tasks
from tests.acceptance.tasks import act
from tests.acceptance.workers import put, working

HOUR = timedelta(hours=1)
GIVEN_UP = "was given up because its request was cancelled"
SETTINGS: dict[str, dict[str, Any]] = {
    "coroutine": {"tasks": coroutine_tasks.act, "executor": "coroutine"},
    "thread": {"tasks": act, "executor": "thread"},
    "process": {"tasks": act, "executor": "process"},
}


def cancelled(store: Store, executor: str, do: str, *, kill: bool = False, **settings: Any) -> Any:
    """The event that ends a request which is cancelled while it runs."""
    (request_id,) = put(store, do)
    with working(store, lease=HOUR, **SETTINGS[executor], **settings) as (_, emitted):
        emitted.first(Started)
        arguments = {"kill": kill}
        (asked,) = store.operate(
            "cancel", arguments=arguments, actor="ann", ids=[request_id]
        ).touched
        assert asked.outcome is Outcome.CANCEL_REQUESTED
        event = emitted.first(Cancelled)
        assert emitted.first(CancelRequested).request.request_id == request_id
    assert not [event for event in emitted.rest() if isinstance(event, Failed)]
    found = store.get_request(request_id)
    assert found
    assert (found.status, found.cancelled_by) == ("Cancelled", "ann")
    return event


def test_a_coroutine_is_cancelled_where_it_awaits(store: Store) -> None:
    coroutine_tasks.crowd.clear()
    event = cancelled(store, "coroutine", "clean up", cancel_grace=HOUR)
    assert event.error == f"the coroutine running this request {GIVEN_UP}"
    assert coroutine_tasks.crowd == [1]


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_a_task_that_looks_is_asked_to_stop(executor: str, store: Store) -> None:
    event = cancelled(store, executor, "obey", cancel_grace=HOUR)
    assert event.error == "RuntimeError: stopped, as asked"


@pytest.mark.parametrize("grace", [timedelta(0), HOUR], ids=["grace", "kill"])
def test_a_child_is_killed_after_the_grace_time_or_at_once(grace: timedelta, store: Store) -> None:
    event = cancelled(store, "process", "stay", kill=grace == HOUR, cancel_grace=grace)
    assert event.error == f"the process running this request {GIVEN_UP}"


def test_a_thread_is_given_up(store: Store) -> None:
    event = cancelled(store, "thread", "stay", kill=True)
    assert event.error == f"the thread running this request {GIVEN_UP}"


def test_the_error_of_a_result_names_who_has_cancelled(dsn: str) -> None:
    with Client(dsn) as client:
        handle = client.enqueue(act)
        assert client.requests.cancel(ids=[handle.request_id], actor="ann").num_requests == 1
        with pytest.raises(NoResult, match="it was cancelled by ann"):
            handle.result(timedelta(0))
