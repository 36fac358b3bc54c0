"""Reads large values that the log leaves out from the table, for rows that no consumer has had: a
changed key, or a row that no chunk of a dump shows.

An update that does not change a large value does not log it, and a consumer that has the row keeps
the value. Under a changed key no consumer has the row: the record would be the only one of its key,
and incomplete for ever. The same holds for a row that an update moves past all chunks of a dump
that is not read by key (``TaskContext.moves_rows``). So the value is read from the current table.
It is the value of that time, or a later change brings it again. # I3

Another session may lock the table for hours. The log of all tables does not wait for that; instead
the connector's status names the table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import structlog

from dblog.codecs.plan import TablePlan
from dblog.dialects.postgres.catalog import sql
from dblog.dialects.postgres.pgoutput.row_image import UNCHANGED, Raw, fields_of_line, images, with_values
from dblog.dialects.postgres.pgoutput.visibility import Snapshot
from dblog.dialects.postgres.task.connections import Connections
from dblog.dialects.postgres.wire.connect import LockedError
from dblog.dialects.postgres.wire.lock_limits import locked_ms
from dblog.errors import DblogError, DefiniteError, TableChangedError, TransientError, discreet
from dblog.model import Column, Table, TableId
from dblog.readers.contract import TaskContext

log = structlog.get_logger(__name__)

UNREAD_ROWS = "rows beside a changed key that could not be read"
"""Key of a standing warning about rows with a changed key."""

PASSED_ROWS = "rows that a dump may have skipped and that could not be read"
"""Key of a standing warning about rows that a dump may have missed."""

_NOT_READ = (
    "The table could not be read for them: somebody locked it, it was altered, or the account may not read it. Their records may have "
    "unavailable.value.placeholder"
)
_REMEDY = "Request a dump of these tables (dblog dumps start CONNECTOR TABLE --mode repair)"

LOCK_LIMIT_S = 10.0
"""Seconds that the log waits for a lock on a table, at most once in ``LOCKED_FOR_S``. A table may
have any number of such rows, and an ALTER of a partitioned table locks each of its partitions.
"""

LOCKED_FOR_S = 60.0

_DOING = "reading a value that the log does not have"

_Key = tuple[Any, ...]


class UnsentValues:
    """The values of one task that the log leaves out. The log thread calls it."""

    def __init__(self, connections: Connections, context: TaskContext) -> None:
        self._connections = connections
        self._context = context
        self._visible: int | None = None
        """Transaction that was last found visible; one transaction may change many keys."""
        self._locked: dict[TableId, tuple[float, NotReadableError]] = {}
        """Tables that were locked for too long, each with the monotonic time until which it counts
        as locked, and the server's error.
        """

    def __call__(self, plan: TablePlan, body: bytes, xid: int) -> bytes:
        """Return an update of the transaction ``xid`` with the values that the table has. ``body``
        is its message after the table's number.

        The update stays as it is if the row is gone, since another change of it follows then.
        """
        before, after, _ = images("u", body)
        table = getattr(plan, "table", None)
        if before is None or after is None or not getattr(table, "key", ()) or len(after) != len(plan.columns):
            return body
        lacking = [at for at, field in enumerate(after) if field is UNCHANGED and before[at] is None and plan.columns[at].included]
        key = _key_of(plan, after)
        if not lacking or key is None:
            return body
        try:
            values = self._read(plan, [plan.table.columns[at] for at in lacking], key, xid)
        except NotReadableError as e:
            self.note_unread(plan.table.id, e)
            return body
        return body if values is None else with_values(body, dict(zip(lacking, values, strict=True)))

    def complete(self, plan: TablePlan, body: bytes, xid: int) -> bytes | None:
        """Return an update that lacks large values with those of the table, if a dump moves rows of
        the table. The update stays as it is if the row is gone.

        Return None if no such dump runs or the values cannot be read. The reader of the table must
        then be told of the row.
        """
        _, after, _ = images("u", body)
        if (
            body[:1] != b"N"
            or after is None
            or not plan.table.key
            or len(after) != len(plan.columns)
            or not self._context.moves_rows(plan.table.id)
        ):
            return None
        lacking = [at for at, field in enumerate(after) if field is UNCHANGED and plan.columns[at].included]
        key = _key_of(plan, after)
        if key is None:
            return None
        try:
            values = self._read(plan, [plan.table.columns[at] for at in lacking], key, xid)
        except NotReadableError as e:
            self._note_passed(plan.table.id, e)
            return None
        return body if values is None else with_values(body, dict(zip(lacking, values, strict=True)))

    def row(self, table: Table, key: Sequence[bytes], xid: int) -> Raw | None:
        """Return the row with this key, as texts, once the transaction is visible; None if there is
        none. Of several rows, return the last.

        Raise NotReadableError if the table cannot be read.
        """
        whole = sql.whole_numbers(table)
        bounds = tuple(int(text) if is_whole else text for text, is_whole in zip(map(_text, key), whole, strict=True))
        statement = sql.copy_out(sql.rows_by_key(table, [bounds])[0])
        self._wait_until_visible(xid)
        rows: bytes = self._context.retrying(lambda: self._rows(table.id, statement))
        places = sql.key_indexes(table)
        found = [fields for fields in map(fields_of_line, rows.split(b"\n")[:-1]) if [fields[at] for at in places] == list(key)]
        return found[-1] if found else None

    def note_unread(self, table: TableId, error: NotReadableError) -> None:
        """Raise a warning about a table with a changed key whose row could not be read: the record
        lacks a value, or the delete of another row hides it.
        """
        if self._connections.warnings.found_again(UNREAD_ROWS, table):
            return
        log.warning("a row beside a changed key cannot be read", table=str(table), reason=discreet(error))
        self._connections.warnings.raise_of_tables(
            UNREAD_ROWS,
            [table],
            before="rows of ",
            after=f" got another key, and the log of PostgreSQL leaves out their large values. {_NOT_READ}, and a row that took the key of another one may be "
            f"missing. {_REMEDY}",
        )

    def _note_passed(self, table: TableId, error: NotReadableError) -> None:
        """Raise a warning about a table of which a dump may have missed a row that the log does not
        show completely, so that no consumer may have its values.
        """
        if self._connections.warnings.found_again(PASSED_ROWS, table):
            return
        log.warning("a large value of a row that a dump may pass over cannot be read", table=str(table), reason=discreet(error))
        self._connections.warnings.raise_of_tables(
            PASSED_ROWS,
            [table],
            before="rows of ",
            after=" changed while a dump of chosen rows, or one by surrogate_key, read the table. The dump may have missed them, and the log of "
            f"PostgreSQL leaves out their large values. {_NOT_READ}. {_REMEDY}",
        )

    def _read(self, plan: TablePlan, columns: list[Column], key: _Key, xid: int) -> Raw | None:
        """Return columns of the row with this key once the transaction is visible, since another
        row may have the key until then. Return None if the row is gone.

        Raise NotReadableError if the table cannot be read.
        """
        statement = sql.copy_out(sql.columns_by_key(plan.table, columns, [key]))
        self._wait_until_visible(xid)
        rows: bytes = self._context.retrying(lambda: self._rows(plan.table.id, statement))
        width = len(plan.table.key)
        for line in rows.split(b"\n")[:-1]:
            fields = fields_of_line(line)
            if _as_bounds(plan, fields[:width]) == key:
                return fields[width:]
        return None

    def _wait_until_visible(self, xid: int) -> None:
        if xid != self._visible:
            self._context.retrying(lambda: self._require_visible(xid))
            self._visible = xid

    def _require_visible(self, xid: int) -> None:
        """Raise TransientError until the transaction is visible. A commit is logged before it is
        visible, and the server may wait for a synchronous standby in between.
        """
        if not Snapshot.of(self._connections.live_session().snapshot()).shows_xid(xid):
            message = (
                f"the transaction {xid} is in the log and not visible yet, so a large value that it has left alone cannot be read; the server "
                "may wait for a synchronous standby"
            )
            raise TransientError(message)

    def _rows(self, table: TableId, statement: str) -> bytes:
        now_s = time.monotonic()
        self._locked = {one: known for one, known in self._locked.items() if now_s < known[0]}
        if table in self._locked:
            raise _refused(self._locked[table][1])
        try:
            session = self._connections.live_session()
            with session.lock_limit(locked_ms(len(self._locked)) if self._locked else int(LOCK_LIMIT_S * 1000), doing=_DOING):
                rows = session.wire.copied(statement, doing=_DOING)
        except LockedError as e:
            refused = _refused(e)
            self._locked[table] = (time.monotonic() + LOCKED_FOR_S, refused)
            raise refused from e
        except (TableChangedError, DefiniteError) as e:
            raise _refused(e) from e
        return rows


class NotReadableError(DblogError):
    """The table has changed, may not be read, or is locked. Trying again does not help this row, or
    nobody knows when it will.
    """


def _refused(error: DblogError) -> NotReadableError:
    refused = NotReadableError(str(error))
    refused.discreet = discreet(error)
    return refused


def _key_of(plan: TablePlan, row: Raw) -> _Key | None:
    """Return the key of a tuple of the log; None if the tuple does not show all of it."""
    return _as_bounds(plan, [row[at] for at in sql.key_indexes(plan.table)])


def _as_bounds(plan: TablePlan, fields: Raw) -> _Key | None:
    """Return a key's fields in the form that ``sql`` takes; None if one is missing."""
    if any(field is None or field is UNCHANGED for field in fields):
        return None
    texts = [_text(field) for field in fields if field is not None]
    return tuple(int(text) if whole else text for text, whole in zip(texts, sql.whole_numbers(plan.table), strict=True))


def _text(field: bytes) -> str:
    return field.decode("utf-8", "surrogateescape")
