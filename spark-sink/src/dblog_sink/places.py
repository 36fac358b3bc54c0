"""Where records stand in the source's log: position and transaction of rows, begins and ends of transactions; read in the JVM, no column of a row is.

The reader schema has the source block's position, the operation and the transaction's id only, so a place costs a fraction of what a row costs.
A record that is no readable row has no place: its columns are NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t
from pyspark.sql.avro.functions import from_avro

from dblog_sink.decode import OP, SEQ1, SEQ2, by_head, derived_sql, position_sql
from dblog_sink.epochs import Sight, Stretch
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


def sighted(raw: DataFrame, envelopes: Mapping[bytes, Envelope]) -> DataFrame:
    """Partition, offset and ``s`` (``_SIGHT``) of the records without a sequence; those with a file tell of their source's logs (``epochs``)."""
    telling = {frame: one for frame, one in envelopes.items() if one.derived}
    values = {frame: f"_v{n}" for n, frame in enumerate(telling)}
    structs = raw.select("partition", "offset", "value_head", *(_struct(frame, e).alias(values[frame]) for frame, e in telling.items()))
    branches = [(frame, _sight(values[frame], envelope)) for frame, envelope in telling.items()]
    # Exploded, not filtered: a filter would be pushed through, and decode twice.
    return structs.select("partition", "offset", F.explode(F.expr(by_head("value_head", branches, t.ArrayType(_SIGHT)))).alias("s"))


def sights(found: DataFrame) -> Iterator[tuple[int, Sight]]:
    """Few records of ``sighted`` one by one, in the order of each partition."""
    rows = found.where("s.file IS NOT NULL").select("partition", "offset", "s.*").collect()
    for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
        yield (
            row["partition"],
            Sight(
                offset=row["offset"],
                place=(row["file"], row["low"]),
                ts_ms=row["ts_ms"] or 0,
                server=row["server"] or 0,
                gtid=row["gtid"],
                dumped=row["dumped"],
                selected=row["selected"],
            ),
        )


def stretches(found: DataFrame) -> dict[int, Stretch]:
    """Many records of ``sighted``, counted by partition."""
    place = F.struct("s.file", "s.low")
    before = F.lag(place).over(Window.partitionBy("partition").orderBy("offset"))
    number = F.regexp_extract("s.gtid", _GTID, 2)
    numbered = F.when(number != "", number.cast("long"))
    changed = F.when(~F.col("s.dumped"), F.col("s.ts_ms"))
    rows = (
        found.where("s.file IS NOT NULL AND NOT s.selected")
        .withColumn("_before", before)
        .groupBy(
            "partition", F.when(~F.col("s.dumped"), F.col("s.server")).alias("server"), F.regexp_extract("s.gtid", _GTID, 1).alias("source")
        )
        .agg(
            F.count_if(place < F.col("_before")).alias("falls"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            F.min_by(place, "offset").alias("first"),
            F.max(F.when(~F.col("s.dumped"), place)).alias("last"),
            F.min(changed).alias("ts_min"),
            F.max(changed).alias("ts_max"),
            F.max(numbered).alias("number"),
            F.max_by(F.col("s.gtid"), "offset").alias("gtid"),
        )
        .collect()
    )
    return {
        partition: _together([row for row in rows if row["partition"] == partition]) for partition in {row["partition"] for row in rows}
    }


def selected(found: DataFrame) -> dict[int, dict[int, tuple[int, int]]]:
    """Rows of incremental snapshots among many records of ``sighted``: by partition and server the lowest place."""
    rows = (
        found.where("s.file IS NOT NULL AND s.selected")
        .groupBy("partition", "s.server")
        .agg(F.min(F.struct("s.file", "s.low")).alias("place"))
    )
    places: dict[int, dict[int, tuple[int, int]]] = {}
    for row in rows.collect():
        places.setdefault(row["partition"], {})[row["server"] or 0] = tuple(row["place"])
    return places


def _together(rows: Sequence[Row]) -> Stretch:
    first, last = min(rows, key=lambda row: row["first_offset"]), max(rows, key=lambda row: row["last_offset"])
    times = [row[name] for row in rows for name in ("ts_min", "ts_max") if row[name] is not None]
    gtids: dict[str, int] = {}
    for row in rows:
        if row["number"] is not None:
            gtids[row["source"]] = max(row["number"], gtids.get(row["source"], -1))
    return Stretch(
        first_offset=first["first_offset"],
        last_offset=last["last_offset"],
        first=tuple(first["first"]),
        last=max((tuple(row["last"]) for row in rows if row["last"] is not None), default=None),
        falls=sum(row["falls"] for row in rows),
        ts_min_ms=min(times, default=None),
        ts_max_ms=max(times, default=None),
        servers=frozenset(row["server"] for row in rows if row["server"]),
        gtids=gtids,
        gtid=last["gtid"],
    )


_GTID = "^(.+)[:-]([0-9]+)$"
"""The same rule as ``epochs``."""
_SIGHT = t.StructType(
    [
        t.StructField("file", t.LongType()),
        t.StructField("low", t.LongType()),
        t.StructField("ts_ms", t.LongType()),
        t.StructField("server", t.LongType()),
        t.StructField("gtid", t.StringType()),
        t.StructField("dumped", t.BooleanType()),
        t.StructField("selected", t.BooleanType()),
    ]
)


def _sight(v: str, envelope: Envelope) -> str:
    """SQL of an array of the record's sight; without a file where it tells nothing.

    Without the row's number, which begins anew with each event of a compressed transaction.
    """
    source, has = f"{v}.source", envelope.source_fields
    file, _ = derived_sql(v, envelope)
    snapshot = f"coalesce(CAST({source}.snapshot AS STRING), '')" if "snapshot" in envelope.place_fields else "'incremental'"
    tells = f"{v}.op IN ('c', 'u', 'd', 't', 'r') AND {source}.pos IS NOT NULL"
    derived = f"{source}.sequence IS NULL" if "sequence" in has else "true"
    parts = {
        "file": f"IF({tells}, {file}, NULL)",
        "low": f"shiftleft({source}.pos, 23)",
        "ts_ms": f"CAST({source}.ts_ms AS BIGINT)" if "ts_ms" in has else "0L",
        "server": f"CAST({source}.server_id AS BIGINT)" if "server_id" in envelope.place_fields else "0L",
        "gtid": f"{source}.gtid" if "gtid" in envelope.place_fields else "CAST(NULL AS STRING)",
        "dumped": f"{v}.op = 'r'",
        "selected": f"{v}.op = 'r' AND {snapshot} = 'incremental'",
    }
    struct = ", ".join(f"'{name}', {sql}" for name, sql in parts.items())
    return f"IF({v}.op IS NOT NULL AND {derived}, array(named_struct({struct})), NULL)"


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
