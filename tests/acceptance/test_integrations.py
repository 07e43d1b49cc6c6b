"""The integrations, run with the real frameworks.

Airflow needs another interpreter: ROWLEASE_TEST_AIRFLOW_PYTHON names one that has Airflow 3 and
rowlease installed. Those of Django are in test_django.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import fastapi
import httpx
import pytest

from rowlease import AsyncClient, Client, Handle, task
from rowlease.integrations.fastapi import Rowlease
from rowlease.model import Outcome
from rowlease.testing import drain_async

Sql = Callable[..., list[tuple[Any, ...]]]


def run(python: str, folder: Path, *arguments: str, **environment: str) -> str:
    """Run Python in a folder; what it prints."""
    ran = subprocess.run(
        [python, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


# -- FastAPI ---------------------------------------------------------------------------------------


@task
async def double(number: int) -> int:
    return 2 * number


def test_an_application_opens_the_client_and_endpoints_get_it(dsn: str) -> None:
    rowlease = Rowlease(dsn)
    app = fastapi.FastAPI(lifespan=rowlease.lifespan)

    # The parameter has a default, because FastAPI cannot resolve an annotation with a local name.
    @app.post("/double/{number}")
    async def ask(number: int, client: AsyncClient = fastapi.Depends(rowlease)) -> int:  # noqa: B008
        handle = await client.enqueue(double, number)
        await drain_async(client, [double])
        return await handle.result()

    async def main() -> None:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://app") as browser,
        ):
            answer = await browser.post("/double/21")
            assert (answer.status_code, answer.json()) == (200, 42)

    asyncio.run(main())


# -- Airflow ---------------------------------------------------------------------------------------

DAG = """
    import asyncio, json, sys, threading
    from types import SimpleNamespace
    from airflow.sdk.exceptions import TaskDeferred
    from airflow.exceptions import AirflowException
    from rowlease import Client, Worker, task
    from rowlease.integrations.airflow import EnqueueOperator, ResultTrigger

    @task
    def double(number: int) -> int:
        if number < 0:
            raise ValueError("too small")
        return 2 * number

    def context(name):
        instance = SimpleNamespace(dag_id="d", run_id="r", task_id=name, map_index=-1)
        return {"ti": instance}

    def work():
        with Client() as client:
            Worker(client.store, [double], executor="thread", burst=True).run()

    def operator(name, number, **options):
        return EnqueueOperator(
            task_id=name, kind="double", payload={"number": number}, max_attempts=1, **options
        )

    async def first(trigger):
        async for event in trigger.run():
            return event.payload

    enqueued = operator("once", 1, wait=False)
    ids = [enqueued.execute(context("once")) for _ in range(2)]
    assert ids[0] == ids[1], ids  # a second try finds the first one's request

    deferred = operator("later", 4, deferrable=True)
    try:
        deferred.execute(context("later"))
    except TaskDeferred as stop:
        path, arguments = stop.trigger.serialize()
        assert path == "rowlease.integrations.airflow.ResultTrigger", path
        trigger = ResultTrigger(**arguments)
    bad = operator("bad", -1, deferrable=True)
    try:
        bad.execute(context("bad"))
    except TaskDeferred as stop:
        bad_trigger = stop.trigger

    threading.Timer(0.1, work).start()
    event = asyncio.run(first(trigger))
    assert deferred.execute_complete({}, event) == 8, event
    event = asyncio.run(first(bad_trigger))
    try:
        bad.execute_complete({}, event)
    except AirflowException as error:
        assert "too small" in str(error), error
    else:
        raise AssertionError(event)
    waiting = operator("wait", 21)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(waiting.execute(context("wait"))))
    thread.start()
    while thread.is_alive():
        work()
    assert answers == [42], answers
    killed = operator("killed", 1, wait=False)
    killed.execute(context("killed"))
    killed.on_kill()
    with Client() as client:
        print(client.get(killed._request_id).status())
"""


def test_airflows_operator_enqueues_once_and_waits(tmp_path: Path, dsn: str, sql: Sql) -> None:
    python = os.environ.get("ROWLEASE_TEST_AIRFLOW_PYTHON")
    if not python:
        pytest.skip("ROWLEASE_TEST_AIRFLOW_PYTHON names no Python with Airflow 3")
    (tmp_path / "program.py").write_text(dedent(DAG))
    environment = {"ROWLEASE_DSN": dsn, "AIRFLOW_HOME": str(tmp_path / "airflow")}
    printed = run(python, tmp_path, "program.py", **environment)
    assert printed.splitlines()[-1] == "Cancelled"
    assert sql("select dedup_key from rowlease.requests order by request_id limit 1") == [
        ("airflow/d/r/once/-1",)
    ]


class Operator:
    """Stands for Airflow's BaseOperator, where Airflow is not installed."""

    log = logging.getLogger("airflow")

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id


def test_airflows_operator_waits_for_no_request_that_has_ended(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A duplicate has no id if the first request ends during the call."""
    contents: dict[str, dict[str, Any]] = {
        "sdk": {"BaseOperator": Operator},
        "triggers.base": {"BaseTrigger": object},
        "exceptions": {"AirflowException": Exception},
    }
    for name, names in contents.items():
        monkeypatch.setitem(sys.modules, f"airflow.{name}", SimpleNamespace(**names))
    for name in ("airflow", "airflow.triggers"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.delitem(sys.modules, "rowlease.integrations.airflow", raising=False)
    operator = import_module("rowlease.integrations.airflow").EnqueueOperator
    monkeypatch.delitem(sys.modules, "rowlease.integrations.airflow")
    enqueue = Client.enqueue_untyped
    answers = [Outcome.DUPLICATE]

    def enqueue_after_a_race(client: Client, *given: Any, **options: Any) -> Handle[Any]:
        if answers:
            return Handle(0, answers.pop(), None, client.store, lambda result: result)
        return enqueue(client, *given, **options)

    monkeypatch.setattr(Client, "enqueue_untyped", enqueue_after_a_race)
    monkeypatch.setenv("ROWLEASE_DSN", dsn)
    made = operator(task_id="once", kind="double", dedup_key="once", wait=False)
    assert (made.execute({}), answers) == (1, [])


# -- the page --------------------------------------------------------------------------------------


def test_the_programs_of_the_page_run(repository: Path, tmp_path: Path, dsn: str, sql: Sql) -> None:
    page = (repository / "docs" / "integrations.md").read_text()
    web, *_of_django, images, flights, events = re.findall(
        r"^```python\n(.*?)^```", page, re.M | re.S
    )
    compile(flights, "flights.py", "exec")  # it needs a provider of Airflow
    for name, text in {"web": web, "events": events, "images": images}.items():
        (tmp_path / f"{name}.py").write_text(text)
    ask = """
        from fastapi.testclient import TestClient
        from web import app
        with TestClient(app) as browser:
            assert browser.post("/images/a.png").json() == 1
    """
    insert = """
        import os
        import sqlalchemy as sa
        from sqlalchemy.orm import Session
        from events import Base, Image, client
        engine = sa.create_engine(os.environ["ROWLEASE_DSN"].replace(":", "+psycopg:", 1))
        Base.metadata.create_all(engine)
        with client:
            for path, commits in (("b.png", True), ("c.png", False)):
                with Session(engine) as session:
                    session.add(Image(path=path))
                    session.flush()
                    session.commit() if commits else session.rollback()
    """
    for program in (ask, insert):
        run(sys.executable, tmp_path, "-c", dedent(program), ROWLEASE_DSN=dsn)
    assert sql("select kind, payload ->> 'path' from rowlease.queue order by request_id") == [
        ("resize", "a.png"),
        ("index", "b.png"),
    ]
    if python := os.environ.get("ROWLEASE_TEST_AIRFLOW_PYTHON"):
        home = str(tmp_path / "airflow")
        code = "import images; d = images.images(); assert list(d.task_ids) == ['resize']"
        run(python, tmp_path, "-c", code, AIRFLOW_HOME=home)
