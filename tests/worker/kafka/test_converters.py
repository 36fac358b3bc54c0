"""Which converter a connector gets, and what it writes."""

import json

import httpx
import pytest
from dblog.codecs import avro
from dblog.codecs.envelope import schema_change_key, struct
from dblog.codecs.schema import Kind, Schema
from dblog.config.hosts import check_hosts
from dblog.config.worker import OwnRegistry
from dblog.errors import ConfigError, DefiniteError
from dblog.kafka.converters import (
    AvroConverter,
    BinaryDataConverter,
    BooleanConverter,
    ByteArrayConverter,
    JsonConverter,
    NumberConverter,
    StringConverter,
    converter_of,
    converters_of,
)
from dblog.kafka.registry import RegistryAccess, RegistryClient

AVRO = "io.confluent.connect.avro.AvroConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
SCHEMA = struct("n.S", ("a", Schema(kind=Kind.INT32)))
OWN = OwnRegistry("http://own:8083")


def with_registry(answer, **settings):
    calls = []

    def handle(request):
        calls.append(request)
        return httpx.Response(200, json=answer)

    registry = RegistryClient(RegistryAccess(urls=("http://r:1",)), transport=httpx.MockTransport(handle))
    return AvroConverter({k.replace("_", "."): v for k, v in settings.items()}, is_key=False, registry=registry), calls


@pytest.mark.parametrize(
    ("name", "made"),
    [
        (AVRO, AvroConverter),
        ("AvroConverter", AvroConverter),
        ("Avro", AvroConverter),
        (JSON, JsonConverter),
        ("JsonConverter", JsonConverter),
        ("org.apache.kafka.connect.storage.StringConverter", StringConverter),
        ("org.apache.kafka.connect.converters.ByteArrayConverter", ByteArrayConverter),
        ("ByteArrayConverter", ByteArrayConverter),
        ("org.apache.kafka.connect.converters.LongConverter", NumberConverter),
        ("BooleanConverter", BooleanConverter),
        ("io.debezium.converters.ByteArrayConverter", BinaryDataConverter),
        ("BinaryDataConverter", BinaryDataConverter),
    ],
)
def test_converters_are_known_by_class_and_by_simple_name(name, made):
    key, value = converters_of({"key.converter": name, "value.converter": name}, {}, own_registry=OWN)

    assert type(key) is type(value) is made
    assert key.is_avro == (made is AvroConverter)


def test_a_connector_that_names_no_converter_takes_the_workers_class_and_settings():
    worker = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    connector = {"value.converter.schemas.enable": "true"}

    made = converter_of(worker, connector, is_key=False, own_registry=OWN)

    assert made.serialize("t", SCHEMA, {"a": 1}) == b'{"a":1}'


def test_key_and_value_share_a_client_where_they_have_one_registry_and_login():
    avro_by = {"key.converter": AVRO, "value.converter": AVRO}

    def registries(**config):
        return [made.registry for made in converters_of(avro_by, {**avro_by, **config}, own_registry=OWN)]

    same, also = registries()
    assert same is also
    for different in ({"value.converter.schema.registry.url": "http://r:1"}, {"key.converter.bearer.auth.token": "t"}):
        key, value = registries(**different)
        assert key is not value


def test_a_connector_that_names_a_class_gets_only_its_own_settings():
    worker = {"value.converter": JSON, "value.converter.schemas.enable": "false"}

    made = converter_of(worker, {"value.converter": JSON}, is_key=False, own_registry=OWN)

    assert list(json.loads(made.serialize("t", SCHEMA, {"a": 1}))) == ["schema", "payload"]


@pytest.mark.parametrize("name", ["", "com.acme.LongerConverter", "io.apicurio.registry.utils.converter.AvroConverter"])
def test_an_unknown_or_missing_converter_is_refused_by_option(name):
    with pytest.raises(ConfigError) as e:
        converter_of({}, {"key.converter": name}, is_key=True, own_registry=OWN)

    assert list(e.value.errors) == ["key.converter"]


def test_avro_records_are_frame_and_binary_under_the_topics_subject():
    made, calls = with_registry({"id": 9})

    data = [made.serialize("t", SCHEMA, {"a": i}) for i in (1, 2)]

    assert data == [avro.frame(9) + b"\x02", avro.frame(9) + b"\x04"]
    assert made.prefix("t", SCHEMA) == avro.frame(9)
    assert [c.url.path for c in calls] == ["/subjects/t-value/versions"]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("io.confluent.kafka.serializers.subject.TopicNameStrategy", "t-value"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "n.S"),
        ("TopicRecordNameStrategy", "t-n.S"),
    ],
)
def test_the_subject_follows_the_name_strategy(strategy, subject):
    made, calls = with_registry({"id": 9}, value_subject_name_strategy=strategy)

    made.prefix("t", SCHEMA)

    assert calls[0].url.path == f"/subjects/{subject}/versions"


def test_the_schema_of_schema_changes_is_written_once_however_many_there_are(monkeypatch):
    texts = []
    avro_text = avro.avro_text
    monkeypatch.setattr(avro, "avro_text", lambda schema, **more: (texts.append(schema), avro_text(schema, **more))[1])
    converter, _ = with_registry({"id": 7})

    for _ in range(3):
        converter.serialize("t", schema_change_key("mysql"), {"databaseName": "shop"})

    assert len(texts) == 1


def test_an_unknown_name_strategy_is_refused_at_start():
    with pytest.raises(ConfigError, match="value.subject.name.strategy"):
        with_registry({}, value_subject_name_strategy="com.acme.Mine")


def test_without_auto_registration_the_schema_is_looked_up():
    made, calls = with_registry({"id": 9}, auto_register_schemas="false")

    assert made.prefix("t", SCHEMA) == avro.frame(9)
    assert (calls[0].method, calls[0].url.path) == ("POST", "/subjects/t-value")


@pytest.mark.parametrize(("field", "fits"), [("a", True), ("b", False)])
def test_the_latest_version_is_used_only_if_it_describes_our_bytes(field, fits):
    latest = json.dumps({"type": "record", "name": "S", "namespace": "n", "doc": "by hand", "fields": [{"name": field, "type": "int"}]})
    made, _ = with_registry({"id": 9, "schema": latest}, auto_register_schemas="false", use_latest_version="true")

    if fits:
        assert made.prefix("t", SCHEMA) == avro.frame(9)
    else:
        with pytest.raises(DefiniteError, match=r"subject t-value: .*other fields"):
            made.prefix("t", SCHEMA)


@pytest.mark.parametrize(
    "latest",
    ["AKIA-canary", '{"type": "AKIA-canary"}', '{"type": "record", "name": "AKIA-canary", "fields": [4]}', "[" * 100_000, "{}", "4"],
)
def test_a_latest_version_that_is_no_avro_is_refused_without_a_word_of_it(latest):  # number 5 of the worker's safety
    made, _ = with_registry({"id": 9, "schema": latest}, auto_register_schemas="false", use_latest_version="true")

    with pytest.raises(
        DefiniteError, match=r"subject t-value: the newest registered schema \(id 9\) (is not an Avro schema|has other)"
    ) as raised:
        made.prefix("t", SCHEMA)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("option", "text"),
    [("bearer.auth.token", "tök"), ("proxy.port", "x"), ("request.header.X", "a\nb"), ("basic.auth.user.info", "nocolon")],
)
def test_a_task_does_not_start_with_settings_that_http_cannot_carry(option, text):  # number 17 of the worker's safety
    config = {"value.converter": AVRO, "value.converter.schema.registry.url": "http://r:1", "value.converter.proxy.host": "p"}
    config |= {"value.converter.basic.auth.credentials.source": "USER_INFO", "value.converter.basic.auth.user.info": "user:password"}

    with pytest.raises(ConfigError) as raised:
        converters_of({"key.converter": JSON}, config | {f"value.converter.{option}": text}, own_registry=OWN)
    assert list(raised.value.errors) == [f"value.converter.{option}"]


def test_nulls_are_null_bytes_and_a_json_null_with_schema_is_not():
    avro_, _ = with_registry({"id": 9})
    optional = Schema(kind=Kind.STRING, optional=True)

    assert avro_.serialize("t", None, None) is avro_.serialize("t", SCHEMA, None) is None
    assert JsonConverter({}, option_prefix="").serialize("t", None, None) is None
    assert (
        JsonConverter({}, option_prefix="").serialize("t", optional, None) == b'{"schema":{"type":"string","optional":true},"payload":null}'
    )


def test_string_and_bytes_pass_through():
    assert StringConverter({}).serialize("t", SCHEMA, {"a": 1}) == b"Struct{a=1}"
    assert StringConverter({}).serialize("t", Schema(kind=Kind.STRING), "ä") == "ä".encode()
    assert ByteArrayConverter().serialize("t", Schema(kind=Kind.BYTES), b"\x00") == b"\x00"
    with pytest.raises(DefiniteError, match="topic t: ByteArrayConverter cannot write a struct"):
        ByteArrayConverter().serialize("t", SCHEMA, {"a": 1})


def test_a_wrong_decimal_format_is_refused_by_option():
    with pytest.raises(ConfigError, match=r"value\.converter\.decimal\.format"):
        converter_of({}, {"value.converter": JSON, "value.converter.decimal.format": "HEX"}, is_key=False, own_registry=OWN)


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"value.converter": "AvroConverter"}, None),
        ({"value.converter": "AvroConverter", "value.converter.value.subject.name.strategy": "TopicRecordNameStrategy"}, None),
        ({"value.converter": "AvroConverter", "value.converter.connect.meta.data": "false"}, "connect.meta.data=false leaves out"),
        (
            {"value.converter": "AvroConverter", "value.converter.value.subject.name.strategy": "RecordNameStrategy"},
            "one subject for whole rows",
        ),
        ({"value.converter": "JsonConverter"}, None),
        ({"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}, "schemas.enable=false"),
        ({"value.converter": "StringConverter"}, "use the Avro or the JSON converter"),
        ({"value.converter": "ByteArrayConverter"}, "use the Avro or the JSON converter"),
        ({"value.converter": "LongConverter"}, "use the Avro or the JSON converter"),
        ({"value.converter": "BooleanConverter"}, "use the Avro or the JSON converter"),
        ({"value.converter": "BinaryDataConverter"}, "use the Avro or the JSON converter"),
        ({"value.converter": "BinaryDataConverter", "value.converter.delegate.converter.type": "JsonConverter"}, None),
    ],
)
def test_rows_of_some_columns_are_written_where_a_schema_tells_them_from_whole_ones(config: dict[str, str], fault: str | None) -> None:
    found = converter_of({}, config, is_key=False, own_registry=OWN).partial_fault()

    assert found is None if fault is None else fault in str(found)


@pytest.mark.parametrize(
    ("name", "kind", "value", "data"),
    [
        ("Short", Kind.INT16, -2, b"\xff\xfe"),
        ("Integer", Kind.INT32, 258, b"\x00\x00\x01\x02"),
        ("Long", Kind.INT64, -1, b"\xff" * 8),
        ("Float", Kind.FLOAT32, 1.5, b"\x3f\xc0\x00\x00"),
        ("Double", Kind.FLOAT64, -1.5, b"\xbf\xf8" + bytes(6)),
        ("Boolean", Kind.BOOLEAN, True, b"\x01"),
    ],
)
def test_a_number_is_written_by_its_own_converter_alone(name: str, kind: Kind, value: object, data: bytes) -> None:
    made = converter_of({}, {"key.converter": f"org.apache.kafka.connect.converters.{name}Converter"}, is_key=True, own_registry=OWN)

    assert made.serialize("t", Schema(kind=kind), value) == data
    assert made.serialize("t", Schema(kind=kind, optional=True), None) is made.serialize("t", None, None) is None
    others = [Schema(kind=other) for other in (Kind.INT8, Kind.STRING, Kind.INT64 if kind is not Kind.INT64 else Kind.INT32)]
    for other in (SCHEMA, *others):
        with pytest.raises(DefiniteError, match=f"topic t: {name}Converter writes .* ExtractField and Cast"):
            made.serialize("t", other, {"a": 1} if other is SCHEMA else 1)


def test_a_moment_is_no_number_as_in_connect_where_it_is_a_java_date() -> None:
    with pytest.raises(DefiniteError, match=r"LongConverter writes int64 only, and not a org\.apache\.kafka\.connect\.data\.Timestamp"):
        NumberConverter("Long").serialize("t", Schema(kind=Kind.INT64, name=avro.TIMESTAMP), 0)


def test_a_decimal_is_not_bytes_as_in_connect_where_it_is_a_java_number() -> None:
    decimal = Schema(kind=Kind.BYTES, name=avro.DECIMAL, parameters=(("scale", "2"),))

    with pytest.raises(DefiniteError, match="ByteArrayConverter cannot write a bytes"):
        ByteArrayConverter().serialize("t", decimal, b"\x01")
    with pytest.raises(DefiniteError, match=r"name one in v\.delegate"):
        BinaryDataConverter(None, option="v.delegate").serialize("t", decimal, b"\x01")


def test_a_text_has_the_bytes_of_javas_character_sets() -> None:
    def written(encoding: str, text: str) -> bytes | None:
        config = {"value.converter": "StringConverter", "value.converter.converter.encoding": encoding}
        return converter_of({}, config, is_key=False, own_registry=OWN).serialize("t", Schema(kind=Kind.STRING), text)

    assert written("iso-8859-1", "ä€") == b"\xe4?"
    assert written("UTF-16", "a") == b"\xfe\xff\x00a"
    assert written("UTF-16", "") == b""
    with pytest.raises(ConfigError, match=r"value\.converter\.converter\.encoding: EBCDIC is not one of"):
        written("EBCDIC", "a")


def test_a_value_without_schema_has_the_text_of_a_java_map() -> None:
    value = {"a": 1, "b": [True, None, 2.0], "c": {"d": "x"}}

    assert StringConverter({}).serialize("t", None, value) == b"{a=1, b=[true, null, 2.0], c={d=x}}"


def test_bytes_pass_and_other_values_go_to_the_delegate_with_its_settings() -> None:
    config = {
        "value.converter": "io.debezium.converters.BinaryDataConverter",
        "value.converter.delegate.converter.type": JSON,
        "value.converter.delegate.converter.type.schemas.enable": "false",
    }
    made = converter_of({}, config, is_key=False, own_registry=OWN)

    assert made.serialize("t", Schema(kind=Kind.BYTES), b"\x00\x01") == b"\x00\x01"
    assert made.serialize("t", SCHEMA, {"a": 1}) == b'{"a":1}'
    assert made.serialize("t", None, None) is None


def test_the_registry_of_a_delegate_is_checked_like_the_converters_own() -> None:
    prefix = "value.converter.delegate.converter.type"
    config = {"value.converter": "BinaryDataConverter", prefix: AVRO, f"{prefix}.schema.registry.url": "http://169.254.169.254:80"}

    made = converter_of({}, config, is_key=False, own_registry=OWN)

    assert made.registry is not None
    assert made.registry.urls == ("http://169.254.169.254:80",)
    assert list(check_hosts(config, ())) == [f"{prefix}.schema.registry.url"]


def test_required_bytes_have_no_length_in_avro_as_confluent_writes_them() -> None:
    made, _ = with_registry({"id": 9})

    assert made.serialize("t", Schema(kind=Kind.BYTES), b"ab") == avro.frame(9) + b"ab"
    assert made.serialize("t", Schema(kind=Kind.BYTES, optional=True), b"ab") == avro.frame(9) + b"\x02\x04ab"
