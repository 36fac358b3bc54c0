"""Plans how a target table follows its source's columns, and alters it.

``planned`` is pure. From the target's columns, the fields of every schema id in a set of records,
and the table's policy it derives the changes of the target and, for each schema id, the column of
each field. Nothing is cast silently: either a value is preserved, or its record goes to quarantine,
or the table stops with an error that names table, column and types.

| change in the source | evolve | lenient | ignore | fail |
|---|---|---|---|---|
| column added | added; older rows get its default | the same | left out | stops |
| column dropped | kept, NULL from then on; or dropped (evolution.drop) | kept | kept | stops |
| column renamed | renamed if the source reports it, else added and the old one kept | the same | left out | stops |
| type widened | widened (Delta's type widening) | the same | cast, or quarantine | stops |
| type otherwise changed | evolution.incompatible: stops, <column>__v2, or cast, or quarantine | <column>__v2 | cast, or quarantine | stops |

Values of an older, narrower type, such as those of a late dump row, are cast up. A key column can
only be widened. Columns are matched by name, regardless of order and letter case, and every column
is nullable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql import types as t

from dblog_sink.errors import DefiniteError
from dblog_sink.schema.types import DECIMAL_DIGITS_MAX, Columns, Conversion, orderable, quote, type_sql
from dblog_sink.schema.writer_schemas import Field

_INTEGERS: tuple[type[t.DataType], ...] = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_DIGITS: dict[type[t.DataType], int] = {t.ByteType: 10, t.ShortType: 10, t.IntegerType: 10, t.LongType: 20}
"""Decimal digits that hold each integer type, as Delta's type widening counts them
(TypeWidening.isTypeChangeSupported).
"""


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A column that the target lacks. ``fill`` is SQL of the value for existing rows, None for
    NULL.
    """

    name: str
    type: t.DataType
    fill: str | None = None


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """A column whose type must grow."""

    name: str
    type: t.DataType


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column that the source no longer has."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A column with a new name in the source."""

    name: str
    to: str


Change = AddColumn | WidenColumn | DropColumn | RenameColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The changes that are allowed for a target, as chosen by ``tables.TABLE_OPTIONS``."""

    evolution: str = "evolve"
    drop: str = "keep"
    incompatible: str = "fail"
    fill: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The changes of the target and the column of each field, so that all records can be
    written.
    """

    changes: tuple[Change, ...]
    columns: Columns
    """Columns of the target after the changes."""
    fields: Mapping[int, tuple[Field, ...]]
    """Schema id to its fields, in the order of schema ids. Each field has the name of its column
    and converts to a type that the column holds.
    """
    renamed: str | None = None
    """Key of the last statement whose renames the table then has (``tables/schema_changes.py``);
    None if it does not change.
    """
    shown: Mapping[int, str] | None = None
    """Schema id to the statement that precedes it and all later ids, for new findings only."""


def wider(target: t.DataType, incoming: t.DataType) -> t.DataType | None:
    """Return the narrowest type that holds both and to which Delta can widen ``target``, or
    None.
    """
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
            # A tinyint(1) read from SHOW CREATE or from the DDL text: Debezium's manual, "MySQL
            # connector", Boolean values.
            return target
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
    """Return the changes that let ``target`` hold ``incoming``. Raise DefiniteError if none do."""
    fields = [Field(name, Conversion(kind, None)) for name, kind in incoming]
    return list(planned(table, target, {0: fields}, Policy()).changes)


def planned(
    table: str,
    target: Columns,
    versions: Mapping[int, Sequence[Field]],
    policy: Policy,
    *,
    keys: frozenset[str] = frozenset(),
    key_fields: Sequence[Field] = (),
    newest: int = -1,
    partial: Collection[int] = (),
) -> Plan:
    """Plan the changes that let ``target`` hold every version.

    An empty ``target`` is a table to be created. ``keys`` has the lower-case names of key columns,
    ``key_fields`` the fields of record keys. ``newest`` is the highest schema id that the target
    has seen; an older one does not restore a dropped column. ``partial`` has schema ids of records
    with some columns only, whose missing columns prove nothing. Renames have been followed before
    (``renamings.py``). Raise DefiniteError if the policy forbids every solution.
    """
    columns = {name.lower(): (name, kind) for name, kind in target}
    changes: dict[tuple[str, str], Change] = {}
    fields_of_columns: dict[int, tuple[Field, ...]] = {}
    fresh = not target
    order = list(versions)
    whole = {number: fields for number, fields in versions.items() if number not in partial}
    last = max(whole, default=-1)
    for schema_id in order:
        fields = []
        for field in versions[schema_id]:
            late = policy.drop == "drop" and schema_id < newest and field.name.lower() not in columns
            if late:
                continue
            done = _assign_column(table, field, columns, changes, policy, fresh=fresh, is_key=field.name.lower() in keys)
            if done is not None:
                fields.append(done)
        fields_of_columns[schema_id] = tuple(fields)
    for field in key_fields:
        _assign_column(table, field, columns, changes, policy, fresh=fresh, is_key=True)
    # Schemas in JSON have no order.
    if not fresh and last >= max(newest, 0):
        _drops(table, columns, versions[last], fields_of_columns[last], changes, policy, keys)
    return Plan(changes=tuple(changes.values()), columns=tuple(columns.values()), fields=fields_of_columns)


def _assign_column(
    table: str,
    field: Field,
    columns: dict[str, tuple[str, t.DataType]],
    changes: dict[tuple[str, str], Change],
    policy: Policy,
    *,
    fresh: bool,
    is_key: bool,
) -> Field | None:
    """Return the field with the name of its column, which is added or widened if necessary.

    Return None if the field is left out.
    """
    kind = field.conversion.type
    if is_key and not orderable(kind):
        msg = (
            f"{table}, column {field.name}: it is a key column of type {kind.simpleString()}, whose values cannot be compared; set "
            "hstore.handling.mode=json in the connector (table.<rule>.json.type=string for JSON), or choose other columns with message.key.columns"
        )
        raise DefiniteError(msg)
    present = columns.get(field.name.lower())
    if present is None:
        if not fresh and policy.evolution == "ignore":
            return None
        if not fresh and policy.evolution == "fail":
            msg = f"{table}: the source has a new column {field.name}, and table.<rule>.evolution=fail; {_ALLOW}"
            raise DefiniteError(msg)
        columns[field.name.lower()] = (field.name, kind)
        if not fresh:
            fill = field.fill if policy.fill == "default" else None
            changes["add", field.name] = AddColumn(field.name, kind, fill)
        return field
    name, held = present
    field = of_column(field, held)
    kind = field.conversion.type
    if policy.evolution == "ignore" and not fresh and not is_key:
        return replace(field, name=name, source=field.member, conversion=_cast(table, field, held))
    grown = wider(held, kind) or (wider(kind, held) if fresh else None)
    if grown is not None:
        if grown != held:
            if policy.evolution == "fail" and not fresh:
                msg = (
                    f"{table}, column {name}: its type in the source became {kind.simpleString()}, the Delta table has {held.simpleString()}, "
                    f"and table.<rule>.evolution=fail; {_ALLOW}"
                )
                raise DefiniteError(msg)
            columns[name.lower()] = (name, grown)
            if not fresh:
                changes["widen", name] = WidenColumn(name, grown)
        return field
    if is_key or policy.evolution == "fail" or policy.incompatible == "fail":
        msg = (
            f"{table}, column {name}: its type in the source became {kind.simpleString()}, and the Delta table's "
            f"{held.simpleString()} cannot be widened to it; "
            + (
                "it is a key column: move the table away and dump it again"
                if is_key
                else "set table.<rule>.evolution.incompatible to column or quarantine, rename or drop the column in the Delta table, "
                "or move the table away and dump it again"
            )
        )
        raise DefiniteError(msg)
    if policy.incompatible == "quarantine":
        return replace(field, name=name, source=field.member, conversion=_cast(table, field, held))
    other = next((c for c in _versions_of(name, columns) if wider(columns[c][1], kind) is not None), None)
    fresh_name = f"{name}__v{2 + sum(1 for _ in _versions_of(name, columns))}"
    second = replace(field, name=fresh_name if other is None else columns[other][0], source=field.member, fill=None)
    return _assign_column(table, second, columns, changes, policy, fresh=fresh, is_key=False)


def swapped(target: Columns, order: Sequence[str], versions: Mapping[int, Sequence[Field]], plan: Plan) -> bool:
    """Return True if columns may have been renamed.

    That is so if a column is added while another is missing, if an added column is not the last, or
    if the remaining ones are in another order than ``order``.
    """
    if not versions:
        return False
    newest = [field.name.lower() for field in versions[max(versions)]]
    added = {change.name.lower() for change in plan.changes if isinstance(change, AddColumn)}
    if added and any(name.lower() not in newest for name, _ in target):
        return True
    before = [name.lower() for name in order]
    staying = [name for name in newest if name in before]
    # RENAME a TO a_old, ADD a: the name a_old is new, but stands in the place of the old column;
    # the column with the known name is the new one.
    early = bool(staying) and any(name in added for name in newest[: newest.index(staying[-1])])
    return early or staying != [name for name in before if name in newest]


def of_column(field: Field, held: t.DataType) -> Field:
    """Return the field with the conversion that suits its column's type.

    A decimal that is text by default stays a decimal, or a struct, if the table has it so.
    """
    bounded = field.conversion.bounded
    return replace(field, conversion=bounded) if bounded is not None and isinstance(held, type(bounded.type)) else field


_ALLOW = "to let the change through, set it to evolve, lenient or ignore"


def _versions_of(name: str, columns: Mapping[str, tuple[str, t.DataType]]) -> Iterable[str]:
    pattern = re.compile(re.escape(name.lower()) + r"__v\d+")
    return (column for column in columns if pattern.fullmatch(column))


def _is_version(name: str, present: Collection[str]) -> bool:
    """Return True if the column holds an earlier type of a present column (``<column>__v2``)."""
    match = re.fullmatch(r"(.+)__v\d+", name)
    return match is not None and match[1] in present


def _cast(table: str, field: Field, held: t.DataType) -> Conversion:
    """Return a conversion to the column's type that fails for values that the cast would change.

    Records with such values go to quarantine.
    """
    made = field.conversion
    if made.type == held:
        return made
    if isinstance(made.type, _UNCASTABLE) or isinstance(held, _UNCASTABLE):
        msg = (
            f"{table}, column {field.name}: its type in the source became {made.type.simpleString()}, which cannot be cast to {held.simpleString()}; "
            "set table.<rule>.evolution.incompatible=column"
        )
        raise DefiniteError(msg)

    def sql(path: str) -> str:
        return f"try_cast({made.convert(path)} AS {type_sql(held)})"

    def failed(path: str) -> str:
        value = made.convert(path)
        # A text can write one number in several ways ('01' is 1). A value of another type must
        # survive the cast both ways.
        same = "false" if isinstance(made.type, t.StringType) else f"NOT (try_cast({sql(path)} AS {type_sql(made.type)}) <=> {value})"
        already = f" OR {made.failed(path)}" if made.failed is not None else ""
        return f"(({value} IS NOT NULL AND ({sql(path)} IS NULL OR {same})){already})"

    return Conversion(held, made.avro, sql, failed)


_UNCASTABLE = (t.StructType, t.ArrayType, t.MapType, t.VariantType, t.BinaryType)


def _drops(
    table: str,
    columns: dict[str, tuple[str, t.DataType]],
    newest: Sequence[Field],
    fields_of_columns: Sequence[Field],
    changes: dict[tuple[str, str], Change],
    policy: Policy,
    keys: frozenset[str],
) -> None:
    present = {field.name.lower() for field in fields_of_columns} | {field.name.lower() for field in newest}
    absent = [
        name for lower, (name, _) in columns.items() if lower not in present and lower not in keys and not _is_version(lower, present)
    ]
    if not absent:
        return
    if policy.evolution == "fail":
        msg = f"{table}: the source has no column {', '.join(absent)} any more, and table.<rule>.evolution=fail; {_ALLOW}"
        raise DefiniteError(msg)
    if policy.evolution == "evolve" and policy.drop == "drop":
        for name in absent:
            del columns[name.lower()]
            changes["drop", name] = DropColumn(name)


MAPPED = ("delta.columnMapping.mode", "name")
"""Table property that decouples column names from the names in data files."""


def needs_mapping(name: str, kind: t.DataType) -> bool:
    """Return True if a file cannot have a column of this name and type.

    Members of structs count too (Delta: DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES).
    """
    return re.search(r"[ ,;{}()\n\t=]", name) is not None or any(needs_mapping(*member) for member in _members(kind))


def _members(kind: t.DataType) -> Iterator[tuple[str, t.DataType]]:
    """Yield the members of the structs in a type."""
    match kind:
        case t.ArrayType():
            yield from _members(kind.elementType)
        case t.MapType():
            yield from _members(kind.keyType)
            yield from _members(kind.valueType)
        case t.StructType():
            yield from ((field.name, field.dataType) for field in kind.fields)


def apply(session: SparkSession, path: str, needed: Sequence[Change]) -> None:
    """Alter the Delta table at ``path``. Each statement may be repeated after a failed attempt."""
    target = f"delta.{quote(path)}"
    added = [change for change in needed if isinstance(change, AddColumn)]
    widened = [change for change in needed if isinstance(change, WidenColumn)]
    dropped = [change for change in needed if isinstance(change, DropColumn)]
    renamed = {change.name: change.to for change in needed if isinstance(change, RenameColumn)}
    if dropped or renamed or any(needs_mapping(change.name, change.type) for change in added):
        # Column mapping lets a column be dropped or renamed (Delta's PROTOCOL, "Column Mapping").
        # Setting only the property makes Delta add this one feature; setting a writer version would
        # add all features of that version, change data feed among them.
        session.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    for name, to in renaming_steps(renamed):
        session.sql(f"ALTER TABLE {target} RENAME COLUMN {quote(name)} TO {quote(to)}")
    for change in dropped:
        session.sql(f"ALTER TABLE {target} DROP COLUMN {quote(change.name)}")
    made: list[AddColumn | WidenColumn] = [*added, *widened]
    if any(_has_wall_clock(change.type) for change in made):
        # Delta enables this type by itself only in new tables (Delta's PROTOCOL, "Timestamp without
        # timezone").
        session.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
    if added:
        columns = ", ".join(f"{quote(change.name)} {type_sql(change.type)}" for change in added)
        session.sql(f"ALTER TABLE {target} ADD COLUMNS ({columns})")
    if widened:
        # Enabled only when it is needed, so that a table that never widened stays readable without
        # the feature.
        session.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    for widening in widened:
        session.sql(f"ALTER TABLE {target} ALTER COLUMN {quote(widening.name)} TYPE {type_sql(widening.type)}")


def renaming_steps(renamed: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return single renames that together perform all of these at once.

    A column whose new name is still taken gets a temporary name first.
    """
    taken = {name.lower() for name in renamed}
    free = (name for n in range(2 * len(renamed)) if (name := f"_dblog_to_{n}") not in taken)
    aside = {name: next(free) for name, to in renamed.items() if to.lower() in taken and to.lower() != name.lower()}
    first = [(name, aside.get(name, to)) for name, to in renamed.items()]
    return [*sorted(first, key=lambda step: step[0] not in aside), *((aside[name], renamed[name]) for name in aside)]


def _has_wall_clock(of: t.DataType) -> bool:
    match of:
        case t.ArrayType():
            return _has_wall_clock(of.elementType)
        case t.MapType():
            return _has_wall_clock(of.keyType) or _has_wall_clock(of.valueType)
        case t.StructType():
            return any(_has_wall_clock(field.dataType) for field in of.fields)
    return isinstance(of, t.TimestampNTZType)
