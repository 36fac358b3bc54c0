"""The interface of a converter, which turns a key or a value into bytes, and what converters share.

Avro rows are written by compiled code, which asks the converter only for a schema's frame
(``prefix``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from dblog.codecs.schema import Schema
from dblog.codecs.schema_caches import forgets_with_others
from dblog.kafka.registry import RegistryClient

_SCHEMAS_MAX = 1000
NO_SCHEMA = "a value without schema, which a transform has made, can be written by the JSON and the String converter only"
NO_SCHEMAS = "its records have no schema, so nothing shows that the other columns are as they were; use the Avro or the JSON converter"


class Converter(Protocol):
    """A key or value converter."""

    is_avro: bool
    """True if records are a frame and Avro binary, so that compiled row plans apply."""

    @property
    def writes_structs(self) -> bool:
        """True if any struct can be written, such as a chunk marker; False for converters of one value."""

    @property
    def registry(self) -> RegistryClient | None:
        """The client of the registry that holds the schemas, None for a converter without one."""

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return the bytes that precede every record of this schema.

        May ask the registry, so call it once for each schema.
        """

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return one record's bytes, or None for a null without a schema (a tombstone)."""

    def partial_fault(self) -> str | None:
        """Return why records of only some columns would be misread, or None if they are safe."""


class WithoutRegistry:
    """The parts of a converter that asks no registry and writes nothing before a record."""

    is_avro = False
    writes_structs = False
    registry: RegistryClient | None = None

    def prefix(self, topic: str, schema: Schema) -> bytes:
        """Return no bytes."""
        del topic, schema
        return b""


Made = TypeVar("Made")


class Once(Generic[Made]):
    """A cache by the identity of a schema object.

    Hashing a deep schema for every record would cost more than writing the record.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, int], tuple[Schema, Made]] = {}
        forgets_with_others(self)

    def of(self, topic: str, schema: Schema, make: Callable[[], Made]) -> Made:
        """Return what ``make`` made for this topic and schema, at the first call of both."""
        known = self._made.get((topic, id(schema)))
        if known is not None and known[0] is schema:
            return known[1]
        made = make()
        if len(self._made) >= _SCHEMAS_MAX:
            self._made.clear()
        self._made[(topic, id(schema))] = (schema, made)
        return made

    def forget(self) -> None:
        """Drop all schemas."""
        self._made.clear()


def flag(settings: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return a setting that is true or false."""
    value = settings.get(name)
    return default if value is None else str(value).strip().lower() == "true"
