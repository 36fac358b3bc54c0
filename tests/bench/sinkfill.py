"""Fills topics with the records of a dblog worker, fast: rows are made and encoded by Spark, without a database.

    python sinkfill.py <job.json>

The job: ``bootstrap``, ``topic``, ``partitions``, ``records`` (fields of ``sinkworks.Records``), ``schemas`` ([{key_id, key, value_id, value}, ...], one
for each table) and ``reserve``: with it all records go to one partition of one topic in order, their destination in the header ``to``.

Event e belongs to partition e % partitions, and so does its key, so each Spark task writes one partition in order of the log.
"""

from __future__ import annotations

import json
import sys
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import to_avro

SEQ1 = 1 << 32 | 1
FIRST_POSITION = 1_000


def row(key: str, version: str) -> str:
    """SQL of one row of the table; every column follows from the key and the number of the event that wrote it."""
    return (
        f"named_struct('id', {key}, 'amount', CAST(pmod({key} * 7919 + {version} * 31, 2000000000) AS INT), 'name', concat('name-', {key}),"
        f" 'price', CAST(pmod({key} + {version}, 1000000) / 100 AS DECIMAL(12, 2)), 'kind', CAST(pmod({version}, 30000) AS INT),"
        f" 'flag', CAST(pmod({version}, 2) AS INT), 'made', 1704067200000000L + {key} * 1000003L,"
        f" 'seen', date_format(timestamp_millis(1704067200000L + pmod({version}, 100000000L) * 1003L), \"yyyy-MM-dd'T'HH:mm:ss.SSS'Z'\"),"
        f" 'note', rpad({version}, 30, 'abcdefghij'), 'weight', CAST({version} AS DOUBLE) / 7)"
    )


def events(session: SparkSession, records: dict[str, Any], partition: int, partitions: int) -> DataFrame:
    """(e, id, op, version) of one partition, in order; e counts from 0."""
    numbers = session.range(partition, records["count"], partitions, 1).withColumnRenamed("id", "e")
    kind, base, hot, first = records["kind"], records["base"], records["hot"], records["first"]
    if kind in ("dump", "insert"):
        return numbers.selectExpr("e", f"e + {base} AS id", f"'{'r' if kind == 'dump' else 'c'}' AS op")
    in_partition = max(1, base // partitions // hot)
    changed = f"pmod(xxhash64(e + {first}), {in_partition}) * {hot * partitions} + {partition}"
    dice = f"pmod(xxhash64(e + {first}, 1), 100)"
    op = f"CASE WHEN {dice} < 80 THEN 'u' WHEN {dice} < 95 THEN 'c' ELSE 'd' END"
    drawn = numbers.selectExpr("e", f"{changed} AS changed", f"{op} AS op")
    return drawn.selectExpr("e", f"IF(op = 'c', {base} + {first} + e, changed) AS id", "op")


def framed(schema: Any, schema_id: int, struct: str) -> Column:
    head = "X'00" + schema_id.to_bytes(4, "big").hex() + "'"
    return F.concat(F.expr(head), to_avro(F.expr(struct), json.dumps(schema)))


def records_of(drawn: DataFrame, schema: dict[str, Any], records: dict[str, Any], table: str) -> DataFrame:
    """Key and value as the worker's Avro converter writes them: full images, the source block with D7's sequence."""
    drawn = drawn.selectExpr("e", "id", "op", f"e + {records['first']} AS n")
    position = f"({FIRST_POSITION} + n)" if records["kind"] != "dump" else str(FIRST_POSITION)
    seq2 = f"shiftleft(CAST({position} AS BIGINT), 23)"
    after, before = row("id", "n"), row("id", "(n - 1)")
    source = (
        "named_struct('version', '0.1', 'connector', 'mysql', 'name', 'bench', 'ts_ms', 1700000000000L + n DIV 50, 'snapshot', 'false', 'db', 'shop',"
        f" 'sequence', concat('[\"{SEQ1}\",\"', {seq2}, '\"]'), 'ts_us', 1700000000000000L, 'ts_ns', 1700000000000000000L, 'table', '{table}',"
        f" 'server_id', 1L, 'gtid', CAST(NULL AS STRING), 'file', 'binlog.000001', 'pos', {position}, 'row', 0, 'thread', 7L, 'query', CAST(NULL AS STRING))"
    )
    source = source.replace(f"'pos', {position}", f"'pos', CAST({position} AS BIGINT)")
    value = (
        f"named_struct('before', IF(op IN ('u', 'd'), {before}, NULL), 'after', IF(op = 'd', NULL, {after}), 'source', {source}, 'transaction',"
        " CAST(NULL AS STRUCT<id: STRING, total_order: BIGINT, data_collection_order: BIGINT>), 'op', op, 'ts_ms', 1700000000000L,"
        " 'ts_us', 1700000000000000L, 'ts_ns', 1700000000000000000L)"
    )
    return drawn.select(
        "e",
        framed(schema["key"], schema["key_id"], "named_struct('id', id)").alias("key"),
        framed(schema["value"], schema["value_id"], value).alias("value"),
    )


def filled(session: SparkSession, job: dict[str, Any]) -> DataFrame:
    """The frame that Spark's Kafka writer takes."""
    records, partitions = job["records"], job["partitions"]
    if not job["reserve"]:
        each = [records_of(events(session, records, p, partitions), job["schemas"][0], records, "orders") for p in range(partitions)]
        parts = [frame.select("key", "value", F.lit(p).alias("partition")) for p, frame in enumerate(each)]
        return reduce(DataFrame.unionByName, parts)
    tables = len(job["schemas"])
    drawn = events(session, records, 0, 1)
    if tables == 1:
        frame = records_of(drawn, job["schemas"][0], records, "orders").withColumn("to", F.lit(job["schemas"][0]["topic"]))
    else:  # every table has the same columns, so only the two ids of the frames differ
        frame = records_of(drawn, job["schemas"][0], records, "orders").withColumn("at", F.expr(f"CAST(e % {tables} AS INT)"))
        heads = F.array(*(F.lit(bytearray(b"\0" + one["value_id"].to_bytes(4, "big"))) for one in job["schemas"]))
        key_heads = F.array(*(F.lit(bytearray(b"\0" + one["key_id"].to_bytes(4, "big"))) for one in job["schemas"]))
        frame = (
            frame.withColumn("key", F.concat(key_heads[F.col("at")], F.expr("substring(key, 6)")))
            .withColumn("value", F.concat(heads[F.col("at")], F.expr("substring(value, 6)")))
            .withColumn("to", F.array(*(F.lit(one["topic"]) for one in job["schemas"]))[F.col("at")])
        )
    header = F.array(F.struct(F.lit("to").alias("key"), F.col("to").cast("binary").alias("value")))
    return frame.select("key", "value", F.lit(0).alias("partition"), header.alias("headers"))


def main() -> int:
    job = json.loads(Path(sys.argv[1]).read_text())
    builder = SparkSession.builder.appName("fill").master("local[2]")
    for name, value in job["spark"].items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    (
        filled(session, job)
        .write.format("kafka")
        .option("kafka.bootstrap.servers", job["bootstrap"])
        .option("kafka.compression.type", "lz4")
        .option("kafka.batch.size", str(512 * 1024))
        .option("kafka.linger.ms", "20")
        .option("kafka.max.in.flight.requests.per.connection", "1")
        .option("includeHeaders", str(bool(job["reserve"])).lower())
        .option("topic", job["topic"])
        .save()
    )
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
