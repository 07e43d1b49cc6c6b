"""The demo: runs Spark, the queue and workers on real data, and compares every row.

`run_demo` is imported when it is first used, because workers need only the tasks of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowlease.demo.run import run_demo

__all__ = ["run_demo"]


def __getattr__(name: str) -> Any:
    if name == "run_demo":
        from rowlease.demo.run import run_demo

        return run_demo
    raise AttributeError(f"module 'rowlease.demo' has no attribute {name!r}")
