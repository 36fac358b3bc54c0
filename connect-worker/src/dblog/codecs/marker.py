"""Defines the chunk marker, the record that a closed window leaves: a key range with a count and a
digest at a position (D6).

Three things use markers: removing ghost rows when a table is dumped again, checking that rows
arrived, and comparing lake and source. The record is ours, not Debezium's;
schemas/chunk_marker.avsc is its Avro text, and schemas/README.md explains each field.
"""

from __future__ import annotations

from dblog.codecs.envelope import INT32, INT64, OPTIONAL_INT64, OPTIONAL_STRING, STRING, struct
from dblog.codecs.schema import Kind, Schema

LOG_POSITION = struct(
    "io.dblog.LogPosition",
    ("file", STRING),
    ("pos", INT64),
    ("gtid", OPTIONAL_STRING),
    ("sequence_high", INT64),
    ("sequence_low", INT64),
    version=1,
)
"""Schema of a position in the log: file and byte, and the two numbers by which positions sort
(D7).
"""

PARTITION_OFFSETS = struct(
    "io.dblog.PartitionOffsets",
    ("partition", INT32),
    ("first_offset", INT64),
    ("last_offset", INT64),
    version=1,
)

VERIFIED_SCHEMAS = struct("io.dblog.VerifiedSchemas", ("key", STRING), ("row", STRING), version=1)
"""Avro schemas, as JSON text, with which the bytes were written that the fingerprints hash."""

MARKER_KEY = struct("io.dblog.ChunkMarkerKey", ("table", STRING), version=1)
MARKER_VALUE = struct(
    "io.dblog.ChunkMarker",
    ("version", STRING),
    ("connector", STRING),
    ("server", STRING),
    ("table", STRING),
    ("chunk_id", STRING),
    ("range_after", OPTIONAL_STRING),
    ("range_upto", OPTIONAL_STRING),
    ("final", Schema(kind=Kind.BOOLEAN)),
    ("low", LOG_POSITION),
    ("high", LOG_POSITION),
    ("rows_read", INT64),
    ("rows_dropped", INT64),
    ("digest", INT64),
    ("topic", STRING),
    ("offsets", Schema(kind=Kind.ARRAY, optional=True, items=PARTITION_OFFSETS)),
    ("ts_ms", INT64),
    ("dump", OPTIONAL_STRING),
    ("mode", OPTIONAL_STRING),
    ("begins", Schema(kind=Kind.BOOLEAN, default=False)),
    ("scope", OPTIONAL_STRING),
    ("fingerprints", Schema(kind=Kind.BYTES, optional=True)),
    ("schemas", VERIFIED_SCHEMAS.as_optional()),
    ("low_ts_ms", OPTIONAL_INT64),
    ("own_left", Schema(kind=Kind.BOOLEAN, optional=True)),
    ("rows_passed", OPTIONAL_INT64),
    version=1,
)
"""Schema of a marker. New fields are added at the end, with a default: then readers with the old
schema still work, and a registry accepts the new one as compatible.
"""

INITIAL_DUMP = "initial"
"""Value of ``dump`` for the connector's own dumps: its first one, tables that join, tables that DDL
has rewritten.
"""
ROWS = "rows"
"""Value of ``mode`` for a dump that sends rows and has no other effect."""
WHOLE_TABLE = "table"
"""Value of ``scope`` for a dump that covers every row of its table."""


def signed(digest: int) -> int:
    """Return an unsigned 64-bit digest as the signed long that carries it."""
    return digest - (1 << 64) if digest >= 1 << 63 else digest
