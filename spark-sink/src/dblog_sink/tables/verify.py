"""Compares a table with what a whole dump has shown of its source, through fingerprints of rows.

A fingerprint (``reconcile/verifications.py``) is of a row that no change touched in its chunk's
window: the row's state at the chunk's low watermark. All changes up to there are merged when this
is called. So for a key with a fingerprint:

- a row of the table at or before that watermark must have the same fingerprint; a later row was
  changed since and is not judged;
- if there is no row, a delete or truncate after the watermark explains it, or the row is missing.

A row that is older than the dump's first watermark and has no fingerprint in a dump of the whole
table is invented: a row of the source has one, or was changed in a window, which made it newer.
Keys are only compared for equality, so no collation matters. One join answers it for a table; the
table's rows are written in Avro by ``schema/avro_bytes.py``.

A key is identified by the first eight bytes of its MD5. Among ten million rows two share them with
a chance of three in a million.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.config.job_options import Settings
from dblog_sink.config.tables import TableSpec
from dblog_sink.delta.target import APPEND, HISTORY, TO1, Target
from dblog_sink.delta.tombstones import NULL_AT, Position, Tombstones
from dblog_sink.errors import DefiniteError
from dblog_sink.records.decode import SEQ1, SEQ2
from dblog_sink.schema.avro_bytes import NoWayBackError, concatenated, field_bytes
from dblog_sink.schema.types import quote
from dblog_sink.schema.writer_schemas import UNWRAPPED, members
from dblog_sink.tables.open_tables import OpenTable

EQUAL, DIFFERING, UNKNOWN = "equal", "differing", "unknown"
"""Results of a comparison."""
MISSING, INVENTED, CHANGED = "missing", "invented", "changed"
COUNTS = (EQUAL, DIFFERING, MISSING, INVENTED, CHANGED)
"""Names of the counted rows: equal to the source's; differing; missing in Delta; only in Delta;
changed, deleted or added since, and so not judged.
"""
WRONG = (DIFFERING, MISSING, INVENTED)
KEYS_MAX = 100
"""Maximum number of wrong rows that are named."""
MARKS = ("fingerprints", "key_schema", "row_schema")
"""Columns of the markers: sixteen bytes for each row, of its key and its values, and the Avro
schemas by which they were made.
"""
_SCHEMAS_MAX = 8
_FP = 8
"""Bytes of a fingerprint."""
_KEY_ONLY = "unjudged"
_K, _ROW, _AT, _DEAD, _N, _SHOWN = "_dblog_k", "_dblog_row", "_dblog_at", "_dblog_dead", "_dblog_n", "_dblog_shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a comparison.

    ``keys`` describes some wrong rows: the kind of fault (``sign``), and the key as JSON, or the
    bounds of its chunk.
    """

    result: str
    why: str = ""
    counts: tuple[int, ...] = (0,) * len(COUNTS)
    """Numbers of rows in the order of ``COUNTS``."""
    keys: tuple[Mapping[str, str | None], ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """Result, reason and counts, without keys, which are values of rows."""
        return {"result": self.result, "why": self.why, **dict(zip(COUNTS, self.counts, strict=True))}


def unknown(why: str) -> Verdict:
    """Return a verdict without a result, for this reason."""
    return Verdict(result=UNKNOWN, why=why)


def compare(
    opened: OpenTable,
    spec: TableSpec,
    session: SparkSession,
    marks: DataFrame,
    *,
    low: Position,
    whole: bool,
    renamed: Mapping[str, str],
    settings: Settings,
) -> Verdict:
    """Compare the table with the markers of one dump.

    ``low`` is the position of the first marker. ``whole`` is True if they cover all rows of the
    source's table. ``renamed`` maps old to new names of columns that the source renamed.
    """
    target = opened.target
    if target.mode == APPEND:
        return unknown("the table is a list of changes (mode append), not the source's rows")
    if target.kind == UNWRAPPED or settings["position"] == "topic":
        return unknown("its rows are ordered by their topic, so they have no position of the log")
    assert opened.tombstones is not None
    found = marks.where(F.length("fingerprints") > 0).select(*MARKS[1:]).distinct().limit(_SCHEMAS_MAX + 1).collect()
    if marks.where(F.col("fingerprints").isNull()).limit(1).count() or any(row[name] is None for row in found for name in MARKS[1:]):
        return unknown("its markers have no fingerprints; use a newer worker")
    if len(found) > _SCHEMAS_MAX or len({row["key_schema"] for row in found}) > 1:
        return unknown("the table's definition changed while it ran")
    try:
        key = _fingerprint(_record(found[0]["key_schema"], spec, target, renamed, key=True)) if found else _key_text(target)
    except NoWayBackError as e:
        return unknown(f"its keys cannot be compared: {e}")
    rows, why = [], ""
    for row in found:
        try:
            rows.append(_fingerprint(_record(row["row_schema"], spec, target, renamed, key=False)))
        except NoWayBackError as e:
            why = f"only its keys are compared: {e}"
    lake = _lake(opened.tombstones, target, session, low, key, [] if why else rows)
    joined = lake.join(_shown(marks, [row["row_schema"] for row in found]), _K, "full_outer")
    judged = joined.withColumn("sign", _sign(opened.tombstones, low, whole=whole, keys_only=bool(why)))
    counted = {row["sign"]: row["count"] for row in judged.groupBy("sign").count().collect()}
    counts = tuple(counted.get(name, 0) for name in COUNTS)
    wrong = any(counted.get(name, 0) for name in WRONG)
    keys = _named(judged, marks) if wrong else ()
    return Verdict(result=DIFFERING if wrong else UNKNOWN if why else EQUAL, why=why, counts=counts, keys=keys)


def _record(text: str, spec: TableSpec, target: Target, renamed: Mapping[str, str], *, key: bool) -> str:
    """Return SQL of the Avro bytes of the table's row in this schema. May raise NoWayBackError."""
    try:
        fields, definitions = members(text)
    except (DefiniteError, ValueError, KeyError, TypeError) as e:
        msg = "a schema in its markers cannot be read"
        raise NoWayBackError(msg) from e
    parts, names = [], set()
    for source, schema in fields:
        try:
            name, held = _column(source, spec, target, renamed, key=key)
            names.add(name)
            parts.append(field_bytes(schema, definitions, held=held, path=quote(name), where=spec.name))
        except (DefiniteError, NoWayBackError) as e:
            msg = f"column {source}: {e}"
            raise NoWayBackError(msg) from e
    if key and names != set(target.key_names):
        msg = f"the source's key is ({', '.join(sorted(names))}), and the table's is ({', '.join(target.key_names)})"
        raise NoWayBackError(msg)
    return concatenated(parts)


def _column(source: str, spec: TableSpec, target: Target, renamed: Mapping[str, str], *, key: bool) -> tuple[str, t.DataType]:
    name = spec.column(source) or (source if key else None)
    if name is None:
        msg = "it is left out (columns.include, columns.exclude)"
        raise NoWayBackError(msg)
    columns = {column.lower(): (column, kind) for column, kind in target.columns}
    met = {name}
    while name.lower() not in columns and renamed.get(name, name) not in met:
        name = renamed[name]
        met.add(name)
    if name.lower() not in columns:
        msg = "the table in Delta does not have it"
        raise NoWayBackError(msg)
    if any(re.fullmatch(re.escape(name.lower()) + r"__v\d+", other) for other in columns):
        msg = "its values are in more than one column (evolution.incompatible)"
        raise NoWayBackError(msg)
    return columns[name.lower()]


def _fingerprint(sql: str) -> str:
    return f"unhex(left(md5({sql}), {2 * _FP}))"


def _key_text(target: Target) -> str:
    """Return SQL of a substitute key fingerprint for a source without rows, which has no schema.

    Nothing is compared with it, so any text will do that differs between keys.
    """
    return _fingerprint(f"CAST(to_json(struct({', '.join(map(quote, target.key_names))})) AS BINARY)")


def _lake(tombstones: Tombstones, target: Target, session: SparkSession, low: Position, key: str, fingerprints: Sequence[str]) -> DataFrame:
    """Return a row for each key that the table has or had.

    It has the number of the key's rows (``_N``), the fingerprints of one of them by schema, its
    position, and that of the key's last delete.
    """
    table = session.read.format("delta").load(target.path)
    if target.mode == HISTORY:
        table = table.where(F.col(TO1).isNull())
    names = [quote(name) for name in target.key_names]
    dead = F.col(quote(target.soft)) if target.soft is not None else F.lit(False)
    rows = f"array({', '.join(fingerprints)})" if fingerprints else "CAST(NULL AS ARRAY<BINARY>)"
    have = table.select(F.struct(*names).alias("key"), F.expr(key).alias(_K), F.expr(rows).alias("rows"), _at(), dead.alias(_DEAD))
    if tombstones.exists:
        # A delete that only a null value shows has no known position (tables/modes/rows.py).
        nulls = F.col(NULL_AT).isNotNull()
        at = F.when(nulls, F.struct(F.lit((1 << 63) - 1).alias("seq1"), F.lit(0).cast("long").alias("seq2"))).otherwise(_at())
        deleted = session.read.format("delta").load(tombstones.path).where(F.col(names[0]).isNotNull())
        deleted = deleted.where((F.col(SEQ1) > low[0]) | ((F.col(SEQ1) == low[0]) & (F.col(SEQ2) >= low[1])) | nulls)
        nothing = F.lit(None).cast("array<binary>").alias("rows")
        have = have.unionByName(
            deleted.select(F.struct(*names).alias("key"), F.expr(key).alias(_K), nothing, at.alias(_AT), F.lit(True).alias(_DEAD))
        )
    alive = F.when(~F.col(_DEAD), F.col(_AT))
    return have.groupBy(F.coalesce(_K, F.lit(b"")).alias(_K)).agg(
        F.max_by(F.struct("key", "rows"), alive).alias(_ROW),
        F.max(alive).alias(_AT),
        F.max(F.when(F.col(_DEAD), F.col(_AT))).alias(_DEAD),
        F.count_if(~F.col(_DEAD)).alias(_N),
    )


def _shown(marks: DataFrame, row_schemas: Sequence[str]) -> DataFrame:
    """Return the newest fingerprint of each key: its position, value, schema number and chunk."""
    number = F.lit(None).cast("int")
    for n, text in enumerate(row_schemas):
        number = F.when(F.col("row_schema") == F.lit(text), F.lit(n)).otherwise(number)
    count = F.expr(f"length(fingerprints) div {2 * _FP}").cast("int")
    each = marks.where(count > 0).select(
        "fingerprints", _seq(), _chunk(), number.alias("schema"), F.explode(F.sequence(F.lit(0), count - 1)).alias("i")
    )
    one = each.select(
        _part("i * 16 + 1").alias(_K),
        F.struct("at", _part("i * 16 + 9").alias("row"), "schema", "chunk").alias(_SHOWN),
    )
    return one.groupBy(_K).agg(F.max_by(_SHOWN, F.col(f"{_SHOWN}.at")).alias(_SHOWN))


def _part(first: str) -> Column:
    return F.expr(f"substring(fingerprints, {first}, {_FP})")


def _seq() -> Column:
    return F.struct("seq1", "seq2").alias("at")


def _at() -> Column:
    return F.struct(F.col(SEQ1).alias("seq1"), F.col(SEQ2).alias("seq2")).alias(_AT)


def _chunk() -> Column:
    return F.xxhash64("chunk_id", "upto").alias("chunk")


def _sign(tombstones: Tombstones, low: Position, *, whole: bool, keys_only: bool) -> Column:
    shown, none = F.col(f"{_SHOWN}.at"), F.coalesce(F.col(_N), F.lit(0)) == 0
    gone = F.coalesce(F.col(_DEAD) > shown, F.lit(False))
    if tombstones.floor is not None:
        gone |= shown < _literal(tombstones.floor)
    only_here = F.when(none, F.lit(None)).when(F.lit(whole) & (F.col(_AT) < _literal(low)), INVENTED).otherwise(CHANGED)
    same = F.expr(f"get({_ROW}.rows, {_SHOWN}.schema)") == F.col(f"{_SHOWN}.row")
    return (
        F.when(shown.isNull(), only_here)
        .when(none, F.when(gone, CHANGED).otherwise(MISSING))
        .when(F.col(_N) > 1, DIFFERING)
        .when(F.col(_AT) > shown, CHANGED)
        .when(F.lit(keys_only), _KEY_ONLY)
        .when(F.coalesce(same, F.lit(False)), EQUAL)
        .otherwise(DIFFERING)
    )


def _literal(position: Position) -> Column:
    return F.struct(F.lit(position[0]).cast("long").alias("seq1"), F.lit(position[1]).cast("long").alias("seq2"))


def _named(judged: DataFrame, marks: DataFrame) -> tuple[Mapping[str, str | None], ...]:
    """Return some of the wrong rows. For a missing one only its chunk is known."""
    key = F.to_json(F.col(f"{_ROW}.key"), {"ignoreNullFields": "false"}).alias("key")
    chunk = F.when(F.col("sign") == MISSING, F.col(f"{_SHOWN}.chunk")).alias("chunk")
    rows: list[Row] = judged.where(F.col("sign").isin(*WRONG)).select("sign", key, chunk).limit(KEYS_MAX).collect()
    chunks = {row["chunk"] for row in rows if row["chunk"] is not None}
    bounds = {}
    if chunks:
        found = marks.select(_chunk(), "after", "upto").where(F.col("chunk").isin(*chunks)).collect()
        bounds = {row["chunk"]: {"after": row["after"], "upto": row["upto"]} for row in found}
    none: dict[str, str | None] = {"after": None, "upto": None}
    return tuple({"sign": row["sign"], "key": row["key"], **bounds.get(row["chunk"], none)} for row in rows)
