"""A column definition of CREATE or ALTER TABLE (name, type, attributes), and the column that it
makes in a given table.

Attributes may come in any order, and most do not affect a row's shape. Each is still read by its
own rule, because a wrong guess about the end of one would shift everything after it. Rule source:
``column_attribute`` in MySQL's sql_yacc.yy, ``attribute`` and ``field_def`` in MariaDB's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dblog.dialects.mysql.ddl.column_types import (
    INTEGER_WIDTHS,
    Charset,
    FinishedType,
    TypeSpec,
    collation_name,
    finish_type,
    parse_type,
    text_attribute,
)
from dblog.dialects.mysql.ddl.context import Context
from dblog.dialects.mysql.ddl.defaults import DefaultSpec, normal_default, parse_default, parse_now, stored_default
from dblog.dialects.mysql.ddl.lexer import Cursor, Kind, NotUnderstood
from dblog.model import Column, Written


@dataclass(slots=True, kw_only=True)
class ColumnSpec:
    """A column definition as written; filled in attribute by attribute."""

    name: str
    type: TypeSpec
    nullable: bool | None = None
    default: DefaultSpec | None = None
    on_update: bool = False
    auto_increment: bool = False
    generated: bool = False
    row_version: bool = False
    """True for GENERATED ALWAYS AS ROW START or END (MariaDB)."""
    row_end: bool = False
    invisible: bool = False
    comment: str | None = None
    unique: bool = False
    primary: bool = False
    references: bool = False
    position: tuple[str, str] | None = None
    """The pair ("first", "") or ("after", column); None if the definition names no position."""


def parse_column(cursor: Cursor, context: Context, *, name: str | None = None) -> ColumnSpec:
    """Read a definition with FIRST or AFTER, up to the comma or parenthesis that follows it."""
    spec = ColumnSpec(
        name=cursor.name() if name is None else name,
        type=parse_type(cursor, context.flavor, real_as_float=context.real_as_float, oracle=context.oracle),
    )
    if spec.type.serial:
        spec.nullable, spec.auto_increment, spec.unique = False, True, True
    while not (
        cursor.ended
        or cursor.is_op(",")
        or cursor.is_op(")")
        or cursor.is_word("PARTITION", "BY")
        or cursor.is_word("REMOVE", "PARTITIONING")
    ):
        if cursor.take("FIRST"):
            spec.position = ("first", "")
        elif cursor.take("AFTER"):
            spec.position = ("after", cursor.name())
        else:
            _attribute(cursor, spec, context)
    return spec


def _attribute(cursor: Cursor, spec: ColumnSpec, context: Context) -> None:
    if cursor.take("NOT", "NULL") or cursor.take("NOT", "SECONDARY"):
        if cursor.tokens[cursor.at - 1].upper == "NULL":
            spec.nullable = False
    elif cursor.take("NULL"):
        spec.nullable = True
    elif cursor.take("DEFAULT"):
        spec.default = parse_default(cursor, context)
    elif cursor.take("ON", "UPDATE"):
        parse_now(cursor)
        spec.on_update = True
    elif cursor.take("AUTO_INCREMENT"):
        spec.auto_increment = True
    elif cursor.take("SERIAL", "DEFAULT", "VALUE"):
        spec.nullable, spec.auto_increment, spec.unique = False, True, True
    elif cursor.take("UNIQUE"):
        cursor.take("KEY")
        spec.unique = True
    elif cursor.take("PRIMARY", "KEY") or cursor.take("PRIMARY") or cursor.take("KEY"):
        spec.primary = True
    elif cursor.take("COMMENT"):
        cursor.take_op("=")
        spec.comment = cursor.string() or None
    elif cursor.take("COLLATE"):
        spec.type = replace(spec.type, collation=collation_name(cursor))
    elif cursor.take("INVISIBLE"):
        spec.invisible = True
    elif cursor.take_any("VISIBLE", "VIRTUAL", "STORED", "PERSISTENT", "ENFORCED"):
        pass
    elif cursor.take("GENERATED", "ALWAYS", "AS", "ROW") or cursor.take("AS", "ROW"):
        if not cursor.take_any("START", "END"):
            raise NotUnderstood(f"START or END expected at {cursor.location}")
        spec.row_version, spec.row_end, spec.nullable = True, cursor.tokens[cursor.at - 1].upper == "END", False
    elif cursor.take("GENERATED", "ALWAYS", "AS", "IDENTITY") or cursor.take("GENERATED", "BY", "DEFAULT"):
        raise NotUnderstood(f"an unknown attribute before {cursor.location}")
    elif cursor.take("GENERATED", "ALWAYS", "AS") or cursor.take("AS"):
        cursor.skip_group()
        spec.generated = True
    elif cursor.take("CONSTRAINT"):
        if not cursor.is_any("CHECK", "REFERENCES", "UNIQUE", "PRIMARY", "NOT", "NULL"):
            cursor.name()
    elif cursor.take("CHECK"):
        cursor.skip_group()
        if not cursor.take("NOT", "ENFORCED"):
            cursor.take("ENFORCED")
    elif cursor.take("REFERENCES"):
        skip_references(cursor)
        spec.references = True
    elif cursor.take_any("COLUMN_FORMAT", "STORAGE"):
        cursor.step()
    elif cursor.take("SRID"):
        cursor.number()
    elif cursor.take_any("WITH", "WITHOUT"):
        cursor.expect("SYSTEM", "VERSIONING")
    else:
        after = text_attribute(cursor, spec.type)
        if after is not None:
            spec.type = after
        elif cursor.is_name and cursor.peek(1).kind is Kind.OP and cursor.peek(1).text == "=":
            # ENGINE_ATTRIBUTE = '..', REF_SYSTEM_ID = 1, MariaDB's engine-defined attributes
            cursor.at += 2
            cursor.step()
        elif cursor.take_any("ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
            cursor.string()
        else:
            raise NotUnderstood(f"an unknown attribute at {cursor.location} of column {spec.name}")


def skip_references(cursor: Cursor) -> None:
    """Skip the text after REFERENCES: table, columns, MATCH, ON DELETE, ON UPDATE."""
    cursor.name()
    if cursor.take_op("."):
        cursor.name()
    if cursor.is_op("("):
        cursor.skip_group()
    while True:
        if cursor.take("MATCH"):
            cursor.step()
        elif cursor.is_word("ON", "DELETE") or cursor.is_word("ON", "UPDATE"):
            cursor.at += 2
            if cursor.take("SET") or not cursor.take("NO", "ACTION"):
                cursor.step()
        else:
            return


def make_column(spec: ColumnSpec, base: Charset, context: Context, *, first_timestamp: bool = False) -> Column:
    """Return the column that the definition makes in a table of charset ``base``.

    ``first_timestamp``: it is the first TIMESTAMP of its statement. That decides the implicit
    default if explicit_defaults_for_timestamp is off (promote_first_timestamp_column).
    """
    finished = finish_type(spec.type, base, context.flavor)
    default, nullable = spec.default, spec.nullable
    if finished.type == "timestamp" and not context.explicit_timestamp_defaults and not spec.generated and not spec.row_version:
        default, nullable = _implicit_timestamp(spec, first_timestamp=first_timestamp)
    nullable = (True if nullable is None else nullable) and not spec.primary
    if spec.generated or spec.row_version or spec.auto_increment:
        default = None
    elif spec.type.compressed and default is None and not nullable:
        # MariaDB gives a compressed NOT NULL column the default ''.
        default = DefaultSpec(quoted=True)
    default = stored_default(default, finished.type, mariadb=context.flavor.mariadb)
    null = default is None or default.null
    value = None if default is None or null else normal_default(default, finished, zerofill=spec.type.zerofill, context=context)
    return Column(
        name=spec.name,
        type=finished.type,
        type_text=finished.type_text,
        nullable=nullable,
        unsigned=finished.unsigned,
        length=finished.length,
        scale=finished.scale,
        charset=finished.charset,
        collation=finished.collation,
        members=finished.members,
        has_default=(nullable and not spec.generated) if null else True,
        default=None if null else value,
        default_is_expression=default is not None and default.expression,
        auto_increment=spec.auto_increment,
        generated=spec.generated or spec.row_version,
        invisible=spec.invisible,
        comment=spec.comment,
        written=_written(spec.type, finished, default, value),
    )


def _written(spec: TypeSpec, finished: FinishedType, default: DefaultSpec | None, value: str | None) -> Written | None:
    """Return length and default as the statement writes them; None if they equal the server's own
    texts. The text of an expression is always kept.
    """
    length = spec.length if finished.type in INTEGER_WIDTHS or finished.type == "year" else spec.digits or finished.length
    written = None if default is None else default.written
    is_the_same = written is None or (written == value and default is not None and not default.expression)
    return None if length == finished.length and is_the_same else Written(length, written)


def _implicit_timestamp(spec: ColumnSpec, *, first_timestamp: bool) -> tuple[DefaultSpec | None, bool]:
    """Return default and nullability of a TIMESTAMP without explicit_defaults_for_timestamp.

    It is NOT NULL unless declared NULL. The first one defaults to the current time, others to zero.
    """
    if spec.nullable:
        return spec.default, True
    if spec.default is not None and not spec.default.null:
        return spec.default, False
    if first_timestamp and not spec.on_update:
        return DefaultSpec(now=True, expression=True, text="CURRENT_TIMESTAMP", fsp=spec.type.length or 0), False
    return _zero_timestamp(spec), False


def _zero_timestamp(spec: ColumnSpec) -> DefaultSpec:
    fsp = spec.type.length or 0
    return DefaultSpec(text="0000-00-00 00:00:00" + ("." + "0" * fsp if fsp else ""), quoted=True)
