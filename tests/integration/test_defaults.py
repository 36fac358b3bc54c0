"""Default values: the same text whether the catalog or a statement of the log shows them, with the server as oracle, and none stops a connector."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dblog.dialects.mysql.ddl import parser
from dblog.model import TableId
from pymysql.cursors import Cursor
from pymysql.err import MySQLError
from stack.database import Database
from support.ddl_truth import Follower as Statements
from support.ddl_truth import is_understood
from support.follower import Follower
from support.servers import connected, execute, new_database

BINARY_DEFAULTS = (
    ("VARBINARY(4)", "x'00ff'", "00FF"),
    ("VARBINARY(4)", "x'6100'", "6100"),
    ("VARBINARY(4)", "x'610062'", "610062"),
    ("VARBINARY(9)", "x'c3a9ff27'", "C3A9FF27"),
    ("BINARY(4)", "x'00ff'", "00FF"),
    ("BINARY(4)", "x'80'", "80"),
    ("BINARY(4)", "'ab'", "6162"),
    ("VARBINARY(4) NOT NULL", "x'00ff'", "00FF"),
    ("VARBINARY(9) NOT NULL", "'a''b\\\\c\\0'", "6127625C6300"),
)


def test_a_binary_default_anywhere_on_the_server_stops_no_connector(source: Database) -> None:
    database, other = new_database(source, "plain"), new_database(source, "other")
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", database=database)
    columns = ", ".join(f"c{n} {type_} DEFAULT {literal}" for n, (type_, literal, _) in enumerate(BINARY_DEFAULTS))
    execute(source, f"CREATE TABLE b ({columns})", database=other)
    follower = Follower(source, database)

    follower.start()
    try:
        follower.until_dumped()
        follower.until_equal("t")
        follower.until(lambda: any(reported["source"]["db"] == other and "`b`" in reported["ddl"] for reported in follower.reported))
    finally:
        follower.task.stop()
        execute(source, f"DROP DATABASE {other}")


def test_a_binary_default_is_read_byte_by_byte(source: Database) -> None:
    with connected(source) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS binary_defaults")
        follower = Statements(cursor, source.flavor, "binary_defaults")
        columns = ", ".join(f"c{n} {type_} DEFAULT {literal}" for n, (type_, literal, _) in enumerate(BINARY_DEFAULTS))
        follower.run(f"CREATE TABLE b ({columns})")
        (truth,), (ours,) = follower.truth().values(), follower.ours().values()
        cursor.execute("DROP DATABASE binary_defaults")

    expected = ["0x" + digits for _, _, digits in BINARY_DEFAULTS]
    assert [column.default for column in truth.columns] == expected
    assert [column.default for column in ours.columns] == expected


def _each(types: str, *literals: str) -> list[str]:
    return [f"{type_} DEFAULT {literal}" for type_ in types.split("|") for literal in literals]


NUMBERS = (
    "5", "'6'", "-7", "+8", "0", "'0'", "1.4", "2.5", "1e1", "'1e1'", "0x10", "b'101'", "TRUE", "'  7'", "-0.0", "'-0'", "007", "''", ".5", "'1.49999'",
    "'abc'", "'12abc'",
)  # fmt: skip
FLOATS = (
    "16777217", "123456789", "1e7", "1e14", "1e15", "1e20", "1e38", "1e-5", "-1.5e-7", "0.1", "3.14159265358979", "12345678.9", "1.00000001",
    "123456789012345678", "'1.7976931348623157e308'", "2.2250738585072014e-308", "0.1234567890123456789",
)  # fmt: skip
MOMENTS = (
    "'2024-01-02 03:04:05'", "'2024-01-02 03:04:05.9999999'", "'2024-01-02 03:04:05.5'", "'2024-12-31 23:59:59.96'", "'2024-01-02 03:04:05.0005'",
    "'2024-01-02 03:04:05.1234565'", "'2024-01-02'", "20240102030405", "20240102030405.6", "'20240102030405.6'", "20240102", "240102030405", "'24-1-2 3:4:5'",
    "'2024-01-02T03:04:05'", "'2024-01-02 03:04'", "'2024-01-02 03'", "'2024-02-28 23:59:59.9999999'", "'2024-01-02 03:04:05.'", "TIMESTAMP'2024-01-02 03:04:05.678'",
    "0", "'0000-00-00 00:00:00'", "NOW()", "NULL",
)  # fmt: skip
TIMES = (
    "'10:11:12'", "'10:11'", "'10:11:12.4999999'", "'10:11:59.9999999'", "'-100:00:00'", "101112", "'1 10:11:12'", "'34 22:59:59'", "'838:59:59'", "12", "'1:2:3'",
    "'-10:11:12.9999999'", "101112.7", "'1 10'", "'2024-01-02 10:11:12'", "''", "'0'", "'-00:00:01'",
)  # fmt: skip
TEXTS = (
    "'x'", "''", "'it''s'", r"'c\\d'", r"'e\nf'", r"'g\0h'", "5", "-5", "1.50", "1e3", "'NULL'", "'ab   '", "0x4142", "x'43'", "b'01000001'", "TRUE", "'é'", "'日?'",
    "N'n'", "_latin1 x'e9'", "x'c3a9'", "'a' 'b'", "00012", "-0", ".5", "1.",
)  # fmt: skip
BYTES = (
    "'x'",
    "''",
    "x'00ff'",
    "x'00'",
    "x''",
    "0x1",
    "x'ff'",
    "'a\\0b'",
    "5",
    "'é'",
    "x'6100'",
    "_binary x'00ff'",
    "'a\\\\b'",
    "1.5",
    "TRUE",
    "x'41202020'",
)
MEMBERS = ("'a'", "'A'", "'b'", "''", "1", "'1'", "'é'", "'É'", "'a '", "'a''b'", "x'61'", "0x62", "'c,a'", "'a,a'", "'x y'")
EXPRESSIONS = ("(1)", "(1+1)", "('a')", "(uuid())", "(x'00ff')", "(-1)", "(NULL)", "(_latin1'a')", "(b'1')", "(TRUE)", "(curdate())")
DEFINITIONS = (
    _each("TINYINT|INT(5) ZEROFILL|BIGINT UNSIGNED|BOOL", *NUMBERS)
    + _each("BIGINT UNSIGNED", "18446744073709551615", "0xFFFFFFFFFFFFFFFF", "1.8e19")
    + _each("YEAR", "0", "'0'", "'00'", "'000'", "'0000'", "1", "'70'", "69", "1901", "2000.5", "'99.6'", "0x7CF", "TRUE")
    + _each(
        "DECIMAL(5,2)|DECIMAL(10,0)|DECIMAL(8,2) ZEROFILL|DECIMAL(65,30)",
        *NUMBERS,
        "1.005",
        "-0.005",
        "0.125",
        "'1.2e2'",
        "1e-3",
        "123.456789",
    )
    + _each("FLOAT|DOUBLE|FLOAT(7,3)|DOUBLE(10,3)|REAL", *NUMBERS, *FLOATS)
    + _each("FLOAT ZEROFILL", "5", "1.25", *FLOATS)
    + _each("BIT(1)|BIT(8)|BIT(64)", "0", "1", "b'101'", "0x0F", "5", "'1'", "'a'", "TRUE", "b''", "1.5")
    + _each("DATE", *MOMENTS, "101", "240102", "'1-1-1'", "'2024/01/02'", "DATE'2024-01-02'")
    + _each("DATETIME|DATETIME(1)|DATETIME(3)|DATETIME(6)|TIMESTAMP NULL|TIMESTAMP(3) NOT NULL", *MOMENTS)
    + _each("TIME|TIME(3)|TIME(6)", *TIMES)
    + _each(
        "VARCHAR(20)|CHAR(20) NOT NULL|VARCHAR(20) CHARACTER SET latin1|VARCHAR(20) CHARACTER SET utf16|VARCHAR(9) CHARACTER SET gbk",
        *TEXTS,
    )
    + _each("TEXT|MEDIUMTEXT CHARACTER SET latin1", *TEXTS)
    + _each("BINARY(4)|VARBINARY(4)|VARBINARY(20)|BINARY(0)|CHAR(4) CHARACTER SET binary|BLOB|LONGBLOB", *BYTES)
    + _each("ENUM('a','b')|ENUM('A','b','')|ENUM('é','x y')|ENUM('a''b','1','2')|SET('a','b','c')|SET('A','é')|SET('1','2','4')", *MEMBERS)
    + _each("INET6", "'::1'", "'2001:DB8::1'", "x'00000000000000000000000000000001'", "'::ffff:1.2.3.4'")
    + _each("INET4", "'1.2.3.4'", "x'01020304'")
    + _each("UUID", "'AAAAAAAA-BBBB-CCCC-DDDD-EEEEEEEEEEEE'", "'aaaaaaaabbbbccccddddeeeeeeeeeeee'", "UUID()")
    + _each("VARCHAR(20) COMPRESSED|BLOB COMPRESSED", "'x'", "''", "x'00ff'")
    + _each("INT|VARCHAR(40)|VARBINARY(20)|BLOB|TEXT|DOUBLE|YEAR", *EXPRESSIONS)
    + _each("INT|BIGINT|DECIMAL(5,0)|YEAR|BIT(8)", "2.5e0", "3.5e0", "25e-1", "x'3132'", "x'31'", "DATE'2024-01-02'", "TIME'10:11:12'")
    + _each("VARCHAR(40)|BINARY(40)|DATETIME|DATE|TIME", "DATE'2024-01-02'", "TIME'10:11:12'", "TIMESTAMP'2024-01-02 03:04:05'")
    + _each(
        "ENUM('a','A') COLLATE utf8mb4_bin|SET('b','B') COLLATE utf8mb4_bin|ENUM('e','f')|SET('e','f')",
        "'A'",
        "'B'",
        "'é'",
        "'E'",
        "'e,é'",
        "2",
        "3",
    )
    + _each("VARCHAR(3)|CHAR(3)|VARCHAR(9) CHARACTER SET utf16", "'longer'", "_latin1'é'", "_utf16'é'", "_utf16'ab'", "_binary'é'", "12345")
)
COLUMNS_A_TABLE = 120


def _understood(definition: str, follower: Statements) -> bool:
    """False where the default is in doubt: such a table is read from the server."""
    return is_understood(tuple(parser.parse(f"CREATE TABLE probe (c {definition})", follower.context())))


def _accepted(cursor: Cursor) -> Iterator[str]:
    """The definitions that this server takes at all."""
    for definition in dict.fromkeys(DEFINITIONS):
        try:
            cursor.execute(f"CREATE TEMPORARY TABLE probe (c {definition})")
        except MySQLError:
            continue
        cursor.execute("DROP TEMPORARY TABLE probe")
        yield definition


def test_a_default_is_the_same_by_statement_and_by_catalog(source: Database) -> None:
    wrong, columns_total = [], 0
    with connected(source) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS every_default")
        follower = Statements(cursor, source.flavor, "every_default")
        cursor.execute("SET SESSION sql_mode = '', time_zone = '+00:00'")
        accepted = list(_accepted(cursor))
        definitions = [definition for definition in accepted if _understood(definition, follower)]
        for at in range(0, len(definitions), COLUMNS_A_TABLE):
            some = definitions[at : at + COLUMNS_A_TABLE]
            follower.run(f"CREATE TABLE t{at} ({', '.join(f'c{n} {definition}' for n, definition in enumerate(some))})")
            altered = ", ".join(
                f"ALTER COLUMN c{n} SET DEFAULT {definition.split(' DEFAULT ')[1]}" for n, definition in enumerate(some) if n % 7 == 0
            )
            with contextlib.suppress(MySQLError):  # an expression cannot be set so by MySQL
                follower.run(f"ALTER TABLE t{at} {altered}")
            truth, ours = (tables[TableId("every_default", f"t{at}")] for tables in (follower.truth(), follower.ours()))
            columns_total += len(truth.columns)
            wrong += [(d, t.default, o.default) for d, t, o in zip(some, truth.columns, ours.columns, strict=True) if t != o]
        cursor.execute("DROP DATABASE every_default")

    assert wrong == []
    assert columns_total > 700
    assert len(accepted) - columns_total < len(accepted) // 15, "few are in doubt"


def test_a_timestamps_default_is_a_moment_whatever_the_time_zone_of_its_statement(source: Database) -> None:
    with connected(source) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS zones")
        follower = Statements(cursor, source.flavor, "zones")
        follower.time_zone = "+05:30"
        cursor.execute("SET SESSION time_zone = '+05:30', sql_mode = ''")
        follower.run(
            "CREATE TABLE t (a TIMESTAMP(2) NOT NULL DEFAULT '2024-01-02 03:04:05.67', b TIMESTAMP NOT NULL DEFAULT '0000-00-00', c DATETIME DEFAULT '2024-01-02')"
        )
        cursor.execute("SET SESSION time_zone = '+00:00'")
        (truth,), (ours,) = follower.truth().values(), follower.ours().values()
        cursor.execute("DROP DATABASE zones")

    expected = ["2024-01-01 21:34:05.67", "0000-00-00 00:00:00", "2024-01-02 00:00:00"]
    assert [column.default for column in truth.columns] == expected
    assert [column.default for column in ours.columns] == expected


def test_the_bytes_of_a_statement_in_any_character_set_are_those_of_its_default(source: Database) -> None:
    database = new_database(source, "clients")
    execute(source, "CREATE TABLE t0 (id INT PRIMARY KEY)", database=database)
    follower = Follower(source, database).start()
    clients = {
        "r": (
            "utf8mb4",
            b"x VARBINARY(9) DEFAULT '\xff\xfe', z VARBINARY(9) DEFAULT _binary'\xff\\0', y VARCHAR(9) DEFAULT '\xf0\x9f\x98\x80'",
        ),
        "l": ("latin1", b"x VARBINARY(9) DEFAULT '\xff\xfe', y VARCHAR(9) DEFAULT '\xe9'"),
        "g": ("gbk", b"x BINARY(4) DEFAULT '\xc4\xe3', y VARCHAR(9) DEFAULT '\xc4\xe3'"),
    }
    try:
        follower.until_dumped()
        with connected(source, database=database) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = '', time_zone = '+03:00'")
            for name, (charset, columns) in clients.items():
                cursor.execute(f"SET NAMES {charset}")
                cursor.execute(
                    f"CREATE TABLE {name} (id INT PRIMARY KEY, ts TIMESTAMP NOT NULL DEFAULT '2024-01-02 03:04:05', ".encode()
                    + columns
                    + b")"
                )
                cursor.execute(f"INSERT INTO {name} (id) VALUES (1)")
        follower.until(lambda: all(name in follower.rows for name in clients))
        followed = {table.id: table for table in follower.task.running.schemas.timeline.captured_tables()}
        read = follower.task.running.server.connections.live_session().read_catalog(
            lambda table: table.database == database and table.name in clients
        )
    finally:
        follower.task.stop()

    assert {table.id: [column.default for column in followed[table.id].columns] for table in read} == {
        table.id: [column.default for column in table.columns] for table in read
    }
    assert [column.default for column in followed[TableId(database, "g")].columns] == [None, "2024-01-02 00:04:05", "0xC4E3", "你"]
