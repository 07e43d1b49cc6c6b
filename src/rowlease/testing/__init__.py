"""Helpers for tests: run pending requests, freeze the clock, list waiting requests.

    from rowlease.testing import assert_enqueued, drain, enqueued, frozen, refute_enqueued

The argument `where` of these functions is an open Client, AsyncClient or Store. If rowlease is
installed, pytest finds the fixtures `rowlease_dsn` and `rowlease_client`; see docs/testing.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowlease.testing.clock import Clock as Clock
    from rowlease.testing.clock import frozen as frozen
    from rowlease.testing.draining import Ran as Ran
    from rowlease.testing.draining import drain as drain
    from rowlease.testing.draining import drain_async as drain_async
    from rowlease.testing.waiting import Waiting as Waiting
    from rowlease.testing.waiting import assert_enqueued as assert_enqueued
    from rowlease.testing.waiting import enqueued as enqueued
    from rowlease.testing.waiting import refute_enqueued as refute_enqueued

#: The public names, by their modules.
_NAMES = {
    "clock": "Clock frozen",
    "draining": "Ran drain drain_async",
    "waiting": "Waiting assert_enqueued enqueued refute_enqueued",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # Pytest imports this package in every run, so each name is imported when it is first used.
    if name in _HOMES:
        found = globals()[name] = getattr(import_module(f"rowlease.testing.{_HOMES[name]}"), name)
        return found
    raise AttributeError(f"module 'rowlease.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
