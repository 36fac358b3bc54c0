"""Computes a row's fingerprint of 16 bytes. A dump of mode ``verify`` puts fingerprints into its
markers instead of sending rows, so that a holder of the same rows can compare.

The first eight bytes are of the key and the other eight of the row. Each are the first bytes of an
MD5 over Avro binary, in which one value has one byte string (schemas/README.md, Fingerprints). MD5
is no protection here. It is used because it is available everywhere, including Spark; two different
rows share eight bytes of it by chance once in 10^19.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import md5

from dblog.codecs.avro import avro_text
from dblog.codecs.plan import Form, TablePlan
from dblog.codecs.schema import Schema

FRACTION = "io.dblog.fraction"
"""Parameter of a TIMESTAMP in a marker's schemas: the number of fraction digits in its text, which
an instant does not show.
"""

ROWS_MAX = 16_384
"""Largest number of rows in one marker: 256 KiB of fingerprints, which stays below Kafka's limit
for a record, also in JSON.
"""

Fingerprints = tuple[bytes, int, int]
"""16 bytes for each row, the number of dropped rows, and the digest."""


def fingerprint(key: bytes, row: bytes) -> bytes:
    """Return the fingerprint of one row. Key and row are Avro binary without frame."""
    return md5(key, usedforsecurity=False).digest()[:8] + md5(row, usedforsecurity=False).digest()[:8]


def row_schema(plan: TablePlan) -> Schema:
    """Return the schema of a bare row: that of ``before`` and ``after`` without the union with
    null.
    """
    after = next(field.schema for field in plan.value_schema.fields if field.name == "after")
    return replace(after, optional=False)


def verified_schemas(plan: TablePlan) -> tuple[str, str]:
    """Return the Avro schemas of key and row as text. Raise DefiniteError for names that Avro does
    not allow.
    """
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
