"""A password, and what is in payloads, come out of no output that is not made for them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from rowlease.dashboard import Dashboard
from rowlease.model import NewRequest
from rowlease.store import open_store
from tests.commands import PATIENCE, SOURCE, in_test

#: In a payload, in a header and in a result.
PRIVATE = "canary-of-a-payload"
#: If the server's own DSN has none.
PASSWORD = "canary-of-a-password"
TASKS = """
import psutil
from rowlease import current, task

@task
def keep(token: str) -> str:
    return token

@task(max_attempts=1)
def fail(token: str) -> None:
    raise RuntimeError("no reason")

@task
def look() -> list[list[str]]:
    worker = psutil.Process().parent()
    return [one.cmdline() for one in (worker, *worker.children(recursive=True))]
"""
#: Commands and pages that show no payload, header or result.
COMMANDS = (
    "depth --json", "queue list --json", "workers --json", "doctor --json", "top --once",
    "requests list", "requests explain 1", "requests explain 2", "requests errors --json",
    "requests running --json", "operations --json", "exporter --once", "schedule list --json",
    "loads list --json", "batch list --json", "migrate --check", "config show --all",
)  # fmt: skip
PAGES = (
    "/", "/queues", "/queue?name=default", "/workers", "/schedules", "/loads", "/history",
    "/health", "/audit", "/dead-letters", "/requests", "/requests?filter=kind:keep",
)  # fmt: skip
Sql = Callable[..., list[tuple[Any, ...]]]


class Ran:
    """A worker that has run tasks with secrets, and what it wrote."""

    def __init__(self, dsn: str, folder: Path, form: str) -> None:
        url = sa.make_url(dsn)
        if not url.password:
            url = url.set(password=PASSWORD)
        self.dsn, self.password = url.render_as_string(hide_password=False), str(url.password)
        (folder / "secret_tasks.py").write_text(TASKS)
        given = json.dumps({"token": PRIVATE})
        headers = json.dumps({"tenant": PRIVATE})
        with closing(open_store(self.dsn)) as store:
            new = [
                NewRequest(kind=kind, payload=given, headers=headers) for kind in ("keep", "fail")
            ]
            store.enqueue_many("default", [*new, NewRequest(kind="look")])
        self.done = subprocess.run(
            [sys.executable, "-m", "rowlease", "worker", "secret_tasks", "--burst",
             "--executor", "process", "--log-format", form, "--log-level", "debug"],
            cwd=folder,
            env={**os.environ, "ROWLEASE_DSN": self.dsn, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
        )  # fmt: skip


@pytest.fixture(params=["text", "json"])
def ran(request: pytest.FixtureRequest, dsn: str, tmp_path: Path) -> Ran:
    return Ran(dsn, tmp_path, request.param)


def test_no_secret_is_where_it_is_not_meant_to_be(ran: Ran, sql: Sql, tmp_path: Path) -> None:
    said = ran.done.stdout + ran.done.stderr
    assert ran.done.returncode == 0, said
    assert "keep" in said
    assert ran.password not in said
    assert PRIVATE not in said

    ((seen,),) = sql("select result::text from rowlease.requests where kind = 'look'")
    assert "child_program" in seen  # of the worker and its children
    assert ran.password not in seen

    run = in_test(tmp_path)
    for command in COMMANDS:
        done = run(*command.split(), ROWLEASE_DSN=ran.dsn)
        assert ran.password not in done.stdout + done.stderr, command
        assert PRIVATE not in done.stdout + done.stderr, command

    for path, page in asyncio.run(pages(ran.dsn)):
        assert ran.password not in page, path
        assert PRIVATE not in page, path

    tables = sql(
        "select c.oid::regclass::text from pg_class c where c.relkind in ('r', 'p', 'v')"
        " and c.relnamespace = 'rowlease'::regnamespace"
    )
    rows = {name: sql(f"select t::text from {name} t") for (name,) in tables}
    assert PRIVATE in str(rows["rowlease.queue_history"])
    assert [name for name, found in rows.items() if ran.password in str(found)] == []


async def pages(dsn: str) -> list[tuple[str, str]]:
    with closing(Dashboard(dsn, local_role="operator")) as dashboard:
        transport = httpx.ASGITransport(dashboard, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            got = [(path, await client.get(path)) for path in PAGES]
    assert {answer.status_code for _, answer in got} == {200}
    return [(path, answer.text) for path, answer in got]
