"""By default a worker claims from the queues of its tasks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rowlease.client.client import Client
from rowlease.errors import InvalidRequest
from rowlease.events import Event, Events, Finished, IdsAdvanced, QueueLeftOut, WorkerStarted
from rowlease.model import NewRequest
from rowlease.store import Store
from rowlease.tasks.task import Task
from rowlease.worker import Worker
from tests.acceptance.queue_tasks import fetch, ping, plain
from tests.acceptance.workers import working

Sql = Callable[..., list[tuple[Any, ...]]]


class Ran:
    """The summary and events of a worker in a burst."""

    def __init__(self, store: Store, tasks: list[Task[..., Any]], **settings: Any) -> None:
        seen: list[Event] = []
        events = Events()
        events.subscribe(seen.append)
        self.summary = Worker(store, tasks, burst=True, events=events, **settings).run()
        (self.queues,) = (event.queues for event in seen if isinstance(event, WorkerStarted))
        self.left_out = [event for event in seen if isinstance(event, QueueLeftOut)]


@pytest.mark.parametrize(
    ("tasks", "queues"),
    [
        ([plain], {"default"}),
        ([ping], {"web"}),
        ([ping, fetch], {"web"}),
        ([ping, plain], {"web", "default"}),
    ],
)
def test_a_worker_claims_from_the_queues_of_its_tasks(
    tasks: list[Task[..., Any]], queues: set[str], store: Store
) -> None:
    store.configure_queue("web")
    store.configure_queue("other")
    for each in tasks:
        store.enqueue_many(each.queue or "default", [NewRequest(kind=each.name)])
    ran = Ran(store, tasks)
    assert set(ran.queues) == queues
    assert (ran.summary.finished, ran.summary.claimed) == (len(tasks), len(tasks))
    assert ran.left_out == []


def test_each_of_its_queues_gets_a_share(store: Store, sql: Sql) -> None:
    store.configure_queue("web")
    for each in (ping, plain):
        store.enqueue_many(each.queue or "default", [NewRequest(kind=each.name)] * 40)
    Ran(store, [ping, plain], concurrency=2)
    ((before,),) = sql(
        "select count(*) from rowlease.queue_history where queue_name = 'default'"
        "   and locked_time < (select percentile_disc(0.5) within group (order by locked_time)"
        "                        from rowlease.queue_history where queue_name = 'web')"
    )
    assert 0 < before < 40, "one of them waited until the other was empty"


def test_a_worker_starts_no_more_requests_than_the_rate_and_sleeps_until_it_may(
    store: Store, sql: Sql
) -> None:
    store.configure_queue("web", rate="3/1s")
    store.enqueue_many("web", [NewRequest(kind="ping")] * 8)
    burst = Ran(store, [ping], concurrency=4)
    assert burst.summary.finished == 3, "a burst does not wait for the rate"
    finished: set[int] = set()

    def is_last(event: Finished) -> bool:
        finished.add(event.request.request_id)
        return len(finished) == 5

    with working(store, [ping], concurrency=4) as (_, emitted):
        emitted.first(Finished, is_last)
    starts = [time for (time,) in sql("select locked_time from rowlease.requests order by 1")]
    # The fourth start is at least a second after the first, and so on.
    assert min(later - start for start, later in zip(starts[:-3], starts[3:], strict=True)) >= (
        timedelta(seconds=1)
    )


def test_given_queues_win_and_those_left_out_are_logged(store: Store) -> None:
    store.configure_queue("web")
    store.enqueue_many("web", [NewRequest(kind="ping")])
    ran = Ran(store, [ping, fetch, plain], queues=["default"])
    assert (ran.queues, ran.summary.claimed) == (("default",), 0)
    assert ran.left_out == [QueueLeftOut("web", "ping, fetch")]
    assert Ran(store, [ping, plain], queues=["web"]).left_out == []  # plain names none


def test_a_missing_queue_is_an_error_before_anything_starts(store: Store) -> None:
    seen: list[Event] = []
    events = Events()
    events.subscribe(seen.append)
    with pytest.raises(
        InvalidRequest,
        match=r'^queue "web" does not exist; create it with `rowlease queue create web`, .*; '
        r"task ping has this queue: `rowlease worker --create-queues` creates it, and --queue",
    ) as raised:
        Worker(store, [plain, ping], events=events).run()
    assert not isinstance(raised.value.__cause__, InvalidRequest)  # its text is in the message
    with pytest.raises(InvalidRequest, match=r'^queue "other" does not exist; create it with'):
        Worker(store, [plain], ["default", "other"], events=events).run()
    assert seen == []


def test_the_command_claims_from_the_queues_of_its_tasks(dsn: str, store: Store) -> None:
    store.configure_queue("web")
    with Client(dsn) as client:
        client.enqueue(ping)
        client.enqueue(plain)
    command = [sys.executable, "-m", "rowlease", "worker", f"{ping.__module__}:ping", "--burst"]

    def work(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, "--dsn", dsn, *more], capture_output=True, text=True, timeout=60
        )

    left_out = work("--queue", "default")
    assert "WARNING queue left out queue=web tasks=ping" in left_out.stderr
    ran = work()
    assert ran.stdout.startswith("1 finished in "), ran.stderr
    assert "queue left out" not in ran.stderr


def test_a_worker_that_starts_advances_a_sequence_that_is_behind(store: Store, sql: Sql) -> None:
    store.enqueue_many("default", [NewRequest(kind="ping", payload="{}")] * 3)
    sql("select setval('rowlease.queue_request_id_seq', 1, false)")
    seen: list[Event] = []
    events = Events()
    events.subscribe(seen.append, IdsAdvanced)
    Worker(store, [ping], executor="thread", burst=True, queues=["default"], events=events).run()
    assert seen == [IdsAdvanced("rowlease.queue_request_id_seq", 1, 1_000_003)]
