"""Where records stand in the source's log: position and transaction of rows, begins and ends of transactions; read in the JVM, no column of a row is.

The reader schema has the source block's position, the operation and the transaction's id only, so a place costs a fraction of what a row costs.
A record that is no readable row has no place: its columns are NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t
from pyspark.sql.avro.functions import from_avro

from dblog_sink.decode import OP, SEQ1, SEQ2, by_head, position_sql
from dblog_sink.schemas import Envelope

TX, ORDER = "_dblog_tx", "_dblog_order"
FILE, POS, LSN = "_dblog_file", "_dblog_pos", "_dblog_lsn"
PLACE = (OP, SEQ1, SEQ2, TX, ORDER, FILE, POS, LSN)

_POSTGRES_ID = "^([0-9]+):[0-9]+$"
"""The same rule as ``cuts.transaction_id``."""
_SCHEMAS_MAX = 25
"""Schemas of one projection; each record is tried against all of them."""
_TOLD = t.StructType(
    [
        t.StructField("status", t.StringType()),
        t.StructField("id", t.StringType()),
        t.StructField(
            "data_collections",
            t.ArrayType(t.StructType([t.StructField("data_collection", t.StringType()), t.StructField("event_count", t.LongType())])),
        ),
        t.StructField("ts_ms", t.LongType()),
    ]
)


def placed(raw: DataFrame, envelopes: Mapping[bytes, Envelope], keep: Sequence[str]) -> DataFrame:
    """Every record of ``raw`` with the columns ``keep`` and its place. ``raw`` has value and value_head."""
    values = {frame: f"_v{n}" for n, frame in enumerate(envelopes)}
    structs = raw.select(*dict.fromkeys((*keep, "value_head")), *(_struct(frame, e).alias(values[frame]) for frame, e in envelopes.items()))
    return structs.selectExpr(*(f"`{name}`" for name in keep), *_projection(envelopes, values))


def index(raw: DataFrame, envelopes: Mapping[bytes, Envelope], keep: Sequence[str]) -> Iterator[DataFrame]:
    """The places of the records of these schemas alone, a frame for some schemas each."""
    frames = sorted(envelopes)
    for at in range(0, len(frames), _SCHEMAS_MAX):
        some = frames[at : at + _SCHEMAS_MAX]
        mine = raw.where(F.col("value_head").isin([bytearray(frame) for frame in some]))
        yield placed(mine, {frame: envelopes[frame] for frame in some}, keep)


def transactions(raw: DataFrame, writers: Mapping[bytes, str], keep: Sequence[str]) -> DataFrame:
    """Begins and ends with the columns ``keep``: ``status``, the id, ``counts`` (an array of data_collection and event_count) and ``ts_ms``."""
    told: Column = F.lit(None).cast(_TOLD)
    for frame, writer in writers.items():
        if writer:
            struct = from_avro(F.expr("substring(value, 6)"), writer, {"mode": "PERMISSIVE"})
            parts = [struct[field.name].cast(field.dataType).alias(field.name) for field in _TOLD]
            record = F.struct(*parts)
        else:
            whole = t.StructType([t.StructField("payload", _TOLD)])
            record = F.from_json(F.col("value").cast("string"), whole)["payload"]
        told = F.when(F.col("value_head") == F.lit(bytearray(frame)), record).otherwise(told)
    return raw.select(*keep, told.alias("told")).select(
        *keep, "told.status", same_id(F.col("told.id")).alias(TX), F.col("told.data_collections").alias("counts"), "told.ts_ms"
    )


def same_id(given: Column) -> Column:
    """``cuts.transaction_id`` in the JVM."""
    return F.regexp_replace(given, _POSTGRES_ID, "$1")


def _struct(frame: bytes, schema: Envelope) -> Column:
    mine = F.col("value_head") == F.lit(bytearray(frame))
    if schema.place_json is not None:
        record = F.from_json(F.col("value").cast("string"), t.StructType([t.StructField("payload", schema.place_json)]))
        return F.when(mine, record["payload"])
    struct = from_avro(F.expr("substring(value, 6)"), schema.writer_text, {"mode": "PERMISSIVE", "avroSchema": schema.place_text})
    return F.when(mine, struct)


def _projection(envelopes: Mapping[bytes, Envelope], values: Mapping[bytes, str]) -> list[str]:
    named: dict[str, tuple[list[tuple[bytes, str]], t.DataType]] = {
        OP: ([], t.StringType()),
        SEQ1: ([], t.LongType()),
        SEQ2: ([], t.LongType()),
        TX: ([], t.StringType()),
        ORDER: ([], t.LongType()),
        FILE: ([], t.StringType()),
        POS: ([], t.LongType()),
        LSN: ([], t.LongType()),
    }
    for frame, envelope in envelopes.items():
        v = values[frame]
        seq1, seq2 = position_sql(v, envelope)
        has, tx = envelope.source_fields, envelope.has_transaction
        parts = {
            OP: f"{v}.op",
            SEQ1: seq1,
            SEQ2: seq2,
            TX: f"regexp_replace({v}.transaction.id, '{_POSTGRES_ID}', '$1')" if tx else "CAST(NULL AS STRING)",
            ORDER: f"{v}.transaction.total_order" if tx else "CAST(NULL AS BIGINT)",
            FILE: f"{v}.source.file" if "file" in has else "CAST(NULL AS STRING)",
            POS: f"CAST({v}.source.pos AS BIGINT)" if "pos" in has else "CAST(NULL AS BIGINT)",
            LSN: f"CAST({v}.source.lsn AS BIGINT)" if "lsn" in has else "CAST(NULL AS BIGINT)",
        }
        for name, sql in parts.items():
            named[name][0].append((frame, f"CAST({sql} AS {named[name][1].simpleString()})"))
    return [f"{by_head('value_head', branches, kind)} AS `{name}`" for name, (branches, kind) in named.items()]
