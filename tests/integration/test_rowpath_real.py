"""Rows of every type through the compiled path on real servers: the log and a result set give the same record, and the right one."""

import contextlib
import datetime as dt
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from dblog.codecs import avro, tableplan, topic_naming
from dblog.codecs.plan import TablePlan
from dblog.codecs.rowplan import ReferencePlan
from dblog.dialects.mariadb import session as mariadb_session
from dblog.dialects.mariadb import types as mariadb_types
from dblog.dialects.mysql.binlog import _fast, row_image
from dblog.dialects.mysql.binlog.items import LOOK_AHEAD, LogEvent, LogRows
from dblog.dialects.mysql.binlog.source_block import BinlogContext, source_schema
from dblog.dialects.mysql.catalog import sql
from dblog.dialects.mysql.values import types as mysql_types
from dblog.dialects.mysql.wire import session as mysql_session
from dblog.dialects.mysql.wire.connect import ConnectSettings
from dblog.dialects.mysql.wire.session import Session
from dblog.errors import DefiniteError
from dblog.model import Table, TableId
from pymysql.cursors import DictCursor
from reference_decoders.mysql.decoder_reference import ReferenceLogDecoder
from stack.database import Database
from support.servers import connected, execute, new_database
from support.sessions import open_dump

BOTH = ("mysql", "mariadb")


@dataclass
class Case:
    """A column's DDL, and (SQL literal, the value in a decoded record) for some rows."""

    ddl: str
    values: list[tuple[str, Any]]
    flavors: tuple[str, ...] = BOTH


WKB_POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")

CASES = [
    Case("tinyint", [("-128", -128), ("127", 127), ("0", 0)]),
    Case("tinyint unsigned", [("255", 255)]),
    Case("tinyint(1)", [("1", 1), ("-3", -3)]),
    Case("smallint", [("-32768", -32768), ("32767", 32767)]),
    Case("smallint unsigned", [("65535", 65535)]),
    Case("mediumint", [("-8388608", -8388608), ("8388607", 8388607), ("-1", -1)]),
    Case("mediumint unsigned", [("16777215", 16777215)]),
    Case("int", [("-2147483648", -2147483648), ("2147483647", 2147483647)]),
    Case("int unsigned", [("4294967295", 4294967295)]),
    Case("int(5) zerofill", [("42", 42)]),
    Case("bigint", [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    Case("bigint unsigned", [("18446744073709551615", -1), ("9223372036854775808", -(2**63)), ("7", 7)]),
    Case("float", [("1.5", 1.5), ("115340.77", 115340.7734375), ("-0.0", 0.0)]),
    Case("float(7,2)", [("12.25", 12.25)]),
    Case("double", [("0.1", 0.1), ("-1.7976931348623157e308", -1.7976931348623157e308)]),
    Case("decimal(12,2)", [("-1234567890.12", Decimal("-1234567890.12")), ("0.01", Decimal("0.01")), ("0", Decimal("0.00"))]),
    Case("decimal(5,0)", [("-99999", Decimal(-99999)), ("128", Decimal(128)), ("-128", Decimal(-128))]),
    Case("decimal(9,9)", [("0.123456789", Decimal("0.123456789")), ("-0.000000001", Decimal("-0.000000001"))]),
    Case("decimal(18,0)", [("-999999999999999999", Decimal(-999999999999999999))]),
    Case("decimal(19,1)", [("-999999999999999999.9", Decimal("-999999999999999999.9"))]),
    Case(
        "decimal(65,30)",
        [
            (
                "-12345678901234567890123456789012345.123456789012345678901234567891",
                Decimal("-12345678901234567890123456789012345.123456789012345678901234567891"),
            ),
            (
                "99999999999999999999999999999999999.999999999999999999999999999999",
                Decimal("99999999999999999999999999999999999.999999999999999999999999999999"),
            ),
            ("1", Decimal("1.000000000000000000000000000000")),
        ],
    ),
    Case("year", [("1901", 1901), ("2155", 2155), ("0", 0)]),
    Case(
        "date",
        [
            ("'1970-01-01'", 0),
            ("'9999-12-31'", 2932896),
            ("'1000-01-01'", -354285),
            ("'2024-02-29'", 19782),
            ("'0000-00-00'", None),
            ("'2020-00-10'", None),
        ],
    ),
    Case("time", [("'00:00:00'", 0), ("'-838:59:59'", -3020399000000), ("'838:59:59'", 3020399000000), ("'-00:00:01'", -1000000)]),
    Case("time(1)", [("'-00:00:00.1'", -100000), ("'11:12:13.9'", 40333900000)]),
    Case("time(3)", [("'-00:00:00.001'", -1000), ("'23:59:59.999'", 86399999000), ("'-10:00:00.5'", -36000500000)]),
    Case("time(4)", [("'-00:00:01.0001'", -1000100)]),
    Case("time(6)", [("'-00:00:00.000001'", -1), ("'-838:59:58.999999'", -3020398999999), ("'100:00:00.000001'", 360000000001)]),
    Case(
        "datetime",
        [
            ("'2018-06-20 13:37:03'", 1529501823000),
            ("'1000-01-01 00:00:00'", -30610224000000),
            ("'9999-12-31 23:59:59'", 253402300799000),
            ("'0000-00-00 00:00:00'", None),
        ],
    ),
    Case("datetime(2)", [("'1969-12-31 23:59:59.99'", -10)]),
    Case("datetime(3)", [("'2018-06-20 13:37:03.123'", 1529501823123)]),
    Case("datetime(6)", [("'1969-12-31 23:59:59.999999'", -1), ("'2018-06-20 13:37:03.000001'", 1529501823000001)]),
    Case(
        "timestamp null",
        [
            ("'2018-06-20 13:37:03'", "2018-06-20T13:37:03Z"),
            ("'0000-00-00 00:00:00'", None),
            ("'1970-01-01 00:00:01'", "1970-01-01T00:00:01Z"),
        ],
    ),
    Case("timestamp(1) null", [("'2018-06-20 13:37:03.9'", "2018-06-20T13:37:03.9Z")]),
    Case("timestamp(3) null", [("'2018-06-20 13:37:03.120'", "2018-06-20T13:37:03.120Z")]),
    Case("timestamp(6) null", [("'2038-01-19 03:14:07.000010'", "2038-01-19T03:14:07.000010Z")]),
    Case("bit(1)", [("b'1'", True), ("b'0'", False)]),
    Case("bit(9)", [("b'100000010'", b"\x02\x01")]),
    Case("bit(64)", [("0x0102030405060708", bytes([8, 7, 6, 5, 4, 3, 2, 1]))]),
    Case("char(5)", [("'ab '", "ab"), ("''", ""), ("'äöü😀x'", "äöü😀x")]),
    Case("char(200)", [("'x'", "x"), ("repeat('😀', 200)", "😀" * 200)]),
    Case("char(10) collate utf8mb4_bin", [("'Ab '", "Ab")]),
    Case("varchar(20)", [("'trailing  '", "trailing  "), ("'日本語'", "日本語")]),
    Case("varchar(70)", [("repeat('😀', 70)", "😀" * 70)]),
    Case("varchar(5) character set ascii", [("'abc'", "abc")]),
    Case("varchar(20) character set utf8mb3", [("'äß€'", "äß€")]),
    Case("varchar(20) character set latin1", [("'äß€'", "äß€"), ("_latin1 0x818D8F909D", "\x81\x8d\x8f\x90\x9d")]),
    Case("char(20) character set latin1", [("'äß€ '", "äß€")]),
    Case("varchar(300) character set latin1", [("repeat('é', 300)", "é" * 300)]),
    Case("varchar(20) character set latin2", [("'łóš'", "łóš")]),
    Case("varchar(20) character set cp1251", [("'Привет'", "Привет")]),
    Case("varchar(20) character set koi8r", [("'Привет'", "Привет")]),
    Case("varchar(20) character set greek", [("'αβγ'", "αβγ")]),
    Case("varchar(20) character set gbk", [("'汉字'", "汉字")]),
    Case("varchar(20) character set gb18030", [("'汉字😀'", "汉字😀")], ("mysql",)),
    Case("varchar(20) character set big5", [("'漢字'", "漢字")]),
    Case("varchar(20) character set sjis", [("'漢字'", "漢字")]),
    Case("varchar(20) character set cp932", [("'漢字①'", "漢字①")]),
    Case("varchar(20) character set ujis", [("'漢字'", "漢字")]),
    Case("varchar(20) character set euckr", [("'한국어'", "한국어")]),
    Case("varchar(20) character set ucs2", [("'äß漢'", "äß漢")]),
    Case("char(20) character set utf16", [("'äß😀 '", "äß😀")]),
    Case("varchar(20) character set utf32", [("'äß😀'", "äß😀")]),
    Case("varchar(20) character set utf16le", [("'äß😀'", "äß😀")]),
    Case("binary(6)", [("0x0102", b"\x01\x02\x00\x00\x00\x00"), ("0x202020202020", b"      "), ("0x000000000001", b"\0\0\0\0\0\x01")]),
    Case("varbinary(10)", [("0x00ff00", b"\x00\xff\x00"), ("''", b"")]),
    Case("varbinary(300)", [("repeat(0xff, 300)", b"\xff" * 300)]),
    Case("tinyblob", [("0x01", b"\x01")]),
    Case("blob", [("repeat('x', 1000)", b"x" * 1000)]),
    Case("mediumblob", [("repeat('y', 70000)", b"y" * 70000)]),
    Case("longblob", [("0xdead", b"\xde\xad")]),
    Case("tinytext", [("'t '", "t ")]),
    Case("text", [("repeat('ä', 300)", "ä" * 300)]),
    Case("mediumtext character set latin1", [("'é'", "é")]),
    Case("longtext", [("'long'", "long")]),
    Case("enum('a','ä,b','c')", [("'ä,b'", "ä,b"), ("''", ""), ("3", "c")]),
    Case("set('x','y','zé')", [("'x,zé'", "x,zé"), ("''", ""), ("7", "x,y,zé")]),
    Case("enum(" + ",".join(f"'m{i}'" for i in range(300)) + ")", [("'m299'", "m299"), ("'m0'", "m0")]),
    Case("set(" + ",".join(f"'m{i}'" for i in range(64)) + ")", [("'m0,m63'", "m0,m63")]),
    Case("set(" + ",".join(f"'m{i}'" for i in range(20)) + ")", [("'m0,m19'", "m0,m19")]),
    Case("point", [("st_geomfromtext('POINT(1 2)')", {"x": 1.0, "y": 2.0, "wkb": WKB_POINT, "srid": None})]),
    Case("geometry", [("st_geomfromtext('POINT(1 2)', 4326)", {"wkb": None, "srid": 4326})]),
    Case("linestring", [("st_geomfromtext('LINESTRING(0 0,1 1)')", {"wkb": None, "srid": None})]),
    Case(
        "json",
        [
            ("""'{"k": [1, 2], "a": {"b": null}}'""", '{"a":{"b":null},"k":[1,2]}'),
            ("""'[]'""", "[]"),
            ("""'{}'""", "{}"),
            ("""'null'""", "null"),
            ("""'"text"'""", '"text"'),
            ("""'true'""", "true"),
            (
                """'[1.5, -0.25, 1e100, 12345678.0, 0.0001, 1e-7]'""",
                "[1.5,-0.25," + ",".join(f"{Decimal(d):f}" for d in (1e100, 12345678.0, 0.0001, 1e-7)) + "]",
            ),
            (
                """'[-32768, 65535, 2147483648, -9223372036854775808, 18446744073709551615]'""",
                "[-32768,65535,2147483648,-9223372036854775808,18446744073709551615]",
            ),
            (r"""'{"q": "a\\"b\\\\c\\n\\u0001ä😀/"}'""", r'{"q":"a\"b\\c\n\u0001ä😀/"}'),
            ("json_array(repeat('x', 70000))", '["' + "x" * 70000 + '"]'),
        ],
        ("mysql",),
    ),
    Case("vector(3)", [("string_to_vector('[1,2.5,-3]')", [1.0, 2.5, -3.0])], ("mysql",)),
    Case(
        "uuid",
        [
            ("'123e4567-e89b-12d3-a456-426614174000'", "123e4567-e89b-12d3-a456-426614174000"),
            ("'00000000-0000-0000-0000-000000000000'", "00000000-0000-0000-0000-000000000000"),
            ("'ffffffff-ffff-ffff-ffff-ffffffffffff'", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
            ("'0190163d-8694-739b-aea5-966c26f8ad91'", "0190163d-8694-739b-aea5-966c26f8ad91"),
            ("'9b2b7a36-3a5f-4f3c-8000-000000000000'", "9b2b7a36-3a5f-4f3c-8000-000000000000"),
        ],
        ("mariadb",),
    ),
    Case(
        "inet6",
        [
            (f"'{text}'", text)
            for text in (
                "::",
                "::1",
                "2001:db8::ff00:42:8329",
                "::ffff:1.2.3.4",
                "::1.2.3.4",
                "fe80::",
                "1:0:0:2::3",
                "::2:0:0:0:1",
                "64:ff9b::102:304",
            )
        ],
        ("mariadb",),
    ),
    Case("inet4", [("'1.2.3.0'", "1.2.3.0"), ("'0.0.0.0'", "0.0.0.0")], ("mariadb",)),  # noqa: S104 - an address as data
    Case("json", [("""'{"k": [1, 2]}'""", '{"k": [1, 2]}')], ("mariadb",)),
]


class Bench:
    """One table on one server, its plan, and both ways of reading it."""

    def __init__(self, server: Database, session: Session, database: str, *, name: str = "t") -> None:
        self.server = server
        self.session = session
        self.table = TableId(database, name)
        self.types = mariadb_types if server.flavor == "mariadb" else mysql_types

    def plan(self) -> TablePlan:
        table: Table = self.session.read_catalog(lambda t: t == self.table)[0]
        columns = [self.types.column_plan(c, mysql_types.TypeModes(), table.id) for c in table.columns]
        return tableplan.build_table_plan(
            table,
            columns,
            settings=tableplan.PlanSettings(
                connector=self.server.flavor,
                source=source_schema(self.server.flavor),
                version="1",
                naming=topic_naming.TopicNaming(prefix="p"),
                skipped_operations=frozenset(),
            ),
            key_columns=table.key,
            key_prefix=lambda _t, _s: b"\0\0\0\0\1",
            value_prefix=lambda _t, _s: b"\0\0\0\0\2",
        )

    def log(self, file: str, pos: int, resolve: Callable[..., Any], *, until: str, **options: Any) -> list[LogRows | LogEvent]:
        """Items from a position up to the statement ``until``."""
        raw = self.raw_log(file, pos, until=until)
        decoder = _fast.LogDecoder(flavor=self.server.flavor, resolve=resolve, **options)
        fast = drain(decoder, file, pos, raw, step=100_000)
        reference = ReferenceLogDecoder(flavor=self.server.flavor, resolve=resolve, **options)
        assert comparable(drain(reference, file, pos, raw, step=100_000)) == comparable(fast)
        return fast

    def raw_log(self, file: str, pos: int, *, until: str) -> bytes:
        connection = self.session.open_log(server_id=4711, file=file, pos=pos, gtids=None)
        out = b""
        with contextlib.closing(connection):
            for _ in range(200):
                out += connection.recv(0.2)
                if until.encode() in out:
                    return out
        raise AssertionError("the log did not get there")


def drain(decoder: Any, file: str, pos: int, raw: bytes, *, step: int, **start: Any) -> list[LogRows | LogEvent]:
    items: list[LogRows | LogEvent] = []
    decoder.start(file, pos, now_us=lambda: 1_700_000_000_000_000, **start)
    for at in range(0, len(raw), step):
        items += decoder.feed(raw[at : at + step])
        if items and isinstance(items[-1], LogEvent) and items[-1].type_code == LOOK_AHEAD:
            decoder.told(())  # nothing here is rolled back
        while decoder.held:
            items += decoder.feed(b"")
    return items + decoder.flush()


def comparable(items: list[LogRows | LogEvent]) -> list[Any]:
    return [
        ([(k, v, h) for _, k, v, h in i.segments], i.records, i.bytes, i.source_ts_us, i.position) if isinstance(i, LogRows) else i
        for i in items
    ]


def records(items: list[LogRows | LogEvent]) -> list[tuple[bytes | None, bytes | None]]:
    return [pair for i in items if isinstance(i, LogRows) for _, keys, values, _ in i.segments for pair in zip(keys, values, strict=True)]


def decoded(plan: TablePlan, value: bytes) -> dict[str, Any]:
    schema = fastavro.parse_schema(json.loads(avro.avro_text(plan.value_schema)))
    reader = BytesIO(value[len(plan.value_prefix) :])
    record = fastavro.schemaless_reader(reader, schema)
    assert not reader.read()
    return record


@pytest.fixture
def bench(source: Database) -> Iterator[Bench]:
    module = mariadb_session if source.flavor == "mariadb" else mysql_session
    settings = ConnectSettings(host=source.host, port=source.port, user=source.user, password=source.password)
    database = new_database(source, "rowpath")
    with contextlib.closing(module.connect(settings)) as session:
        yield Bench(source, session, database)


def test_every_type_is_read_alike_from_log_and_result_set(bench: Bench) -> None:
    cases = [case for case in CASES if bench.server.flavor in case.flavors]
    rows = max(len(case.values) for case in cases)
    table = f"`{bench.table.database}`.`t`"
    columns = ", ".join(f"c{i} {case.ddl}" for i, case in enumerate(cases))
    execute(bench.server, f"CREATE TABLE {table} (id int PRIMARY KEY, {columns}) DEFAULT CHARSET utf8mb4 ROW_FORMAT=DYNAMIC")
    file, pos, _ = bench.session.current_position()
    with connected(bench.server) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode='', time_zone='+00:00'")
        for row in range(rows):
            literals = [case.values[row][0] if row < len(case.values) else "NULL" for case in cases]
            cursor.execute(f"INSERT INTO {table} VALUES ({row}, {', '.join(literals)})")
        cursor.execute(f"UPDATE {table} SET id = id + 100 WHERE id = 0")
        cursor.execute(f"UPDATE {table} SET c0 = 5 WHERE id = 1")
        cursor.execute(f"DELETE FROM {table} WHERE id = 1")
        cursor.execute(f"CREATE TABLE `{bench.table.database}`.the_end (id int)")
    plan = bench.plan()
    fast, slow = _fast.FastPlan(plan, row_image), ReferencePlan(plan, row_image)

    by_log = records(bench.log(file, pos, lambda body, _p: fast if b"\x01t\x00" in body[:80] else None, until="the_end"))
    by_slow = records(bench.log(file, pos, lambda body, _p: slow if b"\x01t\x00" in body[:80] else None, until="the_end"))

    assert by_log == by_slow
    wrong = []
    for row in range(rows):
        after = decoded(plan, by_log[row][1])["after"]
        for i, case in enumerate(cases):
            wanted = case.values[row][1] if row < len(case.values) else None
            got = after[f"c{i}"]
            if isinstance(wanted, dict) and got is not None:
                got = {**got, "wkb": got["wkb"] if wanted["wkb"] else None}
            if got != wanted:
                wrong.append((case.ddl, case.values[row][0], wanted, got))
    assert not wrong
    ops = [decoded(plan, value)["op"] if value else None for _, value in by_log[rows:]]
    assert ops == ["d", None, "c", "u", "d", None]

    # The rows as they were inserted, now by a result set.
    execute(bench.server, f"DELETE FROM {table}")
    with connected(bench.server) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode='', time_zone='+00:00'")
        for row in range(rows):
            literals = [case.values[row][0] if row < len(case.values) else "NULL" for case in cases]
            cursor.execute(f"INSERT INTO {table} VALUES ({row}, {', '.join(literals)})")
    with contextlib.closing(open_dump(bench.session, TableId(bench.table.database, "watermarks"))) as dump:
        dump.begin_snapshot()
        statement, parameters = sql.chunk_select(plan.table, None, None, 1000)
        chunk = dump.select(statement, parameters, key=plan.key)
    context = BinlogContext(
        file=file, pos=pos, server_id=0, source_ts_us=0, now_us=0, sequence_high=0, sequence_low=0, snapshot="incremental"
    )
    keys, values, dropped, digest = fast.encode_chunk(chunk.rows, context, frozenset())
    assert (keys, values, dropped, digest) == slow.encode_chunk(chunk.rows, context, frozenset())
    assert keys == [key for key, _ in by_log[:rows]]
    for row in range(rows):
        dumped, logged = decoded(plan, values[row])["after"], decoded(plan, by_log[row][1])["after"]
        different = {cases[i].ddl: (dumped[f"c{i}"], logged[f"c{i}"]) for i in range(len(cases)) if dumped[f"c{i}"] != logged[f"c{i}"]}
        assert not different


def test_partial_images_stop_with_the_setting_to_change(bench: Bench) -> None:
    table = f"`{bench.table.database}`.`t`"
    execute(bench.server, f"CREATE TABLE {table} (id int PRIMARY KEY, a int, b text)", f"INSERT INTO {table} VALUES (1, 2, 'x')")
    file, pos, _ = bench.session.current_position()
    execute(bench.server, "SET SESSION binlog_row_image = 'MINIMAL'", f"UPDATE {table} SET a = 3")
    execute(bench.server, f"CREATE TABLE `{bench.table.database}`.the_end (id int)")
    plan = bench.plan()

    for encoder in (_fast.FastPlan(plan, row_image), ReferencePlan(plan, row_image)):
        with pytest.raises(DefiniteError, match=rf"{bench.table}.*binlog_row_image.*{file}"):
            bench.log(file, pos, lambda body, _p, e=encoder: e if b"\x01t\x00" in body[:80] else None, until="the_end")


def as_record(values: dict[str, Any]) -> dict[str, Any]:
    """A driver's values in a record's value space."""
    epoch = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - DATETIME has no zone
    out: dict[str, Any] = {}
    for name, value in values.items():
        match value:
            case dt.datetime():
                out[name] = (value - epoch) // dt.timedelta(microseconds=1)
            case dt.date():
                out[name] = (value - epoch.date()).days
            case dt.timedelta():
                out[name] = value // dt.timedelta(microseconds=1)
            case _:
                out[name] = value
    return out


def test_folding_a_random_load_gives_the_table(bench: Bench) -> None:
    """I3 on a real server: transactions of one and of many rows, savepoints, rollbacks; each before image is the row as it was."""
    chance = random.Random(20261121)
    name = f"`{bench.table.database}`.`t`"
    execute(
        bench.server,
        f"CREATE TABLE {name} (id bigint PRIMARY KEY, n int unsigned, s varchar(300) CHARACTER SET utf8mb4, d decimal(20,6), m datetime(6), "
        "day date, t time(3), b blob, f double, e enum('x','y'), y year, k tinyint)",
        f"CREATE TABLE `{bench.table.database}`.other (id int)",
    )
    file, pos, before_gtids = bench.session.current_position()

    def row() -> str:
        text = "".join(chance.choice("aä漢😀 '") for _ in range(chance.randrange(40))).replace("'", "''")
        return (
            f"{chance.randrange(2**32)}, '{text}', {chance.randrange(-(10**12), 10**12)}.{chance.randrange(10**6):06d}, "
            f"'{chance.randrange(1000, 9999)}-0{chance.randrange(1, 10)}-1{chance.randrange(10)} 1{chance.randrange(10)}:0{chance.randrange(10)}:59.{chance.randrange(10**6):06d}', "
            f"'{chance.randrange(1000, 9999)}-12-31', '-{chance.randrange(800)}:59:01.{chance.randrange(1000):03d}', "
            f"unhex('{chance.randbytes(chance.randrange(50)).hex()}'), {chance.random()!r}, '{chance.choice('xy')}', {chance.randrange(1901, 2156)}, NULL"
        )

    count = 0
    with connected(bench.server) as connection, connection.cursor() as cursor:
        for _ in range(120):
            cursor.execute("BEGIN")
            for _ in range(chance.choice([1, 1, 1, 5])):
                action = chance.randrange(7)
                if action <= 2 or not count:
                    rows = chance.choice([1, 1, 60])
                    cursor.execute(f"INSERT INTO {name} VALUES " + ", ".join(f"({count + i}, {row()})" for i in range(rows)))
                    count += rows
                elif action == 3:
                    cursor.execute(
                        f"UPDATE {name} SET k = {chance.randrange(-128, 127)}, s = NULL WHERE id < {chance.randrange(count)} ORDER BY id LIMIT 7"
                    )
                elif action == 4:
                    cursor.execute(f"DELETE FROM {name} WHERE id >= {chance.randrange(count)} ORDER BY id LIMIT 2")
                elif action == 5:
                    cursor.execute(f"INSERT INTO `{bench.table.database}`.other VALUES (1)")
                else:
                    cursor.execute("SAVEPOINT s")
                    cursor.execute(f"UPDATE {name} SET n = 1 LIMIT 3")
                    cursor.execute("ROLLBACK TO s")
            cursor.execute("COMMIT" if chance.randrange(9) else "ROLLBACK")
        cursor.execute(f"CREATE TABLE `{bench.table.database}`.the_end (id int)")
    _, _, after_gtids = bench.session.current_position()
    plan = bench.plan()
    fast = _fast.FastPlan(plan, row_image)

    items = bench.log(file, pos, lambda body, _p: fast if b"\x01t\x00" in body[:80] else None, until="the_end", records_max=50)

    envelopes = [decoded(plan, value) for _, value in records(items) if value is not None]
    table: dict[int, Any] = {}
    for envelope in envelopes:
        before, after = envelope["before"], envelope["after"]
        if before is not None:
            assert table.pop(before["id"]) == before
        if after is not None:
            assert after["id"] not in table
            table[after["id"]] = after
    with connected(bench.server) as connection, connection.cursor(DictCursor) as cursor:
        cursor.execute(f"SELECT * FROM {name}")
        stored = {found["id"]: as_record(found) for found in cursor.fetchall()}
    assert len(stored) > 300
    assert table == stored
    events = execute(bench.server, f"SHOW BINLOG EVENTS IN '{file}' FROM {pos}")
    known = {(found[0], found[1]) for found in events if "rows" in str(found[2]).lower()}
    assert {(e["source"]["file"], e["source"]["pos"]) for e in envelopes} <= known
    finished = [item.position.gtids_delta for item in items]
    if bench.server.flavor == "mysql":
        if before_gtids or after_gtids:
            added = sum(last - first + 1 for delta in finished for _, _, first, last in delta)
            assert added == transactions_of(after_gtids) - transactions_of(before_gtids)
            assert all(e["source"]["gtid"] for e in envelopes)
    else:
        assert "-".join(map(str, [d for delta in finished for d in delta][-1])) in after_gtids.split(
            ","
        )  # other tests write in other domains


def transactions_of(gtids: str) -> int:
    """How many transactions a MySQL GTID set holds."""
    total = 0
    for part in gtids.replace("\n", "").split(","):
        for interval in part.split(":")[1:]:
            if not interval[:1].isdigit():  # a tag: its intervals follow
                continue
            low, _, high = interval.partition("-")
            total += int(high or low) - int(low) + 1
    return total


def test_reading_on_from_every_position_of_a_real_log(bench: Bench) -> None:
    """A connection opened at the position of any item, with its event count to skip, gives exactly the rows that follow."""
    name = f"`{bench.table.database}`.`t`"
    execute(bench.server, f"CREATE TABLE {name} (id int PRIMARY KEY, s varchar(20))")
    file, pos, _ = bench.session.current_position()
    with connected(bench.server) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        for i in range(4):
            cursor.execute(f"INSERT INTO {name} VALUES ({i}, 'a'), ({10 + i}, 'b')")
        cursor.execute("COMMIT")
        cursor.execute(f"UPDATE {name} SET s = 'c' WHERE id < 2")
        cursor.execute(f"CREATE TABLE `{bench.table.database}`.the_end (id int)")
    plan = bench.plan()
    fast = _fast.FastPlan(plan, row_image)

    def resolve(body: bytes, _position: Any) -> Any:
        return fast if b"\x01t\x00" in body[:80] else None

    items = bench.log(file, pos, resolve, until="the_end", records_max=1)
    every = [key for key, _ in records(items)]
    done = 0
    assert len(items) > 5
    for item in items:
        done += len(records([item]))
        position = item.position
        raw = bench.raw_log(position.file, position.pos, until="the_end") if done < len(every) else b""
        decoder = _fast.LogDecoder(flavor=bench.server.flavor, resolve=resolve)
        again = drain(decoder, position.file, position.pos, raw, step=1000, skip_events=position.event)
        assert [key for key, _ in records(again)] == every[done:]


def test_a_row_of_more_than_a_packet_on_a_real_server(bench: Bench) -> None:
    name = f"`{bench.table.database}`.`t`"
    execute(bench.server, f"CREATE TABLE {name} (id int PRIMARY KEY, b longblob)", "SET GLOBAL max_allowed_packet = 64 * 1024 * 1024")
    file, pos, _ = bench.session.current_position()
    with connected(bench.server) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {name} VALUES (1, repeat('0123456789abcdef', 1100000))")
        cursor.execute(f"INSERT INTO {name} VALUES (2, 'x')")
        cursor.execute(f"CREATE TABLE `{bench.table.database}`.the_end (id int)")
    plan = bench.plan()
    fast = _fast.FastPlan(plan, row_image)

    items = bench.log(file, pos, lambda body, _p: fast if b"\x01t\x00" in body[:80] else None, until="the_end")
    with contextlib.closing(open_dump(bench.session, TableId(bench.table.database, "watermarks"))) as dump:
        dump.begin_snapshot()
        statement, parameters = sql.chunk_select(plan.table, None, None, 10)
        chunk = dump.select(statement, parameters, key=plan.key)
    context = BinlogContext(file=file, pos=pos, server_id=0, source_ts_us=0, now_us=0, sequence_high=0, sequence_low=0)
    _, values, _, _ = fast.encode_chunk(chunk.rows, context, frozenset())

    for found in ([v for _, v in records(items)], values):
        assert [decoded(plan, v)["after"]["b"] for v in found] == [b"0123456789abcdef" * 1_100_000, b"x"]


def test_tagged_gtids_of_mysql(mysql: Database, tmp_path: Any) -> None:
    settings = ConnectSettings(host=mysql.host, port=mysql.port, user=mysql.user, password=mysql.password)
    with contextlib.closing(mysql_session.connect(settings)) as session:
        assert session.facts.uses_gtids
        bench = Bench(mysql, session, new_database(mysql, "tagged"))
        name = f"`{bench.table.database}`.`t`"
        execute(mysql, f"CREATE TABLE {name} (id int PRIMARY KEY)")
        file, pos, before = session.current_position()
        execute(mysql, "SET SESSION gtid_next = 'AUTOMATIC:batch_1'", f"INSERT INTO {name} VALUES (1)", f"INSERT INTO {name} VALUES (2)")
        execute(mysql, f"INSERT INTO {name} VALUES (3)", f"CREATE TABLE `{bench.table.database}`.the_end (id int)")
        plan = bench.plan()
        fast = _fast.FastPlan(plan, row_image)
        items = bench.log(file, pos, lambda body, _p: fast if b"\x01t\x00" in body[:80] else None, until="the_end")

        uuid = session.facts.server_uuid
        sources = [decoded(plan, v)["source"] for _, v in records(items)]
        number = int(sources[0]["gtid"].rsplit(":", 1)[1])
        assert [s["gtid"] for s in sources[:2]] == [f"{uuid}:batch_1:{number}", f"{uuid}:batch_1:{number + 1}"]
        assert "batch" not in sources[2]["gtid"]
        delta = [d for item in items for d in item.position.gtids_delta]
        assert (uuid, "batch_1", number, number + 1) in delta
        assert sources[0]["ts_us"] % 1_000_000
        del before
