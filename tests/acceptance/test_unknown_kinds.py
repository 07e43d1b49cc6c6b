"""A rolling deploy: workers of two releases take from one queue, and only one knows a new task."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from rowlease.doctor import examine
from rowlease.events import Failed, Finished, KindUnknown, WorkerIdle
from rowlease.model import NewRequest
from rowlease.store import Store
from tests.acceptance.tasks import new_task, old_task
from tests.acceptance.workers import line, statuses, worker_process, working
from tests.waiting import until

Sql = Callable[..., list[tuple[Any, ...]]]
ATTEMPTS = "select distinct num_attempts, num_crashes from rowlease.requests"


def put(store: Store, kind: str, count: int) -> None:
    store.enqueue_many("default", [NewRequest(kind=kind, max_attempts=1)] * count)


def test_a_request_of_a_new_release_is_run_by_it_and_never_a_dead_letter(
    store: Store, sql: Sql
) -> None:
    with working(store, [old_task]) as (_, old):
        old.first(WorkerIdle)
        put(store, "new_task", 4)
        assert old.first(KindUnknown) == KindUnknown("default", "new_task", dead=False)
        with working(store, [old_task, new_task], concurrency=4) as (_, new):
            put(store, "old_task", 4)
            for _ in range(4):
                new.first(Finished, lambda event: event.request.kind == "new_task")
    for emitted in (old, new):
        assert [event for event in emitted.all if isinstance(event, KindUnknown | Failed)] == []
    assert sql("select count(*) from rowlease.queue where status = 'Failed'") == [(0,)]
    assert sql(ATTEMPTS + " where kind = 'new_task'") == [(1, 0)]
    assert statuses(sql)["Complete"] >= 4


def test_a_free_worker_takes_at_once_what_another_declines(store: Store, sql: Sql) -> None:
    with working(store, [old_task]) as (_, old), working(store, [new_task]) as (_, new):
        old.first(WorkerIdle)
        new.first(WorkerIdle)
        for _ in range(60):
            put(store, "new_task", 1)
            new.first(Finished)
        old.first(KindUnknown)
    waits = sql("select max(locked_time - due_time) from rowlease.queue_history")
    assert waits[0][0] < timedelta(seconds=20)


def test_a_kind_that_no_worker_knows_for_long_becomes_a_dead_letter(store: Store, sql: Sql) -> None:
    store.configure_queue("default", unknown_kind_seconds=1)
    with working(store, [old_task]) as (_, emitted):
        put(store, "nobodys", 3)
        emitted.first(KindUnknown, lambda event: event.dead)
    dead = sql(
        "select distinct num_attempts, last_error from rowlease.queue where status = 'Failed'"
    )
    assert dead == [(0, 'for 1 s no live worker of queue "default" has known kind "nobodys"')]


def test_a_worker_and_the_doctor_name_two_programs_with_one_kind(
    dsn: str, store: Store, tmp_path: Path
) -> None:
    shop, blog = tmp_path / "shop", tmp_path / "blog"
    for folder, parameters in ((shop, "image, width"), (blog, "path")):
        folder.mkdir()
        task = f"from rowlease import task\n\n@task\ndef resize({parameters}): ...\n"
        (folder / "tasks.py").write_text(task)
    settings = {"executor": "thread", "concurrency": 1}
    with worker_process(dsn, "tasks", before=f"sys.path.insert(0, {str(shop)!r})", **settings) as a:
        line(a, "worker idle")
        until(store.list_workers)
        with worker_process(
            dsn, "tasks", before=f"sys.path.insert(0, {str(blog)!r})", **settings
        ) as b:
            told = line(b, "kind shared")
        assert "kind=resize own=tasks.resize(path) task='tasks.resize(image, width)'" in told
        (found,) = [one for one in examine(dsn) if one.finding == "shared_kind"]
        assert "tasks.resize(image, width) of the worker" in found.message
        assert "tasks.resize(path) of the worker" in found.message
