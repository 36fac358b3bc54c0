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
from dblog_sink.schema.resolve import Schemas
from dblog_sink.schema.wire_format import with_schema_ids
from dblog_sink.state.notes import ColumnsRenamed, Note, State
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

    def read(self, stats: TopicStats, raw: DataFrame) -> tuple[dict[str, dict[str, str]], bool]:
        """The renames in a schema-change topic's records, old name to new by table; and whether the records hold nothing else: no row, and none that is bad."""
        renames: dict[str, dict[str, str]] = {}
        for schema_id, writer in self._schemas.history(stats.topic, stats.value_schema_ids).items():
            change = read_avro(F.expr("substring(value, 6)"), writer)
            records = raw.where((F.col("topic") == stats.topic) & (F.col("value_schema_id") == F.lit(bytearray(schema_id))))
            statements = records.orderBy("partition", "offset").select(change.alias("change")).select("change.databaseName", "change.ddl")
            for row in statements.where("ddl RLIKE '(?i)(rename|change)'").collect():
                for one in renamed(row["ddl"]):
                    table = f"{one.database or row['databaseName']}.{one.table}".lower()
                    renames.setdefault(table, {})[one.old] = one.new
                    log.info("%s: the source renamed column %s to %s", table, one.old, one.new)
        spec = TableSpec(name=stats.topic, topic=stats.topic, path="")
        known = self._schemas.known(spec, stats.value_schema_ids, stats.key_schema_ids, stats.texts, kind=None)
        return renames, not known.envelopes and not known.unreadable_ids

    def of(self, spec: TableSpec) -> dict[str, str]:
        """Renames of the table's columns, by their names in the target."""
        pairs = ((spec.column(old), spec.column(new)) for old, new in self._state.renames.get(spec.name.lower(), {}).items())
        return {old: new for old, new in pairs if old is not None and new is not None}

    def caught_up(self, spec: TableSpec, session: SparkSession) -> bool:
        """Read the schema-change topic to its end; whether it has renames of the table that were not known."""
        match = self._settings["topics.name"].fullmatch(spec.topic)
        topic = None if match is None else match.groupdict().get("prefix")
        records = None if not topic else self._so_far(session, topic)
        if topic is None or records is None:
            return False
        raw = with_schema_ids(records)
        renames: dict[str, dict[str, str]] = {}
        for stats in profile(raw):
            renames |= self.read(stats, raw)[0]
        known = self._state.renames.get(spec.name.lower(), {})
        if renames.get(spec.name.lower(), known) == known:
            return False
        self._record([ColumnsRenamed(table, names) for table, names in renames.items()], True)
        return True
