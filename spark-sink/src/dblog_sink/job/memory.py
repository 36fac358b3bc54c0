"""How much memory the driver gets where nobody has said it: what a container's limit leaves, else a fixed amount.

A JVM that is given no -Xmx takes a share of the limit by itself, but spark-submit always gives one. The share is small, for beside the heap there are Python,
the stacks and buffers of Kafka's and Spark's threads, and compiled code, and a container over its limit is killed without a word.
"""

from __future__ import annotations

from pathlib import Path

WITHOUT_LIMIT = "3g"
PERCENT = 60
"""Of the container's limit."""
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""The files of both versions of control groups, as a container sees its own."""
_NONE = 1 << 50
"""A version 1 group without a limit has a number so large that no machine has it."""
_MB = 1 << 20


def driver_memory(groups: Path = Path("/sys/fs/cgroup")) -> str:
    """The value for ``--driver-memory``."""
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
