"""The parser of the log's statements: text in, changes of tables out, and never an exception (D8).

The grammar covers every statement of MySQL 5.7 to 9.x and MariaDB 10.5 to 12 that changes a table's
shape, and knows the first words of all others. A statement that is recognised but not understood (a
clause of a future version) gives ``Unknown`` with the tables that it names, so that only those are
read again. Statements that create their columns from a query (CREATE TABLE ... SELECT) are
``Unknown`` too, because their text does not show the columns. Error texts never quote the
statement, which may hold values.
"""

from __future__ import annotations

from dataclasses import replace

from dblog.core.changes import (
    AlterDatabase,
    AlterTable,
    Change,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    Ignored,
    RenameTable,
    TruncateTable,
    Unknown,
    tables_of,
)
from dblog.dialects.mysql.catalog.keys import PRIMARY
from dblog.dialects.mysql.ddl.alter_table import Alteration, TableNames, carry_out, parse_alteration, skip_option
from dblog.dialects.mysql.ddl.context import Context
from dblog.dialects.mysql.ddl.lexer import TOKENS_MAX, Cursor, NotUnderstood, tokenize
from dblog.dialects.mysql.ddl.table_definitions import (
    Definition,
    Options,
    assemble,
    base_charset,
    make_columns,
    make_indexes,
    parse_element,
    parse_index_body,
    parse_option,
)
from dblog.model import Table, TableId

NOT_DDL = frozenset(
    {
        "ANALYZE", "BACKUP", "BEGIN", "BINLOG", "CACHE", "CALL", "CHANGE", "CHECK", "CHECKSUM", "CLONE", "COMMIT", "COMPRESS",
        "DEALLOCATE", "DELETE", "DELIMITER", "DESC", "DESCRIBE", "DO", "END", "EXECUTE", "EXPLAIN", "FLUSH", "GET", "GRANT", "HANDLER",
        "HELP", "IMPORT", "INSERT", "INSTALL", "KILL", "LOAD", "LOCK", "OPTIMIZE", "PREPARE", "PURGE", "RELEASE", "REPAIR", "REPLACE",
        "RESET", "RESIGNAL", "RESTART", "REVOKE", "ROLLBACK", "SAVEPOINT", "SELECT", "SHOW", "SHUTDOWN", "SIGNAL", "START", "STOP",
        "TABLE", "UNINSTALL", "UNLOCK", "UPDATE", "USE", "VALUES", "WITH", "XA",
    }
)  # fmt: skip
"""First words of statements that change no table's shape."""

NOT_TABLES = frozenset(
    {
        "AGGREGATE", "ALGORITHM", "CATALOG", "DEFINER", "EVENT", "FUNCTION", "INSTANCE", "JSON", "LIBRARY", "LOADABLE", "LOGFILE",
        "MASKING", "PACKAGE", "PREPARE", "PROCEDURE", "RESOURCE", "ROLE", "SEQUENCE", "SERVER", "SPATIAL", "SQL", "TABLESPACE", "TRIGGER",
        "UNDO", "USER", "VIEW", "WRAPPER",
    }
)  # fmt: skip
"""Words after CREATE, ALTER and DROP that name no table, index or database. ALGORITHM, SQL and
DEFINER begin a view or routine.
"""


def parse(text: str, context: Context) -> tuple[Change, ...]:
    """Return the changes of one statement, or of several with semicolons between them, in order.
    The result is never empty; never raises.
    """
    tokens = tokenize(text, context.lexer_mode, tokens_max=TOKENS_MAX + 1)
    is_cut = len(tokens) > TOKENS_MAX
    cursor = Cursor(tokens[:TOKENS_MAX], text)
    made: dict[TableId, Table | None] = {}

    def lookup(id_: TableId) -> Table | None:
        return made[id_] if id_ in made else context.table(id_)

    inner = replace(context, table=lookup)
    changes: list[Change] = []
    while cursor.at < len(cursor.tokens):
        if cursor.take_op(";"):
            continue
        for change in _Statement(cursor, inner).parse():
            changes.append(change)
            _overlay(change, made, lookup)
    if is_cut:
        return _of_cut(changes)
    return tuple(changes) or (Ignored("nothing but comments"),)


def _of_cut(changes: list[Change]) -> tuple[Change, ...]:
    """Return the changes of a statement whose end was not read: its tables are read from the
    server.
    """
    if all(isinstance(change, Ignored) for change in changes):
        return tuple(changes)
    tables = dict.fromkeys(id_ for change in changes for id_ in tables_of(change))
    return (Unknown(tuple(tables), f"the statement has more than {TOKENS_MAX} words and signs"),)


def _overlay(change: Change, made: dict[TableId, Table | None], lookup: object) -> None:
    """Note the tables as the change leaves them, for later statements of the same text."""
    match change:
        case CreateTable(table, only_if_absent):
            if not (only_if_absent and callable(lookup) and lookup(table.id)):
                made[table.id] = table
        case AlterTable(id_, table):
            made[id_] = None
            made[table.id] = table
        case DropTable(ids) | Unknown(ids, _):
            made.update(dict.fromkeys(ids))
        case RenameTable(pairs):
            for old, new in pairs:
                found = lookup(old) if callable(lookup) else None
                made[new] = replace(found, id=new) if isinstance(found, Table) else None
                made[old] = None
        case _:
            pass


class _Statement:
    """The parser of one statement. ``named`` collects the tables that it names, for the answer if
    the rest is not understood.
    """

    def __init__(self, cursor: Cursor, context: Context) -> None:
        self.cursor = cursor
        self.context = context
        self.names = TableNames(context)
        self.named: list[TableId] = []

    def parse(self) -> tuple[Change, ...]:
        cursor = self.cursor
        try:
            changes = self._dispatch()
            if not cursor.ended:
                raise NotUnderstood(f"unknown text at {cursor.location}")
        except NotUnderstood as e:
            self._skip_statement()
            return (Unknown(tuple(dict.fromkeys(self.named)), str(e)),)
        except RecursionError:
            self._skip_statement()
            return (Unknown(tuple(dict.fromkeys(self.named)), "nested too deeply"),)
        except (ArithmeticError, LookupError, ValueError) as e:
            # Anybody who may create a table may give it a number of any length, or a text that is
            # no character of its charset, and servers take most of these.
            self._skip_statement()
            return (Unknown(tuple(dict.fromkeys(self.named)), f"a literal that cannot be read ({type(e).__name__})"),)
        return changes

    def _skip_statement(self) -> None:
        while not self.cursor.ended:
            self.cursor.step()

    def _ignored(self, reason: str) -> tuple[Change, ...]:
        """Skip all remaining text, because the body of a routine contains semicolons."""
        self.cursor.at = len(self.cursor.tokens)
        return (Ignored(reason),)

    def _dispatch(self) -> tuple[Change, ...]:
        cursor = self.cursor
        if cursor.take("SET"):
            if cursor.take("STATEMENT"):  # MariaDB: SET STATEMENT variable = value FOR statement
                while not cursor.take("FOR"):
                    cursor.skip_one()
                return self._dispatch()
            return self._ignored("SET")
        if cursor.take("CREATE"):
            return self._create()
        if cursor.take("ALTER"):
            return self._alter()
        if cursor.take("DROP"):
            return self._drop()
        if cursor.take("RENAME"):
            return self._rename()
        if cursor.take("TRUNCATE"):
            cursor.take("TABLE")
            id_ = self._table()
            self._wait()
            return (TruncateTable(id_),)
        word = cursor.next.upper
        if word in NOT_DDL or cursor.is_op("("):
            return self._ignored(word or "a query")
        raise NotUnderstood(f"an unknown statement at {cursor.location}")

    def _table(self) -> TableId:
        id_ = self.names.read(self.cursor)
        self.named.append(id_)
        return id_

    def _known(self, id_: TableId) -> Table:
        table = self.context.table(id_)
        if table is None:
            raise NotUnderstood(f"the schema of {id_} before the statement is not known")
        return table

    def _wait(self) -> None:
        if self.cursor.take("WAIT"):
            self.cursor.step()
        else:
            self.cursor.take("NOWAIT")

    # -- CREATE ------------------------------------------------------------------------------------

    def _create(self) -> tuple[Change, ...]:
        cursor = self.cursor
        or_replace = cursor.take("OR", "REPLACE")
        if cursor.take("TEMPORARY"):
            return self._ignored("a temporary table")
        if cursor.take("TABLE"):
            return self._create_table(or_replace=or_replace)
        if cursor.take_any("DATABASE", "SCHEMA"):
            return self._create_database(or_replace=or_replace)
        cursor.take_any("ONLINE", "OFFLINE")
        if cursor.is_word("INDEX") or (cursor.is_any("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR") and cursor.peek(1).upper == "INDEX"):
            return self._create_index(or_replace=or_replace)
        if cursor.next.upper in NOT_TABLES:
            return self._ignored(f"CREATE {cursor.next.upper}")
        raise NotUnderstood(f"an unknown CREATE at {cursor.location}")

    def _create_table(self, *, or_replace: bool) -> tuple[Change, ...]:
        cursor, context = self.cursor, self.context
        only_if_absent = cursor.take("IF", "NOT", "EXISTS")
        id_ = self._table()
        if cursor.take("LIKE"):
            return self._like(id_, only_if_absent=only_if_absent, or_replace=or_replace)
        if cursor.is_op("(") and cursor.peek(1).upper == "LIKE":
            cursor.at += 2
            changes = self._like(id_, only_if_absent=only_if_absent, or_replace=or_replace)
            cursor.expect_op(")")
            return changes
        definition = Definition()
        if cursor.is_op("(") and cursor.peek(1).upper not in ("SELECT", "WITH", "VALUES") and cursor.peek(1).text != "(":
            cursor.expect_op("(")
            while True:
                parse_element(cursor, context, definition)
                if not cursor.take_op(","):
                    break
            cursor.expect_op(")")
        options = Options()
        self._options(options)
        if not definition.columns:
            raise NotUnderstood("its columns come from a query")
        base = base_charset(options, context.database_base(id_.database), context)
        columns = make_columns(definition.columns, base, context)
        if len({column.name.lower() for column in columns}) < len(columns):
            raise NotUnderstood("two columns have one name")
        indexes = make_indexes((), definition, columns)
        row_end = next((spec.name for spec in definition.columns if spec.row_end), None)
        versioned = options.versioned or row_end is not None
        table = assemble(id_, columns, indexes, base, options.comment, versioned=versioned, row_end=row_end)
        already = only_if_absent and context.table(id_) is not None
        return (CreateTable(table, only_if_absent, already=already, replaces=or_replace),)

    def _like(self, id_: TableId, *, only_if_absent: bool, or_replace: bool) -> tuple[Change, ...]:
        source = self.names.read(self.cursor)
        already = only_if_absent and self.context.table(id_) is not None
        return (CreateTable(replace(self._known(source), id=id_), only_if_absent, already=already, replaces=or_replace),)

    def _options(self, options: Options) -> None:
        cursor = self.cursor
        while not cursor.ended:
            if cursor.take_op(","):
                continue
            if cursor.is_any("AS", "SELECT", "IGNORE", "REPLACE", "VALUES", "TABLE") or cursor.is_op("(") or self._is_with_query():
                raise NotUnderstood("its columns come from a query")
            if cursor.take("PARTITION", "BY"):
                while not (cursor.ended or cursor.is_any("AS", "SELECT")):
                    cursor.skip_one()
            elif cursor.take("WITH", "SYSTEM", "VERSIONING"):
                options.versioned = True
            elif not parse_option(cursor, options):
                skip_option(cursor)

    def _is_with_query(self) -> bool:
        return self.cursor.is_word("WITH") and not self.cursor.is_word("WITH", "SYSTEM")

    def _create_index(self, *, or_replace: bool) -> tuple[Change, ...]:
        cursor = self.cursor
        unique = cursor.take_any("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR") == "UNIQUE"
        cursor.expect("INDEX")
        if_absent = cursor.take("IF", "NOT", "EXISTS")
        name = cursor.name()
        if cursor.take_any("USING", "TYPE"):
            cursor.step()
        cursor.expect("ON")
        id_ = self._table()
        self._wait()
        spec = parse_index_body(cursor, name=name, unique=unique)
        spec.if_absent = if_absent
        self._skip_statement()
        alteration = Alteration()
        alteration.definition.indexes.append(spec)
        if or_replace:
            alteration.dropped_indexes.add(name.lower())
        return carry_out(alteration, self._known(id_), self.context)

    def _create_database(self, *, or_replace: bool) -> tuple[Change, ...]:
        cursor = self.cursor
        only_if_absent = cursor.take("IF", "NOT", "EXISTS")
        name = self._database_name()
        options = self._database_options()
        server = self.context.database_base("")
        base = base_charset(options, server, self.context)
        created = CreateDatabase(name, base.charset, base.collation, only_if_absent)
        return (DropDatabase(name), created) if or_replace else (created,)

    def _database_name(self) -> str:
        name = self.cursor.name()
        return name.lower() if self.context.lower_case_names else name

    def _database_options(self) -> Options:
        cursor, options = self.cursor, Options()
        while not cursor.ended:
            if cursor.take_op(",") or cursor.take("READ"):
                continue  # READ ONLY = 1
            if not parse_option(cursor, options):
                skip_option(cursor)
        return options

    # -- ALTER -------------------------------------------------------------------------------------

    def _alter(self) -> tuple[Change, ...]:
        cursor = self.cursor
        drops_duplicates = False
        while (word := cursor.take_any("ONLINE", "OFFLINE", "IGNORE")) is not None:
            drops_duplicates |= word == "IGNORE"
        if cursor.take("TABLE"):
            cursor.take("IF", "EXISTS")
            id_ = self._table()
            self._wait()
            return self._alter_table(id_, drops_duplicates=drops_duplicates)
        if cursor.take_any("DATABASE", "SCHEMA"):
            return self._alter_database()
        if cursor.next.upper in NOT_TABLES:
            return self._ignored(f"ALTER {cursor.next.upper}")
        raise NotUnderstood(f"an unknown ALTER at {cursor.location}")

    def _alter_table(self, id_: TableId, *, drops_duplicates: bool) -> tuple[Change, ...]:
        self._name_new_tables()
        alteration = parse_alteration(self.cursor, self.context, self.names)
        if not self.cursor.ended:
            raise NotUnderstood(f"unknown text at {self.cursor.location}")
        if drops_duplicates and any(index.unique for index in alteration.definition.indexes):
            alteration.removes = "ALTER IGNORE"
        return carry_out(alteration, self._known(id_), self.context)

    def _name_new_tables(self) -> None:
        """Note the name after RENAME TO before the clauses are read, so that an unknown clause
        makes both tables ``Unknown``.
        """
        cursor = self.cursor
        at = cursor.at
        depth = 0
        while not cursor.ended:
            token = cursor.step()
            depth += (token.text == "(") - (token.text == ")") if not token.upper else 0
            if depth == 0 and token.upper == "RENAME" and not cursor.is_any("COLUMN", "INDEX", "KEY"):
                if not cursor.take_any("TO", "AS"):
                    cursor.take_op("=")
                if cursor.is_name:
                    self._table()
        cursor.at = at

    def _alter_database(self) -> tuple[Change, ...]:
        cursor = self.cursor
        options_next = cursor.is_any("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "READ", "COMMENT")
        name = self.context.default_database if options_next else self._database_name()
        if cursor.take("UPGRADE"):
            return self._ignored("ALTER DATABASE UPGRADE")
        options = self._database_options()
        if options.charset is None and options.collation is None:
            return (Ignored("ALTER DATABASE without a charset"),)
        base = base_charset(options, self.context.database_base(name), self.context)
        return (AlterDatabase(name, base.charset, base.collation),)

    # -- DROP, RENAME ------------------------------------------------------------------------------

    def _drop(self) -> tuple[Change, ...]:
        cursor = self.cursor
        if cursor.take("TEMPORARY"):
            return self._ignored("a temporary table")
        if cursor.take_any("TABLE", "TABLES"):
            cursor.take("IF", "EXISTS")
            ids = [self._table()]
            while cursor.take_op(","):
                ids.append(self._table())
            self._wait()
            cursor.take_any("RESTRICT", "CASCADE")
            return (DropTable(tuple(ids)),)
        if cursor.take_any("DATABASE", "SCHEMA"):
            cursor.take("IF", "EXISTS")
            return (DropDatabase(self._database_name()),)
        cursor.take_any("ONLINE", "OFFLINE")
        if cursor.take("INDEX"):
            cursor.take("IF", "EXISTS")
            name = cursor.name()
            cursor.expect("ON")
            id_ = self._table()
            self._skip_statement()
            alteration = Alteration()
            alteration.dropped_indexes.add(PRIMARY.lower() if name.upper() == PRIMARY else name.lower())
            return carry_out(alteration, self._known(id_), self.context)
        if cursor.next.upper in NOT_TABLES:
            return self._ignored(f"DROP {cursor.next.upper}")
        raise NotUnderstood(f"an unknown DROP at {cursor.location}")

    def _rename(self) -> tuple[Change, ...]:
        cursor = self.cursor
        if cursor.take("USER"):
            return self._ignored("RENAME USER")
        if not cursor.take_any("TABLE", "TABLES"):
            raise NotUnderstood(f"an unknown RENAME at {cursor.location}")
        cursor.take("IF", "EXISTS")
        pairs = []
        while True:
            old = self._table()
            self._wait()
            cursor.expect("TO")
            pairs.append((old, self._table()))
            if not cursor.take_op(","):
                return (RenameTable(tuple(pairs)),)
