"""The CPUs that this process really has: those it may run on, and no more than its container's quota."""

from __future__ import annotations

import math
import os
import pathlib
from typing import Final

_CGROUPS: Final = pathlib.Path("/sys/fs/cgroup")
_OWN: Final = pathlib.Path("/proc/self/cgroup")


def usable_cpus() -> int:
    """Return the number of CPUs to size a pool by: at least 1.

    That is the least of the host's CPUs, those of the process's affinity, and the CPU quota of its cgroup (version 2 or
    1) and of the cgroups above that.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(math.ceil(min(cpus, _quota())), 1)


def _quota() -> float:
    """Return the least quota in CPUs; infinity where there is none."""
    quota = min(_version_1(_CGROUPS / "cpu"), _version_1(_CGROUPS / "cpu,cpuacct"))
    for path in _own_groups():
        quota = min(quota, _version_2(path))
    return quota


def _own_groups() -> list[pathlib.Path]:
    """Return the directories of the process's cgroup (version 2) and of those above it."""
    try:
        lines = _OWN.read_text().splitlines()
    except OSError:
        lines = []
    own = next((line[3:] for line in lines if line.startswith("0::")), "/")
    # Within a container the path may be the host's, and the root is the container's own.
    path = _CGROUPS / own.strip("/")
    return [_CGROUPS, path, *(above for above in path.parents if _CGROUPS in above.parents)]


def _version_2(group: pathlib.Path) -> float:
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        # No such file, or "max".
        return math.inf


def _version_1(group: pathlib.Path) -> float:
    try:
        quota = int((group / "cpu.cfs_quota_us").read_text())
        period = int((group / "cpu.cfs_period_us").read_text())
        return quota / period if quota > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
