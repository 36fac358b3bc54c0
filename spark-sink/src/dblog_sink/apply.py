"""One table brought up to a set of raw records, wherever they come from: this batch, the landing table, the quarantine.

Schemas are resolved by the driver from the inventory of the ids that the records really hold; the target is made or altered so that it can
take their columns; the table's mode does the rest. Nothing here depends on the time or on who runs it: the same records under the same
transaction id have the same outcome (I8).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t
from pyspark.sql.avro.functions import from_avro

from dblog_sink import epochs
from dblog_sink import target as targets
from dblog_sink import tombstones as sidecars
from dblog_sink.config import Settings
from dblog_sink.decode import SEQ1, Decoding, LogMark, LogMarks, decoded
from dblog_sink.epochs import Line
from dblog_sink.errors import DefiniteError, ParkError, SinkError, TransientError
from dblog_sink.evolve import Plan, Policy, of_column, planned, swapped, wider
from dblog_sink.frames import headed, is_json, maybe_derived, maybe_dumped, schema_text
from dblog_sink.merge import Txn, is_conflict, written
from dblog_sink.modes import changelog, history, mirror
from dblog_sink.modes.work import Applied, Work
from dblog_sink.places import selected, sighted, sights, stretches
from dblog_sink.quarantine import Quarantine
from dblog_sink.registry import Registry
from dblog_sink.renames import renamed
from dblog_sink.resolve import Known, Schemas
from dblog_sink.schemas import UNWRAPPED, Envelope, Field, KeySchema
from dblog_sink.session import MANY_ROWS, SessionPool
from dblog_sink.steps import Reached, nothing
from dblog_sink.tables import TableSpec
from dblog_sink.target import Target
from dblog_sink.tombstones import Tombstones

log = logging.getLogger(__name__)

_SAMPLE_ROWS = 64

History = Callable[[SparkSession, str], DataFrame | None]
"""All records that a topic holds now, as Kafka's source has them; None if it is none of the job's."""

_MODES: Mapping[str, Callable[[Work], Applied]] = {
    targets.MIRROR: mirror.apply,
    targets.HISTORY: history.apply,
    targets.CHANGELOG: changelog.apply,
}


@dataclass(slots=True)
class Share:
    """What one topic has among some records, by the first five bytes of keys and values."""

    topic: str
    records: int = 0
    value_bytes: int = 0
    key_heads: set[bytes | None] = field(default_factory=set)
    value_heads: dict[bytes, int] = field(default_factory=dict)
    texts: dict[bytes, str] = field(default_factory=dict)
    """The schema by head, of records in JSON."""
    nulls: int = 0
    """Kafka tombstones."""
    maybe_dumped: int = 0
    """Records that hold the word ``incremental``, as every row of a dump does in ``source.snapshot``."""
    maybe_derived: int = 0
    """Records that may have no ``source.sequence``."""
    first: dict[int, int] = field(default_factory=dict)
    """The least offset by partition."""
    last: dict[int, int] = field(default_factory=dict)
    """The greatest offset by partition."""


@dataclass(slots=True)
class Open:
    """A table that the sink has open: its mirror or changelog, and its sidecar."""

    target: Target
    tombstones: Tombstones | None


class Applier:
    """Everything that is open: tables and schemas, kept between batches. One table is in one place at a time: the caller sees to that."""

    def __init__(
        self,
        *,
        settings: Settings,
        registry: Registry,
        pool: SessionPool,
        quarantine: Quarantine,
        renames: Mapping[str, Mapping[str, str]],
        logs: Mapping[str, Mapping[int, Line]],
        tidied: Mapping[str, int],
        note: Callable[[dict[str, Any], bool], None] = lambda _note, _at_once: None,
        partitions: Callable[[str], Collection[int]] = lambda _topic: (),
        history: History = lambda _session, _topic: None,
        reading: bool = False,
        compacted: Callable[[str], bool] = lambda _topic: False,
        reached: Reached = nothing,
        merge_only: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._reading = reading
        self._schemas = Schemas(registry)
        self._pool = pool
        self._quarantine = quarantine
        self._reached = reached
        self._merge_only = merge_only
        self._sleep = sleep
        self._open: dict[str, Open] = {}
        self._claimed: dict[str, str] = {}
        self._looked: dict[str, tuple[str, int]] = {}
        """By topic, the Delta table's id, and the version up to which its history was looked at."""
        self._renames = renames
        self._logs = logs
        self._tidied_at = tidied
        self._note = note
        self._partitions = partitions
        self._history = history
        self._sequenced: set[str] = set()
        self._ask_compacted = compacted
        self._compacted: dict[str, bool] = {}

    def forget(self) -> None:
        """What was known of the tables may be wrong: look again."""
        self._open.clear()

    def apply(
        self, share: Share, raw: DataFrame, txn: Txn, *, log_marks: LogMarks, repeated: bool, replayed: bool = False
    ) -> Applied | None:
        """One topic's turn: retried as a whole when somebody else committed in between, for every step may be repeated.

        ``repeated``: it may have been tried before; what the table has of it by its own word is not done again. ``replayed``: out of quarantine.
        """
        attempts_max: int = self._settings["merge.attempts.max"]
        raw.sparkSession.sparkContext.setLocalProperty("spark.scheduler.pool", share.topic)
        for attempt in range(1, attempts_max + 1):
            try:
                with self._pool.borrow(share.records) as session:
                    return self._apply(share, raw, txn, session, log_marks, repeated=repeated or attempt > 1, replayed=replayed)
            except Exception as e:
                # What was known of the table may be wrong now: the failure may have come after a commit.
                self._open.pop(share.topic, None)
                if isinstance(e, SinkError) or not is_conflict(e):
                    raise
                if attempt == attempts_max:
                    msg = f"topic {share.topic}: another writer committed to its Delta table {attempt} times in between; let the sink be its only writer"
                    raise TransientError(msg) from e
                log.warning("topic %s: another writer committed in between, attempt %d of %d", share.topic, attempt, attempts_max)
                self._sleep(min(0.2 * 2**attempt, 5.0))
        raise AssertionError

    def _apply(
        self, share: Share, raw: DataFrame, txn: Txn, session: SparkSession, log_marks: LogMarks, *, repeated: bool, replayed: bool
    ) -> Applied | None:
        started_s = time.monotonic()
        read = self._read(share, raw, session)
        if not read.known.envelopes and not ((read.unwrapped or read.nulls) and share.nulls and read.opened is not None):
            return self._none_readable(share, read.known, read.records.where(F.col("value_head").isNotNull()), txn)
        spec = self._spec(share.topic)
        # In one step before anything is made: two topics of one path may be in this batch, each in its thread.
        if (other := self._claimed.setdefault(spec.path, spec.topic)) != spec.topic:
            raise targets.two_topics(spec, other)
        if read.opened is not None and self._restored(read.opened.target, spec.topic, log_marks, session, replayed=replayed):
            self._open.pop(spec.topic, None)
            read = self._read(share, raw, session)
        begun = [] if replayed else self._followed(share, spec, read, session)
        opened, plan, altered = self._opened(spec, read.opened, read.known, session)
        target = opened.target
        if read.opened is None:
            self._looked[spec.topic] = (target.id, 0)
        looked = self._looked.get(spec.topic, ("", None))[1]
        version = written(session, target.path, txn) if repeated else -1
        # A table in append mode goes on: its commit is skipped, and the positions that it reports are still wanted.
        if version > txn.version or (version == txn.version and target.mode != targets.CHANGELOG):
            done = Applied(table=target.name, topic=share.topic, records=share.records, path="done", rows=target.rows, table_id=target.id)
            return replace(done, version=looked)
        self._promised(target, session)
        nulls = read.nulls and target.mode != targets.CHANGELOG
        work = Work(
            topic=share.topic,
            target=target,
            tombstones=opened.tombstones,
            raw=read.records.where(F.col("value_head").isNotNull()) if read.nulls and not nulls else read.records,
            decoding=replace(
                self._decoding(spec, target, read, plan, log_marks.positions if log_marks.table_id == target.id else {}),
                placed=replayed,
                nulls=nulls,
            ),
            records=share.records,
            value_bytes=share.value_bytes,
            session=session,
            settings=self._settings,
            quarantine=self._quarantine,
            txn=txn,
            reached=self._reached,
            truncate=spec.truncate,
            **self._order(share, spec, read),
            replayed=replayed,
            merge_only=self._merge_only,
            nulls=nulls,
        )
        applied = _MODES[target.mode](work)
        applied.changes = altered + begun
        applied.table_id, applied.version = target.id, looked
        applied.appending = target.mode == targets.CHANGELOG
        self._compact(spec, opened, session)
        applied.seconds = time.monotonic() - started_s
        return applied

    def _followed(self, share: Share, spec: TableSpec, read: _Read, session: SparkSession) -> list[str]:
        """Note of which of the source's logs the records are, before anything is written by it; what is to be told. ParkError where a person must judge."""
        topic = share.topic
        followed = self._lines(share, read, session)
        if followed is None:
            return []
        lines, begun = followed
        told = [epochs.sentence(spec.name, topic, partition, one) for partition, one in begun]
        if begun and self._settings.cuts:
            msg = f"{told[0]}. A manifest is of one log: give the job a new state.path and target.path, or set manifest.interval.s=0"
            raise DefiniteError(msg)
        note: dict[str, Any] = {"logs": {topic: {str(partition): epochs.note_of(line) for partition, line in lines.items()}}}
        unsure = [text for text, (_, one) in zip(told, begun, strict=True) if not one.sure]
        if unsure:
            note["parked"] = {topic: unsure[0]}
        self._note(note, bool(begun))
        if unsure:
            raise ParkError(unsure[0])
        for text in told:
            log.warning("%s", text)
        return told

    def _lines(self, share: Share, read: _Read, session: SparkSession) -> tuple[dict[int, Line], list[tuple[int, epochs.Begun]]] | None:
        """The lines of the topic's partitions with these records taken in, and which logs begin in them; None where no record tells."""
        topic = share.topic
        if read.unwrapped or self._settings["position"] == "topic" or not any(one.derived for one in read.known.envelopes.values()):
            return None
        if not share.maybe_derived and (topic in self._sequenced or self._begins_sequenced(share, read)):
            self._sequenced.add(topic)
            return None
        found = sighted(read.records, read.known.envelopes)
        lines: dict[int, Line] = {partition: deepcopy(line) for partition, line in self._logs.get(topic, {}).items()}
        seed = max((line.epoch for line in lines.values()), default=None)

        def line_of(partition: int) -> Line:
            nonlocal seed
            if seed is None:  # should the notes be lost: a later log than the table's newest row is not older than that
                seed = 0 if read.opened is None else _epoch_of(session, read.opened)
            return lines.setdefault(partition, Line())

        one_by_one: dict[int, list[epochs.Sight]] = {}
        if share.records >= MANY_ROWS:
            looked_at = []
            counted = stretches(found)
            rows = selected(found) if share.maybe_dumped else {}
            for partition in counted.keys() | (rows.keys() & lines.keys()):
                line, stretch = line_of(partition), counted.get(partition)
                if epochs.may_tell(line, rows.get(partition, {}), stretch) or (
                    stretch is not None and not epochs.went_on(line, stretch, epoch=seed or 0)
                ):
                    looked_at.append(partition)
            if looked_at:
                for partition, one in sights(found.where(F.col("partition").isin(looked_at))):
                    one_by_one.setdefault(partition, []).append(one)
            met = bool(counted or rows)
        else:
            for partition, one in sights(found):
                one_by_one.setdefault(partition, []).append(one)
            met = bool(one_by_one)
        if not met:
            # Every record has its own position: others of the topic are taken to have one until one seems to have none.
            if found.isEmpty():
                self._sequenced.add(topic)
            return None
        self._sequenced.discard(topic)
        begun = [
            (partition, one)
            for partition, some in sorted(one_by_one.items())
            if partition in lines or not all(one.selected for one in some)  # those alone begin nothing
            for one in epochs.followed(line_of(partition), some, epoch=seed or 0)
        ]
        return lines, begun

    def _begins_sequenced(self, share: Share, read: _Read) -> bool:
        """Whether some of many records, all of one schema and none of which seems to lack its own position, have one: then all are taken to."""
        if share.records < MANY_ROWS or len(read.known.envelopes) > 1:
            return False
        (head,) = read.known.envelopes
        some = read.records.where(F.col("value_head") == F.lit(bytearray(head))).limit(_SAMPLE_ROWS)
        return sighted(some, read.known.envelopes).isEmpty()

    def _order(self, share: Share, spec: TableSpec, read: _Read) -> dict[str, Any]:
        """Whether a truncate, which comes in one partition, has a place among the rows of all."""
        way_out = f"table.<rule>.truncate=ignore and resume it, or move {spec.path} and {self.sidecar_path(spec.path)} away, resume it and dump it again"
        if read.unwrapped or self._settings["position"] == "topic":
            if len({*share.first, *self._partitions(share.topic)}) == 1:
                return {}
            reason = (
                f"{spec.name} was truncated in the source, and its rows are ordered by the offsets of topic {share.topic}, which has several partitions: "
                f"which rows are older cannot be told; set {way_out}"
            )
            return {"unordered": reason}
        lines = self._logs.get(share.topic, {})
        known = {line.epoch for line in lines.values()}
        if len(known) > 1:
            reason = (
                f"{spec.name} was truncated in the source while its partitions were at different logs of it: which rows are older cannot be told; "
                f"set {way_out}"
            )
            return {"unordered": reason, "unordered_from": (min(known) + 1) << epochs.EPOCH_SHIFT}
        return {}

    def told(self, share: Share, raw: DataFrame) -> tuple[dict[str, dict[str, str]], bool]:
        """The columns that a schema-change topic says were renamed, old name to new by table; and whether there is no more to the records: none of them
        is a row, or bad.
        """
        renames: dict[str, dict[str, str]] = {}
        for frame, writer in self._schemas.history(share.topic, share.value_heads).items():
            told = from_avro(F.expr("substring(value, 6)"), writer, {"mode": "PERMISSIVE"})
            records = raw.where((F.col("topic") == share.topic) & (F.col("value_head") == F.lit(bytearray(frame))))
            statements = records.orderBy("partition", "offset").select(told.alias("told")).select("told.databaseName", "told.ddl")
            for row in statements.where("ddl RLIKE '(?i)(rename|change)'").collect():
                for one in renamed(row["ddl"]):
                    table = f"{one.database or row['databaseName']}.{one.table}".lower()
                    renames.setdefault(table, {})[one.old] = one.new
                    log.info("%s: the source renamed column %s to %s", table, one.old, one.new)
        known = self._schemas.known(
            TableSpec(name=share.topic, topic=share.topic, path=""), share.value_heads, share.key_heads, share.texts, kind=None
        )
        return renames, not known.envelopes and not known.bad_heads

    def envelopes(self, share: Share) -> dict[bytes, Envelope]:
        """By head, what the topic's records are that are rows."""
        spec = self._settings.table(share.topic) or TableSpec(name=share.topic, topic=share.topic, path="")
        return self._schemas.known(spec, share.value_heads, share.key_heads, share.texts, kind=None).envelopes

    def markers(self, share: Share) -> dict[bytes, str]:
        """By head, the writer schemas of the topic's chunk markers; empty for JSON."""
        return self._schemas.markers(share.topic, share.value_heads, share.texts)

    def placed(self, share: Share) -> dict[bytes, Envelope]:
        """The schemas by which a topic's records can be placed in the source's log. DefiniteError if its rows carry no place."""
        spec = self._settings.table(share.topic) or TableSpec(name=share.topic, topic=share.topic, path="")
        known = self._schemas.known(spec, share.value_heads, share.key_heads, share.texts, kind=None)
        if known.kind == UNWRAPPED:
            msg = (
                f"topic {share.topic} holds rows without their envelope, and a manifest must know their transactions; leave ExtractNewRecordState out, "
                "exclude the topic, or set manifest.interval.s=0"
            )
            raise DefiniteError(msg)
        epoch = epochs.epoch_sql(self._logs.get(share.topic, {}))
        return {frame: replace(envelope, epoch=epoch) for frame, envelope in known.envelopes.items()}

    def transactions(self, share: Share) -> dict[bytes, str]:
        """The writer schemas of the transaction topic's records, by head (empty: JSON)."""
        return self._schemas.transactions(share.topic, share.value_heads, share.texts)

    def rows(self, share: Share, raw: DataFrame, session: SparkSession) -> tuple[Open, DataFrame] | None:
        """The rows that these records hold, in the columns that the topic's table has now; None if there is no table or no row. Nothing is written."""
        read = self._read(share, raw, session)
        if read.opened is None or not (read.known.envelopes or (read.unwrapped and share.nulls)):
            return None
        spec, target = self._spec(share.topic), read.opened.target
        plan = self._planned(spec, target, read.known)
        # A new log among them is noted when they are merged; the rows are shown as they will be.
        lines, _ = self._lines(share, read, session) or (None, [])
        return read.opened, decoded(read.records, self._decoding(spec, target, read, plan, {}, lines))

    def _read(self, share: Share, raw: DataFrame, session: SparkSession) -> _Read:
        """What the records are, by the table that is there, if it is, and by their schemas."""
        spec = self._settings.table(share.topic)
        named = spec or TableSpec(name=share.topic, topic=share.topic, path="")
        opened = None if spec is None else self._found(spec, session)
        kind = None if opened is None else opened.target.kind
        known = self._schemas.known(named, share.value_heads, share.key_heads, share.texts, kind=kind)
        records = raw.where(F.col("topic") == share.topic)
        unwrapped = UNWRAPPED in (known.kind, named.records if known.kind is None else None)
        nulls = not unwrapped and share.nulls > 0 and self._may_lack_deletes(spec)
        if not unwrapped:  # a Kafka tombstone says nothing that the delete before it did not say, if that is still there
            records = records.where(F.col("value_head").isNotNull() | (F.lit(nulls) & F.col("key_head").isNotNull()))
        if known.left_out:
            left_out = F.col("value_head").isin([bytearray(frame) for frame in known.left_out])
            records = records.where(F.col("value_head").isNull() | ~left_out)
        return _Read(opened, known, records, unwrapped, nulls)

    def _may_lack_deletes(self, spec: TableSpec | None) -> bool:
        """Whether deletes of the topic may be gone and their null values left: it is compacted, or nobody can say that it is not.

        Not in cuts: a null value has no position, so whether it lies behind the cut is not known. There the transaction lacks a record, and that is told.
        """
        if spec is None or spec.keys or self._settings.cuts or self._reading:
            return False
        if spec.topic not in self._compacted:
            try:
                self._compacted[spec.topic] = self._ask_compacted(spec.topic)
            except Exception as e:  # noqa: BLE001  the brokers do not say, whatever the reason: then it may be
                reason = str(e).strip().partition("\n")[0]
                log.warning("topic %s: whether it is compacted is unknown, so a null value is taken for a delete: %s", spec.topic, reason)
                self._compacted[spec.topic] = True
        return self._compacted[spec.topic]

    def _decoding(
        self,
        spec: TableSpec,
        target: Target,
        read: _Read,
        plan: Plan,
        log_marks: Mapping[int, LogMark],
        lines: Mapping[int, Line] | None = None,
    ) -> Decoding:
        known = read.known
        epoch = epochs.epoch_sql(self._logs.get(spec.topic, {}) if lines is None else lines)
        return Decoding(
            keys=target.keys,
            columns=target.others,
            envelopes={
                frame: replace(envelope, fields=plan.fields[number], epoch=epoch)
                for (frame, envelope), number in zip(known.envelopes.items(), _numbers(known), strict=True)
            },
            key_schemas=_of_columns(known.key_schemas, target) if target.key_names and not spec.keys else {},
            bad_heads=known.bad_heads,
            topic_order=read.unwrapped or self._settings["position"] == "topic",
            images=target.mode == targets.CHANGELOG,
            log_marks=log_marks,
            unwrapped=read.unwrapped,
            partitions=frozenset(name for name, kind in target.keys if isinstance(kind, t.StringType) and name in target.partitions),
            unavailable=_unavailable(spec, target, known),
            keys_of_value=bool(spec.keys) and bool(target.key_names),
            fills=target.fills,
        )

    def table_id(self, topic: str) -> str | None:
        """The id of the Delta table that the topic's rows go to, None if there is none."""
        spec = self._settings.table(topic)
        if spec is None:
            return None
        with self._pool.borrow() as session:
            return targets.identity(session, spec.path)

    def kind(self, topic: str) -> str | None:
        """Of which kind the records of the topic's table are, None if there is no table."""
        spec = self._settings.table(topic)
        if spec is None:
            return None
        with self._pool.borrow() as session:
            return targets.said_of(session, spec.path)[1]

    def begun(self, topic: str, txn: Txn) -> int:
        """The last batch of this identity of which the topic's table has the rows, by the table's own word; -1 if none."""
        spec = self._settings.table(topic)
        if spec is None:
            return -1
        with self._pool.borrow() as session:
            return -1 if targets.identity(session, spec.path) is None else written(session, spec.path, txn)

    def done(self, topic: str, txn: Txn) -> bool:
        """Whether the topic's own table has all of this batch, by its word."""
        spec = self._settings.table(topic)
        if spec is None:
            return False
        with self._pool.borrow() as session:
            return targets.said_of(session, spec.path)[0] == topic and written(session, spec.path, txn) == txn.version

    def _spec(self, topic: str) -> TableSpec:
        found = self._settings.table(topic)
        if found is None:
            msg = f"topic {topic} holds rows of a table but its name does not match topics.name; set topics.name, or exclude it with topics.exclude"
            raise DefiniteError(msg)
        return found

    def _none_readable(self, share: Share, known: Known, records: DataFrame, txn: Txn) -> Applied | None:
        """A topic without one readable schema in this batch: nothing but records to leave out, or to keep in quarantine."""
        if not known.bad_heads:
            return None
        bad = sum(share.value_heads[frame] for frame in known.bad_heads)
        reason = F.lit(None).cast("string")
        for frame, text in known.bad_heads.items():
            reason = F.when(F.col("value_head") == F.lit(bytearray(frame)), F.lit(text)).otherwise(reason)
        self._quarantine.keep(records.withColumn("reason", reason), topic=share.topic, txn=txn)
        self._quarantine.check(topic=share.topic, bad=bad, records=share.records, reasons=sorted(set(known.bad_heads.values()))[:3])
        return Applied(table=share.topic, topic=share.topic, records=share.records, bad=bad, path="quarantine")

    def found(self, topic: str, session: SparkSession) -> Open | None:
        """The topic's table if it is there."""
        spec = self._settings.table(topic)
        return None if spec is None else self._found(spec, session)

    def _found(self, spec: TableSpec, session: SparkSession) -> Open | None:
        """The topic's table if it is there."""
        opened = self._open.get(spec.topic)
        if opened is None:
            target = targets.opened(session, spec=spec, reading=self._reading)
            if target is None:
                return None
            opened = self._keep(spec, target, session)
        return opened

    def _keep(self, spec: TableSpec, target: Target, session: SparkSession) -> Open:
        opened = Open(target, None)
        if target.mode != targets.CHANGELOG:
            opened.tombstones = sidecars.opened(session, path=self.sidecar_path(spec.path), keys=target.keys)
            if opened.tombstones.keys != target.keys and not self._reading:
                opened.tombstones.evolved(session, spec.name, target.keys)
        self._open[spec.topic] = opened
        if not self._reading:
            version, _ = targets.version_of(session, target.path)
            target.commits = version - self._tidied_at.get(spec.topic, version + 1)
            if target.commits < 0:  # it is met for the first time, or was made anew
                self._noted_tidy(spec.topic, target, version)
        return opened

    def _noted_tidy(self, topic: str, target: Target, version: int) -> None:
        target.commits = 0
        self._note({"tidied": {topic: version}}, False)

    def _opened(self, spec: TableSpec, opened: Open | None, known: Known, session: SparkSession) -> tuple[Open, Plan, list[str]]:
        """The topic's table, made or altered so that it can take what the records hold."""
        newest = max((envelope.schema_id for envelope in known.envelopes.values()), default=-1)
        if opened is None:
            keys, key_fields = _keys(spec, known)
            plan = planned(
                spec.name, (), _versions(known), _policy(spec), keys=frozenset(key.lower() for key in keys), key_fields=key_fields
            )
            target = targets.created(session, spec=spec, keys=keys, columns=plan.columns, kind=known.kind or spec.records, newest=newest)
            self._reached("altered")
            gone = spec.topic in self._tidied_at
            if gone:
                log.warning(
                    "%s: its Delta table %s was there and is not any more; a new one holds only what comes from here on: dump the table again",
                    spec.name,
                    spec.path,
                )
            return self._keep(spec, target, session), plan, ["made anew"] if gone else []
        target = opened.target
        plan = self._planned(spec, target, known)
        if swapped(target.columns, _versions(known), plan) and self._overtaken(spec, session):
            plan = self._planned(spec, target, known)
        if plan.changes:
            targets.altered(session, target, plan, newest=newest)
            if opened.tombstones is not None:
                opened.tombstones.evolved(session, spec.name, target.keys)
            self._reached("altered")
        for change in plan.changes:
            log.info("%s: %s", spec.name, change)
        return opened, plan, [str(change) for change in plan.changes]

    def _planned(self, spec: TableSpec, target: Target, known: Known) -> Plan:
        """How the table and the records' columns come together; DefiniteError if they cannot."""
        keys, key_fields = _keys(spec, known)
        if target.key_names and keys and {key.lower() for key in keys} != {key.lower() for key in target.key_names}:
            msg = (
                f"{spec.name}: its key in the source changed from ({', '.join(target.key_names)}) to ({', '.join(keys)}); "
                f"move {spec.path} and {self.sidecar_path(spec.path)} away and dump the table again"
            )
            raise DefiniteError(msg)
        return planned(
            spec.name,
            target.columns,
            _versions(known),
            _policy(spec),
            keys=frozenset(key.lower() for key in target.key_names),
            key_fields=key_fields if target.key_names else (),
            newest=target.newest,
            renamed=self._renamed(spec),
        )

    def _overtaken(self, spec: TableSpec, session: SparkSession) -> bool:
        """Whether the source's schema-change topic tells of renames that were not known: its records and those of rows are in different topics, and a job
        that catches up may meet the rows first. So it is read to its end before a column is taken for dropped and another one for added.
        """
        match = self._settings["topics.name"].fullmatch(spec.topic)
        topic = None if match is None else match.groupdict().get("prefix")
        records = None if not topic else self._history(session, topic)
        if topic is None or records is None:
            return False
        raw = headed(records)
        renames: dict[str, dict[str, str]] = {}
        for share in inventory(raw):
            renames |= self.told(share, raw)[0]
        known = self._renames.get(spec.name.lower(), {})
        if renames.get(spec.name.lower(), known) == known:
            return False
        self._note({"renames": renames}, True)
        return True

    def _renamed(self, spec: TableSpec) -> dict[str, str]:
        """Renames of the table's columns that the source told of, by their names in the target."""
        told = self._renames.get(spec.name.lower(), {})
        pairs = ((spec.column(old), spec.column(new)) for old, new in told.items())
        return {old: new for old, new in pairs if old is not None and new is not None}

    def sidecar_path(self, path: str) -> str:
        """Where the tombstones of the table at ``path`` are."""
        return self._settings.sidecar_path(path)

    def tidied(self, topic: str) -> None:
        """Compact the topic's table and its sidecar now. Nobody else may write them meanwhile."""
        with self._pool.borrow() as session:
            opened = self.found(topic, session)
            if opened is not None:
                self._promised(opened.target, session)
                self._tidied(self._spec(topic), opened, session)

    def _restored(self, target: Target, topic: str, known: LogMarks, session: SparkSession, *, replayed: bool) -> bool:
        """Look at what was committed since somebody looked last; whether a RESTORE is among it. A replay does not know from where on."""
        table_id, version = self._looked.get(topic, (known.table_id, known.version))
        if version is None and replayed:
            return False
        looked, restored = targets.looked_at(session, target, version if table_id == target.id else None)
        self._looked[topic] = (target.id, looked)
        return restored

    def seen(self, topic: str, known: LogMarks) -> tuple[str, int] | None:
        """As ``looked``; None where there is no table."""
        with self._pool.borrow() as session:
            opened = self.found(topic, session)
            return None if opened is None else self.looked(topic, opened.target, known, session)

    def looked(self, topic: str, target: Target, known: LogMarks, session: SparkSession) -> tuple[str, int]:
        """The topic's table and up to which version its history was looked at, now; DefiniteError if a RESTORE took rows of the sink away."""
        if self._restored(target, topic, known, session, replayed=False):
            self._open.pop(topic, None)
        return self._looked[topic]

    def _promised(self, target: Target, session: SparkSession) -> None:
        """What the manifest's newest cut names is about to be an old version: it can be read all the same."""
        if self._settings.cuts:
            targets.kept(session, target.path, keep_h=self._settings["manifest.keep.h"], now_s=time.time())

    def _compact(self, spec: TableSpec, opened: Open, session: SparkSession) -> None:
        """Put small files together now and then. It never fails a batch, whose rows are committed: it is only postponed."""
        every: int = self._settings["compact.commits"]
        if every == 0 or opened.target.commits < every:
            return
        opened.target.commits = 0  # postponed, it is tried again after as many
        try:
            self._tidied(spec, opened, session)
        except Exception as e:  # noqa: BLE001  whatever is wrong with the table, the next write tells
            reason = "another writer committed in between" if is_conflict(e) else str(e).strip().partition("\n")[0]
            log.warning("%s: compaction postponed: %s", opened.target.name, reason)

    def _tidied(self, spec: TableSpec, opened: Open, session: SparkSession) -> None:
        if spec.retention_h is not None and opened.target.mode == targets.HISTORY:
            targets.forgotten(session, opened.target, keep_h=spec.retention_h)
        targets.compacted(session, opened.target)
        if opened.tombstones is not None:
            oldest_ms = self._quarantine.oldest_ms(session, spec.topic)
            opened.tombstones.tidied(session, self._settings["tombstones.keep.h"], oldest_ms=oldest_ms)
        self._noted_tidy(spec.topic, opened.target, targets.version_of(session, opened.target.path)[0])


@dataclass(frozen=True, slots=True)
class _Read:
    """Records, and what is known of them before anything is decided."""

    opened: Open | None
    known: Known
    records: DataFrame
    """Without those that are no rows."""
    unwrapped: bool
    nulls: bool
    """Null values of an envelope's topic are among the records."""


def _of_columns(schemas: Mapping[bytes, KeySchema], target: Target) -> dict[bytes, KeySchema]:
    held = {name.lower(): kind for name, kind in target.columns}
    return {
        frame: replace(
            schema, fields=tuple(of_column(one, held[one.name.lower()]) if one.name.lower() in held else one for one in schema.fields)
        )
        for frame, schema in schemas.items()
    }


def _unavailable(spec: TableSpec, target: Target, known: Known) -> str:
    """What may stand in the place of a value; the log of MySQL and MariaDB has all, and a list of changes shows what the source said."""
    whole = all(envelope.derived for envelope in known.envelopes.values())
    return "" if whole or target.mode == targets.CHANGELOG else spec.unavailable_value_placeholder


def _epoch_of(session: SparkSession, opened: Open) -> int:
    """The epoch of the newest row in a table, or of the newest delete or truncate."""
    newest = session.read.format("delta").load(opened.target.path).agg(F.max(SEQ1)).collect()[0][0] or 0
    if opened.tombstones is not None:
        newest = max(newest, *(at[0] for at in (opened.tombstones.last, opened.tombstones.floor) if at is not None), 0)
    return int(newest) >> epochs.EPOCH_SHIFT


def _keys(spec: TableSpec, known: Known) -> tuple[tuple[str, ...], list[Field]]:
    key_fields = [] if spec.keys else _key_fields(spec.name, [schema.fields for schema in known.key_schemas.values()])
    return spec.keys or tuple(field.name for field in key_fields), key_fields


def _versions(known: Known) -> dict[int, tuple[Field, ...]]:
    return dict(zip(_numbers(known), (envelope.fields for envelope in known.envelopes.values()), strict=True))


def _policy(spec: TableSpec) -> Policy:
    return Policy(evolution=spec.evolution, drop=spec.evolution_drop, incompatible=spec.evolution_incompatible, fill=spec.evolution_fill)


def _numbers(known: Known) -> list[int]:
    """A number of its own for each schema, in the order of the heads: its id, which rises with time; a negative one for JSON, which has no id."""
    return [envelope.schema_id if envelope.schema_id >= 0 else -1 - n for n, envelope in enumerate(known.envelopes.values())]


def _key_fields(table: str, versions: list[tuple[Field, ...]]) -> list[Field]:
    """The key's fields in all schema ids among the records: the first spelling of a name, the type that holds every version's values."""
    found: dict[str, Field] = {}
    for fields in versions:
        for one in fields:
            known = found.setdefault(one.name.lower(), one)
            kind, other = known.conversion.type, one.conversion.type
            grown = wider(kind, other) or wider(other, kind)
            if grown is None:
                msg = f"{table}, key column {one.name}: its type changed from {kind.simpleString()} to {other.simpleString()}; no Delta column holds both"
                raise DefiniteError(msg)
            if grown != kind:
                found[one.name.lower()] = replace(known, conversion=replace(known.conversion, type=grown))
    return list(found.values())


def inventory(raw: DataFrame) -> list[Share]:
    """The one job that reads records from where they are (into the cache, where there is one), and says what they are.

    Counts and offsets only, for Spark sorts what it aggregates into texts; a second job fetches the schemas of records in JSON, where there are any.
    """
    shares: dict[str, Share] = {}
    found = raw.groupBy("topic", "partition", "key_head", "value_head").agg(
        F.count("*").alias("n"),
        F.count_if(maybe_dumped()).alias("dumped"),
        F.count_if(maybe_derived()).alias("derived"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.sum(F.length("value")).alias("bytes"),
    )
    for row in found.collect():
        share = shares.setdefault(row["topic"], Share(row["topic"]))
        share.records += row["n"]
        share.value_bytes += row["bytes"] or 0
        share.maybe_dumped += row["dumped"]
        share.maybe_derived += row["derived"] if row["value_head"] is not None else 0
        partition = row["partition"]
        share.key_heads.add(None if row["key_head"] is None else bytes(row["key_head"]))
        if row["value_head"] is None:
            share.nulls += row["n"]
        else:
            frame = bytes(row["value_head"])
            share.value_heads[frame] = share.value_heads.get(frame, 0) + row["n"]
        share.first[partition] = min(row["first"], share.first.get(partition, row["first"]))
        share.last[partition] = max(row["last"], share.last.get(partition, row["last"]))
    for column in ("key", "value"):
        _fetch_texts(raw, shares, column)
    return sorted(shares.values(), key=lambda share: -share.records)  # the longest work starts first


def _fetch_texts(raw: DataFrame, shares: Mapping[str, Share], column: str) -> None:
    """The schemas that stand in the records themselves."""
    heads = {
        topic: [one for one in (share.key_heads if column == "key" else share.value_heads) if is_json(one)]
        for topic, share in shares.items()
    }
    topics = [topic for topic, found in heads.items() if found]
    if not topics:
        return
    head = f"{column}_head"
    wanted = F.col(head).isin(sorted({one for found in heads.values() for one in found if one is not None}))
    texts = raw.where(F.col("topic").isin(topics) & wanted).groupBy("topic", head).agg(F.max(schema_text(column)).alias("text"))
    for row in texts.collect():
        if row["text"] is not None:
            shares[row["topic"]].texts[bytes(row[head])] = row["text"]
