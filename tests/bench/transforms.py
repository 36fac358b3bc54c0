"""What a chain of transforms costs per record, in CPU time, between the encoders and the queue.

python tests/bench/transforms.py [--records 20000] [--rounds 5]

One table of ten columns, of updates with the row before and after, in batches of 500 records, as the
compiled encoders make them. For each chain the minimum and the median of the rounds are printed,
with the Avro converter and with JSON without schemas. What the encoders, the queue and the producer
take is not in it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from dblog.codecs import avro
from dblog.codecs.envelope import envelope_schema, key_schema, row_schema, source_schema
from dblog.codecs.schema import Kind, Schema
from dblog.kafka.converters import JsonConverter
from dblog.model import Segment, TableId
from dblog.transforms.chain import Chain
from dblog.transforms.configuration import chain_of
from dblog.transforms.stage import TransformStage
from rich.console import Console
from rich.table import Table

BATCH = 500
KAFKA, DEBEZIUM = "org.apache.kafka.connect.transforms", "io.debezium.transforms"
TEXT, LONG = Schema(kind=Kind.STRING, optional=True), Schema(kind=Kind.INT64)
ROW = row_schema(
    "shop.sales.orders", [("id", LONG), *((f"t{number}", TEXT) for number in range(5)), *((f"n{number}", LONG) for number in range(4))]
)
SOURCE = source_schema(
    "mysql",
    ("table", TEXT),
    ("server_id", LONG),
    ("gtid", TEXT),
    ("file", TEXT),
    ("pos", LONG),
    ("row", LONG),
    ("thread", LONG),
    ("query", TEXT),
)
ENVELOPE = envelope_schema("shop.sales.orders", ROW, SOURCE)
KEY = key_schema("shop.sales.orders", [("id", LONG)])

CHAINS: dict[str, dict[str, str]] = {
    "InsertHeader: nothing is read": {"x.type": f"{KAFKA}.InsertHeader", "x.header": "h", "x.value.literal": "v"},
    "ByLogicalTableRouter: only the key": {
        "x.type": f"{DEBEZIUM}.ByLogicalTableRouter",
        "x.topic.regex": "(.*)",
        "x.topic.replacement": "all",
    },
    "ExtractNewRecordState": {"x.type": f"{DEBEZIUM}.ExtractNewRecordState"},
    "ExtractNewRecordState, two fields, rewrite": {
        "x.type": f"{DEBEZIUM}.ExtractNewRecordState",
        "x.add.fields": "op,source.ts_ms",
        "x.delete.tombstone.handling.mode": "rewrite",
    },
    "ReplaceField$Value of the envelope": {"x.type": f"{KAFKA}.ReplaceField$Value", "x.exclude": "ts_us,ts_ns"},
    "Filter by an expression, all kept": {"x.type": f"{DEBEZIUM}.Filter", "x.language": "jsr223.groovy", "x.condition": "value.op != 'd'"},
    "Flatten$Value of the envelope": {"x.type": f"{KAFKA}.Flatten$Value", "x.delimiter": "_"},
    "unwrap, mask, cast": {
        "transforms": "x,y,z",
        "x.type": f"{DEBEZIUM}.ExtractNewRecordState",
        "y.type": f"{KAFKA}.MaskField$Value",
        "y.fields": "t1,t2",
        "z.type": f"{KAFKA}.Cast$Value",
        "z.spec": "n1:string",
    },
}


class Frames:
    """An Avro converter whose registry answers at once."""

    is_avro = True

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return a frame of the usual length."""
        del topic, schema
        return b"\x00\x00\x00\x00\x01"

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return nothing: the stage writes Avro itself."""
        raise AssertionError(topic, schema, value)


def chain(options: dict[str, str]) -> Chain:
    """Return the chain of a configuration."""
    made = chain_of(
        {"transforms": options.get("transforms", "x"), **{f"transforms.{name}": text for name, text in options.items() if "." in name}}
    )
    assert made is not None
    return made


def batch() -> Segment:
    """Return updates as the encoders make them."""

    def row(number: int, text: str) -> dict[str, Any]:
        return {"id": number, **{f"t{n}": f"{text} {number} {n}" for n in range(5)}, **{f"n{n}": number * 1000 + n for n in range(4)}}

    source = {
        "version": "3.6.3.Final",
        "connector": "mysql",
        "name": "shop",
        "ts_ms": 1_700_000_000_000,
        "db": "sales",
        "sequence": '["1","2"]',
    }
    source |= {"table": "orders", "server_id": 1, "file": "binlog.000001", "pos": 12345, "row": 0, "thread": 7, "ts_us": 1, "ts_ns": 1}
    writes_key, writes_value = avro.writer(KEY), avro.writer(ENVELOPE)
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for number in range(BATCH):
        key, value = bytearray(), bytearray()
        writes_key(key, {"id": number})
        change = {
            "before": row(number, "before"),
            "after": row(number, "after"),
            "source": source,
            "op": "u",
            "ts_ms": 1,
            "ts_us": 1,
            "ts_ns": 1,
        }
        writes_value(value, change)
        keys.append(bytes(key))
        values.append(bytes(value))
    return Segment("shop.sales.orders", keys, values, TableId("sales", "orders"), schemas=(KEY, ENVELOPE))


def microseconds(stage: TransformStage, segment: Segment, *, records: int, rounds: int) -> list[float]:
    """Return the CPU time of a record in each round."""
    found: list[float] = []
    for _ in range(rounds):
        began_s = time.process_time()
        for _ in range(records // BATCH):
            stage.passed([segment])
        found.append((time.process_time() - began_s) / (records // BATCH * BATCH) * 1e6)
    return found


def main() -> None:
    """Measure all chains and print the table."""
    parser = argparse.ArgumentParser(description="What transforms cost per record.")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    table = Table("chain", "Avro: minimum, median (µs of CPU)", "JSON without schemas", title="Cost of a record")
    converters = (Frames(), JsonConverter({"schemas.enable": "false"}, option_prefix=""))
    segment = batch()
    for name, options in CHAINS.items():
        shown = []
        for converter in converters:
            stage = TransformStage(chain(options), key_converter=converter, value_converter=converter)
            stage.passed([segment])
            times = microseconds(stage, segment, records=arguments.records, rounds=arguments.rounds)
            shown.append(f"{min(times):.1f}, {statistics.median(times):.1f}")
        table.add_row(name, *shown)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
