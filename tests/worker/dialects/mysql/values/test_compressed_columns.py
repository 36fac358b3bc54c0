"""MariaDB's compressed columns: values as a server logged them (varchar(100) COMPRESSED and its kin), and damage."""

import zlib

import pytest
from dblog.codecs.rowplan import ReferencePlan
from dblog.dialects.mysql.binlog import row_image
from dblog.dialects.mysql.binlog._fast import compile_plan
from dblog.dialects.mysql.binlog.source_block import BinlogContext
from dblog.dialects.mysql.values.fields import inflate
from dblog.errors import DefiniteError
from dblog.model import Column
from support.mysql_log import WRITE, rows_body, table_map_body
from support.mysql_tables import decoded, plan_of

LOGGED = [
    ("89644b4c4aa4390400", b"ab" * 50),
    ("00616263", b"abc"),
    ("", b""),
    ("8a07d04bcac94f4a1ac5a378148fe2513c8a47f190c60000", None),
]
CONTEXT = BinlogContext(file="f", pos=4, server_id=1, source_ts_us=0, now_us=0, sequence_high=0, sequence_low=0)


@pytest.mark.parametrize(("field", "value"), LOGGED)
def test_a_value_is_inflated(field: str, value: bytes | None) -> None:
    assert inflate(bytes.fromhex(field), "t") == (b"blob" * 500 if value is None else value)


@pytest.mark.parametrize("field", ["89654b4c4aa4390400", "89634b4c4aa4390400", "8964ffffff", "8964", "89", "9964aa", "8900"])
def test_damage_is_refused_without_the_value(field: str) -> None:
    with pytest.raises(DefiniteError, match=r"^db\.t, column c: a value of a compressed column is damaged"):
        inflate(bytes.fromhex(field), "db.t, column c")


def test_a_value_with_a_header_of_zlib_is_inflated() -> None:
    assert inflate(b"\x81\x0a" + zlib.compress(b"0123456789"), "t") == b"0123456789"


@pytest.mark.parametrize(("length", "meta", "prefix"), [(63, b"\xfd\x00", 1), (64, b"\x01\x01", 2)])
def test_a_compressed_column_has_a_byte_more_for_its_length(length: int, meta: bytes, prefix: int) -> None:
    text = f"varchar({length}) /*M!100301 COMPRESSED*/"
    plan = plan_of([Column(name="c", type="varchar", type_text=text, nullable=True, length=length, charset="utf8mb4")], key=())
    field = bytes.fromhex("00616263")
    body = rows_body(WRITE, 5, 1, b"\0" + len(field).to_bytes(prefix, "little") + field)
    fast, slow = compile_plan(plan, row_image), ReferencePlan(plan, row_image)

    fast.check_table_map(table_map_body(5, "db", "t", b"\x8d", meta))
    with pytest.raises(DefiniteError, match="column c: the log stores it as type 15"):
        fast.check_table_map(table_map_body(5, "db", "t", b"\x0f", meta))
    records = fast.encode_rows("c", body, CONTEXT)

    assert records == slow.encode_rows("c", body, CONTEXT)
    assert decoded(plan, records[1][0])["after"] == {"c": "abc"}


@pytest.mark.parametrize(("charset", "kind", "shown"), [("latin1", "text", "away"), ("utf16", "text", "away"), (None, "blob", b"away")])
def test_a_compressed_column_that_an_update_left_out_has_the_placeholder(charset: str | None, kind: str, shown: object) -> None:
    columns = [
        Column(name="id", type="int", type_text="int(11)", nullable=False),
        Column(name="c", type=kind, type_text=f"{kind} /*M!100301 COMPRESSED*/", nullable=True, charset=charset),
    ]
    plan = plan_of(columns, key=("id",), unavailable="away")
    # NOBLOB: the image before has the key alone, the image after sets the column to NULL.
    number = (1).to_bytes(4, "little")
    body = rows_body(WRITE, 5, 2, b"\0" + number + b"\x02" + number, present=b"\x01\x03")

    records = [coder.encode_rows("u", body, CONTEXT) for coder in (compile_plan(plan, row_image), ReferencePlan(plan, row_image))]

    assert records[0] == records[1]
    assert decoded(plan, records[0][1][0])["before"] == {"id": 1, "c": shown}
    assert decoded(plan, records[0][1][0])["after"] == {"id": 1, "c": None}
