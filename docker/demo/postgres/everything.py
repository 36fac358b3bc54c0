"""Defines the table ``everything`` in PostgreSQL: every common type, and TOASTed values.

Long texts and bytes are stored apart from their row (TOAST).
"""

from __future__ import annotations

import datetime as dt
import random
import uuid
from decimal import Decimal

from demo.kinds import (
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

SIZES = ("'small'", "'medium'", "'größer'", "'with,comma'", "'it''s'")
_MIDNIGHT = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a timestamp has no zone
_TIMESTAMPS = (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59))  # noqa: DTZ001
_LONG_TEXT = "".join(random.Random(1).choices(UNICODE, k=20_000))
"""Text that is too long to stay in a row, even compressed."""


def _moment(digits: int | None) -> Kind:
    """Return a timestamptz column; the session's zone is UTC."""
    low, high = (at.replace(tzinfo=dt.UTC) for at in (_MIDNIGHT, _TIMESTAMPS[1]))

    def make(dice: random.Random) -> dt.datetime:
        return low + dt.timedelta(
            seconds=dice.randint(0, 10**10), microseconds=round_us(dice.randint(0, 999_999), 6 if digits is None else digits)
        )

    name = "timestamptz_c" if digits is None else f"timestamptz_{digits}"
    return Kind(name=name, type_text="timestamptz" if digits is None else f"timestamptz({digits})", ends=(low, high), make=make)


def _time(dice: random.Random) -> dt.time:
    return dt.time(dice.randint(0, 23), dice.randint(0, 59), dice.randint(0, 59), dice.randint(0, 999_999))


def _bits(count: int) -> Kind:
    ends = ("0" * count, "1" * count, "0" * (count - 1) + "1")
    return Kind(name=f"bit_{count}", type_text=f"bit({count})", ends=ends, make=lambda dice: f"{dice.getrandbits(count):0{count}b}")


KINDS: tuple[Kind, ...] = (
    *(integer_kind(f"{name}_c", name, bits) for name, bits in (("smallint", 16), ("int", 32), ("bigint", 64))),
    Kind(name="flag", type_text="boolean", ends=(False, True), make=coin, nullable=False, default="true"),
    Kind(name="bool_c", type_text="boolean", ends=(False, True), make=coin),
    decimal_kind("decimal_18_4", 18, 4),
    decimal_kind("decimal_38_10", 38, 10),
    decimal_kind("decimal_9_0", 9, 0),
    Kind(
        name="numeric_c",
        type_text="numeric",
        ends=(Decimal(0), Decimal("-0.00001"), Decimal("9" * 60 + ".5"), Decimal("1E+20")),
        make=lambda dice: Decimal(dice.randint(-(10**12), 10**12)).scaleb(-dice.randint(0, 9)),
    ),
    Kind(name="real_c", type_text="real", ends=(0.0, 1.5, -1.5, 3.0e38, 115340.77, 16777217.0), make=lambda dice: dice.uniform(-1e6, 1e6)),
    Kind(
        name="double_c",
        type_text="double precision",
        ends=(0.0, 0.1, -1.7e308, 2.3e-308, 1 / 3),
        make=lambda dice: dice.uniform(-1e15, 1e15),
    ),
    Kind(
        name="money_c",
        type_text="money",
        ends=("0", "-0.01", "92233720368547758.07"),
        make=lambda dice: f"{dice.randint(-99999, 99999) / 100:.2f}",
    ),
    _bits(1),
    _bits(12),
    Kind(name="varbit_c", type_text="varbit(20)", ends=("", "1", "00000000001"), make=lambda dice: f"{dice.getrandbits(15):b}"),
    Kind(
        name="date_c",
        type_text="date",
        ends=(dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), dt.date(1582, 10, 10), dt.date(2024, 2, 29)),
        make=lambda dice: dt.date(1000, 1, 1) + dt.timedelta(days=dice.randint(0, 3_000_000)),
    ),
    Kind(name="time_c", type_text="time", ends=(dt.time(0), dt.time(23, 59, 59, 999_999)), make=_time),
    Kind(
        name="time_3",
        type_text="time(3)",
        ends=(dt.time(0), dt.time(23, 59, 59, 999_000)),
        make=lambda dice: _time(dice).replace(microsecond=0),
    ),
    *(
        datetime_kind(f"timestamp_{digits}", f"timestamp({digits})" if digits == 0 else "timestamp", digits, *_TIMESTAMPS)
        for digits in (0, 3, 6)
    ),
    _moment(None),
    _moment(3),
    Kind(
        name="interval_c",
        type_text="interval",
        # Debezium computes an interval's length in doubles, so other fractions may lose a
        # microsecond.
        ends=(dt.timedelta(0), dt.timedelta(days=-1, milliseconds=250), dt.timedelta(days=20_000)),
        make=lambda dice: dt.timedelta(days=dice.randint(-999, 999), milliseconds=250 * dice.randint(0, 10**5)),
    ),
    text_kind("char_c", "char(10)", "aé漢🚀 b", 10, "🚀" * 10, "x"),
    text_kind("varchar_c", "varchar(300)", UNICODE, 300, "ü" * 300, "NULL"),
    text_kind("text_c", "text", UNICODE, 1000, _LONG_TEXT, _LONG_TEXT[::-1]),
    text_kind("another_text_c", "text", UNICODE, 1000, _LONG_TEXT),
    bytes_kind("bytea_c", "bytea", 1000, bytes(range(256)), random.Random(2).randbytes(9_000)),
    Kind(
        name="uuid_c",
        type_text="uuid",
        ends=(str(uuid.UUID(int=0)),),
        make=lambda dice: str(uuid.UUID(int=dice.getrandbits(128), version=4)),
    ),
    Kind(name="json_c", type_text="json", ends=("null", "[]", "{}", '"text"', "-12.5", "true"), make=json_text),
    Kind(name="jsonb_c", type_text="jsonb", ends=("null", "[]", "{}", '"text"', "-12.5", "true"), make=json_text),
    Kind(
        name="enum_c",
        type_text="{schema}.everything_size",
        ends=("small", "it's"),
        make=lambda dice: dice.choice(("small", "medium", "größer", "with,comma")),
    ),
    Kind(
        name="inet_c", type_text="inet", ends=("::1", "10.0.0.0/8"), make=lambda dice: f"10.{dice.randint(0, 255)}.{dice.randint(0, 255)}.1"
    ),
    Kind(name="range_c", type_text="int4range", ends=("empty", "(,)"), make=lambda dice: f"[{dice.randint(0, 9)},{dice.randint(10, 99)})"),
    Kind(
        name="point_c",
        type_text="point",
        ends=("(0,0)", "(-180,90)"),
        make=lambda dice: f"({dice.uniform(-180, 180)!r},{dice.uniform(-90, 90)!r})",
    ),
    Kind(
        name="ints_c",
        type_text="int[]",
        ends=([], [None, 1], [-(2**31), 2**31 - 1]),
        make=lambda dice: [dice.randint(-9, 9) for _ in range(dice.randint(1, 5))],
    ),
    Kind(
        name="texts_c",
        type_text="text[]",
        ends=([], [None, "NULL", ""]),
        make=lambda dice: ["".join(dice.choices(UNICODE, k=3)) for _ in range(dice.randint(1, 3))],
    ),
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
        type_text="varchar(40)",
        ends=("",),
        make=lambda dice: f"v{dice.randint(0, 999)}",
        nullable=False,
        default="'dé''fault'",
    ),
    Kind(name="nullable_d", type_text="int", ends=(0,), make=between(-5, 5), default="42"),
    Kind(
        name="moment_d",
        type_text="timestamptz",
        ends=(_MIDNIGHT.replace(tzinfo=dt.UTC),),
        make=lambda dice: _MIDNIGHT.replace(tzinfo=dt.UTC) + dt.timedelta(days=dice.randint(1, 20_000)),
        nullable=False,
        default="now()",
    ),
)
"""Columns of the table; ``id`` precedes them."""


def create(schema: str) -> str:
    """Return CREATE TABLE, preceded by the type that it needs."""
    columns = ", ".join(kind.definition.format(schema=schema) for kind in KINDS)
    return (
        f"CREATE TYPE {schema}.everything_size AS ENUM ({', '.join(SIZES)});"
        f" CREATE TABLE {schema}.{TABLE} (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, {columns})"
    )
