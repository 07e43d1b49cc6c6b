"""The worker: leases requests, runs their tasks, reports what became of them.

`worker` puts it together from three wings: `claims` talks to the database about requests, `slots`
runs their tasks, `host` reports its health, handles signals, and supervises several.

Names are imported when they are first used: a child process needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowlease.worker.cores import usable_cores
    from rowlease.worker.summary import Summary
    from rowlease.worker.worker import Worker

__all__ = ["Summary", "Worker", "usable_cores"]

_HOMES = {
    "Summary": "rowlease.worker.summary",
    "Worker": "rowlease.worker.worker",
    "usable_cores": "rowlease.worker.cores",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rowlease.worker' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
