"""What a type checker accepts of an enqueue, and what rowlease does at run time: the same."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rowlease.client import BoundProducer
from rowlease.errors import InvalidRequest
from rowlease.model import Enqueued, NewRequest, Outcome

ROOT = Path(__file__).parents[2]
RIGHT: Any = import_module("tests.typing.right_calls")
WRONG: Any = import_module("tests.typing.wrong_calls")
#: At the end of the wrong ones: only the type of the result is wrong.
ONLY_STATIC = 2


class Store:
    """Accepts every call, and keeps what is enqueued."""

    def __init__(self) -> None:
        self.enqueued: list[NewRequest] = []

    def enqueue_many(self, queue: str, requests: list[NewRequest], **_: Any) -> list[Enqueued]:
        self.enqueued += requests
        return [Enqueued(number, Outcome.OK) for number, _ in enumerate(requests, 1)]


def calls_of(module: Any) -> list[ast.stmt]:
    """The statements in the module's function `calls`, each of which is one call."""
    tree = ast.parse(Path(module.__file__).read_text())
    (function,) = (each for each in tree.body if isinstance(each, ast.FunctionDef))
    return function.body


def make(call: ast.stmt, module: Any) -> Store:
    """Make one of the calls, and return where it arrived."""
    store: Any = Store()
    code = compile(ast.Module([call], []), module.__file__, "exec")
    try:
        exec(code, {**vars(module), "client": BoundProducer(store, None)})
    except Exception as error:
        error.add_note(f"enqueued: {store.enqueued}")
        raise
    assert isinstance(store, Store)
    return store


def refused_by(checker: str) -> set[tuple[str, int]]:
    """Where a type checker finds an error: the file and the line."""
    files = [str(Path(each.__file__).relative_to(ROOT)) for each in (RIGHT, WRONG)]
    if checker == "mypy":
        ran = run("mypy", "--strict", *files)
        found = re.findall(r"(\w+)\.py:(\d+): error", ran)
        return {(name, int(line)) for name, line in found}
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    report = json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable, *files))
    return {
        (Path(each["file"]).stem, each["range"]["start"]["line"] + 1)
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    }


def run(module: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr  # there are errors, and it could look
    return done.stdout


def test_there_are_thirty_of_each() -> None:
    assert [len(calls_of(each)) for each in (RIGHT, WRONG)] == [30, 30]


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_type_checker_refuses_the_wrong_calls_and_no_others(checker: str) -> None:
    wrong = {
        ("wrong_calls", line)
        for call in calls_of(WRONG)
        for line in range(call.lineno, (call.end_lineno or 0) + 1)
    }
    refused = refused_by(checker)
    assert refused <= wrong
    assert all(
        any(("wrong_calls", n) in refused for n in range(call.lineno, (call.end_lineno or 0) + 1))
        for call in calls_of(WRONG)
    )


@pytest.mark.parametrize("call", calls_of(RIGHT), ids=ast.unparse)
def test_a_right_call_enqueues_what_the_task_can_be_called_with(call: ast.stmt) -> None:
    store = make(call, RIGHT)
    if "client." in ast.unparse(call):
        assert store.enqueued
    known = {each.name: each for each in vars(RIGHT).values() if hasattr(each, "parameters")}
    for request in store.enqueued:
        assert isinstance(json.loads(request.payload), dict)
        if "untyped" not in ast.unparse(call):
            known[request.kind].parameters.arguments(request.payload)


@pytest.mark.parametrize("call", calls_of(WRONG)[:-ONLY_STATIC], ids=ast.unparse)
def test_a_wrong_call_is_refused_before_anything_is_written(call: ast.stmt) -> None:
    with pytest.raises((InvalidRequest, TypeError)) as raised:
        make(call, WRONG)
    assert raised.value.__notes__ == ["enqueued: []"]
