"""Writes keys, values and headers after the chain: the frame and bytes of the connector's
converters.

A part that no transform has touched keeps the bytes of the encoder if the converter is Avro. A
schema is registered at its first record, under the topic that the chain chose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dblog.codecs import avro
from dblog.codecs.header_text import header_text
from dblog.codecs.schema import Schema
from dblog.codecs.schema_caches import forgets_with_others
from dblog.errors import DefiniteError
from dblog.model import Headers as WrittenHeaders
from dblog.transforms.faults import KEY_CONVERTER, VALUE_CONVERTER, ConverterError, RecordError
from dblog.transforms.record import Headers

_KNOWN_MAX = 20_000


class Converter(Protocol):
    """The part of ``kafka.converters.Converter`` that writes a record."""

    is_avro: bool

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return the frame of a schema in a topic; may ask the registry."""

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return one record's bytes."""


class PartWriter:
    """Writer of keys or of values."""

    def __init__(self, converter: Converter, *, what: str, class_name: str = "") -> None:
        """Create the writer. ``what`` is key or value, and ``class_name`` the converter's class."""
        self._converter = converter
        self._what = what
        self._class_name = class_name
        self._known: dict[tuple[str, int], tuple[Schema, bytes, avro.Write | None]] = {}
        forgets_with_others(self)

    def forget(self) -> None:
        """Drop all schemas."""
        self._known.clear()

    def write(self, topic: str, schema: Schema | None, data: bytes | None, read: Callable[[], Any]) -> bytes | None:
        """Return the finished bytes of a key or value.

        ``data`` are the encoder's bytes if the part is as the encoder made it, else None. ``read``
        returns the value. Raise ConverterError if the converter cannot write the value, and DblogError
        if the registry refuses the schema.
        """
        if self._converter.is_avro and schema is not None:
            if data is not None:
                return self._frame(topic, schema)[1] + data
            value = read()
            if value is None:
                return None
            _, prefix, write = self._frame(topic, schema, writes=True)
            assert write is not None
            out = bytearray(prefix)
            try:
                write(out, value)
            except (DefiniteError, TypeError, AttributeError, ValueError, OverflowError) as e:
                raise self._failed(e) from e
            return bytes(out)
        value = read()
        try:
            return self._converter.serialize(topic, schema, value)
        except (DefiniteError, TypeError, AttributeError, ValueError, OverflowError) as e:
            raise self._failed(e) from e

    def _failed(self, error: Exception) -> ConverterError:
        text = f"the {self._what} converter cannot write the {self._what} by its schema ({_reason(error)})"
        stage = KEY_CONVERTER if self._what == "key" else VALUE_CONVERTER
        return ConverterError(text, stage=stage, class_name=self._class_name)

    def _frame(self, topic: str, schema: Schema, *, writes: bool = False) -> tuple[Schema, bytes, avro.Write | None]:
        known = self._known.get((topic, id(schema)))
        if known is None or known[0] is not schema or (writes and known[2] is None):
            known = (schema, self._converter.prefix(topic, schema), avro.record_writer(schema) if writes else None)
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[topic, id(schema)] = known
        return known


def _reason(error: Exception) -> str:
    """Return the reason of a failed write. Errors of Python may quote a value, so only their class
    is named.
    """
    return str(error) if isinstance(error, DefiniteError) else type(error).__name__


def written_headers(headers: Headers) -> WrittenHeaders:
    """Return headers as Connect's SimpleHeaderConverter writes them.

    Raise RecordError for a text that is not Unicode, such as JSON may hold. Bytes that were read as
    one are written again.
    """
    try:
        return [
            (header.name, None if header.value is None else header_text(header.schema, header.value).encode(errors="surrogateescape"))
            for header in headers
        ]
    except UnicodeEncodeError as e:
        raise RecordError("a header cannot be written: its text is not Unicode") from e
