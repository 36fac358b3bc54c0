"""One transaction of several GiB followed by log: how much memory does the task take? (I6)

A task without Kafka, so what is measured is the log's part: decoder, encoder, queue. Rows of 8 KiB of text, in one statement: of MySQL plain and with
binlog_transaction_compression=ON (MySQL does not compress what would take more than 1 GiB), or of PostgreSQL (``--source postgres``). Ends with an error
beyond the limit.
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
from stack import MySql, Postgres  # noqa: E402
from support import postgres  # noqa: E402
from support.follower import Follower  # noqa: E402
from support.postgres_follower import PostgresFollower  # noqa: E402
from support.registry_server import RegistryServer  # noqa: E402
from support.servers import execute, new_database  # noqa: E402
from support.task_follower import TaskFollower  # noqa: E402

FOLDER = ROOT / "build" / "bench-transaction"
LIMIT_MIB = 300
ROW_BYTES = 8192
AVRO = "io.confluent.connect.avro.AvroConverter"


def measure_mysql(source: MySql, registry: str, *, rows: int, compressed: bool) -> float:
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
    peak = followed(follower, rows, "compressed" if compressed else "plain", log_bytes(source) - before)
    execute(source, f"DROP DATABASE {database}", "FLUSH BINARY LOGS")
    execute(source, f"PURGE BINARY LOGS TO '{execute(source, 'SHOW BINARY LOGS')[-1][0]}'")
    return peak


def measure_postgres(source: Postgres, registry: str, *, rows: int) -> float:
    """The same. The server keeps a transaction on its disk while it decodes it, and sends it behind the commit."""
    database = postgres.new_database(source, "big")
    postgres.execute(
        source,
        "CREATE TABLE t (id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, s TEXT)",
        "ALTER TABLE t ALTER s SET STORAGE EXTERNAL",  # not compressed
        database=database,
    )
    follower = PostgresFollower(source, database, **{"snapshot.mode": "no_data", **converters(registry)})
    follower.start()
    follower.task.stop()
    ((before,),) = postgres.execute(source, "SELECT pg_current_wal_lsn()")
    postgres.execute(
        source,
        f"INSERT INTO t (s) SELECT repeat(md5(n::text) || md5((-n)::text), {ROW_BYTES // 64}) FROM generate_series(1, {rows}) n",
        database=database,
    )
    ((logged,),) = postgres.execute(source, f"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '{before}')::bigint")
    return followed(follower, rows, "plain", int(str(logged)))


def followed(follower: TaskFollower, rows: int, what: str, logged: int) -> float:
    """Peak resident memory in MiB until so many rows have come; ``logged``: bytes of log."""
    follower.task = follower.new_task()
    pid = os.getpid()
    forget_peak(pid)
    began_s, began_cpu_s, seen, size = time.monotonic(), cpu_s(pid), 0, 0
    first_s = None
    follower.task.start(follower.offset)
    while seen < rows:
        for batch in follower.task.poll(timeout_s=0.1, records_max=2000, bytes_max=1 << 20):
            seen += sum(len(segment.values) for segment in batch.segments if segment.table is not None)
            size += batch.bytes_total
            first_s = time.monotonic() - began_s if first_s is None and seen else first_s
    peak = peak_mib(pid)
    print(
        f"{what:>10}: {rows} rows, {size >> 20} MiB of records from {logged >> 20} MiB of log in {time.monotonic() - began_s:.0f} s, the first "
        f"behind {first_s:.0f} s ({cpu_s(pid) - began_cpu_s:.0f} s CPU), peak {peak:.0f} MiB"
    )
    follower.task.stop()
    return peak


def log_bytes(source: MySql) -> int:
    return sum(int(str(size)) for _, size, *_ in execute(source, "SHOW BINARY LOGS"))


def converters(registry: str) -> dict[str, str]:
    return {f"{part}.converter": AVRO for part in ("key", "value")} | {
        f"{part}.converter.schema.registry.url": registry for part in ("key", "value")
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--gib", type=float, default=2.0, help="size of the rows")
    arguments.add_argument("--source", choices=("mysql", "postgres"), default="mysql")
    wanted = arguments.parse_args()
    rows = int(wanted.gib * (1 << 30) / ROW_BYTES)
    shutil.rmtree(FOLDER, ignore_errors=True)
    source: MySql | Postgres = MySql(FOLDER, durable=False) if wanted.source == "mysql" else Postgres(FOLDER, durable=False)
    source.start()
    try:
        with RegistryServer() as registry:
            if isinstance(source, Postgres):
                peaks = [measure_postgres(source, registry.url, rows=rows)]
            else:
                peaks = [measure_mysql(source, registry.url, rows=rows, compressed=compressed) for compressed in (False, True)]
    finally:
        source.stop()
        shutil.rmtree(FOLDER, ignore_errors=True)
    if max(peaks) > LIMIT_MIB:
        sys.exit(f"more than {LIMIT_MIB} MiB")


if __name__ == "__main__":
    main()
