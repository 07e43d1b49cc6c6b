"""Which process of a parallel run takes which tests, and when, under `--dist loadfile`.

A file is one process's, so that what its tests share is made once. All of tests/spark is one
process's, but for the files that have Spark sessions of their own: a session is a JVM. The folders
whose files take longest come first, so that no process is left alone with them at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import pytest
from xdist.scheduler import LoadScopeScheduling

#: The folders of tests/, those whose files take longest first; the others after them.
LONGEST_FIRST = ("spark", "stress", "acceptance", "migrations", "contract", "tsql")
#: Files of tests/spark that take no part in its session.
SESSIONS_OF_THEIR_OWN = ("test_pool.py",)


class Turns(LoadScopeScheduling):
    """Hands out files in the order in which they were collected; see above."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        config.option.loadscopereorder = False  # which is by the number of tests
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = PurePath(nodeid.partition("::")[0])
        if file.parent.name == "spark" and file.name not in SESSIONS_OF_THEIR_OWN:
            return str(file.parent)
        return str(file)


def longest_first(items: list[pytest.Item]) -> None:
    """Order tests by folder; what pytest-randomly has shuffled stays shuffled inside of it."""
    items.sort(key=lambda item: _place(item.path.parts))


def _place(parts: Sequence[str]) -> int:
    found = (place for place, folder in enumerate(LONGEST_FIRST) if folder in parts)
    return next(found, len(LONGEST_FIRST))
