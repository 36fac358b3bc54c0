"""Reads and writes the manifest: a row for each published snapshot, with its position in the source
and the Delta version of every table.

    from dblog_sink.snapshots.manifest import as_of

    snapshot = as_of(spark, "/lake/_dblog", gtid="3e11fa47-71ca-11e1-9e33-c80aa9429562:23")
    snapshot.frame("shop.orders").join(snapshot.frame("shop.order_lines"), "order_id")

The frames of one snapshot show all tables at the end of the same transaction, and every transaction
wholly or not at all. A table for which this is not certain yet is not ``complete``, has a
``reason``, and is opened only on request. Reading needs this file, Spark and Delta; no job has to
run.

A snapshot names versions, so it can be read as long as Delta reads them and their files exist.
``delta/retention.py`` decides the table properties for that, VACUUM respects the ``oldest`` version
that is named, and snapshots leave the manifest before their files are deleted (``job/vacuum.py``,
``target.retain``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.config.log_retention import LOG_LONGER_H
from dblog_sink.errors import DefiniteError
from dblog_sink.records.lsn_positions import lsn_text
from dblog_sink.state.new_table import new_table
from dblog_sink.state.snapshot import Snapshot

_TABLE = t.StructType(
    [
        t.StructField("path", t.StringType()),
        t.StructField("version", t.LongType()),
        t.StructField("mode", t.StringType()),
        t.StructField("complete", t.BooleanType()),
        t.StructField("reason", t.StringType()),
    ]
)
_SCHEMA = t.StructType(
    [
        t.StructField("snapshot", t.LongType()),
        t.StructField("seq1", t.LongType()),
        t.StructField("seq2", t.LongType()),
        t.StructField("transaction", t.StringType()),
        t.StructField("source_file", t.StringType()),
        t.StructField("source_pos", t.LongType()),
        t.StructField("lsn", t.LongType()),
        t.StructField("source_ts", t.TimestampType()),
        t.StructField("published_at", t.TimestampType()),
        t.StructField("tables", t.MapType(t.StringType(), _TABLE)),
        t.StructField("note", t.StringType()),
    ]
)
_GTID = re.compile(r"(?P<source>[0-9a-fA-F-]{36}(:[a-zA-Z_][a-zA-Z0-9_]*)?):(?P<number>\d+)|(?P<domain>\d+)-\d+-(?P<sequence>\d+)")
_LSN = re.compile(r"([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})")
_FILE_POSITION = re.compile(r"(?P<name>.+)\.(?P<file>\d+):(?P<pos>\d+)")
_COMPACT_FROM = 200
"""Number of files from which on they are compacted. Each snapshot writes one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A table in a snapshot."""

    path: str
    version: int
    mode: str
    complete: bool
    """True if the version shows the source's table at the snapshot, and nothing later."""
    reason: str | None = None
    """Reason for not being complete, else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSnapshot:
    """A snapshot of the manifest.

    ``position`` is the greatest position of its rows. Times are in UTC.
    """

    number: int
    position: tuple[int, int]
    transaction: str | None
    source_file: str | None
    source_pos: int | None
    lsn: int | None
    source_ts: datetime | None
    published_at: datetime
    tables: Mapping[str, Entry]
    session: SparkSession

    def frame(self, table: str, *, incomplete: bool = False) -> DataFrame:
        """Return the table as of the snapshot. Raise DefiniteError if it cannot be read.

        ``incomplete`` allows a table that may show more or less than the others.
        """
        entry = self.tables.get(table)
        if entry is None:
            msg = f"snapshot {self.number} has no table {table}; it has {', '.join(sorted(self.tables)) or 'none'}"
            raise DefiniteError(msg)
        if not entry.complete and not incomplete:
            msg = (
                f"{table} is not complete in snapshot {self.number}: {entry.reason}; take a later snapshot, or open it with incomplete=True"
            )
            raise DefiniteError(msg)
        try:
            return self.session.read.format("delta").option("versionAsOf", entry.version).load(entry.path)
        except Exception as e:
            msg = (
                f"{table} cannot be read as of snapshot {self.number} any more: {_unreadable(self.session, entry, e)}; take a later snapshot. A "
                "snapshot can be read for manifest.keep.h if nobody shortens the table's delta.deletedFileRetentionDuration and "
                "delta.logRetentionDuration, or vacuums it sooner"
            )
            raise DefiniteError(msg) from e

    def register(self, *, prefix: str = "", incomplete: bool = False) -> list[str]:
        """Create a temporary view for each table, such as ``shop_orders`` for ``shop.orders``.

        ``incomplete`` includes tables that are not complete. Return the names of the views.
        """
        names = []
        for table, entry in sorted(self.tables.items()):
            if entry.complete or incomplete:
                name = prefix + re.sub(r"\W", "_", table)
                self.frame(table, incomplete=True).createOrReplaceTempView(name)
                names.append(name)
        return names


_UNREADABLE = {
    "BEYOND_DELETED_FILE_RETENTION_DURATION": "was committed longer ago than the table's delta.deletedFileRetentionDuration",
    "DELTA_VERSION_NOT_FOUND": "is not in the table's log, which was dropped after delta.logRetentionDuration, or the table was made again",
    "DELTA_VERSIONS_NOT_CONTIGUOUS": "is not in the table's log, which was dropped after delta.logRetentionDuration",
    "DELTA_LOG_FILE_NOT_FOUND": "is not in the table's log, which was dropped after delta.logRetentionDuration",
}
"""Delta's error classes, with their meaning for the reader."""


def _unreadable(session: SparkSession, entry: Entry, error: Exception) -> str:
    if not DeltaTable.isDeltaTable(session, entry.path):
        return f"its table {entry.path} was moved away or dropped"
    text = str(error)
    lines = [line for line in text.splitlines() if "[DELTA_" in line] or [text.strip().partition("\n")[0]]
    reason = next((reason for name, reason in _UNREADABLE.items() if name in text), f"cannot be opened ({lines[0].strip()})")
    return f"version {entry.version} of {entry.path} {reason}"


def path_of(state_path: str) -> str:
    """Return the path of the manifest."""
    return f"{state_path.rstrip('/')}/manifest"


def as_of(
    session: SparkSession,
    state_path: str,
    *,
    position: tuple[int, int] | str | None = None,
    gtid: str | None = None,
    lsn: int | str | None = None,
    time: datetime | None = None,
) -> PublishedSnapshot:
    """Return the newest snapshot at or before a point of the source, or the newest of all.

    ``position`` is D7's two numbers, or ``binlog.000003:1547``. ``gtid`` is MySQL's ``uuid:n`` or
    MariaDB's ``domain-server-sequence``, compared with snapshots of the same uuid or domain.
    ``lsn`` is a number, or PostgreSQL's ``16/B374D848``. ``time`` is by the source's clock, in UTC
    if it has no zone. Raise DefiniteError if there is no snapshot, or if several points are given.
    """
    given = {"position": position, "gtid": gtid, "lsn": lsn, "time": time}
    asked = {name: value for name, value in given.items() if value is not None}
    if len(asked) > 1:
        msg = f"as of what: {' or '.join(asked)}? Give one"
        raise DefiniteError(msg)
    wanted = F.lit(True)
    if position is not None:
        wanted = _at_position(position)
    elif gtid is not None:
        wanted = _at_gtid(gtid)
    elif lsn is not None:
        wanted = _at_lsn(lsn)
    elif time is not None:
        wanted = _at_time(time)
    rows = _load(session, state_path).where(wanted).orderBy(F.desc("snapshot")).limit(1).collect()
    if not rows:
        point = ", ".join(f"{name} {value}" for name, value in asked.items())
        wanted_point = f" at or before {point}" if point else ""
        msg = f"the manifest {path_of(state_path)} has no snapshot{wanted_point}; older ones have expired, or the first is still to come"
        raise DefiniteError(msg)
    return _snapshot_of(session, rows[0])


def snapshots(session: SparkSession, state_path: str, *, limit: int = 50) -> list[PublishedSnapshot]:
    """Return up to ``limit`` snapshots, newest first."""
    rows = _load(session, state_path).orderBy(F.desc("snapshot")).limit(limit).collect()
    return [_snapshot_of(session, row) for row in rows]


def facts(snapshot: PublishedSnapshot) -> dict[str, Any]:
    """Return a snapshot as values for JSON."""
    times = {
        name: None if at is None else at.isoformat()
        for name, at in (("source_ts", snapshot.source_ts), ("published_at", snapshot.published_at))
    }
    return {
        "snapshot": snapshot.number,
        "position": list(snapshot.position),
        "transaction": snapshot.transaction,
        "source_file": snapshot.source_file,
        "source_pos": snapshot.source_pos,
        "lsn": snapshot.lsn,
        **times,
        "tables": {name: asdict(entry) for name, entry in sorted(snapshot.tables.items())},
    }


def lines_of(snapshot: PublishedSnapshot, *, tables: bool) -> list[str]:
    """Return a snapshot as lines of text. ``tables`` adds a line for each table."""
    position_text = (
        f", {snapshot.source_file}:{snapshot.source_pos}"
        if snapshot.source_file
        else f", lsn {lsn_text(snapshot.lsn)}"
        if snapshot.lsn is not None
        else ""
    )
    open_ones = [name for name, entry in sorted(snapshot.tables.items()) if not entry.complete]
    incomplete = f"; not complete: {', '.join(open_ones)}" if open_ones else ""
    source = "" if snapshot.source_ts is None else f" of {snapshot.source_ts.isoformat()}"
    position = f"position {snapshot.position[0]},{snapshot.position[1]}{position_text}"
    first = f"snapshot {snapshot.number}: transaction {snapshot.transaction}{source}, {position}, {len(snapshot.tables)} tables{incomplete}"
    shown = [
        f"  {name} version {entry.version} of {entry.path} ({entry.mode})" + ("" if entry.complete else f", not complete: {entry.reason}")
        for name, entry in sorted(snapshot.tables.items())
    ]
    return [first, *(shown if tables else ())]


def _load(session: SparkSession, state_path: str) -> DataFrame:
    path = path_of(state_path)
    if not DeltaTable.isDeltaTable(session, path):
        msg = f"there is no manifest at {path}: the job makes it with manifest.interval.s, at its first snapshot"
        raise DefiniteError(msg)
    return session.read.format("delta").load(path)


def _snapshot_of(session: SparkSession, row: Row) -> PublishedSnapshot:
    tables = {name: Entry(**one.asDict()) for name, one in row["tables"].items()}
    return PublishedSnapshot(
        number=row["snapshot"],
        position=(row["seq1"], row["seq2"]),
        transaction=row["transaction"],
        source_file=row["source_file"],
        source_pos=row["source_pos"],
        lsn=row["lsn"],
        source_ts=_utc(row["source_ts"]),
        published_at=_utc(row["published_at"]) or datetime.min.replace(tzinfo=UTC),
        tables=tables,
        session=session,
    )


def _utc(given: datetime | None) -> datetime | None:
    """Convert a time that Spark returned in Python's own zone to UTC."""
    return None if given is None else given.astimezone(UTC)


def _at_position(position: tuple[int, int] | str) -> Column:
    if isinstance(position, str) and (match := _FILE_POSITION.fullmatch(position)) is not None:
        number = F.regexp_extract("source_file", r"\.(\d+)$", 1).cast("long")
        file, pos = int(match["file"]), int(match["pos"])
        same = F.col("source_file").startswith(f"{match['name']}.")
        return same & ((number < file) | ((number == file) & (F.col("source_pos") <= pos)))
    parts = position.split(",") if isinstance(position, str) else position
    try:
        seq1, seq2 = (int(part) for part in parts)
    except ValueError:
        msg = f"{position} is not a position; write it as seq1,seq2, or as a log file and an offset, binlog.000003:1547"
        raise DefiniteError(msg) from None
    return (F.col("seq1") < seq1) | ((F.col("seq1") == seq1) & (F.col("seq2") <= seq2))


def _at_gtid(gtid: str) -> Column:
    match = _GTID.fullmatch(gtid)
    if match is None:
        msg = f"{gtid} is not a GTID of one transaction; MySQL writes it uuid:n, MariaDB domain-server-sequence"
        raise DefiniteError(msg)
    if match["domain"] is not None:
        return _upto(r"^(\d+)-\d+-(\d+)$", match["domain"], int(match["sequence"]))
    return _upto(r"^([0-9a-f-]{36}.*):(\d+)$", match["source"].lower(), int(match["number"]))


def _upto(pattern: str, source: str, number: int) -> Column:
    own = F.lower("transaction")
    return (F.regexp_extract(own, pattern, 1) == source) & (F.regexp_extract(own, pattern, 2).try_cast("decimal(20,0)") <= number)


def _at_lsn(lsn: int | str) -> Column:
    if isinstance(lsn, str):
        match = _LSN.fullmatch(lsn)
        if match is None and not lsn.isdigit():
            msg = f"{lsn} is not an LSN; write a number, or 16/B374D848"
            raise DefiniteError(msg)
        lsn = int(lsn) if match is None else int(match[1], 16) << 32 | int(match[2], 16)
    return F.col("lsn") <= lsn


def _at_time(time: datetime) -> Column:
    ms = round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    return F.col("source_ts") <= F.timestamp_millis(F.lit(ms).cast("long"))


# -- writing --------------------------------------------------------------------------------------------------------------------------------


class Manifest:
    """The manifest, for the job that writes it."""

    def __init__(self, session: SparkSession, state_path: str, *, keep_h: float, log_h: float | None = None) -> None:
        """Open the manifest.

        ``log_h`` is the retention of its log in hours, if it has to be created. None keeps the log
        a day longer than snapshots.
        """
        self._session = session
        self.path = path_of(state_path)
        self._keep_h = keep_h
        self._log_h = keep_h + LOG_LONGER_H if log_h is None else log_h
        self.exists = DeltaTable.isDeltaTable(session, self.path)

    def last(self) -> tuple[int, str, dict[str, Entry]] | None:
        """Return number, note and tables of the newest snapshot, or None if there is none."""
        if not self.exists:
            return None
        rows = self._session.read.format("delta").load(self.path).orderBy(F.desc("snapshot")).limit(1).collect()
        return None if not rows else (rows[0]["snapshot"], rows[0]["note"], dict(_snapshot_of(self._session, rows[0]).tables))

    def publish(self, snapshot: Snapshot, *, tables: Mapping[str, Entry], note: str, txn: tuple[str, int]) -> None:
        """Append a snapshot, unless it is there already.

        ``note`` is the snapshot as JSON, for the case that the control table is lost.
        """
        self._ensure()
        entries: list[Column] = []
        for name, entry in sorted(tables.items()):
            facts = (F.lit(entry.path), F.lit(entry.version), F.lit(entry.mode), F.lit(entry.complete), F.lit(entry.reason))
            entries += [F.lit(name), F.struct(*(one.cast(kind.dataType).alias(kind.name) for one, kind in zip(facts, _TABLE, strict=True)))]
        values: Iterable[Column] = (
            F.lit(snapshot.number),
            F.lit(snapshot.frontier.position[0]),
            F.lit(snapshot.frontier.position[1]),
            F.lit(snapshot.transaction),
            F.lit(snapshot.file),
            F.lit(snapshot.pos),
            F.lit(snapshot.lsn),
            F.timestamp_millis(F.lit(snapshot.ts_ms).cast("long")),
            F.current_timestamp(),
            F.create_map(*entries),
            F.lit(note),
        )
        row = self._session.range(1).select(*(value.cast(f.dataType).alias(f.name) for value, f in zip(values, _SCHEMA, strict=True)))
        writer = row.coalesce(1).write.format("delta").mode("append")
        writer.option("txnAppId", txn[0]).option("txnVersion", txn[1]).save(self.path)

    def expire(self) -> None:
        """Delete snapshots that are older than ``keep_h``, except the newest one."""
        if not self.exists:
            return
        table = DeltaTable.forPath(self._session, self.path)
        newest = table.toDF().agg(F.max("snapshot")).collect()[0][0]
        if newest is None:
            return
        old = F.col("published_at") < F.current_timestamp() - F.make_interval(secs=F.lit(self._keep_h * 3600.0))
        table.delete(old & (F.col("snapshot") < newest))
        files = table.detail().select("numFiles").first()
        if files is not None and files[0] >= _COMPACT_FROM:
            table.optimize().executeCompaction()

    def newest_age_h(self) -> float:
        """Return the age of the newest snapshot in hours, 0 if there is none.

        The tables must keep what it needs, however old it is.
        """
        if not self.exists:
            return 0.0
        age = F.unix_timestamp(F.current_timestamp()) - F.unix_timestamp(F.max("published_at"))
        found = self._session.read.format("delta").load(self.path).agg(age).collect()[0][0]
        return 0.0 if found is None else float(found) / 3600.0

    def oldest(self, path: str) -> int | None:
        """Return the oldest version of the table at ``path`` that a snapshot names, or None."""
        if not self.exists:
            return None
        tables = self._session.read.format("delta").load(self.path).select(F.explode(F.map_values("tables")).alias("one"))
        found = tables.where(F.col("one.path") == path).agg(F.min("one.version")).collect()[0][0]
        return None if found is None else int(found)

    def _ensure(self) -> None:
        if self.exists:
            return
        (
            new_table(self._session, self.path, log_h=self._log_h)
            .addColumns(_SCHEMA)
            .property("delta.checkpointInterval", "50")
            .property("delta.dataSkippingStatsColumns", "snapshot,seq1,seq2,source_ts,published_at,lsn")
            .execute()
        )
        self.exists = True
