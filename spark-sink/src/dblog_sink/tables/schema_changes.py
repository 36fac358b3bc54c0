"""Columns that the source renamed, as its schema-change topic reports them.

The topic of a table and the schema-change topic are read side by side, so rows may arrive before the record of the rename that made their columns. Before a
column is taken for dropped and another one for added, the schema-change topic is read to its end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.config.job_options import Settings
from dblog_sink.config.tables import TableSpec
from dblog_sink.schema.avro import read_avro
from dblog_sink.schema.renames import renamed
from dblog_sink.schema.renamings import Statement
from dblog_sink.schema.resolve import Schemas
from dblog_sink.schema.wire_format import with_schema_ids
from dblog_sink.state.notes import Note, RenameStatement, State
from dblog_sink.tables.profile import TopicStats, profile

log = logging.getLogger(__name__)

TopicSoFar = Callable[[SparkSession, str], DataFrame | None]
"""All records that a topic holds now, as Kafka's source has them; None if the job does not read it, or it is empty."""


class SchemaChanges:
    """Renames by table. ``record`` takes notes, and whether they are written at once."""

    def __init__(
        self, settings: Settings, schemas: Schemas, state: State, record: Callable[[Sequence[Note], bool], None], so_far: TopicSoFar
    ) -> None:
        self._settings = settings
        self._schemas = schemas
        self._state = state
        self._record = record
        self._so_far = so_far

    def read(self, stats: TopicStats, raw: DataFrame) -> tuple[list[RenameStatement], bool]:
        """The renames in a schema-change topic's records that were not known; and whether the records hold nothing else: no row, and none that is bad."""
        found: list[RenameStatement] = []
        for schema_id, writer in self._schemas.history(stats.topic, stats.value_schema_ids).items():
            change = read_avro(F.expr("substring(value, 6)"), writer)
            records = raw.where((F.col("topic") == stats.topic) & (F.col("value_schema_id") == F.lit(bytearray(schema_id))))
            statements = records.select("offset", change.alias("change")).select("offset", "change.databaseName", "change.ddl")
            for row in statements.where("ddl RLIKE '(?i)(rename|change)'").collect():
                by_table: dict[str, list[tuple[str, str]]] = {}
                for one in renamed(row["ddl"]):
                    by_table.setdefault(f"{one.database or row['databaseName']}.{one.table}".lower(), []).append((one.old, one.new))
                found += [RenameStatement(stats.topic, table, row["offset"], tuple(pairs)) for table, pairs in by_table.items()]
        new = [one for one in found if self._state.rename_statements.get((one.topic, one.table), {}).get(one.offset) != one]
        for statement in new:
            pairs = ", ".join(f"{before} to {after}" for before, after in statement.renames)
            log.info("%s: the source renamed columns: %s", statement.table, pairs)
        spec = TableSpec(name=stats.topic, topic=stats.topic, path="")
        known = self._schemas.known(spec, stats.value_schema_ids, stats.key_schema_ids, stats.texts, kind=None)
        return new, not known.envelopes and not known.unreadable_ids

    def of(self, spec: TableSpec) -> dict[int, Statement]:
        """The statements that renamed columns of the table, by their names in the target, in order: by offset, those of unknown order before all."""
        table = spec.source_name.lower()
        former = list(self._state.renames.get(table, {}).items())
        met: dict[int, Statement] = {n - len(former): [pair] for n, pair in enumerate(former)}
        met |= {at: one.renames for at, one in sorted(self._state.rename_statements.get((self._topic(spec) or "", table), {}).items())}
        named = {at: [(spec.column(old), spec.column(new)) for old, new in pairs] for at, pairs in met.items()}
        return {at: [(old, new) for old, new in pairs if old is not None and new is not None] for at, pairs in named.items()}

    def _topic(self, spec: TableSpec) -> str | None:
        """The schema-change topic of the table's source, which is called as its prefix."""
        match = self._settings["topics.name"].fullmatch(spec.topic)
        return None if match is None else match.groupdict().get("prefix")

    def caught_up(self, spec: TableSpec, session: SparkSession) -> bool:
        """Read the schema-change topic to its end; whether it has renames of the table that were not known."""
        topic = self._topic(spec)
        records = None if not topic else self._so_far(session, topic)
        if topic is None or records is None:
            return False
        raw = with_schema_ids(records)
        found = [one for stats in profile(raw) for one in self.read(stats, raw)[0]]
        if found:
            self._record(found, True)
        return any(one.table == spec.source_name.lower() for one in found)
