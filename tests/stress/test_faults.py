"""Each fault some times, combined at random, under load: every promise is kept.

`make faults` is the long form; `ROWLEASE_STRESS_SEED` is the seed.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from tests.stress.faults import FAULTS
from tests.stress.load_kills import kill_drivers
from tests.stress.replicas import Seed
from tests.stress.rounds import COMBINED, drawn, one_round

SEED = os.environ.get("ROWLEASE_STRESS_SEED", "1")
#: How often each fault happens.
TIMES = 3
#: How many drivers of loads are killed.
KILLS = 10


@pytest.mark.timeout(300)
def test_faults_in_any_order_break_no_promise(seed: Seed, tmp_path: Path) -> None:
    name = f"seed {SEED}"
    faults = drawn(COMBINED, TIMES * len(FAULTS), random.Random(name))
    found, broken = one_round(seed, tmp_path / "round", faults, name)
    sys.stdout.write(f"\n{name}: {found}\n")
    assert broken == []
    assert found.faults == len(faults)
    assert found.acknowledged > 0


@pytest.mark.timeout(300)
def test_a_load_whose_drivers_are_killed_has_the_rows_of_one_run(
    seed: Seed, tmp_path: Path
) -> None:
    found, broken = kill_drivers(seed, tmp_path / "loads", KILLS, f"seed {SEED}")
    sys.stdout.write(f"\nseed {SEED}: {found}\n")
    assert broken == []
    assert found.faults == KILLS
