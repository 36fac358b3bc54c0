"""schemas/ describes what the code writes."""

import json
from pathlib import Path

import fastavro
import pytest
from dblog.codecs import avro, envelope, marker, notification
from dblog.codecs.compatibility import Level, SchemaVersion, check_level
from dblog.codecs.tableplan import PlanSettings, build_table_plan
from dblog.codecs.topic_naming import TopicNaming
from dblog.dialects.mysql.binlog.source_block import source_schema
from dblog.dialects.mysql.values.types import TypeModes, column_plan
from dblog.model import Column, Table, TableId

FOLDER = Path(__file__).parents[3] / "schemas"


def example():
    table = Table(
        id=TableId("inventory", "orders"),
        columns=(
            Column(name="id", type="bigint", type_text="bigint", nullable=False),
            Column(name="note", type="varchar", type_text="varchar(100)", length=100, charset="utf8mb4", nullable=True),
        ),
        key=("id",),
    )
    return build_table_plan(
        table,
        [column_plan(c, TypeModes(), table.id) for c in table.columns],
        settings=PlanSettings(connector="mysql", source=source_schema("mysql"), version="v", naming=TopicNaming(prefix="shop")),
        key_columns=table.key,
        key_prefix=lambda topic, schema: b"",
        value_prefix=lambda topic, schema: b"",
    )


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("key", example().key_schema),
        ("envelope", example().value_schema),
        ("chunk_marker_key", marker.MARKER_KEY),
        ("chunk_marker", marker.MARKER_VALUE),
        ("heartbeat_key", envelope.HEARTBEAT_KEY),
        ("heartbeat", envelope.HEARTBEAT_VALUE),
        ("transaction_key", envelope.TRANSACTION_KEY),
        ("transaction", envelope.TRANSACTION_VALUE),
        ("notification_key", notification.NOTIFICATION_KEY),
        ("notification", notification.NOTIFICATION_VALUE),
    ],
)
def test_the_file_is_the_schema_that_is_written(name, schema):
    assert json.loads((FOLDER / f"{name}.avsc").read_text()) == json.loads(avro.avro_text(schema))


NEWEST = ("dump", "mode", "begins", "scope", "fingerprints", "schemas", "low_ts_ms", "own_left", "rows_passed")


@pytest.mark.parametrize("newest", [NEWEST[-1:], NEWEST[-2:], NEWEST[-4:], NEWEST])
def test_a_marker_is_readable_with_the_schema_that_lacks_its_newest_fields_and_the_reverse(newest):
    now = json.loads(avro.avro_text(marker.MARKER_VALUE))
    before = now | {"fields": [field for field in now["fields"] if field["name"] not in newest]}

    assert [field["name"] for field in now["fields"][-len(newest) :]] == list(newest)
    assert check_level(SchemaVersion(json.dumps(now)), [SchemaVersion(json.dumps(before))], Level.FULL) == []


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.avsc")), ids=lambda p: p.stem)
def test_every_file_is_legal_avro(path):
    fastavro.parse_schema(json.loads(path.read_text()))


@pytest.mark.parametrize(("digest", "signed"), [(0, 0), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, -(1 << 63)), ((1 << 64) - 1, -1)])
def test_a_digest_travels_as_a_signed_long(digest, signed):
    assert marker.signed(digest) == signed
