"""A table version's rows become finished records: the contract of both row encoders, and the slow one.

``ReferencePlan`` goes through a Python value for every column and a converter's plain writer for every record, so it is easy to trust; the
extension (_fast.pyx) makes the same bytes without objects, and property tests hold the two together. Records are Debezium's: envelope
version 2, tombstones after deletes, an update of the key as delete and create with ``__debezium.newkey`` and ``__debezium.oldkey`` headers
(Debezium's manual, "MySQL connector", Data change events). Both share one source block; a row adds its number to D7's low half.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal
from typing import Any, Literal, Protocol
from zlib import crc32

from dblog.codecs import avro
from dblog.codecs.fingerprint import Fingerprints, fingerprint, row_schema
from dblog.codecs.javatext import double_text, float_text
from dblog.codecs.plan import RowContext, TablePlan
from dblog.codecs.schema import Kind, Schema
from dblog.codecs.transactions import TransactionOrder
from dblog.errors import DefiniteError
from dblog.model import Headers

Op = Literal["c", "u", "d"]
ReadOp = Literal["r", "c", "u"]
Row = tuple[Any, ...]
Records = tuple[list[bytes | None], list[bytes | None], dict[int, Headers]]
"""Keys, values, and the headers of the few records that have any, by index."""
Chunk = tuple[list[bytes | None], list[bytes | None], int, int]
"""Keys, values, rows dropped, digest."""

NEW_KEY_HEADER = "__debezium.newkey"
OLD_KEY_HEADER = "__debezium.oldkey"
DIGEST_MASK = (1 << 64) - 1


class RowEncoder(Protocol):
    """Turns images of one table version into records; made once, called for each rows event or chunk."""

    @property
    def plan(self) -> TablePlan:
        """What it was made from."""

    def encode_rows(self, op: Op, body: bytes, context: RowContext, *, version: int | None = None, skip_rows: int = 0) -> Records:
        """Records of a rows event's body (table id first, no checksum).

        ``version`` is the event's, 1 or 2; None asks the body; 3 is an update of version 2 with differences of JSON documents.
        The first ``skip_rows`` rows give no records (they were sent before a restart).
        Raises DefiniteError for partial images that cannot be made whole and for bytes that do not fit the plan.
        """

    def encode_chunk(self, rows: bytes, context: RowContext, dropped_keys: AbstractSet[bytes], op: ReadOp = "r") -> Chunk:
        """Records of the binary result-set row packets ``rows``, headers included; a row whose key is in ``dropped_keys`` is left out.

        ``op`` is ``r`` for a chunk, whose rows all stand at one position, the low watermark: their row number is 0. Rows that were read again for a change of
        the log have its ``op``, no image before, and count from 0. The digest is the sum modulo 2^64 of the crc32 of every row's Avro bytes (the row
        struct, without union index), dropped ones too.
        """

    def end_of_rows(self, rows: bytes, start: int, rows_max: int, bytes_max: int) -> int:
        """Where the row packets end that are the next from ``start`` on: as many as both bounds allow, and one at least."""

    def fingerprint_chunk(self, rows: bytes, dropped_keys: AbstractSet[bytes]) -> Fingerprints:
        """Of the same rows, for a dump that sends none: 16 bytes for each that is not left out. The plan has a key. Dropped rows and digest as above."""

    def check_table_map(self, body: bytes) -> None:
        """Raise DefiniteError when the log stores the table otherwise than the plan expects."""


class LogRowsReader(Protocol):
    """Takes rows events apart into (before, after)."""

    def __call__(self, op: str, body: bytes, *, version: int | None = None) -> Iterator[tuple[Row | None, Row | None]]:
        """Both images of each row, whichever the operation has. The one before an update may be None where the log shows it only of changed keys."""


class Layout(Protocol):
    """How long a field is in a row image."""

    @property
    def prefix(self) -> int:
        """Length bytes in front, little-endian; 0 for a fixed size."""

    @property
    def size(self) -> int:
        """The fixed size."""


class Image(Protocol):
    """A dialect's ``image``, a module or an object: all that the reference encoder asks it. Codecs import no dialect, so it is passed in."""

    def LogRows(self, plan: TablePlan, /) -> LogRowsReader:  # noqa: N802 - a class there
        """A reader of rows events."""

    def ResultRows(self, plan: TablePlan, /) -> Callable[[bytes], Iterator[Row]]:  # noqa: N802
        """A reader of result-set row packets."""

    def end_of_rows(self, rows: bytes, start: int, rows_max: int, bytes_max: int, /) -> int:
        """``RowEncoder.end_of_rows``."""

    def source_block(self, plan: TablePlan, context: Any, /, *, row: int) -> dict[str, Any]:
        """The envelope's ``source`` of one row: ``source_head`` and the dialect's own fields. ``context`` is the dialect's own."""

    def check_table_map(self, plan: TablePlan, body: bytes, /) -> None:
        """Refuse a table map that does not fit the plan."""


class FieldImage(Image, Protocol):
    """What an encoder asks besides that goes through the fields by itself."""

    def column_layout(self, plan: TablePlan, index: int, /) -> Layout:
        """The layout of a column's field in a row image."""

    def log_reader(self, plan: TablePlan, index: int, /) -> Callable[[bytes], Any]:
        """From a field of a row image to the value."""

    def result_reader(self, plan: TablePlan, index: int, /) -> Callable[[bytes], Any]:
        """From a field of a result set to the value."""

    def whole_rows(self, plan: TablePlan, op: str, body: bytes, /, *, version: int | None) -> bytes:
        """A rows event of images without all columns, or with differences of JSON documents, as one of version 2 with whole rows."""

    def text_table(self, plan: TablePlan, index: int, /) -> tuple[str, ...] | None:
        """The 256 characters of a text column in a one-byte character set; () when its bytes are UTF-8; None for all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """A converter, for one table: the finished bytes, frame included, of a key struct and of an envelope."""

    key: Callable[[Mapping[str, Any]], bytes]
    value: Callable[[Mapping[str, Any]], bytes]


def avro_writers(plan: TablePlan) -> Writers:
    """The Avro converter's writers of a table."""
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
    """The reference implementation. ``image`` is the dialect's image module; ``writers`` the converter, Avro if not given."""

    def __init__(self, plan: TablePlan, image: Image, writers: Writers | None = None) -> None:
        self.plan = plan
        self._image = image
        self._log_rows = image.LogRows(plan)
        self._result_rows = image.ResultRows(plan)
        self._writers = avro_writers(plan) if writers is None else writers
        self._write_row = avro.writer(row_schema(plan))

    def encode_rows(self, op: Op, body: bytes, context: RowContext, *, version: int | None = None, skip_rows: int = 0) -> Records:
        """See RowEncoder."""
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
        """See RowEncoder."""
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
        """See RowEncoder."""
        return self._image.end_of_rows(rows, start, rows_max, bytes_max)

    def fingerprint_chunk(self, rows: bytes, dropped_keys: AbstractSet[bytes]) -> Fingerprints:
        """See RowEncoder."""
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
        """See RowEncoder."""
        self._image.check_table_map(self.plan, body)

    def _update(
        self, records: _Records, before: Row | None, after: Row, source: Mapping[str, Any], context: RowContext, order: _Order
    ) -> None:
        now = self._struct(after)
        if before is None:  # the log does not show it, so the key is as it was
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
        # A key that has changed is a delete and a create, of which each is left out as such (Debezium's EventDispatcher).
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
        """Of the next record; tombstones have none and do not count."""
        order = self._order
        if order is None:
            return None
        self._records += 1
        return {"id": order.id, "total_order": order.total + self._records, "data_collection_order": order.of_table + self._records}


class _Records:
    """Keys, values and headers as they grow."""

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
    """The key's fields: the values as they are, whatever the row's struct leaves out, masks or cuts (Debezium's key generator has no mappers)."""
    return {plan.columns[i].name: _or_zero(plan, i, plan.columns[i].key_schema, row[i]) for i in plan.key}


def _or_zero(plan: TablePlan, index: int, schema: Schema | None, value: Any) -> Any:
    """What the record gets: the zero where there is no value and the schema wants one."""
    column = plan.columns[index]
    if value is not None or schema is None or schema.optional:
        return value
    if column.zero is None:
        raise no_value(plan, index)
    return column.zero


def no_value(plan: TablePlan, index: int) -> DefiniteError:
    """A NULL in a column that has none by its schema."""
    return DefiniteError(
        f"{plan.table.id}, column {plan.table.columns[index].name}: the log has NULL where the known schema allows none; "
        "the schema is out of sync; reset the connector's offsets to have the table's definition read again"
    )


def other_width(plan: TablePlan, width: int) -> DefiniteError:
    """A rows event of another table version."""
    return DefiniteError(
        f"{plan.table.id}: the log has rows of {width} columns where the known schema has {len(plan.columns)}; "
        "the schema is out of sync; reset the connector's offsets to have the table's definition read again"
    )


class PartialImageError(DefiniteError):
    """A rows event whose images leave columns out; the encoders hand it to the dialect, which makes it whole or refuses it with the same text."""


DUMP_AGAIN = "what is logged already is passed by a new dump: stop the connector, delete its offsets, resume it"
"""The way past an event of the log of which no right record can be made."""


def partial_image(plan: TablePlan) -> PartialImageError:
    """A row image that leaves columns out of which no right record can be made."""
    return PartialImageError(
        f"{plan.table.id}: the log has row images without all columns (binlog_row_image=MINIMAL); "
        f"run SET GLOBAL binlog_row_image=FULL on the source and let its sessions reconnect; {DUMP_AGAIN}"
    )


class MissingColumnsError(PartialImageError):
    """Images of which only the key is certain: whoever may ask the database can read the rows again."""


def missing_columns(plan: TablePlan) -> MissingColumnsError:
    """What the log alone cannot show (binlog_row_image=MINIMAL)."""
    return MissingColumnsError(
        f"{partial_image(plan)}; or set dblog.row.image.missing=reread, which reads such rows again from the table: deletes then have only the key "
        "before, updates nothing"
    )


def source_head(plan: TablePlan, context: RowContext, *, row: int, database: str) -> dict[str, Any]:
    """What every connector's source block begins with, of one row. ``snapshot`` is left out for log rows: its schema default is ``false``."""
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


# --- keys in headers -------------------------------------------------------------------------------------------------


def key_text(plan: TablePlan, row: Mapping[str, Any]) -> str:
    """The key struct as Connect's default SimpleHeaderConverter writes it (org.apache.kafka.connect.data.Values.append)."""
    assert plan.key_schema is not None
    return _struct_text(plan.key_schema, row)


def _struct_text(schema: Schema, value: Mapping[str, Any]) -> str:
    members = (f"{_quoted(f.name)}:{_member_text(f.schema, value.get(f.name))}" for f in schema.fields)
    return "{" + ",".join(members) + "}"


def _member_text(schema: Schema, value: Any) -> str:
    if value is None:
        return "null"
    if schema.name in _DATE_UNITS:
        return _java_date(int(value) * _DATE_UNITS[schema.name])
    match schema.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.STRING:
            return _quoted(value)
        case Kind.BYTES if schema.name == avro.DECIMAL:
            scale = int(dict(schema.parameters).get("scale", "0"))
            return str(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, Context(prec=100)))
        case Kind.BYTES:
            return f'"{b64encode(value).decode()}"'
        case Kind.FLOAT32:
            return float_text(value)
        case Kind.FLOAT64:
            return double_text(value)
        case Kind.ARRAY:
            assert schema.items is not None
            return "[" + ",".join(_member_text(schema.items, item) for item in value) + "]"
        case Kind.STRUCT:
            return _struct_text(schema, value)
        case _:
            return str(value)


_MILLIS_PER_DAY = 86_400_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_YEARS_PER_ERA, _DAYS_PER_ERA = 400, 146_097
_DATE_UNITS = {avro.DATE: _MILLIS_PER_DAY, avro.TIME: 1, avro.TIMESTAMP: 1}


def _java_date(millis: int) -> str:
    """``Values.dateFormatFor``: anything before 1970-01-02 as a time, a whole day as a date, the rest as both."""
    seconds, fraction = divmod(millis % _MILLIS_PER_DAY, 1000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:03d}Z"
    if millis < _MILLIS_PER_DAY:
        return clock
    # The calendar repeats itself every 400 years; Python's ends in 9999.
    eras, day_of_era = divmod(millis // _MILLIS_PER_DAY + _EPOCH_DAY - 1, _DAYS_PER_ERA)
    like = date.fromordinal(day_of_era + 1)
    day = f"{like.year + eras * _YEARS_PER_ERA:04d}-{like.month:02d}-{like.day:02d}"
    return day if millis % _MILLIS_PER_DAY == 0 else f"{day}T{clock}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
