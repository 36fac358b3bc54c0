"""Copy messages of a replication connection, built from the protocol's description.

They are independent of the code under test (PostgreSQL manual, 55.4 and 55.9).
"""

from __future__ import annotations

import struct
from typing import Self

from support.pgoutput_tables import Row, change_of

POSTGRES_EPOCH_US = 946_684_800_000_000
TYPE_NUMBERS = {"int4": 23, "text": 25}


def copy_message(content: bytes) -> bytes:
    """Return the message in the form of wire/_libpq: its length, then its content."""
    return struct.pack("<I", len(content)) + content


def logged(message: bytes, lsn: int = 0) -> bytes:
    """Return an XLogData message that contains a message of the log."""
    return copy_message(struct.pack(">cQQq", b"w", lsn, lsn, 0) + message)


def relation_body(number: int, name: str, columns: list[str], *, schema: str = "shop", identity: str = "d") -> bytes:
    """Return a Relation message.

    Columns are ``name`` or ``name:type``; the first one is the key.
    """
    out = (
        struct.pack(">cI", b"R", number)
        + schema.encode()
        + b"\0"
        + name.encode()
        + b"\0"
        + identity.encode()
        + struct.pack(">H", len(columns))
    )
    for at, column in enumerate(columns):
        column_name, _, type_ = column.partition(":")
        out += bytes([at == 0]) + column_name.encode() + b"\0" + struct.pack(">Ii", TYPE_NUMBERS[type_ or "text"], -1)
    return out


class Stream:
    """A stream of copy messages under construction; the log grows by 8 bytes with each."""

    def __init__(self, lsn: int = 0x1_0000_0000) -> None:
        self.messages: list[bytes] = []
        self.lsn = lsn
        self._commit_lsn = 0
        self._ts_us = 0

    def bytes(self) -> bytes:
        return b"".join(self.messages)

    def add(self, message: bytes, *, lsn: int | None = None) -> Self:
        """Append any message of the log, at the log's end unless ``lsn`` is given."""
        if lsn is None:
            self.lsn += 8
        self.messages.append(logged(message, self.lsn if lsn is None else lsn))
        return self

    def begin(self, commit_lsn: int | None = None, *, xid: int = 700, ts_us: int = 1_700_000_000_000_000) -> Self:
        self._commit_lsn = self.lsn + 800 if commit_lsn is None else commit_lsn
        self._ts_us = ts_us
        return self.add(struct.pack(">cQqI", b"B", self._commit_lsn, ts_us - POSTGRES_EPOCH_US, xid))

    def commit(self) -> Self:
        self.lsn = max(self.lsn, self._commit_lsn)
        return self.add(struct.pack(">cBQQq", b"C", 0, self._commit_lsn, self._commit_lsn + 48, self._ts_us - POSTGRES_EPOCH_US))

    def relation(self, number: int, name: str, columns: list[str], *, schema: str = "shop", identity: str = "d") -> Self:
        return self.add(relation_body(number, name, columns, schema=schema, identity=identity), lsn=0)

    def insert(self, number: int, row: Row, *, lsn: int | None = None) -> Self:
        """Append an Insert; ``lsn`` is its position, by default after the previous message."""
        return self.add(struct.pack(">cI", b"I", number) + change_of(None, row), lsn=lsn)

    def update(self, number: int, before: Row | None, after: Row, *, letter: bytes = b"O") -> Self:
        return self.add(struct.pack(">cI", b"U", number) + change_of(before, after, letter=letter))

    def delete(self, number: int, row: Row, *, letter: bytes = b"K") -> Self:
        return self.add(struct.pack(">cI", b"D", number) + change_of(row, None, letter=letter))

    def truncate(self, *numbers: int) -> Self:
        return self.add(struct.pack(f">cIB{len(numbers)}I", b"T", len(numbers), 0, *numbers))

    def message(self, prefix: str, content: bytes, *, transactional: bool = True) -> Self:
        lsn = self.lsn + 8
        return self.add(struct.pack(">cBQ", b"M", transactional, lsn) + prefix.encode() + b"\0" + struct.pack(">I", len(content)) + content)

    def origin(self, name: str, lsn: int) -> Self:
        return self.add(struct.pack(">cQ", b"O", lsn) + name.encode() + b"\0")

    def type_(self) -> Self:
        return self.add(struct.pack(">cI", b"Y", 9) + b"shop\0mood\0", lsn=0)

    def keepalive(self, lsn: int | None = None) -> Self:
        self.messages.append(copy_message(struct.pack(">cQqB", b"k", self.lsn if lsn is None else lsn, 0, 0)))
        return self
