"""How the texts of a connection are encoded: as UTF-8, which the server converts to, or as the bytes that a database in SQL_ASCII has.

Such a database knows no encoding, so its texts may hold any bytes. With client_encoding=UTF8 the server checks each of them, and ends a COPY, or the log,
at the first that is no UTF-8 (SQLSTATE 22021). With client_encoding=SQL_ASCII it sends them as they are (PostgreSQL manual, 24.3 "Character Set Support").
Values are read as UTF-8 then, with a replacement character for each byte that is none. Names keep such bytes as lone surrogates, so that a statement names
the same table.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any

import psycopg2.extensions

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

NO_ENCODING = "SQL_ASCII"
_CODEC = "dblog_utf8_or_bytes"
_KEY = "SQLASCII"
"""psycopg2's name of that encoding."""


def _encoded(text: str, errors: str = "strict", /) -> tuple[bytes, int]:
    del errors
    return text.encode("utf-8", "surrogateescape"), len(text)


def _decoded(data: Buffer, errors: str = "strict", /) -> tuple[str, int]:
    del errors
    raw = bytes(data)
    return raw.decode("utf-8", "surrogateescape"), len(raw)


def _found(name: str) -> codecs.CodecInfo | None:
    return codecs.CodecInfo(_encoded, _decoded, name=_CODEC) if name == _CODEC else None


codecs.register(_found)
psycopg2.extensions.encodings[_KEY] = psycopg2.extensions.encodings[NO_ENCODING] = _CODEC


def take_bytes_as_they_are(connection: Any) -> None:
    """Set a connection's encoding where its database has none."""
    if connection.get_parameter_status("server_encoding") == NO_ENCODING:
        connection.set_client_encoding(NO_ENCODING)
