from __future__ import annotations

import os
from pathlib import Path

import pytest

from rowlease.cores import usable_cores


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of eight cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    (tmp_path / "proc/self").mkdir(parents=True)
    return tmp_path


def test_there_are_no_more_cores_than_the_affinity_mask_has() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_without_cgroups_the_affinity_counts(root: Path) -> None:
    assert usable_cores(root) == 8


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 8),
        ("400000 100000", 4),
        ("150000 100000", 2),
        ("1000 100000", 1),
        ("9900000 100000", 8),
        ("?", 8),
    ],
)
def test_a_quota_of_version_2_counts(root: Path, quota: str, cores: int) -> None:
    (root / "proc/self/cgroup").write_text("0::/app\n")
    (root / "sys/fs/cgroup/app").mkdir(parents=True)
    (root / "sys/fs/cgroup/app/cpu.max").write_text(f"{quota}\n")
    assert usable_cores(root) == cores


def test_the_smallest_quota_of_all_groups_above_counts(root: Path) -> None:
    (root / "proc/self/cgroup").write_text("0::/team/app\n")
    (root / "sys/fs/cgroup/team/app").mkdir(parents=True)
    (root / "sys/fs/cgroup/team/app/cpu.max").write_text("600000 100000\n")
    (root / "sys/fs/cgroup/team/cpu.max").write_text("300000 100000\n")
    assert usable_cores(root) == 3


@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize("inside", ["", "docker/abc"], ids=["a container's own", "the host's path"])
def test_a_quota_of_version_1_counts(root: Path, mount: str, inside: str) -> None:
    (root / "proc/self/cgroup").write_text("4:memory:/x\n3:cpu,cpuacct:/docker/abc\n0::/\n")
    folder = root / "sys/fs/cgroup" / mount / inside
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("250000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(root) == 3


def test_no_quota_of_version_1_is_minus_one(root: Path) -> None:
    (root / "proc/self/cgroup").write_text("1:cpu:/\n")
    (root / "sys/fs/cgroup/cpu").mkdir(parents=True)
    (root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").write_text("-1\n")
    (root / "sys/fs/cgroup/cpu/cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(root) == 8
