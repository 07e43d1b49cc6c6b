"""Counts the cores that this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path


def usable_cores(root: Path = Path("/")) -> int:
    """The number of cores in this process's affinity mask, or fewer if a cgroup has a quota.

    The CPU quotas of this process's cgroup and of every visible parent apply, for cgroup versions 1
    and 2. A fraction of a core is rounded up.

    Args:
        root: the folder that contains proc and sys.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(quota) for quota in _quotas(root))]))


def _quotas(root: Path) -> Iterator[float]:
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    top = root / "sys/fs/cgroup"
    for group in groups:
        _, controllers, path = group.split(":", 2)
        if controllers == "":
            mounts, read = [top, top / "unified"], _quota_v2
        elif "cpu" in controllers.split(","):
            mounts, read = [top / controllers, top / "cpu"], _quota_v1
        else:
            continue
        for mount in mounts:
            # In a container this may be the path on the host. The container sees only the mounted
            # part of it, so every parent up to the mount is tried.
            folder = mount / path.lstrip("/")
            for place in (folder, *folder.parents):
                if place.is_relative_to(mount) and (quota := read(place)) is not None:
                    yield quota


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def _quota_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return None if quota <= 0 else quota / period
