"""Text that producers and tasks wrote comes out of every output as harmless text."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
import shlex
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from rich.console import Console

import rowlease
from rowlease.cli import main
from rowlease.cli.logs import JsonLines, TextLines
from rowlease.cli.tables import format_cell
from rowlease.dashboard import Dashboard
from rowlease.dashboard.formats import visible
from rowlease.event_log import log
from rowlease.events import Event, KindUnknown, StoreLost
from rowlease.metrics.prometheus_format import worker_exposition
from rowlease.metrics.tally import Tally
from rowlease.model import Failure, NewRequest
from rowlease.report.figures import Failures
from rowlease.report.tables import failures_table
from rowlease.store import Store, open_store
from tests.conftest import in_database, scratch_database

SOURCE = str(Path(rowlease.__file__).parents[1])
#: Clears the screen, sets its title and colour, begins a line of its own, and turns its order.
HOSTILE = (
    "x\x1b[2J\x1b]0;t\x07\x9b31m\x08\x7f\r\n"
    f"FORGED\x85FORGED\u2028FORGED\u202e\u2066\u200b\ufeff {'<b>'}"
)
#: What no database keeps, but an exception or a name of Python may have.
UNENCODABLE = f"{HOSTILE}\ud800"
COMMANDS = (
    "requests list",
    "requests show 1",
    "requests show 2",
    "requests explain 2",
    "requests next QUEUE",
    "requests running",
    "requests errors",
    "requests purge --dry-run 1",
    "batch list",
    "batch show BATCH",
    "loads list",
    "loads discard --dry-run LOAD",
    "loads discard BATCH",
    "loads forget-stream BATCH",
    "schedule list",
    "schedule pause SCHEDULE",
    "schedule resume BATCH",
    "schedule fire --dry-run SCHEDULE",
    "queue list",
    "queue show QUEUE",
    "queue resume QUEUE",
    "queue pause QUEUE",
    "queue set QUEUE capacity=7",
    "depth",
    "workers",
    "operations",
    "top --once",
    "doctor",
    "exporter --once",
    "enqueue KIND --queue BATCH",
    "requests list FILTER",
)
#: Their JSON has no text of strangers.
NAMELESS = ("queue set QUEUE capacity=7", "requests next QUEUE", "requests purge --dry-run 1")
PAGES = (
    "/",
    "/queue?name=QUEUE",
    "/requests",
    "/requests?filter=FILTER",
    "/requests/1",
    "/requests/2",
    "/requests/3",
    "/dead-letters",
    "/workers",
    "/schedules",
    "/loads",
    "/audit",
    "/health",
)
NAMES = {
    "QUEUE": f"q{HOSTILE}",
    "KIND": f"k{HOSTILE}",
    "BATCH": f"b{HOSTILE}",
    "LOAD": f"l{HOSTILE}",
    "SCHEDULE": f"s{HOSTILE}",
    "FILTER": f"nothing:{HOSTILE}",
}


def harm(text: str, harmless: str = "\n") -> list[str]:
    """The characters of a text that control a terminal or cannot be seen, and its forged lines."""
    hidden = {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    lines = [line for line in text.splitlines() if line.startswith("FORGED")]
    return sorted(map(ascii, hidden - set(harmless))) + lines


def with_names(text: str) -> str:
    for name, value in NAMES.items():
        text = text.replace(name, value)
    return text


def fill(store: Store) -> None:
    """Hostile text in every place where a producer, a task, a worker or an operator may write."""
    queue, kind = NAMES["QUEUE"], NAMES["KIND"]
    payload = json.dumps({HOSTILE: HOSTILE}, ensure_ascii=False)
    store.configure_queue(queue)
    new = NewRequest(
        kind=kind, payload=payload, dedup_key=HOSTILE, group_key=HOSTILE,
        headers=json.dumps({"h": HOSTILE}, ensure_ascii=False),
    )  # fmt: skip
    store.enqueue_many("default", [new])
    worker = f"{HOSTILE}:1:ab"
    (held,) = store.dequeue(worker, ["default"], 1).requests
    store.fail([held], [Failure(HOSTILE, None, True, HOSTILE, f"Traceback\n{HOSTILE}")])
    store.enqueue_many(queue, [NewRequest(kind=kind, payload=payload)])
    store.enqueue_many(queue, [NewRequest(kind=kind)], batch_id=NAMES["BATCH"])
    store.enqueue_many("default", [NewRequest(kind=kind)])
    store.dequeue(worker, ["default"], 1)
    store.worker_heartbeat(
        worker, host=HOSTILE, pid=1, version=HOSTILE, queues=["default", queue], slots=8, busy=2
    )
    store.put_schedule(NAMES["SCHEDULE"], "0 3 * * *", kind, queue=queue, payload=payload)
    store.begin_load(NAMES["LOAD"], queue, HOSTILE)
    store.pause(queue, actor=HOSTILE)


@pytest.fixture(scope="module")
def filled(server_dsn: str, template: str) -> Iterator[str]:
    """A database full of hostile text."""
    with scratch_database(server_dsn, template) as name:
        dsn = in_database(server_dsn, name)
        with closing(open_store(dsn)) as store:
            fill(store)
        yield dsn


@pytest.fixture
def place(filled: str) -> str:
    """The same database, whose queue is paused again if a command resumed it."""
    with closing(open_store(filled)) as store:
        store.pause(NAMES["QUEUE"], actor=HOSTILE)
    return filled


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_it_harmless(
    command: str,
    form: tuple[str, ...],
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if form and command.startswith("exporter"):
        pytest.skip("metrics have a form of their own")
    arguments = [with_names(part) for part in command.split()]
    monkeypatch.setattr(sys, "argv", ["rowlease", *arguments, "--dsn", place, *form])
    # As in a terminal. Otherwise click itself removes some of the sequences, but not all.
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit):
        main()
    out, err = capsys.readouterr()
    assert "FORGED" in out + err or (form and command in NAMELESS)
    assert harm(out) == []
    assert harm(err) == []
    if form and out and "--dry-run" not in command:
        json.loads(out)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_it_harmless(path: str, place: str) -> None:
    async def got(dashboard: Dashboard) -> str:
        transport = httpx.ASGITransport(dashboard, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get(quote(with_names(path), safe="/?="))).text

    with closing(Dashboard(place, local_role="operator")) as dashboard:
        page = asyncio.run(got(dashboard))
    page = re.sub(r"<input [^>]*>", "", page)  # it holds text exactly
    assert "FORGED" in page
    assert "<b>\n" not in page
    assert " <b>" not in page
    assert harm(page.replace("\n", " "), "\t") == []  # a page is not made of lines


TASKS = """
from rowlease import task

class {name}(Exception):
    pass

@task
def fail() -> None:
    raise {name}({text!r})
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_of_a_worker_has_it_harmless(
    form: str, dsn: str, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "hostile_tasks.py").write_text(TASKS.format(name="Foul", text=UNENCODABLE))
    queue = NAMES["QUEUE"]
    store.configure_queue(queue)
    store.enqueue_many(
        queue, [NewRequest(kind="fail", max_attempts=1), NewRequest(kind=NAMES["KIND"])]
    )
    command = ["worker", "hostile_tasks", "--queue", queue, "--executor", "thread", "--burst"]
    done = subprocess.run(
        [sys.executable, "-m", "rowlease", *command, "--log-format", form, "--log-level", "debug"],
        cwd=tmp_path,
        env={**os.environ, "ROWLEASE_DSN": dsn, "PYTHONPATH": SOURCE},
        capture_output=True,
        timeout=120,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, err
    assert harm(out + err) == []
    found = [line for line in err.split("\n") if "FORGED" in line]
    assert any("Foul" in line for line in found)
    assert any(NAMES["KIND"][0] + "x" in line for line in found)
    if form == "json":
        kinds = [json.loads(line).get("kind") for line in found]
        assert NAMES["KIND"] in kinds


def record(name: str, message: str) -> logging.LogRecord:
    try:
        raise ValueError(UNENCODABLE)
    except ValueError:
        return logging.LogRecord(name, 30, "", 1, "%s", (message,), sys.exc_info())


@pytest.mark.parametrize("formatter", [TextLines("%(levelname)s %(message)s"), JsonLines()])
def test_a_line_of_any_logger_is_one_line(formatter: logging.Formatter) -> None:
    text = formatter.format(record(HOSTILE, UNENCODABLE))
    assert "FORGED" in text
    assert harm(text) == []


@pytest.mark.parametrize(
    "event", [KindUnknown("a b=c", UNENCODABLE, False), StoreLost(UNENCODABLE), StoreLost("it's")]
)
def test_an_event_is_a_line_of_its_own_fields(
    event: Event, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rowlease")
    log(event)
    (line,) = [record.getMessage() for record in caplog.records]
    assert harm(line, "") == []
    assert line.encode()
    words = shlex.split(line)
    assert len([word for word in words if "=" in word]) == len(fields(event)), line


def report_of(text: str) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=400)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    console.print(failures_table([Failures(text, text, text, 1, 1, 1, text, at)]))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def page_of(text: str) -> str:
    return visible(text).replace("\n", " ")


def metrics_of(text: str) -> str:
    tally = Tally()
    tally.count("rowlease_worker_outcomes_total", text, text, "complete")
    tally.observe("rowlease_worker_run_seconds", text, text, seconds=1)
    return worker_exposition(tally, {}, "")[1].decode()


@pytest.mark.parametrize("output", [report_of, metrics_of, page_of, format_cell])
def test_text_that_cannot_be_encoded_is_harmless(output: Callable[[str], str]) -> None:
    text = output(UNENCODABLE)
    assert text.encode()
    assert "FORGED" in text
    assert r"\ud800" in text
    assert harm(text) == []
