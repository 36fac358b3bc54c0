"""Applies raw records to a table, whether they come from a batch, the landing table or quarantine.

The driver resolves schemas from the profile of the records. The target is created or altered so
that it can hold their columns, and the table's mode does the rest. Nothing depends on the time or
on who runs it: the same records under the same transaction id have the same outcome (I8).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink.config.job_options import Settings
from dblog_sink.config.tables import TableSpec
from dblog_sink.delta import target as targets
from dblog_sink.delta.merge import Txn, is_conflict, written
from dblog_sink.delta.session import SessionPool, fitted
from dblog_sink.delta.target import Target
from dblog_sink.errors import DefiniteError, ParkError, SinkError, TransientError
from dblog_sink.records import source_epochs
from dblog_sink.records.decode import OP, SEQ1, SEQ2, Decoding, LogEnd, LogEnds, decoded
from dblog_sink.records.log_positions import with_positions
from dblog_sink.records.source_epochs import PartitionLogs
from dblog_sink.schema.evolve import Plan, of_column
from dblog_sink.schema.registry import Registry
from dblog_sink.schema.resolve import Known, Schemas
from dblog_sink.schema.wire_format import SCHEMAS_MAX
from dblog_sink.schema.writer_schemas import UNWRAPPED, Envelope, KeySchema
from dblog_sink.state.crash_points import Reached, nothing
from dblog_sink.state.notes import Note, State, TruncatedFirst
from dblog_sink.tables import ghosts, source_names
from dblog_sink.tables.log_follower import LogFollower
from dblog_sink.tables.modes import append, history, mirror
from dblog_sink.tables.modes.work import Applied, Work
from dblog_sink.tables.open_tables import OpenTable, OpenTables, numbers
from dblog_sink.tables.profile import TopicStats
from dblog_sink.tables.quarantine import Quarantine
from dblog_sink.tables.read import ReadRecords
from dblog_sink.tables.schema_changes import SchemaChanges, TopicSoFar
from dblog_sink.tables.verify import Verdict, compare, unknown

log = logging.getLogger(__name__)

_MODES: Mapping[str, Callable[[Work], Applied]] = {
    targets.MIRROR: mirror.apply,
    targets.HISTORY: history.apply,
    targets.APPEND: append.apply,
}


_WINDOW_MS = 3_600_000
"""Longer than any window stays open. Records of a dump in quarantine came at most this long before
its first window closed.
"""


class Applier:
    """Tables and schemas that stay open between batches.

    The caller must see to it that a table has one writer at a time. ``state`` is the control
    table's, and ``record`` records notes in it. With ``reading`` nothing is created, altered or
    written.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        registry: Registry,
        pool: SessionPool,
        quarantine: Quarantine,
        state: State,
        record: Callable[[Sequence[Note], bool], None] = lambda _notes, _at_once: None,
        so_far: TopicSoFar = lambda _session, _topic: None,
        topic_id: Callable[[str], str] = lambda _topic: "",
        reading: bool = False,
        compacted: Callable[[str], bool] = lambda _topic: False,
        reached: Reached = nothing,
        merge_only: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        conflicted: Callable[[str], None] = lambda _topic: None,
    ) -> None:
        self._settings = settings
        self._reading = reading
        self._schemas = Schemas(registry)
        self._pool = pool
        self._quarantine = quarantine
        self._state = state
        self._record = record
        self._reached = reached
        self._merge_only = merge_only
        self._sleep = sleep
        self._conflicted = conflicted
        self._ask_compacted = compacted
        self._compacted: dict[str, bool] = {}
        self.schema_changes = SchemaChanges(settings, self._schemas, state, record, so_far, topic_id)
        self.logs = LogFollower(settings, state, record)
        self.tables = OpenTables(
            settings,
            state=state,
            record=record,
            schema_changes=self.schema_changes,
            quarantine=quarantine,
            reached=reached,
            reading=reading,
        )

    # -- writing --------------------------------------------------------------------------------------------------------------------------

    def apply(
        self, stats: TopicStats, raw: DataFrame, txn: Txn, *, log_ends: LogEnds, repeated: bool, replayed: bool = False
    ) -> Applied | None:
        """Apply one topic's records.

        If somebody else commits in between, all of them are applied again, since every step may be
        repeated. ``repeated`` is True if they may have been tried before; what the Delta log shows
        as written is then skipped. ``replayed`` is True for records from quarantine. Return None if
        no record is a row.
        """
        if (reason := self._settings.reserved(stats.topic)) is not None:
            raise ParkError(reason)
        if stats.has_too_many_schemas:
            msg = (
                f"topic {stats.topic}: its records in one batch have more than {SCHEMAS_MAX} schemas, which no table's have; see what else writes to it. They "
                "have landed: lower batch.records.max and resume the topic to read them in smaller batches, or leave it out with topics.exclude"
            )
            raise ParkError(msg)
        attempts_max: int = self._settings["merge.attempts.max"]
        raw.sparkSession.sparkContext.setLocalProperty("spark.scheduler.pool", stats.topic)
        for attempt in range(1, attempts_max + 1):
            try:
                with self._pool.borrow(stats.records) as session:
                    return self._apply(stats, raw, txn, session, log_ends, repeated=repeated or attempt > 1, replayed=replayed)
            except Exception as e:
                # The cached facts about the table may be wrong now, since the failure may have come
                # after a commit.
                self.tables.forget(stats.topic)
                if isinstance(e, SinkError) or not is_conflict(e):
                    raise
                self._conflicted(stats.topic)
                if attempt == attempts_max:
                    msg = f"topic {stats.topic}: another writer committed to its Delta table {attempt} times in between; let the sink be its only writer"
                    raise TransientError(msg) from e
                log.warning("topic %s: another writer committed in between, attempt %d of %d", stats.topic, attempt, attempts_max)
                self._sleep(min(0.2 * 2**attempt, 5.0))
        raise AssertionError

    def compact(self, topic: str) -> None:
        """Compact the topic's table and its tombstones now. The caller must own the table."""
        spec = self._settings.table(topic)
        if spec is None or self._settings.reserved(topic) is not None:
            return
        with self._pool.borrow() as session:
            opened = self.tables.found(spec, session)
            if opened is not None:
                self.tables.keep_readable(opened.target, session)
                self.tables.compact(spec, opened, session)

    def topics_in_quarantine(self, times: Mapping[str, tuple[int, int]]) -> set[str]:
        """Return topics with quarantined records from the time of a dump.

        ``times`` has the worker's times when the dump began and ended, by topic.
        """
        with self._pool.borrow() as session:
            around = {topic: (began_ms - _WINDOW_MS, ended_ms + _WINDOW_MS) for topic, (began_ms, ended_ms) in times.items()}
            return self._quarantine.topics_between(session, around)

    def remove_ghosts(self, topic: str, *, low: tuple[int, int], ts_ms: int, txn: Txn, log_ends: LogEnds) -> int | str:
        """Remove rows that are older than the low watermark of a whole dump (``tables/ghosts.py``).

        Return their number, or the reason why none may be removed. The caller must own the table.
        It is opened again, which finds rows of other writers, without a position, and a RESTORE.
        """
        spec = self._spec(topic)
        for attempt in range(1, self._settings["merge.attempts.max"] + 1):
            try:
                with self._pool.borrow() as session:
                    self.tables.forget(topic)
                    opened = self.tables.found(spec, session)
                    if opened is not None and self.tables.restored(topic, opened.target, log_ends, session):
                        opened = self.tables.found(spec, session)
                    if opened is None:
                        return "there is no table"
                    if (reason := ghosts.kept_reason(opened, self._settings)) is not None:
                        return reason
                    if bad := self._quarantine.count_since(session, topic, ts_ms - _WINDOW_MS):
                        return f"{bad} records of its topic that came since it began are in quarantine"
                    self.tables.keep_readable(opened.target, session)
                    epochs = {logs.epoch for logs in self._state.source_logs.get(topic, {}).values()}
                    one_log = len(epochs) <= 1
                    return ghosts.remove(opened, session, low=low, ts_ms=ts_ms, txn=txn, reached=self._reached, floor=one_log)
            except Exception as e:
                self.tables.forget(topic)
                if isinstance(e, SinkError) or not is_conflict(e) or attempt == self._settings["merge.attempts.max"]:
                    raise
                self._conflicted(topic)
                self._sleep(min(0.2 * 2**attempt, 5.0))
        raise AssertionError

    def verify(
        self, topic: str, marks: Callable[[SparkSession], DataFrame], *, low: tuple[int, int], whole: bool, log_ends: LogEnds
    ) -> Verdict:
        """Compare the table with what a dump has shown of its source (``tables/verify.py``).

        The caller must own the table.
        """
        spec = self._spec(topic)
        with self._pool.borrow() as session:
            self.tables.forget(topic)
            opened = self.tables.found(spec, session)
            if opened is not None and self.tables.restored(topic, opened.target, log_ends, session):
                opened = self.tables.found(spec, session)
            if opened is None:
                return unknown("there is no table")
            with fitted(session, opened.target.rows):
                return compare(
                    opened,
                    spec,
                    session,
                    marks(session),
                    low=low,
                    whole=whole,
                    renamed={old: new for pairs in self.schema_changes.of(spec).values() for old, new in pairs},
                    settings=self._settings,
                )

    def _apply(
        self, stats: TopicStats, raw: DataFrame, txn: Txn, session: SparkSession, log_ends: LogEnds, *, repeated: bool, replayed: bool
    ) -> Applied | None:
        started_s = time.monotonic()
        read = self._read(stats, raw, session)
        if not read.known.envelopes and not ((read.unwrapped or read.nulls) and stats.nulls and read.opened is not None):
            return self._none_readable(stats, read.known, read.records.where(F.col("value_schema_id").isNotNull()), txn, replayed=replayed)
        spec = self._spec(stats.topic)
        if read.opened is None:
            reason = source_names.misread(spec.topic, self._settings.table_parts(spec.topic), read.records, read.known.envelopes)
            if reason is not None:
                raise ParkError(reason)
            _check_that_keys_are_readable(spec, read.known)
        self.tables.claim_path(spec, read.opened)
        if read.opened is not None and self.tables.restored(spec.topic, read.opened.target, log_ends, session, replayed=replayed):
            read = self._read(stats, raw, session)
        logs_begun = [] if replayed else self.logs.follow(stats, spec, read, session)
        if (position := self._only_truncates(spec, read)) is not None:
            if spec.truncate == "apply":
                self._record([TruncatedFirst(spec.topic, position)], True)
            log.info("%s: truncated in the source before any row came: there is no table to truncate yet", spec.name)
            return Applied(table=spec.name, topic=stats.topic, records=stats.records, path="none")
        opened, plan, altered = self.tables.prepared(spec, read.opened, read.known, session)
        target = opened.target
        first = self._state.truncated_first.get(spec.topic)
        if first is not None and opened.tombstones is not None and first not in opened.tombstones.floors:
            opened.tombstones.write_floor(session, first, txn.of("floor:first"))
        checked = self.tables.checked_version(spec.topic)
        version = written(session, target.path, txn) if repeated else -1
        # A table in append mode goes on: its commit is skipped, and the positions that it reports
        # are needed.
        if version > txn.version or (version == txn.version and target.mode != targets.APPEND):
            return Applied(
                table=target.name,
                topic=stats.topic,
                records=stats.records,
                path="done",
                rows=target.rows,
                table_id=target.id,
                version=checked,
            )
        self.tables.keep_readable(target, session)
        nulls = read.nulls and target.mode != targets.APPEND
        ends = log_ends.positions if log_ends.table_id == target.id else {}
        truncates = self.logs.truncate_order(stats, spec, read, self.tables.tombstones_path(spec.path))
        work = Work(
            topic=stats.topic,
            target=target,
            tombstones=opened.tombstones,
            confirmed=opened.confirmed,
            raw=read.records.where(F.col("value_schema_id").isNotNull()) if read.nulls and not nulls else read.records,
            decoding=replace(self._decoding(spec, target, read, plan, ends), keep_offsets=replayed, nulls=nulls),
            records=stats.records,
            value_bytes=stats.value_bytes,
            session=session,
            settings=self._settings,
            quarantine=self._quarantine,
            txn=txn,
            reached=self._reached,
            truncate=spec.truncate,
            unordered=truncates.reason,
            unordered_from=truncates.from_seq1,
            replayed=replayed,
            merge_only=self._merge_only,
            nulls=nulls,
        )
        applied = _MODES[target.mode](work)
        applied.changes = altered + logs_begun
        applied.table_id, applied.version = target.id, checked
        applied.appending = target.mode == targets.APPEND
        self.tables.compact_if_due(spec, opened, session)
        applied.seconds = time.monotonic() - started_s
        return applied

    def _only_truncates(self, spec: TableSpec, read: ReadRecords) -> tuple[int, int] | None:
        """Return the last truncate's position if a new table would be created from truncates alone.

        They have no key, so they do not show whether the table has one. Return None if there is a
        row, or the question does not arise.
        """
        keyless = not read.known.key_schemas and not spec.keys
        if read.opened is not None or read.unwrapped or not keyless or spec.mode == targets.OPTION_OF[targets.APPEND]:
            return None
        epoch = source_epochs.epoch_sql(self._state.source_logs.get(spec.topic, {}))
        envelopes = {schema_id: replace(envelope, epoch=epoch) for schema_id, envelope in read.known.envelopes.items()}
        found = with_positions(read.records, envelopes, ("offset",)).agg(
            F.count_if(F.col(OP).eqNullSafe("t")).alias("truncates"),
            F.count_if(~F.col(OP).eqNullSafe("t")).alias("others"),
            F.max(F.when(F.col(OP) == "t", F.struct(SEQ1, SEQ2))).alias("last"),
        )
        (row,) = found.collect()
        if not row["truncates"] or row["others"]:
            return None
        return (row["last"][0] or 0, row["last"][1] or 0)

    def _none_readable(self, stats: TopicStats, known: Known, records: DataFrame, txn: Txn, *, replayed: bool) -> Applied | None:
        """Handle a batch in which no schema of the topic is readable.

        Its records are left out or quarantined. Return None if none is bad.
        """
        if not known.unreadable_ids:
            return None
        bad = sum(stats.value_schema_ids[schema_id] for schema_id in known.unreadable_ids)
        reason = F.lit(None).cast("string")
        for schema_id, text in known.unreadable_ids.items():
            reason = F.when(F.col("value_schema_id") == F.lit(bytearray(schema_id)), F.lit(text)).otherwise(reason)
        self._quarantine.keep(records.withColumn("reason", reason), topic=stats.topic, txn=txn, replayed=replayed)
        reasons = sorted(set(known.unreadable_ids.values()))[:3]
        self._quarantine.check(topic=stats.topic, bad=bad, records=stats.records, reasons=reasons, replayed=replayed)
        return Applied(table=stats.topic, topic=stats.topic, records=stats.records, bad=bad, path="quarantine")

    # -- reading --------------------------------------------------------------------------------------------------------------------------

    def rows(self, stats: TopicStats, raw: DataFrame, session: SparkSession) -> tuple[OpenTable, DataFrame] | None:
        """Return the rows in these records, with the columns that the topic's table has now.

        Return None if there is no table or no row. Nothing is written.
        """
        read = self._read(stats, raw, session)
        if read.opened is None or not (read.known.envelopes or (read.unwrapped and stats.nulls)):
            return None
        spec, target = self._spec(stats.topic), read.opened.target
        plan = self.tables.planned(spec, target, read.known)
        # A new log among them is recorded when they are merged; the rows are shown as they will be
        # then.
        partitions, _ = self.logs.logs_of(stats, read, session) or (None, [])
        return read.opened, decoded(read.records, self._decoding(spec, target, read, plan, {}, partitions))

    def row_schemas(self, stats: TopicStats) -> dict[bytes, Envelope]:
        """Return the schemas of the topic's records that are rows, by schema id."""
        return self._known(stats).envelopes

    def marker_schemas(self, stats: TopicStats) -> dict[bytes, str]:
        """Return the writer schemas of the topic's chunk markers by schema id; empty text for
        JSON.
        """
        return self._schemas.markers(stats.topic, stats.value_schema_ids, stats.texts)

    def transaction_schemas(self, stats: TopicStats) -> dict[bytes, str]:
        """Return the writer schemas of the transaction topic's records by schema id; empty text for
        JSON.
        """
        return self._schemas.transactions(stats.topic, stats.value_schema_ids, stats.texts)

    def position_schemas(self, stats: TopicStats) -> dict[bytes, Envelope]:
        """Return the schemas by which the log positions of a topic's rows are read.

        Raise DefiniteError if its rows have no position.
        """
        known = self._known(stats)
        if known.kind == UNWRAPPED:
            msg = (
                f"topic {stats.topic} holds rows without their envelope, and a manifest must know their transactions; leave ExtractNewRecordState out, "
                "exclude the topic, or set manifest.interval.s=0"
            )
            raise DefiniteError(msg)
        epoch = source_epochs.epoch_sql(self._state.source_logs.get(stats.topic, {}))
        return {schema_id: replace(envelope, epoch=epoch) for schema_id, envelope in known.envelopes.items()}

    # -- questions about the topic's Delta table ------------------------------------------------------------------------------------------

    def found(self, topic: str, session: SparkSession) -> OpenTable | None:
        """Return the topic's table, or None if it does not exist."""
        spec = self._settings.table(topic)
        return None if spec is None else self.tables.found(spec, session)

    def table_id(self, topic: str) -> str | None:
        """Return the id of the topic's Delta table, or None if it does not exist."""
        spec = self._settings.table(topic)
        if spec is None:
            return None
        with self._pool.borrow() as session:
            return targets.identity(session, spec.path)

    def record_kind(self, topic: str) -> str | None:
        """Return the kind of records of the topic's table, or None if it does not exist."""
        spec = self._settings.table(topic)
        if spec is None:
            return None
        with self._pool.borrow() as session:
            return targets.recorded_in(session, spec.path)[1]

    def last_written(self, topic: str, app_id: str) -> int:
        """Return the last version of this application id that the topic's Delta log shows as
        written, or -1.
        """
        spec = self._settings.table(topic)
        if spec is None:
            return -1
        with self._pool.borrow() as session:
            return -1 if targets.identity(session, spec.path) is None else written(session, spec.path, Txn(app_id, 0))

    def is_written(self, topic: str, txn: Txn) -> bool:
        """Return True if the topic's own table has the whole batch, by its Delta log."""
        spec = self._settings.table(topic)
        if spec is None:
            return False
        with self._pool.borrow() as session:
            return targets.recorded_in(session, spec.path)[0] == topic and written(session, spec.path, txn) == txn.version

    def check_history(self, topic: str, known: LogEnds) -> tuple[str, int] | None:
        """Check the commits of the topic's table without opening it.

        Return its id and the checked version, or None if the sink has no table there. Raise
        DefiniteError after a RESTORE.
        """
        with self._pool.borrow() as session:
            return self.tables.check_unopened(self._spec(topic), known, session)

    # -- parts ----------------------------------------------------------------------------------------------------------------------------

    def _spec(self, topic: str) -> TableSpec:
        found = self._settings.table(topic)
        if found is None:
            msg = f"topic {topic} holds rows of a table but its name does not match topics.name; set topics.name, or exclude it with topics.exclude"
            # A ParkError, because anybody who names a table in the source names the topic.
            raise ParkError(msg)
        return found

    def _known(self, stats: TopicStats, kind: str | None = None) -> Known:
        spec = self._settings.table(stats.topic) or TableSpec(name=stats.topic, topic=stats.topic, path="")
        return self._schemas.known(spec, stats.value_schema_ids, stats.key_schema_ids, stats.texts, kind=kind)

    def _read(self, stats: TopicStats, raw: DataFrame, session: SparkSession) -> ReadRecords:
        """Resolve the records' schemas, and select those that are rows or may delete one."""
        spec = self._settings.table(stats.topic)
        opened = None if spec is None else self.tables.found(spec, session)
        known = self._known(stats, None if opened is None else opened.target.kind)
        records = raw.where(F.col("topic") == stats.topic)
        unwrapped = UNWRAPPED in (known.kind, spec.records if spec is not None and known.kind is None else None)
        nulls = not unwrapped and stats.nulls > 0 and self._may_lack_deletes(spec)
        # A Kafka tombstone adds nothing to the delete before it, unless that was compacted away.
        if not unwrapped:
            records = records.where(F.col("value_schema_id").isNotNull() | (F.lit(nulls) & F.col("key_schema_id").isNotNull()))
        if known.left_out:
            left_out = F.col("value_schema_id").isin([bytearray(schema_id) for schema_id in known.left_out])
            records = records.where(F.col("value_schema_id").isNull() | ~left_out)
        return ReadRecords(opened, known, records, unwrapped, nulls)

    def _may_lack_deletes(self, spec: TableSpec | None) -> bool:
        """Return True if null values of the topic may stand for deletes that were compacted away.

        That is so if the topic is compacted, or if that is unknown. It is not so with snapshots: a
        null value has no position, so it cannot be said whether it is later than the snapshot.
        There the transaction is incomplete, which is reported.
        """
        if spec is None or spec.keys or self._settings.snapshots or self._reading:
            return False
        if spec.topic not in self._compacted:
            try:
                self._compacted[spec.topic] = self._ask_compacted(spec.topic)
            except Exception as e:  # noqa: BLE001  the brokers do not answer, whatever the reason: then it may be
                reason = str(e).strip().partition("\n")[0]
                log.warning("topic %s: whether it is compacted is unknown, so a null value is taken for a delete: %s", spec.topic, reason)
                self._compacted[spec.topic] = True
        return self._compacted[spec.topic]

    def _decoding(
        self,
        spec: TableSpec,
        target: Target,
        read: ReadRecords,
        plan: Plan,
        log_ends: Mapping[int, LogEnd],
        partitions: Mapping[int, PartitionLogs] | None = None,
    ) -> Decoding:
        known = read.known
        epoch = source_epochs.epoch_sql(self._state.source_logs.get(spec.topic, {}) if partitions is None else partitions)
        return Decoding(
            keys=target.keys,
            columns=target.others,
            envelopes={
                schema_id: replace(envelope, fields=plan.fields[number], epoch=epoch)
                for (schema_id, envelope), number in zip(known.envelopes.items(), numbers(known), strict=True)
            },
            key_schemas=_of_columns(known.key_schemas, target) if target.key_names and not spec.keys else {},
            unreadable_ids=known.unreadable_ids,
            topic_order=read.unwrapped or self._settings["position"] == "topic",
            images=target.mode == targets.APPEND,
            log_ends=log_ends,
            unwrapped=read.unwrapped,
            partitions=frozenset(name for name, kind in target.keys if isinstance(kind, t.StringType) and name in target.partitions),
            unavailable=_unavailable(spec, target, known),
            partial=frozenset(one for one, envelope in known.envelopes.items() if envelope.partial and target.mode != targets.APPEND),
            keys_of_value=bool(spec.keys) and bool(target.key_names),
            fills=target.fills,
        )


def _of_columns(schemas: Mapping[bytes, KeySchema], target: Target) -> dict[bytes, KeySchema]:
    kinds = {name.lower(): kind for name, kind in target.columns}
    return {
        schema_id: replace(
            schema, fields=tuple(of_column(one, kinds[one.name.lower()]) if one.name.lower() in kinds else one for one in schema.fields)
        )
        for schema_id, schema in schemas.items()
    }


def _unavailable(spec: TableSpec, target: Target, known: Known) -> str:
    """Return the placeholder that may stand for a value, empty if there is none.

    MySQL's and MariaDB's logs have all values, and append mode keeps the placeholder.
    """
    whole = all(envelope.derived for envelope in known.envelopes.values())
    return "" if whole or target.mode == targets.APPEND else spec.unavailable_value_placeholder


def _check_that_keys_are_readable(spec: TableSpec, known: Known) -> None:
    """Raise ParkError for a new table whose records have keys of which none can be read.

    Such a table would be taken for one without a key, and get each change as another row.
    """
    if known.unreadable_keys and not known.key_schemas and not spec.keys and spec.mode != targets.OPTION_OF[targets.APPEND]:
        reason = known.unreadable_keys[min(known.unreadable_keys)]
        msg = (
            f"{spec.name}: the keys of its records cannot be read: {reason}. Or name the key columns with table.<rule>.keys, or keep each record as a "
            "row of its own with table.<rule>.mode=append; then start the sink again and resume the table"
        )
        raise ParkError(msg)
