"""Chunks: the rows that a dump thread has read between two watermarks, and the facts that remain of
them once they are sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dblog.codecs import marker
from dblog.codecs.rowplan import RowEncoder
from dblog.core.dump_book import ChunkRange
from dblog.core.table_dump import Key
from dblog.core.watermark import WatermarkPosition
from dblog.model import Table, TableId
from dblog.readers.extent import Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRead:
    """A chunk as its reader submits it: raw rows, their key range, and the table version of the
    SELECT.
    """

    table: Table
    rows: bytes
    row_count: int
    after: Key | None
    upto: Key | None
    """End of the range (after, upto]: the key of the last row, or the end of the reader's range if
    ``final``.
    """
    final: bool
    inside: bool = False
    """True if the reader's range ends before the table's end. With ``final``, other ranges of the
    table remain, or were read before.
    """
    begins: bool = False
    """True for the table's first chunk: its snapshot has shown ``greatest``, the key where the dump
    ends.
    """
    greatest: Key | None = None
    extent: Extent = field(default_factory=Extent)
    """Dump that the chunk is read for, and what that dump covers."""
    encoder: RowEncoder | None = None
    """Encoder of rows in a shape other than the table's own; None for the table's own."""
    fault: str | None = None
    """Reason why the range cannot be trusted. It counts only when the window closes, because only
    the log can show if the table was changed during the read.
    """
    shown: Any = None
    """Value from which the log thread can prove what the chunk's snapshot shows; None if the
    watermark alone proves it.
    """
    surrogate: tuple[str, ...] | None = None
    """Columns of the range's ends, if they are not the table's key (``core/surrogate.py``)."""

    @property
    def by(self) -> tuple[str, ...]:
        """Columns of the range's ends; empty for a table that is read as a whole."""
        return self.table.key if self.surrogate is None else self.surrogate

    @property
    def range(self) -> ChunkRange:
        """The chunk as the progress of its dump counts it."""
        return ChunkRange(
            dump=self.extent.dump,
            table=self.table.id,
            key=self.by,
            after=self.after,
            upto=self.upto,
            final=self.final,
            begins=self.begins,
            greatest=self.greatest,
            rows=self.row_count,
            size_bytes=len(self.rows),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkMarker:
    """Facts about a closed window (D6), which the task turns into a record of the marker topic."""

    chunk_id: str
    table: TableId
    topic: str
    after: Key | None
    upto: Key | None
    final: bool
    low: WatermarkPosition
    high: WatermarkPosition
    rows_read: int
    rows_dropped: int
    digest: int
    dump: str = marker.INITIAL_DUMP
    mode: str = marker.ROWS
    begins: bool = False
    """True for the table's first chunk in this dump, also after a restart of the table. No other
    chunk of the table has an earlier low watermark.
    """
    scope: str = marker.WHOLE_TABLE
    fingerprints: bytes | None = None
    """Fingerprints of the rows, for a dump that sends no rows."""
    schemas: tuple[str, str] | None = None
    """Schemas of the fingerprints: of keys, and of rows."""
    opened_ms: int | None = None
    """Time when the log thread met the low watermark; later changes were sent after that."""
    own_left: bool | None = None
    """True if the connector's own dump has not finished the table; None for a chunk of that dump
    itself.
    """
    rows_passed: int | None = None
    """Number of rows that the transforms have let through; None without transforms."""
