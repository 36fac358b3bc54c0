"""Holds tables whose dump would miss what was written to them before the log had them, until no transaction of then is under way.

Such a table is new to the connector or to the publication, or its changes were in no log for a while. The server decodes each change with the publication as
it was there. So of a transaction that was under way when the publication got a table the log has what it wrote after that, and a dump does not see what it
wrote before until it has ended. No window of the table opens until then; no writer is made to wait. # I3

A restart does not know any more who was under way then: it waits for every transaction that is under way when it begins.

A standby does not know which tables a transaction of its primary has written to (pg_locks has none of its locks). Its snapshots know the oldest transaction
that is under way, prepared ones too, so there all of them are waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet

from dblog.dialects.postgres.task.connections import Connections
from dblog.dialects.postgres.task.schemas import PostgresSchemas
from dblog.dialects.postgres.wire.session import settled_log_end
from dblog.dialects.postgres.wire.slot import publishes_all
from dblog.model import TableId
from dblog.readers.contract import TaskContext
from dblog.readers.items import Held

LOOK_INTERVAL_S = 1.0


class Joined:
    """The held tables of one run, by their numbers, so that another name changes nothing. Made before its first window; then the log thread's."""

    def __init__(self, connections: Connections, context: TaskContext, schemas: PostgresSchemas) -> None:
        self._connections = connections
        self._context = context
        self._schemas = schemas
        self._writers: set[tuple[int, str]] = set()
        """(Table, transaction) of those that are waited for."""
        self._until: dict[int, int] = {}
        """On a standby: the transaction before which all others have to be over."""
        self._ends: dict[int, int | None] = {}
        """Tables that are held, and up to where the log has to be read; None while somebody is waited for."""
        self._looked_s = 0.0
        self._told = Held(tables=frozenset(), reason="")
        self.add(context.joined, returning=context.returned)

    def add(self, tables: AbstractSet[TableId], *, returning: AbstractSet[TableId] = frozenset()) -> None:
        """Hold tables that join now: of a new one nobody was told when the publication got it, so whoever writes to it at this moment is waited for.
        ``returning``: tables that were in no log for a while.
        """
        if tables:
            self._context.patience(lambda: self._begin(self._numbers(tables)))
        if returning:
            self._context.patience(lambda: self._await_writers(self._numbers(returning)))

    def _numbers(self, tables: AbstractSet[TableId]) -> set[int]:
        return {number for number in map(self._schemas.number_of, tables) if number is not None}

    def held(self, lsn: int) -> Iterator[Held]:
        """Yield what is held from here on, where that has changed since the last call. ``lsn``: up to where the log has been read."""
        if not self._ends and not self._told.tables:
            return
        if self._is_waiting and self._told.tables and self._context.clock.monotonic_s() - self._looked_s >= LOOK_INTERVAL_S:
            self._context.patience(self._look)
        names = self._schemas.numbers
        self._ends = {table: end for table, end in self._ends.items() if table in names and (end is None or end > lsn)}
        held = Held(tables=frozenset(names[table] for table in self._ends), reason=self._reason())
        if held != self._told:
            self._told = held
            yield held

    @property
    def _is_waiting(self) -> bool:
        return bool(self._writers or self._until)

    def _begin(self, tables: Collection[int]) -> None:
        if not publishes_all(self._connections.live_session(), self._connections.publication):
            self._await_writers(tables)

    def _await_writers(self, tables: Collection[int]) -> None:
        session = self._connections.live_session()
        if self._connections.is_standby:
            self._until |= dict.fromkeys(tables, session.transactions_under_way()[1])
        else:
            self._writers |= session.writers(tables)
        self._ends |= dict.fromkeys(tables)
        self._look()

    def _look(self) -> None:
        """Ask who is still under way of those that are waited for. Where a standby may be read, the log has to come to their ends, for it has come there
        as well by then.
        """
        session = self._connections.live_session()
        if self._connections.is_standby:
            oldest, _ = session.transactions_under_way()
            self._until = {table: until for table, until in self._until.items() if oldest < until and table in self._ends}
            awaited = set(self._until)
        else:
            now = session.writers(self._ends)
            self._writers = {writer for writer in now if writer in self._writers or _is_recovered(writer[1])}
            awaited = {table for table, _ in self._writers}
        end = settled_log_end(session.wire)[0] if self._connections.read_only else 0
        self._ends = {table: end if known is None and table not in awaited else known for table, known in self._ends.items()}
        self._looked_s = self._context.clock.monotonic_s()

    def _reason(self) -> str:
        if not self._is_waiting:
            return "the log is to come to where the publication had it" if self._ends else ""
        what = "what was written to it before the publication had it is in no log, so it is read when the transactions are over that were under way then"
        if self._until:
            return f"{what}: a standby does not know which tables they write to, so all are waited for that were older than {max(self._until.values())}"
        count = len({transaction for _, transaction in self._writers})
        return f"{what}: {count} still are"


def _is_recovered(transaction: str) -> bool:
    """Return whether it is a prepared transaction that the server has found when it started: it had another number before (procarray of twophase.c)."""
    return transaction.startswith("-1/")
