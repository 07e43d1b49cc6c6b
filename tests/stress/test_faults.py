"""Each fault some times, combined at random, under load: every promise is kept.

`make faults` is the long form; `ROWLEASE_STRESS_SEED` is the seed.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from tests.stress.faults import COMBINED, FAULTS, drawn, one_round
from tests.stress.replicas import Seed

SEED = os.environ.get("ROWLEASE_STRESS_SEED", "1")
#: How often each fault happens.
TIMES = 3


@pytest.mark.timeout(300)
def test_faults_in_any_order_break_no_promise(seed: Seed, tmp_path: Path) -> None:
    name = f"seed {SEED}"
    faults = drawn(COMBINED, TIMES * len(FAULTS), random.Random(name))
    found, broken = one_round(seed, tmp_path / "round", faults, name)
    sys.stdout.write(f"\n{name}: {found}\n")
    assert broken == []
    assert found.faults == len(faults)
    assert found.acknowledged > 0
