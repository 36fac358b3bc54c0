"""Large values that an UPDATE leaves alone: PostgreSQL stores them apart (TOAST), and its log does not have them (PostgreSQL manual, 73.2 "TOAST")."""

from __future__ import annotations

import hashlib
import json
import uuid
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.dialects.postgres.task.kind import PostgresKind
from dblog.errors import DefiniteError
from stack import Postgres
from support.in_windows import SourceWithWindows
from support.postgres_follower import PostgresFollower, drop_slots

PLACEHOLDER = "__debezium_unavailable_value"
BYTES = PLACEHOLDER.encode()
LARGE = "(SELECT string_agg(md5(n::text || {0}::text), '') FROM generate_series(1, 400) n)"
"""An expression of 12 800 characters that no compression makes small."""


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    yield postgres_database
    drop_slots(postgres, postgres_database)


def large(of: object) -> str:
    return LARGE.format(of)


class FillingFollower(PostgresFollower):
    """A consumer that takes what a record does not have from the row that it has of the key."""

    def _take(self, table: str, key: bytes | None, value: bytes | None) -> None:
        record = None if value is None else json.loads(value)
        before = self.rows.get(table, {}).get(key.decode() if key is not None else "")
        super()._take(table, key, value)
        if record is None or record["op"] == "d" or key is None:
            return
        row = self.rows[table][key.decode()]
        kept = before or {}
        self.rows[table][key.decode()] = {name: kept.get(name, shown) if is_placeholder(shown) else shown for name, shown in row.items()}


def is_placeholder(shown: Any) -> bool:
    """In any of the forms that a column of a test has."""
    return shown in (
        PLACEHOLDER,
        b64encode(BYTES).decode(),
        [PLACEHOLDER],
        list(BYTES),
        json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":")),
    )


def changes(follower: PostgresFollower, table: str = "t") -> list[dict[str, Any]]:
    """The table's records that are changes, in order."""
    return [record for name, record in follower.values if name == table and record is not None and record["op"] != "r"]


COLUMNS = {
    "a_text": "text",
    "a_varchar": "varchar(20000)",
    "a_json": "json",
    "a_jsonb": "jsonb",
    "an_xml": "xml",
    "a_bytea": "bytea",
    "texts": "text[]",
    "numbers": "int[]",
    "uuids": "uuid[]",
    "an_hstore": "hstore",
    "a_numeric": "numeric",
    "a_geometry": "geometry",
    "bits": "varbit",
    "moments": "timestamp[]",
}
VALUES = {
    "a_text": large(1),
    "a_varchar": large(2),
    "a_json": f"to_json({large(3)})",
    "a_jsonb": f"to_jsonb({large(4)})",
    "an_xml": f"('<a>' || {large(5)} || '</a>')::xml",
    "a_bytea": f"decode({large(6)}, 'hex')",
    "texts": f"ARRAY[{large(7)}, NULL]",
    "numbers": "(SELECT array_agg((n * 7919) % 1000003) FROM generate_series(1, 4000) n)",
    "uuids": "(SELECT array_agg(md5(n::text)::uuid) FROM generate_series(1, 800) n)",
    "an_hstore": f"hstore('k', {large(8)})",
    "a_numeric": f"('1' || translate({large(9)}, 'abcdef', '123456'))::numeric",
    "a_geometry": "(SELECT ST_MakeLine(array_agg(ST_MakePoint(sqrt(n), sqrt(n + 0.5)))) FROM generate_series(1, 800) n)",
    "bits": "(SELECT string_agg(('x' || md5(n::text))::bit(128)::text, '')::varbit FROM generate_series(1, 800) n)",
    "moments": "(SELECT array_agg(timestamp '2000-01-01' + n * n * interval '1 second') FROM generate_series(1, 4000) n)",
}


def make_table(follower: PostgresFollower, *, identity: str = "DEFAULT", required: bool = False) -> None:
    not_null = " NOT NULL" if required else ""
    follower.sql(
        "CREATE EXTENSION IF NOT EXISTS hstore",
        "CREATE EXTENSION IF NOT EXISTS postgis",
        f"CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, {', '.join(f'{name} {type_}{not_null}' for name, type_ in COLUMNS.items())})",
        f"ALTER TABLE t REPLICA IDENTITY {identity}",
        *(f"ALTER TABLE t ALTER {name} SET STORAGE EXTERNAL" for name in COLUMNS),
        f"INSERT INTO t VALUES (1, 0, {', '.join(VALUES.values())})",
    )


def test_what_was_not_changed_is_the_placeholder_in_the_form_of_its_column(postgres: Postgres, database: str) -> None:
    follower = FillingFollower(postgres, database, **{"decimal.handling.mode": "precise"})
    make_table(follower)
    follower.start()
    follower.until_dumped()

    follower.sql("UPDATE t SET n = 1")
    follower.until(lambda: "u" in follower.ops("t"))
    follower.task.stop()

    (update,) = changes(follower)
    assert update["before"] is None
    text, in_base64 = PLACEHOLDER, b64encode(BYTES).decode()
    assert {name: update["after"][name] for name in COLUMNS} == {
        "a_text": text,
        "a_varchar": text,
        "a_json": text,
        "a_jsonb": text,
        "an_xml": text,
        "a_bytea": in_base64,
        "texts": [text],
        "numbers": list(BYTES),
        "uuids": [str(uuid.UUID(bytes=hashlib.md5(BYTES, usedforsecurity=False).digest(), version=3))],
        "an_hstore": f'{{"{text}":"{text}"}}',
        "a_numeric": {"scale": 0, "value": in_base64},
        "a_geometry": {"wkb": in_base64, "srid": None},
        "bits": in_base64,
        "moments": list(BYTES),
    }


def test_where_a_column_that_takes_no_null_has_no_placeholder_the_record_is_refused_with_what_helps(
    postgres: Postgres, database: str
) -> None:
    """A number of thousands of digits, which records have as a double."""
    follower = FillingFollower(postgres, database, **{"decimal.handling.mode": "double"})
    make_table(follower, required=True)
    follower.sql(f"UPDATE t SET a_numeric = ('0.' || translate({large(9)}, 'abcdef', '123456'))::numeric")
    follower.start()
    follower.until_dumped()

    follower.sql("UPDATE t SET n = 1")

    with pytest.raises(DefiniteError, match=r"public\.t.*a_numeric.*REPLICA IDENTITY FULL"):
        follower.until(lambda: "u" in follower.ops("t"))
    follower.task.stop()


def test_a_check_warns_of_columns_in_which_no_placeholder_can_be_told_from_a_value(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(
        postgres,
        database,
        **{"column.truncate.to.20.chars": "public.*[.]a_text", "column.mask.hash.v2.SHA-256.with.salt.x": "public.*[.]a_varchar"},
        **{"column.mask.with.3.chars": "public.*[.]a_json"},
    )
    make_table(follower)
    follower.sql("CREATE TABLE whole (id INT PRIMARY KEY, a_text text)", "ALTER TABLE whole REPLICA IDENTITY FULL")
    settings = parse_connector(follower.options, follower.config)

    (warning,) = PostgresKind().check(settings, limit_s=60.0, abort=Abort())

    assert "public.t (a_text, a_varchar)" in warning
    assert 'ALTER TABLE "public"."t" REPLICA IDENTITY FULL;' in warning
    assert "whole" not in warning


def dumped(follower: PostgresFollower, **config: str) -> dict[str, dict[str, Any]]:
    """The table's rows as another connector's dump has them."""
    other = PostgresFollower(follower.server, follower.database, **config).start()
    other.until_dumped()
    other.task.stop()
    return other.rows.get("t", {})


def make_texts(follower: PostgresFollower, rows: int, *, identity: str = "DEFAULT") -> None:
    follower.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, a_text TEXT, small TEXT)",
        f"ALTER TABLE t REPLICA IDENTITY {identity}",
        "ALTER TABLE t ALTER a_text SET STORAGE EXTERNAL",
        f"INSERT INTO t SELECT i, 0, {large('i')}, 'x' FROM generate_series(1, {rows}) i",
    )


def test_with_all_columns_in_the_log_an_update_shows_what_it_left_alone(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    make_table(follower, identity="FULL", required=True)
    follower.start()
    follower.until_dumped()
    (whole,) = follower.rows["t"].values()

    follower.sql("UPDATE t SET n = 1", "UPDATE t SET id = 2", "DELETE FROM t")
    follower.until(lambda: follower.ops("t").count("d") == 2)
    follower.task.stop()

    update, old, new, deleted = changes(follower)
    assert (update["before"], update["after"]) == (whole, whole | {"n": 1})
    assert (old["before"], new["after"]) == (whole | {"n": 1}, whole | {"n": 1, "id": 2})
    assert deleted["before"] == new["after"]


def test_another_key_beside_unchanged_values_is_a_whole_row_that_names_the_old_key(postgres: Postgres, database: str) -> None:
    follower = PostgresFollower(postgres, database)
    make_table(follower)
    follower.start()
    follower.until_dumped()
    (whole,) = follower.rows["t"].values()

    follower.sql("UPDATE t SET id = 2, n = 1")
    follower.until(lambda: "c" in follower.ops("t"))
    follower.task.stop()

    old, new = changes(follower)
    assert (old["op"], old["before"]["id"]) == ("d", 1)
    assert (new["op"], new["after"]) == ("c", whole | {"id": 2, "n": 1})
    assert follower.headers[-1] == ("t", [("__debezium.oldkey", b'{"id":1}')])


def test_of_keys_that_changed_while_the_connector_was_away_the_last_one_has_the_whole_row(postgres: Postgres, database: str) -> None:
    follower = FillingFollower(postgres, database)
    make_texts(follower, 3)
    follower.start()
    follower.until_dumped()
    follower.task.stop()

    follower.sql(
        "UPDATE t SET id = 11 WHERE id = 1",
        "UPDATE t SET id = 21 WHERE id = 11",
        f"UPDATE t SET id = 12, a_text = {large(77)} WHERE id = 2",
        f"INSERT INTO t VALUES (2, 5, {large(78)}, 'x')",
        "UPDATE t SET id = 13 WHERE id = 3",
        "DELETE FROM t WHERE id = 13",
    )
    follower.restart()
    follower.until_equal("t")
    follower.task.stop()

    assert sorted(follower.rows["t"]) == ['{"id":12}', '{"id":21}', '{"id":2}']
    gone = [record for record in changes(follower) if record["op"] == "c" and record["after"]["id"] in (11, 13)]
    assert [record["after"]["a_text"] for record in gone] == [PLACEHOLDER] * 2


def test_a_table_that_is_another_one_by_now_leaves_the_placeholder_beside_a_changed_key(postgres: Postgres, database: str) -> None:
    follower = FillingFollower(postgres, database)
    follower.sql("CREATE TABLE z (id INT PRIMARY KEY)")
    make_texts(follower, 1)
    follower.start()
    follower.until_dumped()
    follower.task.stop()

    follower.sql("UPDATE t SET id = 2", "ALTER TABLE t RENAME id TO other", "ALTER TABLE t DROP COLUMN a_text", "INSERT INTO z VALUES (1)")
    follower.restart()
    follower.until(lambda: follower.rows.get("z"))
    follower.task.stop()

    assert [record["after"]["a_text"] for record in changes(follower) if record["op"] == "c"] == [PLACEHOLDER]


@pytest.mark.parametrize("windows", [{}, {"read.only": "true"}], ids=["written", "read-only"])
def test_a_row_that_changed_inside_its_window_without_its_large_value_comes_with_it_in_a_later_one(
    postgres: Postgres, database: str, windows: dict[str, str]
) -> None:
    follower = FillingFollower(postgres, database, **windows, **{"dblog.chunk.rows": "20"})
    make_texts(follower, 60)
    changed: list[int] = []

    def inside(last_key: tuple[Any, ...]) -> None:
        """One row of the first three chunks as they are read, each time with the large value as it was."""
        (last,) = last_key
        if len(changed) < 3:
            changed.append(last - 5)
            follower.sql(f"UPDATE t SET n = n + 1 WHERE id = {last - 5}", f"UPDATE t SET small = small || 'y' WHERE id = {last - 5}")

    follower.wrapped = lambda source: SourceWithWindows(source, inside)
    follower.task = follower.new_task()
    follower.start()
    follower.until_dumped()
    follower.until(lambda: follower.ops("t").count("u") == 6)
    follower.task.stop()

    assert len(changed) == 3
    assert follower.rows["t"] == dumped(follower)


def test_a_chunk_is_not_read_again_for_other_rows_or_for_one_whose_values_the_log_has(postgres: Postgres, database: str) -> None:
    follower = FillingFollower(postgres, database, **{"dblog.chunk.rows": "20"})
    make_texts(follower, 60)
    inside_windows: list[int] = []

    def inside(last_key: tuple[Any, ...]) -> None:
        (last,) = last_key
        inside_windows.append(last)
        other = last - 30 if last > 30 else last + 30
        follower.sql(f"UPDATE t SET a_text = {large('(id * 1000)')} WHERE id = {last - 5}", f"UPDATE t SET n = n + 1 WHERE id = {other}")

    follower.wrapped = lambda source: SourceWithWindows(source, inside)
    follower.task = follower.new_task()
    follower.start()
    follower.until_dumped()
    follower.until(lambda: follower.ops("t").count("u") == 6)
    follower.task.stop()

    assert inside_windows == [20, 40, 60]
    assert follower.ops("t").count("r") == 57
    assert follower.rows["t"] == dumped(follower)
