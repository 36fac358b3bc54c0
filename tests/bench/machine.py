"""What the numbers were measured on."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path
from typing import Any

import psycopg2
import pymysql
from stack import Postgres
from stack.database import Database


def machine(source: Database) -> dict[str, Any]:
    """Processor, memory, versions."""
    cpu = next(
        (line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?"
    )
    connect = psycopg2.connect if isinstance(source, Postgres) else pymysql.connect
    with contextlib.closing(connect(**source.login)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW server_version" if isinstance(source, Postgres) else "SELECT VERSION()")
        version = cursor.fetchone()[0]
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory_gib),
        "python": platform.python_version(),
        "source": f"{source.flavor} {version}",
    }
