"""What processes cost: CPU time and peak memory, read from /proc (proc(5)). Linux only, as the project's servers are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """User and system time of a process with all its threads, also the ended ones."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def peak_mib(pid: int) -> float:
    """Peak resident memory since the start or the last `forget_peak`."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def forget_peak(pid: int) -> None:
    """The peak begin again at what is resident now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@dataclass(frozen=True, slots=True)
class Meter:
    """CPU time of a fixed set of processes since the meter was made."""

    began_s: dict[int, float]

    @classmethod
    def of(cls, pids: Iterable[int]) -> Meter:
        return cls({pid: cpu_s(pid) for pid in pids})

    def used_s(self) -> float:
        """Raises FileNotFoundError when one of the processes has ended: then the run is worth nothing."""
        return sum(cpu_s(pid) - began_s for pid, began_s in self.began_s.items())
