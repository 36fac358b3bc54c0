"""Which events CloudEventsConverter makes of changes, and what it refuses at the start."""

import json

import pytest
from dblog.codecs.envelope import HEARTBEAT_VALUE, envelope_schema, row_schema, source_schema
from dblog.codecs.schema import Kind, Schema
from dblog.config.worker import OwnRegistry
from dblog.errors import ConfigError, DefiniteError
from dblog.kafka.converters import converter_of

EVENTS = "io.debezium.converters.CloudEventsConverter"
OPTIONAL = Schema(kind=Kind.INT64, optional=True)
ROW = row_schema("shop.sales.orders", [("id", Schema(kind=Kind.INT32))])
SOURCE = source_schema("postgresql", ("txId", OPTIONAL), ("lsn", OPTIONAL))
ENVELOPE = envelope_schema("shop.sales.orders", ROW, SOURCE)
BLOCK = {
    "version": "3.6",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1_600_000_000_007,
    "db": "sales",
    "sequence": "[]",
    "lsn": 7,
    "txId": None,
}
CHANGE = {"before": None, "after": {"id": 4}, "source": BLOCK, "op": "c", "ts_ms": 5}


def converter(*, key: bool = False, **settings: str):
    part = "key.converter" if key else "value.converter"
    config = {part: EVENTS, **{f"{part}.{name.replace('__', '.')}": value for name, value in settings.items()}}
    return converter_of({}, config, is_key=key, own_registry=OwnRegistry("http://own:8083"))


def test_a_change_becomes_an_event_with_the_schema_inside_its_data_alone():
    event = json.loads(converter().serialize("t", ENVELOPE, CHANGE))

    assert event["id"] == "name:shop;lsn:7;txId:null;sequence:[]"
    assert (event["source"], event["type"]) == ("/debezium/postgresql/shop", "io.debezium.connector.postgresql.DataChangeEvent")
    assert event["time"] == "2020-09-13T12:26:40.007Z"
    assert (event["iodebeziumop"], event["iodebeziumtsms"], event["iodebeziumtxtotalorder"]) == ("c", "1600000000007", None)
    assert event["data"]["payload"] == {"before": None, "after": {"id": 4}}
    assert list(event)[-1] == "data"


def test_what_is_no_change_of_a_row_becomes_null():
    made = converter(json__schemas__enable="false")

    assert made.serialize("t", HEARTBEAT_VALUE, {"ts_ms": 5}) is None
    assert made.serialize("t", None, None) is made.serialize("t", ENVELOPE, None) is None
    with pytest.raises(DefiniteError, match="no name"):
        made.serialize("t", Schema(kind=Kind.STRING), "x")


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"serializer__type": "xml"}, "serializer.type"),
        ({"serializer__type": "avro", "data__serializer__type": "json"}, "data.serializer.type"),
        ({"metadata__source": "header"}, "metadata.source"),
        ({"metadata__source": "value,id:header,type:generate"}, "metadata.source"),
        ({"metadata__source": "value"}, "metadata.source"),
        ({"opentelemetry__tracing__attributes__enable": "true"}, "metadata.source"),
        ({"json__decimal__format": "HEX"}, "json.decimal.format"),
        ({"data__serializer__type": "avro", "avro__apicurio__registry__url": "http://a"}, "avro.apicurio.registry.url"),
        ({"schema__name__adjustment__mode": "java"}, "schema.name.adjustment.mode"),
    ],
)
def test_a_setting_that_does_not_work_here_is_refused_at_the_start(settings, option):
    with pytest.raises(ConfigError) as refused:
        converter(**settings)
    assert list(refused.value.errors) == [f"value.converter.{option}"]


def test_it_writes_no_keys():
    with pytest.raises(ConfigError, match="a key would be null"):
        converter(key=True)


def test_the_registry_below_avro_is_the_one_that_is_asked():
    made = converter(data__serializer__type="avro", avro__schema__registry__url="http://r:1")

    assert made.registry is not None
    assert made.registry.urls == ("http://r:1",)
