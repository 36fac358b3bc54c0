"""Four ways to read one row agree: the log, a dump, the server's own text of a SELECT, and mysql-replication's decoding of the same log.

Hundreds of random tables of all types on real servers, in random handling modes; each record is also encoded by the reference implementation, and its bytes decoded
by fastavro. What mysql-replication reads otherwise is named in support/generated_tables.py (EXCEPTIONS); the other three agree there too.
"""

import contextlib
import itertools
import json
import random
import re
import time
import warnings
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro
import pymysql
import pytest
from dblog.codecs import avro, tableplan, topic_naming
from dblog.codecs.plan import TablePlan
from dblog.codecs.rowplan import ReferencePlan
from dblog.dialects.mariadb import session as mariadb_session
from dblog.dialects.mariadb import types as mariadb_types
from dblog.dialects.mysql.binlog import _fast, row_image
from dblog.dialects.mysql.binlog.items import LogRows
from dblog.dialects.mysql.binlog.source_block import BinlogContext, source_schema
from dblog.dialects.mysql.catalog import sql
from dblog.dialects.mysql.values import types as mysql_types
from dblog.dialects.mysql.values.charset_tables import FRAMES
from dblog.dialects.mysql.values.types import TypeModes
from dblog.dialects.mysql.wire import json_kinds
from dblog.dialects.mysql.wire import session as mysql_session
from dblog.dialects.mysql.wire.connect import ConnectSettings
from dblog.dialects.mysql.wire.session import Session
from dblog.errors import DefiniteError
from dblog.model import Table, TableId
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent
from reference_decoders.mysql.decoder_reference import ReferenceLogDecoder
from stack.database import Database
from support.generated_tables import UNCHECKED, Made, MadeTable, generated
from support.servers import connected, execute, new_database
from support.sessions import open_dump

SEED = 20261121
TABLES = 300
ROWS = 8
READ_LIMIT_S = 120.0
SENTINEL = "the_end"


@contextlib.contextmanager
def opened(server: Database) -> Iterator[Session]:
    module = mariadb_session if server.flavor == "mariadb" else mysql_session
    settings = ConnectSettings(host=server.host, port=server.port, user=server.user, password=server.password)
    with contextlib.closing(module.connect(settings)) as session:
        yield session


def plan_of(server: Database, table: Table, modes: TypeModes) -> TablePlan:
    types = mariadb_types if server.flavor == "mariadb" else mysql_types
    return tableplan.build_table_plan(
        table,
        [types.column_plan(c, modes, table.id) for c in table.columns],
        settings=tableplan.PlanSettings(
            connector=server.flavor,
            source=source_schema(server.flavor),
            version="1",
            naming=topic_naming.TopicNaming(prefix="p"),
            skipped_operations=frozenset(),
        ),
        key_columns=table.key,
        key_prefix=lambda _t, _s: b"\0\0\0\0\1",
        value_prefix=lambda _t, _s: b"\0\0\0\0\2",
    )


def read_log(session: Session, file: str, pos: int) -> bytes:
    """The raw log from a position up to the sentinel's rows."""
    out = bytearray()
    limit = time.monotonic() + READ_LIMIT_S
    with contextlib.closing(session.open_log(server_id=4711, file=file, pos=pos, gtids=None)) as connection:
        while SENTINEL.encode() not in out[-4000:]:
            assert time.monotonic() < limit, "the log did not get to the sentinel"
            out += connection.recv(0.2)
    return bytes(out)


def by_log(decoder: Any, raw: bytes, file: str, pos: int) -> dict[TableId, list[tuple[bytes | None, bytes | None]]]:
    """Key and value bytes of every row of a stretch of log, by table."""
    decoder.start(file, pos, now_us=lambda: 1_700_000_000_000_000)
    items = []
    for at in range(0, len(raw), 1 << 20):
        items += decoder.feed(raw[at : at + (1 << 20)])
        while decoder.held:
            items += decoder.feed(b"")
    items += decoder.flush()
    found: dict[TableId, list[tuple[bytes | None, bytes | None]]] = {}
    for item in items:
        if isinstance(item, LogRows):
            for encoder, keys, values, _ in item.segments:
                found.setdefault(encoder.plan.table.id, []).extend(zip(keys, values, strict=True))
    return found


def named_table(body: bytes) -> TableId:
    """Database and table of a table map."""
    length = body[8]
    database = body[9 : 9 + length].decode()
    at = 10 + length
    return TableId(database, body[at + 1 : at + 1 + body[at]].decode())


def dumped(session: Session, plans: dict[TableId, TablePlan]) -> dict[TableId, tuple[bytes, int]]:
    """Row packets of a SELECT of each table as the chunk reader makes it."""
    out = {}
    watermarks = TableId(next(iter(plans)).database, "watermarks")
    with contextlib.closing(open_dump(session, watermarks)) as dump:
        dump.begin_snapshot()
        for table, plan in plans.items():
            statement, parameters = sql.chunk_select(plan.table, None, None, 100_000)
            chunk = dump.complete(dump.select(statement, parameters, key=plan.key), plan.table, None)
            out[table] = chunk.rows, chunk.row_count
    return out


class Decoder:
    """Envelopes to values by fastavro, a schema parsed once."""

    def __init__(self, plan: TablePlan) -> None:
        # Connect's dates and times stay numbers: Python's classes cannot hold a TIME of 800 hours.
        plain = re.sub(r'"logicalType": ?"(date|time-millis|timestamp-millis)",?', "", avro.avro_text(plan.value_schema)).replace(",}", "}")
        self._schema = fastavro.parse_schema(json.loads(plain))
        self._prefix = len(plan.value_prefix)

    def after(self, value: bytes) -> dict[str, Any]:
        reader = BytesIO(value[self._prefix :])
        record = fastavro.schemaless_reader(reader, self._schema)
        assert not reader.read()
        return record["after"]


def oracle_rows(server: Database, database: str, tables: set[str], file: str, pos: int) -> dict[str, list[dict[str, Any]]]:
    """What mysql-replication makes of the same stretch of log. Its reader never finds the log's end by itself: the sentinel's row shows it.

    Blocking, for a MariaDB that has sent all resets a connection that does not block before it is read; and a reader that lost its connection
    tries again for ever, so the connections are counted.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    limit = time.monotonic() + READ_LIMIT_S
    connections = itertools.count(1)

    def connection(**login: Any) -> pymysql.Connection:
        assert next(connections) <= 6, "mysql-replication loses its connections"
        return pymysql.connect(**login, read_timeout=30)

    stream = BinLogStreamReader(
        connection_settings=server.login, server_id=4712, resume_stream=True, blocking=True, pymysql_wrapper=connection, log_file=file, log_pos=pos,
        only_events=[WriteRowsEvent], only_schemas=[database], only_tables=[*tables, SENTINEL], is_mariadb=server.flavor == "mariadb",
        enable_logging=False,
    )  # fmt: skip
    with contextlib.closing(stream), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # utcfromtimestamp
        for event in stream:
            if event.table == SENTINEL:
                return rows
            assert time.monotonic() < limit, "mysql-replication did not get to the sentinel"
            rows.setdefault(event.table, []).extend(row["values"] for row in event.rows)
    raise AssertionError("mysql-replication's log ended before the sentinel")


def collations_of(server: Database) -> list[tuple[str, str]]:
    """Every (character set, collation) of the server."""
    rows = execute(
        server,
        "SELECT DISTINCT c.character_set_name, "
        + (
            "c.full_collation_name FROM information_schema.collation_character_set_applicability c"
            if server.flavor == "mariadb"
            else "c.collation_name FROM information_schema.collations c"
        )
        + " ORDER BY 1, 2",
    )
    return [(str(charset), str(collation)) for charset, collation in rows if charset not in (None, "binary")]


def expected(column: Made, text: str | None, modes: TypeModes) -> Any:
    """What a record has where a SELECT shows ``text``."""
    value = None if text is None else column.kind.record(text, modes)
    if value is None and not column.nullable:
        return column.kind.zero(modes)
    return value


def as_text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else None if value is None else str(value)


def alike(wanted: Any, got: Any) -> bool:
    return bool(wanted == got) and (type(wanted) is type(got) or not isinstance(wanted, bool | int | str | bytes))


def test_log_dump_select_and_mysql_replication_agree(source: Database) -> None:
    chance = random.Random(SEED)
    tables = generated(source.flavor, chance, tables=TABLES, rows=ROWS, collations=collations_of(source))
    database = new_database(source, "differential")
    with opened(source) as session:
        with connected(source, database=database) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00'")
            for table in tables:
                cursor.execute(table.create)
            file, pos, _ = session.current_position()
            cursor.execute("BEGIN")
            for table in tables:
                cursor.execute(table.insert)
            cursor.execute("COMMIT")
            cursor.execute(f"CREATE TABLE {SENTINEL} (id int)")
            cursor.execute(f"INSERT INTO {SENTINEL} VALUES (1)")
        by_name = {table.name: table for table in tables}
        catalog = session.read_catalog(lambda t: t.database == database and t.name in by_name)
        plans = {table.id: plan_of(source, table, by_name[table.id.name].modes) for table in catalog}
        raw = read_log(session, file, pos)
        packets = dumped(session, plans)
    assert len(plans) == TABLES
    fast = {table: _fast.FastPlan(plan, row_image) for table, plan in plans.items()}
    slow = {table: ReferencePlan(plan, row_image) for table, plan in plans.items()}

    logged = by_log(_fast.LogDecoder(flavor=source.flavor, resolve=lambda body, _p: fast.get(named_table(body))), raw, file, pos)
    assert logged == by_log(ReferenceLogDecoder(flavor=source.flavor, resolve=lambda body, _p: slow.get(named_table(body))), raw, file, pos)
    selected = select(source, database, tables)
    oracle = oracle_rows(source, database, {table.name for table in tables if table.exception is None}, file, pos)

    context = BinlogContext(
        file=file, pos=pos, server_id=0, source_ts_us=0, now_us=0, sequence_high=0, sequence_low=0, snapshot="incremental"
    )
    wrong: list[Any] = []
    values = by_oracle = 0
    for table_id, plan in plans.items():
        table = by_name[table_id.name]
        rows, count = packets[table_id]
        assert count == ROWS
        chunk = fast[table_id].encode_chunk(rows, context, frozenset())
        assert chunk == slow[table_id].encode_chunk(rows, context, frozenset()), table.create
        decoder = Decoder(plan)
        in_dump = {record["id"]: (key, record) for key, record in zip(chunk[0], map(decoder.after, chunk[1]), strict=True)}
        in_log = {record["id"]: (key, record) for key, record in ((k, decoder.after(v)) for k, v in logged[table_id] if v)}
        if {i: key for i, (key, _) in in_dump.items()} != {i: key for i, (key, _) in in_log.items()}:
            wrong.append(("keys", table.create))
        for row in selected[table.name]:
            number = int(row[0])
            for column, cell in zip(table.columns, row[1:], strict=True):
                values += 1
                text = as_text(cell)
                reported = in_log[number][1][column.name], in_dump[number][1][column.name]
                if reported[0] != reported[1] or not alike(expected(column, text, table.modes), reported[0]):
                    wrong.append((column.kind.ddl, modes_of(table), text, expected(column, text, table.modes), *reported))
                if table.name in oracle:
                    meant = None if text is None else column.kind.oracle(text)
                    got = oracle[table.name][number][column.name]
                    by_oracle += 1
                    if meant is not UNCHECKED and meant != got:
                        wrong.append(("mysql-replication", column.kind.ddl, text, meant, got))
    assert not wrong, "\n".join([f"{len(wrong)} of {values}", *(repr(w)[:600] for w in {(w[0], w[1][:12]): w for w in wrong}.values())])
    assert values >= 20_000
    assert by_oracle >= values // 3


def select(server: Database, database: str, tables: list[MadeTable]) -> dict[str, list[tuple[Any, ...]]]:
    """The server's own text of every value, untouched by the driver."""
    out = {}
    login = {**server.login, "database": database, "charset": "utf8mb4", "conv": dict(pymysql.converters.encoders)}
    with contextlib.closing(pymysql.connect(**login)) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone='+00:00'")
        for table in tables:
            cursor.execute(table.select)
            out[table.name] = list(cursor.fetchall())
    return out


def modes_of(table: MadeTable) -> str:
    m = table.modes
    return f"{m.time_precision_mode} {m.decimal_handling_mode} {m.bigint_unsigned_handling_mode} {m.binary_handling_mode}"


@pytest.mark.parametrize("mode", ["warn", "fail"])
def test_an_empty_geometry_is_null_or_an_error_that_states_what_to_do(mariadb: Database, mode: str) -> None:
    """What MariaDB gives the rows that are there in a NOT NULL column that is added; MySQL refuses the statement."""
    database = new_database(mariadb, "empty_geometries")
    with opened(mariadb) as session:
        with connected(mariadb, database=database) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            cursor.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
            cursor.execute("INSERT INTO t VALUES (1, 1)")
            cursor.execute("ALTER TABLE t ADD g geometry NOT NULL, ADD l linestring NOT NULL")
            file, pos, _ = session.current_position()
            cursor.execute("UPDATE t SET n = 2")
            cursor.execute(f"CREATE TABLE {SENTINEL} (id int)")
        table = session.read_catalog(lambda t: t == TableId(database, "t"))[0]
        plan = plan_of(mariadb, table, TypeModes(event_converting_failure_handling_mode=mode))
        raw = read_log(session, file, pos)
        rows, _ = dumped(session, {table.id: plan})[table.id]
    context = BinlogContext(
        file=file, pos=pos, server_id=0, source_ts_us=0, now_us=0, sequence_high=0, sequence_low=0, snapshot="incremental"
    )
    for encoder, decoder in ((_fast.FastPlan(plan, row_image), _fast.LogDecoder), (ReferencePlan(plan, row_image), ReferenceLogDecoder)):
        made = decoder(flavor="mariadb", resolve=lambda body, _p, e=encoder: e if named_table(body) == table.id else None)
        if mode == "fail":
            with pytest.raises(DefiniteError, match=r"column g: an empty geometry .*event\.converting\.failure\.handling\.mode=warn"):
                by_log(made, raw, file, pos)
            with pytest.raises(DefiniteError, match="column g: an empty geometry"):
                encoder.encode_chunk(rows, context, frozenset())
            continue
        (_, logged), *_ = by_log(made, raw, file, pos)[table.id]
        for value in (logged, encoder.encode_chunk(rows, context, frozenset())[1][0]):
            assert Decoder(plan).after(value) == {"id": 1, "n": 2, "g": None, "l": None}


def noting(select: Any, questions: list[str]) -> Any:
    def noted(statement: str, parameters: Any, **more: Any) -> Any:
        questions.append(statement)
        return select(statement, parameters, **more)

    return noted


MEMBERS = ["k", "", "a b", 'q"q', "b\\s", "*", "**", "[0]", "$", "é😀", "tab\t", "2024-01-01 10:00:00.000000", "base64:type15:AAAA"]
LOOKALIKES = [
    ("CAST('2024-01-01 10:00:00' AS DATETIME)", '"2024-01-01 10:00:00"'),
    ("CAST('2024-01-01 10:00:00.25' AS DATETIME(3))", '"2024-01-01 10:00:00.25"'),
    ("'2024-01-01 10:00:00.000000'", '"2024-01-01 10:00:00.000000"'),
    ("CAST('838:59:59' AS TIME)", '"838:59:59"'),
    ("CAST('-01:02:03.5' AS TIME(6))", '"-01:02:03.5"'),
    ("'10:00:00.000000'", '"10:00:00.000000"'),
    ("CAST('2024-01-01' AS DATE)", '"2024-01-01"'),
    ("CAST('12345678.9' AS DECIMAL(10,1))", "12345678.9"),
    ("12345678.9E0", "12345678.9000000003725290298461914062"),
    ("CAST('10000000.0' AS DECIMAL(10,1))", "10000000.0"),
    ("10000000E0", "10000000"),
    ("CAST('0.0002' AS DECIMAL(5,4))", "0.0002"),
    ("2E-4", "0.000200000000000000009584"),
    ("CAST(REPEAT('9', 65) AS DECIMAL(65,0))", "9" * 65),
    ("CAST('0.000000000000000000000000000001' AS DECIMAL(30,30))", "0.000000000000000000000000000001"),
    ("1E15", "1000000000000000"),
    ("x'00ff'", '"AP8="'),
    ("'base64:type15:AP8='", '"base64:type15:AP8="'),
    ("1.5", "1.5"),
]
"""An expression, and how the log's text of it begins."""


@pytest.mark.parametrize("key", ["PRIMARY KEY (id)", "PRIMARY KEY (name, id)", "KEY (id)"])
@pytest.mark.parametrize("limits", [(400, 50_000), (5, 40)])
def test_what_looks_alike_in_a_json_text_is_dumped_as_logged(mysql: Database, monkeypatch, key, limits) -> None:
    """Each kind of value, in each way into a document, alone and together, by both walkers; whatever the key, and in however many questions."""
    monkeypatch.setattr(json_kinds, "PATHS_MAX", limits[0])
    monkeypatch.setattr(json_kinds, "ANSWERS_MAX", limits[1])
    members = [pymysql.converters.escape_string(member) for member in MEMBERS]
    documents = [f"JSON_EXTRACT(JSON_ARRAY({value}), '$[0]')" for value, _ in LOOKALIKES]
    documents += [f"JSON_OBJECT('{member}', {value})" for member in members for value, _ in LOOKALIKES[::3]]
    documents += [f"JSON_ARRAY(1, JSON_OBJECT('a', JSON_ARRAY('x', {', '.join(v for v, _ in LOOKALIKES)})), '{m}')" for m in members]
    documents += ["NULL", "'[]'", f"JSON_OBJECT('long', REPEAT('x', 300), 'at', {LOOKALIKES[0][0]})"]
    database = new_database(mysql, "lookalikes")
    with opened(mysql) as session:
        with connected(mysql, database=database) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE t (id int NOT NULL, name varchar(20), j json, f float, other json, n decimal(20,4), {key})")
            file, pos, _ = session.current_position()
            for i, document in enumerate(documents):
                other = documents[-i]
                cursor.execute(f"INSERT INTO t VALUES ({i}, 'name {i % 3}', {document}, {i} / 3, {other}, {i} * 100000000.25)")
            cursor.execute(f"CREATE TABLE {SENTINEL} (id int)")
        table = session.read_catalog(lambda t: t == TableId(database, "t"))[0]
        plan = plan_of(mysql, table, TypeModes())
        raw = read_log(session, file, pos)
        statement, parameters = sql.chunk_select(table, None, None, 10_000) if table.key else sql.full_scan(table, 10_000)
        with_final_text = []
        for doubtful in (_fast.json_doubts, json_kinds.doubtful_rows):
            with contextlib.closing(open_dump(session, TableId(database, "watermarks"))) as dump:
                dump.doubtful = doubtful
                dump.begin_snapshot()
                chunk = dump.select(statement, parameters, key=plan.key)
                questions: list[str] = []
                monkeypatch.setattr(dump, "select", noting(dump.select, questions))
                with_final_text.append(dump.complete(chunk, table, None))
    fast, slow = _fast.FastPlan(plan, row_image), ReferencePlan(plan, row_image)

    logged = by_log(
        _fast.LogDecoder(flavor="mysql", resolve=lambda body, _p: fast if named_table(body) == table.id else None), raw, file, pos
    )[table.id]

    decoder = Decoder(plan)
    in_log = {record["id"]: record for record in (decoder.after(value) for _, value in logged if value)}
    context = BinlogContext(
        file=file, pos=pos, server_id=0, source_ts_us=0, now_us=0, sequence_high=0, sequence_low=0, snapshot="incremental"
    )
    for chunk in with_final_text:
        assert chunk.row_count == len(documents)
        records = fast.encode_chunk(chunk.rows, context, frozenset())
        assert records == slow.encode_chunk(chunk.rows, context, frozenset())
        in_dump = {record["id"]: record for record in map(decoder.after, records[1])}
        assert in_dump == in_log
    for i, (_, text) in enumerate(LOOKALIKES):
        assert in_log[i]["j"].startswith(text), LOOKALIKES[i]
    assert len(questions) == 1 if limits[0] == 400 else len(questions) > 3


def test_every_character_of_every_character_set_is_decoded_as_the_server_does(source: Database) -> None:
    """All of Unicode converted into each set, and every code of the sets of several bytes, also those without a character."""
    charsets = [str(row[0]) for row in execute(source, "SELECT character_set_name FROM information_schema.character_sets ORDER BY 1")]
    charsets.remove("binary")
    database = new_database(source, "charsets")
    columns = ", ".join(f"`{charset}` text CHARACTER SET {charset}" for charset in charsets)
    with opened(source) as session:
        with connected(source, database=database) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode=''")
            cursor.execute(f"CREATE TABLE c (id int PRIMARY KEY, {columns})")
            file, pos, _ = session.current_position()
            cursor.execute("BEGIN")
            for start in [*range(0, 0x10000, 256), *range(0x10000, 0x110000, 8192)]:
                codes = "".join(f"{code:08x}" for code in range(start, start + 256) if not 0xD800 <= code < 0xE000)
                if codes:
                    cursor.execute(f"INSERT INTO c VALUES ({start}, {', '.join([f'_utf32 0x{codes}'] * len(charsets))})")
            for lead in range(256):
                literals = [raw_codes(charset, lead) for charset in charsets]
                cursor.execute(f"INSERT INTO c VALUES ({0x200000 + lead}, {', '.join(literals)})")
            cursor.execute("COMMIT")
            cursor.execute(f"CREATE TABLE {SENTINEL} (id int)")
        table = session.read_catalog(lambda t: t == TableId(database, "c"))[0]
        plan = plan_of(source, table, TypeModes())
        raw = read_log(session, file, pos)
    fast = _fast.FastPlan(plan, row_image)

    logged = by_log(
        _fast.LogDecoder(flavor=source.flavor, resolve=lambda body, _p: fast if named_table(body) == table.id else None), raw, file, pos
    )

    decoder = Decoder(plan)
    in_log = {record["id"]: record for record in (decoder.after(value) for _, value in logged[table.id] if value)}
    wrong = []
    with connected(source, database=database) as connection, connection.cursor() as cursor:
        converted = ", ".join(f"HEX(CONVERT(`{charset}` USING utf8mb4))" for charset in charsets)
        cursor.execute(f"SELECT id, {converted} FROM c")
        for number, *texts in cursor.fetchall():
            for charset, text in zip(charsets, texts, strict=True):
                meant = None if text is None else bytes.fromhex(text).decode("utf-8", "replace")
                if in_log[number][charset] != meant:
                    wrong.append((charset, hex(number), meant[:40], in_log[number][charset][:40]))
    assert not wrong, wrong[:20]
    assert len(in_log) > 600


def raw_codes(charset: str, lead: int) -> str:
    """A literal of every character of a set that starts with one byte."""
    if charset not in FRAMES:
        return f"_binary 0x{lead:02x}" if not charset.startswith(("utf", "ucs")) else "NULL"
    cut = re.compile(FRAMES[charset], re.DOTALL).fullmatch
    codes = [code for low in range(256) if cut(code := bytes((lead, low)))]
    if lead == 0x8F and charset in ("ujis", "eucjpms"):
        codes = [bytes((lead, middle, low)) for middle in range(0xA1, 0xFF) for low in range(0xA1, 0xFF)]
    return f"_binary 0x{b''.join(codes).hex()}" if codes else "NULL"
