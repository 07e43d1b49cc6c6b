"""What tasks log and print, in the log of their worker: all of it, with the request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from rowlease.client.client import Client
from tests.acceptance import log_tasks
from tests.acceptance.test_supervisor import PATIENCE

Lines = list[dict[str, Any]]
#: A module that changes the logging of the process which imports it.
CONFIGURED = "tests.acceptance.configured_tasks"


def run(dsn: str, name: str, *options: str, module: str = log_tasks.__name__) -> tuple[str, str]:
    """Run a task in a worker: its stdout and its stderr."""
    command = [sys.executable, "-m", "rowlease", "worker", f"{module}:{name}"]
    done = subprocess.run(
        [*command, "--burst", *options],
        env={**os.environ, "ROWLEASE_DSN": dsn, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def logged(dsn: str, name: str, *options: str) -> Lines:
    """What loggers of a task, its stdout and its stderr have logged."""
    _, err = run(dsn, name, "--log-format", "json", *options)
    return [line for line in map(json.loads, err.splitlines()) if "logger" in line]


def test_the_lines_of_four_children_are_all_there_and_in_order(dsn: str) -> None:
    with Client(dsn) as client:
        requests = {
            handle.request_id: f"request {number}"
            for number in range(40)
            for handle in [client.enqueue(log_tasks.count, f"request {number}", 500)]
        }
    found: dict[int, list[int]] = defaultdict(list)
    children = set()
    for line in logged(dsn, "count", "--concurrency", "4"):
        name = requests[line["request_id"]]
        assert line["message"] == f"line {line['number']} of {name}"
        assert (line["kind"], line["queue_name"], line["attempt"]) == ("count", "default", 1)
        found[line["request_id"]].append(line["number"])
        children.add(line["process"])
    assert found == {request_id: list(range(500)) for request_id in requests}
    assert len(children) == 4


@pytest.mark.parametrize(
    ("name", "executor"),
    [
        ("say", "process"),
        ("say", "thread"),
        ("say_async", "process"),
        ("say_async", "thread"),
        ("say_async", "coroutine"),
    ],
)
def test_a_record_of_a_task_has_its_request(name: str, executor: str, dsn: str) -> None:
    with Client(dsn) as client:
        handle = client.enqueue_untyped(name)
    sold, failed = logged(dsn, name, "--executor", executor)
    request = {
        "request_id": handle.request_id,
        "queue_name": "default",
        "kind": name,
        "attempt": 1,
        "logger": "shop",
    }
    assert sold == request | {
        "time": sold["time"],
        "process": sold["process"],
        "level": "info",
        "message": "sold 7",
        "order": 7,
        "took": 2.0,
    }
    assert failed.items() >= (request | {"level": "error", "message": "not sold"}).items()
    assert failed["exception"].startswith("Traceback (most recent call last):\n")
    assert failed["exception"].endswith("ValueError: one\ntwo")


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_line_of_text_has_the_request_too(executor: str, dsn: str) -> None:
    with Client(dsn) as client:
        number = client.enqueue(log_tasks.say).request_id
    _, err = run(dsn, "say", "--executor", executor)
    request = f"request_id={number} queue_name=default kind=say attempt=1"
    assert f" INFO sold 7 {request}\n" in err
    before, after = err.split(f" ERROR not sold {request}\n  Traceback (most recent call last):\n")
    assert "hidden" not in before
    assert "  ValueError: one\n  two\n" in after


def test_what_a_child_prints_is_logged_line_by_line(dsn: str) -> None:
    with Client(dsn) as client:
        number = client.enqueue(log_tasks.show).request_id
    out, err = run(dsn, "show", "--log-format", "json", "--log-level", "error")
    assert out.splitlines()[0] == "directly"
    lines = [json.loads(line) for line in err.splitlines()]
    assert {(line["request_id"], line["kind"]) for line in lines} == {(number, "show")}
    assert [(line["logger"], line["level"], line["message"]) for line in lines] == [
        ("stdout", "info", "one 1"),
        ("stdout", "info", "two"),
        ("stdout", "info", "three"),
        ("stderr", "warning", "four"),
        ("stdout", "info", "no end"),
    ]


def test_the_last_lines_of_a_child_that_dies_are_kept(dsn: str) -> None:
    with Client(dsn) as client:
        numbers = [client.enqueue(log_tasks.die).request_id for _ in range(5)]
    found = [(one["request_id"], one["message"]) for one in logged(dsn, "die")]
    texts = ("before", "last words")
    assert sorted(found) == sorted((number, text) for number in numbers for text in texts)


def test_the_level_holds_for_all_loggers(dsn: str) -> None:
    with Client(dsn) as client:
        client.enqueue(log_tasks.say)
    assert [line["message"] for line in logged(dsn, "say", "--log-level", "warning")] == [
        "not sold"
    ]
    with Client(dsn) as client:
        client.enqueue(log_tasks.say)
    messages = [line["message"] for line in logged(dsn, "say", "--log-level", "debug")]
    assert [one for one in messages if one in ("hidden", "sold 7")] == ["hidden", "sold 7"]


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_a_record_is_logged_once_whatever_the_module_sets_up(
    executor: str, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log"
    monkeypatch.setenv("LOG_OF_TEST", str(file))
    with Client(dsn) as client:
        client.enqueue_untyped("sell")
    options = ("--executor", executor, "--log-format", "json")
    out, err = run(dsn, "sell", *options, module=CONFIGURED)
    assert out.startswith("1 finished in ")
    lines = [json.loads(line) for line in err.splitlines()]
    found = [(one["logger"], one["level"], one["message"]) for one in lines if "logger" in one]
    assert found == [
        ("shop", "info", "sold"),
        ("shop.mail", "info", "sent"),
        ("other", "warning", "done"),
    ]
    assert [one["event"] for one in lines if "event" in one][-1] == "worker_stopped"
    assert file.read_text().split() == ["sold", "sent"]
