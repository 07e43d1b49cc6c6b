"""`on_dead_letter` runs once for each dead letter, also where the task's process died."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from rowlease import Client, Worker, task
from rowlease.errors import ConfigError, InvalidRequest
from rowlease.events import Events
from rowlease.store import Store
from rowlease.tasks.task import Registry
from rowlease.testing import drain
from tests.acceptance.dead_letter_tasks import collect, die, fall, report

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
            f"{taker} {dying.name} {handle.request_id}": how
            for how in WAYS
            for dying, taker in ((die, "report"), (fall, "collect"))
            for handle in client.enqueue_many([dying.request(how)] * TIMES)
        }
    Worker(store, [die, fall, report, collect], burst=True, concurrency=2, events=Events()).run()
    reports = sql("select concat(kind, ' ', result #>> '{}') from rowlease.queue_history")
    assert len(reports) == len(died)
    for (text,) in reports:
        said, _, error = text.partition(": ")
        assert WAYS[died.pop(said)] in error


def test_a_test_sees_it_too(store: Store) -> None:
    with Client(store.dsn) as client:
        client.enqueue(die, "failure")
        ran = drain(client, [die, report], reraise=False)
        assert [each.kind for each in ran] == ["die", "report"]
        assert ran[1].result == f"die {ran[0].request.request_id}: ValueError: no"


def test_a_wrong_task_for_dead_letters_is_refused() -> None:
    wrong: Any = print
    wrong_flag: Any = 7
    with pytest.raises(ConfigError, match=r"on_dead_letter is .*; it must be a task"):
        task(on_dead_letter=wrong)(test_a_test_sees_it_too)
    with pytest.raises(ConfigError, match="it must have no on_dead_letter itself"):
        task(on_dead_letter=die)(test_a_test_sees_it_too)

    @task
    def greedy(request_id: int) -> None: ...

    @task(on_dead_letter=greedy)
    def bad() -> None: ...

    with pytest.raises(ConfigError, match=r"greedy takes .*called with other arguments: .*kind"):
        Worker("postgresql://nowhere", [bad], executor="thread")
    with pytest.raises(ConfigError, match="takes_dead_letters is 7; it must be True or False"):
        task(takes_dead_letters=wrong_flag)(test_a_test_sees_it_too)
    with pytest.raises(ConfigError, match="a task that takes dead letters must have none"):
        task(takes_dead_letters=True, on_dead_letter=report)(test_a_test_sees_it_too)
    also = task("also", takes_dead_letters=True)(report.function)
    with pytest.raises(ConfigError, match="the tasks collect and also have takes_dead_letters"):
        Worker("postgresql://nowhere", [collect, also], executor="thread")


def test_a_worker_whose_dead_letters_would_go_to_no_queue_does_not_start(store: Store) -> None:
    alarm = task("alarm", queue="gone")(report.function)
    failing = task("failing", on_dead_letter=alarm)(fall.function)
    why = 'queue "gone" does not exist; .*; task alarm, which takes dead letters, has this queue'
    for queues in (None, ["default"]):
        with pytest.raises(InvalidRequest, match=why):
            Worker(store, [failing], queues, burst=True, executor="thread").run()


def test_one_task_takes_the_dead_letters_of_all_others() -> None:
    assert Registry([die, fall, report, collect]).dead_letter_tasks() == {
        "die": ("default", "report"),
        "fall": ("default", "collect"),
        "report": None,
        "collect": None,
    }
