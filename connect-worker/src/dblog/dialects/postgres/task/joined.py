"""Holds tables whose dump would miss changes made before the log had them, until all transactions
of that time have ended.

Such a table is new to the connector or to the publication, or its changes were in no log for a
while. The server decodes each change with the publication as it was at that position. So for a
transaction that was open when the publication got a table, the log has only what it wrote
afterwards, and a dump does not see what it wrote earlier until it has ended. No window of the table
opens until then; no writer has to wait. # I3

After a restart nobody knows which transactions were open then. So it waits for every transaction
that is open when it begins.

A standby does not know which tables a transaction of its primary has written to (pg_locks has none
of its locks). Its snapshots know the oldest open transaction, prepared ones included, so there all
of them are waited for.
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
    """The held tables of one run, by number, so that a rename changes nothing. It is created before
    the first window opens; afterwards only the log thread uses it.
    """

    def __init__(self, connections: Connections, context: TaskContext, schemas: PostgresSchemas) -> None:
        self._connections = connections
        self._context = context
        self._schemas = schemas
        self._writers: set[tuple[int, str]] = set()
        """Writers that are waited for, as (table, transaction)."""
        self._until: dict[int, int] = {}
        """Transaction before which all others must have ended, by table; used on a standby."""
        self._ends: dict[int, int | None] = {}
        """Held tables, each with the LSN up to which the log must be read; None while a transaction
        is waited for.
        """
        self._looked_s = 0.0
        self._told = Held(tables=frozenset(), reason="")
        self.add(context.joined, returning=context.returned)

    def add(self, tables: AbstractSet[TableId], *, returning: AbstractSet[TableId] = frozenset()) -> None:
        """Hold tables that join now. It is unknown when the publication got a new table, so the
        transactions that are writing to it at this moment are waited for. ``returning`` are tables
        that were in no log for a while.
        """
        if tables:
            self._context.retrying(lambda: self._begin(self._numbers(tables)))
        if returning:
            self._context.retrying(lambda: self._await_writers(self._numbers(returning)))

    def _numbers(self, tables: AbstractSet[TableId]) -> set[int]:
        return {number for number in map(self._schemas.number_of, tables) if number is not None}

    def held(self, lsn: int) -> Iterator[Held]:
        """Yield the held tables and the reason if they have changed since the last call. ``lsn`` is
        the LSN up to which the log has been read.
        """
        if not self._ends and not self._told.tables:
            return
        if self._is_waiting and self._told.tables and self._context.clock.monotonic_s() - self._looked_s >= LOOK_INTERVAL_S:
            self._context.retrying(self._look)
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
        """Find out which of the awaited transactions are still open. If a standby may be read, the
        log must also reach their ends, because only then has the standby.
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
            return "the log must reach the position where the publication had it" if self._ends else ""
        what = "rows written to it before the publication had it are in no log, so it is read after the transactions under way at that time"
        if self._until:
            return f"{what}: a standby does not know which tables they write to, so all transactions older than {max(self._until.values())} must end first"
        count = len({transaction for _, transaction in self._writers})
        return f"{what}: {count} not ended yet"


def _is_recovered(transaction: str) -> bool:
    """Return True for a prepared transaction that the server restored at its start: it had another
    number before (procarray of twophase.c).
    """
    return transaction.startswith("-1/")
