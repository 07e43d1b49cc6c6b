"""Assigns the tests of a parallel run to processes, and orders them, under `--dist loadfile`.

A file runs in one process, so that fixtures of its tests are created once. The files of tests/spark
run in few processes, because a Spark session is a JVM: those of the demo and the report in one, all
others in another, except files with sessions of their own. The folders whose files take longest
come first, so that no process runs them alone at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import pytest
from xdist.scheduler import LoadScopeScheduling

#: The folders of tests/, those whose files take longest first; other folders follow.
LONGEST_FIRST = ("spark", "stress", "tsql", "acceptance", "fuzz", "migrations", "contract")
#: Files of tests/spark that do not use its common session.
SESSIONS_OF_THEIR_OWN = ("test_pool.py",)
#: Files of tests/spark that run in a process of their own, so that one process does not run all.
DEMO_AND_REPORT = ("test_demo.py", "test_demo_source.py", "test_report.py")


class Turns(LoadScopeScheduling):
    """Assigns files in the order in which they were collected; see above."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        config.option.loadscopereorder = False  # it would order by the number of tests
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = PurePath(nodeid.partition("::")[0])
        if file.parent.name == "spark" and file.name not in SESSIONS_OF_THEIR_OWN:
            return str(file.parent / "demo" if file.name in DEMO_AND_REPORT else file.parent)
        return str(file)


def longest_first(items: list[pytest.Item]) -> None:
    """Order tests by folder; inside a folder the order of pytest-randomly stays."""
    items.sort(key=lambda item: _place(item.path.parts))


def _place(parts: Sequence[str]) -> int:
    found = (place for place, folder in enumerate(LONGEST_FIRST) if folder in parts)
    return next(found, len(LONGEST_FIRST))
