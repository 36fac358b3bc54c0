"""A row as 16 bytes: what a dump of mode ``verify`` leaves in its markers instead of rows, so that whoever has the same rows can compare.

Eight bytes of the key and eight of the row, each the first ones of an MD5 over Avro binary, which is one byte string for one value (schemas/README.md,
Fingerprints). MD5 protects against nothing here: it is everywhere, Spark has it, and two rows that differ share eight bytes of it by chance once in 10^19.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import md5

from dblog.codecs.avro import avro_text
from dblog.codecs.plan import Form, TablePlan
from dblog.codecs.schema import Schema

FRACTION = "io.dblog.fraction"
"""Parameter of a TIMESTAMP in the schemas of a marker: its text has so many digits of a second, which an instant does not tell."""

ROWS_MAX = 16_384
"""Of one marker: 256 KiB of fingerprints, with which it stays below what Kafka takes of a record, in JSON too."""

Fingerprints = tuple[bytes, int, int]
"""16 bytes for each row, rows dropped, digest."""


def fingerprint(key: bytes, row: bytes) -> bytes:
    """Of one row; both in Avro binary, without frame."""
    return md5(key, usedforsecurity=False).digest()[:8] + md5(row, usedforsecurity=False).digest()[:8]


def row_schema(plan: TablePlan) -> Schema:
    """The schema of a row by itself: of ``before`` and ``after``, without the union with null."""
    after = next(field.schema for field in plan.value_schema.fields if field.name == "after")
    return replace(after, optional=False)


def verified_schemas(plan: TablePlan) -> tuple[str, str]:
    """The Avro schemas of key and row, as text. DefiniteError for names that Avro does not allow."""
    assert plan.key_schema is not None, "rows without a key have no fingerprints"
    subject = str(plan.table.id)
    return avro_text(_with_fractions(plan.key_schema, plan), subject=subject), avro_text(
        _with_fractions(row_schema(plan), plan), subject=subject
    )


def _with_fractions(schema: Schema, plan: TablePlan) -> Schema:
    digits = {column.name: str(column.length) for column in plan.columns if column.form is Form.ZONED_TIMESTAMP}
    fields = [
        replace(field, schema=replace(field.schema, parameters=(*field.schema.parameters, (FRACTION, digits[field.name]))))
        if field.name in digits
        else field
        for field in schema.fields
    ]
    return replace(schema, fields=tuple(fields))
