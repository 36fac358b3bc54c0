"""Defines a column of the table ``everything`` on any server: type, extreme values, generator."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

TABLE = "everything"
Make = Callable[[random.Random], object]
NULL_CHANCE = 0.15

UNICODE = "aZ09 äöüß éèñ Ωж 漢字かな 🚀👩‍👩‍👧 \t\n'\"\\%_ \u200b\u00ad"
LATIN1 = "aZ09 äöüßéèñ£¥©÷ÿ'\"\\%_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A column with its type, extreme values, and a generator of values in between."""

    name: str
    type_text: str
    ends: tuple[object, ...]
    make: Make
    nullable: bool = True
    default: str | None = None

    @property
    def definition(self) -> str:
        """Column definition in CREATE TABLE."""
        null = "NULL" if self.nullable else "NOT NULL"
        return f"{self.name} {self.type_text} {null}{'' if self.default is None else f' DEFAULT {self.default}'}"

    def value(self, dice: random.Random) -> object:
        """Return a value for one row."""
        if self.nullable and dice.random() < NULL_CHANCE:
            return None
        return dice.choice(self.ends) if dice.random() < NULL_CHANCE else self.make(dice)


def coin(dice: random.Random) -> bool:
    """Return True in half of the calls."""
    return dice.getrandbits(1) == 1


def between(low: int, high: int) -> Make:
    """Return a generator of whole numbers, both ends included."""
    return lambda dice: dice.randint(low, high)


def integer_kind(name: str, type_text: str, bits: int, *, unsigned: bool = False) -> Kind:
    """Return a column of whole numbers."""
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return Kind(name=name, type_text=f"{type_text} unsigned" if unsigned else type_text, ends=(low, high, 0, 1), make=between(low, high))


def decimal_kind(name: str, digits: int, scale: int) -> Kind:
    """Return a column of exact numbers."""
    high = 10**digits - 1

    def exact(units: int) -> Decimal:
        return Decimal(f"{units}E-{scale}")  # arithmetic would round to the context's 28 digits

    ends = tuple(exact(units) for units in (high, -high, 1, -1, 0))
    return Kind(name=name, type_text=f"decimal({digits},{scale})", ends=ends, make=lambda dice: exact(dice.randint(-high, high)))


def text_kind(name: str, type_text: str, alphabet: str, length_max: int, *ends: str) -> Kind:
    """Return a column of texts."""

    def make(dice: random.Random) -> str:
        return "".join(dice.choices(alphabet, k=dice.randint(0, min(length_max, 40)))).rstrip(
            " "
        )  # CHAR loses trailing spaces on the way in

    return Kind(name=name, type_text=type_text, ends=("", *ends), make=make)


def bytes_kind(name: str, type_text: str, length_max: int, *ends: bytes) -> Kind:
    """Return a column of bytes."""
    return Kind(name=name, type_text=type_text, ends=(b"", *ends), make=lambda dice: dice.randbytes(dice.randint(0, min(length_max, 40))))


def round_us(microseconds: int, digits: int) -> int:
    """Round down to the column's precision, so that the written value is the stored one."""
    step = int(10 ** (6 - digits))
    return microseconds // step * step


def datetime_kind(name: str, type_text: str, digits: int, low: dt.datetime, high: dt.datetime) -> Kind:
    """Return a column of moments with ``digits`` fractional digits."""
    span = int((high - low).total_seconds()) - 1

    def make(dice: random.Random) -> dt.datetime:
        return low + dt.timedelta(seconds=dice.randint(0, span), microseconds=round_us(dice.randint(0, 999_999), digits))

    top = high.replace(microsecond=round_us(999_999, digits))
    return Kind(name=name, type_text=type_text if digits == 0 else f"{type_text}({digits})", ends=(low, top), make=make)


def json_text(dice: random.Random) -> str:
    """Return a random JSON document."""
    return json.dumps(
        {
            "n": dice.randint(-(2**53), 2**53),
            "text": "".join(dice.choices(UNICODE, k=8)),
            "list": [coin(dice), None, dice.randint(0, 9) / 8],
            "deep": {"a": {"b": [1, [2, []]]}},
        },
        ensure_ascii=coin(dice),
    )
