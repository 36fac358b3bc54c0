"""How a target table follows its source's columns: explicit ALTERs before the write, and a clear stop where Delta cannot follow.

Column added: added. Column dropped: kept, NULL in every row written from then on. Type widened: widened where Delta's type widening can
(delta-sink.md 2.4), else the job stops and names table, column and types; no value is ever silently cast to a narrower type. A writer
with an older, narrower type (a late dump row) is cast up. DDL runs in the table's own turn, never beside a write of that table.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import types as t

from dblog_sink.decode import Columns
from dblog_sink.errors import DefiniteError
from dblog_sink.types import DECIMAL_DIGITS_MAX, quote

_INTEGERS: tuple[type[t.DataType], ...] = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_DIGITS: dict[type[t.DataType], int] = {t.ByteType: 10, t.ShortType: 10, t.IntegerType: 10, t.LongType: 20}
"""Digits a decimal needs to hold the integer type, as Delta's type widening counts them (TypeWidening.isTypeChangeSupported)."""


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A column that the target lacks."""

    name: str
    type: t.DataType


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """A column whose type must grow."""

    name: str
    type: t.DataType


Change = AddColumn | WidenColumn


def wider(target: t.DataType, incoming: t.DataType) -> t.DataType | None:
    """The narrowest type that holds both and that Delta can widen ``target`` to; None if there is none."""
    if target == incoming:
        return target
    match target, incoming:
        case t.DecimalType(), t.DecimalType():
            scale = max(target.scale, incoming.scale)
            whole = max(target.precision - target.scale, incoming.precision - incoming.scale)
            return t.DecimalType(whole + scale, scale) if whole + scale <= DECIMAL_DIGITS_MAX else None
        case t.FloatType(), t.DoubleType():
            return incoming
        case t.DoubleType(), t.FloatType():
            return target
        case t.DateType(), t.TimestampNTZType():
            return incoming
        case t.TimestampNTZType(), t.DateType():
            return target
    if isinstance(target, _INTEGERS):
        if isinstance(incoming, _INTEGERS):
            return max(target, incoming, key=lambda kind: _INTEGERS.index(type(kind)))
        if isinstance(incoming, t.BooleanType):
            return target  # tinyint(1) read from SHOW CREATE or from the DDL text: debezium.md 2.3, BOOLEAN
        if isinstance(incoming, t.DecimalType):
            whole = max(_DIGITS[type(target)], incoming.precision - incoming.scale)
            return t.DecimalType(whole + incoming.scale, incoming.scale) if whole + incoming.scale <= DECIMAL_DIGITS_MAX else None
        if isinstance(incoming, t.DoubleType | t.FloatType) and not isinstance(target, t.LongType):
            return t.DoubleType()
    if isinstance(incoming, _INTEGERS):
        if isinstance(target, t.DecimalType):
            whole = max(_DIGITS[type(incoming)], target.precision - target.scale)
            return t.DecimalType(whole + target.scale, target.scale) if whole + target.scale <= DECIMAL_DIGITS_MAX else None
        if isinstance(target, t.DoubleType) and not isinstance(incoming, t.LongType):
            return target
    return None


def changes(table: str, target: Columns, incoming: Columns) -> list[Change]:
    """What must be altered so that ``target`` can hold ``incoming``; raises DefiniteError where nothing can be done."""
    by_name = {name.lower(): (name, kind) for name, kind in target}
    needed: list[Change] = []
    for name, kind in incoming:
        present = by_name.get(name.lower())
        if present is None:
            needed.append(AddColumn(name, kind))
            by_name[name.lower()] = (name, kind)
            continue
        grown = wider(present[1], kind)
        if grown is None:
            msg = (
                f"{table}, column {present[0]}: its type in the source became {kind.simpleString()}, and the Delta table's "
                f"{present[1].simpleString()} cannot be widened to it; rename or drop the column in the Delta table, or move the table away and dump it again"
            )
            raise DefiniteError(msg)
        if grown != present[1]:
            needed.append(WidenColumn(present[0], grown))
            by_name[name.lower()] = (present[0], grown)
    return needed


def apply(session: SparkSession, path: str, needed: list[Change]) -> None:
    """Alter the Delta table at ``path``."""
    added = [change for change in needed if isinstance(change, AddColumn)]
    widened = {change.name: change for change in needed if isinstance(change, WidenColumn)}
    target = f"delta.{quote(path)}"
    if added:
        columns = ", ".join(f"{quote(change.name)} {change.type.simpleString()}" for change in added)
        session.sql(f"ALTER TABLE {target} ADD COLUMNS ({columns})")
    if widened:
        # Switched on only when it is needed: a table that never widened stays readable by readers without the feature.
        session.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    for change in widened.values():
        session.sql(f"ALTER TABLE {target} ALTER COLUMN {quote(change.name)} TYPE {change.type.simpleString()}")
