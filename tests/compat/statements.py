"""The statements that both connectors follow: every column type with its edge values, and what happens to rows and tables.

A typed table is `(id int PRIMARY KEY, c TYPE NULL, n TYPE NOT NULL)` with a row for each value, in `c` and in `n`, and one with NULL in `c`. Rows with ids below
`LOGGED` are there before the connectors start: both read them by SELECT. The same values with ids above are written to the log afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from differences import NULL_ROW

LOGGED = 1000
"""Added to the id of a row that is written to the log."""


@dataclass(frozen=True, slots=True)
class Typed:
    """Column types that take the same values, SQL expressions; the first two are also what updates write."""

    name: str
    type: str
    values: tuple[str, ...]
    more: tuple[str, ...] = ()
    """Types beside the first one."""

    @property
    def create(self) -> str:
        columns = [f", c{at or ''} {kind} NULL, n{at or ''} {kind} NOT NULL" for at, kind in enumerate((self.type, *self.more))]
        return f"CREATE TABLE {self.name} (id int NOT NULL PRIMARY KEY{''.join(columns)})"

    def inserts(self, *, add: int = 0) -> Iterator[str]:
        for at, value in enumerate(self.values, start=1):
            yield f"INSERT INTO {self.name} VALUES ({at + add}{f', {value}, {value}' * (1 + len(self.more))})"
        yield f"INSERT INTO {self.name} VALUES ({add or NULL_ROW}{f', NULL, {self.values[0]}' * (1 + len(self.more))})"


def _integers(name: str, bits: int) -> list[Typed]:
    top = 2 ** (bits - 1)
    return [
        Typed(f"i_{name}", name, ("1", "-1", "0", str(top - 1), str(-top))),
        Typed(f"u_{name}", f"{name} unsigned", ("1", "0", str(top - 1), str(top), str(2 * top - 1))),
    ]


def _texts(charset: str, *values: str, collation: str = "") -> list[Typed]:
    kind = f"CHARACTER SET {charset}" + (f" COLLATE {collation}" if collation else "")
    return [
        Typed(f"text_{collation or charset}", f"varchar(60) {kind}", ("'a'", "''", "' b '", *values), (f"char(12) {kind}", f"text {kind}"))
    ]


_JSONS = (
    "'{}'",
    "'[]'",
    "'null'",
    "'true'",
    "'1'",
    "'-1'",
    "'1.5'",
    "'\"text\"'",
    """'{"b": 1, "a": [1, 2, {"c": null}], "long name": "x"}'""",
    "'[0, 127, 128, 32767, 32768, 65535, 65536, 2147483647, 2147483648, -2147483649, 9223372036854775807, 18446744073709551615]'",
    "'[0.1, 1e10, 1e-10, 123456789.123456789, 1e300, 5e-324, 100.0, 1e7, 1e-3, 1e16, 1e15, 0.0001]'",
    """'["quo\\\\"te", "back\\\\\\\\slash", "tab\\\\t", "line\\\\nfeed", "\\\\u0001", "\\\\u00e9", "€ 😀", "/"]'""",
    "CONCAT('\"', REPEAT('x', 70000), '\"')",
)
_MYSQL_JSONS = (
    "JSON_OBJECT('d', CAST('2024-02-29' AS DATE), 't', CAST('12:34:56.789' AS TIME(3)), 'dt', CAST('2024-02-29 12:34:56.789123' AS DATETIME(6)))",
    "JSON_ARRAY(CAST('-12:34:56' AS TIME), CAST('2024-02-29 00:00:00' AS DATETIME), CAST(12.50 AS DECIMAL(10,2)), CAST(-0.001 AS DECIMAL(10,3)))",
    "JSON_ARRAY(CAST(123456789012345678901234567890.12 AS DECIMAL(40,2)), 1.10, 0.0, -5.0, 1e0)",
    "JSON_ARRAY(CAST('ab' AS BINARY), x'00ff', b'101')",
    "JSON_ARRAY(CAST(1 AS UNSIGNED), CAST(-1 AS SIGNED), TRUE, FALSE, NULL)",
    "JSON_OBJECT('', '', 'k', JSON_OBJECT('k', JSON_ARRAY(JSON_ARRAY(), JSON_OBJECT())))",
    "CAST(CAST('2024-02-29' AS DATE) AS JSON)",
    "CAST(CAST('2024-02-29 12:34:56' AS DATETIME) AS JSON)",
    "CAST(CAST(1.50 AS DECIMAL(5,2)) AS JSON)",
)

_GEOMETRIES = {
    "point": ("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(-1.5 0)')"),
    "linestring": ("ST_GeomFromText('LINESTRING(0 0,1 1,2 2)')", "ST_GeomFromText('LINESTRING(0 0,10 10)')"),
    "polygon": (
        "ST_GeomFromText('POLYGON((0 0,10 0,10 10,0 10,0 0),(5 5,7 5,7 7,5 7,5 5))')",
        "ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')",
    ),
    "multipoint": ("ST_GeomFromText('MULTIPOINT(0 0,20 20)')", "ST_GeomFromText('MULTIPOINT(1 1)')"),
    "multilinestring": ("ST_GeomFromText('MULTILINESTRING((10 10,20 20),(15 15,30 15))')", "ST_GeomFromText('MULTILINESTRING((1 1,2 2))')"),
    "multipolygon": (
        "ST_GeomFromText('MULTIPOLYGON(((0 0,10 0,10 10,0 10,0 0)),((5 5,7 5,7 7,5 7,5 5)))')",
        "ST_GeomFromText('MULTIPOLYGON(((0 0,1 0,1 1,0 0)))')",
    ),
    "geometrycollection": (
        "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))')",
        "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(10 10))')",
    ),
    "geometry": ("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('LINESTRING(0 0,1 1)')", "ST_GeomFromText('POINT(1 2)', 4326)"),
}


def typed(flavor: str) -> list[Typed]:
    """All types of a flavor, but MariaDB's INET4, INET6 and UUID: the first two are more than the peer's parser reads."""
    zero_year = ("0",) if flavor == "mysql" else ()  # MariaDB's JDBC driver, in the peer's snapshot, fails on it
    cases = [
        *(
            case
            for name, bits in (("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("int", 32), ("bigint", 64))
            for case in _integers(name, bits)
        ),
        Typed("bool_", "tinyint(1)", ("1", "0", "-128", "127")),
        Typed("boolean_", "boolean", ("1", "0")),
        Typed("zerofill_", "int(8) unsigned zerofill", ("1", "0", "4294967295")),
        Typed("float_", "float", ("1.5", "0", "-0.1", "0.1", "3.4028234e38", "1.17549435e-38", "16777217", "1234567.8", "1e10")),
        Typed("float_7_3", "float(7,3)", ("1.5", "0", "9999.999", "-0.1234")),
        Typed("float_24", "float(24)", ("1.5", "0.1", "3.14159265")),
        Typed("float_53", "float(53)", ("1.5", "0.1", "3.14159265358979")),
        Typed("double_", "double", ("1.5", "0", "-0.1", "0.1", "1.7976931348623157e308", "2.2250738585072014e-308", "1e15", "1e16")),
        Typed("double_10_4", "double(10,4)", ("1.5", "0", "99999.9999")),
        Typed("real_", "real", ("1.5", "0.1", "3.14159265358979")),
        Typed("decimal_", "decimal", ("1", "0", "-1", "9999999999")),
        Typed("decimal_10_2", "decimal(10,2)", ("1.50", "0", "-0.01", "99999999.99", "-99999999.99")),
        Typed("decimal_65_30", "decimal(65,30)", ("1.5", "0", "-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 29 + "1")),
        Typed("decimal_65_0", "decimal(65,0)", ("1", "9" * 65, "-" + "9" * 65)),
        Typed("decimal_4_4", "decimal(4,4)", ("0.5", "0.9999", "-0.0001", "0")),
        Typed("decimal_unsigned", "decimal(10,2) unsigned", ("1.50", "0")),
        Typed("decimal_zerofill", "decimal(10,2) unsigned zerofill", ("1.50", "0")),
        Typed("bit_1", "bit(1)", ("b'1'", "b'0'")),
        Typed("bit_8", "bit(8)", ("b'1'", "b'0'", "b'10000000'", "255")),
        Typed("bit_9", "bit(9)", ("b'1'", "b'0'", "b'100000001'", "b'010000000'")),
        Typed("bit_64", "bit(64)", ("b'1'", "0", "18446744073709551615", "1311768467463790320")),
        Typed("year_", "year", ("1999", "1901", "2155", "2069", "1970", *zero_year)),
        Typed(
            "date_",
            "date",
            (
                "'2024-02-29'",
                "'1970-01-01'",
                "'1969-12-31'",
                "'1000-01-01'",
                "'9999-12-31'",
                "'0001-01-01'",
                "'1582-10-10'",
                "'1900-03-01'",
            ),
        ),
        Typed(
            "time_",
            "time",
            ("'12:34:56.789123'", "'00:00:00'", "'01:02:03.5'", "'23:59:59.9'"),
            ("time(1)", "time(3)", "time(4)", "time(6)"),
        ),
        Typed(
            "beyond_time",
            "time",
            ("'-00:00:00.000001'", "'-12:34:56.5'", "'838:59:59'", "'-838:59:59'", "'100:00:00'", "'24:00:00'", "'23:59:59.999999'"),
            ("time(1)", "time(3)", "time(4)", "time(6)"),
        ),
        Typed(
            "datetime_",
            "datetime",
            (
                "'2024-02-29 12:34:56.789123'",
                "'1970-01-01 00:00:00'",
                "'1969-12-31 23:59:59.999999'",
                "'2262-04-11 23:47:16'",
            ),
            ("datetime(1)", "datetime(3)", "datetime(4)", "datetime(6)"),
        ),
        Typed(
            "far_datetime",
            "datetime",
            (
                "'1000-01-01 00:00:00'",
                "'9999-12-31 23:59:59'",
                "'1582-10-10 01:02:03.1'",
                "'2262-04-11 23:47:16.854775'",
                "'2262-04-12 00:00:00'",
                "'1677-09-21 00:12:43'",
            ),
            ("datetime(1)", "datetime(3)", "datetime(4)", "datetime(6)"),
        ),
        Typed(
            "timestamp_",
            "timestamp",
            (
                "'2024-02-29 12:34:56.789123'",
                "'1970-01-01 00:00:01'",
                "'2038-01-19 03:14:07'",
                "'2024-02-29 12:00:00.1'",
                "'2024-02-29 12:00:00'",
                "'2024-07-01 12:00:00.12'",
            ),
            ("timestamp(1)", "timestamp(3)", "timestamp(4)", "timestamp(6)"),
        ),
        *_texts("utf8mb4", "'äöü'", "'€ 😀'", "'a\\nb\\t\\\\'"),
        *_texts("utf8mb3", "'äöü'", "'€'"),
        *_texts("latin1", "'äöü'", "'€'", "_latin1 x'818d8f909d'"),
        *_texts("latin2", "'ąćę'"),
        *_texts("cp1251", "'Привет'"),
        *_texts("koi8r", "'Привет'"),
        *_texts("greek", "'αβγ'"),
        *_texts("hebrew", "'שלום'"),
        *_texts("gbk", "'你好'"),
        *_texts("gb2312", "'你好'"),
        *_texts("big5", "'你好'"),
        *_texts("sjis", "'日本'", "'ｱｲｳ'"),
        *_texts("cp932", "'日本'", "'①'"),
        *_texts("ujis", "'日本'"),
        *_texts("euckr", "'안녕'"),
        *_texts("ucs2", "'äöü'", "'€'"),
        *_texts("utf16", "'äöü'", "'€ 😀'"),
        *_texts("utf16le", "'äöü'", "'€ 😀'"),
        *_texts("utf32", "'äöü'", "'€ 😀'"),
        *_texts("ascii", "'abc'"),
        *_texts("utf8mb4", "'äöü'", collation="utf8mb4_bin"),
        *_texts("cp850", "'äöü'"),
        *_texts("tis620", "'สวัสดี'"),
        Typed("text_sizes", "tinytext", ("'a'", "''", "REPEAT('ä', 100)"), ("mediumtext", "longtext")),
        Typed("binary_4", "binary(4)", ("'ab'", "''", "x'00010203'", "x'ff000000'", "x'00000000'")),
        Typed("varbinary_8", "varbinary(8)", ("'ab'", "''", "x'0001ff00'", "x'80fe'")),
        Typed("blobs", "tinyblob", ("'ab'", "''", "x'0001ff00'", "REPEAT(x'00ff', 100)"), ("blob", "mediumblob", "longblob")),
        Typed("enum_", "enum('a','b','c d','ä','x,y')", ("'a'", "'b'", "'c d'", "'ä'", "'x,y'", "''")),
        Typed("set_", "set('a','b','c d','ä')", ("'a'", "'b'", "''", "'a,c d'", "'a,b,c d,ä'")),
        Typed("enum_latin1", "enum('ä','ö') CHARACTER SET latin1", ("'ä'", "'ö'")),
        *(Typed(f"{name}_", name, values) for name, values in _GEOMETRIES.items() if flavor == "mysql" or "4326" not in values[-1]),
        Typed("json_", "json", (*_JSONS, *(_MYSQL_JSONS if flavor == "mysql" else ()))),
        Typed("beyond_zero_date", "date", ("'2024-02-29'", "'0000-00-00'", "'2024-00-10'", "'2024-02-00'")),
        Typed(
            "beyond_zero_datetime",
            "datetime(3)",
            ("'2024-02-29 01:02:03'", "'0000-00-00 00:00:00'", "'2024-00-10 01:02:03'", "'2024-02-00 00:00:00'"),
        ),
        Typed("beyond_zero_timestamp", "timestamp(3)", ("'2024-02-29 01:02:03'", "'0000-00-00 00:00:00'")),
    ]
    if flavor == "mysql":
        cases += [Typed("vector_3", "vector(3)", ("TO_VECTOR('[1,2,3]')", "TO_VECTOR('[0.1,-1e10,0]')"))]
    return cases


DEFAULTS = (
    "tinyint DEFAULT 7", "tinyint NOT NULL DEFAULT -7", "tinyint(1) NOT NULL DEFAULT 1", "boolean DEFAULT true", "boolean NOT NULL DEFAULT false", "smallint unsigned DEFAULT 65535",
    "int DEFAULT 0", "int NOT NULL DEFAULT '12'", "bigint DEFAULT -9223372036854775808", "bigint unsigned NOT NULL DEFAULT 18446744073709551615", "bigint unsigned DEFAULT 5",
    "float DEFAULT 0.1", "float NOT NULL DEFAULT 1.5", "double DEFAULT 2.5e10", "double NOT NULL DEFAULT 0.001", "decimal(10,2) DEFAULT 1.5", "decimal(10,4) NOT NULL DEFAULT -0.01",
    "bit(1) DEFAULT b'1'", "bit(1) NOT NULL DEFAULT b'0'", "bit(9) DEFAULT b'100000001'", "char(3) DEFAULT 'ab'", "varchar(20) NOT NULL DEFAULT ''", "varchar(20) DEFAULT 'a b'",
    "varchar(20) DEFAULT 'quo\"te'", "varchar(20) DEFAULT 'it''s'", "varchar(20) DEFAULT NULL", "binary(4) DEFAULT 'ab'", "varbinary(8) NOT NULL DEFAULT 'ab'", "enum('a','b') DEFAULT 'b'", "enum('a','b') NOT NULL DEFAULT 'a'",
    "set('a','b') DEFAULT 'a,b'", "set('a','b') NOT NULL DEFAULT ''", "year DEFAULT 1999", "date DEFAULT '2020-02-29'", "date NOT NULL DEFAULT '1969-12-31'", "date NOT NULL DEFAULT '0000-00-00'", "date DEFAULT '0000-00-00'",
    "time DEFAULT '12:34:56'", "time(6) NOT NULL DEFAULT '01:02:03.456789'", "time DEFAULT '-12:34:56'", "datetime DEFAULT '2018-06-20 13:37:03'", "datetime(3) NOT NULL DEFAULT '2018-06-20 13:37:03.123'",
    "datetime(6) DEFAULT '2018-06-20 13:37:03.123456'", "datetime NOT NULL DEFAULT CURRENT_TIMESTAMP", "datetime(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)", "datetime NOT NULL DEFAULT '0000-00-00 00:00:00'",
    "timestamp NULL DEFAULT NULL", "timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP", "timestamp(3) NOT NULL DEFAULT '2018-06-20 13:37:03.120'", "timestamp NULL DEFAULT '2018-06-20 13:37:03'",
    "timestamp NOT NULL DEFAULT '0000-00-00 00:00:00'", "int COMMENT 'how many'", "varchar(10) CHARACTER SET latin1 DEFAULT 'ä'",
)  # fmt: skip
"""Column definitions: a table is created before the start (SHOW CREATE), and another in the log (its DDL as written)."""

OWN_DEFAULTS = {
    "mysql": (
        "datetime NOT NULL DEFAULT (now())",
        "date DEFAULT (curdate())",
        "year NOT NULL DEFAULT 0",
        "int NOT NULL DEFAULT (1 + 1)",
        "varchar(36) DEFAULT (uuid())",
        "json DEFAULT (json_array())",
    ),
    "mariadb": ("datetime NOT NULL DEFAULT now()", "date DEFAULT curdate()", "int NOT NULL DEFAULT (1 + 1)", "varchar(36) DEFAULT uuid()"),
}


CHUNK = 8


def default_tables(flavor: str, head: str) -> list[str]:
    """CREATE TABLE statements of some of these columns each, named ``head`` and a number."""
    definitions = (*DEFAULTS, *OWN_DEFAULTS[flavor])
    chunks = [definitions[at : at + CHUNK] for at in range(0, len(definitions), CHUNK)]
    return [
        f"CREATE TABLE {head}_{number} (id int NOT NULL PRIMARY KEY{''.join(f', c{at} {text}' for at, text in enumerate(chunk))})"
        for number, chunk in enumerate(chunks)
    ]


def default_rows(flavor: str, head: str, *, add: int) -> list[str]:
    """A row for each of these tables, its columns left to their defaults, and an update that keeps them."""
    tables = [text.split()[2] for text in default_tables(flavor, head)]
    return [
        statement
        for table in tables
        for statement in (
            f"INSERT INTO {table} (id) VALUES ({add + 1}), ({add + 2})",
            f"UPDATE {table} SET id = {add + 3} WHERE id = {add + 2}",
        )
    ]


KEYED = (
    "CREATE TABLE k_composite (a varchar(20) NOT NULL, b int NOT NULL, v varchar(20), PRIMARY KEY (b, a))",
    "CREATE TABLE k_none (a int, v varchar(20))",
    "CREATE TABLE k_unique (a int NOT NULL, v varchar(20), UNIQUE KEY u (a))",
    "CREATE TABLE k_unique_null (a int, v varchar(20), UNIQUE KEY u (a))",
    "CREATE TABLE k_decimal (a decimal(10,2) NOT NULL PRIMARY KEY, v varchar(20))",
    "CREATE TABLE k_timestamp (a timestamp(3) NOT NULL PRIMARY KEY, v varchar(20))",
    "CREATE TABLE k_binary (a binary(4) NOT NULL PRIMARY KEY, v varchar(20))",
    "CREATE TABLE k_bigint_unsigned (a bigint unsigned NOT NULL PRIMARY KEY, v varchar(20))",
    "CREATE TABLE k_generated (id int NOT NULL PRIMARY KEY, a int, s int GENERATED ALWAYS AS (a + 1) STORED, w int GENERATED ALWAYS AS (a + 2) VIRTUAL)",
    "CREATE TABLE k_auto (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, v varchar(20))",
    "CREATE TABLE k_Mixed_Case (Id int NOT NULL PRIMARY KEY, Other_Name int, `select` int)",
)

KEYED_CHANGES = (
    "INSERT INTO k_composite VALUES ('x', 1, 'one'), ('y', 2, 'two'), ('z', 3, 'three')",
    "UPDATE k_composite SET v = 'changed' WHERE b = 1",
    "UPDATE k_composite SET b = 10 WHERE b = 2",
    "UPDATE k_composite SET a = 'zz', v = 'both' WHERE b = 3",
    "DELETE FROM k_composite WHERE b = 1",
    "INSERT INTO k_none VALUES (1, 'one'), (NULL, 'two'), (1, 'one')",
    "UPDATE k_none SET v = 'changed' WHERE a = 1",
    "DELETE FROM k_none WHERE a IS NULL",
    "INSERT INTO k_unique VALUES (1, 'one'), (2, 'two')",
    "UPDATE k_unique SET a = 3 WHERE a = 1",
    "DELETE FROM k_unique WHERE a = 2",
    "INSERT INTO k_unique_null VALUES (1, 'one'), (NULL, 'two')",
    "UPDATE k_unique_null SET a = 3 WHERE a = 1",
    "INSERT INTO k_decimal VALUES (1.50, 'one'), (2, 'two')",
    "UPDATE k_decimal SET a = 3 WHERE a = 2",
    "DELETE FROM k_decimal WHERE a = 1.5",
    "INSERT INTO k_timestamp VALUES ('2024-02-29 12:00:00.120', 'one')",
    "UPDATE k_timestamp SET a = '2024-02-29 12:00:00.000'",
    "DELETE FROM k_timestamp",
    "INSERT INTO k_binary VALUES ('ab', 'one')",
    "UPDATE k_binary SET v = 'two'",
    "DELETE FROM k_binary",
    "INSERT INTO k_bigint_unsigned VALUES (18446744073709551615, 'one'), (1, 'two')",
    "UPDATE k_bigint_unsigned SET v = 'three'",
    "DELETE FROM k_bigint_unsigned WHERE a = 1",
    "INSERT INTO k_generated (id, a) VALUES (1, 5), (2, NULL)",
    "UPDATE k_generated SET a = 7 WHERE id = 1",
    "DELETE FROM k_generated WHERE id = 2",
    "INSERT INTO k_auto (v) VALUES ('a'), ('b')",
    "INSERT INTO k_auto (v) VALUES ('c') ON DUPLICATE KEY UPDATE v = 'd'",
    "REPLACE INTO k_auto (id, v) VALUES (1, 'replaced')",
    "INSERT INTO k_auto (id, v) VALUES (2, 'x') ON DUPLICATE KEY UPDATE v = 'duplicate'",
    "INSERT INTO k_Mixed_Case VALUES (1, 2, 3)",
    "UPDATE k_Mixed_Case SET `select` = NULL",
    "BEGIN",
    "INSERT INTO k_auto (v) VALUES ('in a transaction')",
    "UPDATE k_auto SET v = 'later in it' WHERE id = 2",
    "INSERT INTO k_unique VALUES (7, 'of another table in it')",
    "DELETE FROM k_auto WHERE id = 1",
    "UPDATE k_unique SET a = 8 WHERE a = 7",
    "COMMIT",
    "XA START 'x'",
    "INSERT INTO k_auto (v) VALUES ('by two phases')",
    "XA END 'x'",
    "XA PREPARE 'x'",
    "XA COMMIT 'x'",
    "BEGIN",
    "INSERT INTO k_auto (v) VALUES ('rolled back')",
    "ROLLBACK",
    "TRUNCATE TABLE k_unique",
    "INSERT INTO k_unique VALUES (9, 'after the truncation')",
)  # fmt: skip

DDL = (
    "CREATE TABLE d_one (id int NOT NULL PRIMARY KEY, a int, b varchar(10) DEFAULT 'x')",
    "INSERT INTO d_one VALUES (1, 1, 'a')",
    "ALTER TABLE d_one ADD COLUMN c decimal(8,3) NOT NULL DEFAULT 1.5",
    "INSERT INTO d_one VALUES (2, 2, 'b', 2.25)",
    "ALTER TABLE d_one ADD COLUMN first_one bigint FIRST, ADD COLUMN mid datetime(3) NULL AFTER a",
    "INSERT INTO d_one VALUES (3, 3, 3, '2024-01-01 00:00:00.5', 'c', 3.125)",
    "ALTER TABLE d_one DROP COLUMN first_one",
    "UPDATE d_one SET b = 'changed' WHERE id = 1",
    "ALTER TABLE d_one RENAME COLUMN b TO bb",
    "UPDATE d_one SET bb = 'renamed' WHERE id = 2",
    "ALTER TABLE d_one CHANGE COLUMN bb b varchar(100) CHARACTER SET latin1 NOT NULL DEFAULT 'ü' COMMENT 'changed'",
    "INSERT INTO d_one (id, a) VALUES (4, 4)",
    "ALTER TABLE d_one MODIFY COLUMN a bigint unsigned",
    "UPDATE d_one SET a = 18446744073709551615 WHERE id = 4",
    "ALTER TABLE d_one ALTER COLUMN c SET DEFAULT 9.75",
    "INSERT INTO d_one (id, b) VALUES (5, 'd')",
    "ALTER TABLE d_one ALTER COLUMN c DROP DEFAULT",
    "INSERT INTO d_one (id, b, c) VALUES (6, 'd', 1)",
    "ALTER TABLE d_one ADD INDEX by_a (a)",
    "CREATE INDEX by_mid ON d_one (mid)",
    "DROP INDEX by_a ON d_one",
    "ALTER TABLE d_one COMMENT = 'a table'",
    "ALTER TABLE d_one CONVERT TO CHARACTER SET utf8mb4",
    "INSERT INTO d_one (id, b, c) VALUES (7, 'e €', 1)",
    "ALTER TABLE d_one DROP PRIMARY KEY, ADD PRIMARY KEY (b, id)",
    "INSERT INTO d_one (id, b, c) VALUES (8, 'f', 1)",
    "CREATE TABLE d_like LIKE d_one",
    "INSERT INTO d_like (id, b, c) VALUES (1, 'like', 1)",
    "RENAME TABLE d_like TO d_liked",
    "INSERT INTO d_liked (id, b, c) VALUES (2, 'liked', 1)",
    "ALTER TABLE d_liked RENAME TO d_liked_again",
    "INSERT INTO d_liked_again (id, b, c) VALUES (3, 'again', 1)",
    "CREATE TABLE d_other (id int PRIMARY KEY, x int)",
    "RENAME TABLE d_one TO d_swap, d_other TO d_one, d_swap TO d_other",
    "INSERT INTO d_one VALUES (1, 10)",
    "INSERT INTO d_other (id, b, c) VALUES (9, 'swapped', 1)",
    "TRUNCATE TABLE d_one",
    "INSERT INTO d_one VALUES (2, 20)",
    "CREATE TABLE d_select AS SELECT id, x FROM d_one",
    "DROP TABLE d_one",
    "CREATE TABLE d_one (id bigint NOT NULL AUTO_INCREMENT, other text, PRIMARY KEY (id)) ENGINE=InnoDB DEFAULT CHARSET=latin1 COMMENT='anew'",
    "INSERT INTO d_one (other) VALUES ('ä')",
    "CREATE VIEW d_view AS SELECT * FROM d_one",
    "DROP VIEW d_view",
    "CREATE TABLE d_partitioned (id int NOT NULL PRIMARY KEY, v int) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "INSERT INTO d_partitioned VALUES (1, 1), (20, 2)",
    "ALTER TABLE d_partitioned TRUNCATE PARTITION p1",
    "DROP TABLE IF EXISTS d_liked_again, d_nowhere",
    "CREATE TABLE IF NOT EXISTS d_other (id int)",
    "INSERT INTO d_other (id, b, c) VALUES (10, 'still', 1)",
    "CREATE TABLE d_written (id int(5) NOT NULL PRIMARY KEY, w int GENERATED ALWAYS AS (id + 1) VIRTUAL, t datetime DEFAULT CURRENT_TIMESTAMP, y year DEFAULT 99, i bit(4) DEFAULT b'0001')",
    "INSERT INTO d_written (id, t) VALUES (1, '2024-01-01 00:00:00')",
    "ALTER TABLE d_written MODIFY COLUMN id bigint(7) NOT NULL, ALTER COLUMN y SET DEFAULT 1970, ALTER COLUMN t DROP DEFAULT",
    "INSERT INTO d_written (id) VALUES (2)",
)  # fmt: skip

SENTINEL = "CREATE TABLE sentinel (id int NOT NULL PRIMARY KEY)"


def changes(case: Typed) -> list[str]:
    """Updates, a key change and a delete on the rows that were logged."""
    first, second, t = case.values[0], case.values[1], case.name
    return [
        f"UPDATE {t} SET c = NULL, n = {second} WHERE id = {LOGGED + 1}",
        f"UPDATE {t} SET c = {second} WHERE id = {LOGGED + 1}",
        f"UPDATE {t} SET id = {LOGGED + 500}, c = {first} WHERE id = {LOGGED + 2}",
        f"DELETE FROM {t} WHERE id IN ({LOGGED + 1}, {LOGGED + 2}, {LOGGED + 500})",
    ]
