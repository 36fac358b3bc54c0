"""Converters with their settings, and keys, values and headers, for compare_converters.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dblog.codecs.avro import DATE, DECIMAL, TIME, TIMESTAMP
from dblog.codecs.envelope import TRANSACTION_VALUE, envelope_schema, source_schema
from dblog.codecs.schema import Field, Kind, Schema
from transform_cases import COLUMNS, RECORDS, ROW

CONNECT, STORAGE = "org.apache.kafka.connect.converters", "org.apache.kafka.connect.storage"
JSON = "org.apache.kafka.connect.json.JsonConverter"
EVENTS = "io.debezium.converters.CloudEventsConverter"
BINARY = "io.debezium.converters.BinaryDataConverter"


@dataclass(frozen=True, slots=True)
class Part:
    """A key, value or header in a topic. ``plain`` stands for one without a schema."""

    topic: str
    schema: Schema | None
    value: Any
    plain: bool = False


def _of(kind: Kind, name: str | None = None, **more: Any) -> Schema:
    return Schema(kind=kind, name=name, version=None if name is None else 1, **more)


def _row() -> dict[str, Any]:
    return {name: value for name, _, value in COLUMNS}


SINGLE: dict[str, tuple[Schema, tuple[Any, ...]]] = {
    "int8": (_of(Kind.INT8), (-128, 0, 127)),
    "int16": (_of(Kind.INT16), (-32768, -1, 32767)),
    "int32": (_of(Kind.INT32), (-(2**31), -1, 0, 258, 2**31 - 1)),
    "int64": (_of(Kind.INT64), (-(2**63), -1, 0, 258, 2**63 - 1)),
    "float": (_of(Kind.FLOAT32), (0.0, -1.5, 0.1, 3.4e38)),
    "double": (_of(Kind.FLOAT64), (0.0, -1.5, 0.1, 1e300, 2.5e-300, 1e7, 123456789.125)),
    "boolean": (_of(Kind.BOOLEAN), (True, False)),
    "text": (_of(Kind.STRING), ("", "Ada \u00e9\u20ac\U0001f600", 'quote " and \\ and \n\t\x01', "\u0100\u2028</script>")),
    "bytes": (_of(Kind.BYTES), (b"", b"\x00\x01\xff")),
    "maybe text": (_of(Kind.STRING, optional=True), (None, "x")),
    "text by default": (_of(Kind.STRING, optional=True, default="d"), (None, "x")),
    "maybe long": (_of(Kind.INT64, optional=True), (None, 5)),
    "long by default": (_of(Kind.INT64, optional=True, default=7), (None, 5)),
    "maybe bytes": (_of(Kind.BYTES, optional=True), (None, b"\x80")),
    "decimal": (_of(Kind.BYTES, DECIMAL, parameters=(("scale", "2"),)), (b"\x00", b"\xcf\xc7", (10**30).to_bytes(13, "big"))),
    "decimal without fraction": (_of(Kind.BYTES, DECIMAL, parameters=(("scale", "0"),)), (b"\x05", b"\x80")),
    "decimal of hundreds": (_of(Kind.BYTES, DECIMAL, parameters=(("scale", "-2"),)), (b"\x05",)),
    "small decimal": (_of(Kind.BYTES, DECIMAL, parameters=(("scale", "12"),)), (b"\x05", b"\x00")),
    "date": (_of(Kind.INT32, DATE), (0, 18_519, -1)),
    "time": (_of(Kind.INT32, TIME), (0, 44_800_123)),
    "timestamp": (_of(Kind.INT64, TIMESTAMP), (0, 1_600_000_000_123, -1)),
    "microseconds": (_of(Kind.INT64, "io.debezium.time.MicroTimestamp"), (1_600_000_000_123_456,)),
    "days": (_of(Kind.INT32, "io.debezium.time.Date"), (18_519,)),
    "array": (Schema(kind=Kind.ARRAY, items=_of(Kind.INT32, optional=True)), ([], [1, None, 3])),
    "array of texts": (Schema(kind=Kind.ARRAY, items=_of(Kind.STRING)), (["a", 'b"c'],)),
    "map": (Schema(kind=Kind.MAP, keys=_of(Kind.STRING), items=_of(Kind.STRING, optional=True)), ({}, {"a": "1", "b": None})),
    "map of numbers": (Schema(kind=Kind.MAP, keys=_of(Kind.INT32), items=_of(Kind.INT64)), ({3: 4},)),
    "row": (ROW, (_row(),)),
    "transaction": (
        TRANSACTION_VALUE,
        ({"status": "END", "id": "t:1", "event_count": 2, "data_collections": [{"data_collection": "a.b", "event_count": 2}], "ts_ms": 5},),
    ),
    "nested": (
        Schema(
            kind=Kind.STRUCT,
            name="n.Outer",
            version=3,
            doc="a doc",
            parameters=(("p", "q"),),
            fields=(
                Field(
                    name="inner",
                    schema=Schema(kind=Kind.STRUCT, name="n.Inner", optional=True, fields=(Field(name="x", schema=_of(Kind.INT16)),)),
                ),
                Field(name="list", schema=Schema(kind=Kind.ARRAY, optional=True, items=_of(Kind.STRING))),
                Field(name="map", schema=Schema(kind=Kind.MAP, optional=True, keys=_of(Kind.STRING), items=_of(Kind.INT32))),
            ),
        ),
        ({"inner": {"x": 3}, "list": ["a"], "map": {"k": 1}}, {"inner": None, "list": None, "map": None}),
    ),
}


def _events() -> Iterator[tuple[str, Part]]:
    """Yield changes with the whole source block of each connector."""
    big = [(name, _of(Kind.INT64, optional=True)) for name in ("server_id", "pos", "lsn", "txId", "thread")]
    some = dict(big) | {name: _of(Kind.STRING, optional=True) for name in ("table", "schema", "file", "gtid", "query")}
    some |= {"row": _of(Kind.INT32)}
    tails = {
        "mysql": ("table", "server_id", "gtid", "file", "pos", "row", "thread", "query"),
        "postgresql": ("schema", "table", "txId", "lsn"),
    }
    block = {"id": "t:1", "total_order": 3, "data_collection_order": 2}
    for connector, tail in tails.items():
        source = source_schema(connector, *((name, some[name]) for name in tail))
        envelope = envelope_schema("shop-1.sales.orders", ROW, source)
        values = {
            "version": "3.6",
            "connector": connector,
            "name": "shop-1",
            "ts_ms": 1_600_000_000_007,
            "snapshot": "false",
            "db": "sales",
        }
        values |= {"sequence": '["1","2"]', "ts_us": 1_600_000_000_007_123, "ts_ns": None}
        values |= {name: 7 if some[name].kind is not Kind.STRING else f"{name} 1" for name in tail} | (
            {"gtid": None} if "gtid" in tail else {}
        )
        for op, before, after, transaction in (
            ("c", None, _row(), None),
            ("u", _row(), _row(), block),
            ("d", _row(), None, None),
            ("t", None, None, None),
        ):
            value = {
                "before": before,
                "after": after,
                "source": values,
                "transaction": transaction,
                "op": op,
                "ts_ms": 5,
                "ts_us": 6,
                "ts_ns": 7,
            }
            yield f"event of {connector} {op}", Part("shop-1.sales.orders", envelope, value)


PLAIN = (True, 5, 2.5, "text", [1, "a", None], {"a": 1, "b": {"c": [2.5, True]}})
PARTS: dict[str, Part] = {
    **{
        f"{name} {at}": Part("shop.sales.orders", schema, value)
        for name, (schema, values) in SINGLE.items()
        for at, value in enumerate(values)
    },
    **dict(_events()),
    **{f"key of {name}": Part(record.topic, record.key_schema, record.key) for name, record in RECORDS.items()},
    **{f"value of {name}": Part(record.topic, record.value_schema, record.value) for name, record in RECORDS.items()},
    **{f"without schema {at}": Part("plain", None, value, plain=True) for at, value in enumerate(PLAIN)},
}


@dataclass(frozen=True, slots=True)
class Case:
    """A converter with its settings. ``use`` is key, value or header."""

    class_name: str
    settings: dict[str, str]
    use: str = "value"

    def __str__(self) -> str:
        shown = "".join(f" {name}={value}" for name, value in self.settings.items())
        return f"{self.class_name.rpartition('.')[2]} ({self.use}){shown}"


NUMBERS = ("Short", "Integer", "Long", "Float", "Double", "Boolean")
ENCODINGS = ("UTF-8", "US-ASCII", "ISO-8859-1", "ISO-8859-15", "windows-1252", "UTF-16", "UTF-16BE", "utf-16le")
CASES = (
    *(Case(f"{CONNECT}.{name}Converter", {}, use) for name in NUMBERS for use in ("key", "value")),
    *(Case(f"{CONNECT}.ByteArrayConverter", {}, use) for use in ("key", "value")),
    *(Case(f"{STORAGE}.StringConverter", {"converter.encoding": encoding}) for encoding in ENCODINGS),
    Case(f"{STORAGE}.StringConverter", {}, "key"),
    Case(f"{STORAGE}.StringConverter", {"converter.encoding": "nope"}),
    *(
        Case(JSON, {"schemas.enable": enable, "decimal.format": decimals, "replace.null.with.default": replaces})
        for enable in ("true", "false")
        for decimals in ("BASE64", "NUMERIC")
        for replaces in ("true", "false")
    ),
    Case(JSON, {"decimal.format": "hex"}),
    Case(JSON, {"decimal.format": "numeric", "schemas.cache.size": "1"}, "key"),
    Case(BINARY, {}),
    Case(BINARY, {}, "key"),
    Case(BINARY, {"delegate.converter.type": JSON}),
    Case(BINARY, {"delegate.converter.type": JSON, "delegate.converter.type.schemas.enable": "false"}),
    Case(BINARY, {"delegate.converter.type": f"{STORAGE}.StringConverter"}, "key"),
    Case("io.debezium.converters.ByteArrayConverter", {"delegate.converter.type": JSON}),
    *(
        Case(EVENTS, {"serializer.type": event, "data.serializer.type": data, **more})
        for event, data in (("json", "json"), ("json", "avro"), ("avro", "avro"), ("avro", "json"))
        for more in (
            {},
            {"extension.attributes.enable": "false"},
            {"schema.cloudevents.name": "my-events.Event", "schema.name.adjustment.mode": "avro"},
            {"schema.cloudevents.name": "my_events.Event", "schema.name.adjustment.mode": "avro_unicode"},
        )
    ),
    Case(EVENTS, {"json.schemas.enable": "false"}),
    Case(EVENTS, {"json.schemas.enable": "false", "json.decimal.format": "NUMERIC", "json.replace.null.with.default": "false"}),
    Case(EVENTS, {"serializer.type": "xml"}),
    Case("io.confluent.connect.avro.AvroConverter", {}),
    Case("io.confluent.connect.avro.AvroConverter", {"connect.meta.data": "false"}, "key"),
)

ACCEPTED: dict[str, str] = {
    r"^CloudEvents.*, (value of |subject shop\.sales)": "a source block without a position: the peer's field names are not the test's; whole ones are events of connectors",
    r"^AvroConverter .*(without schema|plain-)": "a value without a schema: the peer has an Avro record that may be anything, here it is an error",
    r"^(StringConverter|BinaryData.*StringConverter).*, (bytes|maybe bytes|row|value of |event of )": "bytes in a text: the peer writes the address of a Java object, here they are base64",
}
"""What is meant to differ: a pattern of the converter and the part, and the reason."""
