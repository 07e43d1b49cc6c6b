"""The command of docs/workers.md with which a worker restarts after a change of its tasks."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rowlease.store import Store
from tests.commands import environment_of
from tests.waiting import until

Sql = Callable[..., list[tuple[Any, ...]]]


def test_a_worker_restarts_after_a_change_of_its_tasks(
    dsn: str, store: Store, sql: Sql, repository: Path, tmp_path: Path
) -> None:
    page = (repository / "docs" / "workers.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^watchfiles .*", page, re.M)
    tasks = tmp_path / "app" / "tasks.py"
    tasks.parent.mkdir()
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def release(version: str) -> None:
        tasks.write_text(f"from rowlease import task\n\n@task\ndef tell(): return {version!r}\n")

    def workers() -> list[str]:
        return [one.worker_id for one in store.list_workers()]

    release("first")
    with subprocess.Popen(
        shlex.split(command),
        cwd=tmp_path,
        env=environment_of(tmp_path, {"ROWLEASE_DSN": dsn, "PATH": programs}),
        start_new_session=True,
    ) as process:
        try:
            was = until(workers)
            release("second")
            until(lambda: workers() not in ([], was))
            sql("select rowlease.enqueue('default', 'tell')")
            ran = until(lambda: sql("select result #>> '{}' from rowlease.queue_history"))
            assert ran == [("second",)]
        finally:
            os.killpg(process.pid, signal.SIGTERM)
