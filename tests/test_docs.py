"""What the pages say is true: the quick start runs, and nothing a user can set is left out."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import httpx
import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from starlette.applications import Starlette

import rowlease
import rowlease.errors
import rowlease.events
from rowlease import AsyncClient, Client
from rowlease.cli import cli
from rowlease.errors import InvalidRequest
from rowlease.events import Events
from rowlease.model import Outcome
from rowlease.store import Store
from rowlease.store.routines import PUBLIC, load_routines
from rowlease.tasks.requests import REQUEST_OPTIONS
from rowlease.testing import drain, frozen
from rowlease.worker import Worker
from tests.waiting import until


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


def first_cells(page: Path) -> set[str]:
    """The words in the first cells of a page's tables."""
    cells = re.findall(r"^\| (.*?) \|", page.read_text(), re.M)
    return {word for cell in cells for word in re.findall(r"\w+", cell)}


def run(dsn: str, arguments: str) -> str:
    """Run the command line in this process; what it prints."""
    ran = CliRunner().invoke(cli, shlex.split(arguments), env={"ROWLEASE_DSN": dsn})
    assert ran.exit_code == 0, (arguments, ran.output, ran.exception)
    return ran.output


def program(folder: Path, dsn: str, *arguments: str, source: Path | None = None) -> str:
    """Run Python in a folder, on a database; what it prints."""
    source = source or Path(rowlease.__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "ROWLEASE_DSN": dsn, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_quick_start_runs_unchanged(
    repository: Path, tmp_path: Path, dsn: str, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    (quick_start, *_) = code_blocks(repository / "README.md", "python")
    (tmp_path / "app.py").write_text(quick_start)
    printed = program(tmp_path, dsn, "app.py")
    page = (repository / "README.md").read_text()
    _, *told = page.partition("It prints:\n\n```\n")[2].partition("```")[0].splitlines()
    times = r"in .* s \(.*\)"
    assert re.sub(times, "", printed).splitlines() == [re.sub(times, "", line) for line in told]
    assert sql("select result ->> 'image' from rowlease.queue_history order by 1") == [
        ("a.png",),
        ("b.png",),
    ]


def test_the_first_steps_lead_to_a_dead_letter_and_out_of_it(
    repository: Path, tmp_path: Path, dsn: str
) -> None:
    page = repository / "docs" / "first-steps.md"
    for block in code_blocks(page, "python"):
        (tmp_path / block.split()[1]).write_text(block)
    program(tmp_path, dsn, "order.py")
    program(tmp_path, dsn, "-m", "rowlease", "worker", "shop", "--burst")
    listed = run(dsn, "requests list")
    assert re.search(r"^2 .*Failed", listed, re.M)
    assert re.search(r"^1 .*Complete", listed, re.M)
    for told in re.findall(r"^rowlease (requests .*?) *#", page.read_text(), re.M)[1:]:
        if "errors" in told:
            assert "this is no address: nowhere" in run(dsn, told)
        else:
            assert run(dsn, told).startswith("1 request was ")
            program(tmp_path, dsn, "-m", "rowlease", "worker", "shop", "--burst")


def test_the_features_of_the_readme_do_what_it_says(
    repository: Path, dsn: str, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    _, answer, bound, schedule, spark = code_blocks(repository / "README.md", "python")
    compile(spark, "README.md", "exec")  # tests/spark/test_spark_docs.py runs a longer program
    names: dict[str, Any] = {"timedelta": timedelta, "task": rowlease.task}
    exec(schedule, names)
    assert names["clean_up"].timetable is not None
    engine = create_engine(dsn.replace("postgresql:", "postgresql+psycopg:"))
    with Client(dsn) as client, Session(engine) as session:
        resize = rowlease.task("resize")(lambda image, width: {"image": image, "bytes": 3 * width})
        names |= {"client": client, "session": session, "resize": resize}
        enqueue, status, result = answer.splitlines()
        for line, meanwhile in ((enqueue, None), (status, resize), (result, None)):
            code, _, told = line.partition("  # ")
            exec(f"found = {code}" if told else code, names)
            assert not told or names["found"] == json.loads(told)
            if meanwhile:
                drain(client, meanwhile)
        exec(bound, names)
        session.rollback()
        exec(bound, names)
        session.commit()
    engine.dispose()
    assert sql("select payload ->> 'image' from rowlease.queue") == [("c.png",)]


def test_the_dashboard_of_its_page_asks_who_the_visitor_is(repository: Path, dsn: str) -> None:
    (mounted,) = code_blocks(repository / "docs" / "dashboard.md", "python")
    names: dict[str, Any] = {"app": Starlette()}
    exec(mounted.replace("postgresql://…", dsn), names)
    try:
        users: list[Any] = [None, SimpleNamespace(is_staff=False), SimpleNamespace(is_staff=True)]
        roles = [names["role"](SimpleNamespace(scope={"user": user})) for user in users]
        assert roles == [None, None, "operator"]
        asked = httpx.AsyncClient(
            transport=httpx.ASGITransport(names["app"]), base_url="http://localhost"
        )
        assert asyncio.run(asked.get("/queue/")).status_code == 403
    finally:
        names["dashboard"].close()


def test_the_programs_of_the_page_on_metrics_run(
    repository: Path, tmp_path: Path, dsn: str
) -> None:
    counted, traced, loaded = code_blocks(repository / "docs" / "metrics.md", "python")
    compile(loaded, "metrics.md", "exec")  # tests/spark/test_tracing.py runs a longer one
    names: dict[str, Any] = {}
    exec(counted, names)
    assert b'rowlease_worker_slots{database="db.example:5432/jobs"} 8' in names["body"]
    (tmp_path / "traced.py").write_text(traced)
    code = "import traced, rowlease\nwith rowlease.Client() as c: c.enqueue(traced.resize, 'a')"
    assert '"trace_id"' in program(tmp_path, dsn, "-c", code)


def test_the_schedules_of_their_page_fire(
    repository: Path, dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (nightly,) = code_blocks(repository / "docs" / "schedules.md", "python")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "nightly.py").write_text(nightly)
    module = import_module("nightly")
    with Client(dsn) as client:
        with frozen(client, datetime(2026, 1, 1, tzinfo=UTC)) as clock:
            tasks = [module.clean_up, module.measure]
            assert drain(client, tasks, schedules=True) == []
            clock.advance(hours=2, minutes=1)  # 3 o'clock in Berlin
            ran = drain(client, tasks, schedules=True)
        assert sorted(one.kind for one in ran) == ["clean_up", "measure", "measure", "measure"]
        assert "measured cellar for 2026-01-01T02:01:00Z" in {one.result for one in ran}


def test_the_examples_of_the_testing_page_pass(
    repository: Path, tmp_path: Path, server_dsn: str
) -> None:
    reminders, conftest, welcome = code_blocks(repository / "docs" / "testing.md", "python")
    (tmp_path / "test_reminders.py").write_text(reminders)
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_mail.py").write_text(
        "def test_there_is_the_queue(rowlease_client): rowlease_client.queues.show('mail')"
    )
    (tmp_path / "test_welcome.py").write_text(welcome)
    passes(3, tmp_path, repository, server_dsn)


def test_the_example_application_passes_its_own_tests(
    repository: Path, tmp_path: Path, server_dsn: str
) -> None:
    shutil.copytree(repository / "examples" / "shop", tmp_path / "shop")
    passes(2, tmp_path / "shop", repository, server_dsn)


def passes(count: int, folder: Path, repository: Path, server_dsn: str) -> None:
    """Run pytest in a folder, as a user does; so many tests must pass."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "rowlease.testing.plugin"],
        cwd=folder,
        env={
            **os.environ,
            "ROWLEASE_TEST_DSN": server_dsn,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # it may be there twice otherwise
            "PYTHONPATH": str(repository / "src"),
        },
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert f"{count} passed" in ran.stdout, ran.stdout + ran.stderr


def test_the_tasks_of_the_page_on_tasks_do_what_it_says(
    repository: Path, tmp_path: Path, dsn: str, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    reports, thumbnails, weather, invoices, payments = code_blocks(
        repository / "docs" / "tasks.md", "python"
    )
    (tmp_path / "reports.py").write_text(reports)
    (tmp_path / "thumbnails.py").write_text(thumbnails)
    (tmp_path / "weather.py").write_text(weather)
    (tmp_path / "invoices.py").write_text(invoices)
    (tmp_path / "payments.py").write_text(payments)
    sql("create table payment (invoice int, amount int)")
    run(dsn, "queue create payments")
    run(dsn, "queue create web")
    run(dsn, "queue create thumbnails")
    run(dsn, "queue create weather")
    run(dsn, "queue create alarms")
    run(dsn, "queue create invoices")
    sql("select rowlease.enqueue('payments', 'pay', '{\"invoice\": 7, \"amount\": 20}')")
    sql("select rowlease.enqueue('default', 'report', '{\"customer\": 1}')")
    sql("select rowlease.enqueue('default', 'report', '{\"customer\": -1}')")
    sql("select rowlease.enqueue('default', 'report', '{\"nobody\": 1}')")
    sql("select rowlease.enqueue('web', 'ping', '{\"host\": \"h\"}')")
    old = '{"image": "a", "width": 8}'
    sql("select rowlease.enqueue('thumbnails', 'thumbnail', %s)", (old,))
    sql(
        "select rowlease.enqueue('invoices', 'send_invoice', '{\"number\": 7}', "
        "p_max_attempts => 1)"
    )
    sql("select rowlease.enqueue('weather', 'fahrenheit', '{\"celsius\": 100}')")
    for arguments in (
        ["reports:report"],
        ["reports:ping", "--queue", "web"],
        ["payments", "--queue", "payments"],
        ["thumbnails", "--queue", "thumbnails"],
        ["weather", "--queue", "weather"],
        ["invoices", "--queue", "invoices", "--queue", "alarms"],
    ):
        program(tmp_path, dsn, "-m", "rowlease", "worker", *arguments, "--burst")
    assert sql("select * from payment") == [(7, 20)]
    assert sql("select result from rowlease.queue_history order by request_id") == [
        ({"paid": 20},),
        ({"customer": 1, "attempt": 1},),
        ("h is there",),
        ("a 8 x 4",),
        (212.0,),
        (None,),
    ]
    assert (
        sql("select status, num_attempts from rowlease.queue where kind <> 'publish'")
        == [("Failed", 1)] * 3
    )
    assert sql("select payload from rowlease.queue where kind = 'publish'") == [
        ({"degrees": 212.0},)
    ]


def test_the_program_of_the_page_on_producers_enqueues_what_its_tasks_take(
    repository: Path, tmp_path: Path, dsn: str, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    shop, app, finds = code_blocks(repository / "docs" / "producers.md", "python")
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "find.py").write_text(finds)
    (tmp_path / "app.py").write_text(app)
    code = "import shop; from rowlease import Client\nwith Client() as c: shop.order(c, ['x', 'y'])"
    for command in (["-c", code], ["-m", "rowlease", "worker", "shop", "--burst"], ["find.py"]):
        program(tmp_path, dsn, *command)
    assert sql("select result #>> '{}' from rowlease.queue_history order by request_id") == [
        ("a.png: 200 x 100",),
        ("x: 80 x 40",),
        ("y: 80 x 40",),
        (None,),
        ("b.png: 1 x 1",),
    ]
    assert sql("select status, priority, dedup_key from rowlease.queue") == [
        ("Scheduled", 9, "a.png")
    ]


def test_the_application_of_the_page_on_producers_answers_with_the_result(
    repository: Path,
    tmp_path: Path,
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    _, app, _ = code_blocks(repository / "docs" / "producers.md", "python")
    (tmp_path / "app.py").write_text(app)
    sql("create table orders (number int)")
    monkeypatch.setenv("ROWLEASE_DSN", dsn)
    monkeypatch.syspath_prepend(tmp_path)
    module = import_module("app")

    async def main() -> None:
        async with (
            module.app.router.lifespan_context(module.app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(module.app), base_url="http://shop"
            ) as browser,
        ):
            placed = await browser.post("/orders/7")
            assert placed.status_code == 200, placed.text
            asked = asyncio.create_task(browser.get(f"/shipments/{placed.json()}"))
            worker = [sys.executable, "-m", "rowlease", "worker", "app", "--burst"]
            done = await asyncio.create_subprocess_exec(
                *worker, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(repository / "src")}
            )
            assert await done.wait() == 0
            assert (await asked).json() == "order 7 is on its way"

    asyncio.run(main())
    assert sql("select number from orders") == [(7,)]
    assert sql("select kind, status from rowlease.requests order by request_id") == [
        ("ship", "Complete"),
        ("announce", "Complete"),
    ]


def test_the_tenants_of_the_page_on_middleware_reach_their_tasks(
    repository: Path, tmp_path: Path, dsn: str, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    tenants, tasks, _ = code_blocks(repository / "docs" / "middleware.md", "python")
    (tmp_path / "tenants.py").write_text(tenants)
    (tmp_path / "app_tasks.py").write_text(tasks)
    code = (
        "import app_tasks, tenants\nfrom rowlease import Client\n"
        "with Client() as client:\n"
        "    tenants.enqueue(client)\n"
        "    tenants.tenant.set('globex')\n"
        "    client.enqueue(tenants.invoice, 'June')"
    )
    for command in (["-c", code], ["-m", "rowlease", "worker", "app_tasks", "--burst"]):
        program(tmp_path, dsn, *command)
    assert sql("select result #>> '{}' from rowlease.queue_history order by request_id") == [
        ("May for acme",),
        ("June for globex",),
    ]
    sql("select headers ->> 'tenant', count(*) from rowlease.requests group by 1")


def test_the_batch_and_the_chain_of_their_page_run(
    repository: Path, tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ROWLEASE_DSN", dsn)
    page = repository / "docs" / "batches.md"
    names = ("batch_report", "batch_chain")
    for name, block in zip(names, code_blocks(page, "python"), strict=True):
        (tmp_path / f"{name}.py").write_text(block)
    report, chain = map(import_module, names)
    with Client(dsn) as client:
        batch = report.start(client, ["a", "bcd"])
        assert "2 requests, 2 unfinished; 0 complete" in run(dsn, "batch show May")
        ran = drain(client, [report.resize, report.report])
        assert ran[-1].result == "May: 4 bytes"
        assert report.total(batch) == 4
        client.queues.create("web")
        chain.start(client)
        ran = drain(client, [chain.shrink, chain.publish, chain.tell])
        assert [one.result for one in ran] == [1000, "1000 bytes in the blog", None]
    finished = "May: 2 requests, finished; 2 complete, 0 dead letters, 0 cancelled\n"
    assert run(dsn, "batch list") == run(dsn, "batch show May") == finished
    assert json.loads(run(dsn, "batch show May --json"))["num_complete"] == 2


def test_a_batch_is_waited_for_in_asyncio_too(dsn: str) -> None:
    async def main() -> None:
        async with AsyncClient(dsn) as client:
            await client.enqueue_untyped("one", batch_id="b")
            with pytest.raises(TimeoutError, match='the batch "b" is not finished'):
                await client.batch("b").wait(timedelta(0))
            with pytest.raises(InvalidRequest, match='there is no batch "c"'):
                await client.batch("c").wait()
            await client.run_sync(
                lambda sync: sync.store.operate("purge", queue="default", status=["Pending"])
            )
            await client.run_sync(lambda sync: sync.store.maintain())
            state = await client.batch("b").wait(timedelta(0))
            assert (state, state.num_cancelled) == (await client.batch("b").read(), 1)

    asyncio.run(main())


def test_the_code_after_each_migration_runs(
    repository: Path, tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    page = (repository / "docs" / "migrating.md").read_text()
    systems = re.findall(r"^## From (.+)$", page, re.M)
    blocks = code_blocks(repository / "docs" / "migrating.md", "python")
    assert (len(blocks), len(systems)) == (8, 6)
    with Client(dsn) as client, frozen(client) as clock:
        for block in blocks:
            name = block.split()[1].removesuffix(".py")
            (tmp_path / f"{name}.py").write_text(block)
            if name == "after_beat":
                continue
            import_module(name).main(client)
            clock.advance(minutes=1)  # past a delay
            ran = drain(client, name)
            assert {one.outcome for one in ran} == {Outcome.OK}, name
            if name == "after_canvas":
                assert [one.result for one in ran if one.kind == "total"] == [14]
            else:
                assert len(ran) == 1, name


def test_the_small_application_has_as_few_lines_as_celery_s(
    repository: Path, tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its `main` waits for a result, so a worker runs meanwhile."""
    monkeypatch.syspath_prepend(tmp_path)
    blocks = code_blocks(repository / "docs" / "migrating.md", "python")
    (block,) = [each for each in blocks if "after_beat.py" in each]
    assert len([line for line in block.splitlines()[1:] if line]) <= 11
    (tmp_path / "after_beat.py").write_text(block)
    module = import_module("after_beat")
    worker = Worker(dsn, "after_beat", executor="thread", events=Events())
    running = threading.Thread(target=worker.run)
    running.start()
    try:
        with Client(dsn) as client:
            module.main(client)
            until(lambda: len(client.find("status:complete kind:add").requests) == 3, 60)
            results = [one.result for one in client.find("status:complete").requests]
            assert results == ["7", "3", "3"]
            assert [one.cron for one in client.store.list_schedules()] == ["0 3 * * *"]
    finally:
        worker.stop()
        running.join(60)


def test_the_figures_of_the_comparison_are_those_of_the_benchmarks(repository: Path) -> None:
    measured = (repository / "docs" / "benchmarks.md").read_text()
    page = (repository / "docs" / "faq.md").read_text().partition("## Compared")[2]
    compared = re.findall(r"^\| ([A-Z][\w ]+?) \|.*?\| ([\d.]+)(?=[; ])", page, re.M)
    assert len(compared) >= 4
    for peer, figure in compared:
        rows = re.findall(rf"^\| {peer}.*\| ([\d.]+) \|(?: [\d.]+ µs \|)?$", measured, re.M)
        assert any(abs(float(row) - float(figure)) < 0.006 for row in rows), (peer, figure, rows)


def test_every_event_is_documented(site: Path) -> None:
    """On a generated page. tests/unit/test_metrics.py compares the page on metrics."""
    assert ":::" in (site / "reference" / "python" / "rowlease.events.md").read_text()
    for each in vars(rowlease.events).values():
        if isinstance(each, type) and each.__module__ == "rowlease.events":
            generated = f"{each.__name__}("  # what a dataclass without a docstring gets
            assert each.__doc__, each.__name__
            assert not each.__doc__.startswith(generated), each.__name__


def test_every_error_is_documented(repository: Path) -> None:
    for each in vars(rowlease.errors).values():
        if isinstance(each, type) and each.__module__ == "rowlease.errors":
            assert each.__doc__, each.__name__


def test_every_option_of_a_request_is_in_the_page_on_producers(repository: Path) -> None:
    names = first_cells(repository / "docs" / "producers.md")
    assert [name for name in REQUEST_OPTIONS if name not in names] == []


def test_the_quick_start_has_at_most_20_lines(repository: Path) -> None:
    (quick_start, *_) = code_blocks(repository / "README.md", "python")
    assert len(quick_start.splitlines()) <= 20


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/alerts.md",
        "docs/install.md",
        "docs/metrics.md",
        "docs/operations.md",
        "docs/schedules.md",
        "docs/tasks.md",
    ],
)
def test_the_sql_of_the_pages_runs(
    repository: Path, dsn: str, sql: Callable[..., list[tuple[Any, ...]]], page: str
) -> None:
    run(dsn, "queue create mail")
    blocks = code_blocks(repository / page, "sql")
    assert blocks
    for block in blocks:
        sql(block)


def test_the_commands_for_queues_run_as_the_page_says(
    repository: Path, dsn: str, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    section, *_ = (repository / "docs" / "queues.md").read_text().partition("\n## ")
    commands = re.findall(r"^rowlease (queue [^#\n]*)", section, re.M)
    assert len(commands) == 8
    for command in commands:
        run(dsn, command)
        if "--dry-run" in command:
            run(dsn, command.replace("--dry-run", ""))
    assert sql("select queue_name from rowlease.queue_settings") == [("default",)]


def test_queues_in_python_do_what_the_page_says(
    repository: Path,
    tmp_path: Path,
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    verbs, declared, shares = code_blocks(repository / "docs" / "queues.md", "python")
    monkeypatch.setenv("ROWLEASE_DSN", dsn)
    monkeypatch.syspath_prepend(tmp_path)
    exec(verbs, {})
    (tmp_path / "queues_of_the_page.py").write_text(declared)
    run(dsn, "queue apply queues_of_the_page")
    assert sql("select queue_name, capacity from rowlease.queue_settings order by 1") == [
        ("default", None),
        ("images", 1000),
    ]
    of_tenants: dict[str, Any] = {"__name__": "shares"}
    exec(shares, of_tenants)
    with Client(dsn) as client:
        for tenant, count in (("many", 9), ("few", 2)):
            for order in range(count):
                of_tenants["enqueue"](client, tenant, order)
        leased = client.store.dequeue("one", ["default"], 9).requests
        tenants = [json.loads(one.payload)["tenant"] for one in leased]
        assert tenants == ["many"] * 4 + ["few"] * 2


#: The snippets of other languages than the shell's that no test executes, and why.
NOT_RUN = {
    "docs/integrations.md: # dags/flights.py": "it needs Airflow's provider for Spark",
    "docs/sqlserver.md: create login shop with password = '…';": "a login belongs to the server",
    "docs/sqlserver.md: create database on_test; create database off_test;": "databases and their "
    "users belong to the server",
    "docs/sqlserver.md: alter database database_of_rowlease set read_committed_snapshot on;": "it "
    "needs a SQL Server that no other session uses",
    "CONTRIBUTING.md: -- 0002_request_note_postgresql.sql": "an example of a revision",
    "CONTRIBUTING.md: -- 0002_request_note_sqlserver.sql": "an example of a revision",
    "docs/workers.md: # Kubernetes.": "a part of the manifests in deploy/kubernetes/",
}
#: The test files that execute the other snippets of a page, if this file does not.
RUN_ELSEWHERE = {
    "docs/dba.md": "tests/test_dba_page.py",
    "docs/integrations.md": "tests/acceptance/test_integrations.py",
    "docs/spark.md": "tests/spark/test_spark_docs.py",
}


def test_every_snippet_is_executed_or_it_is_said_why_not(repository: Path) -> None:
    """A test names the page whose snippets it executes, and takes all of them."""
    idle = dict(NOT_RUN)
    for page in [*repository.glob("*.md"), *repository.glob("docs/*.md")]:
        name = page.relative_to(repository).as_posix()
        runner = repository / RUN_ELSEWHERE.get(name, "tests/test_docs.py")
        functions = runner.read_text().split("\n\n\n")
        tests = [one for one in functions if name in RUN_ELSEWHERE or "code_blocks(" in one]
        blocks = re.findall(r"^ *```(\w+)\n(.*?)\n", page.read_text(), re.M)
        for language, first in blocks:
            known = next((one for one in NOT_RUN if f"{name}: {first}".startswith(one)), None)
            if language == "text" or idle.pop(known or "", None):
                continue
            assert known is None, (name, first, "it is twice on the page")
            assert any(f'{page.name}"' in test for test in tests), (
                f"no test executes {name}: {first}"
            )
    assert idle == {}


def test_every_command_of_the_pages_is_one_that_rowlease_takes(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written = []
    for page in [repository / "README.md", *repository.glob("docs/*.md")]:
        fence = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.M | re.S)
        shell = "\n".join(text for named, text in fence.findall(page.read_text()) if not named)
        written += re.findall(r"^ *(?:\w+=\S+ )*(rowlease [a-z].*)", shell, re.M)
        written += re.findall(r"`(rowlease [a-z][^`|]*)`", fence.sub("", page.read_text()))
    assert len(written) > 150
    for text in written:
        words = shlex.split(text.partition(" > ")[0], comments=True)[1:]
        command: click.Command = cli
        context = click.Context(cli, **cli.context_settings)
        while isinstance(command, click.Group) and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
            context = click.Context(command, context)
        assert not isinstance(command, click.Group) or words in ([], ["--help"]), text
        if isinstance(command, click.Group) or words == ["--help"]:
            continue
        for file in re.findall(r"\S+\.(?:pem|toml)\b", text):
            Path(file).touch()
        try:
            command.make_context("rowlease", words, context)
        except click.MissingParameter:  # a page may name a command without its arguments
            assert text.count(" ") <= 4, text


def test_every_version_that_a_page_promises_is_listed_with_what_ran(repository: Path) -> None:
    pages = [repository / "README.md", repository / "SECURITY.md", *repository.glob("docs/*.md")]
    runs = {
        "benchmarks.md",
        "engines.md",
        "scaling.md",
        "versions.md",
    }  # these say what ran, not what will
    products = "PostgreSQL|Python|PySpark|SQL Server|Java|Django|Airflow"
    platforms = (
        "Windows|macOS|Azure SQL|Spark Connect|PgBouncer|asyncpg|psycopg2|SQLAlchemy|FastAPI"
        "|Starlette|OpenTelemetry|Prometheus|Grafana|KEDA|Helm|Kubernetes|systemd|Docker|Compose"
        "|zsh|fish"
    )
    promise = re.compile(rf"(?:{products}) \d+(?:\.\d+)*|\b(?:{platforms})\b")
    listed = promise.findall((repository / "docs" / "versions.md").read_text())
    for page in pages:
        if page.name not in runs:
            text = " ".join(re.sub(r"\]\([^)]*\)|\[", "", page.read_text()).split())
            assert set(promise.findall(text)) <= set(listed), page.name


def test_every_command_is_on_a_page(repository: Path) -> None:
    pages = [repository / "README.md", *(repository / "docs").glob("*.md")]
    text = "".join(page.read_text() for page in pages)
    assert [name for name in cli.commands if not re.search(rf"rowlease {name}\b", text)] == []


def test_every_setting_of_a_queue_is_in_the_page_on_queues(
    repository: Path, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    names = first_cells(repository / "docs" / "queues.md")
    settings = sql(
        "select attname from pg_attribute where attrelid = 'rowlease.queue_settings'::regclass"
        " and attnum > 0 and attname not in ('queue_name', 'consumer_priorities')"
    )
    assert [name for (name,) in settings if name not in names] == []


def test_every_environment_variable_is_in_the_page_on_configuration(repository: Path) -> None:
    page = (repository / "docs" / "configuration.md").read_text()
    read = {
        name
        for file in (repository / "src").rglob("*.py")
        for name in re.findall(r"\bROWLEASE_[A-Z_]+[A-Z]", file.read_text())
    }
    assert len(read) > 5
    assert [name for name in sorted(read) if f"`{name}`" not in page] == []


def test_the_settings_file_of_the_page_is_read(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (page,) = code_blocks(repository / "docs" / "configuration.md", "toml")
    (tmp_path / "rowlease.toml").write_text(page.replace("/run/secrets/", f"{tmp_path}/"))
    (tmp_path / "rowlease").write_text("postgresql://user:secret@db/app")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROWLEASE_DSN", raising=False)
    ran = CliRunner().invoke(cli, ["config", "show"])
    assert ran.exit_code == 0, ran.output
    for setting in ("dsn = postgresql://user:***@db/app", "worker.grace = 40s", "worker.tasks ="):
        assert setting in ran.output


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_of_the_pages_leads_somewhere(repository: Path) -> None:
    pages = [
        *repository.glob("*.md"),
        *repository.glob("docs/**/*.md"),
        *repository.glob("sql/**/*.md"),
        repository / "tests" / "README.md",
    ]
    broken = []
    for page in pages:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
            found = page.parent / target if target else page
            if not found.exists() or (anchor and anchor not in anchors(found)):
                broken.append(f"{page.name}: {target}#{anchor}")
    assert broken == []


#: Names of files that recipes let the reader write.
EXAMPLES = ("oldest_waiting", "0002_request_note")


def test_every_file_in_backticks_is_there(repository: Path) -> None:
    top = "src|sql|tests|docs|deploy|migrations|benchmarks"
    named = re.compile(rf"`((?:{top})/[\w./*-]+)`")
    pages = [*repository.glob("*.md"), *repository.glob("docs/**/*.md"), *repository.glob("*/*.md")]
    found = {(page, path) for page in pages for path in named.findall(page.read_text())}
    assert len(found) > 50
    missing = [
        f"{page.name}: {path}"
        for page, path in found
        if not any(one in path for one in EXAMPLES)
        and not any(any(base.glob(path.rstrip("/"))) for base in (repository, page.parent))
    ]
    assert sorted(missing) == []


#: What a reader of "Add a verb of operators" adds for `drop`, which is like `purge`: to each file,
#: texts and what they become.
VERB = {
    "src/rowlease/model/verbs.py": {
        '    "purge": Verb(\n': (
            '    "drop": Verb("Drop", "Delete.", "", "dropped", _WAITING, _WAITING),\n'
            '    "purge": Verb(\n'
        )
    },
    "src/rowlease/client/operations.py": {
        "    def purge(self": (
            "    def drop(self, text: str | None = None, **given: Unpack[Operate]) -> Operation:\n"
            '        return self._operate("drop", {}, text, given)\n\n'
            "    def purge(self"
        )
    },
    "sql/postgresql/operate/internal/verbs.sql": {
        "    ('purge',": (
            "    ('drop', array['Scheduled', 'Pending'], array['Scheduled', 'Pending']),\n"
            "    ('purge',"
        )
    },
    "sql/postgresql/operate/internal/do_verb.sql": {
        "p_verb in ('cancel', 'purge')": "p_verb in ('cancel', 'purge', 'drop')"
    },
}


#: The same for "Add a routine". A file that is not there yet has no text to change.
ROUTINE = {
    "sql/postgresql/operate/oldest_waiting.sql": {
        "": """-- oldest_waiting: measure how long the first request of each queue has waited.
-- params:   none
-- returns:  queue_name text, seconds bigint
-- errors:   none
-- locks:    none
-- why:      an example.
create or replace function rowlease.oldest_waiting() returns table (queue_name text, seconds bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select q.queue_name::text, extract(epoch from max(rowlease.now() - q.due_time))::bigint
    from rowlease.queue q where q.status = 'Pending' group by q.queue_name;
$$;
"""
    },
    "sql/postgresql/grants.sql": {
        "rowlease.list_workers, rowlease.list_ready,": (
            "rowlease.list_workers, rowlease.list_ready, rowlease.oldest_waiting,"
        )
    },
    "src/rowlease/store/operate.py": {
        "    def list_ready(": (
            "    def oldest_waiting(self) -> list[Any]:\n"
            '        return self._rows(("queue_name", "seconds"), "oldest_waiting")\n\n'
            "    def list_ready("
        )
    },
}


#: The same for "Add an option of `@task`".
OPTION = {
    "src/rowlease/tasks/settings.py": {
        '("queue", "executor",': '("queue", "group_key", "executor",',
        "    queue: str | None = None\n": (
            "    queue: str | None = None\n    group_key: str | None = None\n"
        ),
        "    queue: str | None\n": "    queue: str | None\n    group_key: str | None\n",
    },
    "src/rowlease/tasks/task.py": {
        'for name in ("queue", "priority",': 'for name in ("queue", "group_key", "priority",'
    },
}


def follow(repository: Path, heading: str, edits: dict[str, dict[str, str]], copy: Path) -> None:
    """Make these changes, all of which the recipe names, in a copy of the sources."""
    page = (repository / "CONTRIBUTING.md").read_text()
    recipe = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    for folder in ("src", "sql", "migrations"):
        shutil.copytree(repository / folder, copy / folder)
    for path, changes in edits.items():
        folder, _, name = path.rpartition("/")
        assert path in recipe or (f"{folder}/" in recipe and f"`{name}`" in recipe), path
        for text, added in changes.items():
            before = (copy / path).read_text() if text else ""
            assert before.count(text) == 1, (path, text)
            (copy / path).write_text(before.replace(text, added))


def test_the_recipe_of_a_verb_leads_to_a_command(
    repository: Path, tmp_path: Path, dsn: str
) -> None:
    follow(repository, "Add a verb of operators", VERB, tmp_path)
    source = tmp_path / "src"
    program(tmp_path, dsn, "-m", "rowlease", "migrate", source=source)
    program(tmp_path, dsn, "-m", "rowlease", "enqueue", "idle", source=source)
    done = program(tmp_path, dsn, "-m", "rowlease", "requests", "drop", "1", source=source)
    assert done == "1 request was dropped (operation 1)\n"


def test_the_recipe_of_a_routine_leads_to_a_call(
    repository: Path, tmp_path: Path, dsn: str
) -> None:
    follow(repository, "Add a routine", ROUTINE, tmp_path)
    source = tmp_path / "src"
    program(tmp_path, dsn, "-m", "rowlease", "migrate", source=source)
    program(tmp_path, dsn, "-m", "rowlease", "enqueue", "idle", source=source)
    call = "from rowlease import Client\nwith Client() as c: print(*c.store.oldest_waiting())"
    assert program(tmp_path, dsn, "-c", call, source=source).startswith("('default', ")


def test_the_recipe_of_an_option_leads_to_a_setting_of_requests(
    repository: Path, tmp_path: Path, dsn: str
) -> None:
    follow(repository, "Add an option of `@task`", OPTION, tmp_path)
    (tmp_path / "app.py").write_text("""
from rowlease import RowleaseError, task
mail = task(group_key="a")(print)
for each in (mail, mail.with_options(group_key="b")):
    print(each.request().new.group_key)
try:
    task(group_key=7)(print)
except RowleaseError as error:
    print(error)
""")
    a, b, refused = program(tmp_path, dsn, "app.py", source=tmp_path / "src").splitlines()
    assert (a, b) == ("a", "b")
    assert refused.startswith("task print: group_key is 7; ")


def glossary(repository: Path, column: str) -> list[str]:
    """The texts in backticks in a column of the glossary's tables of five columns."""
    page = (repository / "docs" / "glossary.md").read_text()
    rows = [line[1:-1].split("|") for line in page.splitlines() if line.startswith("| ")]
    place = ["word", "meaning", "SQL", "Python", "command line"].index(column)
    names = [name for row in rows if len(row) == 5 for name in re.findall(r"`([^`]+)`", row[place])]
    assert len(names) > 10
    return names


def test_the_glossary_names_what_the_schema_has(
    repository: Path, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    found = sql(
        "select a.attname::text from pg_attribute a join pg_class c on c.oid = a.attrelid"
        " where c.relnamespace = 'rowlease'::regnamespace"
        " union select relname::text from pg_class where relnamespace = 'rowlease'::regnamespace"
        " union select proname::text from pg_proc where pronamespace = 'rowlease'::regnamespace"
    )
    names = {name for (name,) in found}
    assert [name for name in glossary(repository, "SQL") if name not in names] == []


def test_the_glossary_names_what_python_has(repository: Path) -> None:
    names = glossary(repository, "Python")
    calls = {name[6:-2] for name in names if name.startswith("store.")}
    assert calls
    assert {name for name in calls if not hasattr(Store, name)} == set()
    page = (repository / "docs" / "glossary.md").read_text()
    events = re.findall(r"event `(\w+)`", page)
    assert events
    assert [name for name in events if not hasattr(rowlease.events, name)] == []


def test_the_glossary_names_what_the_command_line_has(repository: Path) -> None:
    options = {
        name
        for command in cli.commands.values()
        for one in [command, *getattr(command, "commands", {}).values()]
        for option in one.params
        for name in option.opts
    }
    for name in glossary(repository, "command line"):
        if name.startswith("--"):
            assert name in options
        elif name.startswith("rowlease "):
            assert name.split()[1] in cli.commands


def records(repository: Path) -> dict[str, str]:
    """The texts of the records of decisions, by the names of their files."""
    folder = repository / "docs" / "decisions"
    return {file.name: file.read_text() for file in folder.glob("*.md") if file.name != "README.md"}


def numbers_of(record: str) -> dict[int, str]:
    """The decisions of a record: their titles by number."""
    found = re.findall(r"^- \*\*(\d+)\. (.+?)\.\*\*", record, re.M | re.S)
    return {int(number): " ".join(title.split()) for number, title in found}


def index_of_decisions(repository: Path) -> str:
    return (repository / "docs" / "decisions" / "README.md").read_text()


def test_the_index_has_every_record_and_every_decision(repository: Path) -> None:
    index, texts = index_of_decisions(repository), records(repository)
    titles = {name: text.splitlines()[0].removeprefix("# ") for name, text in texts.items()}
    rows = re.findall(r"^\| \[(.+?)\]\((.+?)\) \| ([\d, ]+) \|$", index, re.M)
    assert sorted(rows) == sorted(
        (titles[name], name, ", ".join(map(str, numbers_of(text)))) for name, text in texts.items()
    )
    decisions = re.findall(r"^\| (\d+) \| (.+?) \| \[(.+?)\]\((.+?)\) \|$", index, re.M)
    assert decisions == [
        (str(number), title, titles[name], name)
        for number, title, name in sorted(
            (number, title, name)
            for name, text in texts.items()
            for number, title in numbers_of(text).items()
        )
    ]


def test_every_number_of_a_decision_is_used_once_or_listed_as_unused(repository: Path) -> None:
    used = [number for text in records(repository).values() for number in numbers_of(text)]
    last = re.search(
        r"^No decision has the numbers ([^.]+)\.", index_of_decisions(repository), re.M
    )
    assert last
    unused = [int(number) for number in re.findall(r"\d+", last[1])]
    assert sorted(used + unused) == list(range(1, max(used) + 1))


def test_a_record_is_short_and_has_its_sections(repository: Path) -> None:
    for name, text in records(repository).items():
        sections = re.findall(r"^## (.+)$", text, re.M)
        assert sections == ["Context", "Decision", "Consequences", "Rejected"], name
        date = r"\d{4}-\d\d-\d\d"
        assert re.search(rf"^In force\. Decided {date}( to {date})?\.$", text, re.M), name
        numbers = list(numbers_of(text))
        assert numbers, name
        assert numbers == sorted(numbers), name
        assert len(text.splitlines()) <= 90, name


def test_every_decision_that_is_named_is_there(repository: Path) -> None:
    """`decision 45`, and lists such as `decisions 21, 22 and 24`."""
    folders = ("docs", "src", "sql", "migrations", "benchmarks", "tests")
    named = {
        int(number)
        for folder in folders
        for file in (repository / folder).rglob("*.*")
        if file.suffix in {".py", ".sql", ".md"}
        for numbers in re.findall(
            r"\bdecisions?(?:\]\([\w./-]+\))?[\s\"#-]+(\d+(?:(?:,| and) \d+)*)", file.read_text()
        )
        for number in re.findall(r"\d+", numbers)
    }
    assert len(named) > 20
    there = {number for text in records(repository).values() for number in numbers_of(text)}
    assert named <= there


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the pages of the site, without the HTML."""
    folder = tmp_path_factory.mktemp("site")
    builder = [sys.executable, "docs/site/build.py", "--pages-only", str(folder)]
    subprocess.run(builder, cwd=repository, check=True)
    return folder / "pages"


def test_every_link_of_the_site_leads_to_a_page_and_a_heading(site: Path) -> None:
    missing = []
    for page in site.rglob("*.md"):
        for target, anchor in re.findall(
            r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text()
        ):
            found = page.parent / target if target else page
            if not found.exists() or (anchor and anchor not in anchors(found)):
                missing.append((page.relative_to(site).as_posix(), target, anchor))
    assert missing == []


def test_the_site_is_built_without_a_warning(repository: Path, tmp_path: Path) -> None:
    builder = [sys.executable, "docs/site/build.py", str(tmp_path / "site")]
    built = subprocess.run(builder, cwd=repository, capture_output=True, text=True)
    assert (built.returncode, built.stdout[-2_000:] if built.returncode else "") == (0, "")
    assert (tmp_path / "site" / "html" / "engines" / "index.html").exists()


def test_every_page_of_the_site_is_in_its_navigation(site: Path, repository: Path) -> None:
    config = (repository / "docs" / "site" / "zensical.toml").read_text()
    places = {page.relative_to(site).as_posix() for page in site.rglob("*.md")}
    themes = {place for place in places if re.match(r"decisions/(?!index)", place)}
    assert set(re.findall(r'"([\w./-]+\.md)"', config)) == places - themes


def test_the_reference_has_every_command_and_public_routine(site: Path) -> None:
    sql = "".join(page.read_text() for page in (site / "reference" / "sql").glob("*.md"))
    routines = {name for name, each in load_routines("postgresql").items() if each.schema == PUBLIC}
    assert {name for name in routines if f"## {name}\n" not in sql} == set()
    commands = (site / "reference" / "cli.md").read_text()
    assert {name for name in cli.commands if f"## rowlease {name}\n" not in commands} == set()
