"""Names, orders and versions of Debezium's records, one fact a test; adjusted names were printed by Debezium 3.6.3."""

import pytest
from dblog.codecs import envelope as e
from dblog.codecs.envelope import NameAdjustment
from dblog.codecs.schema import Kind, Schema
from dblog.dialects.mysql.binlog.source_block import source_schema

ROW = e.row_schema("p.db.t", [("id", Schema(kind=Kind.INT32))])


def names(schema):
    return [f.name for f in schema.fields]


def field(schema, name):
    return next(f.schema for f in schema.fields if f.name == name)


def test_the_envelope_has_its_fields_in_order_and_version_2():
    schema = e.envelope_schema("p.db.t", ROW, source_schema("mysql"))

    assert (schema.name, schema.version, schema.optional) == ("p.db.t.Envelope", 2, False)
    assert names(schema) == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    assert [f.schema.optional for f in schema.fields] == [True, True, False, True, False, True, True, True]
    assert field(schema, "before") == field(schema, "after") == ROW


def test_rows_and_keys_are_named_after_the_topic_and_have_no_version():
    key = e.key_schema("p.db.t", [("id", Schema(kind=Kind.INT32))])

    assert (ROW.name, ROW.version, ROW.optional) == ("p.db.t.Value", None, True)
    assert (key.name, key.version, key.optional) == ("p.db.t.Key", None, False)


@pytest.mark.parametrize("connector", ["mysql", "mariadb"])
def test_the_source_block_has_head_and_tail_in_order_and_version_1(connector):
    source = source_schema(connector)

    assert (source.name, source.version) == (f"io.debezium.connector.{connector}.Source", 1)
    head = ["version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns"]
    assert names(source) == [*head, "table", "server_id", "gtid", "file", "pos", "row", "thread", "query"]
    optional = {f.name for f in source.fields if f.schema.optional}
    assert optional == {"snapshot", "sequence", "ts_us", "ts_ns", "table", "gtid", "thread", "query"}
    assert field(source, "row").kind is Kind.INT32


def test_snapshot_is_an_enum_of_seven_values_and_false_by_default():
    snapshot = field(source_schema("mysql"), "snapshot")

    assert (snapshot.name, snapshot.version, snapshot.default, snapshot.optional) == ("io.debezium.data.Enum", 1, "false", True)
    assert dict(snapshot.parameters) == {"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"}


def test_the_other_records_have_debeziums_names():
    found = {
        "heartbeat": (e.HEARTBEAT_KEY.name, names(e.HEARTBEAT_KEY), e.HEARTBEAT_VALUE.name, names(e.HEARTBEAT_VALUE)),
        "transaction": (e.TRANSACTION_KEY.name, names(e.TRANSACTION_KEY), e.TRANSACTION_VALUE.name, names(e.TRANSACTION_VALUE)),
        "schema change": (
            e.schema_change_key("mysql").name,
            names(e.schema_change_key("mysql")),
            e.schema_change_value("mysql", source_schema("mysql")).name,
            names(e.schema_change_value("mysql", source_schema("mysql"))),
        ),
    }

    common, mysql = "io.debezium.connector.common.", "io.debezium.connector.mysql."
    assert found == {
        "heartbeat": (common + "ServerNameKey", ["serverName"], common + "Heartbeat", ["ts_ms"]),
        "transaction": (
            common + "TransactionMetadataKey",
            ["id"],
            common + "TransactionMetadataValue",
            ["status", "id", "event_count", "data_collections", "ts_ms"],
        ),
        "schema change": (
            mysql + "SchemaChangeKey",
            ["databaseName"],
            mysql + "SchemaChangeValue",
            ["source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges"],
        ),
    }


@pytest.mark.parametrize(
    ("name", "avro", "unicode", "avro_field", "unicode_field"),
    [
        ("my-app.1db.t_x.é.Value", "my_app.1db.t_x._.Value", "my_u002dapp.1db.t_u005fx._u00e9.Value", "my_app_1db_t_x___Value", "my_u002dapp_u002e1db_u002et_u005fx_u002e_u00e9_u002eValue"),
        ("1a.db", "_1a.db", "_u0031a.db", "_1a_db", "_u0031a_u002edb"),
        ("-a", "_a", "_u002da", "_a", "_u002da"),
        ("p._x", "p._x", "p._u005fx", "p__x", "p_u002e_u005fx"),
        ("", "", "", "", ""),
        ("_a.b", "_a.b", "_u005fa.b", "_a_b", "_u005fa_u002eb"),
        ("😀x", "__x", "_ud83d_ude00x", "__x", "_ud83d_ude00x"),
        ("a b", "a_b", "a_u0020b", "a_b", "a_u0020b"),
    ],
)  # fmt: skip
def test_names_are_adjusted_as_debezium_does(name, avro, unicode, avro_field, unicode_field):
    assert NameAdjustment.NONE.schema_name(name) == NameAdjustment.NONE.field_name(name) == name
    assert (NameAdjustment.AVRO.schema_name(name), NameAdjustment.AVRO_UNICODE.schema_name(name)) == (avro, unicode)
    assert (NameAdjustment.AVRO.field_name(name), NameAdjustment.AVRO_UNICODE.field_name(name)) == (avro_field, unicode_field)
