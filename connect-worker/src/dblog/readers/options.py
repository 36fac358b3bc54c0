"""Reads the connector's options for the reader layer, and decides which tables' rows a dump may
bring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from dblog.codecs.topic_naming import own_topic
from dblog.config.namespaces import namespace_of
from dblog.config.options import Settings
from dblog.core.chunk_size import ChunkLimits
from dblog.core.pressure import OF_SERVER, Limit
from dblog.core.retries import RetryPolicy
from dblog.core.selection import Parts, Selection, builtin_tables, name_matcher, named_parts
from dblog.core.unrequested_repairs import UnrequestedRepairs
from dblog.errors import DefiniteError
from dblog.model import TableId
from dblog.readers.start import dumps, dumps_at_all

DDL_FILTER = "schema.history.internal.ddl.filter"
TABLES_NAMED_MAX = 20
QUEUE_BYTES_MAX = 64 << 20
"""Byte limit of the queue if max.queue.size.in.bytes is not set. # I6"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpRule:
    """Tables whose rows a dump may bring, and the consequence for rows that no dump brings. # I3"""

    mode: str
    """Value of snapshot.mode."""
    dumps: Callable[[TableId], bool]
    goes_on: bool
    """True if the user wants to go on without rows that nothing brings."""
    dumps_joining: bool = True
    """True if tables that are new to the connector are dumped (dblog.new.tables)."""

    def dumps_new(self, table: TableId) -> bool:
        """Return True if a table is dumped when it joins."""
        return self.dumps_joining and self.dumps(table)

    def of(self, tables: Iterable[TableId]) -> list[TableId]:
        """Return those of ``tables`` that are dumped."""
        return [table for table in tables if self.dumps(table)]

    def refusal(self, tables: Iterable[TableId], why: str) -> str | None:
        """Return why the task cannot go on if some of these tables are excluded from dumps; else
        None.

        Only a dump can bring their rows.
        """
        left_out = sorted(str(table) for table in tables if not self.dumps(table))
        if not left_out:
            return None
        return (
            f"{why}; only a dump of {', '.join(left_out[:TABLES_NAMED_MAX])} brings them, which snapshot.mode={self.mode} or "
            "snapshot.include.collection.list leave out: reset the connector's offsets and dump, or set "
            "event.processing.failure.handling.mode=warn to go on without these rows"
        )

    def refuse_left_out(self, tables: Iterable[TableId], why: str) -> None:
        """Raise DefiniteError if some of these tables are excluded from dumps."""
        if (message := self.refusal(tables, why)) is not None:
            raise DefiniteError(message)

    def of_parked(self, tables: Iterable[TableId]) -> list[TableId]:
        """Return the tables, of those that were parked, whose rows a dump brings.

        The rows of the others are lost: raise DefiniteError unless the user accepts that.
        """
        parked = list(tables)
        if not self.goes_on:
            self.refuse_left_out(parked, "rows were skipped while their table was parked")
        return self.of(parked)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    """Options of one connector.

    The watermark table and signal tables are never captured.
    """

    connector: str
    prefix: str
    run: str
    """Identifier of this run of the task."""
    watermark_table: TableId
    builtin_databases: frozenset[str]
    selection: Selection
    named: Parts
    """Databases, or schemas, and tables that the configuration names."""
    dump: DumpRule
    keeps_to_its_tables: bool
    """True if tables that are new to the connector are ignored (``starting`` narrows
    ``selection``).
    """
    unrequested_repairs: UnrequestedRepairs
    """Rule for tables that may be repaired without a request."""
    redumps: bool
    """True if a table is dumped again after a statement that rewrites its old rows."""
    history_topic: str
    is_filtered: Callable[[str], bool]
    """Function that returns True for a statement to leave out of the history."""
    reports_schemas: bool
    """True if there is a schema-change topic."""
    reports_captured_tables_only: bool
    reports_captured_databases_only: bool
    chunk_limits: ChunkLimits
    dump_threads: int
    dump_limits: Mapping[Limit, float]
    """Limits of the load that dumps may put on the source."""
    read_only: bool
    """True if nothing may be written to the source; windows then have read marks instead of written
    ones.
    """
    window_keys_max: int
    queue_records_max: int
    queue_bytes_max: int
    heartbeat_interval_s: float
    """Seconds between two heartbeats; 0 sends none."""
    skips_bad_events: bool
    skips_unreadable: bool
    retry_policy: RetryPolicy
    watch_interval_s: float
    """Seconds between two questions for the end of the server's log; 0 asks none."""
    signal_chunk_rows: int | None
    """Rows of a chunk in dumps that signals request; None to adapt them."""
    signal_filters: bool
    """True if signals may contain SQL conditions."""
    notification_channels: tuple[str, ...]

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        *,
        connector: str,
        run: str,
        watermark_table: TableId,
        builtin_databases: frozenset[str],
        signal_tables: frozenset[TableId] = frozenset(),
    ) -> ReaderOptions:
        """Read the options from the connector's settings; ``connector`` is its name."""
        mode, namespace = settings.text("snapshot.mode"), namespace_of(settings)
        handling = {what: settings.get(f"{what}.handling.mode", "fail") != "fail" for what in _HANDLED}
        captured_tables = _is_set(settings, "schema.history.internal.store.only.captured.tables.ddl")
        return cls(
            connector=connector,
            prefix=settings.text("topic.prefix"),
            run=run,
            watermark_table=watermark_table,
            builtin_databases=builtin_databases,
            selection=Selection.from_settings(
                settings.originals, namespace=namespace, builtin=builtin_databases, never=signal_tables | {watermark_table}
            ),
            named=named_parts(settings.originals, namespace=namespace),
            dump=DumpRule(
                mode=mode,
                dumps=dumps(mode, settings.originals.get("snapshot.include.collection.list")),
                goes_on=handling["inconsistent.schema"] or handling["event.processing.failure"],
                dumps_joining=settings.text("dblog.new.tables") == "dump",
            ),
            keeps_to_its_tables=settings.text("dblog.new.tables") == "ignore",
            unrequested_repairs=UnrequestedRepairs.skipping(settings.items_of("skipped.operations")),
            redumps=settings.text("dblog.ddl.redump") == "changed" and dumps_at_all(mode),
            history_topic=history_topic_of(settings),
            is_filtered=name_matcher(settings.originals.get(DDL_FILTER), option=DDL_FILTER) or (lambda _: False),
            reports_schemas=_is_set(settings, "include.schema.changes"),
            reports_captured_tables_only=captured_tables,
            reports_captured_databases_only=captured_tables
            or _is_set(settings, "schema.history.internal.store.only.captured.databases.ddl"),
            chunk_limits=chunk_limits(settings),
            dump_threads=dump_threads(settings),
            dump_limits=dump_limits(settings),
            read_only=settings.boolean("read.only"),
            window_keys_max=settings.integer("dblog.window.keys.max"),
            queue_records_max=settings.integer("max.queue.size"),
            queue_bytes_max=settings.integer("max.queue.size.in.bytes") or QUEUE_BYTES_MAX,
            heartbeat_interval_s=settings.integer("heartbeat.interval.ms") / 1000,
            skips_bad_events=handling["event.processing.failure"],
            skips_unreadable=handling["event.deserialization.failure"],
            retry_policy=RetryPolicy.of(settings.originals),
            watch_interval_s=settings.integer("dblog.metrics.server.interval.ms") / 1000,
            signal_chunk_rows=_given(settings, "incremental.snapshot.chunk.size"),
            signal_filters=settings.boolean("dblog.signals.filters"),
            notification_channels=settings.items_of("notification.enabled.channels"),
        )

    @property
    def watermark_name(self) -> str:
        """Prefix of the names of the connector's rows in the watermark table."""
        return f"{self.prefix}/{self.connector}"

    def reports(self, table: TableId) -> bool:
        """Return True if the schema-change topic includes a table.

        It includes every table of the server, unless the store.only options narrow it.
        """
        if table == self.watermark_table or builtin_tables(self.builtin_databases)(table):
            return False
        return self.selection.includes(table) if self.reports_captured_tables_only else self.reports_database(table.database)

    def reports_database(self, database: str) -> bool:
        """Return True if the schema-change topic includes a database."""
        narrowed = self.reports_captured_databases_only or database == self.watermark_table.database
        return self.selection.includes_database(database) or not narrowed


_HANDLED = ("inconsistent.schema", "event.processing.failure", "event.deserialization.failure")


def _is_set(settings: Settings, name: str) -> bool:
    """Return the value of a switch; False if the connector's kind of database does not have it."""
    return name in settings and settings.boolean(name)


def _given(settings: Settings, name: str) -> int | None:
    """Return the number of an option that the user has set, else None."""
    return settings.integer(name) if name in settings.originals else None


def history_topic_of(settings: Settings) -> str:
    """Return the topic of the schema history.

    Debezium's PostgreSQL connector keeps no history and has no option for its topic; this worker
    keeps a history for every connector.
    """
    name = "schema.history.internal.kafka.topic"
    if name in settings:
        return settings.text(name)
    return settings.text_or_none("dblog.history.topic") or own_topic("history", settings.text("topic.prefix"))


def dump_threads(settings: Settings) -> int:
    """Return dblog.dump.threads if it is set, else Debezium's snapshot.max.threads."""
    return settings.integer("dblog.dump.threads" if "dblog.dump.threads" in settings.originals else "snapshot.max.threads")


def chunk_limits(settings: Settings) -> ChunkLimits:
    """Return the limits of chunks.

    A SELECT should take a second, or half of the longest time that the user allows if that is less.
    """
    usual = ChunkLimits(rows_max=settings.integer("dblog.chunk.rows"), bytes_max=settings.integer("dblog.chunk.bytes.max"))
    longest_ms = dump_limits(settings).get(Limit.STATEMENT_P95)
    return usual if longest_ms is None else replace(usual, time_s=min(usual.time_s, longest_ms / 2000))


def dump_limits(settings: Settings) -> dict[Limit, float]:
    """Return the limits of dumps that are set and that the connector's kind of database has."""
    names = {limit: f"dblog.dump.limit.{limit.value}" for limit in (*OF_SERVER, Limit.LOG_LAG)}
    limits = {limit: float(settings.integer(name)) for limit, name in names.items() if name in settings}
    return {limit: most for limit, most in limits.items() if most}
