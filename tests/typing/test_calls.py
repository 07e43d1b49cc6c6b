"""What a type checker accepts of an enqueue, and what rowlease does at run time: the same."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rowlease.client.async_client import AsyncBoundProducer
from rowlease.client.call_threads import CallThreads
from rowlease.client.client import BoundProducer
from rowlease.errors import InvalidRequest
from rowlease.model import Enqueued, NewRequest, Outcome

ROOT = Path(__file__).parents[2]
RIGHT: list[Any] = [
    import_module(f"tests.typing.{name}") for name in ("right_calls", "right_async_calls")
]
WRONG: list[Any] = [
    import_module(f"tests.typing.{name}") for name in ("wrong_calls", "wrong_async_calls")
]
#: Headers, rates, snoozes, middleware and batches, for type checkers only.
DECLARED: list[Any] = [
    import_module(f"tests.typing.{name}") for name in ("right_declarations", "wrong_declarations")
]
#: So many at the end of the wrong ones are refused by type checkers only.
ONLY_STATIC = {"wrong_calls": 2, "wrong_async_calls": 4}


#: Not used: nothing is asked of a handle.


class Store:
    """Accepts every call, and keeps what is enqueued."""

    def __init__(self) -> None:
        self.enqueued: list[NewRequest] = []

    def enqueue_many(self, queue: str, requests: list[NewRequest], **_: Any) -> list[Enqueued]:
        self.enqueued += requests
        return [Enqueued(number, Outcome.OK) for number, _ in enumerate(requests, 1)]

    async def enqueue_many_async(
        self, connection: None, queue: str, requests: list[NewRequest], **_: Any
    ) -> list[Enqueued]:
        return self.enqueue_many(queue, requests)


def calls_of(module: Any) -> list[ast.stmt]:
    """The statements in the module's function `calls`, each of which is one call."""
    tree = ast.parse(Path(module.__file__).read_text())
    (function,) = (
        each
        for each in tree.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == "calls"
    )
    return function.body


def make(call: ast.stmt, module: Any) -> Store:
    """Make one of the calls, and return where it arrived."""
    store: Any = Store()
    is_async = "async" in module.__name__
    client = (
        AsyncBoundProducer(store, None, CallThreads()) if is_async else BoundProducer(store, None)
    )
    awaited = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(ast.Module([call], []), module.__file__, "exec", flags=awaited)
    try:
        waiting = eval(code, {**vars(module), "client": client})
        if waiting is not None:
            asyncio.run(waiting)
    except Exception as error:
        error.add_note(f"enqueued: {store.enqueued}")
        raise
    assert isinstance(store, Store)
    return store


def refused_by(checker: str) -> set[tuple[str, int]]:
    """Where a type checker finds an error: the file and the line."""
    files = [str(Path(each.__file__).relative_to(ROOT)) for each in RIGHT + WRONG + DECLARED]
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
    assert [len(calls_of(each)) for each in (RIGHT[0], WRONG[0])] == [30, 30]
    assert [len(calls_of(each)) for each in DECLARED] == [22, 28]


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_type_checker_refuses_the_wrong_calls_and_no_others(checker: str) -> None:
    wrong = [
        {
            (Path(module.__file__).stem, line)
            for line in range(call.lineno, (call.end_lineno or 0) + 1)
        }
        for module in [*WRONG, DECLARED[1]]
        for call in calls_of(module)
    ]
    refused = refused_by(checker)
    assert refused <= set().union(*wrong)
    assert [lines for lines in wrong if not lines & refused] == []


def each_call(modules: list[Any]) -> list[Any]:
    """The calls that run, each with its module."""
    return [
        pytest.param(call, module, id=ast.unparse(call))
        for module in modules
        for call in calls_of(module)[: -ONLY_STATIC.get(Path(module.__file__).stem, 0) or None]
    ]


@pytest.mark.parametrize(("call", "module"), each_call(RIGHT))
def test_a_right_call_enqueues_what_the_task_can_be_called_with(
    call: ast.stmt, module: Any
) -> None:
    store = make(call, module)
    if "client." in ast.unparse(call):
        assert store.enqueued
    known = {each.name: each for each in vars(module).values() if hasattr(each, "parameters")}
    for request in store.enqueued:
        assert isinstance(json.loads(request.payload), dict)
        if "untyped" not in ast.unparse(call):
            known[request.kind].parameters.arguments(request.payload)


@pytest.mark.parametrize(("call", "module"), each_call(WRONG))
def test_a_wrong_call_is_refused_before_anything_is_written(call: ast.stmt, module: Any) -> None:
    with pytest.raises((InvalidRequest, TypeError)) as raised:
        make(call, module)
    assert raised.value.__notes__ == ["enqueued: []"]
