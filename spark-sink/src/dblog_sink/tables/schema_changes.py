"""Keeps columns that the source renamed, as its schema-change topic reports them.

A table's topic and the schema-change topic are read in parallel, so rows may arrive before the
record of the rename that made their columns. Before one column is taken as dropped and another as
added, the schema-change topic is read to its end.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from itertools import chain

from pyspark.sql import Column, DataFrame, SparkSession
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
"""Function that reads all current records of a topic in the form of Kafka's source; None if the job
does not read the topic, or it is empty.
"""


class SchemaChanges:
    """The renames of each table.

    ``record`` records notes, at once if its second argument is True.
    """

    def __init__(
        self,
        settings: Settings,
        schemas: Schemas,
        state: State,
        record: Callable[[Sequence[Note], bool], None],
        so_far: TopicSoFar,
        topic_id: Callable[[str], str],
    ) -> None:
        self._settings = settings
        self._schemas = schemas
        self._state = state
        self._record = record
        self._so_far = so_far
        self._topic_id = topic_id

    def read(self, stats: TopicStats, raw: DataFrame, topic_id: str) -> tuple[list[RenameStatement], bool]:
        """Return new renames in a schema-change topic's records, and True if there is nothing else.

        Something else is a row or a bad record.
        """
        found: list[RenameStatement] = []
        for schema_id, writer in self._schemas.history(stats.topic, stats.value_schema_ids).items():
            change = read_avro(F.expr("substring(value, 6)"), writer)
            records = raw.where((F.col("topic") == stats.topic) & (F.col("value_schema_id") == F.lit(bytearray(schema_id))))
            statements = records.select("offset", change.alias("change")).select(
                "offset", "change.databaseName", "change.ddl", _source(writer).alias("source")
            )
            for row in statements.where("ddl RLIKE '(?i)(rename|change)'").collect():
                by_table: dict[str, list[tuple[str, str]]] = {}
                for one in renamed(row["ddl"]):
                    by_table.setdefault(f"{one.database or row['databaseName']}.{one.table}".lower(), []).append((one.old, one.new))
                found += [
                    RenameStatement(stats.topic, table, row["offset"], tuple(pairs), topic_id, row["source"] or "")
                    for table, pairs in by_table.items()
                ]
        new = [one for one in found if not self._knows(one)]
        for statement in new:
            pairs = ", ".join(f"{before} to {after}" for before, after in statement.renames)
            log.info("%s: the source renamed columns: %s", statement.table, pairs)
        spec = TableSpec(name=stats.topic, topic=stats.topic, path="")
        known = self._schemas.known(spec, stats.value_schema_ids, stats.key_schema_ids, stats.texts, kind=None)
        return new, not known.envelopes and not known.unreadable_ids

    def _knows(self, statement: RenameStatement) -> bool:
        """Return True if the statement is known.

        It may be known from its own record, from a note of an earlier version, or because it is
        sent again.
        """
        known = self._state.rename_statements.get((statement.topic, statement.table), {})
        own = (known.get((topic_id, statement.offset)) for topic_id in (statement.topic_id, ""))
        again = (one for one in known.values() if statement.source and one.source == statement.source)
        return any(one is not None and one.renames == statement.renames for one in chain(own, again))

    def of(self, spec: TableSpec) -> dict[str, Statement]:
        """Return the statements that renamed columns of the table, in order, with the target's
        names.

        A statement's key is its offset in the schema-change topic, preceded by the topic's id if
        that is known. Offsets of a recreated topic restart, and its statements come after those of
        the former topic. Statements of unknown order come first.
        """
        table = spec.source_name.lower()
        former = list(self._state.renames.get(table, {}).items())
        met: dict[str, Statement] = {str(n - len(former)): [pair] for n, pair in enumerate(former)}
        known = self._state.rename_statements.get((self._topic(spec) or "", table), {})
        topics = list(dict.fromkeys(topic_id for topic_id, _ in known))
        for (topic_id, offset), one in sorted(known.items(), key=lambda item: (topics.index(item[0][0]), item[0][1])):
            met[f"{topic_id}:{offset}" if topic_id else str(offset)] = one.renames
        named = {at: [(spec.column(old), spec.column(new)) for old, new in pairs] for at, pairs in met.items()}
        return {at: [(old, new) for old, new in pairs if old is not None and new is not None] for at, pairs in named.items()}

    def _topic(self, spec: TableSpec) -> str | None:
        """Return the schema-change topic of the table's source; its name is the prefix."""
        match = self._settings["topics.name"].fullmatch(spec.topic)
        return None if match is None else match.groupdict().get("prefix")

    def caught_up(self, spec: TableSpec, session: SparkSession) -> bool:
        """Read the schema-change topic to its end.

        Return True if it has new renames of the table.
        """
        topic = self._topic(spec)
        records = None if not topic else self._so_far(session, topic)
        if topic is None or records is None:
            return False
        raw = with_schema_ids(records)
        topic_id = self._topic_id(topic)
        found = [one for stats in profile(raw) for one in self.read(stats, raw, topic_id)[0]]
        if found:
            self._record(found, True)
        return any(one.table == spec.source_name.lower() for one in found)


def place_of(at: str | None, statements: Sequence[str]) -> int:
    """Return how many statements, by their keys in order, are at or before the one with key ``at``.

    Return 0 if no statement of its topic is known. A key of an earlier version has no topic id and
    means the first topic.
    """
    if at is None or not statements:
        return 0
    keys = [one.rpartition(":") for one in statements]
    topics = list(dict.fromkeys(topic_id for topic_id, _, _ in keys))
    topic_id, _, offset = at.rpartition(":")
    if not topic_id and topic_id not in topics:
        topic_id = topics[0]
    if topic_id not in topics:
        return 0
    last = (topics.index(topic_id), int(offset))
    return sum((topics.index(one), int(its)) <= last for one, _, its in keys)


def _source(writer: str) -> Column:
    """Return the position of a record's statement in the source's log.

    It is the GTID, else server, file and offset; NULL if the record has none of these.
    """
    fields = {field["name"]: field["type"] for field in json.loads(writer)["fields"]}
    source = fields.get("source")
    there = {field["name"] for field in source["fields"]} if isinstance(source, dict) and "fields" in source else set()
    names = ("server_id", "file", "pos")
    whole = F.concat_ws(":", *(F.col(f"change.source.{name}") for name in names)) if there.issuperset(names) else F.lit(None)
    return F.coalesce(F.col("change.source.gtid"), whole) if "gtid" in there else whole
