"""Defaults whose bytes are in doubt have none. What the others are is asked of the servers: integration/test_row_images.py."""

from __future__ import annotations

import random
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from dblog.codecs.plan import Source
from dblog.dialects.mysql.binlog.row_image import Layout
from dblog.dialects.mysql.values.decimals import decimal_packed, packed_decimal, packed_size
from dblog.dialects.mysql.values.default_field import default_field


def field(
    source: Source,
    text: str | None,
    *,
    size: int = 4,
    prefix: int = 0,
    nullable: bool = False,
    expression: bool = False,
    charset: str = "utf8mb4",
    members: tuple[str, ...] = (),
    scale: int | None = None,
) -> bytes | None:
    column: Any = SimpleNamespace(source=source, charset=charset, members=members, compressed=False, length=0, scale=0)
    declared: Any = SimpleNamespace(
        default=text,
        has_default=text is not None,
        nullable=nullable,
        generated=False,
        default_is_expression=expression,
        unsigned=False,
        scale=scale,
    )
    return default_field(column, declared, Layout(prefix, size))


@pytest.mark.parametrize(
    ("source", "text", "more"),
    [
        (Source.INT32, "now", {}),
        (Source.INT32, "5", {"expression": True}),
        (Source.INT8, "128", {"size": 1}),
        (Source.FLOAT, "1.23457", {"scale": 5}),
        (Source.FLOAT, "1.5", {}),
        (Source.FLOAT, "1e39", {}),
        (Source.TEXT, "what?", {"prefix": 1}),
        (Source.TEXT, "\u00e4", {"prefix": 1, "charset": "latin2"}),
        (Source.TEXT, "a", {"prefix": 1, "charset": "utf16"}),
        (Source.BINARY, "plain", {"prefix": 1}),
        (Source.ENUM, "?", {"size": 1, "members": ("a", "?", "?")}),
        (Source.ENUM, "?", {"size": 1, "members": ("?", "\U0001f600")}),
        (Source.SET, "a", {"size": 1, "members": ("", "a")}),
        (Source.ENUM, "c", {"size": 1, "members": ("a", "b")}),
        (Source.SET, "a,?", {"size": 1, "members": ("a", "?", "?")}),
        (Source.DATE, "20200101", {"size": 3}),
        (Source.TIMESTAMP, "2020-00-01 00:00:00", {}),
        (Source.TIMESTAMP, "1969-12-31 00:00:00", {}),
        (Source.BIT, "5", {"size": 1}),
        (Source.JSON, None, {"prefix": 4, "size": 0}),
        (Source.UUID, "0-0", {"prefix": 1, "size": 0}),
        (Source.DECIMAL, "1.5", {}),
    ],
)
def test_a_default_in_doubt_has_no_field(source: Source, text: str | None, more: dict[str, Any]) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        field(source, text, **more)


def test_question_marks_are_themselves_where_the_catalog_can_show_every_character() -> None:
    assert field(Source.TEXT, "what?", prefix=1, charset="latin1") == b"\x05what?"
    assert field(Source.ENUM, "?", size=1, members=("a", "?")) == b"\x02"


def test_a_column_without_a_default_is_null_or_the_zero_of_its_type() -> None:
    assert field(Source.INT32, None, nullable=True) is None
    assert field(Source.INT32, None) == bytes(4)
    assert field(Source.ENUM, None, size=2, members=("a",)) == b"\x01\x00"
    assert field(Source.TEXT, None, prefix=2, size=0) == bytes(2)
    assert field(Source.DATETIME, None, size=5) == b"\x80" + bytes(4)


def test_a_packed_decimal_of_any_width_is_read_again() -> None:
    dice = random.Random(1)
    for precision in range(1, 66):
        for scale in range(min(precision, 30) + 1):
            for value in {0, 1, -1, 10**precision - 1, 1 - 10**precision, dice.randrange(10**precision), -dice.randrange(10**precision)}:
                packed = decimal_packed(value, precision, scale)
                assert (packed_decimal(packed, precision, scale), len(packed)) == (value, packed_size(precision, scale)), Decimal(value)
    with pytest.raises(ValueError, match=r"more digits than DECIMAL\(3,0\)"):
        decimal_packed(1000, 3, 0)
