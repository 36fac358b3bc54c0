"""What a real server's table maps show of columns of every type, in many orders: never anything but what its catalog shows.

The optional metadata of a table map names columns by their order among those of a kind (numeric, character, ENUM and SET), and servers count those
kinds differently. In a list and its reverse each type stands before and behind each other one; every character column has a character set of
its own, so that a charset which is taken for another column's is noticed.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import pytest
from dblog.core.crosscheck import Agreed, cross_check
from dblog.dialects.mysql.binlog import events
from dblog.dialects.mysql.binlog.events import EventType
from dblog.model import TableId
from integration.test_session import open_session
from stack.database import Database
from support.dialects import dialect_of
from support.follower import Follower
from support.log_packets import LogReader
from support.servers import connected, execute, new_database

BOTH = (
    "INT UNSIGNED", "VARCHAR(12) CHARACTER SET latin1", "POINT", "TEXT CHARACTER SET utf8mb4", "BINARY(8)", "TINYINT", "CHAR(3) CHARACTER SET greek",
    "ENUM('\u0105','\u0119') CHARACTER SET cp1250 NULL", "GEOMETRY", "SET('\u4e2d','\u6587') CHARACTER SET gbk", "VARBINARY(5)", "DECIMAL(10,2) UNSIGNED", "BLOB",
    "ENUM('\u4e2d','b') CHARACTER SET gb2312", "BIT(9)", "YEAR", "DATE", "TIME(3)", "DATETIME(6)", "TIMESTAMP(3) NULL", "FLOAT UNSIGNED", "DOUBLE",
    "TINYTEXT CHARACTER SET ucs2", "SET('\uff76','\uff77') CHARACTER SET sjis", "MEDIUMTEXT CHARACTER SET utf16", "LONGTEXT CHARACTER SET koi8r", "LONGBLOB", "JSON",
    "VARCHAR(300) CHARACTER SET cp1251", "CHAR(200) CHARACTER SET utf8mb3", "LINESTRING", "VARCHAR(10) CHARACTER SET utf32", "TINYBLOB", "MEDIUMBLOB",
    "ENUM('\u00e4','b') CHARACTER SET utf16le", "BIGINT UNSIGNED", "SMALLINT", "MEDIUMINT UNSIGNED", "CHAR(5) CHARACTER SET binary",
    "MULTIPOLYGON", "SET('\u00e9') CHARACTER SET ucs2", "BOOLEAN", "GEOMETRYCOLLECTION", "CHAR(1) CHARACTER SET big5", "NCHAR(4)",
)  # fmt: skip
MYSQL_ONLY = ("VECTOR(3)", "VARCHAR(9) CHARACTER SET gb18030", "BIT(1)")
MARIADB_ONLY = (
    "VARCHAR(30) CHARACTER SET latin2 COMPRESSED", "UUID", "VARBINARY(30) COMPRESSED", "INET6", "TINYTEXT CHARACTER SET latin5 COMPRESSED", "INET4",
    "TEXT CHARACTER SET latin7 COMPRESSED", "MEDIUMTEXT CHARACTER SET hebrew COMPRESSED", "LONGTEXT CHARACTER SET euckr COMPRESSED", "TINYBLOB COMPRESSED",
    "BLOB COMPRESSED", "MEDIUMBLOB COMPRESSED", "LONGBLOB COMPRESSED", "VARCHAR(300) CHARACTER SET ujis COMPRESSED",
)  # fmt: skip


def types_of(flavor: str) -> list[str]:
    return [*BOTH, *(MARIADB_ONLY if flavor == "mariadb" else MYSQL_ONLY)]


@pytest.fixture
def metadata(source: Database) -> Iterator[object]:
    """Sets binlog_row_metadata, and puts it back."""
    with connected(source) as connection, connection.cursor() as cursor, contextlib.ExitStack() as undo:
        cursor.execute("SELECT @@GLOBAL.binlog_row_metadata")
        (before,) = cursor.fetchone()
        undo.callback(cursor.execute, f"SET GLOBAL binlog_row_metadata = '{before}'")
        yield lambda value: cursor.execute(f"SET GLOBAL binlog_row_metadata = '{value}'")


def orders(types: list[str]) -> list[list[str]]:
    shuffled = [random.Random(seed).sample(types, len(types)) for seed in range(4)]
    return [types, types[::-1], *shuffled]


@pytest.mark.parametrize("how_much", ["FULL", "MINIMAL"])
def test_the_log_contradicts_no_table_whatever_the_order_of_its_columns(source: Database, metadata, how_much: str) -> None:
    metadata(how_much)
    database = new_database(source)
    session = open_session(source)
    file, pos, _ = session.current_position()
    made = orders(types_of(source.flavor))
    for number, types in enumerate(made):
        columns = ", ".join(f"c{index} {type_}" for index, type_ in enumerate(types))
        execute(
            source, f"CREATE TABLE t{number} (k INT PRIMARY KEY, {columns})", f"INSERT INTO t{number} (k) VALUES (1)", database=database
        )

    tables = {table.id: table for table in session.read_catalog(lambda id_: id_.database == database)}
    dialect = dialect_of(source.flavor)
    charsets = dialect.charsets(session)
    log = session.open_log(server_id=4711, file=file, pos=pos, gtids=None)
    last = TableId(database, f"t{len(made) - 1}")

    def is_map_of_last(event) -> bool:
        return event.type_code == EventType.TABLE_MAP and events.read_table_name(event.body)[1] == last

    maps = [e for e in LogReader(log).read_until(is_map_of_last) if e.type_code == EventType.TABLE_MAP]
    log.close()
    session.close()

    verdicts = {}
    for event in maps:
        id_, seen, merge = dialect.read_table_map(event.body, charsets)
        if id_ in tables:
            verdicts[id_.name] = cross_check(tables[id_], seen, merge)
            assert seen.named == (how_much == "FULL")
    assert len(verdicts) == len(made)
    assert {name: getattr(verdict, "reasons", verdict) for name, verdict in verdicts.items() if not isinstance(verdict, Agreed)} == {}


def test_a_statement_over_an_outer_join_contradicts_nothing(source: Database) -> None:
    """MariaDB shows of every column of the inner side that it may be NULL, the key's too."""
    database = new_database(source)
    execute(
        source,
        "CREATE TABLE o (id INT PRIMARY KEY, v INT NOT NULL)",
        "CREATE TABLE i (id INT PRIMARY KEY, o INT NOT NULL, v INT NOT NULL)",
        "INSERT INTO o VALUES (1, 0), (2, 0), (3, 0)",
        "INSERT INTO i VALUES (10, 1, 0), (20, 2, 0), (30, 3, 0)",
        database=database,
    )
    follower = Follower(source, database).start()
    try:
        follower.until_dumped()
        follower.sql(
            "UPDATE o LEFT JOIN i ON i.o = o.id SET i.v = 7, o.v = 8 WHERE o.id = 1",
            "DELETE o, i FROM o LEFT JOIN i ON i.o = o.id WHERE o.id = 2",
            "UPDATE i SET v = 9 WHERE id = 30",
        )
        follower.until_equal("o")
        follower.until_equal("i")
        assert follower.task.metrics()["tables_parked"] == 0.0
    finally:
        follower.task.stop()
