"""Parses messages of the logical replication protocol, which a walsender sends with pgoutput.

Source of the rules: PostgreSQL manual, 55.4 "Streaming Replication Protocol" (copy messages) and
55.9 "Logical Replication Message Formats". All numbers are big-endian, and texts end with a zero
byte. Times are microseconds since 2000-01-01.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from dblog.errors import DamagedLogError

POSTGRES_EPOCH_US = 946_684_800_000_000
"""The moment 2000-01-01 in microseconds since 1970-01-01."""

HEADER = struct.Struct("<I")
"""Length before each copy message of a buffer (wire/_libpq.pyx)."""
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
    """The begin of a transaction, whose rows follow. ``commit_lsn`` is where its commit record
    begins.
    """

    commit_lsn: int
    ts_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction. ``end_lsn`` is the place after the commit record, where reading
    continues.
    """

    commit_lsn: int
    end_lsn: int
    ts_us: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column of a Relation. ``of_key`` is True if it is part of the replica identity;
    ``modifier`` is atttypmod.
    """

    name: str
    type: int
    modifier: int
    of_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """The description of a table for the rows that follow. ``identity`` is relreplident (``d``
    default, ``n`` nothing, ``f`` full, ``i`` index).
    """

    number: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Truncate:
    """The numbers of the tables that one statement has emptied."""

    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A message that pg_logical_emit_message has written."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a transaction that the server itself received by replication."""

    lsn: int
    name: str


def copy_messages(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each copy message of a buffer. Raise DamagedLogError if the last one is
    incomplete.
    """
    at, end = 0, len(data)
    while at < end:
        start = at + HEADER.size
        if start > end or (at := start + HEADER.unpack_from(data, at)[0]) > end:
            message = "a copy message is cut off"
            raise DamagedLogError(message)
        yield start, at


def text_at(data: bytes, at: int, *, errors: str = "surrogateescape") -> tuple[str, int]:
    """Return the text that begins at ``at`` and the place after its zero byte. ``errors`` is the
    treatment of bytes that are not UTF-8.
    """
    end = data.index(0, at)
    return data[at:end].decode("utf-8", errors), end + 1


def read_begin(data: bytes, at: int) -> Begin:
    """Read a Begin after the letter ``B``."""
    commit_lsn, ts, xid = _BEGIN.unpack_from(data, at)
    return Begin(commit_lsn, ts + POSTGRES_EPOCH_US, xid & 0xFFFFFFFF)


def read_commit(data: bytes, at: int) -> Commit:
    """Read a Commit after the letter ``C``."""
    _, commit_lsn, end_lsn, ts = _COMMIT.unpack_from(data, at)
    return Commit(commit_lsn, end_lsn, ts + POSTGRES_EPOCH_US)


def read_relation(data: bytes, at: int) -> Relation:
    """Read a Relation after the letter ``R``."""
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
    """Read a Truncate after the letter ``T``."""
    (count,) = struct.unpack_from(">I", data, at)
    # A byte of flags comes between the count and the numbers.
    return Truncate(struct.unpack_from(f">{count}I", data, at + 5))


def read_message(data: bytes, at: int) -> Message:
    """Read a Message after the letter ``M``. Raise ValueError if the content is cut off."""
    flags, lsn = _MESSAGE.unpack_from(data, at)
    prefix, at = text_at(data, at + _MESSAGE.size)
    (size,) = struct.unpack_from(">I", data, at)
    content = data[at + 4 : at + 4 + size]
    if len(content) != size:
        raise ValueError
    return Message(bool(flags & TRANSACTIONAL), lsn, prefix, content)


def read_origin(data: bytes, at: int) -> Origin:
    """Read an Origin after the letter ``O``. Its name goes into records."""
    (lsn,) = struct.unpack_from(">Q", data, at)
    return Origin(lsn, text_at(data, at + 8, errors="replace")[0])
