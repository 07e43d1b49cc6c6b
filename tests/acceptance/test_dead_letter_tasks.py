"""`on_dead_letter` runs once for each dead letter, also where the task's process died."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from rowlease import Client, Worker, task
from rowlease.errors import ConfigError
from rowlease.events import Events
from rowlease.store import Store
from rowlease.testing import drain
from tests.acceptance.dead_letter_tasks import die, report

Sql = Callable[..., list[tuple[Any, ...]]]
#: How many requests die in each way; `make test-long` has more.
TIMES = int(os.environ.get("ROWLEASE_STRESS_DEATHS", "2"))
WAYS = {
    "crash": "exited with code 3",
    "kill": "SIGKILL",
    "time limit": "ran past its time limit",
    "failure": "ValueError: no",
}


@pytest.mark.timeout(1800)
def test_each_way_to_die_is_reported_once(store: Store, sql: Sql) -> None:
    with Client(store.dsn) as client:
        died = {
            handle.request_id: how
            for how in WAYS
            for handle in client.enqueue_many([die.request(how)] * TIMES)
        }
    Worker(store, [die, report], burst=True, concurrency=2, events=Events()).run()
    reports = sql("select result #>> '{}' from rowlease.queue_history where kind = 'report'")
    assert len(reports) == len(died)
    for (text,) in reports:
        said, _, error = text.partition(": ")
        how = died.pop(int(said.removeprefix("die ")))
        assert WAYS[how] in error


def test_a_test_sees_it_too(store: Store) -> None:
    with Client(store.dsn) as client:
        client.enqueue(die, "failure")
        ran = drain(client, [die, report], reraise=False)
        assert [each.kind for each in ran] == ["die", "report"]
        assert ran[1].result == f"die {ran[0].request.request_id}: ValueError: no"


def test_a_wrong_task_for_dead_letters_is_refused() -> None:
    wrong: Any = print
    with pytest.raises(ConfigError, match=r"on_dead_letter is .*; it must be a task"):
        task(on_dead_letter=wrong)(test_a_test_sees_it_too)
    with pytest.raises(ConfigError, match="it must have no on_dead_letter itself"):
        task(on_dead_letter=die)(test_a_test_sees_it_too)

    @task
    def greedy(request_id: int) -> None: ...

    @task(on_dead_letter=greedy)
    def bad() -> None: ...

    with pytest.raises(ConfigError, match=r"on_dead_letter .*called with other arguments: .*kind"):
        Worker("postgresql://nowhere", [bad], executor="thread")
