"""Types of the compiled hot path. See _fast.pyx for how; codecs/rowplan.py and pgoutput/decoder_reference.py have the reference implementations."""

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
    """The compiled form of ``visibility.Logged``. The log thread alone uses it."""

    def __init__(self, begin: Snapshot, *, recent_max: int = ..., ranges_max: int = ...) -> None: ...
    def committed(self, xid: int, position: Position, relations: frozenset[int]) -> None:
        """The log has its commit."""

    def shows(self, shown: Snapshot, relation: int | None, low: Position) -> bool:
        """Whether a chunk of the table that was read in this snapshot shows all that the log has of it in front of ``low``."""

class LogDecoder:
    """Copy messages of a replication connection to finished records and the messages that need a decision. Pure: it never blocks and does no I/O.

    ``resolve(relation, position, offset)`` gives the encoder of a table's rows, None for a table that is not captured, ROWS_PARKED for one that is parked;
    asked once for each Relation message that differs from the last one of its table, until ``forget_tables``, and each time again where the answer is
    IGNORED_FOR_NOW. ``committed`` hears of each transaction that ends: its number, its commit LSN and the numbers of the tables that it has changed; a
    FastLogged is noted in without a call. ``signal_tables``: rows that are inserted there come out as ``SignalRow``.
    ``transactions``: records have their order in their transaction, whose borders come with them.
    ``fill(plan, body, xid)`` gets updates that change the replica identity's columns, and gives them with values that the log does not have.
    ``complete(plan, body, xid)`` gets every update that lacks values, and gives it with these; None: its key is to be reported as lacking them.
    ``settle(plan, op, body, xid, commit_lsn, number, taken=...)`` gets every change of a table whose message key the server does not enforce row by row, and
    gives the changes to send instead (``task/old_keys.py``).
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
        """Begin at an offset, as after connecting. Of its open transaction the changes that were taken give nothing."""

    def feed(self, data: bytes) -> list[LogRows | LogEvent]:
        """Take more copy messages, each whole and behind its length (4 bytes, little-endian); give what is finished.

        Stops behind a LogEvent that may change how the next rows are read, and before a message that cannot be handled: while ``held``, call ``feed(b"")``
        again. The error of such a message is raised when nothing precedes it.
        """

    def flush(self) -> list[LogRows | LogEvent]:
        """Give out what is pending; an item without segments when only the position has moved."""

    def forget_tables(self) -> None:
        """Ask for the encoder of each table again."""

    def leave_out(self) -> None:
        """Pass over the next row of a captured table: the one that raised BadRowsError."""

    @property
    def counts(self) -> LogCounts:
        """What it has met since it was made. Any thread may ask."""

    @property
    def held(self) -> bool:
        """Whether the last call stopped early and ``feed(b"")`` would go on."""

def next_border(data: bytes, at: int) -> tuple[int, int, int]:
    """(start, end, letter) of the next copy message from ``at`` on that begins or ends a piece of a transaction under way, or ends one (S, E, c, A); (the end,
    the end, 0) where there is none.
    """

def of_transaction(data: bytes, aborted: frozenset[int], unshown: dict[int, bytes]) -> bytes:
    """Copy messages of a piece as they would be of a transaction that is sent whole. Those of the subtransactions ``aborted`` are left out, but for their
    Relation messages, which wait in ``unshown`` until a row or a TRUNCATE of the table needs them.
    """

def with_unshown(data: bytes, unshown: dict[int, bytes]) -> bytes:
    """Copy messages of transactions that are sent whole, with the Relation messages that wait in ``unshown`` in front of what needs them."""
