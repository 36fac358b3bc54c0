"""A server for a benchmark, with the tables and the accounts that it needs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from demo.pipeline import CONNECTOR_USER, create_connector_user
from postgres import PostgresTables
from stack import MariaDb, MySql, Postgres
from tables import DATABASE, Source

SOURCES = ("mysql", "mariadb", "postgres")


@contextlib.contextmanager
def prepared(source: str, folder: Path, *, debezium: bool = False) -> Iterator[Source | PostgresTables]:
    """Start the server of that name with its data in a folder of the same name. ``debezium``: its snapshots may do what they ask for."""
    if source == "postgres":
        options = {"shared_buffers": "1GB", "max_wal_size": "8GB", "logical_decoding_work_mem": "256MB"}
        with Postgres(folder / source, durable=False, options=options) as server:
            tables = PostgresTables(server)
            tables.prepare()
            yield tables
        return
    kind = MySql if source == "mysql" else MariaDb
    lasting = "binlog_expire_logs_seconds" if source == "mysql" else "expire_logs_days"
    with kind(folder / source, durable=False, options={"innodb_buffer_pool_size": "1G", lasting: 0, "max_binlog_size": "1G"}) as server:
        create_connector_user(server)
        found = Source(server)
        if debezium:
            found.execute(f"GRANT RELOAD, SHOW DATABASES, LOCK TABLES ON *.* TO '{CONNECTOR_USER}'@'%'")  # its snapshot asks for these
        found.prepare()
        if debezium:  # its incremental one writes windows into the table of signals
            found.execute(f"GRANT INSERT, DELETE ON {DATABASE}.* TO '{CONNECTOR_USER}'@'%'")
        yield found
