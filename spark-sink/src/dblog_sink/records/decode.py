"""Decodes a topic's Kafka records to flat rows in the JVM, with one ``from_avro`` a writer schema.

No value passes through Python. The projection is built from the schemas that occur in a batch, so a
new schema id needs no restart. Each row has its key columns (from the key record, so a delete works
without ``before``), its data columns in the target's types, and its position. If something is wrong
with the record, ``_dblog_bad`` has the reason; such rows go to quarantine instead of stopping the
batch. ``from_avro`` and ``from_json`` run in PERMISSIVE mode, in which a record that does not
decode becomes NULLs, so that its ``op`` is none of Debezium's (Spark, "Apache Avro Data Source
Guide", from_avro).

An unwrapped row (ExtractNewRecordState) has no envelope. Its operation is in the fields that the
transform added, or else it is an update; a null value is a delete. Its position is its Kafka
offset, since it contains nothing that sorts.

There must be two separate projections: Spark merges adjacent projections only while that does not
repeat an expensive expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame

# Spark's own idiom.
from pyspark.sql import functions as F  # noqa: N812
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
"""Column with the names of columns whose value the record lacks; NULL if it has all."""
PARTIAL = "_dblog_partial"
"""Column that is true for a dumped row of some columns only (mode ``columns``). It has no values
for the others, which are not checked for quarantine.
"""
PARTITION, RESENT, OWN = "_dblog_partition", "_dblog_resent", "_dblog_own"
"""Columns of append mode and replays: the partition of a record, whether it was applied before, and
whether its position belongs to this record alone.
"""
STEADY = "_dblog_steady"
"""Column of a delete that comes from an update of key columns: names of the data columns that the
update left unchanged. NULL for other rows.
"""
_END = "_dblog_log_end"
"""Log end of a record's partition, joined to the record."""
NULL = "n"
"""Operation of a null value. It stands for a delete that may have been compacted away; its time is
Kafka's.
"""
OPS = ("c", "r", "u", "d", "t")
"""Operations that are applied. ``m``, a logical message of PostgreSQL, never occurs in a table's
topic.
"""

LogEnd = tuple[int, int, int]
"""A position and 1 for an insert, else 0. A changed key is a delete and an insert at one position,
in this order.
"""


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The end of a topic's applied log by partition.

    It holds for one Delta table and is void for another one under the same path.
    """

    positions: Mapping[int, LogEnd] = field(default_factory=dict)
    table_id: str | None = None
    version: int | None = None
    """Version up to which the table's commits were checked (``delta/restored.py``)."""


NO_LOG_ENDS = LogEnds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """The inputs of a topic's projection.

    ``unreadable_ids`` maps schema ids of values to reasons for quarantine.
    """

    keys: Columns
    columns: Columns
    """Data columns of the target that are not key columns."""
    envelopes: Mapping[bytes, Envelope]
    key_schemas: Mapping[bytes, KeySchema]
    unreadable_ids: Mapping[bytes, str]
    topic_order: bool = False
    log_ends: Mapping[int, LogEnd] | None = None
    """Topic partition to the position up to which rows of the log were applied before. Set only if
    nothing else recognizes a record that is sent again.
    """
    images: bool = False
    """True in append mode: an update yields two rows, its old image as ``b`` and its new one as
    ``u``.
    """
    keep_offsets: bool = False
    """True if every row has the Kafka offset of its record, as in append mode."""
    unwrapped: bool = False
    """True for rows without envelope, for which a null value is a delete."""
    nulls: bool = False
    """True if a null value is a row too, with operation ``n`` and no position; ``rows.deletes``
    finds what it deletes.
    """
    keys_of_value: bool = False
    """True if the key columns are columns of the row instead of the record's key. An update that
    changes them also deletes its old row.
    """
    unavailable: str = ""
    """Placeholder of a value that the source does not log; empty if there is none."""
    partial: frozenset[bytes] = frozenset()
    """Schema ids of rows that have some columns only. In append mode their other columns are
    NULL.
    """
    partitions: frozenset[str] = frozenset()
    """Key columns of text by which the table is partitioned. Delta writes an empty text there as
    NULL, and the row would never be found again.
    """
    fills: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Lower-case column to a schema id and SQL of its default. Rows of lower schema ids are older
    than the column, and have the default.
    """


def decoded(raw: DataFrame, decoding: Decoding) -> DataFrame:
    """Return flat rows of a topic's records.

    ``raw`` has partition, offset, key, value, key_schema_id and value_schema_id, and null values
    only if they are asked for.
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
    """Return each record with the log end of its partition, NULL if there is none."""
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
    """Return SQL of the images that a record yields.

    An update yields both images if it carries its old row and that row matters.
    """
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
    """Return SQL of the columns that an update of the key left unchanged.

    It is for the delete of the old key.
    """
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
    """Return SQL of the columns without a value in an insert (of a changed key) or update.

    It is NULL if there are none.
    """
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
    """Return columns that a row of some columns only lacks."""
    there = {one.name.lower() for one in envelope.fields}
    return [name for name, _ in decoding.columns if name.lower() not in there] if schema_id in decoding.partial else []


def _partial(decoding: Decoding, envelopes: list[tuple[bytes, str, Envelope]]) -> str:
    tests = [f"{v}.op = 'r'" for schema_id, v, envelope in envelopes if _absent(schema_id, envelope, decoding)]
    return f"coalesce({' OR '.join(tests) or 'false'}, false)"


def _is_missing(one: Field, image: str, decoding: Decoding) -> str | None:
    return is_unavailable(one.conversion, f"{image}.{quote(one.member)}", decoding.unavailable) if decoding.unavailable else None


def by_schema_id(schema_id_column: str, branches: list[tuple[bytes, str]], kind: t.DataType) -> str:
    """Return SQL that picks the branch of the record's schema id.

    A branch is NULL for records of other ids, so a single one needs no test.
    """
    if not branches:
        return f"CAST(NULL AS {type_sql(kind)})"
    if len(branches) == 1:
        return branches[0][1]
    cases = " ".join(f"WHEN {_literal(schema_id)} THEN {sql}" for schema_id, sql in branches)
    return f"CASE {schema_id_column} {cases} END"


def _shown(op: str, decoding: Decoding) -> str:
    """Return SQL of the operation under which a row appears.

    The old image of an update is a row ``b``, or the delete of its key.
    """
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
        # The column was dropped in the source, or is newer.
        return f"CAST({missing or 'NULL'} AS {type_sql(kind)})"
    value = one.conversion.convert(f"{struct}.{quote(one.member)}")
    return value if one.conversion.type == kind else f"CAST({value} AS {type_sql(kind)})"


def _image(v: str, envelope: Envelope, decoding: Decoding) -> str:
    if envelope.kind == UNWRAPPED:
        return v
    if _with_before(decoding) and envelope.has_before:
        return f"IF(image = 'b' OR {v}.op = 'd', {v}.before, {v}.after)"
    return f"{v}.after"


def _op(v: str, envelope: Envelope) -> str:
    """Return SQL of the operation; NULL if the record did not decode."""
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
    """Return SQL of D7's two numbers, derived from Debezium's fields if the record lacks them.

    MySQL and MariaDB: epoch and file number, then offset and row. The file number is never compared
    as text, and the epoch distinguishes logs (``source_epochs.py``). PostgreSQL:
    ``lsn_positions.py``.
    """
    source = f"{v}.source"
    if envelope.derived:
        seq1, seq2 = derived_sql(v, envelope)
        if envelope.epoch:
            seq1 = f"({envelope.epoch} | {seq1})"
        if "sequence" in envelope.source_fields:
            given = f"{source}.sequence"
            # The parts of the text come first, computed for every row, so that Spark splits a row's
            # text once for all its uses.
            seq1 = f"coalesce({quoted_part(given, 1)}, IF({given} IS NULL, {seq1}, NULL))"
            seq2 = f"coalesce({quoted_part(given, 3)}, IF({given} IS NULL, {seq2}, NULL))"
        return seq1, seq2
    if envelope.by_lsn:
        return lsn_positions.position_sql(v, sequence="sequence" in envelope.source_fields, epoch=envelope.epoch)
    return "CAST(NULL AS BIGINT)", "CAST(NULL AS BIGINT)"


def derived_sql(v: str, envelope: Envelope) -> tuple[str, str]:
    """Return SQL of the number of a record's log file and of the position in it."""
    source = f"{v}.source"
    row = f"coalesce({source}.row, 0)" if "row" in envelope.source_fields else "0"
    return f"try_cast(substring_index({source}.file, '.', -1) AS BIGINT)", f"(shiftleft({source}.pos, 23) | CAST({row} AS BIGINT))"


def _resent(decoding: Decoding, envelopes: list[tuple[bytes, str, Envelope]], *, op: str, position: tuple[str, str]) -> str:
    """Return SQL that is true if the source sent the record again: it is within the applied log.

    Rows of the log are in order within a partition. One of D7's positions belongs to a single row,
    so a record at the log end was sent before. A position derived from file and offset is shared by
    the rows of a compressed transaction, so only records before the log end count. A position
    derived from an LSN proves nothing, because a restart may lower it, nor does a dump row's
    position.
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
    """Return SQL that is true if the record's position is D7's, which no other record has."""
    if not envelope.may_be_numbered:
        return "false"
    return lsn_positions.is_numbered(v) if envelope.by_lsn else f"{v}.source.sequence IS NOT NULL"


def bad_reason(
    decoding: Decoding, envelopes: list[tuple[bytes, str, Envelope]], *, op: str, position: tuple[str, str], key_sql: Mapping[str, str]
) -> str:
    """Return SQL of the reason why a record cannot be applied, NULL for a good one."""
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
                    reason += " (it is not JSON, has a key twice, or a number that a variant would change; table.<rule>.json.type=string keeps the text)"
                elif "string" in one.conversion.type.simpleString():
                    reason += " (a number has more than some 1200 digits, which are not written out)"
                cases.append(f"WHEN {test} THEN {text_sql(reason)}")
    return "CASE " + " ".join(cases) + " END"


def _literal(schema_id: bytes) -> str:
    return f"X'{schema_id.hex()}'"
