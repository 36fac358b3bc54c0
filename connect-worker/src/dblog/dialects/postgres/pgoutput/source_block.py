"""Builds Debezium's source block of PostgreSQL (its connector's SourceInfo): schema, transaction
and LSN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from dblog.codecs import envelope
from dblog.codecs.envelope import OPTIONAL_INT64, OPTIONAL_STRING, STRING
from dblog.codecs.plan import RowContext, TablePlan
from dblog.codecs.rowplan import source_head
from dblog.codecs.schema import Schema
from dblog.dialects.postgres.pgoutput.position import lsn_text

CONNECTOR = "postgresql"
"""Value of ``source.connector``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresContext(RowContext):
    """The change that rows belong to. ``xid`` and ``lsn`` are None for rows of a chunk."""

    database: str
    xid: int | None = None
    lsn: int | None = None
    origin: str | None = None
    origin_lsn: int | None = None

    def __str__(self) -> str:
        return "a chunk" if self.lsn is None else lsn_text(self.lsn)


@cache
def source_schema() -> Schema:
    """Return the schema of the source block."""
    return envelope.source_schema(
        CONNECTOR,
        ("schema", STRING),
        ("table", STRING),
        ("txId", OPTIONAL_INT64),
        ("lsn", OPTIONAL_INT64),
        ("xmin", OPTIONAL_INT64),
        ("origin", OPTIONAL_STRING),
        ("origin_lsn", OPTIONAL_INT64),
    )


def source_of_message(context: PostgresContext, *, version: str, name: str) -> dict[str, Any]:
    """Return the ``source`` of a logical message, which belongs to no table."""
    return {
        "version": version,
        "connector": CONNECTOR,
        "name": name,
        "ts_ms": context.source_ts_us // 1000,
        "db": context.database,
        "sequence": f'["{context.sequence_high}","{context.sequence_low}"]',
        "ts_us": context.source_ts_us,
        "ts_ns": context.source_ts_us * 1000,
        "schema": "",
        "table": "",
        "txId": context.xid,
        "lsn": context.lsn,
        "xmin": None,
        "origin": context.origin,
        "origin_lsn": context.origin_lsn,
    }


def source_block(plan: TablePlan, context: PostgresContext, *, row: int) -> dict[str, Any]:
    """Return the envelope's ``source`` of one row."""
    return source_head(plan, context, row=row, database=context.database) | {
        "schema": plan.table.id.database,
        "table": plan.table.id.name,
        "txId": context.xid,
        "lsn": context.lsn,
        "xmin": None,
        "origin": context.origin,
        "origin_lsn": context.origin_lsn,
    }
