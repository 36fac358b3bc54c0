"""Messages of the logical replication protocol, taken apart: what a walsender sends with pgoutput.

Rule source: PostgreSQL manual, 55.4 "Streaming Replication Protocol" (copy messages) and 55.9 "Logical Replication Message Formats". All numbers are
big-endian, texts end with a zero byte. Times are microseconds since 2000-01-01.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from dblog.errors import DamagedLogError

POSTGRES_EPOCH_US = 946_684_800_000_000
"""2000-01-01 in microseconds since 1970."""

HEADER = struct.Struct("<I")
"""In front of each copy message of a buffer: its length (wire/_libpq.pyx)."""
XLOG_DATA = struct.Struct(">cQQq")
KEEPALIVE = struct.Struct(">cQqB")
_BEGIN = struct.Struct(">Qqi")
_COMMIT = struct.Struct(">BQQq")
_RELATION_COLUMN = struct.Struct(">Ii")
_MESSAGE = struct.Struct(">BQ")

TRANSACTIONAL = 1
OF_KEY = 1


@dataclass(frozen=True, slots=True)
class Begin:
    """``commit_lsn`` is where the commit record begins; rows of the transaction follow."""

    commit_lsn: int
    ts_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """``end_lsn`` is behind the commit record: where reading goes on."""

    commit_lsn: int
    end_lsn: int
    ts_us: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """``of_key``: whether it is part of the replica identity. ``modifier``: atttypmod."""

    name: str
    type: int
    modifier: int
    of_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as its rows have it from here on. ``identity``: relreplident (``d`` default, ``n`` nothing, ``f`` full, ``i`` index)."""

    number: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables that were emptied by one statement, by number."""

    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """What pg_logical_emit_message has written."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the transaction came from, of a server that replicates itself."""

    lsn: int
    name: str


def copy_messages(data: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of each copy message of a buffer. DamagedLogError where the last one is not whole."""
    at, end = 0, len(data)
    while at < end:
        start = at + HEADER.size
        if start > end or (at := start + HEADER.unpack_from(data, at)[0]) > end:
            message = "a copy message is cut off"
            raise DamagedLogError(message)
        yield start, at


def text_at(data: bytes, at: int, *, errors: str = "surrogateescape") -> tuple[str, int]:
    """The text that begins there, and what is behind its zero byte. ``errors``: what becomes of bytes that are no UTF-8."""
    end = data.index(0, at)
    return data[at:end].decode("utf-8", errors), end + 1


def read_begin(data: bytes, at: int) -> Begin:
    """Behind the letter ``B``."""
    commit_lsn, ts, xid = _BEGIN.unpack_from(data, at)
    return Begin(commit_lsn, ts + POSTGRES_EPOCH_US, xid & 0xFFFFFFFF)


def read_commit(data: bytes, at: int) -> Commit:
    """Behind the letter ``C``."""
    _, commit_lsn, end_lsn, ts = _COMMIT.unpack_from(data, at)
    return Commit(commit_lsn, end_lsn, ts + POSTGRES_EPOCH_US)


def read_relation(data: bytes, at: int) -> Relation:
    """Behind the letter ``R``."""
    (number,) = struct.unpack_from(">I", data, at)
    schema, at = text_at(data, at + 4)
    name, at = text_at(data, at)
    identity, (count,) = chr(data[at]), struct.unpack_from(">H", data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = text_at(data, at + 1)
        type_, modifier = _RELATION_COLUMN.unpack_from(data, at)
        at += _RELATION_COLUMN.size
        columns.append(RelationColumn(column, type_, modifier, bool(flags & OF_KEY)))
    return Relation(number, schema or "pg_catalog", name, identity, tuple(columns))


def read_truncate(data: bytes, at: int) -> Truncate:
    """Behind the letter ``T``."""
    (count,) = struct.unpack_from(">I", data, at)
    return Truncate(struct.unpack_from(f">{count}I", data, at + 5))  # a byte of flags is in between


def read_message(data: bytes, at: int) -> Message:
    """Behind the letter ``M``. ValueError where the content is cut off."""
    flags, lsn = _MESSAGE.unpack_from(data, at)
    prefix, at = text_at(data, at + _MESSAGE.size)
    (size,) = struct.unpack_from(">I", data, at)
    content = data[at + 4 : at + 4 + size]
    if len(content) != size:
        raise ValueError
    return Message(bool(flags & TRANSACTIONAL), lsn, prefix, content)


def read_origin(data: bytes, at: int) -> Origin:
    """Behind the letter ``O``. Records have the name."""
    (lsn,) = struct.unpack_from(">Q", data, at)
    return Origin(lsn, text_at(data, at + 8, errors="replace")[0])
