"""The settings of a worker: wrong ones are refused, others reach the worker unchanged."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_type_hints

import pytest

from rowlease.client.client import Client
from rowlease.errors import ConfigError
from rowlease.tasks.task import task
from rowlease.worker import Worker
from rowlease.worker.settings import WorkerKeywords, WorkerSettings

OTHERS = WorkerSettings(
    queues={"a": 2},
    concurrency=3,
    executor="process",
    prefetch=0,
    lease=timedelta(seconds=9),
    consumer_priority=4,
    max_tasks_per_child=7,
    max_memory_per_child=70,
    burst=True,
    grace=timedelta(0),
    cancel_grace=timedelta(0),
    poll=timedelta(seconds=1),
    processes=2,
)


@task
def nothing() -> None: ...


def test_a_client_is_no_store_and_the_error_says_what_is() -> None:
    for wrong in (Client(), None):
        with pytest.raises(ConfigError, match=r"it must be the store of .*, or a DSN"):
            Worker(wrong, [nothing])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"lease": timedelta(milliseconds=99)}, "lease is 0:00:00.099000; it must be 100 ms to"),
        ({"lease": timedelta(days=1, seconds=1)}, "lease is 1 day, 0:00:01; it must be 100 ms to"),
        ({"processes": 0}, "processes is 0; it must be 1 or more"),
        ({"concurrency": 0}, "concurrency is 0; it must be 1 or more"),
        ({"max_tasks_per_child": 0}, "max_tasks_per_child is 0; it must be 1 or more"),
        (
            {"max_tasks_per_child": 5, "executor": "thread"},
            "max_tasks_per_child is 5, but the executor 'thread' has no child processes",
        ),
        ({"max_memory_per_child": 0}, "max_memory_per_child is 0; it must be 1 or more"),
        (
            {"max_memory_per_child": 5, "executor": "thread"},
            "max_memory_per_child is 5, but the executor 'thread' has no child processes",
        ),
        ({"prefetch": -1}, "prefetch is -1; it must be 0 or more"),
        ({"executor": "greenlet"}, "executor is 'greenlet'; it must be one of process, thread"),
        ({"queues": []}, "queues is []; it must be a list of different names"),
    ],
)
def test_wrong_settings_are_refused(settings: Any, refusal: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Worker("", nothing, **settings)
    assert str(refused.value).startswith(refusal)


def test_the_keywords_of_a_worker_are_its_settings() -> None:
    hints = get_type_hints(WorkerSettings)
    assert list(hints) == ["queues", "concurrency", *get_type_hints(WorkerKeywords)]
    assert hints == {**hints, **get_type_hints(WorkerKeywords)}


@pytest.mark.parametrize("settings", [WorkerSettings(), OTHERS], ids=["defaults", "others"])
def test_a_worker_has_the_settings_that_it_was_made_with(settings: WorkerSettings) -> None:
    assert Worker.of("", nothing, settings)._settings == settings


def test_every_setting_has_another_value_in_this_test() -> None:
    plain = vars(WorkerSettings())
    assert not [name for name, value in vars(OTHERS).items() if value == plain[name]]
