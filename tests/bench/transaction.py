"""One transaction of several GiB followed by log: how much memory does the task take? (I6)

A task without Kafka, so what is measured is the log's part: decoder, encoder, queue. Rows of 8 KiB of text, in one statement, MySQL, plain and with
binlog_transaction_compression=ON (MySQL does not compress what would take more than 1 GiB). Ends with an error beyond the limit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from cost import cpu_s, forget_peak, peak_mib  # noqa: E402
from stack import MySql  # noqa: E402
from stack.database import Database  # noqa: E402
from support.follower import Follower  # noqa: E402
from support.registry_server import RegistryServer  # noqa: E402
from support.servers import execute, new_database  # noqa: E402

FOLDER = ROOT / "build" / "bench-transaction"
LIMIT_MIB = 300
ROW_BYTES = 8192
AVRO = "io.confluent.connect.avro.AvroConverter"


def measure(source: Database, registry: str, *, rows: int, compressed: bool) -> float:
    """Peak resident memory in MiB while the transaction is read."""
    database = new_database(source, "big")
    execute(source, "FLUSH BINARY LOGS", "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, s TEXT)", database=database)
    follower = Follower(source, database, **{"snapshot.mode": "no_data", **converters(registry)})
    follower.start()
    follower.task.stop()
    before = log_bytes(source)
    execute(
        source,
        f"SET SESSION binlog_transaction_compression = {'ON' if compressed else 'OFF'}, cte_max_recursion_depth = {rows + 1}",
        "INSERT INTO t (s) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < "
        f"{rows}) SELECT REPEAT(TO_BASE64(RANDOM_BYTES(750)), {ROW_BYTES // 1014 + 1}) FROM n",
        database=database,
    )
    logged = log_bytes(source) - before
    follower.task = follower.new_task()
    pid = os.getpid()
    forget_peak(pid)
    began_s, began_cpu_s, seen, size = time.monotonic(), cpu_s(pid), 0, 0
    follower.task.start(follower.offset)
    while seen < rows:
        for batch in follower.task.poll(timeout_s=0.1, records_max=2000, bytes_max=1 << 20):
            seen += sum(len(segment.values) for segment in batch.segments if segment.table is not None)
            size += batch.bytes_total
    peak = peak_mib(pid)
    follower.task.stop()
    print(
        f"{'compressed' if compressed else 'plain':>10}: {rows} rows, {size >> 20} MiB of records from {logged >> 20} MiB of log in "
        f"{time.monotonic() - began_s:.0f} s ({cpu_s(pid) - began_cpu_s:.0f} s CPU), peak {peak:.0f} MiB"
    )
    execute(source, f"DROP DATABASE {database}", "FLUSH BINARY LOGS")
    execute(source, f"PURGE BINARY LOGS TO '{execute(source, 'SHOW BINARY LOGS')[-1][0]}'")
    return peak


def log_bytes(source: Database) -> int:
    return sum(int(str(size)) for _, size, *_ in execute(source, "SHOW BINARY LOGS"))


def converters(registry: str) -> dict[str, str]:
    return {f"{part}.converter": AVRO for part in ("key", "value")} | {
        f"{part}.converter.schema.registry.url": registry for part in ("key", "value")
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--gib", type=float, default=2.0, help="size of the rows")
    rows = int(arguments.parse_args().gib * (1 << 30) / ROW_BYTES)
    shutil.rmtree(FOLDER, ignore_errors=True)
    source = MySql(FOLDER, durable=False)
    source.start()
    try:
        with RegistryServer() as registry:
            peaks = [measure(source, registry.url, rows=rows, compressed=compressed) for compressed in (False, True)]
    finally:
        source.stop()
        shutil.rmtree(FOLDER, ignore_errors=True)
    if max(peaks) > LIMIT_MIB:
        sys.exit(f"more than {LIMIT_MIB} MiB")


if __name__ == "__main__":
    main()
