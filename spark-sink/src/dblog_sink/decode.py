"""Kafka bytes of one topic to flat rows, inside the JVM: one ``from_avro`` for each writer schema id, never a value in Python.

The projection is rebuilt from the ids that a batch really holds, so a new schema id needs no restart. Every row comes out with its key
columns (from the key record: a delete works without ``before``), its data columns in the target's types, its position, and, where something
is wrong with the record, the reason in ``_dblog_bad``: such a row goes to quarantine instead of stopping the batch. ``from_avro`` runs
in PERMISSIVE mode, where a record that does not decode becomes nulls; ``op`` can then not be one of Debezium's (delta-sink.md 4.2, 2).

The two projections must stay two: Spark merges neighbouring projections only while that does not repeat an expensive expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own idiom
from pyspark.sql import types as t
from pyspark.sql.avro.functions import from_avro

from dblog_sink.schemas import Envelope, Field, KeySchema
from dblog_sink.types import quote

SEQ1, SEQ2 = "_dblog_seq1", "_dblog_seq2"
OP, BAD, BAD_AT, OFFSET, TS_MS = "_dblog_op", "_dblog_bad", "_dblog_bad_at", "_dblog_offset", "_dblog_ts_ms"
OPS = ("c", "r", "u", "d", "t")
"""Operations that are applied; ``m`` (a logical message of PostgreSQL) never stands in a table's topic."""

Columns = tuple[tuple[str, t.DataType], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Everything the projection of one topic depends on. ``bad_heads`` maps the first five bytes of a value to a reason for quarantine."""

    keys: Columns
    columns: Columns
    """Data columns of the target that are no key columns."""
    envelopes: Mapping[bytes, Envelope]
    key_schemas: Mapping[bytes, KeySchema]
    bad_heads: Mapping[bytes, str]
    topic_order: bool = False
    images: bool = False
    """True for a changelog without keys: an update yields two rows, its old image as ``b`` and its new one as ``u``."""


def head(schema_id: int) -> bytes:
    """Confluent's frame: a zero byte and the schema id."""
    return b"\x00" + schema_id.to_bytes(4, "big")


def schema_id_of(frame: bytes | None) -> int | None:
    """The schema id in the first five bytes of a record, or None if they are no frame."""
    if frame is None or len(frame) != 5 or frame[0] != 0:  # noqa: PLR2004
        return None
    return int.from_bytes(frame[1:], "big")


def decoded(raw: DataFrame, decoding: Decoding) -> DataFrame:
    """Flat rows of a topic's records; ``raw`` has partition, offset, key, value, key_head, value_head and no tombstones."""
    values = {frame: f"v{n}" for n, frame in enumerate(decoding.envelopes)}
    keys = {frame: f"k{n}" for n, frame in enumerate(decoding.key_schemas)}
    structs = raw.select(
        "partition",
        "offset",
        "key_head",
        "value_head",
        *(
            _struct("value", frame, e.writer_text, e.reader_text_with_before if decoding.images else e.reader_text).alias(values[frame])
            for frame, e in decoding.envelopes.items()
        ),
        *(_struct("key", frame, k.writer_text, k.reader_text).alias(keys[frame]) for frame, k in decoding.key_schemas.items()),
    )
    if decoding.images:
        structs = structs.withColumn("image", F.explode(F.expr(_images(values, decoding))))
    return structs.selectExpr(*_projection(decoding, values, keys))


def _struct(column: str, frame: bytes, writer: str, reader: str) -> Column:
    struct = from_avro(F.expr(f"substring({column}, 6)"), writer, {"mode": "PERMISSIVE", "avroSchema": reader})
    return F.when(F.expr(f"{column}_head = {_literal(frame)}"), struct)


def _images(values: Mapping[bytes, str], decoding: Decoding) -> str:
    """SQL of the images that a record yields: both for an update that carries its old row."""
    both = [f"({v}.op = 'u' AND {v}.before IS NOT NULL)" for frame, v in values.items() if decoding.envelopes[frame].has_before]
    return f"IF({' OR '.join(both) or 'false'}, array('b', 'u'), array(''))"


def _projection(decoding: Decoding, values: Mapping[bytes, str], keys: Mapping[bytes, str]) -> list[str]:
    envelopes = [(frame, values[frame], envelope) for frame, envelope in decoding.envelopes.items()]
    key_schemas = [(frame, keys[frame], schema) for frame, schema in decoding.key_schemas.items()]
    key_sql = {
        name: _by_head("key_head", [(frame, _column(schema.fields, k, name, kind)) for frame, k, schema in key_schemas], kind)
        for name, kind in decoding.keys
    }
    selected = [f"{sql} AS {quote(name)}" for name, sql in key_sql.items()]
    for name, kind in decoding.columns:
        branches = [
            (frame, _column(envelope.fields, _image(v, envelope, images=decoding.images), name, kind)) for frame, v, envelope in envelopes
        ]
        selected.append(f"{_by_head('value_head', branches, kind)} AS {quote(name)}")
    positions = [(frame, _position(v, envelope, topic_order=decoding.topic_order)) for frame, v, envelope in envelopes]
    op = _by_head("value_head", [(frame, f"{v}.op") for frame, v, _ in envelopes], t.StringType())
    seq1 = _by_head("value_head", [(frame, pair[0]) for frame, pair in positions], t.LongType())
    seq2 = _by_head("value_head", [(frame, pair[1]) for frame, pair in positions], t.LongType())
    age = _by_head("value_head", [(frame, f"{v}.source.ts_ms") for frame, v, e in envelopes if "ts_ms" in e.source_fields], t.LongType())
    bad = _bad(decoding, envelopes, op=op, position=(seq1, seq2), key_sql=key_sql)
    selected += [
        f"{seq1} AS {SEQ1}",
        f"{seq2} AS {SEQ2}",
        f"IF(image = 'b', 'b', {op}) AS {OP}" if decoding.images else f"{op} AS {OP}",
        f"offset AS {OFFSET}",
        f"{age} AS {TS_MS}",
        f"{bad} AS {BAD}",
        f"IF({bad} IS NULL, NULL, concat(partition, ':', offset)) AS {BAD_AT}",
    ]
    return selected


def _by_head(head_column: str, branches: list[tuple[bytes, str]], kind: t.DataType) -> str:
    """The branch of the record's own schema id; a record of another id has NULL there already, so one branch needs no test."""
    if not branches:
        return f"CAST(NULL AS {kind.simpleString()})"
    if len(branches) == 1:
        return branches[0][1]
    cases = " ".join(f"WHEN {_literal(frame)} THEN {sql}" for frame, sql in branches)
    return f"CASE {head_column} {cases} END"


def _column(fields: tuple[Field, ...], struct: str, name: str, kind: t.DataType) -> str:
    field = next((f for f in fields if f.name.lower() == name.lower()), None)
    if field is None:
        return f"CAST(NULL AS {kind.simpleString()})"  # dropped in the source, or not there yet: NULL
    value = field.conversion.convert(f"{struct}.{quote(field.name)}")
    return value if field.conversion.type == kind else f"CAST({value} AS {kind.simpleString()})"


def _image(v: str, envelope: Envelope, *, images: bool) -> str:
    if images and envelope.has_before:
        return f"IF(image = 'b' OR {v}.op = 'd', {v}.before, {v}.after)"
    return f"{v}.after"


def _position(v: str, envelope: Envelope, *, topic_order: bool) -> tuple[str, str]:
    """SQL of D7's two numbers; without ``source.sequence`` they are derived from Debezium's own fields.

    MySQL and MariaDB: (epoch 0 and file index, offset and row); the index is a number, never compared as text. PostgreSQL: (0, LSN), which
    sorts rightly for one key's log rows because row locks order them; a row of an incremental snapshot has no LSN and never beats a log row.
    """
    if topic_order:
        return "0L", "offset"
    source = f"{v}.source"
    if {"file", "pos"} <= envelope.source_fields:
        row = f"coalesce({source}.row, 0)" if "row" in envelope.source_fields else "0"
        seq1 = f"try_cast(substring_index({source}.file, '.', -1) AS BIGINT)"
        seq2 = f"(shiftleft({source}.pos, 23) | CAST({row} AS BIGINT))"
        if "sequence" in envelope.source_fields:
            given = f"{source}.sequence"
            seq1 = f"IF({given} IS NULL, {seq1}, {_quoted_part(given, 2)})"
            seq2 = f"IF({given} IS NULL, {seq2}, {_quoted_part(given, 4)})"
        return seq1, seq2
    if "lsn" in envelope.source_fields:
        return "0L", f"IF({v}.op IS NULL, NULL, coalesce({source}.lsn, 0L))"
    return "CAST(NULL AS BIGINT)", "CAST(NULL AS BIGINT)"


def _quoted_part(path: str, quotes: int) -> str:
    """The text before the nth quote and after the one before it: ``["<high>","<low>"]`` without a JSON parser a row."""
    return f"try_cast(substring_index(substring_index({path}, '\"', {quotes}), '\"', -1) AS BIGINT)"


def _bad(
    decoding: Decoding, envelopes: list[tuple[bytes, str, Envelope]], *, op: str, position: tuple[str, str], key_sql: Mapping[str, str]
) -> str:
    """SQL of the reason why a record cannot be applied, NULL for a good one."""
    key_names = {name.lower() for name in key_sql}
    cases = [f"WHEN value_head = {_literal(frame)} THEN {_text(reason)}" for frame, reason in decoding.bad_heads.items()]
    cases.append(f"WHEN {op} IS NULL THEN 'the value does not decode with its schema (or a decimal has over 38 digits)'")
    cases.append(f"WHEN {op} NOT IN ({', '.join(_text(o) for o in OPS)}) THEN 'unknown operation'")
    cases.append(f"WHEN {position[0]} IS NULL OR {position[1]} IS NULL THEN 'the source block holds no position'")
    if key_sql:
        missing = " OR ".join(f"{sql} IS NULL" for sql in key_sql.values())
        cases.append(f"WHEN {op} <> 't' AND key_head IS NULL THEN 'the record has no key but its table has one'")
        cases.append(f"WHEN {op} <> 't' AND ({missing}) THEN 'the key does not decode, or a key column is NULL'")
    for _, v, envelope in envelopes:
        image = _image(v, envelope, images=decoding.images)
        needed = f"{v}.op IN ('c', 'r', 'u') AND {v}.after IS NULL"
        cases.append(f"WHEN {needed} THEN 'the record has no row image'")
        if decoding.images:
            cases.append(f"WHEN {v}.op = 'd' AND {image} IS NULL THEN 'a delete without key and without its old row cannot be applied'")
        for field in envelope.fields:
            if field.conversion.failed is not None and field.name.lower() not in key_names:
                test = field.conversion.failed(f"{image}.{quote(field.name)}")
                cases.append(f"WHEN {test} THEN {_text(f'column {field.name}: the value has no {field.conversion.type.simpleString()}')}")
    return "CASE " + " ".join(cases) + " END"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _literal(frame: bytes) -> str:
    return f"X'{frame.hex()}'"
