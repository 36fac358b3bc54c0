"""Applies a connector's chain to the records of a batch, before they enter the queue.

Every record of the task passes here but the chunk markers, as Connect applies transforms to every
record that a source task returns: rows, tombstones, heartbeats, schema changes, transaction
metadata, notifications and logical messages. The batch keeps its progress, so a dropped record
counts as done: its position is stored once the batch's other records are acknowledged. Runs of
records of one topic and partition stay one segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from dblog.codecs.schema import Kind, Schema
from dblog.errors import DefiniteError
from dblog.model import Segment
from dblog.transforms.chain import Chain
from dblog.transforms.dead_letters import DeadLetters
from dblog.transforms.faults import RecordError
from dblog.transforms.reading import reader
from dblog.transforms.record import Header, Headers, Read, Record
from dblog.transforms.structs import Derived
from dblog.transforms.writing import Converter, PartWriter, written_headers

log = structlog.get_logger(__name__)

_STRING = Schema(kind=Kind.STRING)
_LOGGED_MAX = 10
"""Failed records of one batch that get a log line each; the others are counted in one more line."""


@dataclass(slots=True)
class Passed:
    """Result for one batch: the segments, and what they count."""

    segments: list[Segment]
    records: int = 0
    size_bytes: int = 0


class TransformStage:
    """The chain of one task, with the converters that write its results.

    ``context_headers`` are those that the sender adds to rows; transforms see them, and a record
    whose headers change gets them from here. With ``tolerate`` (errors.tolerance=all) a record that
    a transform or converter cannot handle is logged, counted and left out. ``kept_topics`` are those
    into which no record may be brought, with the options that name them. ``classes`` are those of
    the key and the value converter. ``dead_letters`` writes of each record that is left out.
    """

    def __init__(
        self,
        chain: Chain,
        *,
        key_converter: Converter,
        value_converter: Converter,
        context_headers: Sequence[tuple[str, bytes | None]] = (),
        tolerate: bool = False,
        kept_topics: Mapping[str, str] | None = None,
        classes: tuple[str, str] = ("", ""),
        dead_letters: DeadLetters | None = None,
    ) -> None:
        self._parts = _Parts(
            chain=chain,
            kept_topics=kept_topics or {},
            keys=PartWriter(key_converter, what="key", class_name=classes[0]),
            values=PartWriter(value_converter, what="value", class_name=classes[1]),
            dead_letters=dead_letters,
            context=tuple(_read_header(name, data) for name, data in context_headers),
            tolerate=tolerate,
            readers=Derived(reader),
        )
        self.dropped_total = 0
        """Records that a transform dropped."""
        self.failed_total = 0
        """Records left out by errors.tolerance=all."""

    def passed(self, segments: Sequence[Segment]) -> Passed:
        """Return the segments after the chain.

        Raise DefiniteError for a record that the chain cannot handle, unless errors are tolerated,
        and DblogError if the registry cannot be asked. Then nothing is counted, and the call may be
        repeated.
        """
        batch = _Batch(self._parts)
        for segment in segments:
            if segment.schemas is None:
                batch.take(segment)
            else:
                batch.transform(segment)
        batch.report()
        self.dropped_total += batch.dropped
        self.failed_total += batch.failed
        return batch.result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of a stage."""

    chain: Chain
    kept_topics: Mapping[str, str]
    keys: PartWriter
    values: PartWriter
    context: Headers
    tolerate: bool
    readers: Derived[Read]
    dead_letters: DeadLetters | None


class _Batch:
    """The work on one batch."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts
        self.result = Passed([])
        self.dropped = 0
        self.failed = 0
        self._open: Segment | None = None
        """Segment that takes further records of its topic and partition."""

    def take(self, segment: Segment) -> None:
        """Add finished records that do not pass the chain."""
        self._open = None
        self.result.segments.append(segment)
        self.result.records += len(segment.values)
        self.result.size_bytes += sum(len(part) for part in (*segment.keys, *segment.values) if part is not None)

    def transform(self, segment: Segment) -> None:
        """Add what the chain makes of a segment's records."""
        parts = self._parts
        self._open = None
        assert segment.schemas is not None
        key_schema, value_schema = segment.schemas
        read_key: Read | None = None if key_schema is None else parts.readers.of(key_schema)
        read_value: Read | None = parts.readers.of(value_schema)
        context = parts.context if segment.context_headers else ()
        for index, (key, value) in enumerate(zip(segment.keys, segment.values, strict=True)):
            extra = segment.headers.get(index)
            headers = context if extra is None else (*(_read_header(*one) for one in extra), *context)
            record = Record.unread(
                segment.topic,
                (None, None, None) if key is None else (key_schema, key, read_key),
                (None, None, None) if value is None else (value_schema, value, read_value),
                headers=headers,
                partition=segment.partition,
            )
            try:
                made = parts.chain.apply(record)
                if made is None:
                    self.dropped += 1
                    continue
                self._add(segment, made, context)
            except RecordError as e:
                self._fail(segment, record, e)

    def _add(self, segment: Segment, made: Record, context: Headers) -> None:
        parts, topic = self._parts, made.topic
        if (option := parts.kept_topics.get(topic)) is not None:
            raise RecordError(f"the transforms bring it into the topic of {option}, which no record of a table belongs in")
        key = parts.keys.write(topic, made.key_schema, made.key_bytes, made.read_key)
        value = parts.values.write(topic, made.value_schema, made.value_bytes, made.read_value)
        same_headers = made.headers is context or made.headers == context
        headers = None if same_headers else written_headers(made.headers)
        out = self._open
        if (
            out is None
            or out.topic != topic
            or out.partition != made.partition
            or out.context_headers is not (segment.context_headers and same_headers)
        ):
            out = self._open = Segment(
                topic,
                [],
                [],
                segment.table,
                partition=made.partition,
                context_headers=segment.context_headers and same_headers,
                way_out=segment.way_out,
            )
            self.result.segments.append(out)
        if headers is not None:
            out.headers[len(out.keys)] = headers
        out.keys.append(key)
        out.values.append(value)
        self.result.records += 1
        self.result.size_bytes += (0 if key is None else len(key)) + (0 if value is None else len(value))

    def _fail(self, segment: Segment, record: Record, error: RecordError) -> None:
        where = f"topic {segment.topic}" if segment.table is None else f"table {segment.table}"
        if not self._parts.tolerate:
            raise DefiniteError(
                f"a record of {where} cannot be handled: {error}; change the transforms or the converter, or set errors.tolerance=all, which leaves such "
                "records out"
            ) from error
        self.failed += 1
        if self.failed <= _LOGGED_MAX:
            log.error("record skipped by errors.tolerance=all", where=where, reason=str(error))
        if self._parts.dead_letters is not None:
            self.take(self._parts.dead_letters.segment(segment, record, error))

    def report(self) -> None:
        """Log how many further records have failed."""
        if self.failed > _LOGGED_MAX:
            log.error("further records skipped by errors.tolerance=all", records=self.failed - _LOGGED_MAX)


def _read_header(name: str, data: bytes | None) -> Header:
    return Header(name, None, None) if data is None else Header(name, _STRING, data.decode(errors="surrogateescape"))
