"""Helpers for tests: run pending requests, freeze the clock, list waiting requests.

    from rowlease.testing import assert_enqueued, drain, enqueued, frozen, refute_enqueued

The argument `where` of these functions is an open Client, AsyncClient or Store. If rowlease is
installed, pytest finds the fixtures `rowlease_dsn` and `rowlease_client`; see docs/testing.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowlease.testing.clock import Clock, frozen
    from rowlease.testing.draining import Ran, drain, drain_async
    from rowlease.testing.waiting import Waiting, assert_enqueued, enqueued, refute_enqueued

__all__ = [
    "Clock",
    "Ran",
    "Waiting",
    "assert_enqueued",
    "drain",
    "drain_async",
    "enqueued",
    "frozen",
    "refute_enqueued",
]

_HOMES = {
    "Clock": "rowlease.testing.clock",
    "Ran": "rowlease.testing.draining",
    "Waiting": "rowlease.testing.waiting",
    "assert_enqueued": "rowlease.testing.waiting",
    "drain": "rowlease.testing.draining",
    "drain_async": "rowlease.testing.draining",
    "enqueued": "rowlease.testing.waiting",
    "frozen": "rowlease.testing.clock",
    "refute_enqueued": "rowlease.testing.waiting",
}


def __getattr__(name: str) -> Any:
    # Pytest imports this package in every run, so each name is imported when it is first used.
    if name in _HOMES:
        found = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return found
    raise AttributeError(f"module 'rowlease.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
