"""Chooses the driver's memory if it is not set: a share of the container's limit, or 3 GiB.

A JVM without -Xmx takes a share of the limit itself, but spark-submit always sets one. The share is
small because Python, stacks and buffers of Kafka's and Spark's threads, and compiled code need
memory besides the heap. A container over its limit is killed without a message.
"""

from __future__ import annotations

from pathlib import Path

WITHOUT_LIMIT = "3g"
PERCENT = 60
"""Percentage of the container's limit."""
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""Files of the limit in both versions of control groups, as a container sees its own."""
_NONE = 1 << 50
"""Threshold from which on a limit means none: a version 1 group without a limit has a number larger
than any machine's memory.
"""
_MB = 1 << 20


def driver_memory(groups: Path = Path("/sys/fs/cgroup")) -> str:
    """Return the value for ``--driver-memory``."""
    limit = _limit(groups)
    return WITHOUT_LIMIT if limit is None else f"{max(1, limit * PERCENT // 100 // _MB)}m"


def _limit(groups: Path) -> int | None:
    for name in _LIMITS:
        try:
            text = (groups / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < _NONE:
            return int(text)
    return None
