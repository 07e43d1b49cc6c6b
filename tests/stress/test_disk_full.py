"""The server's disk is full again and again, under load: every promise is kept.

`ROWLEASE_STRESS_TIMES=20` is the long form, 60 times. The disk is a small one in memory, which
only root can make.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stress import faults
from tests.stress.faults import NothingDone, Run
from tests.stress.history import Asked, Fault
from tests.stress.replicas import Seed, until
from tests.stress.rounds import one_round

TIMES = int(os.environ.get("ROWLEASE_STRESS_TIMES", "1"))
SEED = os.environ.get("ROWLEASE_STRESS_SEED", "1")
#: How often a disk is full; one of each of TIMES.
TURNS = 3
#: A server and its log fit, with some of what it writes under load.
SIZE = "256m"
#: So that the log leaves room.
SMALL = {"wal_keep_size": "0", "max_wal_size": "64MB", "min_wal_size": "32MB"}
FULL = "disk full"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root can make a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place], capture_output=True
    )
    if made.returncode:
        pytest.skip("this machine lets nobody mount a disk")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("time", range(TIMES))
def test_a_disk_that_is_full_breaks_no_promise(
    time: int, seed: Seed, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ballast = small_disk / "ballast"
    noticed = 0

    def fill(run: Run) -> None:
        """Fill the disk, until the server has refused something or has stopped; then empty it."""
        nonlocal noticed
        with ballast.open("wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 65_536):
                    pass
            except OSError:
                pass
        before = refusals(run)
        try:
            until("a call misses room", lambda: refusals(run) > before, patience=20)
        except AssertionError:
            raise NothingDone from None
        finally:
            ballast.unlink()
        noticed += 1
        if run.server.process.poll() is not None:  # it had no room for its log
            run.server.start()
            run.history.add(Fault("database crash"))
        until("the server answers", run.server.answers)

    def refusals(run: Run) -> int:
        """How many calls of the producer were not answered, or the server has stopped."""
        calls = [one for one in run.history.events if isinstance(one, Asked)]
        stopped = run.server.process.poll() is not None
        return sum(one.answer in ("refused", "unknown") for one in calls) + stopped

    monkeypatch.setitem(faults.FAULTS, FULL, (fill, TURNS))
    for name, value in SMALL.items():
        monkeypatch.setitem(faults.SETTINGS, name, value)
    name = f"seed {SEED}, {FULL}, {time}"
    ledger = tmp_path / "ledger"  # not on the disk, where a line of it would be cut off
    found, broken = one_round(seed, small_disk / "round", [FULL] * TURNS, name, ledger)
    sys.stdout.write(f"\n{name}: {found}\n")
    assert broken == []
    assert noticed == TURNS
    assert found.acknowledged > 0
