"""`rowlease queue` and `rowlease worker --create-queues`, as an operator calls them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rowlease import Client
from rowlease.model import LeasedRequest
from tests.commands import Run, in_process, in_test

Sql = Callable[..., list[tuple[Any, ...]]]

TASKS = """
from rowlease import Queue, task

images = Queue("images", capacity=1000, policy="weighted", policy_weights=[1, 2])

@task(queue=images)
def resize(image: str) -> str:
    return image

@task(queue="web")
async def ping(host: str) -> str:
    return host
"""


@pytest.fixture
def rowlease(dsn: str, tmp_path: Path) -> Run:
    return partial(in_test(tmp_path), ROWLEASE_DSN=dsn)


@pytest.fixture
def queue(rowlease: Run) -> Run:
    return partial(rowlease, "queue")


def printed(run: Run, *arguments: str) -> str:
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return str(done.stdout).strip()


def claimed(client: Client, queue: str) -> list[LeasedRequest]:
    return client.store.dequeue("one", [queue], 10).requests


# -- the command line ------------------------------------------------------------------------------


def test_a_queue_s_life(queue: Run, sql: Sql) -> None:
    assert printed(queue, "create", "images", "capacity=1000", "policy=aging") == (
        "queue images: created"
    )
    assert printed(queue, "create", "images", "capacity=1000") == "queue images: exists already"
    assert printed(queue, "set", "images", "capacity=none", "max_attempts=8", "--dry-run") == (
        "would change queue images: capacity 1000 -> none\n"
        "would change queue images: max_attempts 5 -> 8"
    )
    assert printed(queue, "set", "images", "capacity=none", "keep_history=false") == (
        "queue images: capacity 1000 -> none\nqueue images: keep_history true -> false"
    )
    assert printed(queue, "set", "images", "capacity=none") == "queue images: unchanged"
    assert printed(queue, "set", "images", "policy_weights=[1, 2.5]") == (
        "queue images: policy_weights none -> [1,2.5]"
    )
    found = "select capacity, max_attempts, keep_history, policy, policy_weights"
    assert sql(f"{found} from rowlease.queue_settings where queue_name = 'images'") == [
        (None, 5, False, "aging", [1, 2.5])
    ]

    sql("select rowlease.enqueue('images', 'resize'), rowlease.enqueue('images', 'resize')")
    assert printed(queue, "pause", "images") == "queue images: paused"
    header, _, images = printed(queue, "list").splitlines()
    assert header.split() == [
        "queue", "state", "pending", "scheduled", "processing", "failed", "oldest",
    ]  # fmt: skip
    assert images.split()[:6] == ["images", "paused", "2", "0", "0", "0"]
    lines = dict(line.split(maxsplit=1) for line in printed(queue, "show", "images").splitlines())
    assert (lines["paused"], lines["pending"], lines["policy"]) == ("true", "2", "aging")
    assert (lines["capacity"], lines["policy_weights"]) == ("none", "[1,2.5]")
    assert printed(queue, "resume", "images") == "queue images: resumed"
    assert printed(queue, "drain", "images") == "queue images: paused; no request is running"

    assert "2 waiting" in queue("delete", "images").stderr
    assert printed(queue, "delete", "images", "--purge", "--dry-run") == (
        "would delete queue images and 2 requests"
    )
    assert sql("select count(*) from rowlease.queue") == [(2,)]
    assert printed(queue, "delete", "images", "--purge") == ("queue images and 2 requests: deleted")
    assert sql("select queue_name from rowlease.queue_settings") == [("default",)]


def test_what_programs_read(queue: Run) -> None:
    def data(*arguments: str) -> Any:
        return json.loads(printed(queue, *arguments, "--json"))

    assert data("create", "a") == {"queue_name": "a", "outcome": "ok"}
    assert data("create", "a")["outcome"] == "repeat"
    changes = [{"queue_name": "a", "setting": "capacity", "was": None, "now": 5}]
    assert data("set", "a", "capacity=5") == {"changes": changes, "dry_run": False}
    shown = data("show", "a")
    assert (shown["queue_name"], shown["oldest_seconds"]) == ("a", None)
    assert shown["settings"]["capacity"] == 5
    assert [row["queue_name"] for row in data("list")] == ["a", "default"]
    assert data("pause", "a") == {"queue_name": "a", "paused": True}
    assert data("resume", "a") == {"queue_name": "a", "paused": False}
    assert data("drain", "a") == {"queue_name": "a", "paused": True, "processing": 0}
    deleted = {"queue_name": "a", "num_purged": 0, "dry_run": True}
    assert data("delete", "a", "--dry-run") == deleted
    assert data("delete", "a") == {**deleted, "dry_run": False}


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("show", "b"), 2, 'queue "b" does not exist; create it with `rowlease queue create b`'),
        (("set", "b", "capacity=1"), 2, 'queue "b" does not exist; create it with'),
        (("delete", "b"), 2, 'queue "b" does not exist; create it with'),
        (("drain", "b"), 2, 'queue "b" does not exist; create it with'),
        (("set", "default"), 2, "give at least one setting, such as capacity=1000"),
        (("set", "default", "capacity"), 2, "'capacity' has no value; write capacity=VALUE"),
        (("set", "default", "size=1"), 2, "there is no setting 'size'; the settings are: max_"),
        (("set", "default", "paused=true"), 2, "paused cannot be declared as a setting; use pause"),
        (("set", "default", "capacity=many"), 2, 'a setting of queue "default" is out of range'),
        (("create", "default", "capacity=7"), 2, "its capacity is none; to change it, use `row"),
        (("apply", "nowhere"), 2, "there is no module 'nowhere'"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_sentence(
    queue: Run, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    done = queue(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_drain_that_runs_out_of_time_exits_with_1(queue: Run, dsn: str) -> None:
    with Client(dsn) as client:
        client.enqueue_untyped("resize")
        held = claimed(client, "default")
        done = queue("drain", "default", "--timeout", "200ms")
        assert (done.returncode, done.stdout) == (
            1, "queue default: paused; 1 request still running\n",
        )  # fmt: skip
        client.store.complete(held)
    assert queue("drain", "default", "--timeout", "0s").returncode == 0


# -- declared in code ------------------------------------------------------------------------------


def test_declared_queues_are_applied_and_compared(queue: Run, tmp_path: Path, sql: Sql) -> None:
    (tmp_path / "app.py").write_text(TASKS)
    would = "would create queue images\nwould create queue web"
    assert printed(queue, "apply", "app", "--dry-run") == would
    assert printed(queue, "apply", "app") == "queue images: created\nqueue web: created"
    assert printed(queue, "apply", "app") == "the queues are as the code declares them"
    sql("select rowlease.configure_queue('images', '{\"capacity\": 5, \"max_attempts\": 9}')")
    assert printed(queue, "apply", "app") == "queue images: capacity 5 -> 1000"
    found = "select queue_name, capacity, max_attempts from rowlease.queue_settings order by 1"
    assert sql(found) == [("default", None, 5), ("images", 1000, 9), ("web", None, 5)]


def test_a_worker_creates_its_queues_if_asked_to(tmp_path: Path, sql: Sql, dsn: str) -> None:
    (tmp_path / "app.py").write_text(TASKS)
    rowlease = partial(in_process(tmp_path), ROWLEASE_DSN=dsn)
    work = ("worker", "app", "--burst", "--executor", "thread")
    assert "does not exist; create it with" in rowlease(*work).stderr
    done = rowlease(*work, "--create-queues")
    assert done.returncode == 0, done.stderr
    assert "queue images: created" in done.stderr
    sql("select rowlease.configure_queue('images', '{\"capacity\": 5}')")
    again = rowlease(*work, "--create-queues").stderr
    assert "queue images: capacity 5 -> 1000 in the code; to set it, use `rowlease" in again
    assert sql("select capacity from rowlease.queue_settings where queue_name = 'images'") == [(5,)]
