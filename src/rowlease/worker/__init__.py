"""The worker claims requests, runs their tasks and delivers their outcomes.

The module `worker` assembles a worker from components. The package `claims` exchanges requests and
outcomes with the database, `slots` runs tasks, and `host` reports health, handles signals and
supervises workers.

Each public name is imported on first use, because a child process needs only a few modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowlease.cores import usable_cores
    from rowlease.worker.summary import Summary
    from rowlease.worker.worker import Worker

__all__ = ["Summary", "Worker", "usable_cores"]

_MODULES = {
    "Summary": "rowlease.worker.summary",
    "Worker": "rowlease.worker.worker",
    "usable_cores": "rowlease.cores",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'rowlease.worker' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
