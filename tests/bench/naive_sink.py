"""The sink that everybody writes by hand, kept as the measure of ours: foreachBatch, from_avro, row_number per key, MERGE with deletion vectors.

    python naive_sink.py <job.json>

It does what the pages about "CDC with Spark and Delta" do, and what they leave out it leaves out too: one writer schema for ever, no guards, no
tombstones, no quarantine. It is not made slow: the batch of several topics is cached and its tables are found in one pass, statistics are Delta's
defaults, shuffles have a few partitions only, and ``base`` loads a table by one plain append instead of by merges.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro


def emit(job: dict[str, Any], kind: str, **facts: Any) -> None:
    with Path(job["progress"]).open("a") as out:
        out.write(json.dumps({"at": time.time(), "kind": kind, **facts}) + "\n")


def rows(frame: DataFrame, schema: str) -> DataFrame:
    envelope = from_avro(F.expr("substring(value, 6)"), schema)
    return (
        frame.where("value IS NOT NULL")
        .select(envelope.alias("e"), "offset")
        .selectExpr("coalesce(e.after.id, e.before.id) AS id", "e.op AS op", "e.after AS after", "offset")
    )


def merge(session: SparkSession, frame: DataFrame, schema: str, path: str) -> None:
    ranked = rows(frame, schema).withColumn("n", F.row_number().over(Window.partitionBy("id").orderBy(F.col("offset").desc())))
    latest = ranked.where("n = 1").selectExpr("op", "id AS key", "after.*")
    names = [name for name in latest.columns if name not in ("op", "key")]
    if not DeltaTable.isDeltaTable(session, path):
        builder = DeltaTable.create(session).location(path).addColumns(latest.select(*names).schema)
        builder.property("delta.enableDeletionVectors", "true").execute()
    values = {name: f"s.{name}" for name in names}
    (
        DeltaTable.forPath(session, path)
        .alias("t")
        .merge(latest.alias("s"), "t.id = s.key")
        .whenMatchedDelete("s.op = 'd'")
        .whenMatchedUpdate(set=values)
        .whenNotMatchedInsert("s.op <> 'd'", values=values)
        .execute()
    )


def main() -> int:
    job = json.loads(Path(sys.argv[1]).read_text())
    builder = SparkSession.builder.appName("naive").master("local[2]")
    for name, value in job["spark"].items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    topics: dict[str, dict[str, str]] = job["topics"]  # name: {path, schema}
    options = {"kafka.bootstrap.servers": job["bootstrap"], "subscribe": ",".join(topics)}
    if job["base"]:
        for one in topics.values():
            decoded = rows(session.read.format("kafka").options(**options).load(), one["schema"]).selectExpr("after.*")
            session.conf.set("spark.databricks.delta.properties.defaults.enableDeletionVectors", "true")
            decoded.write.format("delta").option("maxRecordsPerFile", "250000").save(one["path"])
        return 0

    def on_batch(frame: DataFrame, batch_id: int) -> None:
        if len(topics) == 1:
            one = next(iter(topics.values()))
            merge(frame.sparkSession, frame, one["schema"], one["path"])
        else:
            frame.persist()
            for found in frame.select("topic").distinct().collect():
                one = topics[found["topic"]]
                merge(frame.sparkSession, frame.where(F.col("topic") == found["topic"]), one["schema"], one["path"])
            frame.unpersist()
        emit(job, "batch", batch_id=batch_id)

    emit(job, "started")
    source = (
        session.readStream.format("kafka").options(**options, startingOffsets="earliest", maxOffsetsPerTrigger=job["batch_rows"]).load()
    )
    writer = source.writeStream.foreachBatch(on_batch).option("checkpointLocation", job["checkpoint"])
    query = (
        writer.trigger(processingTime=f"{job['trigger_s']} seconds") if job["trigger_s"] else writer.trigger(availableNow=True)
    ).start()
    query.awaitTermination()
    emit(job, "stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
