"""Turns the rows of a table version into finished records: the interface of both row encoders, and
the slow one of them.

``ReferencePlan`` creates a Python value for every column and uses a converter's plain writer for
every record, so it is easy to trust. The extension (_fast.pyx) writes the same bytes without
objects, and property tests compare the two. Records are Debezium's: envelope version 2, tombstones
after deletes, an update of the key as delete and create with the headers ``__debezium.newkey`` and
``__debezium.oldkey`` (Debezium's manual, "MySQL connector", Data change events). The rows of an
event share one source block; each row adds its number to D7's low number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from zlib import crc32

from dblog.codecs import avro
from dblog.codecs.fingerprint import Fingerprints, fingerprint, row_schema
from dblog.codecs.header_text import struct_text
from dblog.codecs.plan import RowContext, TablePlan
from dblog.codecs.schema import Schema
from dblog.codecs.transactions import TransactionOrder
from dblog.errors import DefiniteError
from dblog.model import Headers

Op = Literal["c", "u", "d"]
ReadOp = Literal["r", "c", "u"]
Row = tuple[Any, ...]
Records = tuple[list[bytes | None], list[bytes | None], dict[int, Headers]]
"""Keys, values, and by index the headers of the few records that have headers."""
Chunk = tuple[list[bytes | None], list[bytes | None], int, int]
"""Keys, values, the number of dropped rows, and the digest."""

NEW_KEY_HEADER = "__debezium.newkey"
OLD_KEY_HEADER = "__debezium.oldkey"
DIGEST_MASK = (1 << 64) - 1


class RowEncoder(Protocol):
    """An encoder that turns row images of one table version into records. It is created once and
    called for each rows event or chunk.
    """

    @property
    def plan(self) -> TablePlan:
        """Plan from which the encoder was created."""

    def encode_rows(self, op: Op, body: bytes, context: RowContext, *, version: int | None = None, skip_rows: int = 0) -> Records:
        """Return the records of a rows event's body (table id first, no checksum).

        ``version`` is the event's, 1 or 2. None reads it from the body; 3 is an update of version 2
        with differences of JSON documents. The first ``skip_rows`` rows give no records, because
        they were sent before a restart. Raise DefiniteError for partial images that cannot be
        completed and for bytes that do not fit the plan.
        """

    def encode_chunk(self, rows: bytes, context: RowContext, dropped_keys: AbstractSet[bytes], op: ReadOp = "r") -> Chunk:
        """Return the records of binary result-set row packets, headers included, without the rows
        whose keys are in ``dropped_keys``.

        ``op`` is ``r`` for a chunk. All its rows have the same position, that of the low watermark,
        so their row number is 0. Rows that were read again for a change in the log have the
        change's ``op``, no image before, and numbers from 0. The digest is the sum modulo 2^64 of
        the crc32 of every row's Avro bytes (the row struct, without union index), dropped rows
        included.
        """

    def end_of_rows(self, rows: bytes, start: int, rows_max: int, bytes_max: int) -> int:
        """Return the end of the next row packets from ``start`` on: as many as both limits allow,
        and at least one.
        """

    def fingerprint_chunk(self, rows: bytes, dropped_keys: AbstractSet[bytes]) -> Fingerprints:
        """Return the fingerprints of the rows, for a dump that sends none: 16 bytes for each row
        that is not dropped, then the number of dropped rows and the digest of ``encode_chunk``. The
        plan must have a key.
        """

    def check_table_map(self, body: bytes) -> None:
        """Raise DefiniteError if the log stores the table in another way than the plan expects."""


class LogRowsReader(Protocol):
    """A function that splits rows events into pairs of images (before, after)."""

    def __call__(self, op: str, body: bytes, *, version: int | None = None) -> Iterator[tuple[Row | None, Row | None]]:
        """Yield both images of each row, as far as the operation has them. The image before an
        update may be None if the log shows it only for changed keys.
        """


class Layout(Protocol):
    """The length of a field in a row image."""

    @property
    def prefix(self) -> int:
        """Number of little-endian length bytes before the field; 0 for a fixed size."""

    @property
    def size(self) -> int:
        """Fixed size in bytes; meaningful only if ``prefix`` is 0."""


class Image(Protocol):
    """The interface that the reference encoder needs of a dialect's ``image``, a module or an
    object. Codecs import no dialect, so it is passed in.
    """

    def RowImages(self, plan: TablePlan, /) -> LogRowsReader:  # noqa: N802 - a class there
        """Return a reader of rows events."""

    def ResultRows(self, plan: TablePlan, /) -> Callable[[bytes], Iterator[Row]]:  # noqa: N802
        """Return a reader of result-set row packets."""

    def end_of_rows(self, rows: bytes, start: int, rows_max: int, bytes_max: int, /) -> int:
        """Return the end of the next row packets, as ``RowEncoder.end_of_rows`` does."""

    def source_block(self, plan: TablePlan, context: Any, /, *, row: int) -> dict[str, Any]:
        """Return the envelope's ``source`` of one row: ``source_head`` and the dialect's own
        fields. ``context`` is the dialect's own.
        """

    def check_table_map(self, plan: TablePlan, body: bytes, /) -> None:
        """Raise DefiniteError for a table map that does not fit the plan."""


class FieldImage(Image, Protocol):
    """The additional interface for an encoder that walks through the fields itself."""

    def column_layout(self, plan: TablePlan, index: int, /) -> Layout:
        """Return the layout of a column's field in a row image."""

    def log_reader(self, plan: TablePlan, index: int, /) -> Callable[[bytes], Any]:
        """Return a function from the bytes of a row image's field to the value."""

    def result_reader(self, plan: TablePlan, index: int, /) -> Callable[[bytes], Any]:
        """Return a function from the bytes of a result set's field to the value."""

    def whole_rows(self, plan: TablePlan, op: str, body: bytes, /, *, version: int | None) -> bytes:
        """Return a rows event as one of version 2 with whole rows, even if its images lack columns
        or hold differences of JSON documents.
        """

    def text_table(self, plan: TablePlan, index: int, /) -> tuple[str, ...] | None:
        """Return the 256 characters of a text column in a one-byte character set. Return () if its
        bytes are UTF-8, and None for all other columns.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """A converter for one table: functions that return the finished bytes, with frame, of a key
    struct and of an envelope.
    """

    key: Callable[[Mapping[str, Any]], bytes]
    value: Callable[[Mapping[str, Any]], bytes]


def avro_writers(plan: TablePlan) -> Writers:
    """Return the Avro converter's writers for a table."""
    return Writers(
        key=_framed(plan.key_prefix, plan.key_schema) if plan.key_schema is not None else lambda _: b"",
        value=_framed(plan.value_prefix, plan.value_schema),
    )


def _framed(prefix: bytes, schema: Schema) -> Callable[[Mapping[str, Any]], bytes]:
    write = avro.writer(schema)

    def framed(value: Mapping[str, Any]) -> bytes:
        out = bytearray(prefix)
        write(out, value)
        return bytes(out)

    return framed


class ReferencePlan:
    """The reference implementation of ``RowEncoder``. ``image`` is the dialect's image module,
    ``writers`` the converter (Avro by default).
    """

    def __init__(self, plan: TablePlan, image: Image, writers: Writers | None = None) -> None:
        self.plan = plan
        self._image = image
        self._log_rows = image.RowImages(plan)
        self._result_rows = image.ResultRows(plan)
        self._writers = avro_writers(plan) if writers is None else writers
        self._write_row = avro.writer(row_schema(plan))

    def encode_rows(self, op: Op, body: bytes, context: RowContext, *, version: int | None = None, skip_rows: int = 0) -> Records:
        """Return the records of a rows event's body; see RowEncoder."""
        plan = self.plan
        records = _Records()
        order = _Order(context.transaction)
        if op in plan.skipped_operations and (op != "u" or plan.skipped_operations >= {"c", "d"}):
            return records.keys, records.values, records.headers
        for number, (before, after) in enumerate(self._log_rows(op, body, version=version)):
            if number < skip_rows:
                continue
            source = self._image.source_block(plan, context, row=number)
            if op == "u":
                assert after is not None
                self._update(records, before, after, source, context, order)
            elif op == "c":
                assert after is not None
                records.add(self._key(after), self._value("c", None, self._struct(after), source, context, order))
            else:
                assert before is not None
                self._delete(records, before, source, context, order, headers=None)
        return records.keys, records.values, records.headers

    def encode_chunk(self, rows: bytes, context: RowContext, dropped_keys: AbstractSet[bytes], op: ReadOp = "r") -> Chunk:
        """Return the records of a chunk's rows; see RowEncoder."""
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        dropped = digest = 0
        order = _Order(context.transaction)
        for image_row in self._result_rows(rows):
            source = self._image.source_block(self.plan, context, row=0 if op == "r" else len(keys))
            row = self._struct(image_row)
            digest = digest + crc32(self._row_bytes(row)) & DIGEST_MASK
            key = self._key(image_row)
            if key is not None and key in dropped_keys:
                dropped += 1
                continue
            keys.append(key)
            values.append(self._value(op, None, row, source, context, order))
        return keys, values, dropped, digest

    def end_of_rows(self, rows: bytes, start: int, rows_max: int, bytes_max: int) -> int:
        """Return the end of the next row packets; see RowEncoder."""
        return self._image.end_of_rows(rows, start, rows_max, bytes_max)

    def fingerprint_chunk(self, rows: bytes, dropped_keys: AbstractSet[bytes]) -> Fingerprints:
        """Return the fingerprints of a chunk's rows; see RowEncoder."""
        assert self.plan.key_schema is not None
        write_key = avro.writer(self.plan.key_schema)
        out = bytearray()
        dropped = digest = 0
        for image_row in self._result_rows(rows):
            row = self._row_bytes(self._struct(image_row))
            digest = digest + crc32(row) & DIGEST_MASK
            if dropped_keys and self._key(image_row) in dropped_keys:
                dropped += 1
                continue
            key = bytearray()
            write_key(key, key_struct(self.plan, image_row))
            out += fingerprint(bytes(key), row)
        return bytes(out), dropped, digest

    def check_table_map(self, body: bytes) -> None:
        """Raise DefiniteError if the table map does not fit the plan; see RowEncoder."""
        self._image.check_table_map(self.plan, body)

    def _update(
        self, records: _Records, before: Row | None, after: Row, source: Mapping[str, Any], context: RowContext, order: _Order
    ) -> None:
        now = self._struct(after)
        if before is None:  # the log does not show the old row, so the key is unchanged
            if "u" in self.plan.skipped_operations:
                return
            records.add(self._key(after), self._value("u", None, now, source, context, order))
            return
        was = self._struct(before)
        if self.plan.skip_unchanged and self._row_bytes(was) == self._row_bytes(now):
            return
        old, new = self._key(before), self._key(after)
        if old == new:
            if "u" not in self.plan.skipped_operations:
                records.add(new, self._value("u", was, now, source, context, order))
            return
        # A changed key is sent as a delete and a create. Each is left out if its operation is
        # skipped (Debezium's EventDispatcher).
        new_key: Headers = [(NEW_KEY_HEADER, key_text(self.plan, key_struct(self.plan, after)).encode())]
        if "d" not in self.plan.skipped_operations:
            self._delete(records, before, source, context, order, headers=new_key)
        if "c" in self.plan.skipped_operations:
            return
        headers: Headers = [(OLD_KEY_HEADER, key_text(self.plan, key_struct(self.plan, before)).encode())]
        records.add(new, self._value("c", None, now, source, context, order), headers)

    def _delete(
        self, records: _Records, before: Row, source: Mapping[str, Any], context: RowContext, order: _Order, *, headers: Headers | None
    ) -> None:
        key = self._key(before)
        records.add(key, self._value("d", self._struct(before), None, source, context, order), headers)
        if self.plan.tombstones and key is not None:
            records.add(key, None, headers)

    def _struct(self, row: Row) -> dict[str, Any]:
        return {
            c.name: _or_zero(self.plan, i, c.schema, row[i] if c.rewrite is None else c.rewrite(row[i]))
            for i, c in enumerate(self.plan.columns)
            if c.included
        }

    def _key(self, row: Row) -> bytes | None:
        return self._writers.key(key_struct(self.plan, row)) if self.plan.key else None

    def _row_bytes(self, row: Mapping[str, Any]) -> bytes:
        out = bytearray()
        self._write_row(out, row)
        return bytes(out)

    def _value(self, op: str, before: Any, after: Any, source: Mapping[str, Any], context: RowContext, order: _Order) -> bytes:
        now = context.now_us
        return self._writers.value(
            {
                "before": before,
                "after": after,
                "source": source,
                "transaction": order.next_block(),
                "op": op,
                "ts_ms": now // 1000,
                "ts_us": now,
                "ts_ns": now * 1000,
            }
        )


class _Order:
    """The transaction blocks of one event's records."""

    def __init__(self, order: TransactionOrder | None) -> None:
        self._order = order
        self._records = 0

    def next_block(self) -> dict[str, Any] | None:
        """Return the transaction block of the next record. Tombstones have none and do not
        count.
        """
        order = self._order
        if order is None:
            return None
        self._records += 1
        return {"id": order.id, "total_order": order.total + self._records, "data_collection_order": order.of_table + self._records}


class _Records:
    """Keys, values and headers of the records so far."""

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: dict[int, Headers] = {}

    def add(self, key: bytes | None, value: bytes | None, headers: Headers | None = None) -> None:
        if headers:
            self.headers[len(self.keys)] = headers
        self.keys.append(key)
        self.values.append(value)


def key_struct(plan: TablePlan, row: Row) -> dict[str, Any]:
    """Return the key's fields with their original values, even if the row's struct leaves them out,
    masks or truncates them (Debezium's key generator has no mappers).
    """
    return {plan.columns[i].name: _or_zero(plan, i, plan.columns[i].key_schema, row[i]) for i in plan.key}


def _or_zero(plan: TablePlan, index: int, schema: Schema | None, value: Any) -> Any:
    """Return the value for the record: the column's zero instead of None if the schema requires a
    value. Raise DefiniteError if there is no zero.
    """
    column = plan.columns[index]
    if value is not None or schema is None or schema.optional:
        return value
    if column.zero is None:
        raise no_value(plan, index)
    return column.zero


def no_value(plan: TablePlan, index: int) -> DefiniteError:
    """Return the error for a NULL in a column whose schema allows none."""
    return DefiniteError(
        f"{plan.table.id}, column {plan.table.columns[index].name}: the log has NULL where the known schema allows none; "
        "the schema is out of sync; reset the connector's offsets to have the table's definition read again"
    )


def other_width(plan: TablePlan, width: int) -> DefiniteError:
    """Return the error for a rows event of another table version."""
    return DefiniteError(
        f"{plan.table.id}: the log has rows of {width} columns where the known schema has {len(plan.columns)}; "
        "the schema is out of sync; reset the connector's offsets to have the table's definition read again"
    )


class PartialImageError(DefiniteError):
    """The images of a rows event leave columns out. The encoders pass the event to the dialect,
    which completes it or refuses it with the same text.
    """


DUMP_AGAIN = "what is logged already is passed by a new dump: stop the connector, delete its offsets, resume it"
"""Remedy for an event of the log from which no correct record can be made."""


def partial_image(plan: TablePlan) -> PartialImageError:
    """Return the error for a row image without all columns from which no correct record can be
    made.
    """
    return PartialImageError(
        f"{plan.table.id}: the log has row images without all columns (binlog_row_image=MINIMAL); "
        f"run SET GLOBAL binlog_row_image=FULL on the source and let its sessions reconnect; {DUMP_AGAIN}"
    )


class MissingColumnsError(PartialImageError):
    """The images of a rows event show nothing for certain but the key. A caller that may query the
    database can read the rows again.
    """


def missing_columns(plan: TablePlan) -> MissingColumnsError:
    """Return the error for images whose missing columns the log alone cannot show
    (binlog_row_image=MINIMAL).
    """
    return MissingColumnsError(
        f"{partial_image(plan)}; or set dblog.row.image.missing=reread, which reads such rows again from the table: deletes then have only the key "
        "before, updates nothing"
    )


def source_head(plan: TablePlan, context: RowContext, *, row: int, database: str) -> dict[str, Any]:
    """Return the first fields of one row's source block, which all connectors have. ``snapshot`` is
    left out for rows of the log: its schema default is ``false``.
    """
    head: dict[str, Any] = {
        "version": plan.version,
        "connector": plan.connector,
        "name": plan.server_name,
        "ts_ms": context.source_ts_us // 1000,
        "db": database,
        "sequence": f'["{context.sequence_high}","{context.sequence_low + row}"]',
        "ts_us": context.source_ts_us,
        "ts_ns": context.source_ts_us * 1000,
    }
    if context.snapshot is not None:
        head["snapshot"] = context.snapshot
    return head


# --- keys in headers ------------------------------


def key_text(plan: TablePlan, row: Mapping[str, Any]) -> str:
    """Return the key struct as Connect's default SimpleHeaderConverter writes it
    (org.apache.kafka.connect.data.Values.append).
    """
    assert plan.key_schema is not None
    return struct_text(plan.key_schema, row)
