"""Tables that the publication has got while the connector had a position already, at a start or since: when a dump of them brings all that the log lacks.

The server decodes each change with the publication as it was there. So of a transaction that was under way when the publication got a table the log has what
it wrote behind that, and a dump does not see what it wrote before until it has ended. No window of the table opens until then; no writer is made to wait. # I3

Who was under way then is not known any more behind a restart: whoever is, when a run begins, is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from dblog.dialects.postgres.task.connections import Connections
from dblog.dialects.postgres.wire.session import settled_log_end
from dblog.dialects.postgres.wire.slot import publishes_all
from dblog.model import TableId
from dblog.readers.contract import TaskContext
from dblog.readers.items import Held

LOOK_INTERVAL_S = 1.0


class Joined:
    """One run's. Made ahead of its first window; then the log thread's."""

    def __init__(self, connections: Connections, context: TaskContext) -> None:
        self._connections = connections
        self._context = context
        self._writers: set[tuple[TableId, str]] = set()
        self._ends: dict[TableId, int | None] = {}
        """Tables that are held, and up to where the log has to be read; None while somebody is waited for."""
        self._looked_s = 0.0
        self._told = Held(tables=frozenset(), reason="")
        if context.joined:
            self._begin(context.joined)

    def add(self, tables: AbstractSet[TableId], *, returning: AbstractSet[TableId] = frozenset()) -> None:
        """These join now: of a new one nobody was told when the publication got it, so whoever writes to it at this moment is waited for. ``returning``: tables
        that were in no log for a while, in a publication of all tables, too.
        """
        if tables:
            self._context.patience(lambda: self._begin(tables))
        if returning:
            self._context.patience(lambda: self._await_writers(returning))

    def held(self, lsn: int) -> Iterator[Held]:
        """What is held from here on, where that is not what was said last. ``lsn``: up to where the log has been read."""
        if not self._ends and not self._told.tables:
            return
        if self._writers and self._told.tables and self._context.clock.monotonic_s() - self._looked_s >= LOOK_INTERVAL_S:
            self._context.patience(self._look)
        self._ends = {table: end for table, end in self._ends.items() if end is None or end > lsn}
        held = Held(tables=frozenset(self._ends), reason=self._reason())
        if held != self._told:
            self._told = held
            yield held

    def _begin(self, tables: AbstractSet[TableId]) -> None:
        if not publishes_all(self._connections.live_session(), self._connections.publication):
            self._await_writers(tables)

    def _await_writers(self, tables: AbstractSet[TableId]) -> None:
        self._writers |= self._connections.live_session().writers(tables)
        self._ends |= dict.fromkeys(tables)
        self._look()

    def _look(self) -> None:
        """Who is still under way of those that were at the beginning. Where a standby may be read, the log has to come to their ends, for it has come there
        as well by then.
        """
        session = self._connections.live_session()
        self._writers &= session.writers(self._ends)
        end = settled_log_end(session.wire)[0] if self._connections.read_only else 0
        awaited = {table for table, _ in self._writers}
        self._ends = {table: end if known is None and table not in awaited else known for table, known in self._ends.items()}
        self._looked_s = self._context.clock.monotonic_s()

    def _reason(self) -> str:
        if self._writers:
            count = len({transaction for _, transaction in self._writers})
            return (
                "what was written to it before the publication had it is in no log, so it is read when the transactions are over that were under way then: "
                f"{count} still are"
            )
        return "the log is to come to where the publication had it" if self._ends else ""
