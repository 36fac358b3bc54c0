"""Kafka bytes of one topic to flat rows, inside the JVM: one ``from_avro`` for each writer schema id, never a value in Python.

The projection is rebuilt from the schemas that a batch really holds, so a new schema id needs no restart. Every row comes out with its key
columns (from the key record: a delete works without ``before``), its data columns in the target's types, its position, and, where something
is wrong with the record, the reason in ``_dblog_bad``: such a row goes to quarantine instead of stopping the batch. ``from_avro`` and ``from_json``
run in PERMISSIVE mode, where a record that does not decode becomes nulls; ``op`` can then not be one of Debezium's (Spark, "Apache Avro Data Source
Guide", from_avro).

An unwrapped row (ExtractNewRecordState) has no envelope: its operation is in the fields that the transform added, or it is an update; a null value is a
delete; its position is its Kafka offset, for nothing in it sorts.

The two projections must stay two: Spark merges neighbouring projections only while that does not repeat an expensive expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own idiom
from pyspark.sql import types as t

from dblog_sink.records import lsn_positions
from dblog_sink.records.lsn_positions import quoted_part
from dblog_sink.records.small_frame import small_frame
from dblog_sink.records.unavailable import is_unavailable
from dblog_sink.schema.avro import read_avro
from dblog_sink.schema.types import Columns, orderable, quote, text_sql, type_sql
from dblog_sink.schema.wire_format import schema_id_of
from dblog_sink.schema.writer_schemas import UNWRAPPED, Envelope, Field, KeySchema

__all__ = ["Columns", "Decoding", "decoded", "schema_id_of"]

SEQ1, SEQ2 = "_dblog_seq1", "_dblog_seq2"
OP, BAD, BAD_AT, OFFSET, TS_MS = "_dblog_op", "_dblog_bad", "_dblog_bad_at", "_dblog_offset", "_dblog_ts_ms"
UNAVAILABLE = "_dblog_unavailable"
"""The columns whose value the record does not have; NULL: it has all."""
PARTIAL = "_dblog_partial"
"""The record is a dumped row of some columns only (mode ``columns``): it has no values for the others, and none to be looked for in quarantine."""
PARTITION, RESENT, OWN = "_dblog_partition", "_dblog_resent", "_dblog_own"
"""Of append mode and replays: where a record came from, that it was applied before, and that its position is no other record's."""
STEADY = "_dblog_steady"
"""Of the delete that an update of the key columns makes: the data columns that the update left as they were. NULL: it is no such delete."""
_END = "_dblog_log_end"
"""The log end of a record's partition, joined to it."""
NULL = "n"
"""The operation of a null value that stands for a delete which may not be there any more; its time is Kafka's."""
OPS = ("c", "r", "u", "d", "t")
"""Operations that are applied; ``m`` (a logical message of PostgreSQL) never stands in a table's topic."""

LogEnd = tuple[int, int, int]
"""A position, and 1 for an insert: a changed key is a delete and an insert at one position, in this order."""


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Up to where a topic's log was applied, by partition. They hold for one Delta table, and are void for another one under the same path."""

    positions: Mapping[int, LogEnd] = field(default_factory=dict)
    table_id: str | None = None
    version: int | None = None
    """The version up to which the table's history was looked at (``delta/restored.py``)."""


NO_LOG_ENDS = LogEnds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Everything the projection of one topic depends on. ``unreadable_ids`` maps the first five bytes of a value to a reason for quarantine."""

    keys: Columns
    columns: Columns
    """Data columns of the target that are no key columns."""
    envelopes: Mapping[bytes, Envelope]
    key_schemas: Mapping[bytes, KeySchema]
    unreadable_ids: Mapping[bytes, str]
    topic_order: bool = False
    log_ends: Mapping[int, LogEnd] | None = None
    """By topic partition: the position up to which rows of the log were applied before. Only where nothing else recognises a record that is sent again."""
    images: bool = False
    """True in append mode: an update yields two rows, its old image as ``b`` and its new one as ``u``."""
    keep_offsets: bool = False
    """Every row has the Kafka offset of its record, as in append mode."""
    unwrapped: bool = False
    """Rows without envelope: a null value is a delete."""
    nulls: bool = False
    """A null value is a row too, of operation ``n`` and without a position: ``rows.deletes`` finds what it deletes."""
    keys_of_value: bool = False
    """The key columns are columns of the row, not the record's key: an update that changes them also deletes its old row."""
    unavailable: str = ""
    """What stands for a value that the source does not log; empty: nothing does."""
    partial: frozenset[bytes] = frozenset()
    """Schema ids of rows that have some columns only. In a list of changes they are rows as all others, with NULL."""
    partitions: frozenset[str] = frozenset()
    """Key columns of text that the table is partitioned by: Delta writes an empty text there as NULL, and no row would be found by it again."""
    fills: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """By lower-case column name: rows of schema ids below the number are older than the column, and have the value of this SQL, its default."""


def decoded(raw: DataFrame, decoding: Decoding) -> DataFrame:
    """Flat rows of a topic's records; ``raw`` has partition, offset, key, value, key_schema_id and value_schema_id, and no null
    values but where they are asked for.
    """
    values = {schema_id: f"v{n}" for n, schema_id in enumerate(decoding.envelopes)}
    keys = {schema_id: f"k{n}" for n, schema_id in enumerate(decoding.key_schemas)}
    ends = _has_ends(decoding)
    structs = (_with_log_ends(raw, decoding) if ends else raw).select(
        "partition",
        "offset",
        *([_END] if ends else []),
        *(["timestamp"] if decoding.nulls else []),
        "key_schema_id",
        "value_schema_id",
        *(
            _struct("value", schema_id, e, e.reader_text_with_before if _with_before(decoding) else e.reader_text).alias(values[schema_id])
            for schema_id, e in decoding.envelopes.items()
        ),
        *(_struct("key", schema_id, k, k.reader_text).alias(keys[schema_id]) for schema_id, k in decoding.key_schemas.items()),
    )
    if _with_before(decoding):
        structs = structs.withColumn("image", F.explode(F.expr(_images(values, decoding))))
    return structs.selectExpr(*_projection(decoding, values, keys))


def _has_ends(decoding: Decoding) -> bool:
    return bool(decoding.log_ends) and not decoding.topic_order


def _with_log_ends(raw: DataFrame, decoding: Decoding) -> DataFrame:
    """Give each record the log end of its partition, NULL where there is none."""
    rows = [(partition, *end) for partition, end in sorted((decoding.log_ends or {}).items())]
    ends = small_frame(raw.sparkSession, ("partition", "seq1", "seq2", "inserted"), rows)
    ends = ends.select(F.col("partition").cast("int"), F.struct("seq1", "seq2", "inserted").alias(_END))
    return raw.join(F.broadcast(ends), "partition", "left")


def _with_before(decoding: Decoding) -> bool:
    return decoding.images or decoding.keys_of_value


def _struct(column: str, schema_id: bytes, schema: Envelope | KeySchema, reader: str) -> Column:
    if schema.json_type is not None:
        record = F.from_json(F.col(column).cast("string"), t.StructType([t.StructField("payload", schema.json_type)]))
        return F.when(F.expr(f"{column}_schema_id = {_literal(schema_id)}"), record["payload"])
    struct = read_avro(F.expr(f"substring({column}, 6)"), schema.writer_text, reader)
    return F.when(F.expr(f"{column}_schema_id = {_literal(schema_id)}"), struct)


def _images(values: Mapping[bytes, str], decoding: Decoding) -> str:
    """SQL of the images that a record yields: both for an update that carries its old row, where the old row matters."""
    both = []
    for schema_id, v in values.items():
        envelope = decoding.envelopes[schema_id]
        if not envelope.has_before:
            continue
        test = f"{v}.op = 'u' AND {v}.before IS NOT NULL"
        if not decoding.images:
            pairs = ((f"{v}.before.{quote(m)}", f"{v}.after.{quote(m)}") for m in _key_members(envelope.fields, decoding))
            test += " AND NOT (" + " AND ".join(f"{old} <=> {new}" for old, new in pairs) + ")"
        both.append(f"({test})")
    return f"IF({' OR '.join(both) or 'false'}, array('b', 'u'), array(''))"


def _key_members(fields: tuple[Field, ...], decoding: Decoding) -> list[str]:
    names = {name.lower() for name, _ in decoding.keys}
    return [one.member for one in fields if one.name.lower() in names]


def _projection(decoding: Decoding, values: Mapping[bytes, str], keys: Mapping[bytes, str]) -> list[str]:
    envelopes = [(schema_id, values[schema_id], envelope) for schema_id, envelope in decoding.envelopes.items()]
    key_schemas = [(schema_id, keys[schema_id], schema) for schema_id, schema in decoding.key_schemas.items()]
    if decoding.keys_of_value:
        key_sql = {name: _value_column(envelopes, decoding, name, kind) for name, kind in decoding.keys}
    else:
        key_sql = {
            name: by_schema_id(
                "key_schema_id", [(schema_id, _column(schema.fields, k, name, kind)) for schema_id, k, schema in key_schemas], kind
            )
            for name, kind in decoding.keys
        }
    selected = [f"{sql} AS {quote(name)}" for name, sql in key_sql.items()]
    selected += [f"{_value_column(envelopes, decoding, name, kind)} AS {quote(name)}" for name, kind in decoding.columns]
    positions = [(schema_id, position_sql(v, envelope)) for schema_id, v, envelope in envelopes]
    op = by_schema_id("value_schema_id", [(schema_id, _op(v, envelope)) for schema_id, v, envelope in envelopes], t.StringType())
    if decoding.unwrapped:
        op = f"IF(value_schema_id IS NULL, 'd', {op})"
    elif decoding.nulls:
        op = f"IF(value_schema_id IS NULL, '{NULL}', {op})"
    if decoding.topic_order:
        seq1, seq2 = "0L", "offset"
    else:
        seq1 = by_schema_id("value_schema_id", [(schema_id, pair[0]) for schema_id, pair in positions], t.LongType())
        seq2 = by_schema_id("value_schema_id", [(schema_id, pair[1]) for schema_id, pair in positions], t.LongType())
    ages = [(schema_id, _age(v, envelope)) for schema_id, v, envelope in envelopes]
    age = by_schema_id("value_schema_id", [(schema_id, sql) for schema_id, sql in ages if sql is not None], t.LongType())
    if decoding.nulls:
        age = f"IF(value_schema_id IS NULL, unix_millis(timestamp), {age})"
    bad = bad_reason(decoding, envelopes, op=op, position=(seq1, seq2), key_sql=key_sql)
    selected += [
        f"{seq1} AS {SEQ1}",
        f"{seq2} AS {SEQ2}",
        f"{_shown(op, decoding)} AS {OP}",
        f"offset AS {OFFSET}",
        *(
            [
                f"partition AS {PARTITION}",
                f"{_resent(decoding, envelopes, op=op, position=(seq1, seq2))} AS {RESENT}",
                f"coalesce({by_schema_id('value_schema_id', [(schema_id, _own(v, e)) for schema_id, v, e in envelopes], t.BooleanType())}, false) AS {OWN}",
            ]
            if decoding.images or decoding.keep_offsets or decoding.unavailable or decoding.nulls or decoding.partial
            else []
        ),
        *(
            [f"{_unavailable(decoding, envelopes, op)} AS {UNAVAILABLE}", f"{_partial(decoding, envelopes)} AS {PARTIAL}"]
            if decoding.unavailable or decoding.partial
            else []
        ),
        *([f"{_steady(decoding, envelopes)} AS {STEADY}"] if decoding.keys_of_value and not decoding.images else []),
        f"{age} AS {TS_MS}",
        f"{bad} AS {BAD}",
        f"IF({bad} IS NULL, NULL, concat(partition, ':', offset)) AS {BAD_AT}",
    ]
    return selected


def _steady(decoding: Decoding, envelopes: list[tuple[bytes, str, Envelope]]) -> str:
    """SQL of the names of the columns that have one value before and after an update of the key, in the row that deletes the old key."""
    comparable = [(name, kind) for name, kind in decoding.columns if orderable(kind)]
    branches = []
    for schema_id, v, envelope in envelopes:
        there = {one.name.lower() for one in envelope.fields}
        if not envelope.has_before:
            continue
        names = ", ".join(
            f"IF({_column(envelope.fields, f'{v}.before', name, kind)} <=> {_column(envelope.fields, f'{v}.after', name, kind)}, {text_sql(name)}, NULL)"
            for name, kind in comparable
            if name.lower() in there
        )
        if names:
            branches.append((schema_id, f"IF(image = 'b', array_compact(array({names})), NULL)"))
    return by_schema_id("value_schema_id", branches, t.ArrayType(t.StringType()))


def _unavailable(decoding: Decoding, envelopes: list[tuple[bytes, str, Envelope]], op: str) -> str:
    """SQL of the names of the columns that an insert (of a changed key) or update has no value of, NULL if it has all."""
    columns = {name.lower(): name for name, _ in decoding.columns}
    branches = []
    for schema_id, v, envelope in envelopes:
        if absent := _absent(schema_id, envelope, decoding):
            branches.append((schema_id, f"IF({v}.op = 'r', array({', '.join(map(text_sql, absent))}), NULL)"))
            continue
        tests = [
            (columns[one.name.lower()], _is_missing(one, _image(v, envelope, decoding), decoding))
            for one in envelope.fields
            if one.name.lower() in columns
        ]
        found = [(name, test) for name, test in tests if test is not None]
        if found:
            names = ", ".join(f"IF({test}, {text_sql(name)}, NULL)" for name, test in found)
            any_ = " OR ".join(test for _, test in found)
            branches.append((schema_id, f"IF({op} IN ('c', 'u') AND ({any_}), array_compact(array({names})), NULL)"))
    return by_schema_id("value_schema_id", branches, t.ArrayType(t.StringType()))


def _absent(schema_id: bytes, envelope: Envelope, decoding: Decoding) -> list[str]:
    """The columns that a row of some columns only does not have."""
    there = {one.name.lower() for one in envelope.fields}
    return [name for name, _ in decoding.columns if name.lower() not in there] if schema_id in decoding.partial else []


def _partial(decoding: Decoding, envelopes: list[tuple[bytes, str, Envelope]]) -> str:
    tests = [f"{v}.op = 'r'" for schema_id, v, envelope in envelopes if _absent(schema_id, envelope, decoding)]
    return f"coalesce({' OR '.join(tests) or 'false'}, false)"


def _is_missing(one: Field, image: str, decoding: Decoding) -> str | None:
    return is_unavailable(one.conversion, f"{image}.{quote(one.member)}", decoding.unavailable) if decoding.unavailable else None


def by_schema_id(schema_id_column: str, branches: list[tuple[bytes, str]], kind: t.DataType) -> str:
    """SQL of the branch of the record's own schema id; a record of another id has NULL there already, so one branch needs no test."""
    if not branches:
        return f"CAST(NULL AS {type_sql(kind)})"
    if len(branches) == 1:
        return branches[0][1]
    cases = " ".join(f"WHEN {_literal(schema_id)} THEN {sql}" for schema_id, sql in branches)
    return f"CASE {schema_id_column} {cases} END"


def _shown(op: str, decoding: Decoding) -> str:
    """The old image of an update is a row of its own, or is the delete of its key."""
    if decoding.images:
        return f"IF(image = 'b', 'b', {op})"
    return f"IF(image = 'b', 'd', {op})" if decoding.keys_of_value else op


def _value_column(envelopes: list[tuple[bytes, str, Envelope]], decoding: Decoding, name: str, kind: t.DataType) -> str:
    fill = decoding.fills.get(name.lower())
    branches = []
    for schema_id, v, envelope in envelopes:
        missing = fill[1] if fill is not None and 0 <= envelope.schema_id < fill[0] else None
        branches.append((schema_id, _column(envelope.fields, _image(v, envelope, decoding), name, kind, missing)))
    return by_schema_id("value_schema_id", branches, kind)


def _column(fields: tuple[Field, ...], struct: str, name: str, kind: t.DataType, missing: str | None = None) -> str:
    one = next((f for f in fields if f.name.lower() == name.lower()), None)
    if one is None:
        return f"CAST({missing or 'NULL'} AS {type_sql(kind)})"  # dropped in the source, or not there yet
    value = one.conversion.convert(f"{struct}.{quote(one.member)}")
    return value if one.conversion.type == kind else f"CAST({value} AS {type_sql(kind)})"


def _image(v: str, envelope: Envelope, decoding: Decoding) -> str:
    if envelope.kind == UNWRAPPED:
        return v
    if _with_before(decoding) and envelope.has_before:
        return f"IF(image = 'b' OR {v}.op = 'd', {v}.before, {v}.after)"
    return f"{v}.after"


def _op(v: str, envelope: Envelope) -> str:
    """SQL of the operation; NULL where the record did not decode."""
    if envelope.kind != UNWRAPPED:
        return f"{v}.op"
    op = f"coalesce({v}.__op, 'u')" if "__op" in envelope.added else "'u'"
    if "__deleted" in envelope.added:
        op = f"IF(CAST({v}.__deleted AS STRING) = 'true', 'd', {op})"
    required = [f"{v}.{quote(one.member)} IS NULL" for one in envelope.fields if one.required]
    failed = " OR ".join(required) or " AND ".join(f"{v}.{quote(one.member)} IS NULL" for one in envelope.fields)
    return f"IF({failed}, NULL, {op})"


def _age(v: str, envelope: Envelope) -> str | None:
    if envelope.kind == UNWRAPPED:
        name = next((name for name in ("__source_ts_ms", "__ts_ms") if name in envelope.added), None)
        return None if name is None else f"CAST({v}.{name} AS BIGINT)"
    return f"{v}.source.ts_ms" if "ts_ms" in envelope.source_fields else None


def position_sql(v: str, envelope: Envelope) -> tuple[str, str]:
    """SQL of D7's two numbers; of a record that does not have them they are derived from Debezium's own fields.

    MySQL and MariaDB: (epoch and file index, offset and row); the index is a number, never compared as text, and the epoch distinguishes logs
    (``source_epochs.py``). PostgreSQL: ``lsn_positions.py``.
    """
    source = f"{v}.source"
    if envelope.derived:
        seq1, seq2 = derived_sql(v, envelope)
        if envelope.epoch:
            seq1 = f"({envelope.epoch} | {seq1})"
        if "sequence" in envelope.source_fields:
            given = f"{source}.sequence"
            # The parts come first, where they are computed for every row, so that Spark splits a row's text once for all that needs them.
            seq1 = f"coalesce({quoted_part(given, 1)}, IF({given} IS NULL, {seq1}, NULL))"
            seq2 = f"coalesce({quoted_part(given, 3)}, IF({given} IS NULL, {seq2}, NULL))"
        return seq1, seq2
    if envelope.by_lsn:
        return lsn_positions.position_sql(v, sequence="sequence" in envelope.source_fields, epoch=envelope.epoch)
    return "CAST(NULL AS BIGINT)", "CAST(NULL AS BIGINT)"


def derived_sql(v: str, envelope: Envelope) -> tuple[str, str]:
    """SQL of the number of a record's log file, and of its position in it."""
    source = f"{v}.source"
    row = f"coalesce({source}.row, 0)" if "row" in envelope.source_fields else "0"
    return f"try_cast(substring_index({source}.file, '.', -1) AS BIGINT)", f"(shiftleft({source}.pos, 23) | CAST({row} AS BIGINT))"


def _resent(decoding: Decoding, envelopes: list[tuple[bytes, str, Envelope]], *, op: str, position: tuple[str, str]) -> str:
    """SQL: the record is at or before its partition's log end, so the source sent it again. In one partition the log's rows come in order.

    A position of D7 is one row's alone: a record at the log end was sent before. Positions derived from file and offset are
    shared by the rows of a compressed transaction: only a record before the log end was. One derived from an LSN proves nothing, for a restart may
    lower it, nor does a dump row's position.
    """
    if not _has_ends(decoding):
        return "false"
    seq1, seq2 = position
    up_to = f"({_END}.inserted <> 0 OR {op} <> 'c')"
    found = f"{seq1} < {_END}.seq1 OR ({seq1} = {_END}.seq1 AND ({seq2} < {_END}.seq2 OR ({seq2} = {_END}.seq2 AND {{own}} AND {up_to})))"
    branches = []
    for schema_id, v, envelope in envelopes:
        if not envelope.derived and not envelope.may_be_numbered:
            branches.append((schema_id, "false"))
            continue
        own = _own(v, envelope)
        behind = f"({_END} IS NOT NULL AND ({found.format(own=own)}))"
        branches.append((schema_id, behind if envelope.derived else f"({own} AND {behind})"))
    return f"coalesce({op} IN ('c', 'u', 'd', 't') AND {by_schema_id('value_schema_id', branches, t.BooleanType())}, false)"


def _own(v: str, envelope: Envelope) -> str:
    """SQL: the record's position is D7's, which no other record has."""
    if not envelope.may_be_numbered:
        return "false"
    return lsn_positions.is_numbered(v) if envelope.by_lsn else f"{v}.source.sequence IS NOT NULL"


def bad_reason(
    decoding: Decoding, envelopes: list[tuple[bytes, str, Envelope]], *, op: str, position: tuple[str, str], key_sql: Mapping[str, str]
) -> str:
    """SQL of the reason why a record cannot be applied, NULL for a good one."""
    key_names = {name.lower() for name in key_sql}
    cases = [
        f"WHEN value_schema_id = {_literal(schema_id)} THEN {text_sql(reason)}" for schema_id, reason in decoding.unreadable_ids.items()
    ]
    cases.append(f"WHEN {op} IS NULL THEN 'the value does not decode with its schema'")
    known = (*OPS, NULL) if decoding.nulls else OPS
    cases.append(f"WHEN {op} NOT IN ({', '.join(text_sql(o) for o in known)}) THEN 'unknown operation'")
    is_row = f"{op} <> '{NULL}' AND " if decoding.nulls else ""
    cases.append(f"WHEN {is_row}({position[0]} IS NULL OR {position[1]} IS NULL) THEN 'the source block holds no position'")
    if key_sql:
        missing = " OR ".join(f"{sql} IS NULL" for sql in key_sql.values())
        if not decoding.keys_of_value:
            cases.append(f"WHEN {op} <> 't' AND key_schema_id IS NULL THEN 'the record has no key but its table has one'")
        cases.append(f"WHEN {op} <> 't' AND ({missing}) THEN 'the key does not decode, or a key column is NULL'")
    for name in sorted(decoding.partitions & key_sql.keys()):
        reason = (
            f"key column {name}: an empty text, which Delta makes NULL in a partition column; make the table again without partition.by"
        )
        cases.append(f"WHEN {op} <> 't' AND {key_sql[name]} = '' THEN {text_sql(reason)}")
    for _, v, envelope in envelopes:
        image = _image(v, envelope, decoding)
        if envelope.kind != UNWRAPPED:
            needed = f"{v}.op IN ('c', 'r', 'u') AND {v}.after IS NULL"
            cases.append(f"WHEN {needed} THEN 'the record has no row image'")
            if decoding.keys_of_value or (decoding.images and not key_sql):
                cases.append(f"WHEN {v}.op = 'd' AND {image} IS NULL THEN 'a delete without key and without its old row cannot be applied'")
        for one in envelope.fields:
            if one.conversion.failed is not None and (decoding.keys_of_value or one.name.lower() not in key_names):
                test = one.conversion.failed(f"{image}.{quote(one.member)}")
                if (absent := _is_missing(one, image, decoding)) is not None:
                    test = f"({test} AND NOT coalesce({absent}, false))"
                reason = f"column {one.name}: the value has no {one.conversion.type.simpleString()}"
                if isinstance(one.conversion.type, t.VariantType):
                    reason += " (it is no JSON, has a key twice, or a number that a variant would change; table.<rule>.json.type=string keeps the text)"
                cases.append(f"WHEN {test} THEN {text_sql(reason)}")
    return "CASE " + " ".join(cases) + " END"


def _literal(schema_id: bytes) -> str:
    return f"X'{schema_id.hex()}'"
