"""Chunks of tables whose keys are texts of every character set of the server: each row once, whatever of the text Unicode does not have. # I2"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import pymysql
import pytest
from dblog.dialects.mysql.catalog import sql
from dblog.dialects.mysql.catalog.information_schema import read_table
from dblog.dialects.mysql.values.charsets import BYTES_MAX
from dblog.dialects.mysql.wire.connect import ConnectSettings
from dblog.dialects.mysql.wire.dump import DumpConnection
from dblog.model import Table, TableId
from stack.database import Database
from support.follower import Follower
from support.servers import connected, execute, new_database

WIDTHS = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}
NO_PLACE_IN_UNICODE = {
    "greek": [b"\xff" + bytes([c, d]) for c in b"abcdef" for d in b"xy"],
    "sjis": [b"\xf0\x40" + bytes([c]) for c in b"abcdef"],
    "cp932": [b"\xf0\x40" + bytes([c]) for c in b"abcdef"],
    "gb2312": [b"\xa8\xf5" + bytes([c]) for c in range(ord("a"), ord("z"))],
    "ucs2": [b"\xd8\0", b"\xd8\0\0a", b"\xdc\0"],
    "utf16": [b"\xd8\0\xdc\0"],
    "utf16le": [b"\0\xd8\0\xdc"],
    "big5": [b"\xa3\xc0a", b"\xa3\xe2"],
    "gbk": [b"\xa2\xa1", b"\xfe\xfe"],
    "ujis": [b"\x8f\xa1\xa1", b"\xfe\xfe"],
    "eucjpms": [b"\x8f\xa1\xa1", b"\xf5\xa1"],
}


def texts(charset: str) -> list[bytes]:
    """Bytes that may be texts of a character set: plain ones, blanks at the end, known traps, and random codes; the server refuses what is none."""
    width = WIDTHS.get(charset, 1)
    order = "little" if charset == "utf16le" else "big"
    plain = ["".join(c) for c in ("a", "A", "b", "a ", "a  ", "ab", "~", " ", "", "Za")]
    out = [b"".join(ord(c).to_bytes(width, order) for c in text) for text in plain]
    out += NO_PLACE_IN_UNICODE.get(charset, [])
    chance = random.Random(charset)
    if width > 1:
        codes = [chance.randrange(0x80, 0xFFFF) for _ in range(30)]
        return out + [code.to_bytes(width, order) for code in codes]
    if BYTES_MAX[charset] == 1:
        return out + [bytes([code, chance.randrange(0x61, 0x7B)]) for code in range(0x80, 0x100, 3)]
    out += [bytes([chance.randrange(0x81, 0xFF), chance.randrange(0x40, 0xFF)]) for _ in range(60)]
    return out + [chr(chance.randrange(0x80, 0xD7FF)).encode() for _ in range(20)]


def collations(source: Database) -> list[tuple[str, str]]:
    """(character set, collation): all of the server, but of those that differ by language only a few."""
    found = execute(
        source,
        "SELECT character_set_name, MIN(collation_name) FROM information_schema.collation_character_set_applicability "
        "GROUP BY character_set_name, SUBSTRING_INDEX(collation_name, '_', -1), SUBSTRING_INDEX(collation_name, '_', -2) LIKE '%nopad%'",
    )
    return sorted({(str(charset), str(collation)) for charset, collation in found if charset is not None})


def fill(cursor: pymysql.cursors.Cursor, name: str, charset: str, *, repeat: int = 1) -> int:
    """Insert what the server takes as texts of the character set; how many rows that makes."""
    rows = 0
    for text in texts(charset):
        for n in range(repeat):
            with contextlib.suppress(pymysql.err.Error):  # no text of this set, or equal to another
                rows += cursor.execute(f"INSERT INTO {name} VALUES (x'{text.hex()}', {n}, {rows + 1})")
    return rows


@pytest.fixture
def database(source: Database) -> str:
    return new_database(source, "bounds")


@pytest.fixture
def dump(source: Database, database: str) -> Iterator[DumpConnection]:
    settings = ConnectSettings(host=source.host, port=source.port, user=source.user, password=source.password)
    with contextlib.closing(DumpConnection.open(settings, TableId(database, "watermark"))) as connection:
        yield connection


def chunks(dump: DumpConnection, table: Table, rows_max: int) -> list[tuple[object, ...]]:
    """The keys of all rows as their texts' bytes, read in chunks; every bound is found again as one row behind the bound before."""
    bounds, key = range(len(table.key)), sql.key_indexes(table)
    upto = dump.select(*sql.max_key(table), key=bounds).last_key
    assert upto is not None
    assert dump.select(*sql.key_lookup(table, upto, None)).row_count == 1
    out: list[tuple[object, ...]] = []
    after = None
    while after != upto:
        chunk = dump.select(*sql.chunk_select(table, after, upto, rows_max), key=key)
        for n in range(1, chunk.row_count + 1):
            selected = dump.select(*sql.last_key(table, after, upto, n), key=bounds).last_key
            shown = dump.select(*sql.chunk_select(table, after, upto, n), key=key).last_key
            assert selected is not None
            assert shown is not None
            assert sql.exact_key(table, shown) in (None, selected)
            out.append(selected)
        assert chunk.row_count
        assert dump.select(*sql.key_lookup(table, out[-1], after)).row_count == 1
        after = out[-1]
    return out


@pytest.mark.either_server
def test_chunks_hold_each_row_once_in_every_collation_of_the_server(source: Database, database: str, dump: DumpConnection) -> None:
    """The server is the oracle: one SELECT in key order."""
    wrong = []
    pairs = collations(source)
    with connected(source, database=database) as connection, connection.cursor() as cursor:
        for number, (charset, collation) in enumerate(pairs):
            composite = number % 2
            key = "n, k" if composite else "k"
            kind = ("VARCHAR", "CHAR")[number % 3 == 0]
            definition = f"(k {kind}(10) CHARACTER SET {charset} COLLATE {collation}, n INT, v INT, PRIMARY KEY ({key}))"
            if charset == "binary":
                definition = f"(k VARBINARY(10), n INT, v INT, PRIMARY KEY ({key}))"
            name = f"t{number}"
            cursor.execute(f"CREATE TABLE {name} {definition}")
            rows = fill(cursor, name, charset, repeat=1 + composite)
            cursor.execute(f"SELECT HEX(k), n FROM {name} ORDER BY {key}")
            wanted = [(bytes.fromhex(k), n) if not composite else (n, bytes.fromhex(k)) for k, n in cursor.fetchall()]
            table = read_table(execute_of(cursor), TableId(database, name))
            assert table is not None
            dump.begin_snapshot()
            found = chunks(dump, table, 3)
            dump.end_snapshot()
            keys = [tuple(part.encode() if isinstance(part, str) else part for part in (key if composite else (*key, 0))) for key in found]
            assert rows > 5, collation
            # As a set of all rows: a CHAR's index has another order than its comparisons in a few collations.
            if sorted(keys) != sorted(wanted if composite else [(k, 0) for k, _ in wanted]):
                wrong.append((collation, len(keys), len(wanted)))

    assert {charset for charset, _ in pairs} >= {"greek", "sjis", "gb2312", "ucs2", "utf16", "utf32", "latin1", "gbk", "big5", "ujis"}
    assert wrong == []


def execute_of(cursor: pymysql.cursors.Cursor) -> object:
    def run(statement: str, parameters: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        cursor.execute(statement.replace("?", "%s") if parameters else statement, parameters or None)
        return list(cursor.fetchall())

    return run


def test_tables_with_keys_that_unicode_does_not_have_are_dumped_whole_and_once(source: Database, database: str) -> None:
    tables = {
        "g1": ("greek", "greek_general_ci"),
        "g2": ("gb2312", "gb2312_bin"),
        "s1": ("sjis", "sjis_japanese_ci"),
        "u1": ("ucs2", "ucs2_bin"),
        "b1": ("big5", "big5_bin"),
        "l1": ("latin1", "latin1_swedish_ci"),
    }
    rows = {}
    with connected(source, database=database) as connection, connection.cursor() as cursor:
        for name, (charset, collation) in tables.items():
            cursor.execute(
                f"CREATE TABLE {name} (c VARCHAR(10) CHARACTER SET {charset} COLLATE {collation}, n INT, v INT, PRIMARY KEY (c))"
            )
            rows[name] = fill(cursor, name, charset)
    follower = Follower(source, database, **{"dblog.chunk.rows": "5"})
    try:
        follower.start()
        follower.until(lambda: len(follower.values) >= sum(rows.values()) or "snapshot" not in (follower.offset or {"snapshot": True}))
        follower.until_dumped()
    finally:
        follower.task.stop()

    found = {name: sorted(record["after"]["v"] for table, record in follower.values if table == name and record) for name in tables}
    assert found == {name: list(range(1, count + 1)) for name, count in rows.items()}
