"""Sets the encoding of a connection's texts: UTF-8, to which the server converts, or the raw bytes
of a database in SQL_ASCII.

A database in SQL_ASCII has no encoding, so its texts may contain any bytes. With
client_encoding=UTF8 the server checks each text, and ends a COPY, or the log, at the first that is
not UTF-8 (SQLSTATE 22021). With client_encoding=SQL_ASCII it sends them unchanged (PostgreSQL
manual, 24.3 "Character Set Support"). Values are then read as UTF-8, with a replacement character
for each invalid byte. Names keep such bytes as lone surrogates, so that a statement names the same
table.
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
"""Name of that encoding in psycopg2."""


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
    """Set a connection to raw bytes if its database has no encoding."""
    if connection.get_parameter_status("server_encoding") == NO_ENCODING:
        connection.set_client_encoding(NO_ENCODING)
