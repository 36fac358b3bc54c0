"""Defines a table with a column of every common type, and rows that reach the limits of each type.

The types of MySQL and MariaDB are here: nullable and NOT NULL, signed and unsigned, with and
without default, text in three character sets, fractions of 0, 3 and 6 digits. The first rows have
the extremes, the others come from a seeded generator, so that a difference can be reproduced.
Decimals stay within the 38 digits of Spark and Delta.
"""

from __future__ import annotations

import datetime as dt
import random
import uuid
from decimal import Decimal

from demo.connection import Connect
from demo.kinds import (
    LATIN1,
    NULL_CHANCE,
    TABLE,
    UNICODE,
    Kind,
    between,
    bytes_kind,
    coin,
    datetime_kind,
    decimal_kind,
    integer_kind,
    json_text,
    round_us,
    text_kind,
)
from demo.postgres import everything as postgres
from demo.statements import statements_of

ROWS_PER_INSERT = 250
DAY_US = 86_400 * 1_000_000
TIME_MAX_US = ((838 * 60 + 59) * 60 + 59) * 1_000_000


def _time_text(microseconds: int) -> str:
    """Return a TIME as SQL text.

    PyMySQL's own conversion of a negative timedelta is wrong: it borrows from the days.
    """
    seconds, rest = divmod(abs(microseconds), 1_000_000)
    return f"{'-' if microseconds < 0 else ''}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}"


def _time(name: str, digits: int) -> Kind:
    def make(dice: random.Random) -> str:
        return _time_text(round_us(dice.randint(-TIME_MAX_US, TIME_MAX_US), digits))

    tick = 10 ** (6 - digits)
    ends = tuple(_time_text(us) for us in (TIME_MAX_US, -TIME_MAX_US, 0, -tick, tick, -DAY_US))
    return Kind(name=name, type_text="time" if digits == 0 else f"time({digits})", ends=ends, make=make)


_MIDNIGHT = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a DATETIME has no zone
_DATETIMES = (dt.datetime(1000, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59))  # noqa: DTZ001
_TIMESTAMPS = (_MIDNIGHT.replace(second=1), dt.datetime(2038, 1, 19, 3, 14, 7))  # noqa: DTZ001
_LONG_TEXT = "長い文 and long text. " * 3000

KINDS: tuple[Kind, ...] = (
    *(
        integer_kind(f"{name}_s", name, bits)
        for name, bits in (("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("int", 32), ("bigint", 64))
    ),
    *(
        integer_kind(f"{name}_u", name, bits, unsigned=True)
        for name, bits in (("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("int", 32), ("bigint", 64))
    ),
    Kind(name="flag", type_text="tinyint(1)", ends=(0, 1), make=between(0, 1), nullable=False, default="1"),
    decimal_kind("decimal_18_4", 18, 4),
    decimal_kind("decimal_38_10", 38, 10),
    decimal_kind("decimal_9_0", 9, 0),
    Kind(
        name="float_c",
        type_text="float",
        ends=(0.0, 1.5, -1.5, 3.0e38, -1.0e-37, 115340.77, 16777217.0),
        make=lambda dice: dice.uniform(-1e6, 1e6),
    ),
    Kind(name="double_c", type_text="double", ends=(0.0, 0.1, -1.7e308, 2.3e-308, 1 / 3), make=lambda dice: dice.uniform(-1e15, 1e15)),
    Kind(name="bit_1", type_text="bit(1)", ends=(0, 1), make=between(0, 1)),
    Kind(name="bit_12", type_text="bit(12)", ends=(0, 1, 256, 4095), make=between(0, 4095)),
    Kind(name="bit_64", type_text="bit(64)", ends=(0, 1, 2**63, 2**64 - 1), make=between(0, 2**64 - 1)),
    Kind(name="year_c", type_text="year", ends=(1901, 2155, 1970), make=between(1901, 2155)),
    Kind(
        name="date_c",
        type_text="date",
        ends=(
            dt.date(1000, 1, 1),
            dt.date(9999, 12, 31),
            dt.date(1969, 12, 31),
            dt.date(1582, 10, 10),
            dt.date(2024, 2, 29),
        ),
        make=lambda dice: dt.date(1000, 1, 1) + dt.timedelta(days=dice.randint(0, 3_000_000)),
    ),
    *(_time(f"time_{digits}", digits) for digits in (0, 3, 6)),
    *(datetime_kind(f"datetime_{digits}", "datetime", digits, *_DATETIMES) for digits in (0, 3, 6)),
    *(datetime_kind(f"timestamp_{digits}", "timestamp", digits, *_TIMESTAMPS) for digits in (0, 3, 6)),
    text_kind("char_c", "char(10) CHARACTER SET utf8mb4", "aé漢🚀 b", 10, "🚀" * 10, "x"),
    text_kind("varchar_c", "varchar(300) CHARACTER SET utf8mb4", UNICODE, 300, "ü" * 300, "NULL"),
    text_kind("latin1_c", "varchar(50) CHARACTER SET latin1", LATIN1, 50, "ÿ" * 50),
    text_kind("ascii_c", "varchar(50) CHARACTER SET ascii", "abc XYZ 019", 50, "~" * 50),
    text_kind("tinytext_c", "tinytext CHARACTER SET utf8mb4", UNICODE, 60),
    text_kind("text_c", "text CHARACTER SET utf8mb4", UNICODE, 1000, "é" * 20_000),
    text_kind("longtext_c", "longtext CHARACTER SET utf8mb4", UNICODE, 1000, _LONG_TEXT),
    Kind(name="binary_c", type_text="binary(8)", ends=(b"", b"\x00" * 8, b"\xff" * 8, b"ab\x00"), make=lambda dice: dice.randbytes(8)),
    bytes_kind("varbinary_c", "varbinary(300)", 300, bytes(range(256)), b"\x00", b"a \x00"),
    bytes_kind("blob_c", "blob", 1000, bytes(range(256)) * 80),
    bytes_kind("mediumblob_c", "mediumblob", 1000, b"\x00\xff" * 40_000),
    Kind(
        name="enum_c",
        type_text="enum('small','medium','größer','with,comma','it''s')",
        ends=("small", "it's"),
        make=lambda dice: dice.choice(("small", "medium", "größer", "with,comma")),
    ),
    Kind(
        name="set_c",
        type_text="set('a','b','c d','é')",
        ends=("", "a,b,c d,é"),
        make=lambda dice: ",".join(member for member in ("a", "b", "c d", "é") if coin(dice)),
    ),
    Kind(name="json_c", type_text="json", ends=("null", "[]", "{}", '"text"', "-12.5", "true"), make=json_text),
    Kind(name="int_d", type_text="int", ends=(-7,), make=between(-1000, 1000), nullable=False, default="7"),
    Kind(
        name="decimal_d",
        type_text="decimal(10,2)",
        ends=(Decimal("-0.01"),),
        make=lambda dice: Decimal(dice.randint(-99999, 99999)) / 100,
        nullable=False,
        default="1.50",
    ),
    Kind(
        name="varchar_d",
        type_text="varchar(40) CHARACTER SET utf8mb4",
        ends=("",),
        make=lambda dice: f"v{dice.randint(0, 999)}",
        nullable=False,
        default="'dé''fault'",
    ),
    Kind(name="nullable_d", type_text="int", ends=(0,), make=between(-5, 5), default="42"),
    Kind(name="enum_d", type_text="enum('x','y')", ends=("x",), make=lambda dice: dice.choice("xy"), nullable=False, default="'y'"),
    Kind(
        name="timestamp_d",
        type_text="timestamp",
        ends=(_TIMESTAMPS[1],),
        make=lambda dice: _MIDNIGHT + dt.timedelta(days=dice.randint(1, 20_000)),
        nullable=False,
        default="CURRENT_TIMESTAMP",
    ),
    Kind(
        name="datetime_d",
        type_text="datetime(3)",
        ends=(_DATETIMES[0],),
        make=lambda dice: _MIDNIGHT + dt.timedelta(seconds=dice.randint(1, 10**9)),
        nullable=False,
        default="'2001-02-03 04:05:06.789'",
    ),
)
"""Columns that both servers have; ``id`` precedes them."""

MARIADB_KINDS: tuple[Kind, ...] = (
    Kind(
        name="uuid_c",
        type_text="uuid",
        ends=("00000000-0000-0000-0000-000000000000",),
        make=lambda dice: str(uuid.UUID(int=dice.getrandbits(128), version=4)),
    ),
)


def kinds(flavor: str) -> tuple[Kind, ...]:
    """Return the columns of the table on this server."""
    if flavor == "postgres":
        return postgres.KINDS
    return KINDS + MARIADB_KINDS if flavor == "mariadb" else KINDS


def create_everything(database: str, *, flavor: str) -> str:
    """Return CREATE TABLE with a generated column at the end, whose values the log contains."""
    if flavor == "postgres":
        return postgres.create(database)
    columns = ", ".join(kind.definition for kind in kinds(flavor))
    generated = "twice bigint GENERATED ALWAYS AS (int_d * 2) STORED"
    return f"CREATE TABLE {database}.{TABLE} (id bigint NOT NULL AUTO_INCREMENT, {columns}, {generated}, PRIMARY KEY (id)) ENGINE=InnoDB"


def random_row(dice: random.Random, *, flavor: str) -> dict[str, object]:
    """Return random values by column.

    A column with a default is sometimes omitted for the server to fill.
    """
    return {kind.name: kind.value(dice) for kind in kinds(flavor) if kind.default is None or dice.random() > NULL_CHANCE}


def extreme_rows(*, flavor: str) -> list[dict[str, object]]:
    """Return rows with every limit of every type, one with NULLs, and one with defaults only."""
    all_kinds = kinds(flavor)
    depth = max(len(kind.ends) for kind in all_kinds)
    rows: list[dict[str, object]] = [{kind.name: kind.ends[at % len(kind.ends)] for kind in all_kinds} for at in range(depth)]
    rows.append({kind.name: None for kind in all_kinds if kind.nullable})
    rows.append({all_kinds[0].name: 0})
    return rows


def insert_text(database: str, names: list[str], rows: int) -> str:
    """Return a multi-row INSERT with a placeholder for each value."""
    row = f"({', '.join(['%s'] * len(names))})"
    return f"INSERT INTO {database}.{TABLE} ({', '.join(names)}) VALUES {', '.join([row] * rows)}"


def fill_everything(connect: Connect, *, rows: int, database: str, flavor: str, seed: int = 1) -> None:
    """Insert the extreme rows and then random rows, many in each statement."""
    dice = random.Random(seed)
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(statements_of(flavor).in_utc)
        for row in extreme_rows(flavor=flavor):
            cursor.execute(insert_text(database, list(row), 1), list(row.values()))
        names = [kind.name for kind in kinds(flavor)]
        for start in range(0, rows, ROWS_PER_INSERT):
            count = min(ROWS_PER_INSERT, rows - start)
            values = [kind.value(dice) for _ in range(count) for kind in kinds(flavor)]
            cursor.execute(insert_text(database, names, count), values)
        connection.commit()
