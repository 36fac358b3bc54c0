"""Rows in the format of PostgreSQL's COPY: the server's text of every field, as in pgoutput."""

from io import BytesIO

from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class, whatever its name

_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def copied(cursor: Cursor, query: str) -> list[list[bytes | None]]:
    """Return the rows of a query; None stands for NULL."""
    rows = BytesIO()
    cursor.copy_expert(f"COPY ({query}) TO STDOUT", rows)
    return [[unescaped(field) for field in line.split(b"\t")] for line in rows.getvalue().split(b"\n")[:-1]]


def unescaped(field: bytes) -> bytes | None:
    """Decode a field of COPY's text format (PostgreSQL manual, COPY, Text Format).

    NULL becomes None.
    """
    if field == b"\\N":
        return None
    parts = field.split(b"\\\\")
    for escape, character in _ESCAPES.items():
        parts = [part.replace(b"\\" + escape, character) for part in parts]
    return b"\\".join(parts)
