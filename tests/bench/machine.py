"""What the numbers were measured on."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path
from typing import Any

import pymysql
from stack.database import Database


def machine(source: Database) -> dict[str, Any]:
    """Processor, memory, versions."""
    cpu = next(
        (line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?"
    )
    with contextlib.closing(pymysql.connect(**source.login)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        version = cursor.fetchone()[0]
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory_gib),
        "python": platform.python_version(),
        "source": f"{source.flavor} {version}",
    }
