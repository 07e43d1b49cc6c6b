"""The main job on real data: Spark, queue, workers, Spark; and every row compared.

`run_demo` is imported when it is first used: the workers import this package for its tasks.
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
