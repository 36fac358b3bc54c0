"""ALTER TABLE: reads the clauses, then applies them to the table in the server's order.

The server does not go from clause to clause. It first walks over the old columns: dropped ones go,
changed ones stay in place unless they name another. Then it walks over the new definitions in the
statement's order and puts each at the end, first, or after a column of the new list. Indexes come
last (mysql_prepare_alter_table). This module does the same, because only that gives the same order
of columns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from dblog.core.changes import AlterTable, Change, CreateTable, DropTable
from dblog.dialects.mysql.catalog.keys import PRIMARY
from dblog.dialects.mysql.catalog.versioning import row_end_of, without_implicit
from dblog.dialects.mysql.ddl.column_definitions import ColumnSpec, parse_column
from dblog.dialects.mysql.ddl.column_types import (
    LOB_BYTES,
    TEXTS,
    WITH_CHARSET,
    Charset,
    FinishedType,
    charset_name,
    collation_name,
    lob_size,
    resolve_charset,
)
from dblog.dialects.mysql.ddl.context import Context
from dblog.dialects.mysql.ddl.defaults import DefaultSpec, normal_default, parse_default, stored_default
from dblog.dialects.mysql.ddl.lexer import Cursor, NotUnderstood
from dblog.dialects.mysql.ddl.table_definitions import (
    COLUMNS_MAX,
    Definition,
    IndexSpec,
    Options,
    add_column,
    assemble,
    base_charset,
    make_columns,
    make_indexes,
    parse_constraint,
    parse_element,
    parse_option,
)
from dblog.dialects.mysql.values.charsets import BYTES_MAX
from dblog.model import Column, Index, Table, TableId, Written


@dataclass(slots=True)
class Alteration:
    """The clauses of one statement."""

    definition: Definition = field(default_factory=Definition)
    """Columns added, changed and modified, in the statement's order, and new indexes."""
    changed: dict[str, ColumnSpec] = field(default_factory=dict)
    """Definitions of CHANGE and MODIFY (also in ``definition``), by the old name in lower case."""
    changed_if_exists: set[str] = field(default_factory=set)
    added_if_absent: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, bool] = field(default_factory=dict)
    """Dropped columns, by name in lower case; True if the clause has IF EXISTS."""
    defaults: dict[str, DefaultSpec | None] = field(default_factory=dict)
    visibility: dict[str, bool] = field(default_factory=dict)
    """Columns in lower case, with True for INVISIBLE and False for VISIBLE."""
    if_exists: set[str] = field(default_factory=set)
    """MariaDB: columns of ``renamed``, ``defaults`` and ``visibility`` that may be missing (IF
    EXISTS).
    """
    dropped_indexes: set[str] = field(default_factory=set)
    renamed_indexes: dict[str, str] = field(default_factory=dict)
    options: Options = field(default_factory=Options)
    convert: Options | None = None
    new_name: TableId | None = None
    versioned: bool | None = None
    """MariaDB: True for ADD, False for DROP SYSTEM VERSIONING, None for neither."""
    made_of_partition: TableId | None = None
    """MariaDB: the new table of CONVERT PARTITION ... TO TABLE."""
    others: list[Change] = field(default_factory=list)
    """Changes of other tables that the statement makes."""
    rewrites: str | None = None
    """The reason why old rows change, if the columns do not show it."""
    removes: str | None = None
    """The clause that removes rows."""


PARTITION_VERBS = (
    "COALESCE",
    "REORGANIZE",
    "ANALYZE",
    "CHECK",
    "OPTIMIZE",
    "REBUILD",
    "REPAIR",
    "TRUNCATE",
    "EXCHANGE",
    "DISCARD",
    "IMPORT",
    "REMOVE",
    "PARTITION",
)


def parse_alteration(cursor: Cursor, context: Context, table_name: TableNames) -> Alteration:
    """Read all clauses up to the end of the statement. Raise NotUnderstood for an unknown clause."""
    alteration = Alteration()
    while not cursor.ended:
        _clause(cursor, context, alteration, table_name)
        if not cursor.take_op(",") and not cursor.ended and not _follows_without_comma(cursor):
            raise NotUnderstood(f"an unknown clause at {cursor.location}")
    return alteration


@dataclass(frozen=True, slots=True)
class TableNames:
    """A reader of table names, for the default database and name case of one statement."""

    context: Context

    def read(self, cursor: Cursor) -> TableId:
        """Read ``t``, ``db.t`` or ``.t``."""
        if cursor.take_op("."):
            return self.make(self.context.default_database, cursor.name())
        first = cursor.name()
        if cursor.take_op("."):
            return self.make(first, cursor.name())
        return self.make(self.context.default_database, first)

    def make(self, database: str, name: str) -> TableId:
        """Return the table's id, in lower case if the server stores names that way."""
        return TableId(database.lower(), name.lower()) if self.context.lower_case_names else TableId(database, name)


def _follows_without_comma(cursor: Cursor) -> bool:
    """Return whether another clause may begin here. Table options need no comma between them, and
    PARTITION BY follows all clauses.
    """
    return cursor.is_any("PARTITION", "REMOVE") or cursor.is_name


def _clause(cursor: Cursor, context: Context, into: Alteration, names: TableNames) -> None:
    if cursor.take("ADD"):
        _add(cursor, context, into)
    elif cursor.take("DROP"):
        _drop(cursor, into)
    elif cursor.take("CHANGE"):
        cursor.take("COLUMN")
        if_exists = cursor.take("IF", "EXISTS")
        old = cursor.name().lower()
        _change(into, old, parse_column(cursor, context), context, if_exists=if_exists)
    elif cursor.take("MODIFY"):
        cursor.take("COLUMN")
        if_exists = cursor.take("IF", "EXISTS")
        spec = parse_column(cursor, context)
        _change(into, spec.name.lower(), spec, context, if_exists=if_exists)
    elif cursor.take("ALTER"):
        _alter_column(cursor, into, context)
    elif cursor.take("RENAME"):
        _rename(cursor, into, names)
    elif cursor.take("CONVERT", "TO"):
        options = Options()
        if not (cursor.take("CHARACTER", "SET") or cursor.take("CHARSET") or cursor.take("CHAR", "SET")):
            raise NotUnderstood(f"CHARACTER SET expected at {cursor.location}")
        options.charset = charset_name(cursor)
        if cursor.take("COLLATE"):
            options.collation = collation_name(cursor)
        into.convert = options
    elif cursor.take("CONVERT", "PARTITION"):
        cursor.name()
        cursor.expect("TO", "TABLE")
        made = names.read(cursor)
        into.made_of_partition = made
        into.removes = "CONVERT PARTITION"
        into.rewrites = "a partition has become a table of its own"
        _skip_rest(cursor)
    elif cursor.take("CONVERT", "TABLE"):
        into.others.append(DropTable((names.read(cursor),)))
        into.rewrites = "a table has become a partition of it"
        _skip_rest(cursor)
    elif cursor.is_word("EXCHANGE"):
        _exchange(cursor, context, into, names)
    elif cursor.is_any(*PARTITION_VERBS):
        if cursor.is_any("TRUNCATE", "IMPORT", "DISCARD"):
            into.rewrites = f"{cursor.next.upper} changes all rows of a partition or table"
            into.removes = f"{cursor.next.upper} {cursor.peek(1).upper}"
        _skip_rest(cursor)
    elif cursor.take("ORDER", "BY"):
        while not (cursor.ended or (cursor.is_op(",") and cursor.peek(1).upper in ("ADD", "DROP", "MODIFY", "CHANGE"))):
            cursor.skip_one()
    elif cursor.take_any("FORCE", "NOWAIT"):
        pass
    elif cursor.take("WAIT"):
        cursor.step()
    elif cursor.take_any("ENABLE", "DISABLE"):
        cursor.expect("KEYS")
    elif cursor.take_any("WITH", "WITHOUT"):
        if not cursor.take("VALIDATION"):
            cursor.expect("SYSTEM", "VERSIONING")
    elif not parse_option(cursor, into.options):
        skip_option(cursor)


OPTIONS = frozenset(
    {
        "ALGORITHM", "AUTOEXTEND_SIZE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "COMPRESSION", "CONNECTION", "DELAY_KEY_WRITE",
        "ENCRYPTION", "ENGINE", "ENGINE_ATTRIBUTE", "IETF_QUOTES", "INSERT_METHOD", "KEY_BLOCK_SIZE", "LOCK", "MAX_ROWS", "MIN_ROWS", "ONLY",
        "PACK_KEYS", "PAGE_CHECKSUM", "PASSWORD", "ROW_FORMAT", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE", "SEQUENCE", "STATS_AUTO_RECALC",
        "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "STORAGE", "TABLESPACE", "TABLE_CHECKSUM", "TRANSACTIONAL", "TYPE", "UNION",
    }
)  # fmt: skip
"""Options whose ``=`` may be left out. Any other word needs it, so that an unknown clause is not
taken for an option.
"""


def skip_option(cursor: Cursor) -> None:
    """Skip ``NAME [=] value``. Raise NotUnderstood if no option begins here."""
    cursor.take("DEFAULT")
    if cursor.take("START", "TRANSACTION") or cursor.take_any("SECONDARY_LOAD", "SECONDARY_UNLOAD"):
        return
    known = cursor.take("DATA", "DIRECTORY") or cursor.take("INDEX", "DIRECTORY") or cursor.take_any(*OPTIONS) is not None
    if not known:
        location = cursor.location
        cursor.name()
        if not cursor.is_op("="):
            raise NotUnderstood(f"an unknown clause at {location}")
    cursor.take_op("=")
    if cursor.is_op("("):
        cursor.skip_group()
    elif not (cursor.ended or cursor.is_op(",")):
        cursor.step()
        if cursor.tokens[cursor.at - 1].text in {"+", "-"}:
            cursor.step()


def _skip_rest(cursor: Cursor) -> None:
    while not cursor.ended:
        cursor.skip_one()


def _exchange(cursor: Cursor, context: Context, into: Alteration, names: TableNames) -> None:
    """Read EXCHANGE PARTITION p WITH TABLE t, after which both tables hold other rows."""
    into.rewrites = "a partition was exchanged with a table"
    into.removes = "EXCHANGE PARTITION"
    while not (cursor.ended or cursor.take("WITH", "TABLE")):
        cursor.skip_one()
    other = names.read(cursor)
    if (known := context.table(other)) is not None:
        into.others.append(AlterTable(other, known, "it was exchanged with a partition", into.removes))
    _skip_rest(cursor)


def _add(cursor: Cursor, context: Context, into: Alteration) -> None:
    if cursor.is_word("PARTITION"):
        _skip_rest(cursor)
        return
    if cursor.take("SYSTEM", "VERSIONING"):
        into.versioned = True
        return
    if parse_constraint(cursor, into.definition):
        return
    cursor.take("COLUMN")
    if_absent = cursor.take("IF", "NOT", "EXISTS")
    first = len(into.definition.columns)
    if cursor.take_op("("):
        while True:
            parse_element(cursor, context, into.definition)
            if not cursor.take_op(","):
                break
        cursor.expect_op(")")
    else:
        add_column(into.definition, parse_column(cursor, context), context)
    if if_absent:
        into.added_if_absent.update(spec.name.lower() for spec in into.definition.columns[first:])


def _change(into: Alteration, old: str, spec: ColumnSpec, context: Context, *, if_exists: bool) -> None:
    add_column(into.definition, spec, context)
    into.changed[old] = spec
    if if_exists:
        into.changed_if_exists.add(old)


def _drop(cursor: Cursor, into: Alteration) -> None:
    if cursor.take("PRIMARY", "KEY"):
        into.dropped_indexes.add(PRIMARY.lower())
        return
    if cursor.is_word("PARTITION"):
        into.rewrites = "the rows of a partition are gone"
        into.removes = "DROP PARTITION"
        _skip_rest(cursor)
        return
    if cursor.take("SYSTEM", "VERSIONING"):
        into.versioned = False
        return
    if cursor.take("PERIOD", "FOR"):
        cursor.take("IF", "EXISTS")
        cursor.name()
        return
    if cursor.take("FOREIGN", "KEY") or cursor.take("CHECK"):
        cursor.take("IF", "EXISTS")
        cursor.name()
        return
    if cursor.take_any("INDEX", "KEY", "CONSTRAINT"):
        cursor.take("IF", "EXISTS")
        into.dropped_indexes.add(cursor.name().lower())
        return
    cursor.take("COLUMN")
    if_exists = cursor.take("IF", "EXISTS")
    into.dropped[cursor.name().lower()] = if_exists
    cursor.take_any("RESTRICT", "CASCADE")


def _alter_column(cursor: Cursor, into: Alteration, context: Context) -> None:
    if cursor.take_any("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        cursor.take("IF", "EXISTS")
        cursor.name()
        while not (cursor.ended or cursor.is_op(",")):
            cursor.skip_one()
        return
    cursor.take("COLUMN")
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name().lower()
    if if_exists:
        into.if_exists.add(name)
    if cursor.take("SET", "DEFAULT"):
        into.defaults[name] = parse_default(cursor, context)
    elif cursor.take("DROP", "DEFAULT"):
        into.defaults[name] = None
    elif cursor.take("SET"):
        into.visibility[name] = cursor.take("INVISIBLE")
        if not into.visibility[name]:
            cursor.expect("VISIBLE")
    else:
        raise NotUnderstood(f"SET or DROP expected at {cursor.location}")


def _rename(cursor: Cursor, into: Alteration, names: TableNames) -> None:
    if cursor.take("COLUMN"):
        if_exists = cursor.take("IF", "EXISTS")
        old = cursor.name().lower()
        if if_exists:
            into.if_exists.add(old)
        cursor.expect("TO")
        into.renamed[old] = cursor.name()
    elif cursor.take_any("INDEX", "KEY"):
        cursor.take("IF", "EXISTS")
        old = cursor.name().lower()
        cursor.expect("TO")
        into.renamed_indexes[old] = cursor.name()
    else:
        if not cursor.take_any("TO", "AS"):
            cursor.take_op("=")
        into.new_name = names.read(cursor)


# -- applying the clauses --------------------------------------------------------------------------


def carry_out(alteration: Alteration, table: Table, context: Context) -> tuple[Change, ...]:
    """Return the changes of the statement, first that of the table itself. Raise NotUnderstood if
    the statement does not fit the table as we know it.
    """
    row_end = row_end_of(table)
    declared = tuple(
        column for column in without_implicit(table.columns) if not column.hidden
    )  # hidden columns come back with the table maps of the log
    implicit = len(without_implicit(table.columns)) < len(table.columns)
    table = replace(table, columns=declared)
    versioned = (row_end is not None) if alteration.versioned is None else alteration.versioned
    added = next((spec.name for spec in alteration.definition.columns if spec.row_end), None)
    row_end = added or (None if implicit or row_end is None else row_end)
    base = Charset(table.charset or "utf8mb4", table.collation or context.flavor.default_collation(table.charset or "utf8mb4") or "")
    if table.charset is None:
        base = context.database_base(table.id.database)
    if alteration.convert is not None:
        options = alteration.convert
        inherited = context.database_base(table.id.database) if options.charset == "default" else base
        base = resolve_charset(options.charset, options.collation, inherited, context.flavor)
        if base.charset == "binary":
            raise NotUnderstood("CONVERT TO CHARACTER SET binary")
    elif alteration.options.charset == "default":
        base = context.database_base(table.id.database)
    else:
        base = base_charset(alteration.options, base, context)
    columns = _columns(alteration, table, base, context)
    indexes = _indexes(alteration, table, columns)
    comment = table.comment if alteration.options.comment is None else alteration.options.comment
    if alteration.convert is not None and (alteration.options.charset or alteration.options.collation):
        # MariaDB converts the columns, but the table's default charset is the one of the option.
        base = base_charset(alteration.options, base, context)
    after = assemble(alteration.new_name or table.id, columns, indexes, base, comment, versioned=versioned, row_end=row_end)
    made = [CreateTable(replace(after, id=alteration.made_of_partition), with_rows=True)] if alteration.made_of_partition else []
    altered = AlterTable(table.id, after, alteration.rewrites or _recomputed(alteration, after), alteration.removes)
    return (altered, *made, *alteration.others)


def _recomputed(alteration: Alteration, after: Table) -> str | None:
    """Return why old rows differ although the column types do not show it; None if they do not
    differ.

    The values of a renamed column appear under the new name. A generated column that is defined
    again may have another expression.
    """
    named = {column.name.lower(): column for column in after.columns}
    for old, new in {**{old: spec.name for old, spec in alteration.changed.items()}, **alteration.renamed}.items():
        if old != new.lower() and new.lower() in named:
            return f"column {new} was {old}"
    changed = {id(spec) for spec in alteration.changed.values()}
    for spec in alteration.definition.columns:
        if id(spec) not in changed and spec.name.lower() in alteration.dropped and spec.name.lower() in named:
            return f"column {spec.name} is another one under the name of one that is dropped"
    for spec in alteration.changed.values():
        column = named.get(spec.name.lower())
        if column is not None and column.generated:
            return f"column {column.name} is computed again"
    return None


def _columns(alteration: Alteration, table: Table, base: Charset, context: Context) -> list[Column]:
    known = {column.name.lower() for column in table.columns}
    missing = [name for name, if_exists in alteration.dropped.items() if name not in known and not if_exists]
    changes = {id(spec) for spec in alteration.changed.values()}
    fresh = {spec.name.lower() for spec in alteration.definition.columns}
    added = {spec.name.lower() for spec in alteration.definition.columns if id(spec) not in changes}
    missing += [name for name in (*alteration.renamed, *alteration.visibility) if name not in known and name not in alteration.if_exists]
    missing += [name for name in alteration.defaults if name not in known and name not in fresh and name not in alteration.if_exists]
    if missing:
        raise NotUnderstood(f"{table.id} as we know it has no column {missing[0]}")
    specs = [
        spec
        for spec in alteration.definition.columns
        if id(spec) in changes or not (spec.name.lower() in alteration.added_if_absent and spec.name.lower() in known)
    ]
    absent = {
        id(alteration.changed[name])
        for name in alteration.changed_if_exists
        if name not in known and alteration.changed[name].name.lower() not in added
    }
    specs = [spec for spec in specs if id(spec) not in absent]
    if alteration.convert is not None:
        for spec in specs:
            if spec.type.type in WITH_CHARSET and spec.type.charset != "binary":
                spec.type = replace(spec.type, charset=base.charset, collation=None if spec.type.binary else base.collation)
    made = {
        id(spec): _with_default(column, alteration.defaults[spec.name.lower()], context)
        if spec.name.lower() in alteration.defaults
        else column
        for spec, column in zip(
            specs, make_columns(specs, base, context, first_timestamp=_has_no_timestamp(alteration, table)), strict=True
        )
    }
    columns = _Order()
    positioned: set[int] = set()
    for column in table.columns:
        name = column.name.lower()
        if name in alteration.dropped:
            continue
        changed = alteration.changed.get(name)
        if changed is None:
            columns.append(_kept(column, alteration, base, context))
            continue
        columns.append(made[id(changed)])
        if changed.position is None:
            positioned.add(id(changed))  # the others are moved below
    strangers = {id(spec) for old, spec in alteration.changed.items() if old not in known}
    for spec in specs:
        if id(spec) in positioned:
            continue
        new = made[id(spec)]
        # MODIFY of a column that the same statement adds
        replaced = spec.name.lower() if id(spec) in strangers else None
        if replaced is not None and not columns.drop(replaced):
            raise NotUnderstood(f"{table.id} as we know it has no column that becomes {spec.name}")
        if id(spec) in changes:
            columns.drop_one(new)  # it still stands in the place of the old column
        if columns.count(new.name.lower()):
            raise NotUnderstood(f"{table.id} as we know it has a column {new.name} already")
        if spec.position is None:
            columns.append(new)
        elif spec.position[0] == "first":
            columns.insert(0, new)
        elif columns.count(after := spec.position[1].lower()):
            columns.insert(columns.index(after) + 1, new)
        else:
            raise NotUnderstood(f"{table.id} as we know it has no column {spec.position[1]}")
    if not columns.columns or not columns.distinct or len(columns.columns) > COLUMNS_MAX:
        raise NotUnderstood(f"{table.id} as we know it does not fit the statement")
    return columns.columns


class _Order:
    """Columns in order, with their names in lower case and a count of each name.

    Thousands of clauses look columns up by name, which is fast in a list of strings and slow in a
    list of columns.
    """

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self._names: list[str] = []
        self._counts: Counter[str] = Counter()

    def append(self, column: Column) -> None:
        self.insert(len(self.columns), column)

    def insert(self, at: int, column: Column) -> None:
        self.columns.insert(at, column)
        self._names.insert(at, column.name.lower())
        self._counts[self._names[at]] += 1

    def count(self, name: str) -> int:
        """Return the number of columns with this name. Between two clauses of CHANGE it may be two."""
        return self._counts[name]

    def index(self, name: str) -> int:
        return self._names.index(name)

    def drop(self, name: str) -> bool:
        """Drop all columns of that name. Return False if there are none."""
        found = self._counts[name] > 0
        while self._counts[name]:
            self._drop_at(self._names.index(name))
        return found

    def drop_one(self, column: Column) -> None:
        """Drop this column object if it is in the list."""
        name, at = column.name.lower(), -1
        for _ in range(self._counts[name]):
            at = self._names.index(name, at + 1)
            if self.columns[at] is column:
                self._drop_at(at)
                return

    def _drop_at(self, at: int) -> None:
        self._counts[self._names.pop(at)] -= 1
        del self.columns[at]

    @property
    def distinct(self) -> bool:
        return len(set(self._names)) == len(self._names)


def _has_no_timestamp(alteration: Alteration, table: Table) -> bool:
    """Return whether no remaining old column is a TIMESTAMP, so that a new one can be the table's
    first.
    """
    gone = {*alteration.dropped, *alteration.changed}
    return not any(column.type == "timestamp" and column.name.lower() not in gone for column in table.columns)


def _kept(column: Column, alteration: Alteration, base: Charset, context: Context) -> Column:
    """Return an old column without a new definition, with its new name, default, visibility or
    charset.
    """
    name = column.name.lower()
    if alteration.convert is not None and column.charset is not None and column.type in WITH_CHARSET:
        column = _converted(column, base)
    if name in alteration.defaults:
        column = _with_default(column, alteration.defaults[name], context)
    if name in alteration.visibility:
        column = replace(column, invisible=alteration.visibility[name])
    return replace(column, name=alteration.renamed[name]) if name in alteration.renamed else column


def _with_default(column: Column, default: DefaultSpec | None, context: Context) -> Column:
    """Apply ALTER COLUMN ... SET DEFAULT or DROP DEFAULT. Generated columns stay as they are."""
    if column.generated:
        return column
    length = column.length if column.written is None else column.written.length
    default = stored_default(default, column.type, mariadb=context.flavor.mariadb)
    written = Written(length, None if default is None else default.written)
    if default is None or default.null:
        return replace(column, has_default=column.nullable, default=None, default_is_expression=False, written=written)
    finished = FinishedType(
        type=column.type,
        type_text=column.type_text,
        length=column.length,
        scale=column.scale,
        unsigned=column.unsigned,
        charset=column.charset,
        collation=column.collation,
        members=column.members,
    )
    text = normal_default(default, finished, zerofill=column.type_text.endswith(" zerofill"), context=context)
    return replace(column, has_default=True, default=text, default_is_expression=default.expression, written=written)


def _converted(column: Column, to: Charset) -> Column:
    """Apply CONVERT TO. A text type grows until it holds as many characters as before in the new
    charset (Create_field's constructor from a Field).
    """
    if column.type not in TEXTS:
        return replace(column, charset=to.charset, collation=to.collation)
    old_bytes = BYTES_MAX.get(column.charset or "", 4)
    characters = LOB_BYTES[TEXTS.index(column.type)] // old_bytes
    kind = TEXTS[lob_size(characters * BYTES_MAX.get(to.charset, 4))]
    return replace(column, type=kind, type_text=column.type_text.replace(column.type, kind, 1), charset=to.charset, collation=to.collation)


def _indexes(alteration: Alteration, table: Table, columns: list[Column]) -> list[Index]:
    new_names = {old: spec.name for old, spec in alteration.changed.items()} | alteration.renamed
    changed = {id(spec) for spec in alteration.changed.values()}
    added = {spec.name.lower() for spec in alteration.definition.columns if id(spec) not in changed}
    # A column that is dropped and added again stays in the indexes.
    gone = {name for name in alteration.dropped if name not in added}
    kept = []
    for index in table.indexes:
        if index.name.lower() in alteration.dropped_indexes:
            continue
        parts = tuple(new_names.get(part.lower(), part) for part in index.columns if part.lower() not in gone)
        if not parts and index.columns:
            continue
        name = alteration.renamed_indexes.get(index.name.lower(), index.name)
        kept.append(replace(index, name=name, columns=parts))
    wanted = [spec for spec in alteration.definition.indexes if not _of_skipped_column(spec, alteration, table)]
    return make_indexes(kept, replace(alteration.definition, indexes=wanted), columns)


def _of_skipped_column(spec: IndexSpec, alteration: Alteration, table: Table) -> bool:
    """Return whether the index comes from an attribute of a column that IF NOT EXISTS left out."""
    return (
        len(spec.columns) == 1
        and spec.columns[0].lower() in alteration.added_if_absent
        and table.column(spec.columns[0]) is not None
        and any(column.name == spec.columns[0] for column in alteration.definition.columns)
    )
