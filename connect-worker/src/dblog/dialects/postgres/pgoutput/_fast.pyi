"""Types of the compiled hot path. _fast.pyx explains how it works; codecs/rowplan.py and
tests/reference_decoders/postgres/decoder_reference.py are the reference implementations.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from dblog.codecs.fingerprint import Fingerprints
from dblog.codecs.plan import RowContext, TablePlan
from dblog.codecs.rowplan import Chunk, Op, ReadOp, Records, RowEncoder
from dblog.core.timeline import Position
from dblog.dialects.postgres.pgoutput.items import LogEvent, LogOffset
from dblog.dialects.postgres.pgoutput.messages import Relation
from dblog.dialects.postgres.pgoutput.row_image import PostgresImage
from dblog.dialects.postgres.pgoutput.visibility import Snapshot
from dblog.model import TableId
from dblog.readers.items import IgnoredForNow, LogCounts, LogRows, RowsParked

class FastPlan:
    """The compiled RowEncoder of one table version; Avro only."""

    def __init__(self, plan: TablePlan, image: PostgresImage) -> None: ...
    @property
    def plan(self) -> TablePlan: ...
    def encode_rows(self, op: Op, body: bytes, context: RowContext, *, version: int | None = None, skip_rows: int = 0) -> Records: ...
    def encode_chunk(
        self, rows: bytes | bytearray | memoryview, context: RowContext, dropped_keys: AbstractSet[bytes], op: ReadOp = "r"
    ) -> Chunk: ...
    def end_of_rows(self, rows: bytes | bytearray | memoryview, start: int, rows_max: int, bytes_max: int) -> int: ...
    def fingerprint_chunk(self, rows: bytes | bytearray | memoryview, dropped_keys: AbstractSet[bytes]) -> Fingerprints: ...
    def check_table_map(self, body: bytes) -> None: ...

class FastLogged:
    """The compiled form of ``visibility.Logged``. Only the log thread uses it."""

    def __init__(self, begin: Snapshot, *, recent_max: int = ..., ranges_max: int = ...) -> None: ...
    def committed(self, xid: int, position: Position, relations: frozenset[int]) -> None:
        """Note that the log has the commit of this transaction."""

    def shows(self, shown: Snapshot, relation: int | None, low: Position) -> bool:
        """Return True if a chunk of the table, read in this snapshot, shows everything that the log
        has of the table before ``low``.
        """

class LogDecoder:
    """A decoder that turns copy messages of a replication connection into finished records, and
    into the messages that need a decision. Pure: it never blocks and does no I/O.

    - ``resolve(relation, position, offset)`` returns the encoder of a table's rows; None for a
      table that is not captured; ROWS_PARKED for a parked one. It is called once for each Relation
      message that differs from the last one of its table, until ``forget_tables``. If it returns
      IGNORED_FOR_NOW, it is called again at the next row.
    - ``committed`` is called at the end of each transaction with its number, its commit LSN and the
      numbers of the tables that it has changed. A FastLogged is filled directly.
    - ``signal_tables``: rows inserted into these come out as ``SignalRow``.
    - ``transactions``: records have their order in their transaction, and the transactions' borders
      come out too.
    - ``fill(plan, body, xid)`` takes an update that changes the replica identity's columns, and
      returns it with values that the log does not have.
    - ``complete(plan, body, xid)`` takes every update that lacks values, and returns it with these
      values. If it returns None, the update's key is reported as lacking them.
    - ``settle(plan, op, body, xid, commit_lsn, number, taken=...)`` takes every change of a table
      whose message key the server does not enforce row by row, and returns the changes to send
      instead (``task/old_keys.py``).
    """

    def __init__(
        self,
        *,
        resolve: Callable[[Relation, Position, LogOffset], RowEncoder | IgnoredForNow | RowsParked | None],
        committed: Callable[[int, int, frozenset[int]], None] | FastLogged,
        database: str,
        records_max: int = 1000,
        bytes_max: int = ...,
        signal_tables: AbstractSet[TableId] = ...,
        transactions: bool = False,
        fill: Callable[[TablePlan, bytes, int], bytes] | None = None,
        complete: Callable[[TablePlan, bytes, int], bytes | None] | None = None,
        settle: Callable[..., list[tuple[Op, bytes]]] | None = None,
    ) -> None: ...
    def start(self, at: LogOffset, *, epoch: int, now_us: Callable[[], int]) -> None:
        """Begin at an offset, as after connecting. The changes of its open transaction that were
        taken before give nothing.
        """

    def feed(self, data: bytes) -> list[LogRows | LogEvent]:
        """Take more copy messages and return what is finished. Each message must be whole and
        follow its length (4 bytes, little-endian).

        It stops after a LogEvent that may change how the next rows are read, and before a message
        that cannot be handled. While ``held``, call ``feed(b"")`` again. The error of such a
        message is raised once nothing precedes it.
        """

    def flush(self) -> list[LogRows | LogEvent]:
        """Return everything that is pending; an item without segments if only the position has
        moved.
        """

    def forget_tables(self) -> None:
        """Ask for the encoder of each table again."""

    def leave_out(self) -> None:
        """Skip the next row of a captured table: the one that raised BadRowsError."""

    @property
    def counts(self) -> LogCounts:
        """Counts of everything decoded so far. Any thread may read them."""

    @property
    def held(self) -> bool:
        """True if the last call stopped early and ``feed(b"")`` would continue."""

def next_border(data: bytes, at: int) -> tuple[int, int, int]:
    """Return (start, end, letter) of the next copy message from ``at`` on that begins or ends a
    piece of a transaction under way, or ends such a transaction (S, E, c, A). Return (the end, the
    end, 0) if there is none.
    """

def of_transaction(data: bytes, aborted: frozenset[int], unshown: dict[int, bytes]) -> bytes:
    """Return the copy messages of a piece as they would be in a transaction that is sent whole.

    Messages of the subtransactions in ``aborted`` are left out. Their Relation messages wait in
    ``unshown`` until a row or a TRUNCATE of the table needs them.
    """

def with_unshown(data: bytes, unshown: dict[int, bytes]) -> bytes:
    """Return copy messages of whole transactions, with each Relation message of ``unshown``
    inserted before the message that needs it.
    """
