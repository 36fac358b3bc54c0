"""Leaves out the delete of an old key if another row of the same transaction has the key by then,
for tables whose key is not enforced row by row.

``core/moved_keys.py`` has the rule. This module replaces the changes of such a table by others with
the same effect: an update without its delete becomes an insert of its new row, and a key that must
be looked up becomes an update to the table's row. The table may have a newer row by then, which a
later change in the log brings again. All changes of a transaction are noted, including those that
an earlier connection has taken, so that a restart inside the transaction decides alike. # I1 I3
"""

from __future__ import annotations

import struct
from dataclasses import replace
from hashlib import blake2b

from dblog.codecs.plan import TablePlan
from dblog.codecs.rowplan import Op
from dblog.core.moved_keys import MovedKeys, OldKey
from dblog.dialects.postgres.pgoutput.row_image import UNCHANGED, Raw, images
from dblog.dialects.postgres.task.unsent_values import NotReadableError, UnsentValues
from dblog.model import Table

Change = tuple[Op, bytes]
"""Operation of a change, and its message after the table's number."""


class OldKeys:
    """The old keys of one log connection's transactions. The log thread calls it with each change
    of a table that needs it, in order.
    """

    def __init__(self, table: UnsentValues) -> None:
        """Start without a transaction. ``table`` reads rows by key once a transaction is
        visible.
        """
        self._table = table
        self._commit_lsn = 0
        self._moved = MovedKeys()
        self._last: tuple[tuple[int, int], list[Change]] | None = None

    def __call__(self, plan: TablePlan, op: Op, body: bytes, xid: int, commit_lsn: int, number: int, *, taken: bool) -> list[Change]:
        """Return the changes to send instead of the change with this ``number`` in its transaction.

        ``taken`` is True if an earlier connection has sent the change, so that nothing has to be
        read for it. A second call for the same change returns the same.
        """
        if commit_lsn != self._commit_lsn:
            self._commit_lsn, self._moved, self._last = commit_lsn, MovedKeys(), None
        at = (commit_lsn, number)
        if not taken and self._last is not None and self._last[0] == at:
            return self._last[1]
        changes = self._settled(plan, op, body, xid, ask=not taken)
        if not taken:
            self._last = (at, changes)
        return changes

    def _settled(self, plan: TablePlan, op: Op, body: bytes, xid: int, *, ask: bool) -> list[Change]:
        table = plan.table.id
        before, after, whole = images(op, body)
        width = len(plan.columns)
        if (before is not None and len(before) != width) or (after is not None and len(after) != width):
            return [(op, body)]  # the encoder refuses this row
        if before is not None and after is not None:
            after = [old if new is UNCHANGED and old is not None else new for old, new in zip(before, after, strict=True)]
        old, new = _key(plan, before), _key(plan, after)
        was = _digest(before) if before is not None and whole else None
        now = None if after is None else _digest(after)
        if op == "u" and (before is None or old == new):
            if new is not None and now is not None:
                self._moved.changed((table, new), was, now)
            return [(op, body)]
        verdict = OldKey.DELETED if old is None else self._moved.left((table, old), was)
        if new is not None and now is not None:
            self._moved.put((table, new), now)
        if op == "c" or verdict is OldKey.DELETED or old is None:
            return [(op, body)]
        found: Raw | None = None
        if verdict is OldKey.ASKED and ask:
            try:
                found = self._table.row(_as_read(plan), old, xid)
            except NotReadableError as e:
                self._table.note_unread(plan.table.id, e)
            else:
                if found is None:
                    return [(op, body)]
        changes: list[Change] = [] if found is None else [("u", _new_row(found))]
        if after is not None:
            changes.append(("c", _new_row(after)))
        return changes


def _as_read(plan: TablePlan) -> Table:
    """Return the table with the message key as its key, and with columns that no record has marked
    as not read.
    """
    columns = tuple(
        replace(column, unread=not plan.columns[at].included and at not in plan.key) for at, column in enumerate(plan.table.columns)
    )
    return replace(plan.table, key=tuple(columns[at].name for at in plan.key), columns=columns)


def _key(plan: TablePlan, row: Raw | None) -> tuple[bytes, ...] | None:
    """Return the message key of a row; None if the log does not show all of it."""
    if row is None:
        return None
    fields = tuple(field for field in (row[index] for index in plan.key) if field is not None and field is not UNCHANGED)
    return fields if len(fields) == len(plan.key) else None


def _digest(row: Raw) -> bytes:
    made = blake2b(digest_size=16)
    for field in row:
        made.update(b"n" if field is None else b"u" if field is UNCHANGED else b"t%d:" % len(field))
        made.update(field or b"")
    return made.digest()


def _new_row(row: Raw) -> bytes:
    """Return a row in the form of an insert, or of an update that does not show the old row."""
    made = (b"n" if field is None else b"u" if field is UNCHANGED else b"t" + struct.pack(">I", len(field)) + field for field in row)
    return b"".join([b"N", struct.pack(">H", len(row)), *made])
