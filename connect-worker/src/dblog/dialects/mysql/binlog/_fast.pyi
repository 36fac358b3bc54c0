"""Types of the compiled hot path. See _fast.pyx for the implementation; rowplan.py and
tests/reference_decoders/mysql/decoder_reference.py are the reference implementations with the same results.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import BinaryIO, Literal

from dblog.codecs.fingerprint import Fingerprints
from dblog.codecs.plan import RowContext, TablePlan
from dblog.codecs.rowplan import Chunk, FieldImage, Op, ReadOp, Records, RowEncoder
from dblog.codecs.transactions import TransactionCounts
from dblog.dialects.mysql.binlog.items import IgnoredForNow, LogCounts, LogEvent, LogOffset, LogRows, RowsParked

class FastPlan:
    """The compiled RowEncoder of one table version; Avro only."""

    def __init__(self, plan: TablePlan, image: FieldImage) -> None: ...
    @property
    def plan(self) -> TablePlan: ...
    def encode_rows(self, op: Op, body: bytes, context: RowContext, *, version: int | None = None, skip_rows: int = 0) -> Records: ...
    def encode_chunk(
        self, rows: bytes | bytearray | memoryview, context: RowContext, dropped_keys: AbstractSet[bytes], op: ReadOp = "r"
    ) -> Chunk: ...
    def end_of_rows(self, rows: bytes | bytearray | memoryview, start: int, rows_max: int, bytes_max: int) -> int: ...
    def fingerprint_chunk(self, rows: bytes | bytearray | memoryview, dropped_keys: AbstractSet[bytes]) -> Fingerprints: ...
    def check_table_map(self, body: bytes) -> None: ...

def compile_plan(plan: TablePlan, image: FieldImage) -> FastPlan:
    """Return the fast encoder of a table version; ``image`` is the dialect's image module."""

class LogDecoder:
    """A decoder from the bytes of a binlog connection to finished records and events that need a
    decision. Pure: it never blocks and does no I/O.

    ``resolve(table map body, offset)`` returns the encoder of a table's rows, None for a table that
    is not captured, ROWS_PARKED for a parked one. It is called once for each table map's bytes
    until ``forget_tables``, and again each time after the answer IGNORED_FOR_NOW.

    - ``pass_through``: names (database, table) whose rows events come out as LogEvents.
    - ``keep_query``: puts the statement's text (ROWS_QUERY, ANNOTATE_ROWS) into ``source.query``.
    - ``gtid_included``: decides for a UUID (MariaDB: domain-server) whether rows of its
      transactions are wanted. Rows of passed-through tables always are.
    - ``gives_partial``: a rows event that lacks columns, and that no encoder can complete, comes
      out as a LogEvent with its encoder, so that the reader can read the rows again.
    - ``spool``: makes a temporary file. Compressed transactions of more than one packet are kept
      there instead of in memory.
    - ``transactions``: records have their order in their transaction, whose borders come with them.
      ``feed`` then stops after every rows event that lacks columns, for ``count``.
    - ``event_bytes_max``: a longer event counts as damage, found before its bytes are kept.
    - ``look_ahead_bytes_max``: bytes of a transaction that wait until its end is known. A longer
      one gives a LOOK_AHEAD event, which ``told`` answers.
    - ``ends``: no end is searched. An event that ends a transaction or undoes rows comes out as a
      LogEvent.
    """

    def __init__(
        self,
        *,
        flavor: Literal["mysql", "mariadb"],
        resolve: Callable[[bytes, LogOffset], RowEncoder | IgnoredForNow | RowsParked | None],
        checksum: bool = True,
        records_max: int = 1000,
        bytes_max: int = ...,
        pass_through: AbstractSet[tuple[str, str]] = ...,
        keep_query: bool = False,
        gtid_included: Callable[[str], bool] | None = None,
        gives_partial: bool = False,
        spool: Callable[[], BinaryIO] | None = None,
        transactions: bool = False,
        event_bytes_max: int = ...,
        look_ahead_bytes_max: int = ...,
        ends: bool = False,
    ) -> None: ...
    def start(
        self,
        file: str,
        pos: int,
        *,
        skip_events: int = 0,
        skip_rows: int = 0,
        epoch: int = 0,
        now_us: Callable[[], int],
        unreadable: AbstractSet[tuple[str, int]] = ...,
        transaction: TransactionCounts | None = None,
    ) -> None:
        """Begin at an offset, as after connecting. The first ``skip_events`` events of the first
        transaction, and then ``skip_rows`` rows, give no records.

        ``transaction`` has the counts of the skipped events; its BEGIN is not reported again.

        ``unreadable`` has positions of rows events and table maps that are left out, whatever is
        wrong with them (DamagedLogError.event_at).
        """

    def feed(self, data: bytes) -> list[LogRows | LogEvent]:
        """Take more bytes; return the finished items.

        Stops after a LogEvent that may change schemas, so that the reader can act before the next
        table is resolved, and before an event that cannot be handled. While ``held``, call
        ``feed(b"")`` again. The error of such an event is raised once no item precedes it.
        """

    def flush(self) -> list[LogRows | LogEvent]:
        """Return the pending items; an item without segments if only the position has moved."""

    def forget_tables(self) -> None:
        """Make every table map call ``resolve`` again."""

    def leave_out(self) -> None:
        """Skip the next rows event of a captured table: the one that raised BadRowsError."""

    def told(self, undone: Sequence[tuple[int, int]]) -> None:
        """Answer a LOOK_AHEAD event with the parts of the open transaction whose rows are undone,
        in the form of ``binlog/undone.py``.
        """

    def count(self, encoder: RowEncoder, records: int) -> TransactionCounts | None:
        """Count this many records (without tombstones) for the last event that lacked columns;
        return the counts after it.
        """

    @property
    def counts(self) -> LogCounts:
        """Counts of events and rows since the decoder was made. Any thread may read them."""

    @property
    def held(self) -> bool:
        """True if the last call stopped early and ``feed(b"")`` would continue."""

def scan_rows(buffer: bytes | bytearray | memoryview, start: int = 0) -> tuple[bool, int, int, int]:
    """Return (complete, rows, start of the last row's packet or -1, end of the bytes used),
    scanning from ``start``.

    Ends at an EOF or OK packet (first byte 0xFE; with and without CLIENT_DEPRECATE_EOF); ERR raises
    TransientError.
    """

def crc32(data: bytes | bytearray | memoryview, seed: int = 0) -> int:
    """Return zlib's crc32."""

def md5_head(data: bytes | bytearray | memoryview) -> bytes:
    """Return the first eight bytes of hashlib's md5."""

def json_texts(data: bytes | bytearray | memoryview) -> tuple[str | None, str | None]:
    """Return the compact text of the bytes, read as a binary document and as the server's JSON
    text; None if only the dialect's reader can tell. For tests.
    """

def json_doubts(rows: bytes, types: bytes) -> list[tuple[int, int]]:
    """Return the numbers and offsets of the rows whose JSON documents may hold values of doubtful
    kind; json_kinds.doubtful_rows is the reference implementation.
    """
