"""What processes took: CPU seconds and resident memory, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, of all its threads, to 10 ms."""
    fields = _after_name(Path(f"/proc/{pid}/stat"))
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def wants_a_core(pid: int) -> bool:
    """Whether a thread of it runs, waits for a core, or for a disk: state R or D."""
    return any(_after_name(task / "stat")[0] in "RD" for task in Path(f"/proc/{pid}/task").iterdir())


def _after_name(stat: Path) -> list[str]:
    """Fields 3 and on: what follows the last bracket, as the name in brackets may hold anything."""
    return stat.read_text().rpartition(")")[2].split()


def rss_mib(pid: int) -> float:
    """Resident memory now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def pin(pids: Iterable[int], core: int) -> None:
    """All threads of these processes to one core, if there are several."""
    if core >= (os.cpu_count() or 1):
        return
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})
