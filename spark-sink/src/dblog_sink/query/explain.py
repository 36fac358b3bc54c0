"""Explains where the state of one key comes from.

``dblog-sink explain shop.orders 4711`` shows the table's state of the key (or that it was deleted,
and at which position), the first Delta version with that state, and every record of the key that
Kafka or the landing table still has: operation, position, source block (file, offset, transaction,
dump or log), schema id, Kafka offset. Nothing is written. No values are shown but those of the
given key.

The records are found by decoding the topic with Spark, as the job does; the Delta version by a
search of the table's history with some small reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise
from typing import Any

from delta.tables import DeltaTable
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.utils import AnalysisException

from dblog_sink.batches.landing import Landing
from dblog_sink.config.job_options import Settings
from dblog_sink.delta.target import FROM, HISTORY, MIRROR, TO
from dblog_sink.delta.tombstones import Tombstones
from dblog_sink.errors import DefiniteError
from dblog_sink.kafka import source
from dblog_sink.records.decode import BAD, OFFSET, OP, SEQ1, SEQ2, TS_MS, Columns
from dblog_sink.records.lsn_positions import lsn_text
from dblog_sink.schema.avro import read_avro
from dblog_sink.schema.registry import Registry
from dblog_sink.schema.types import quote
from dblog_sink.schema.wire_format import is_json, schema_id_of, with_schema_ids
from dblog_sink.state.control_table import read_state
from dblog_sink.state.crash_points import nothing
from dblog_sink.tables.apply import Applier
from dblog_sink.tables.profile import profile

RECORDS_MAX = 1000
"""Maximum number of records of the key that are shown, newest first."""
_ALL_BATCHES = (1 << 62) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The facts about one key. All members are JSON."""

    table: str
    key: dict[str, str]
    mode: str
    state: str
    """``live``, ``deleted``, or ``unknown`` if the table never had the key as far as can be
    seen.
    """
    position: tuple[int, int] | None
    versions: list[dict[str, Any]]
    """Versions of a history or rows of an append-mode table; of a mirror the row, if it exists."""
    delta: dict[str, Any] | None
    """First Delta version with the row in its current state, or without it: ``version``, ``at``,
    ``operation``. None if time travel does not reach that far.
    """
    records: list[dict[str, Any]]
    """Kafka's records of the key, newest position first."""


def key_of(text: str, keys: Columns, table: str) -> dict[str, str]:
    """Return the key columns' values as text from ``4711`` or ``order_id=4711,line=2``.

    Raise DefiniteError that names the columns if the text is not a key.
    """
    names = [name for name, _ in keys]
    if len(names) == 1 and not text.startswith(f"{names[0]}="):
        return {names[0]: text}
    given = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    if sorted(given) != sorted(names):
        msg = f"the key of {table} is {', '.join(names)}: write it as {','.join(f'{name}=...' for name in names)}"
        raise DefiniteError(msg)
    return given


def explain(session: SparkSession, settings: Settings, applier: Applier, registry: Registry, *, table: str, key: str) -> Explained:
    """Look one key up everywhere.

    Raise DefiniteError if there is no such table, or the key does not fit it.
    """
    state = read_state(session, settings.state_path)
    topic = source.topic_to_read(settings, state, table)
    spec = settings.table(topic)
    assert spec is not None
    opened = applier.found(topic, session)
    if opened is None:
        msg = f"{spec.name} has no Delta table yet"
        raise DefiniteError(msg)
    target = opened.target
    if not target.key_names:
        msg = f"{spec.name} has no key: its rows are a list of changes, and none can be asked for by itself"
        raise DefiniteError(msg)
    given = key_of(key, target.keys, spec.name)
    _check_values(session, given, target.keys, spec.name)
    same = _same(given, target.keys)
    shown = [SEQ1, SEQ2] + ([OP, FROM, TO] if target.mode == HISTORY else [OP] if target.mode != MIRROR else [])
    rows = session.read.format("delta").load(target.path).where(same)
    found = (
        rows.select(*shown, *([] if target.soft is None else [F.col(quote(target.soft)).alias("_dblog_soft")]))
        .orderBy(SEQ1, SEQ2)
        .collect()
    )
    alive = [row for row in found if target.mode != HISTORY or row[TO] is None]
    position = max(((row[SEQ1], row[SEQ2]) for row in alive), default=None)
    status = "live" if alive and not (target.soft and alive[-1]["_dblog_soft"]) else "deleted" if found else "unknown"
    if not alive and opened.tombstones is not None and opened.tombstones.exists:
        deleted = session.read.format("delta").load(opened.tombstones.path).where(same).agg(F.max(F.struct(SEQ1, SEQ2))).collect()[0][0]
        if deleted is not None:
            position, status = (deleted[0], deleted[1]), "deleted"
    return Explained(
        table=spec.name,
        key=given,
        mode=target.mode,
        state=status,
        position=position,
        versions=[_version(row) for row in found],
        delta=_version_of(session, target.path, opened.tombstones, same, position, alive=bool(alive)),
        records=_records(session, settings, applier, registry, topic, given),
    )


def _check_values(session: SparkSession, given: Mapping[str, str], keys: Columns, table: str) -> None:
    read = session.range(1).select(*(F.lit(given[name]).try_cast(kind) for name, kind in keys)).collect()[0]
    for value, (name, kind) in zip(read, keys, strict=True):
        if value is None:
            msg = f"{given[name]} is no {kind.simpleString()}, which key column {name} of {table} is: write the key as {name}=... or as the value alone"
            raise DefiniteError(msg)


def _same(given: Mapping[str, str], keys: Columns) -> Column:
    return reduce(lambda a, b: a & b, (F.col(quote(name)) == F.lit(given[name]).cast(kind) for name, kind in keys))


def _version(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {"position": [row[SEQ1], row[SEQ2]]}
    named = {OP: "op", FROM: "from", TO: "to", "_dblog_soft": "marked_deleted"}
    for column, name in named.items():
        if column in row:
            value = row[column]
            found[name] = value.replace(tzinfo=UTC).isoformat() if isinstance(value, datetime) else value
    return found


def _version_of(
    session: SparkSession, path: str, tombstones: Tombstones | None, same: Column, position: tuple[int, int] | None, *, alive: bool
) -> dict[str, Any] | None:
    """Return the Delta version in which the key got its current state, or None if it is unknown."""
    if position is None:
        return None
    if alive:
        row = _first_with(session, path, same, position)
    else:
        deleted = None if tombstones is None else _first_with(session, tombstones.path, same, position)
        row = None if deleted is None else _first_without(session, path, same, deleted["timestamp"])
    if row is None:
        return None
    return {"version": row["version"], "at": row["timestamp"].replace(tzinfo=UTC).isoformat(), "operation": row["operation"]}


def _first_with(session: SparkSession, path: str, same: Column, position: tuple[int, int]) -> Row | None:
    """Return the first version that has the key with this position, by binary search.

    That works because a key's position only rises.
    """
    history = _history(session, path)
    low, high = 0, len(history) - 1
    try:
        newest = _position_at(session, path, history[high]["version"], same)
    except _GoneError:
        return None
    if newest is None or newest < position:
        # The key changes while we look.
        return None
    reached = True
    while low < high:
        middle = (low + high) // 2
        try:
            there = _position_at(session, path, history[middle]["version"], same)
            reached = True
        except _GoneError:
            there, reached = None, False
        if there is not None and there >= position:
            high = middle
        else:
            low = middle + 1
    if not reached or (high == 0 and history[0]["version"] > 0):
        return None
    return history[high]


def _first_without(session: SparkSession, path: str, same: Column, since: datetime) -> Row | None:
    """Return the first version without the key from ``since`` on, when its tombstone was written.

    The version before must have had it.
    """
    history = _history(session, path)
    for before, row in pairwise(history):
        if row["timestamp"] < since:
            continue
        try:
            if _position_at(session, path, row["version"], same) is None:
                return row if _position_at(session, path, before["version"], same) is not None else None
        except _GoneError:
            return None
    return None


class _GoneError(Exception):
    """Raised when a version can no longer be read."""


def _position_at(session: SparkSession, path: str, version: int, same: Column) -> tuple[int, int] | None:
    try:
        at = session.read.format("delta").option("versionAsOf", version).load(path)
        if SEQ1 not in at.columns:
            return None
        row = at.where(same).agg(F.max(F.struct(SEQ1, SEQ2))).collect()[0][0]
    except Exception as e:
        if isinstance(e, AnalysisException) or "FileNotFound" in str(e) or "FILE_NOT_EXIST" in str(e):
            raise _GoneError from e
        raise
    return None if row is None else (row[0], row[1])


def _history(session: SparkSession, path: str) -> list[Row]:
    return DeltaTable.forPath(session, path).history().select("version", "timestamp", "operation").orderBy("version").collect()


def _records(
    session: SparkSession, settings: Settings, applier: Applier, registry: Registry, topic: str, given: Mapping[str, str]
) -> list[dict[str, Any]]:
    by_offset: dict[tuple[int, int], dict[str, Any]] = {}
    landing = Landing(session, f"{settings.state_path}/landing", keep_h=0.0, reached=nothing)
    frames = [("kafka", source.batch(session, settings, topic))]
    if landing.id is not None:
        frames.append(("landing", landing.records(topic, after=-1, to=_ALL_BATCHES)))
    for where, frame in frames:
        raw = with_schema_ids(frame).persist(StorageLevel.DISK_ONLY)
        try:
            for record in _found(session, applier, registry, raw, given):
                kafka = record["kafka"]
                by_offset.setdefault((kafka["partition"], kafka["offset"]), record | {"found_in": where})
        finally:
            raw.unpersist()
    newest = sorted(by_offset.values(), key=lambda one: (one["position"] or [-1, -1], one["kafka"]["offset"]), reverse=True)
    return newest[:RECORDS_MAX]


def _found(
    session: SparkSession, applier: Applier, registry: Registry, raw: DataFrame, given: Mapping[str, str]
) -> Iterable[dict[str, Any]]:
    for stats in profile(raw):
        # A decoded row knows only its offset.
        for partition in sorted(stats.first):
            mine = raw.where(F.col("partition") == partition)
            decoded = applier.rows(stats, mine, session)
            if decoded is None:
                continue
            opened, rows = decoded
            wanted = rows.where(_same(given, opened.target.keys)).select(OFFSET, OP, SEQ1, SEQ2, TS_MS, BAD).collect()
            offsets = {row[OFFSET]: row for row in wanted}
            if not offsets:
                continue
            kept = mine.where(F.col("offset").isin(list(offsets))).select("offset", "timestamp", "value_schema_id", "value").collect()
            schema_ids = {bytes(row["value_schema_id"]) for row in kept if row["value_schema_id"]}
            blocks = _source_blocks(registry, mine.where(F.col("offset").isin(list(offsets))), schema_ids)
            for row in kept:
                one = offsets[row["offset"]]
                schema_id = bytes(row["value_schema_id"]) if row["value_schema_id"] is not None else None
                block = (
                    json.loads(bytes(row["value"])).get("payload", {})
                    if is_json(schema_id) and row["value"]
                    else blocks.get(row["offset"], {})
                )
                yield {
                    "op": one[OP],
                    "position": None if one[SEQ1] is None else [one[SEQ1], one[SEQ2]],
                    "source_ts_ms": one[TS_MS],
                    "source": block.get("source"),
                    "transaction": block.get("transaction"),
                    "schema_id": schema_id_of(schema_id),
                    "kafka": {
                        "topic": stats.topic,
                        "partition": partition,
                        "offset": row["offset"],
                        "timestamp": row["timestamp"].replace(tzinfo=UTC).isoformat(),
                    },
                    "bad": one[BAD],
                }


def _source_blocks(registry: Registry, raw: DataFrame, schema_ids: Iterable[bytes]) -> dict[int, dict[str, Any]]:
    """Return the envelope's ``source`` and ``transaction`` of Avro records, by offset."""
    found: dict[int, dict[str, Any]] = {}
    for one in sorted(schema_ids):
        schema_id = schema_id_of(one)
        text = None if schema_id is None else registry.schema(schema_id)
        if text is None:
            continue
        members = {member["name"] for member in json.loads(text).get("fields", ())} & {"source", "transaction"}
        if not members:
            # This is an unwrapped row.
            continue
        envelope = read_avro(F.expr("substring(value, 6)"), text)
        columns = [F.to_json(F.col(f"envelope.{member}")).alias(member) for member in sorted(members)]
        rows = (
            raw.where(F.col("value_schema_id") == F.lit(bytearray(one)))
            .select("offset", envelope.alias("envelope"))
            .select("offset", *columns)
        )
        for row in rows.collect():
            found[row["offset"]] = {member: None if row[member] is None else json.loads(row[member]) for member in members}
    return found


def lines_of(found: Explained) -> list[str]:
    """Return the explanation as lines for a person."""
    key = ",".join(f"{name}={value}" for name, value in found.key.items())
    at = "" if found.position is None else f" since position {found.position[0]}, {found.position[1]}"
    lines = [f"{found.table} {key}: {found.state}{at}, kept in mode {found.mode}"]
    if found.delta is not None:
        lines.append(f"  so in Delta since version {found.delta['version']} of {found.delta['at']} ({found.delta['operation']})")
    elif found.position is not None:
        lines.append("  so in Delta since before the oldest version that can still be read")
    if found.mode != MIRROR:
        lines += ["  version " + ", ".join(f"{name} {value}" for name, value in one.items()) for one in found.versions]
    lines += [f"  {line}" for record in found.records for line in _record_lines(record)]
    if not found.records:
        lines.append("  no record of it is left, in Kafka or landed")
    return lines


def _record_lines(record: Mapping[str, Any]) -> list[str]:
    names = {"r": "dumped", "c": "inserted", "u": "updated", "d": "deleted"}
    kafka, source_block = record["kafka"], record["source"] or {}
    at = f"{kafka['topic']}-{kafka['partition']} offset {kafka['offset']} ({record['found_in']}, {kafka['timestamp']})"
    found = [f"{names.get(record['op'], record['op'])} at position {record['position']}: {at}"]
    fields = ("file", "pos", "row", "gtid", "lsn", "txId", "snapshot", "ts_ms")
    shown = source_block | {"lsn": None if source_block.get("lsn") is None else lsn_text(source_block["lsn"])}
    facts = [f"{name} {shown[name]}" for name in fields if shown.get(name) is not None]
    if record["transaction"]:
        facts.append(f"transaction {record['transaction'].get('id')}")
    if record["schema_id"] is not None:
        facts.append(f"schema id {record['schema_id']}")
    found.append("  " + ", ".join(facts))
    if record["bad"]:
        found.append(f"  in quarantine: {record['bad']}")
    return found
