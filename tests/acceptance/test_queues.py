"""`client.queues` and queues that are declared in code."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from rowlease import Client, Queue
from rowlease.client.queues import Change
from rowlease.errors import ConfigError, InvalidRequest
from rowlease.model import LeasedRequest, Outcome
from rowlease.tasks.loading import load_queues, load_tasks


def claimed(client: Client, queue: str) -> list[LeasedRequest]:
    return client.store.dequeue("one", [queue], 10).requests


def test_a_module_may_not_declare_a_queue_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "twice.py").write_text(
        "from rowlease import Queue\na = Queue('x')\nb = Queue('x', capacity=1)\n"
    )
    (tmp_path / "same.py").write_text(
        "from rowlease import Queue\na = Queue('x')\nb = Queue('x')\n"
    )
    (tmp_path / "none.py").write_text("a = 1\n")
    with pytest.raises(ConfigError, match="twice: the queue x is declared twice"):
        load_queues("twice")
    assert load_queues("same:whatever") == [Queue("x")]
    with pytest.raises(ConfigError, match="there is neither a queue nor a task in none"):
        load_queues("none")


def test_a_task_brings_the_queue_that_it_is_declared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dsn: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "of_a_task.py").write_text(
        "from rowlease import Queue, task\n"
        "@task(queue=Queue('images', capacity=7))\n"
        "def resize(): ...\n"
        "@task\n"
        "def plain(): ...\n"
    )
    declared = load_queues("of_a_task")
    assert [(str(queue), queue.settings) for queue in declared] == [
        ("images", {"capacity": 7}),
        ("default", {}),
    ]
    (resize,) = (one for one in load_tasks("of_a_task").values() if one.queue)
    with Client(dsn) as client:
        changes = [Change("images", None, None, None)]
        assert client.queues.apply(declared, dry_run=True) == changes
        assert client.queues.apply(declared, dry_run=True) == changes
        assert client.queues.create_missing(declared) == changes
        client.enqueue(resize)
        assert [(row.queue_name, row.pending) for row in client.store.depth()] == [("images", 1)]
        assert claimed(client, resize.queue or "")[0].queue_name == "images"
        changes = [Change("images", "capacity", 7, 8)]
        assert client.queues.create_missing([Queue("images", capacity=8)]) == changes
        more = [Queue("images", capacity=8), Queue("web")]
        assert client.queues.create_missing(more) == [*changes, Change("web", None, None, None)]
        assert client.queues.set("images", dry_run=True, capacity=8) == changes
        assert client.queues.set("images", capacity=8) == changes


def test_a_declaration_refuses_settings_that_no_queue_has() -> None:
    with pytest.raises(
        ConfigError, match=r"queue x: there is no setting 'size'; the settings are: max_"
    ):
        Queue("x", size=1)  # type: ignore[call-arg]
    assert (repr(Queue("x")), Queue("x", capacity=None).settings) == ("'x'", {"capacity": None})


def test_the_client_has_the_same_verbs(dsn: str) -> None:
    with Client(dsn) as client:
        queues = client.queues
        assert queues.create("images", capacity=1000) is Outcome.OK
        assert queues.create("images", capacity=1000) is Outcome.REPEAT
        with pytest.raises(InvalidRequest, match="its capacity is 1000; to change it, use"):
            queues.create("images", capacity=2)
        assert queues.set("images", max_in_flight=1) == [Change("images", "max_in_flight", None, 1)]
        for _ in range(3):
            client.enqueue_untyped("resize", queue="images")
        held = claimed(client, "images")
        shown = queues.show("images")
        assert (shown.pending, shown.processing, shown.failed) == (2, 1, 0)
        assert shown.settings["capacity"] == 1000
        assert [each.queue_name for each in queues.list()] == ["default", "images"]
        assert queues.list()[1]._replace(oldest=shown.oldest) == shown

        assert queues.drain("images", timeout=timedelta(0)) == 1
        client.store.complete(held)
        assert queues.drain("images") == 0
        assert claimed(client, "images") == []  # it is paused
        queues.resume("images")
        assert queues.delete("images", purge=True, dry_run=True) == 2
        assert queues.delete("images", purge=True) == 2
        assert queues.apply([Queue("default")]) == []
        assert queues.apply([Queue("web", capacity=1)]) == [Change("web", None, None, None)]
        with pytest.raises(InvalidRequest, match=r'^queue "images" does not exist'):
            queues.delete("images", purge=True)


def test_showing_one_queue_reads_no_other(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(dsn) as client:
        for name in ("images", "mail"):
            client.queues.create(name)
        show = Mock(wraps=client.store.show_queue)
        monkeypatch.setattr(client.store, "show_queue", show)
        assert client.queues.show("mail").queue_name == "mail"
        show.assert_called_once_with("mail")
        with pytest.raises(InvalidRequest, match=r'^queue "none" does not exist; create it with'):
            client.queues.show("none")


def test_a_queue_keeps_its_requests_if_it_cannot_be_deleted(dsn: str) -> None:
    with Client(dsn) as client:
        client.queues.create("mail")
        client.store.put_schedule("nightly", "0 3 * * *", "k", queue="mail")
        client.enqueue_untyped("k", queue="mail")
        with pytest.raises(InvalidRequest, match='the schedule "nightly" enqueues into it'):
            client.queues.delete("mail", purge=True)
        assert client.queues.show("mail").pending == 1
