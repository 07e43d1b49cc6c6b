"""Each fault some times, combined at random, under load: every promise is kept.

`make faults` is the long form; `ROWLEASE_STRESS_SEED` is the seed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.stress.conftest import SEED, Judge
from tests.stress.faults import FAULTS
from tests.stress.load_kills import kill_drivers
from tests.stress.replicas import Seed
from tests.stress.rounds import COMBINED, KINDS

#: How often each fault happens.
TIMES = 3
#: The kinds of rounds whose callers have another isolation level.
LEVELS = [name for name, kind in KINDS.items() if kind.level != KINDS[COMBINED].level]
#: How many transactions are refused at each level.
REFUSED = 12
#: How many drivers of loads are killed.
KILLS = 10


@pytest.mark.timeout(300)
def test_faults_in_any_order_break_no_promise(judge: Judge) -> None:
    judge(COMBINED, TIMES * len(FAULTS))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", LEVELS)
def test_transactions_that_cannot_be_serialized_break_no_promise(name: str, judge: Judge) -> None:
    judge(name, REFUSED)


@pytest.mark.timeout(300)
def test_a_load_whose_drivers_are_killed_has_the_rows_of_one_run(
    seed: Seed, tmp_path: Path
) -> None:
    found, broken = kill_drivers(seed, tmp_path / "loads", KILLS, f"seed {SEED}")
    sys.stdout.write(f"\nseed {SEED}: {found}\n")
    assert broken == []
    assert found.faults == KILLS
