"""What both connectors follow on PostgreSQL: every column type with its edge values, random values of all types, and what happens to rows and tables.

Rows with ids below ``LOGGED`` are there before the connectors start: both read them by SELECT. The same values with ids above are written to the log afterwards.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from dblog.dialects.postgres.values.modes import TypeModes
from statements import LOGGED
from support.postgres_generated import FAMILIES, Kind, keyable
from support.postgres_generated import PREPARATION as GENERATED_TYPES
from support.postgres_type_cases import CASES, TypeCase
from support.postgres_type_cases import PREPARATION as CASE_TYPES

SCHEMA = "compat"

ENDS_THE_PEER = frozenset({"feeling"})
"""Types that are not even in the database: the peer cannot start where there is a domain over an enum (a NullPointerException of its TypeRegistry)."""

PREPARATION = tuple(text for text in (*GENERATED_TYPES, *CASE_TYPES) if not any(f" {name} " in text for name in ENDS_THE_PEER))
"""The second ones are refused where the first have made a type of that name; the values fit both."""

COLUMNS_EACH = 14
_STRUCTS = ("point", "geometry", "geography", "sparsevec", "numeric")


def column_name(at: int, type_text: str) -> str:
    """A number, and the type in letters that every name may have."""
    return f"c{at}_{re.sub(r'[^a-z0-9]+', '_', type_text.lower().replace('[]', ' array')).strip('_')}"


@dataclass(frozen=True, slots=True)
class Typed:
    """A table of some of the type cases: the columns that take NULL get all their values in turn, the others their first one."""

    name: str
    cases: tuple[TypeCase, ...]

    @property
    def columns(self) -> list[str]:
        return [case.ddl.replace("c ", f"{name} ", 1) for name, case in zip(self.names, self.cases, strict=True)]

    @property
    def names(self) -> list[str]:
        return [column_name(at, case.column.type_text) for at, case in enumerate(self.cases)]

    def create(self, *, head: str = "") -> str:
        return f"CREATE TABLE {head}{self.name} (id int NOT NULL PRIMARY KEY, {', '.join(self.columns)})"

    @property
    def rows(self) -> int:
        return max(1, *(len(case.values) for case in self.cases))

    def inserts(self, *, add: int = 0, head: str = "") -> Iterator[str]:
        """A row for each value, and one of NULL where that may be."""
        for row in range(self.rows):
            values = [case.values[row % len(case.values)] if case.values else "DEFAULT" for case in self.cases]
            yield f"INSERT INTO {head}{self.name} VALUES ({row + 1 + add}, {', '.join(values)})"
        nulls = ["NULL" if case.column.nullable else case.values[0] if case.values else "DEFAULT" for case in self.cases]
        yield f"INSERT INTO {head}{self.name} VALUES ({self.rows + 1 + add}, {', '.join(nulls)})"

    def changes(self) -> list[str]:
        """Updates, a key change and deletes of the rows that were logged; twice where the whole old row is in the log."""
        first, second = LOGGED + 1, LOGGED + 2
        again = [f"DELETE FROM {self.name} WHERE id > {LOGGED}"] if self.rows > 1 else []
        nulled = [f"{name} = NULL" for name, case in zip(self.names, self.cases, strict=True) if case.column.nullable]
        return [
            f"UPDATE {self.name} SET {', '.join(nulled) or 'id = id'} WHERE id = {first}",
            f"ALTER TABLE {self.name} REPLICA IDENTITY FULL",
            f"UPDATE {self.name} SET id = {LOGGED + 500} WHERE id = {second}",
            f"UPDATE {self.name} SET {', '.join(nulled) or 'id = id'} WHERE id = {LOGGED + 500}",
            *again,
        ]


def typed(*, version: int) -> list[Typed]:
    """Tables of every case; of types with structs and of vectors, which need an extension of their own, apart."""
    groups: dict[str, list[TypeCase]] = {}
    for case in CASES:
        kind = case.column.type.removeprefix("_")
        if kind in ("vector", "halfvec", "sparsevec") and version < 17:
            continue
        head = "s" if kind in _STRUCTS else "d" if case.sql_default is not None else "a" if case.column.type.startswith("_") else "t"
        groups.setdefault(head, []).append(case)
    return [
        Typed(f"{head}_{at // COLUMNS_EACH}", tuple(cases[at : at + COLUMNS_EACH]))
        for head, cases in groups.items()
        for at in range(0, len(cases), COLUMNS_EACH)
    ]


@dataclass(frozen=True)
class Generated:
    """A table of random rows, each with a number, which is its key unless ``by_value``: its one column is then."""

    name: str
    kinds: tuple[Kind, ...]
    nullable: tuple[bool, ...]
    by_value: bool = False
    rows: list[list[str]] = field(default_factory=list)

    @property
    def create(self) -> str:
        columns = (
            f"{name} {kind.ddl}{'' if nullable else ' NOT NULL'}"
            for name, kind, nullable in zip(self.names, self.kinds, self.nullable, strict=True)
        )
        key = self.names[0] if self.by_value else "id"
        return f"CREATE TABLE {self.name} (id int NOT NULL, n int NOT NULL, {', '.join(columns)}, PRIMARY KEY ({key}))"

    @property
    def names(self) -> list[str]:
        return [column_name(at, kind.ddl) for at, kind in enumerate(self.kinds)]

    def insert(self, *, add: int = 0) -> str:
        """All rows, of which a key that some record cannot hold has none. Of keys the first half is dumped, the other logged."""
        rows = list(enumerate(self.rows, start=1))
        if not self.by_value:
            values = ", ".join(f"({number + add}, 0, {', '.join(row)})" for number, row in rows)
            return f"INSERT INTO {self.name} VALUES {values}"
        rows = rows[len(rows) // 2 :] if add else rows[: len(rows) // 2]
        unfit = {condition.format(c="c0") for modes in ALL_MODES if (condition := self.kinds[0].unfit(modes)) is not None}
        values = ", ".join(f"({number + add}, 0, {', '.join(row)})" for number, row in rows)
        where = " OR ".join(unfit) or "false"
        return f"INSERT INTO {self.name} SELECT * FROM (VALUES {values}) AS v (id, n, c0) WHERE NOT ({where}) ON CONFLICT DO NOTHING"

    def changes(self) -> list[str]:
        return [f"UPDATE {self.name} SET n = 1 WHERE id > {LOGGED}", f"DELETE FROM {self.name} WHERE id > {LOGGED}"]


ALL_MODES = [
    TypeModes(time_precision_mode=times, decimal_handling_mode=decimals)
    for times in ("adaptive", "nanoseconds")
    for decimals in ("precise", "string")
]


def generated(*, seed: int, rows: int, key_rows: int) -> list[Generated]:
    """Of each family a table with a column for every type; of each type that a key may have a table by it."""
    chance = random.Random(seed)
    out = []
    for number, family in enumerate(FAMILIES.values()):
        kinds = tuple(kind for kind in family if kind.ddl not in ENDS_THE_PEER)
        # A value that some mode cannot express is NULL in records, where that may be.
        nullable = tuple(any(kind.unfit(modes) for modes in ALL_MODES) or chance.random() < 0.5 for kind in kinds)
        made = Generated(f"g_{number}", kinds, nullable)
        for _ in range(rows):
            pairs = zip(kinds, nullable, strict=True)
            made.rows.append(["NULL" if null and chance.random() < 0.08 else _literal(kind, chance) for kind, null in pairs])
        out.append(made)
    for number, kind in enumerate(keyable()):
        made = Generated(column_name(number, kind.ddl).replace("c", "gk_", 1), (kind,), (False,), by_value=True)
        made.rows.extend([_literal(kind, chance)] for _ in range(key_rows))
        out.append(made)
    return out


def _literal(kind: Kind, chance: random.Random) -> str:
    """The peer's log reader ends at an offset with seconds in it, which `k_zone` has."""
    return kind.literal(chance).replace("-12:34:56", "-12:34")


_LARGE = "(SELECT string_agg(md5(n::text || {0}), '') FROM generate_series(1, 400) n)"
"""A text that no compression makes small enough for its row."""

KEYED = (
    "CREATE TABLE k_composite (a varchar(20) NOT NULL, b int NOT NULL, v varchar(20), PRIMARY KEY (b, a))",
    "CREATE TABLE k_none (a int, v varchar(20))",
    "CREATE TABLE k_none_full (a int, v varchar(20))",
    "ALTER TABLE k_none_full REPLICA IDENTITY FULL",
    "CREATE TABLE k_unique (a int NOT NULL, v varchar(20), w varchar(10))",
    "CREATE UNIQUE INDEX k_unique_a ON k_unique (a)",
    "ALTER TABLE k_unique REPLICA IDENTITY USING INDEX k_unique_a",
    "CREATE TABLE k_both (id int PRIMARY KEY, a int NOT NULL, v varchar(20))",
    "CREATE UNIQUE INDEX k_both_a ON k_both (a)",
    "ALTER TABLE k_both REPLICA IDENTITY USING INDEX k_both_a",
    "CREATE TABLE k_full (id int PRIMARY KEY, a int NOT NULL DEFAULT 5, v varchar(20) DEFAULT 'x')",
    "ALTER TABLE k_full REPLICA IDENTITY FULL",
    "CREATE TABLE k_nothing (id int PRIMARY KEY, v varchar(20))",
    "ALTER TABLE k_nothing REPLICA IDENTITY NOTHING",
    "CREATE TABLE k_default (id int PRIMARY KEY, a int NOT NULL, b numeric(8,2) NOT NULL DEFAULT 1.5, c text NOT NULL, d timestamptz NOT NULL, e uuid NOT NULL, f int[] NOT NULL)",
    "CREATE TABLE k_generated (id int NOT NULL PRIMARY KEY, a int, s int GENERATED ALWAYS AS (a + 1) STORED)",
    "CREATE TABLE k_identity (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v varchar(20))",
    "CREATE TABLE k_serial (id bigserial PRIMARY KEY, s serial, v varchar(20))",
    'CREATE TABLE "k_Mixed_Case" ("Id" int NOT NULL PRIMARY KEY, "Other_Name" int, "select" int)',
    "CREATE TABLE k_parts (id int NOT NULL, v varchar(20), PRIMARY KEY (id)) PARTITION BY RANGE (id)",
    "CREATE TABLE k_parts_low PARTITION OF k_parts FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE k_parts_high PARTITION OF k_parts FOR VALUES FROM (100) TO (10000)",
    "CREATE TABLE k_zone (id int PRIMARY KEY, t timetz)",
    "CREATE TABLE k_commented (id int PRIMARY KEY, v text)",
    "COMMENT ON COLUMN k_commented.v IS 'what it is'",
    "CREATE TABLE k_shaped (id int PRIMARY KEY, secret varchar(20), hashed varchar(20) NOT NULL, cut text, bytes bytea, number int, gone text, other varchar(8))",
    "CREATE TABLE k_rekeyed (id int PRIMARY KEY, a int, b varchar(10) NOT NULL)",
    "ALTER TABLE k_rekeyed REPLICA IDENTITY FULL",
    ("CREATE TABLE k_large (id int PRIMARY KEY, n int, t text, v varchar NOT NULL, b bytea, j jsonb, ta text[], ia int[], x xml, js json NOT NULL, ba bytea[], ua uuid[], h hstore,"
    " num numeric, ci citext, iv int8[], da date[], fa float8[], bo bool[], tsa timestamp[])"),
    "CREATE TABLE k_large_full (id int PRIMARY KEY, n int, t text, b bytea)",
    "ALTER TABLE k_large_full REPLICA IDENTITY FULL",
)  # fmt: skip

ODD_NAMES = (
    'CREATE TABLE "odd-Names" ("a-b" int PRIMARY KEY, "ü" text DEFAULT \'x\', "1x" int, "x y" int, "d$" int, a_b int)',
    'CREATE TABLE "oddü.Table" (id int PRIMARY KEY, v text)',
)
"""Names that Avro does not have: for modes that adjust them."""

ODD_ROWS = (
    "INSERT INTO \"odd-Names\" VALUES ({0}, 'y', 1, 2, 3, 4)",
    "INSERT INTO \"oddü.Table\" VALUES ({0}, 'y')",
)

KEYED_ROWS = (
    "INSERT INTO k_composite VALUES ('d', 100, 'dumped')",
    "INSERT INTO k_none VALUES (100, 'dumped'), (NULL, NULL)",
    "INSERT INTO k_none_full VALUES (100, 'dumped')",
    "INSERT INTO k_unique VALUES (100, 'dumped', 'x')",
    "INSERT INTO k_both VALUES (100, 100, 'dumped')",
    "INSERT INTO k_full VALUES (100, 1, 'dumped')",
    "INSERT INTO k_nothing VALUES (100, 'dumped')",
    "INSERT INTO k_generated VALUES (100, 1)",
    "INSERT INTO k_parts VALUES (10, 'dumped'), (110, 'dumped')",
    "INSERT INTO k_commented VALUES (100, 'dumped')",
    "INSERT INTO k_shaped VALUES (100, 'secret', 'hashed', 'a long text', '\\x00010203', 7, 'gone', 'abcdefgh'), (101, NULL, '', NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO k_rekeyed VALUES (100, 1, 'x'), (101, NULL, 'y')",
    f"INSERT INTO k_large (id, n, t, v, js) VALUES (100, 1, {_LARGE.format(100)}, {_LARGE.format(101)}, '{{}}')",
)  # fmt: skip

KEYED_CHANGES = (
    "INSERT INTO k_composite VALUES ('x', 1, 'one'), ('y', 2, 'two'), ('z', 3, 'three')",
    "UPDATE k_composite SET v = 'changed' WHERE b = 1",
    "UPDATE k_composite SET b = 10 WHERE b = 2",
    "UPDATE k_composite SET a = 'zz', v = 'both' WHERE b = 3",
    "DELETE FROM k_composite WHERE b = 1",
    "INSERT INTO k_none VALUES (1, 'one'), (NULL, 'two'), (1, 'one')",
    "INSERT INTO k_none_full VALUES (1, 'one'), (NULL, 'two'), (1, 'one')",
    "UPDATE k_none_full SET v = 'changed' WHERE a = 1",
    "DELETE FROM k_none_full WHERE a IS NULL",
    "INSERT INTO k_unique VALUES (1, 'one', 'x'), (2, 'two', 'y')",
    "UPDATE k_unique SET a = 3 WHERE a = 1",
    "UPDATE k_unique SET v = 'changed' WHERE a = 3",
    "DELETE FROM k_unique WHERE a = 2",
    "INSERT INTO k_both VALUES (1, 10, 'one'), (2, 20, 'two')",
    "UPDATE k_both SET v = 'changed' WHERE id = 1",
    "UPDATE k_both SET id = 3 WHERE id = 1",
    "DELETE FROM k_both WHERE id = 2",
    "INSERT INTO k_full VALUES (1, 1, 'one'), (2, 2, NULL)",
    "UPDATE k_full SET v = 'changed' WHERE id = 1",
    "UPDATE k_full SET v = v WHERE id = 1",
    "UPDATE k_full SET id = 3 WHERE id = 1",
    "DELETE FROM k_full WHERE id = 2",
    "INSERT INTO k_nothing VALUES (1, 'one')",
    "INSERT INTO k_default VALUES (1, 1, DEFAULT, 'x', '2024-01-01', '00000000-0000-0000-0000-000000000001', '{1}'), (2, 2, 2, 'y', 'infinity', '00000000-0000-0000-0000-000000000002', '{}')",
    "UPDATE k_default SET id = 3 WHERE id = 1",
    "DELETE FROM k_default WHERE id = 2",
    "INSERT INTO k_generated (id, a) VALUES (1, 5), (2, NULL)",
    "UPDATE k_generated SET a = 7 WHERE id = 1",
    "DELETE FROM k_generated WHERE id = 2",
    "INSERT INTO k_identity (v) VALUES ('a'), ('b')",
    "INSERT INTO k_identity (id, v) OVERRIDING SYSTEM VALUE VALUES (2, 'c') ON CONFLICT (id) DO UPDATE SET v = 'd'",
    "INSERT INTO k_serial (v) VALUES ('a'), ('b')",
    "MERGE INTO k_serial t USING (VALUES (1, 'merged'), (9, 'new')) s (id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (v) VALUES (s.v)",
    'INSERT INTO "k_Mixed_Case" VALUES (1, 2, 3)',
    'UPDATE "k_Mixed_Case" SET "select" = NULL',
    "INSERT INTO k_parts VALUES (1, 'one'), (200, 'two')",
    "UPDATE k_parts SET v = 'changed'",
    "UPDATE k_parts SET id = 201 WHERE id = 1",
    "DELETE FROM k_parts WHERE id = 200",
    "INSERT INTO k_commented VALUES (1, 'one')",
    "INSERT INTO k_zone VALUES (1, '12:00+00')",
    "INSERT INTO k_zone VALUES (2, '12:00-12:34:56')",
    "INSERT INTO k_shaped VALUES (1, 'secret', 'hashed', 'a long text', '\\x00010203', 7, 'gone', 'abcdefgh'), (2, NULL, '', NULL, NULL, NULL, NULL, NULL), (3, 'ž\U0001f600', 'ž\U0001f600', 'ž\U0001f600ž\U0001f600', '', 1, '', '')",
    "UPDATE k_shaped SET gone = 'else' WHERE id = 1",
    "UPDATE k_shaped SET secret = 'other' WHERE id = 2",
    "UPDATE k_shaped SET id = 9 WHERE id = 3",
    "INSERT INTO k_rekeyed VALUES (1, 1, 'x'), (2, NULL, 'y')",
    "UPDATE k_rekeyed SET b = 'z' WHERE id = 1",
    "UPDATE k_rekeyed SET id = 5 WHERE id = 1",
    "DELETE FROM k_rekeyed WHERE id = 2",
    (f"INSERT INTO k_large SELECT 1, 1, {_LARGE.format(1)}, {_LARGE.format(2)}, convert_to({_LARGE.format(3)}, 'UTF8'), to_jsonb({_LARGE.format(4)}), ARRAY[{_LARGE.format(5)}],"
    f" (SELECT array_agg(n * 7919) FROM generate_series(1, 5000) n), ('<a>' || {_LARGE.format(6)} || '</a>')::xml, to_json({_LARGE.format(7)}), ARRAY[convert_to({_LARGE.format(8)}, 'UTF8')],"
    " (SELECT array_agg(md5(n::text)::uuid) FROM generate_series(1, 2000) n), (SELECT hstore(array_agg(md5(n::text)), array_agg(n::text)) FROM generate_series(1, 500) n),"
    f" (SELECT string_agg((n * 7919 % 10)::text, '')::numeric FROM generate_series(1, 30000) n), {_LARGE.format(9)}::citext, (SELECT array_agg(n * 7919::int8) FROM generate_series(1, 5000) n),"
    " (SELECT array_agg(date '2000-01-01' + n * 7) FROM generate_series(1, 5000) n), (SELECT array_agg(n / 7.0::float8) FROM generate_series(1, 5000) n),"
    " (SELECT array_agg(md5(n::text) < '8') FROM generate_series(1, 20000) n), (SELECT array_agg(timestamp '2000-01-01' + n * interval '7.3 s') FROM generate_series(1, 5000) n)"),
    "UPDATE k_large SET n = 2 WHERE id = 1",
    "UPDATE k_large SET n = 3, t = 'small' WHERE id = 1",
    "UPDATE k_large SET id = 2 WHERE id = 1",
    "DELETE FROM k_large WHERE id = 2",
    f"INSERT INTO k_large_full SELECT 1, 1, {_LARGE.format(1)}, convert_to({_LARGE.format(3)}, 'UTF8')",
    "UPDATE k_large_full SET n = 2 WHERE id = 1",
    "UPDATE k_large_full SET id = 2 WHERE id = 1",
    "DELETE FROM k_large_full WHERE id = 2",
    "SELECT pg_logical_emit_message(true, 'one', 'content ž')",
    "SELECT pg_logical_emit_message(false, 'two', '\\x00ff10'::bytea)",
    "SELECT pg_logical_emit_message(true, '', '')",
    "BEGIN",
    "INSERT INTO k_identity (v) VALUES ('in a transaction')",
    "SELECT pg_logical_emit_message(true, 'one', 'in a transaction')",
    "SAVEPOINT a",
    "UPDATE k_identity SET v = 'later in it' WHERE id = 2",
    "ROLLBACK TO SAVEPOINT a",
    "SAVEPOINT b",
    "INSERT INTO k_unique VALUES (7, 'of another table', 'x')",
    "RELEASE SAVEPOINT b",
    "DELETE FROM k_identity WHERE id = 1",
    "UPDATE k_unique SET a = 8 WHERE a = 7",
    "COMMIT",
    "BEGIN",
    "INSERT INTO k_identity (v) VALUES ('rolled back')",
    "ROLLBACK",
    "BEGIN",
    "INSERT INTO k_identity (v) VALUES ('before a truncation')",
    "TRUNCATE k_identity",
    "INSERT INTO k_identity (v) VALUES ('behind it')",
    "COMMIT",
    "TRUNCATE k_unique, k_serial RESTART IDENTITY CASCADE",
    "INSERT INTO k_unique VALUES (9, 'after the truncation', 'x')",
    "TRUNCATE k_parts",
    "INSERT INTO k_parts VALUES (5, 'after the truncation')",
)  # fmt: skip

DDL: tuple[tuple[str, ...], ...] = (
    ("CREATE TABLE d_one (id int NOT NULL PRIMARY KEY, a int, b varchar(10) DEFAULT 'x')", "INSERT INTO d_one VALUES (1, 1, 'a')"),
    ("ALTER TABLE d_one ADD COLUMN c numeric(8,3) NOT NULL DEFAULT 1.5", "INSERT INTO d_one VALUES (2, 2, 'b', 2.25)"),
    ("ALTER TABLE d_one ADD COLUMN mid timestamp(3)", "INSERT INTO d_one VALUES (3, 3, 'c', 3.125, '2024-01-01 00:00:00.5')"),
    ("ALTER TABLE d_one DROP COLUMN a", "UPDATE d_one SET b = 'changed' WHERE id = 1"),
    ("ALTER TABLE d_one RENAME COLUMN b TO bb", "UPDATE d_one SET bb = 'renamed' WHERE id = 2"),
    ("ALTER TABLE d_one ALTER COLUMN bb TYPE varchar(100), ALTER COLUMN bb SET NOT NULL", "INSERT INTO d_one (id) VALUES (4)"),
    ("ALTER TABLE d_one ALTER COLUMN id TYPE bigint", "INSERT INTO d_one (id) VALUES (5)"),
    ("ALTER TABLE d_one DROP CONSTRAINT d_one_pkey, ADD PRIMARY KEY (bb, id)", "INSERT INTO d_one (id, bb) VALUES (6, 'k')"),
    ("ALTER TABLE d_one RENAME TO d_renamed", "INSERT INTO d_renamed (id, bb) VALUES (7, 'r')"),
    ("DROP TABLE d_renamed", "CREATE TABLE d_one (id bigint PRIMARY KEY, other text)", "INSERT INTO d_one VALUES (1, 'anew')"),
    ("ALTER TABLE d_one DROP CONSTRAINT d_one_pkey", "INSERT INTO d_one VALUES (2, 'no key')"),
    ("CREATE TABLE d_select AS SELECT 1 AS id, 'x' AS v", "INSERT INTO d_select VALUES (2, 'y')"),
    ("CREATE TABLE d_inherits (more int) INHERITS (k_commented)", "INSERT INTO d_inherits VALUES (1, 'x', 2)"),
    ("ALTER TYPE mood ADD VALUE 'new'", "CREATE TABLE d_mood (id int PRIMARY KEY, m mood)", "INSERT INTO d_mood VALUES (1, 'new')"),
    ("CREATE UNLOGGED TABLE d_unlogged (id int PRIMARY KEY)", "INSERT INTO d_unlogged VALUES (1)"),
)  # fmt: skip
"""Steps; both connectors are behind each before the next is made, for the peer reads keys and defaults from the catalog as it is when it gets there."""

SENTINEL = "CREATE TABLE sentinel (id int NOT NULL PRIMARY KEY)"
