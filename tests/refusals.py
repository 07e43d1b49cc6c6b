"""Where a check of `rowlease engines verify` refuses what it sees."""

from __future__ import annotations

import ast
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rowlease.verify.checks import Broken


def refusals(check: Callable[..., Any]) -> set[int]:
    """The lines on which a check, or a function of its module that it calls, may raise Broken."""
    tree = ast.parse(Path(inspect.getfile(check)).read_text())
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    found: set[int] = set()
    waiting, read = [check.__name__], {"expect"}
    while waiting:
        name = waiting.pop()
        if name in read or name not in functions:
            continue
        read.add(name)
        for node in ast.walk(functions[name]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                waiting.append(node.func.id)
                if node.func.id in ("expect", "Broken"):
                    found.add(node.lineno)
    return found


def refused_at(broken: Broken) -> int:
    """The line on which a check has refused."""
    frames = traceback.extract_tb(broken.__traceback__)
    return next(each.lineno or 0 for each in reversed(frames) if each.name != "expect")
