"""Events as servers wrote them: logged_events.json holds bodies of MySQL 9.7 and MariaDB 10.11 with the SQL that made them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from dblog.dialects.mysql.binlog import events
from dblog.dialects.mysql.binlog.events import EventType, WireType
from dblog.dialects.mysql.ddl.context import NO_BACKSLASH_ESCAPES
from dblog.errors import DefiniteError
from dblog.model import TableId
from support.mysql_log import table_map_body

LOGGED = json.loads(Path(__file__).with_name("logged_events.json").read_text())
FLAVORS = ("mariadb", "mysql")
LATIN1, UTF8MB3, UTF8MB4_BIN, UCS2, BINARY, ASCII = 8, 33, 46, 35, 63, 11


def table_map(name: str, flavor: str) -> events.TableMap:
    (found,) = [case for case in LOGGED["table_maps"] if (case["name"], case["flavor"]) == (name, flavor)]
    return events.read_table_map(bytes.fromhex(found["body"]))


def logged(name: str, flavor: str, kind: EventType) -> list[dict]:
    return [e for e in LOGGED["others"] if (e["name"], e["flavor"], e["type"]) == (name, flavor, kind.name)]


def body_of(name: str, flavor: str, kind: EventType) -> bytes:
    return bytes.fromhex(logged(name, flavor, kind)[-1]["body"])


def of(found: events.TableMap, attribute: str) -> dict:
    return {c.name: getattr(c, attribute) for c in found.columns if getattr(c, attribute) is not None}


# -- table maps ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", LOGGED["table_maps"], ids=lambda case: f"{case['name']} {case['flavor']}")
def test_every_logged_table_map_names_its_table_and_columns(case):
    body = bytes.fromhex(case["body"])
    found = events.read_table_map(body)

    assert found.table == TableId("fixtures", "t")
    assert (found.table_id, found.table) == events.read_table_name(body)
    assert found.named == (case["name"] != "minimal metadata")
    if case["flavor"] == "mysql" and found.named:
        assert all(column.visible is not None for column in found.columns)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_signedness_is_that_of_numeric_columns(flavor):
    found = table_map("numbers", flavor)

    assert {name for name, unsigned in of(found, "unsigned").items() if unsigned} == {"id", "b", "d", "f", "h", "y"}
    assert {name for name, unsigned in of(found, "unsigned").items() if not unsigned} == {"a", "c", "e", "g", "n"}
    assert found.columns[8].meta == 12 << 8 | 3
    assert found.columns[10].meta == 1 << 8 | 4, "12 bits are one byte and four bits"
    assert [c.name for c in found.columns if not c.nullable] == ["id", "n"]


@pytest.mark.parametrize("flavor", FLAVORS)
def test_fraction_digits_are_the_metadata_of_times(flavor):
    found = table_map("times", flavor)

    assert [(c.type_code, c.meta) for c in found.columns[1:]] == [
        (WireType.DATE, 0), (WireType.TIME2, 2), (WireType.DATETIME2, 6), (WireType.TIMESTAMP2, 3), (WireType.DATETIME2, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("flavor", FLAVORS)
def test_charsets_by_default_and_by_column_are_those_of_the_columns(flavor):
    general = 255 if flavor == "mysql" else 45

    assert of(table_map("one charset", flavor), "collation") == {"a": LATIN1, "b": LATIN1, "c": LATIN1, "d": BINARY, "e": BINARY}
    assert of(table_map("many charsets", flavor), "collation") == {
        "a": LATIN1, "b": UTF8MB4_BIN, "c": UTF8MB3, "d": UCS2, "e": BINARY, "f": BINARY, "g": general,
    }  # fmt: skip


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_char_longer_than_255_bytes_has_its_length_and_type_restored(flavor):
    column = table_map("many charsets", flavor).columns[7]

    assert (column.type_code, column.meta) == (WireType.STRING, 255 * 4)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_enums_and_sets_come_out_of_string_with_members_in_their_charset(flavor):
    found = table_map("enums and sets", flavor)

    assert [c.type_code for c in found.columns[1:]] == [WireType.ENUM, WireType.SET, WireType.ENUM, WireType.VARCHAR]
    assert of(found, "members") == {"a": (b"x", b"\xe4", b""), "b": (b"p", b"q", b"r"), "c": (b"it's",)}
    assert of(found, "collation") == {"a": LATIN1, "b": UTF8MB4_BIN, "c": UTF8MB4_BIN, "s": ASCII}


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("numbers", ((0, 0),)),
        ("composite key", ((2, 0), (0, 0))),
        ("prefix key", ((2, 0), (1, 7))),
        ("300 columns", ((299, 0),)),
        ("no key", None),
        ("minimal metadata", None),
    ],
)
def test_the_key_is_named_in_key_order_with_prefixes(flavor, name, key):
    assert table_map(name, flavor).key == key


@pytest.mark.parametrize("flavor", FLAVORS)
def test_geometries_have_their_types(flavor):
    assert of(table_map("geometry", flavor), "geometry") == {"a": 0, "b": 1, "c": 3, "d": 4, "e": 7}


def test_visibility_is_named_by_mysql_and_left_open_by_mariadb():
    assert of(table_map("invisible", "mysql"), "visible") == {"id": True, "a": False, "b": True, "g": True}
    assert of(table_map("invisible", "mariadb"), "visible") == {}


def test_types_that_one_flavor_has_are_known():
    assert [c.type_code for c in table_map("json and vector", "mysql").columns[1:]] == [WireType.JSON, WireType.VECTOR]
    found = table_map("uuid and inet", "mariadb")
    assert [(c.type_code, c.meta) for c in found.columns] == [
        (WireType.STRING, 16), (WireType.STRING, 16), (WireType.STRING, 4), (WireType.BLOB, 4),
        (WireType.MARIADB_VARCHAR_COMPRESSED, 401), (WireType.MARIADB_BLOB_COMPRESSED, 2),
    ]  # fmt: skip
    assert found.columns[4].collation == found.columns[5].collation == 45


@pytest.mark.parametrize("flavor", FLAVORS)
def test_more_than_250_columns_have_long_lengths(flavor):
    found = table_map("300 columns", flavor)

    assert [c.name for c in found.columns] == [f"c{i}" for i in range(300)]
    assert [c.unsigned for c in found.columns] == [i % 3 == 0 for i in range(300)]


@pytest.mark.parametrize("flavor", FLAVORS)
def test_minimal_metadata_gives_signedness_and_charsets_only(flavor):
    found = table_map("minimal metadata", flavor)

    assert [c.unsigned for c in found.columns] == [True, None, None]
    assert found.columns[1].collation == LATIN1
    assert found.columns[2].type_code == WireType.ENUM
    assert found.columns[2].members is None


@pytest.mark.parametrize("flavor", FLAVORS)
def test_optional_fields_of_the_future_are_passed_over(flavor):
    (case,) = [c for c in LOGGED["table_maps"] if (c["name"], c["flavor"]) == ("numbers", flavor)]
    body = bytes.fromhex(case["body"])

    assert events.read_table_map(body + b"\xc8\x03abc") == events.read_table_map(body)


# -- other events -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_statement_has_the_session_it_was_sent_in(flavor):
    found = events.read_query(body_of("ddl", flavor, EventType.QUERY))

    assert found.database == "fixtures"
    assert found.text == b'CREATE TABLE "t" (id INT PRIMARY KEY)'
    assert found.ansi_quotes
    assert found.sql_mode & NO_BACKSLASH_ESCAPES
    assert found.client_collation == LATIN1
    assert found.error_code == 0
    assert found.thread_id > 0
    assert found.status_complete
    assert (found.ddl_xid is not None) == (flavor == "mysql")
    assert found.default_collation == (255 if flavor == "mysql" else None)


def query_body(status: bytes, database: bytes = b"d", text: bytes = b"SELECT 1") -> bytes:
    return struct.pack("<IIBHH", 7, 1, len(database), 1062, len(status)) + status + database + b"\0" + text


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (b"", {}),
        (b"\x00\1\2\3\4" + b"\x01" + (4).to_bytes(8, "little"), {"sql_mode": 4}),
        (b"\x02\x03std\0" + b"\x04\x08\0\x21\0\x2d\0", {"client_collation": 8, "server_collation": 45}),
        (b"\x03\1\0\1\0\x05\x03UTC\x06\x03std", {"time_zone": "UTC"}),
        (b"\x07\1\0\x08\1\0\x09" + b"\0" * 8 + b"\x0a\0\0\0\0\x0d\x40\x42\x0f", {"microseconds": 1_000_000}),
        (b"\x0b\x01u\x04host\x0c\x02db1\0db2\0\x12\xff\0", {"default_collation": 255}),
        (b"\x0c\xfe\x10\1\x11" + (99).to_bytes(8, "little") + b"\x13\1\x14\0", {"ddl_xid": 99}),
        (b"\x80\1\0\0\x81" + b"\1" * 8, {"microseconds": 1}),
    ],
)
def test_every_status_variable_has_its_length(status, wanted):
    found = events.read_query(query_body(status))

    assert found.status_complete
    assert {name: getattr(found, name) for name in wanted} == wanted
    assert (found.database, found.text, found.error_code, found.thread_id) == ("d", b"SELECT 1", 1062, 7)


def test_a_status_variable_of_the_future_ends_the_reading_and_is_reported():
    found = events.read_query(query_body(b"\x01" + (4).to_bytes(8, "little") + b"\x7f???"))

    assert not found.status_complete
    assert found.ansi_quotes
    assert found.text == b"SELECT 1"


# -- what to do with a type ---------------------------------------------------------------------------------------------------------------

TAKEN = events.ROWS_TYPES | {
    EventType.QUERY, EventType.ROTATE, EventType.FORMAT_DESCRIPTION, EventType.XID, EventType.TABLE_MAP, EventType.GTID,
    EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID, EventType.ERR_PACKET, EventType.EOF_PACKET,
}  # fmt: skip


@pytest.mark.parametrize("type_code", sorted({*range(1, 256)} - TAKEN - events.HARMLESS_TYPES))
def test_every_type_that_is_neither_taken_nor_harmless_stops_the_task_with_position_and_name(type_code):
    failure = events.unsupported(type_code, file="binlog.000003", pos=4711)

    assert isinstance(failure, DefiniteError)
    assert f"{events.type_name(type_code)} at binlog.000003:4711: " in str(failure)


def test_an_unknown_type_may_be_passed_over_only_if_the_server_reports_it():
    assert events.unsupported(99, file="f.1", pos=4, flags=events.FLAG_IGNORABLE) is None
    assert events.unsupported(99, file="f.1", pos=4, flags=events.FLAG_ARTIFICIAL) is not None


def test_a_known_type_with_changes_stops_the_task_even_if_the_server_calls_it_ignorable():
    for type_code in events.REMEDIES:
        assert events.unsupported(type_code, file="f.1", pos=4, flags=events.FLAG_IGNORABLE) is not None


def test_harmless_types_are_passed_over():
    assert not TAKEN & events.HARMLESS_TYPES
    for type_code in events.HARMLESS_TYPES:
        assert events.unsupported(type_code, file="f.1", pos=4) is None


# -- rows of the watermark table ----------------------------------------------------------------------------------------------------------

WATERMARKS = events.TableMap(
    table_id=1,
    flags=1,
    table=TableId("dblog", "watermark"),
    columns=tuple(events.MapColumn(type_code=WireType.VARCHAR, meta=meta, nullable=False) for meta in (760, 190)),
    key=None,
)


def watermark_row(name: str, token: str) -> bytes:
    return b"\0" + struct.pack("<H", len(name.encode())) + name.encode() + bytes((len(token),)) + token.encode()


@pytest.mark.parametrize("version_2", [False, True])
def test_watermark_rows_are_the_after_images(version_2):
    head = (1).to_bytes(6, "little") + b"\1\0" + (b"\x05\0abc" if version_2 else b"") + b"\x02"
    write, update, delete = (30, 31, 32) if version_2 else (23, 24, 25)
    one, two, three = watermark_row("a", "1"), watermark_row("ä" * 150, "2"), watermark_row("a", "3")

    assert events.watermark_rows(write, head + b"\3" + one + two, WATERMARKS) == [("a", "1"), ("ä" * 150, "2")]
    assert events.watermark_rows(update, head + b"\3\3" + one + three, WATERMARKS) == [("a", "3")]
    assert events.watermark_rows(delete, head + b"\3" + one, WATERMARKS) == []


@pytest.mark.parametrize("options", [b"\0", b"\1"])
def test_a_watermark_is_read_from_an_update_that_may_hold_differences_of_json(options):
    head = (1).to_bytes(6, "little") + b"\1\0" + b"\2\0" + b"\x02"
    one, two = watermark_row("a", "1"), watermark_row("a", "2")
    name, token = b"\0" + struct.pack("<H", 1) + b"a", b"\0\x012"

    assert events.watermark_rows(39, head + b"\3\3" + one + options + two + two + options + one, WATERMARKS) == [("a", "2"), ("a", "1")]
    assert events.watermark_rows(39, head + b"\1\2" + name + options + token, WATERMARKS) == [("a", "2")]


def test_a_watermark_table_that_was_altered_is_refused_by_name():
    altered = events.TableMap(table_id=1, flags=1, table=WATERMARKS.table, columns=WATERMARKS.columns[:1], key=None)

    with pytest.raises(DefiniteError, match=r"dblog\.watermark has been altered"):
        events.watermark_rows(30, b"", altered)


@pytest.mark.parametrize("optional", [b"\x02\x00", b"\x02\x03\x2d\x05\x21", b"\x0a\x03\x2d\x05\x21", b"\x09\x01\x00", b"\x02\xfc"])
def test_a_table_map_that_contradicts_itself_is_refused_with_a_sentence(optional: bytes) -> None:
    body = table_map_body(7, "shop", "t", bytes([WireType.LONG, WireType.VARCHAR]), b"\x09\x00", optional=optional)

    with pytest.raises(DefiniteError, match="table map of the log contradicts itself"):
        events.read_table_map(body)


@pytest.mark.parametrize("optional", [b"\x03\x01\x21", b"\x03\x03\x21\x21\x21", b"\x04\x02\x01a"])
def test_metadata_that_counts_other_columns_than_we_do_is_not_believed_of_any(optional: bytes) -> None:
    body = table_map_body(
        7, "shop", "t", bytes([WireType.LONG, WireType.VARCHAR, WireType.VARCHAR]), b"\x09\x00" * 2, optional=b"\x01\x01\x80" + optional
    )

    found = events.read_table_map(body)

    assert {(c.name, c.collation, c.unsigned) for c in found.columns} == {(None, None, None)}
    assert [c.type_code for c in found.columns] == [WireType.LONG, WireType.VARCHAR, WireType.VARCHAR]
