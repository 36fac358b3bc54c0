"""What the log's metadata shows of a table is what the server shows of it, whichever types stand side by side; and the rows are the server's.

Every ordered pair of column types, on both servers, with binlog_row_metadata FULL and MINIMAL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dblog.core.crosscheck import Agreed, cross_check
from dblog.dialects.mysql.binlog import _fast, row_image
from dblog.dialects.mysql.binlog.source_block import BinlogContext
from dblog.dialects.mysql.values.types import TypeModes
from integration.test_types_differential import SENTINEL, Decoder, by_log, dumped, named_table, opened, plan_of, read_log
from stack.database import Database
from support.all_pairs import every_pair_in_a_row, in_tables, paired_types
from support.dialects import dialect_of
from support.follower import Follower
from support.servers import connected, execute, new_database

COLUMNS_MAX = 70
"""So many fit into a page of InnoDB in any order."""
METADATA = ("FULL", "MINIMAL", "NO_LOG")


@pytest.fixture
def metadata(source: Database) -> Iterator[Any]:
    """Sets binlog_row_metadata for everybody, and puts it back."""
    before = execute(source, "SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    yield lambda value: execute(source, f"SET GLOBAL binlog_row_metadata = '{value}'")
    execute(source, f"SET GLOBAL binlog_row_metadata = '{before}'")


def test_every_pair_of_column_types_is_reported_by_the_log_as_by_the_server(source: Database, metadata: Any) -> None:
    database = new_database(source, "pairs")
    tables = in_tables(every_pair_in_a_row(paired_types(source.flavor)), columns_max=COLUMNS_MAX)
    values = [x for x in METADATA if x != "NO_LOG" or source.flavor == "mariadb"]
    with opened(source) as session:
        charsets = dialect_of(source.flavor).charsets(session)
        with connected(source, database=database) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode='', time_zone='+00:00'")
            for number, columns in enumerate(tables):
                declared = ", ".join(f"c{at} {column.ddl}" for at, column in enumerate(columns))
                cursor.execute(f"CREATE TABLE t{number} (id int PRIMARY KEY, {declared}) ROW_FORMAT=DYNAMIC")
            file, pos, _ = session.current_position()
            for number, value in enumerate(values):
                metadata(value)
                for at, columns in enumerate(tables):
                    literals = ", ".join(column.literal for column in columns)
                    nulls = ", ".join("NULL" for _ in columns)
                    cursor.execute(f"INSERT INTO t{at} VALUES ({number * 2}, {literals}), ({number * 2 + 1}, {nulls})")
            cursor.execute(f"CREATE TABLE {SENTINEL} (id int)")
            cursor.execute(f"INSERT INTO {SENTINEL} VALUES (1)")
        catalog = {table.id: table for table in session.read_catalog(lambda t: t.database == database and t.name != SENTINEL)}
        plans = {table.id: plan_of(source, table, TypeModes()) for table in catalog.values()}
        raw = read_log(session, file, pos)
        packets = dumped(session, plans)
    encoders = {table: _fast.FastPlan(plan, row_image) for table, plan in plans.items()}
    maps: list[bytes] = []

    def resolve(body: bytes, _position: Any) -> Any:
        if named_table(body) in encoders:
            maps.append(body)
        return encoders.get(named_table(body))

    logged = by_log(_fast.LogDecoder(flavor=source.flavor, resolve=resolve), raw, file, pos)

    wrong = []
    reported = 0
    for body in maps:
        table_id, seen, merge = dialect_of(source.flavor).read_table_map(body, charsets)
        verdict = cross_check(catalog[table_id], seen, merge)
        reported += seen.named
        if not isinstance(verdict, Agreed):
            wrong.append((table_id.name, "named" if seen.named else "unnamed", str(verdict)[-300:]))
    assert not wrong, "\n".join(map(str, wrong))
    assert (len(maps) >= len(tables) * len(values), reported >= len(tables)) == (True, True)
    for table_id, plan in plans.items():
        decode = Decoder(plan).after
        chunk = encoders[table_id].encode_chunk(packets[table_id][0], in_dump(file, pos), frozenset())
        selected = {row["id"]: row for row in map(decode, chunk[1])}
        assert len(selected) == 2 * len(values)
        assert {row["id"]: row for row in (decode(value) for _, value in logged[table_id] if value)} == selected


def in_dump(file: str, pos: int) -> BinlogContext:
    return BinlogContext(file=file, pos=pos, server_id=0, source_ts_us=0, now_us=0, sequence_high=0, sequence_low=0, snapshot="incremental")


STATEMENTS = {
    "shifted": (
        "(k1 INT, k2 VARCHAR(12), c2 POINT, c3 TEXT, c6 BINARY(8), PRIMARY KEY (k1, k2))",
        "(1, 'ä', ST_GeomFromText('POINT(1 2)'), 'ö', x'c3a4ff')",
        {"k1": 1, "k2": "ä", "c3": "ö", "c6": "w6T/AAAAAAA="},
    ),
    "members": (
        "(id INT PRIMARY KEY, a ENUM('汉','é') CHARACTER SET gbk, b SET('漢','x') CHARACTER SET utf16le, c ENUM('漢') CHARACTER SET sjis)",
        "(1, '汉', '漢,x', '漢')",
        {"a": "汉", "b": "漢,x", "c": "漢"},
    ),
}
ON_MARIADB = {
    "squeezed": (
        "(id INT PRIMARY KEY, a VARCHAR(30) COMPRESSED, b BLOB COMPRESSED, c TEXT COMPRESSED CHARACTER SET latin1)",
        "(1, 'äß', x'fe00', REPEAT('ä', 200))",
        {"a": "äß", "b": "/gA=", "c": "ä" * 200},
    ),
}


def test_a_task_sends_what_the_server_has_though_its_metadata_shows_it_in_its_own_way(source: Database) -> None:
    database = new_database(source, "reported")
    cases = STATEMENTS | (ON_MARIADB if source.flavor == "mariadb" else {})
    for name, (columns, _, _) in cases.items():
        execute(source, f"CREATE TABLE {name} {columns} CHARACTER SET utf8mb4", database=database)
    follower = Follower(source, database, **{"value.converter.replace.null.with.default": "false"}).start()
    try:
        follower.until_dumped()
        for name, (_, row, _) in cases.items():
            follower.sql(f"INSERT INTO {name} VALUES {row}")
        follower.until(lambda: follower.rows.keys() == cases.keys())
    finally:
        follower.task.stop()

    for name, (_, _, wanted) in cases.items():
        (row,) = follower.rows[name].values()
        assert {key: row[key] for key in wanted} == wanted
        assert follower.ops(name) == ["c"]
