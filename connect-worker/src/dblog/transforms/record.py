"""Defines the record that transforms see: topic, partition, key, value, headers and timestamp, as
Connect's ``SourceRecord`` has them.

Records are values: a transform returns another record and never changes the one that it was given,
nor a struct inside it. Key and value are read from their bytes when a transform first asks for
them, so a chain that only routes reads none.
"""

# ruff: noqa: SLF001 - a record makes other records of its own class
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dblog.codecs.schema import Schema

Read = Callable[[bytes], Any]
"""Function that returns the value in the bytes of an encoder, in Connect's value space."""


class Header(NamedTuple):
    """A header with the schema of its value. ``schema`` None is Connect's header without schema."""

    name: str
    schema: Schema | None
    value: Any


Headers = tuple[Header, ...]


class Record:
    """One record. ``value_schema`` and ``value`` are None for a tombstone.

    Structs and maps are dicts; a field that is missing in a struct's dict is not set, which Connect
    reads as the field's default. ``partition`` None leaves the choice to the producer, and
    ``timestamp`` (milliseconds) None leaves the time to it: Debezium's records have none.
    ``key_bytes`` and ``value_bytes`` are the encoder's bytes while no transform has replaced the
    part.
    """

    __slots__ = (
        "_key",
        "_reads_key",
        "_reads_value",
        "_value",
        "headers",
        "key_bytes",
        "key_schema",
        "partition",
        "timestamp",
        "topic",
        "value_bytes",
        "value_schema",
    )

    def __init__(
        self,
        topic: str,
        key_schema: Schema | None,
        key: Any,
        value_schema: Schema | None,
        value: Any,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.key_schema = key_schema
        self._key = key
        self.value_schema = value_schema
        self._value = value
        self.headers = headers
        self.timestamp = timestamp
        self.key_bytes: bytes | None = None
        self.value_bytes: bytes | None = None
        self._reads_key: Read | None = None
        self._reads_value: Read | None = None

    @classmethod
    def unread(
        cls,
        topic: str,
        key: tuple[Schema | None, bytes | None, Read | None],
        value: tuple[Schema | None, bytes | None, Read | None],
        *,
        headers: Headers,
        partition: int | None,
    ) -> Record:
        """Return a record whose key and value are read when they are first asked for.

        ``key`` and ``value`` are each (schema, bytes, reader).
        """
        record = cls(topic, key[0], None, value[0], None, headers=headers, partition=partition)
        _, record.key_bytes, record._reads_key = key
        _, record.value_bytes, record._reads_value = value
        return record

    @property
    def key(self) -> Any:
        """The key in Connect's value space."""
        if self._reads_key is not None and self.key_bytes is not None:
            self._key = self._reads_key(self.key_bytes)
            self._reads_key = None
        return self._key

    @property
    def value(self) -> Any:
        """The value in Connect's value space."""
        if self._reads_value is not None and self.value_bytes is not None:
            self._value = self._reads_value(self.value_bytes)
            self._reads_value = None
        return self._value

    def read_key(self) -> Any:
        """Return ``key``."""
        return self.key

    def read_value(self) -> Any:
        """Return ``value``."""
        return self.value

    @property
    def is_tombstone(self) -> bool:
        """True if the value is null, without reading it."""
        return self._value is None and (self._reads_value is None or self.value_bytes is None)

    def _copy(self) -> Record:
        made = Record.__new__(Record)
        made.topic = self.topic
        made.partition = self.partition
        made.key_schema = self.key_schema
        made._key = self._key
        made.value_schema = self.value_schema
        made._value = self._value
        made.headers = self.headers
        made.timestamp = self.timestamp
        made.key_bytes = self.key_bytes
        made.value_bytes = self.value_bytes
        made._reads_key = self._reads_key
        made._reads_value = self._reads_value
        return made

    def with_topic(self, topic: str) -> Record:
        """Return the record in another topic."""
        made = self._copy()
        made.topic = topic
        return made

    def with_partition(self, partition: int | None) -> Record:
        """Return the record in another partition."""
        made = self._copy()
        made.partition = partition
        return made

    def with_timestamp(self, timestamp: int | None) -> Record:
        """Return the record with another timestamp, in milliseconds."""
        made = self._copy()
        made.timestamp = timestamp
        return made

    def with_headers(self, headers: Headers) -> Record:
        """Return the record with other headers."""
        made = self._copy()
        made.headers = headers
        return made

    def with_key(self, schema: Schema | None, key: Any) -> Record:
        """Return the record with another key."""
        made = self._copy()
        made.key_schema, made._key, made.key_bytes, made._reads_key = schema, key, None, None
        return made

    def with_value_schema(self, schema: Schema) -> Record:
        """Return the record with another schema for the value that it has.

        The schemas differ in names alone, so the encoder's bytes stay right.
        """
        made = self._copy()
        made.value_schema = schema
        return made

    def with_unread_value(self, schema: Schema, data: bytes, read: Read) -> Record:
        """Return the record with a value that is a part of the encoder's bytes."""
        made = self._copy()
        made.value_schema, made._value, made.value_bytes, made._reads_value = schema, None, data, read
        return made

    def with_value(self, schema: Schema | None, value: Any) -> Record:
        """Return the record with another value."""
        made = self._copy()
        made.value_schema, made._value, made.value_bytes, made._reads_value = schema, value, None, None
        return made
