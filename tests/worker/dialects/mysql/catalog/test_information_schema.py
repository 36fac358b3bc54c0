"""Rows of information_schema become tables, on both flavors and old versions."""

from __future__ import annotations

import pytest
from dblog.dialects.mariadb.catalog import mariadb_default
from dblog.dialects.mysql.catalog import information_schema
from dblog.dialects.mysql.catalog.information_schema import (
    DefaultText,
    binary_default,
    members_of,
    members_text,
    mysql_default,
    written_defaults,
)
from dblog.dialects.mysql.catalog.keys import choose_key
from dblog.model import Column, Index, TableId
from hypothesis import given
from hypothesis import strategies as st


def column_row(
    table,
    name,
    type_text,
    *,
    null="YES",
    default=None,
    charset=None,
    extra="",
    characters=None,
    precision=None,
    scale=None,
    fsp=None,
    gen="",
):
    data_type = type_text.split("(")[0].split(" ")[0]
    collation = f"{charset}_bin" if charset else None
    return (table, name, default, null, data_type, characters, precision, scale, fsp, charset, collation, type_text, extra, "", gen)


class Server:
    """Answers the catalog's questions from lists of rows, and notes them."""

    def __init__(self, tables, columns, indexes, shown=()) -> None:
        self.tables, self.columns, self.indexes, self.shown = tables, columns, indexes, shown
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def execute(self, sql, parameters):
        self.asked.append((sql, parameters))
        if "SCHEMATA" in sql:
            return [("shop", "utf8", "utf8_general_ci"), ("mysql", "utf8mb4", "x"), ("sys", "utf8mb4", "x")]
        if "information_schema.TABLES" in sql:
            return [row for row in self.tables if row[0] == parameters[0]]
        rows = self.shown if sql.startswith("SHOW INDEX") else self.columns if "COLUMNS" in sql else self.indexes
        return [row for row in rows if len(parameters) < 2 or row[0] == parameters[1]]


def test_tables_are_read_database_by_database_without_views_and_unwanted_ones() -> None:
    server = Server(
        tables=[
            ("shop", "t", "BASE TABLE", "latin1_swedish_ci", "c"),
            ("shop", "v", "VIEW", None, "VIEW"),
            ("shop", "s", "SEQUENCE", None, ""),
            ("shop", "no", "BASE TABLE", "latin1_bin", ""),
        ],
        columns=[
            column_row("t", "id", "int(10) unsigned", null="NO", extra="auto_increment", precision=10, scale=0),
            column_row("t", "name", "varchar(20)", charset="utf8", characters=20),
        ],
        indexes=[("t", "PRIMARY", 1, "id", 0, None), ("t", "i", 1, "name", 1, 5)],
    )

    (table,) = information_schema.read_tables(server.execute, lambda id_: id_.name != "no")

    assert table.id == TableId("shop", "t")
    assert (table.key, table.primary_key, table.charset, table.comment) == (("id",), True, "latin1", "c")
    assert table.columns[0] == Column(
        name="id", type="int", type_text="int(10) unsigned", nullable=False, unsigned=True, length=10, auto_increment=True
    )
    assert (table.columns[1].charset, table.columns[1].collation, table.columns[1].length) == ("utf8mb3", "utf8mb3_bin", 20)
    assert table.indexes[1] == Index(name="i", columns=("name",), unique=False)
    assert [d.charset for d in information_schema.read_databases(server.execute)] == ["utf8mb3"]


def test_many_tables_are_asked_with_one_query_and_few_one_by_one() -> None:
    names = [f"t{n}" for n in range(40)]
    server = Server(
        tables=[("shop", name, "BASE TABLE", "utf8mb4_bin", "") for name in names],
        columns=[column_row(name, "a", "int") for name in names],
        indexes=[],
    )

    assert len(information_schema.read_tables(server.execute, lambda _: True)) == 40
    many = len(server.asked)
    assert information_schema.read_table(server.execute, TableId("shop", "t7")) is not None

    assert many == 4
    assert server.asked[-1][1] == ("shop", "t7")


def test_a_table_dropped_between_the_questions_is_left_out() -> None:
    server = Server(tables=[("shop", "t", "BASE TABLE", "utf8mb4_bin", "")], columns=[], indexes=[])

    assert information_schema.read_tables(server.execute, lambda _: True) == []
    assert information_schema.read_table(server.execute, TableId("shop", "nope")) is None


def test_two_unique_indexes_that_compete_are_put_in_the_servers_order() -> None:
    columns = [column_row("t", name, "int", null="NO") for name in ("a", "b")]
    indexes = [("t", "aa", 1, "a", 0, None), ("t", "zz", 1, "b", 0, None)]
    shown = [("t", 0, "zz", 1, "b"), ("t", 0, "aa", 1, "a")]
    server = Server(tables=[("shop", "t", "BASE TABLE", "utf8mb4_bin", "")], columns=columns, indexes=indexes, shown=shown)

    (table,) = information_schema.read_tables(server.execute, lambda _: True)

    assert (table.key, table.primary_key) == (("b",), False)
    assert "SHOW INDEX FROM `shop`.`t`" in [sql for sql, _ in server.asked]


def test_a_system_versioned_table_has_the_columns_and_the_key_of_its_log() -> None:
    server = Server(
        tables=[("shop", "t", "SYSTEM VERSIONED", "utf8mb4_bin", ""), ("shop", "u", "SYSTEM VERSIONED", "utf8mb4_bin", "")],
        columns=[
            column_row("t", "id", "int(11)", null="NO"),
            column_row("u", "id", "int(11)", null="NO"),
            column_row("u", "s", "timestamp(6)", null="NO", fsp=6, gen="ROW START", extra="STORED GENERATED"),
            column_row("u", "e", "timestamp(6)", null="NO", fsp=6, gen="ROW END", extra="STORED GENERATED"),
        ],
        indexes=[("t", "PRIMARY", 1, "id", 0, None), ("u", "PRIMARY", 1, "id", 0, None)],
    )

    implicit, explicit = information_schema.read_tables(server.execute, lambda _: True)

    assert ([c.name for c in implicit.columns], implicit.key) == (["id", "row_start", "row_end"], ("id", "row_end"))
    assert ([c.name for c in explicit.columns], explicit.key) == (["id", "s", "e"], ("id", "e"))


@pytest.mark.parametrize(
    ("type_text", "expected"),
    [
        ("bit(5)", (5, None)),
        ("int", (None, None)),
        ("tinyint(1)", (1, None)),
        ("float(7,3)", (7, 3)),
        ("double", (None, None)),
        ("year(4)", (4, None)),
        ("vector(3)", (3, None)),
        ("enum('a(5)')", (None, None)),
        ("text", (None, None)),
    ],
)
def test_length_and_scale_come_from_the_column_type(type_text: str, expected: tuple[int | None, int | None]) -> None:
    column = information_schema.column_of(column_row("t", "c", type_text), mysql_default)

    assert (column.length, column.scale) == expected


@pytest.mark.parametrize(
    ("text", "nullable", "type_", "extra", "expected"),
    [
        (None, True, "int", "", DefaultText(True, None, False)),
        (None, False, "int", "", DefaultText(False, None, False)),
        ("5", False, "int", "", DefaultText(True, "5", False)),
        ("CURRENT_TIMESTAMP", False, "timestamp", "on update CURRENT_TIMESTAMP", DefaultText(True, "CURRENT_TIMESTAMP", True)),
        ("CURRENT_TIMESTAMP", False, "varchar", "", DefaultText(True, "CURRENT_TIMESTAMP", False)),
        ("uuid()", True, "varchar", "DEFAULT_GENERATED", DefaultText(True, "uuid()", True)),
        ("now()", False, "datetime", "DEFAULT_GENERATED", DefaultText(True, "(now())", True)),
        ("0x61", True, "binary", "", DefaultText(True, "0x61", False)),
        ("a", True, "varbinary", "", DefaultText(True, "0x61", False)),
    ],
)
def test_defaults_of_mysql(text, nullable: bool, type_: str, extra: str, expected: DefaultText) -> None:
    assert mysql_default(text, nullable, type_, extra) == expected


@pytest.mark.parametrize(
    ("text", "nullable", "type_", "expected"),
    [
        (None, False, "int", DefaultText(False, None, False)),
        ("NULL", True, "int", DefaultText(True, None, False)),
        ("'NULL'", True, "varchar", DefaultText(True, "NULL", False)),
        ("'it''s'", True, "varchar", DefaultText(True, "it's", False)),
        (r"'a\\b\nc'", True, "varchar", DefaultText(True, "a\\b\nc", False)),
        ("5", True, "int", DefaultText(True, "5", False)),
        ("-1.50", True, "decimal", DefaultText(True, "-1.50", False)),
        ("b'101'", True, "bit", DefaultText(True, "b'101'", False)),
        ("current_timestamp()", False, "timestamp", DefaultText(True, "current_timestamp()", True)),
        ("curdate()", True, "date", DefaultText(True, "curdate()", True, "curdate()")),
        ("uuid()", True, "varchar", DefaultText(True, "uuid()", True)),
        ("'a\\0\\0'", True, "binary", DefaultText(True, "0x61", False)),
    ],
)
def test_defaults_of_mariadb(text, nullable: bool, type_: str, expected: DefaultText) -> None:
    assert mariadb_default(text, nullable, type_, "") == expected


@given(st.lists(st.text(max_size=5), min_size=1, max_size=4))
def test_members_survive_their_way_through_the_column_type(members: list[str]) -> None:
    assert members_of(f"enum({members_text(members)})") == tuple(members)


def test_a_binary_default_has_one_form_whatever_fills_it() -> None:
    assert binary_default(b"a\0\0", "binary") == binary_default(b"a", "binary") == "0x61"
    assert binary_default(b"a\0\0", "varbinary") == "0x610000"


def column(name: str, *, nullable: bool = False) -> Column:
    return Column(name=name, type="int", type_text="int", nullable=nullable)


def index(name: str, *columns: str, unique: bool = True, partial: bool = False, functional: bool = False) -> Index:
    return Index(name=name, columns=columns, unique=unique, partial=partial, functional=functional)


@pytest.mark.parametrize(
    ("indexes", "key"),
    [
        ([index("u", "a"), index("PRIMARY", "b", "a")], (("b", "a"), True)),
        ([index("n", "x"), index("u", "a")], (("a",), False)),
        ([index("u", "a", unique=False)], ((), False)),
        ([index("f", "a", functional=True), index("u", "b")], (("b",), False)),
        ([index("p", "a", partial=True), index("u", "b")], (("b",), False)),
        ([index("p", "a", partial=True)], (("a",), False)),
        ([index("n", "a", "x")], ((), False)),
        ([], ((), False)),
    ],
)
def test_the_key_is_the_primary_key_or_the_first_unique_index_without_null(indexes, key) -> None:
    assert choose_key([column("a"), column("b"), column("x", nullable=True)], indexes) == key


def test_written_defaults_are_found_behind_any_number_of_members_with_quotes() -> None:
    members = ",".join(f"'m{number}''x'" for number in range(64))
    statement = "\n".join(
        [
            "CREATE TABLE `t` (",
            f"  `a` set({members}) DEFAULT NULL,",
            f"  `b` set({members}) CHARACTER SET latin1 NOT NULL DEFAULT 'm1''x',",
            "  `c` enum('x DEFAULT ''y''','z') DEFAULT 'z' COMMENT 'DEFAULT ''n''',",
            "  `d``e` blob DEFAULT x'00ff',",
            "  `f` enum('a\\\\','b') DEFAULT 'b'",
            ") COMMENT='it''s'",
        ]
    )

    found = dict(written_defaults(statement))

    assert found == {"b": "'m1''x'", "c": "'z'", "d`e": "x'00ff'", "f": "'b'"}
