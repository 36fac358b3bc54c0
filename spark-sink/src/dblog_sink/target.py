"""What the sink knows of one Delta table, kept between batches so that a batch need not ask for it again.

The table's own properties say what the sink decided when it made the table (mode and key columns); a restart reads them back. The rest is a
cache that is thrown away whenever a write fails.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from dblog_sink import evolve
from dblog_sink.decode import OP, SEQ1, SEQ2, Columns
from dblog_sink.errors import DefiniteError

MIRROR, CHANGELOG = "mirror", "changelog"
_MODE, _KEYS = "dblog.mode", "dblog.keys"
_WITH_STATISTICS = (t.NumericType, t.DateType, t.TimestampType, t.TimestampNTZType, t.StringType)
"""Delta refuses to name other columns for statistics (SkippingEligibleDataType)."""


@dataclass(slots=True)
class Target:
    """One Delta table. ``columns`` are all columns of the source, key columns included, in table order; guard columns are not among them."""

    name: str
    path: str
    mode: str
    key_names: tuple[str, ...]
    columns: Columns
    rows: int
    """Live rows, for progress; counted when the table is opened."""
    commits: int = 0
    """Since the last compaction."""

    @property
    def keys(self) -> Columns:
        """Key columns in key order."""
        kinds = dict(self.columns)
        return tuple((name, kinds[name]) for name in self.key_names)

    @property
    def others(self) -> Columns:
        """Columns that are no key columns."""
        return tuple((name, kind) for name, kind in self.columns if name not in self.key_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """All columns as they are written."""
        guards = (SEQ1, SEQ2) if self.mode == MIRROR else (OP, SEQ1, SEQ2)
        return tuple(name for name, _ in self.columns) + guards


def opened(session: SparkSession, *, name: str, path: str) -> Target | None:
    """The table at ``path``, or None if there is none; DefiniteError if somebody else made it."""
    if not DeltaTable.isDeltaTable(session, path):
        return None
    table = DeltaTable.forPath(session, path)
    properties: Mapping[str, str] = table.detail().select("properties").first()[0]  # type: ignore[index]
    if _MODE not in properties:
        msg = f"{path} is a Delta table that the sink did not make; move it away, or choose another target.path for {name}"
        raise DefiniteError(msg)
    frame = table.toDF()
    guards = {SEQ1, SEQ2, OP}
    return Target(
        name=name,
        path=path,
        mode=properties[_MODE],
        key_names=tuple(json.loads(properties[_KEYS])),
        columns=tuple((field.name, field.dataType) for field in frame.schema.fields if field.name not in guards),
        rows=frame.count(),
    )


def created(session: SparkSession, *, name: str, path: str, keys: Columns, columns: Columns) -> Target:
    """A new, empty table: a mirror if there are keys, else a changelog."""
    mode = MIRROR if keys else CHANGELOG
    key_names = tuple(key for key, _ in keys)
    guards = [(SEQ1, t.LongType()), (SEQ2, t.LongType())]
    indexed = [column for column, kind in keys if isinstance(kind, _WITH_STATISTICS)]
    fields: list[tuple[str, t.DataType]] = [*columns, *([] if keys else [(OP, t.StringType())]), *guards]
    target = Target(name=name, path=path, mode=mode, key_names=key_names, columns=columns, rows=0)
    (
        DeltaTable.createIfNotExists(session)
        .location(path)
        .addColumns(t.StructType([t.StructField(column, kind) for column, kind in fields]))
        .property(_MODE, mode)
        .property(_KEYS, json.dumps(key_names))
        .property("delta.enableDeletionVectors", "true" if keys else "false")
        # A checkpoint each 10 commits is too often for a table that is committed to every few seconds.
        .property("delta.checkpointInterval", "50")
        # Statistics where they prune something: the sink's own columns. Others can be added by the table's owner.
        .property("delta.dataSkippingStatsColumns", ",".join(f"`{column}`" for column in (*indexed, SEQ1, SEQ2)))
        .execute()
    )
    return target


def evolved(session: SparkSession, target: Target, incoming: Columns) -> list[evolve.Change]:
    """Alter the table so that it can hold ``incoming``; returns what was changed."""
    needed = evolve.changes(target.name, target.columns, incoming)
    if needed:
        evolve.apply(session, target.path, needed)
        kinds = dict(target.columns)
        for change in needed:
            kinds[change.name] = change.type
        target.columns = tuple(kinds.items())
    return needed


def compacted(session: SparkSession, target: Target) -> None:
    """Put the table's small files together and drop rows that deletion vectors hide."""
    DeltaTable.forPath(session, target.path).optimize().executeCompaction()
