"""The parts of MySQL that the source task needs, by name. MariaDB has the same protocol; its
differences are in dialects/mariadb/dialect.py.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from dblog.codecs.rowplan import RowEncoder
from dblog.config.options import Settings
from dblog.core.changes import Change
from dblog.core.crosscheck import Seen
from dblog.core.selection import name_matcher
from dblog.core.timeline import Position, Timeline
from dblog.dialects.mysql.binlog import events
from dblog.dialects.mysql.binlog._fast import LogDecoder
from dblog.dialects.mysql.binlog.items import IgnoredForNow, LogOffset, RowsParked
from dblog.dialects.mysql.binlog.offset import LogProgress
from dblog.dialects.mysql.binlog.statement_text import statement_text
from dblog.dialects.mysql.binlog.table_map_schema import WIDTHS_SQL, Charsets, collations_sql, merger, seen_of
from dblog.dialects.mysql.ddl import parser
from dblog.dialects.mysql.ddl.context import Context
from dblog.dialects.mysql.ddl.flavor import Flavor, mysql_flavor
from dblog.dialects.mysql.ddl.rewrites import rewritten
from dblog.dialects.mysql.ddl.row_changes import row_change
from dblog.dialects.mysql.values import types as mysql_types
from dblog.dialects.mysql.wire import session as mysql_session
from dblog.dialects.mysql.wire.session import ServerFacts, Session
from dblog.dialects.mysql.wire.state_watermarks import SnapshotMarks
from dblog.model import Table, TableId
from dblog.readers.contract import Merge

MARIADB_EXPLICIT_TIMESTAMPS = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogDialect:
    """A flavor of binlog server. ``column_plan`` and ``connect`` are the flavor's own, the rest
    follows from ``name``.
    """

    name: Literal["mysql", "mariadb"]
    """Debezium's connector name and the decoder's flavor: ``mysql`` or ``mariadb``."""
    connect: Callable[..., Session]
    column_plan: Callable[..., Any]
    flavor_of: Callable[[tuple[int, int, int]], Flavor]
    progress: type[LogProgress] = LogProgress
    marks: type[SnapshotMarks] = SnapshotMarks
    """The watermarks of read-only mode."""
    compares_gtids: bool = False
    """True if logs are compared by the GTIDs before a position, because the servers have no unique
    name.
    """

    def decoder(
        self,
        resolve: Callable[[bytes, LogOffset], RowEncoder | IgnoredForNow | RowsParked | None],
        own: Iterable[TableId],
        settings: Settings,
        *,
        transactions: bool = False,
        ends: bool = False,
    ) -> LogDecoder:
        """Return a log decoder that is not started yet; rows of ``own`` (watermarks, signals) pass
        through.

        ``transactions``: it counts and reports transactions. ``ends``: it reports what ends
        transactions, for ``task/endings.py``.
        """
        return LogDecoder(
            flavor=self.name,
            resolve=resolve,
            records_max=min(1000, settings.integer("max.batch.size")),
            bytes_max=1 << 20,
            pass_through=frozenset((table.database, table.name) for table in own),
            spool=tempfile.TemporaryFile,
            gives_partial=rereads(settings),
            gtid_included=gtid_filter(settings) if settings.boolean("gtid.source.filter.dml.events") else None,
            transactions=transactions,
            ends=ends,
        )

    def charsets(self, session: Session) -> Charsets:
        """Return the server's charsets, since table maps name collations by number."""
        collations = collations_sql(self.name, session.facts.version)
        return Charsets.of(
            session.query(collations, doing="reading the collations"), session.query(WIDTHS_SQL, doing="reading the character sets")
        )

    def read_table_map(self, body: bytes, charsets: Charsets) -> tuple[TableId, Seen, Merge]:
        """Return the table's name, its columns, and a function that merges them with known columns."""
        table_map = events.read_table_map(body, mariadb=self.name == "mariadb")
        signs_known = any(column.unsigned is not None for column in table_map.columns)
        nulls_known = not all(column.nullable for column in table_map.columns)
        return table_map.table, seen_of(table_map, charsets), merger(charsets, signs_known=signs_known, nulls_known=nulls_known)

    def row_change(self, query: events.Query, text: str, version: tuple[int, int, int]) -> tuple[str, frozenset[TableId]] | None:
        """Return the kind of a statement that changes rows, and the tables, in lower case; None for
        any other. A row-based log should have none of these.
        """
        context = Context(flavor=self.flavor_of(version), table=lambda _: None, sql_mode=query.sql_mode or 0)
        return row_change(text, database=query.database, mode=context.lexer_mode)

    @staticmethod
    def statement_text(query: events.Query, charsets: Charsets) -> str:
        """Return a statement's text, decoded from its client's charset."""
        return statement_text(query, charsets)

    @staticmethod
    def rewritten(changes: Iterable[Change], before: Callable[[TableId], Table | None]) -> dict[TableId, str]:
        """Return the tables whose old rows a statement changes without row events, with the reason."""
        return rewritten(changes, before)

    def statement_parser(self, facts: ServerFacts, timeline: Timeline) -> Callable[[events.Query, str, Position], Iterable[Change]]:
        """Return the DDL parser for statements of the log."""
        context_of = self._contexts(facts, timeline)

        def parse(query: events.Query, text: str, position: Position) -> Iterable[Change]:
            context = replace(
                context_of(query.database, position),
                sql_mode=query.sql_mode or 0,
                explicit_timestamps=_explicit_timestamps(query, self.flavor_of(facts.version)),
                bytes_kept=text.encode("utf-8", "surrogatepass") == query.text,
                time_zone=facts.system_time_zone if query.time_zone == "SYSTEM" else query.time_zone,
            )
            return parser.parse(text, context)

        return parse

    def text_parser(self, facts: ServerFacts, timeline: Timeline) -> Callable[[str, str, Position], Iterable[Change]]:
        """Return the DDL parser for a text without an event: (statement, default database,
        position).
        """
        context_of = self._contexts(facts, timeline)
        return lambda text, database, position: parser.parse(text, context_of(database, position))

    def _contexts(self, facts: ServerFacts, timeline: Timeline) -> Callable[[str, Position], Context]:
        """Return the function that gives the context of statements on one server."""
        flavor = self.flavor_of(facts.version)

        def database_charset(name: str) -> tuple[str | None, str | None]:
            known = timeline.databases.get(name)
            return (None, None) if known is None else (known.charset, known.collation)

        def context(database: str, position: Position) -> Context:
            return Context(
                flavor=flavor,
                table=timeline.lookup_before(position),
                default_database=database,
                lower_case_names=facts.lower_case_table_names == 1,
                database_charset=database_charset,
                server_charset=facts.charset or None,
                server_collation=facts.collation or None,
            )

        return context


def _explicit_timestamps(query: events.Query, flavor: Flavor) -> bool | None:
    """Return the session's explicit_defaults_for_timestamp from the event; None if it is not there.
    MariaDB before 10.8 does not write its bit (log_event.h).
    """
    if flavor.mariadb and query.flags2 is not None and flavor.version >= (10, 8, 0):
        return bool(query.flags2 & MARIADB_EXPLICIT_TIMESTAMPS)
    return query.explicit_timestamps


def rereads(settings: Settings) -> bool:
    """Return whether rows that lack columns are read again from their table."""
    return settings.text("dblog.row.image.missing") == "reread"


def writes_watermarks(settings: Settings) -> bool:
    """Return whether the watermark table is needed for reading rows from tables."""
    return not settings.boolean("read.only")


def gtid_filter(settings: Settings) -> Callable[[str], bool] | None:
    """Return a predicate for sources (UUID; MariaDB: domain-server) whose transactions are wanted;
    None if all are.
    """
    includes, excludes = "gtid.source.includes", "gtid.source.excludes"
    wanted = name_matcher(settings.originals.get(includes), option=includes)
    if wanted is not None:
        return wanted
    unwanted = name_matcher(settings.originals.get(excludes), option=excludes)
    return None if unwanted is None else lambda source: not unwanted(source)


MYSQL = BinlogDialect(name="mysql", connect=mysql_session.connect, column_plan=mysql_types.column_plan, flavor_of=mysql_flavor)
