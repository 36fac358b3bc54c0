"""Frames of many schemas with as few requests to the registry as possible.

A dump of a thousand small tables has two thousand schemas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from dblog.codecs.avro import frame
from dblog.codecs.schema import Schema
from dblog.errors import DblogError
from dblog.kafka.converters import AvroConverter, Converter
from dblog.kafka.registry import RegistryClient

Asked = tuple[Converter, str, Schema]
"""A converter, a topic and a schema whose frame is requested."""


def frames(asked: Sequence[Asked]) -> list[bytes | None]:
    """Return the frame of each schema (``Converter.prefix``), or None if it failed.

    Call ``Converter.prefix`` for one schema to get its error. Raise TransientError if a request for
    several schemas failed.
    """
    made: list[bytes | None] = [None] * len(asked)
    together: dict[tuple[RegistryClient, bool], list[tuple[int, str, str]]] = {}
    for number, (converter, topic, schema) in enumerate(asked):
        try:
            if registers_together(converter):
                together.setdefault((converter.registry, converter.normalize), []).append((number, *converter.described(topic, schema)))
            else:
                made[number] = converter.prefix(topic, schema)
        except DblogError:
            continue
    for (registry, normalize), those in together.items():
        ids = registry.register_together([(subject, text) for _, subject, text in those], normalize=normalize)
        for (number, _, _), schema_id in zip(those, ids, strict=True):
            made[number] = None if schema_id is None else frame(schema_id)
    return made


def registers_together(converter: Converter) -> TypeGuard[AvroConverter]:
    """Return True if the converter can register several schemas with one request."""
    return isinstance(converter, AvroConverter) and converter.registers and converter.registry.registers_together
