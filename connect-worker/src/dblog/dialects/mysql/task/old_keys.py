"""A filter of deletes for old keys that another row of the same transaction has taken by then. It
is for tables whose message key no unique index enforces.

``core/moved_keys.py`` has the rule. Only such a table gets this encoder, and only in the log. An
update whose delete is left out becomes a create of its new row; a delete that is left out becomes
nothing. All rows of a transaction are noted, also those that an earlier connection sent, so that a
restart inside it decides the same way. # I1 I3

A row that gets a key and leaves it again may have passed through a key that another row has. The
log does not show whether it has, so the delete is sent, and the connector's status names the table
and the dump that restores such a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from hashlib import blake2b

import structlog

from dblog.codecs.fingerprint import Fingerprints
from dblog.codecs.plan import RowContext, TablePlan
from dblog.codecs.rowplan import Chunk, Op, ReadOp, Records, RowEncoder
from dblog.codecs.transactions import TransactionOrder
from dblog.core.moved_keys import MovedKeys, OldKey, is_loose
from dblog.dialects.mysql.binlog.partial_images import PARTIAL_UPDATE, Fields, absent_columns, event_head, opened, whole_rows, written
from dblog.dialects.mysql.binlog.row_image import column_layout, event_version
from dblog.dialects.mysql.binlog.source_block import BinlogContext
from dblog.errors import DefiniteError
from dblog.model import Headers, TableId
from dblog.readers.standing_warnings import StandingWarnings

log = structlog.get_logger(__name__)

PASSED_THROUGH = "rows that passed through a key"
"""The key of the standing warning."""


class OldKeys:
    """The keys of one task. The log thread asks for encoders, and uses them in the order of the
    log.
    """

    def __init__(self, warnings: StandingWarnings) -> None:
        self._warnings = warnings
        self._encoders: dict[TableId, HoldingBack] = {}
        self._transaction: tuple[str, int] | None = None
        self._moved = MovedKeys()

    def restart(self) -> None:
        """Forget the open transaction, which a new connection reads from its beginning."""
        self._transaction = None

    def encoder(self, encoder: RowEncoder, *, rereads: bool) -> RowEncoder:
        """Return the encoder for rows of the log: this one, or a wrapper if deletes may have to be
        left out.
        """
        if not is_loose(encoder.plan):
            return encoder
        known = self._encoders.get(encoder.plan.table.id)
        if known is None or known.inner is not encoder:
            known = self._encoders[encoder.plan.table.id] = HoldingBack(encoder, self, rereads=rereads)
        return known

    def of(self, file: str, begin: int) -> MovedKeys:
        """Return the keys of the transaction that begins at this position."""
        if self._transaction != (file, begin):
            self._transaction, self._moved = (file, begin), MovedKeys()
        return self._moved

    def passed_through(self, table: TableId) -> None:
        """Raise the warning for a table of which a row may have passed through the key of another
        one.
        """
        if self._warnings.found_again(PASSED_THROUGH, table):
            return
        log.warning("a row left a key that it had got inside its transaction", table=str(table))
        self._warnings.raise_of_tables(
            PASSED_THROUGH,
            (table,),
            before="inside a transaction rows of ",
            after=" got a key of message.key.columns and left it again. No unique index of NOT NULL columns enforces it, so another row may have had that key "
            "all the time, and was deleted in the topic: request a dump of these tables (dblog dumps start CONNECTOR TABLE --mode repair), and add such an "
            "index, or have message.key.columns name the columns of the table's key too",
        )


class HoldingBack:
    """The encoder in the log for a table whose message key no unique index enforces. Implements
    ``codecs.rowplan.RowEncoder``, and notes rows that were sent before (``note``).
    """

    def __init__(self, inner: RowEncoder, old_keys: OldKeys, *, rereads: bool) -> None:
        self.inner = inner
        self._old_keys = old_keys
        self._rereads = rereads
        self._layouts = [column_layout(inner.plan, index) for index in range(len(inner.plan.columns))]

    @property
    def plan(self) -> TablePlan:
        """The plan of the wrapped encoder."""
        return self.inner.plan

    def encode_rows(self, op: Op, body: bytes, context: RowContext, *, version: int | None = None, skip_rows: int = 0) -> Records:
        """Encode rows like the wrapped encoder, without deletes that must be left out."""
        assert isinstance(context, BinlogContext), "made by this dialect"
        whole, whole_version = self._whole(op, body, version)
        kept, ends, creates, create_ends = self._settled(op, whole, whole_version, context.file, context.begin, ask=skip_rows)
        if not kept:
            return self.inner.encode_rows(op, body, context, version=version, skip_rows=skip_rows)
        out: Records = ([], [], {})
        at = skip_rows
        while at < len(ends):
            if at in kept:
                if op == "u":
                    _append(out, self.inner.encode_rows("c", creates[: create_ends[at]], _after(context, out), version=2, skip_rows=at))
                at += 1
                continue
            upto = next((row for row in range(at, len(ends)) if row in kept), len(ends))
            _append(out, self.inner.encode_rows(op, whole[: ends[upto - 1]], _after(context, out), version=whole_version, skip_rows=at))
            at = upto
        return out

    def note(self, op: Op, body: bytes, version: int, file: str, begin: int) -> None:
        """Note the rows of an event that an earlier connection sent. An event whose rows were read
        again or left out was not noted by that connection either.
        """
        try:
            whole, whole_version = self._whole(op, body, version)
        except DefiniteError:
            return
        self._settled(op, whole, whole_version, file, begin, ask=None)

    def encode_chunk(self, rows: bytes, context: RowContext, dropped_keys: AbstractSet[bytes], op: ReadOp = "r") -> Chunk:
        """Encode a chunk; see RowEncoder."""
        return self.inner.encode_chunk(rows, context, dropped_keys, op)

    def end_of_rows(self, rows: bytes, start: int, rows_max: int, bytes_max: int) -> int:
        """Return the offset after the next rows; see RowEncoder."""
        return self.inner.end_of_rows(rows, start, rows_max, bytes_max)

    def fingerprint_chunk(self, rows: bytes, dropped_keys: AbstractSet[bytes]) -> Fingerprints:
        """Return fingerprints of a chunk's rows; see RowEncoder."""
        return self.inner.fingerprint_chunk(rows, dropped_keys)

    def check_table_map(self, body: bytes) -> None:
        """Raise DefiniteError if the table map does not fit the plan; see RowEncoder."""
        self.inner.check_table_map(body)

    def _whole(self, op: Op, body: bytes, version: int | None) -> tuple[bytes, int]:
        """Return the event with all columns in its images. Raise MissingColumnsError if that is
        impossible.
        """
        known = version or event_version(body)
        _, before_present, after_present = opened(self.plan, self._layouts, op, body, version=known)
        if known != PARTIAL_UPDATE and not absent_columns(self.plan, before_present) and not absent_columns(self.plan, after_present):
            return body, known
        return whole_rows(self.plan, self._layouts, op, body, version=known, rereads=self._rereads), 2

    def _settled(
        self, op: Op, body: bytes, version: int, file: str, begin: int, *, ask: int | None
    ) -> tuple[set[int], list[int], bytes, list[int]]:
        """Note the rows. Return the numbers of rows whose delete is left out, the end of each row,
        and the new rows as inserts.

        ``ask`` is the first row of which something is sent; None if the whole event was sent
        before.
        """
        moved, table = self._old_keys.of(file, begin), self.plan.table.id
        kept: set[int] = set()
        creates, ends, create_ends = bytearray(event_head(self.plan, body, images=1)), list[int](), list[int]()
        for number, (before, after, end) in enumerate(self._rows(op, body, version)):
            ends.append(end)
            if after is not None:
                creates += written(after)
            create_ends.append(len(creates))
            old, new = self._key(before), self._key(after)
            was, now = _digest(before), _digest(after)
            if old is not None and old == new:
                moved.changed((table, new), was, now or b"")
                continue
            verdict = OldKey.DELETED if old is None else moved.left((table, old), was)
            if new is not None and now is not None:
                moved.put((table, new), now)
            if verdict is OldKey.KEPT:
                kept.add(number)
            elif verdict is OldKey.ASKED and ask is not None and number >= ask:
                self._old_keys.passed_through(table)
        return kept, ends, bytes(creates), create_ends

    def _rows(self, op: Op, body: bytes, version: int) -> Iterator[tuple[Fields | None, Fields | None, int]]:
        reader, before_present, after_present = opened(self.plan, self._layouts, op, body, version=version)
        for _ in reader.rows(op, after_present):
            before = reader.image(before_present) if op != "c" else None
            after = reader.image(after_present) if op != "d" else None
            yield before, after, reader.at

    def _key(self, row: Fields | None) -> tuple[bytes | None, ...] | None:
        return None if row is None else tuple(row[index] for index in self.plan.key)


def _digest(row: Fields | None) -> bytes | None:
    if row is None:
        return None
    made = blake2b(digest_size=16)
    for field in row:
        made.update(b"n" if field is None else b"t%d:" % len(field))
        made.update(field or b"")
    return made.digest()


def _after(context: BinlogContext, sent: Records) -> BinlogContext:
    """Return the context for further records of the event, with the transaction's counts continued."""
    order = context.transaction
    if order is None:
        return context
    count = sum(value is not None for value in sent[1])
    return replace(context, transaction=TransactionOrder(order.id, order.total + count, order.of_table + count))


def _append(out: Records, more: Records) -> None:
    base = len(out[0])
    headers: dict[int, Headers] = {base + index: header for index, header in more[2].items()}
    out[0].extend(more[0])
    out[1].extend(more[1])
    out[2].update(headers)
