"""PartitionRouting: chooses the partition by fields of the row.

The hash is that of Java (``hashCode``), so that rows go where Debezium sends them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any

from dblog.codecs.schema import Kind, Schema
from dblog.config.options import Importance, Option, Settings, positive
from dblog.config.options import Kind as OptionKind
from dblog.transforms.decimals import decimal_of, is_decimal
from dblog.transforms.envelopes import is_envelope
from dblog.transforms.faults import RecordError
from dblog.transforms.java_numbers import wrapped
from dblog.transforms.options import names
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record
from dblog.transforms.structs import field_of, with_default

_INT_MAX = (1 << 31) - 1
_CHANGE = "change"


class PartitionRouting:
    """Paths of fields, and the number of partitions."""

    effect = Effect.ADDS

    def __init__(self, paths: Sequence[tuple[str, ...]], partitions: int) -> None:
        self._paths = tuple(paths)
        self._partitions = partitions

    def apply(self, record: Record) -> Record:
        """Return the record in its partition; a record without any of the fields stays."""
        if record.is_tombstone or not is_envelope(record.value_schema):
            return record
        envelope: Mapping[str, Any] = record.value
        if envelope.get("op") in ("t", "m"):
            return record
        assert record.value_schema is not None
        found = [one for path in self._paths if (one := _found(path, record.value_schema, envelope)) is not None]
        if not found:
            return record
        total = wrapped(sum(java_hash(schema, value) for schema, value in found), 32) & _INT_MAX
        return record.with_partition((0 if total == _INT_MAX else total) % self._partitions)


def _found(path: tuple[str, ...], schema: Schema, struct: Any) -> tuple[Schema, Any] | None:
    """Return schema and value at a path; None if the field is null or not there.

    Raise RecordError if a struct on the way is null, as Debezium does.
    """
    op = struct.get("op")
    value: Any = struct
    for number, name in enumerate(path):
        wanted = ("before" if op == "d" else "after") if name == _CHANGE and number < len(path) - 1 else name
        if value is None:
            raise RecordError(f"{'.'.join(path)} leads through a null; use change in place of before and after")
        if schema.kind is not Kind.STRUCT:
            return None
        field = field_of(schema, wanted)
        if field is None:
            return None
        schema, value = field.schema, with_default(value, field)
    return None if value is None else (schema, value)


def java_hash(schema: Schema, value: Any) -> int:
    """Return Java's ``hashCode`` of a value. Raise RecordError for a type whose hash is not by its
    value.
    """
    match schema.kind:
        case Kind.BOOLEAN:
            return 1231 if value else 1237
        case Kind.INT8 | Kind.INT16 | Kind.INT32:
            return int(value)
        case Kind.INT64:
            return wrapped((value ^ (value >> 32)) & 0xFFFFFFFF, 32)
        case Kind.FLOAT32:
            return wrapped(int.from_bytes(pack(">f", value), "big"), 32)
        case Kind.FLOAT64:
            bits = int.from_bytes(pack(">d", value), "big")
            return wrapped((bits ^ (bits >> 32)) & 0xFFFFFFFF, 32)
        case Kind.STRING:
            return _text_hash(value)
        case Kind.BYTES if is_decimal(schema):
            return _decimal_hash(schema, value)
        case Kind.ARRAY:
            assert schema.items is not None
            total = 1
            for item in value:
                total = (total * 31 + (0 if item is None else java_hash(schema.items, item))) & 0xFFFFFFFF
            return wrapped(total, 32)
        case _:
            raise RecordError(
                f"a field of type {schema.kind.value} has no hash that is the same in every run; choose other partition.payload.fields"
            )


def _text_hash(text: str) -> int:
    total = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        total = (total * 31 + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return wrapped(total, 32)


def _decimal_hash(schema: Schema, value: bytes) -> int:
    """Return the hash of Java's BigDecimal: 31 times that of the unscaled number, plus the scale."""
    number = decimal_of(schema, value)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    unscaled = int.from_bytes(value, "big", signed=True)
    magnitude, total = abs(unscaled), 0
    bits = magnitude.bit_length()
    if bits < 64:  # noqa: PLR2004 - BigDecimal keeps such a number as a long
        folded = ((magnitude >> 32) * 31 + (magnitude & 0xFFFFFFFF)) & 0xFFFFFFFF
        return wrapped(31 * wrapped(-folded if unscaled < 0 else folded, 32) - exponent, 32)
    for word in range((bits + 31) // 32 - 1, -1, -1):
        total = (total * 31 + (magnitude >> (32 * word) & 0xFFFFFFFF)) & 0xFFFFFFFF
    return wrapped(31 * (total if unscaled > 0 else -total) - exponent, 32)


def _make(settings: Settings, _part: Part) -> PartitionRouting:
    paths = [tuple(part.strip() for part in path.split(".")) for path in settings.items_of("partition.payload.fields")]
    return PartitionRouting(paths, settings.integer("partition.topic.num"))


PARTITION_ROUTING = TransformPlugin(
    class_name="io.debezium.transforms.partitions.PartitionRouting",
    doc="Chooses the partition by fields of the row.",
    make=_make,
    options=(
        names(
            "partition.payload.fields",
            "Paths of fields, as in change.id or source.table; change stands for before in a delete, else for after.",
            required=True,
            importance=Importance.HIGH,
        ),
        Option(
            name="partition.topic.num",
            doc="Number of partitions of the topic; a predicate chooses the topics.",
            kind=OptionKind.INT,
            required=True,
            importance=Importance.HIGH,
            check=positive,
        ),
        Option(
            name="partition.hash.function",
            doc="Hash of the fields' values; only java is known here.",
            default="java",
            importance=Importance.LOW,
            choices=("java",),
        ),
    ),
)
