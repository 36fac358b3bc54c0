"""Debezium's source block of MySQL and MariaDB, with an event's position in the binlog (the
connectors' SourceInfo).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from dblog.codecs import envelope
from dblog.codecs.envelope import INT32, INT64, OPTIONAL_INT64, OPTIONAL_STRING, STRING
from dblog.codecs.plan import RowContext, TablePlan
from dblog.codecs.rowplan import source_head
from dblog.codecs.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogContext(RowContext):
    """The event that rows belong to. The two numbers of its ``source.sequence`` are (epoch << 32 |
    file index; pos << 23) (D7).
    """

    file: str
    pos: int
    server_id: int
    gtid: str | None = None
    thread: int | None = None
    query: str | None = None
    begin: int = 0
    """The position at which the transaction begins; 0 if it is not needed."""

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"


@cache
def source_schema(connector: str) -> Schema:
    """Return the schema of the source block of ``mysql`` or ``mariadb``."""
    return envelope.source_schema(
        connector,
        ("table", OPTIONAL_STRING),
        ("server_id", INT64),
        ("gtid", OPTIONAL_STRING),
        ("file", STRING),
        ("pos", INT64),
        ("row", INT32),
        ("thread", OPTIONAL_INT64),
        ("query", OPTIONAL_STRING),
    )


def source_block(plan: TablePlan, context: BinlogContext, *, row: int) -> dict[str, Any]:
    """Return the envelope's ``source`` of one row."""
    return source_head(plan, context, row=row, database=plan.table.id.database) | {
        "table": plan.table.id.name,
        "server_id": context.server_id,
        "gtid": context.gtid,
        "file": context.file,
        "pos": context.pos,
        "row": row,
        "thread": context.thread,
        "query": context.query,
    }
