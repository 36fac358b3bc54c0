"""One micro-batch of many topics: read once, sorted out by topic, each table brought up to date in a thread of its own.

The batch is a function of its Kafka offsets alone: nothing below depends on the time, on order of arrival or on who runs it, so a replay
meets the same rows under the same transaction ids (I8). Schemas are resolved by the driver from an inventory of the ids that the batch really
holds. A table that fails does not stop the others of the batch; then the batch fails as a whole, its offsets are not committed, and the next
attempt finds the finished tables done.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from dblog_sink import target as targets
from dblog_sink import tombstones as sidecars
from dblog_sink.config import Settings
from dblog_sink.decode import Columns, Decoding, schema_id_of
from dblog_sink.errors import DefiniteError, SinkError, TransientError
from dblog_sink.evolve import wider
from dblog_sink.merge import Txn, is_conflict
from dblog_sink.modes import changelog, mirror
from dblog_sink.modes.work import Applied, Work
from dblog_sink.progress import Progress
from dblog_sink.quarantine import Quarantine
from dblog_sink.registry import Registry
from dblog_sink.schemas import Envelope, Field, KeySchema, NotRows, Unreadable, key_schema, value_schema
from dblog_sink.session import SessionPool
from dblog_sink.target import Target
from dblog_sink.tombstones import Tombstones

log = logging.getLogger(__name__)

_NOT_FRAMED = "the value is not framed by a schema id; the sink reads Avro of a Confluent-compatible converter"


@dataclass(slots=True)
class Share:
    """What one topic has in a batch, by the first five bytes of keys and values."""

    topic: str
    records: int = 0
    key_heads: set[bytes | None] = field(default_factory=set)
    value_heads: dict[bytes, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A topic's schemas in this batch, resolved."""

    envelopes: dict[bytes, Envelope]
    key_schemas: dict[bytes, KeySchema]
    bad_heads: dict[bytes, str]
    left_out: tuple[bytes, ...]
    """Heads of records that are no rows."""


@dataclass(slots=True)
class Open:
    """A table that the sink has open: its mirror or changelog, and its sidecar."""

    target: Target
    tombstones: Tombstones | None


class BatchWriter:
    """The foreachBatch function. ``running`` is held while a batch is being written: whoever holds it stops the query between batches."""

    def __init__(
        self,
        *,
        settings: Settings,
        registry: Registry,
        pool: SessionPool,
        quarantine: Quarantine,
        progress: Progress,
        generation: Callable[[DataFrame], str],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._pool = pool
        self._quarantine = quarantine
        self._progress = progress
        self._generation = generation
        self._sleep = sleep
        self._open: dict[str, Open] = {}
        self._claimed: dict[str, str] = {}
        self._values: dict[int, Envelope | NotRows | Unreadable] = {}
        self._keys: dict[int, KeySchema | Unreadable] = {}
        self._threads = ThreadPoolExecutor(max_workers=settings["merge.threads"], thread_name_prefix="dblog-table")
        self.running = threading.Lock()
        self.batches_done = 0
        self.last_batch_id = -1
        self.failure: Exception | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch; raises if any table could not be written."""
        with self.running:
            try:
                self._write(frame, batch_id)
            except Exception as e:
                self.failure = e
                self._open.clear()  # what was known of the tables may be wrong now
                raise
            self.batches_done += 1
            self.last_batch_id = batch_id

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=True)

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        started_s = time.monotonic()
        txn = Txn(f"{self._settings['name']}/{self._generation(frame)}", batch_id)
        head = partial(F.substring, pos=1, len=5)
        raw = (
            frame.where(F.col("value").isNotNull())  # a Kafka tombstone says nothing that the delete before it did not say
            .select(
                "topic",
                "partition",
                "offset",
                "timestamp",
                "key",
                "value",
                head("key").alias("key_head"),
                head("value").alias("value_head"),
            )
            .persist(StorageLevel.MEMORY_AND_DISK)
        )
        try:
            shares = _inventory(raw)
            works = [self._threads.submit(self._table, share, raw, txn) for share in shares if not self._excluded(share.topic)]
            outcomes = [(work.exception(), work) for work in works]
            failures = [error for error, _ in outcomes if error is not None]
            if failures:
                # A definite failure first: it is the one that a person must read.
                raise min(failures, key=lambda e: not isinstance(e, DefiniteError))
            applied = [one for _, work in outcomes if (one := work.result()) is not None]
        finally:
            raw.unpersist()
        records = sum(share.records for share in shares)
        if records:
            self._progress.batch(batch_id, applied, seconds=time.monotonic() - started_s, records=records)

    def _excluded(self, topic: str) -> bool:
        return self._settings["topics.exclude"].fullmatch(topic) is not None

    def _table(self, share: Share, raw: DataFrame, txn: Txn) -> Applied | None:
        """One topic's turn: retried as a whole when somebody else committed in between, for every step may be repeated."""
        attempts_max: int = self._settings["merge.attempts.max"]
        raw.sparkSession.sparkContext.setLocalProperty("spark.scheduler.pool", share.topic)
        for attempt in range(1, attempts_max + 1):
            try:
                with self._pool.borrow() as session:
                    return self._apply(share, raw, txn, session)
            except SinkError:
                raise
            except Exception as e:
                if not is_conflict(e):
                    raise
                self._open.pop(share.topic, None)
                if attempt == attempts_max:
                    msg = f"topic {share.topic}: another writer committed to its Delta table {attempt} times in between; let the sink be its only writer"
                    raise TransientError(msg) from e
                log.warning("topic %s: another writer committed in between, attempt %d of %d", share.topic, attempt, attempts_max)
                self._sleep(min(0.2 * 2**attempt, 5.0))
        raise AssertionError

    def _apply(self, share: Share, raw: DataFrame, txn: Txn, session: SparkSession) -> Applied | None:
        started_s = time.monotonic()
        known = self._resolve(share)
        records = raw.where(F.col("topic") == share.topic)
        if known.left_out:
            records = records.where(~F.col("value_head").isin([bytearray(frame) for frame in known.left_out]))
        if not known.envelopes:
            return self._none_readable(share, known, records, txn)
        match = self._settings["topics.name"].fullmatch(share.topic)
        if match is None:
            msg = f"topic {share.topic} holds rows of a table but its name does not match topics.name; set topics.name, or exclude it with topics.exclude"
            raise DefiniteError(msg)
        parts = {name: match.groupdict().get(name) or "" for name in ("prefix", "db", "table")}
        name = f"{parts['db']}.{parts['table']}"
        keys = _unified(name, [schema.fields for schema in known.key_schemas.values()])
        columns = _unified(name, [envelope.fields for envelope in known.envelopes.values()])
        opened, altered = self._opened(share.topic, name, self._settings.table_path(**parts), keys, columns, session)
        target = opened.target
        decoding = Decoding(
            keys=target.keys,
            columns=target.others,
            envelopes=known.envelopes,
            key_schemas=known.key_schemas if target.mode == targets.MIRROR else {},
            bad_heads=known.bad_heads,
            topic_order=self._settings["position"] == "topic",
            images=target.mode == targets.CHANGELOG,
        )
        work = Work(
            topic=share.topic,
            target=target,
            tombstones=opened.tombstones,
            raw=records,
            decoding=decoding,
            records=share.records,
            session=session,
            settings=self._settings,
            quarantine=self._quarantine,
            txn=txn,
        )
        applied = mirror.apply(work) if target.mode == targets.MIRROR else changelog.apply(work)
        applied.changes = altered
        self._compact(opened, session)
        applied.seconds = time.monotonic() - started_s
        return applied

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
        return Applied(table=share.topic, records=share.records, bad=bad, path="quarantine")

    def _resolve(self, share: Share) -> Known:
        envelopes: dict[bytes, Envelope] = {}
        bad_heads: dict[bytes, str] = {}
        left_out: list[bytes] = []
        for frame in sorted(share.value_heads):
            match self._value_schema(frame):
                case Envelope() as envelope:
                    envelopes[frame] = envelope
                case NotRows():
                    left_out.append(frame)
                case Unreadable(reason):
                    bad_heads[frame] = reason
        keys = {
            frame: found
            for frame in sorted(f for f in share.key_heads if f is not None)
            if isinstance(found := self._key_schema(frame), KeySchema)
        }
        return Known(envelopes=envelopes, key_schemas=keys, bad_heads=bad_heads, left_out=tuple(left_out))

    def _value_schema(self, frame: bytes) -> Envelope | NotRows | Unreadable:
        schema_id = schema_id_of(frame)
        if schema_id is None:
            return Unreadable(_NOT_FRAMED)
        if schema_id not in self._values:
            text = self._registry.schema(schema_id)
            if text is None:
                return Unreadable(f"the registry has no schema with id {schema_id}")
            self._values[schema_id] = value_schema(schema_id, text)
        return self._values[schema_id]

    def _key_schema(self, frame: bytes) -> KeySchema | Unreadable:
        schema_id = schema_id_of(frame)
        if schema_id is None:
            return Unreadable(_NOT_FRAMED)
        if schema_id not in self._keys:
            text = self._registry.schema(schema_id)
            if text is None:
                return Unreadable(f"the registry has no schema with id {schema_id}")
            self._keys[schema_id] = key_schema(schema_id, text)
        return self._keys[schema_id]

    def _opened(self, topic: str, name: str, path: str, keys: Columns, columns: Columns, session: SparkSession) -> tuple[Open, list[str]]:
        """The topic's table, made or altered so that it can take these columns."""
        opened = self._open.get(topic)
        if opened is None:
            # Claimed in one step before anything is made: the two may be in this batch, each in its thread.
            if (other := self._claimed.setdefault(path, topic)) != topic:
                msg = f"two topics map to the Delta table {path}, {other} and {topic}; use {{prefix}} in target.template"
                raise DefiniteError(msg)
            target = targets.opened(session, name=name, path=path)
            if target is None:
                key_kinds = dict(keys)
                in_order = [(column, key_kinds.pop(column, kind)) for column, kind in columns]
                target = targets.created(session, name=name, path=path, keys=keys, columns=(*key_kinds.items(), *in_order))
            opened = Open(target, None)
            if target.mode == targets.MIRROR:
                opened.tombstones = sidecars.opened(session, path=self._sidecar_path(path), keys=target.keys)
            self._open[topic] = opened
        target = opened.target
        if target.mode == targets.MIRROR and keys and {key for key, _ in keys} != set(target.key_names):
            msg = (
                f"{name}: its key in the source changed from ({', '.join(target.key_names)}) to ({', '.join(key for key, _ in keys)}); "
                f"move {path} and {self._sidecar_path(path)} away and dump the table again"
            )
            raise DefiniteError(msg)
        altered = targets.evolved(session, target, (*keys, *columns) if target.mode == targets.MIRROR else columns)
        if altered and opened.tombstones is not None:
            opened.tombstones.evolved(session, name, target.keys)
        for change in altered:
            log.info("%s: %s", name, change)
        return opened, [str(change) for change in altered]

    def _sidecar_path(self, path: str) -> str:
        base = self._settings.base_path
        relative = path[len(base) :].strip("/") if path.startswith(base) else path.replace("://", "/").strip("/")
        return f"{self._settings.state_path}/tombstones/{relative}"

    def _compact(self, opened: Open, session: SparkSession) -> None:
        """Put small files together now and then; a conflict only postpones it."""
        every: int = self._settings["compact.commits"]
        if every == 0 or opened.target.commits < every:
            return
        opened.target.commits = 0
        try:
            targets.compacted(session, opened.target)
            if opened.tombstones is not None:
                opened.tombstones.tidied(session, self._settings["tombstones.keep.h"])
        except Exception as e:
            if not is_conflict(e):
                raise
            log.warning("%s: compaction postponed, another writer committed in between", opened.target.name)


def _inventory(raw: DataFrame) -> list[Share]:
    """The one job that reads the batch from Kafka into the cache, and says what is in it."""
    shares: dict[str, Share] = {}
    for row in raw.groupBy("topic", "key_head", "value_head").count().collect():
        share = shares.setdefault(row["topic"], Share(row["topic"]))
        share.records += row["count"]
        share.key_heads.add(None if row["key_head"] is None else bytes(row["key_head"]))
        frame = bytes(row["value_head"])
        share.value_heads[frame] = share.value_heads.get(frame, 0) + row["count"]
    return sorted(shares.values(), key=lambda share: -share.records)  # the longest work starts first


def _unified(table: str, versions: list[tuple[Field, ...]]) -> Columns:
    """The columns of all schema ids in a batch: the first spelling of a name, the type that holds every version's values."""
    kinds: dict[str, tuple[str, t.DataType]] = {}
    for fields in versions:
        for one in fields:
            name, kind = kinds.setdefault(one.name.lower(), (one.name, one.conversion.type))
            other = one.conversion.type
            grown = wider(kind, other) or wider(other, kind)
            if grown is None:
                msg = f"{table}, column {name}: its type changed from {kind.simpleString()} to {other.simpleString()}; no Delta column holds both"
                raise DefiniteError(msg)
            kinds[one.name.lower()] = (name, grown)
    return tuple(kinds.values())
