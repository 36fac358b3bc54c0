"""Reads the log positions of records, and BEGIN and END records of transactions, in the JVM.

The reader schema has only the source block's position, the operation and the transaction's id, so
reading a position costs a fraction of reading a row. A record that is not a readable row has NULL
in these columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.records import lsn_positions
from dblog_sink.records.decode import OP, SEQ1, SEQ2, by_schema_id, derived_sql, position_sql
from dblog_sink.records.source_epochs import EPOCH_SHIFT, LoggedRange, LoggedRecord
from dblog_sink.schema.avro import read_avro
from dblog_sink.schema.types import type_sql
from dblog_sink.schema.writer_schemas import Envelope

TX, ORDER = "_dblog_tx", "_dblog_order"
FILE, POS, LSN = "_dblog_file", "_dblog_pos", "_dblog_lsn"
INTERLEAVED = "_dblog_interleaved"
"""Column that is true if the position comes from a log with interleaved transactions, which is
PostgreSQL's as Debezium writes it. dblog's positions are those of commits.
"""

_POSTGRES_ID = "^([0-9]+):[0-9]+$"
"""The pattern of ``snapshots/rule.transaction_id``."""
_SCHEMAS_MAX = 25
"""Maximum number of schemas in a projection; each record is tried against all of them."""
_TRANSACTION = t.StructType(
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


def with_positions(raw: DataFrame, envelopes: Mapping[bytes, Envelope], keep: Sequence[str]) -> DataFrame:
    """Return all records of ``raw`` with the columns ``keep`` and those of the position.

    ``raw`` has partition, value and value_schema_id.
    """
    values = {schema_id: f"_v{n}" for n, schema_id in enumerate(envelopes)}
    structs = raw.select(
        *dict.fromkeys((*keep, "partition", "value_schema_id")),  # an epoch depends on the partition
        *(_struct(schema_id, e).alias(values[schema_id]) for schema_id, e in envelopes.items()),
    )
    return structs.selectExpr(*(f"`{name}`" for name in keep), *_projection(envelopes, values))


def positions_by_schema(raw: DataFrame, envelopes: Mapping[bytes, Envelope], keep: Sequence[str]) -> Iterator[DataFrame]:
    """Yield the positions of records with these schemas, in a frame for each 25 schemas."""
    schema_ids = sorted(envelopes)
    for at in range(0, len(schema_ids), _SCHEMAS_MAX):
        some = schema_ids[at : at + _SCHEMAS_MAX]
        mine = raw.where(F.col("value_schema_id").isin([bytearray(schema_id) for schema_id in some]))
        yield with_positions(mine, {schema_id: envelopes[schema_id] for schema_id in some}, keep)


def unsequenced(raw: DataFrame, envelopes: Mapping[bytes, Envelope]) -> DataFrame:
    """Return the records without a sequence: partition, offset and a struct ``s`` (``_LOGGED``).

    Those with a file show which log they come from (``source_epochs.py``).
    """
    derived_schemas = {schema_id: one for schema_id, one in envelopes.items() if one.derived}
    values = {schema_id: f"_v{n}" for n, schema_id in enumerate(derived_schemas)}
    structs = raw.select(
        "partition",
        "offset",
        "value_schema_id",
        *(_struct(schema_id, e).alias(values[schema_id]) for schema_id, e in derived_schemas.items()),
    )
    branches = [(schema_id, _logged_record(values[schema_id], envelope)) for schema_id, envelope in derived_schemas.items()]
    # Exploded instead of filtered: a filter would be pushed down, and records decoded twice.
    return structs.select(
        "partition", "offset", F.explode(F.expr(by_schema_id("value_schema_id", branches, t.ArrayType(_LOGGED)))).alias("s")
    )


def writers(raw: DataFrame, envelopes: Mapping[bytes, Envelope]) -> list[Row]:
    """Return what dblog and Debezium wrote, by partition and epoch, among PostgreSQL's records.

    Each row has ``partition``, ``epoch``, the ``first`` and ``last`` offset, and the greatest first
    number of a position (``high``). The epoch is NULL for records without D7's numbers, which
    Debezium wrote. Records that are not readable rows are left out.
    """
    frames = positions_by_schema(raw, envelopes, ("partition", "offset"))
    epoch = F.when(~F.col(INTERLEAVED), F.shiftright(SEQ1, EPOCH_SHIFT)).alias("epoch")
    # Grouped instead of filtered: a filter would be pushed down, and records decoded twice.
    found = reduce(DataFrame.unionByName, frames).groupBy("partition", epoch, F.col(OP).isNotNull().alias("readable"))
    rows = found.agg(F.min("offset").alias("first"), F.max("offset").alias("last"), F.max(SEQ1).alias("high")).collect()
    return sorted((row for row in rows if row["readable"]), key=lambda row: (row["partition"], row["first"]))


def sequenced(raw: DataFrame, envelopes: Mapping[bytes, Envelope]) -> dict[int, list[tuple[int, int]]]:
    """Return the first offset of each epoch, and the epoch, by partition.

    Only records with ``source.sequence`` count.
    """
    of_dblog = {schema_id: one for schema_id, one in envelopes.items() if one.derived and "sequence" in one.source_fields}
    values = {schema_id: f"_v{n}" for n, schema_id in enumerate(of_dblog)}
    structs = raw.select(
        "partition", "offset", "value_schema_id", *(_struct(schema_id, e).alias(values[schema_id]) for schema_id, e in of_dblog.items())
    )
    branches = [
        (schema_id, f"IF({v}.op IS NOT NULL, {lsn_positions.quoted_part(f'{v}.source.sequence', 1)}, NULL)")
        for schema_id, v in values.items()
    ]
    epoch = F.shiftright(F.expr(by_schema_id("value_schema_id", branches, t.LongType())), EPOCH_SHIFT).alias("epoch")
    # Grouped instead of filtered: a filter would be pushed down, and records decoded twice.
    found: dict[int, list[tuple[int, int]]] = {}
    for row in structs.groupBy("partition", epoch).agg(F.min("offset").alias("first")).collect():
        if row["epoch"] is not None:
            found.setdefault(row["partition"], []).append((row["first"], row["epoch"]))
    return found


def logged_records(found: DataFrame) -> Iterator[tuple[int, LoggedRecord]]:
    """Yield the records of ``unsequenced``, in the order of each partition.

    Only for few records.
    """
    rows = found.where("s.file IS NOT NULL").select("partition", "offset", "s.*").collect()
    for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
        yield (
            row["partition"],
            LoggedRecord(
                offset=row["offset"],
                position=(row["file"], row["low"]),
                ts_ms=row["ts_ms"] or 0,
                server=row["server"] or 0,
                gtid=row["gtid"],
                dumped=row["dumped"],
                selected=row["selected"],
            ),
        )


def logged_ranges(found: DataFrame) -> dict[int, LoggedRange]:
    """Summarize the records of ``unsequenced`` by partition, for many records."""
    position = F.struct("s.file", "s.low")
    before = F.lag(position).over(Window.partitionBy("partition").orderBy("offset"))
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
            F.count_if(position < F.col("_before")).alias("regressions"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            F.min_by(position, "offset").alias("first"),
            F.max(F.when(~F.col("s.dumped"), position)).alias("last"),
            F.min(changed).alias("ts_min"),
            F.max(changed).alias("ts_max"),
            F.max(numbered).alias("number"),
            F.max_by(F.col("s.gtid"), "offset").alias("gtid"),
        )
        .collect()
    )
    return {
        partition: _range_of([row for row in rows if row["partition"] == partition]) for partition in {row["partition"] for row in rows}
    }


def snapshot_positions(found: DataFrame) -> dict[int, dict[int, tuple[int, int]]]:
    """Return the lowest position of incremental snapshot rows, by partition and server.

    The rows are those of ``unsequenced``.
    """
    rows = (
        found.where("s.file IS NOT NULL AND s.selected")
        .groupBy("partition", "s.server")
        .agg(F.min(F.struct("s.file", "s.low")).alias("position"))
    )
    positions: dict[int, dict[int, tuple[int, int]]] = {}
    for row in rows.collect():
        positions.setdefault(row["partition"], {})[row["server"] or 0] = tuple(row["position"])
    return positions


def _range_of(rows: Sequence[Row]) -> LoggedRange:
    first, last = min(rows, key=lambda row: row["first_offset"]), max(rows, key=lambda row: row["last_offset"])
    times = [row[name] for row in rows for name in ("ts_min", "ts_max") if row[name] is not None]
    gtids: dict[str, int] = {}
    for row in rows:
        if row["number"] is not None:
            gtids[row["source"]] = max(row["number"], gtids.get(row["source"], -1))
    return LoggedRange(
        first_offset=first["first_offset"],
        last_offset=last["last_offset"],
        first=tuple(first["first"]),
        last=max((tuple(row["last"]) for row in rows if row["last"] is not None), default=None),
        regressions=sum(row["regressions"] for row in rows),
        ts_min_ms=min(times, default=None),
        ts_max_ms=max(times, default=None),
        servers=frozenset(row["server"] for row in rows if row["server"]),
        gtids=gtids,
        gtid=last["gtid"],
    )


_GTID = "^(.+)[:-]([0-9]+)$"
"""The pattern of ``source_epochs``."""
_LOGGED = t.StructType(
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


def _logged_record(v: str, envelope: Envelope) -> str:
    """Return SQL of an array with one ``_LOGGED`` struct for a record without a sequence.

    Its file is NULL if the record has no position. The row number is left out, since it restarts
    from 0 with each event of a compressed transaction.
    """
    source, has = f"{v}.source", envelope.source_fields
    file, _ = derived_sql(v, envelope)
    snapshot = f"coalesce(CAST({source}.snapshot AS STRING), '')" if "snapshot" in envelope.position_fields else "'incremental'"
    has_position = f"{v}.op IN ('c', 'u', 'd', 't', 'r') AND {source}.pos IS NOT NULL"
    derived = f"{source}.sequence IS NULL" if "sequence" in has else "true"
    parts = {
        "file": f"IF({has_position}, {file}, NULL)",
        "low": f"shiftleft({source}.pos, 23)",
        "ts_ms": f"CAST({source}.ts_ms AS BIGINT)" if "ts_ms" in has else "0L",
        "server": f"CAST({source}.server_id AS BIGINT)" if "server_id" in envelope.position_fields else "0L",
        "gtid": f"{source}.gtid" if "gtid" in envelope.position_fields else "CAST(NULL AS STRING)",
        "dumped": f"{v}.op = 'r'",
        "selected": f"{v}.op = 'r' AND {snapshot} = 'incremental'",
    }
    struct = ", ".join(f"'{name}', {sql}" for name, sql in parts.items())
    return f"IF({v}.op IS NOT NULL AND {derived}, array(named_struct({struct})), NULL)"


def transactions(raw: DataFrame, writers: Mapping[bytes, str], keep: Sequence[str]) -> DataFrame:
    """Return BEGIN and END records of transactions.

    The columns are ``keep``, ``status``, the id, ``ts_ms`` and ``counts``, an array of
    data_collection and event_count.
    """
    whole = t.StructType([t.StructField("payload", _TRANSACTION)])
    structs = [
        F.when(
            F.col("value_schema_id") == F.lit(bytearray(schema_id)),
            read_avro(F.expr("substring(value, 6)"), writer) if writer else F.from_json(F.col("value").cast("string"), whole)["payload"],
        ).alias(f"_dblog_tx{n}")
        for n, (schema_id, writer) in enumerate(writers.items())
    ]
    # A projection of their own: Spark would decode a record again for each of its fields.
    decoded = raw.select(*keep, *structs)
    parts = {
        field.name: F.coalesce(
            *(F.col(f"_dblog_tx{n}")[field.name].cast(field.dataType) for n in range(len(structs))), F.lit(None).cast(field.dataType)
        )
        for field in _TRANSACTION
    }
    return decoded.select(
        *keep,
        parts["status"].alias("status"),
        same_id(parts["id"]).alias(TX),
        parts["data_collections"].alias("counts"),
        parts["ts_ms"].alias("ts_ms"),
    )


def same_id(given: Column) -> Column:
    """Return the column form of ``snapshots/rule.transaction_id``."""
    return F.regexp_replace(given, _POSTGRES_ID, "$1")


def _struct(schema_id: bytes, schema: Envelope) -> Column:
    mine = F.col("value_schema_id") == F.lit(bytearray(schema_id))
    if schema.position_json is not None:
        record = F.from_json(F.col("value").cast("string"), t.StructType([t.StructField("payload", schema.position_json)]))
        return F.when(mine, record["payload"])
    struct = read_avro(F.expr("substring(value, 6)"), schema.writer_text, schema.position_text)
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
        INTERLEAVED: ([], t.BooleanType()),
    }
    for schema_id, envelope in envelopes.items():
        v = values[schema_id]
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
            LSN: f"IF({v}.op IS NULL, NULL, {lsn_positions.lsn_sql(v, sequence='sequence' in has)})"
            if envelope.by_lsn
            else "CAST(NULL AS BIGINT)",
            INTERLEAVED: f"NOT {lsn_positions.is_numbered(v)}" if envelope.by_lsn and envelope.may_be_numbered else str(envelope.by_lsn),
        }
        for name, sql in parts.items():
            named[name][0].append((schema_id, f"CAST({sql} AS {type_sql(named[name][1])})"))
    return [f"{by_schema_id('value_schema_id', branches, kind)} AS `{name}`" for name, (branches, kind) in named.items()]
