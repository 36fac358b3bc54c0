"""Types of the compiled hot path. See _fast.pyx for how, rowplan.py and binlog/decoder_reference.py for the reference implementations with the same results."""

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
    """The fast encoder of a table version; ``image`` is the dialect's image module."""

class LogDecoder:
    """Bytes of a binlog connection to finished records and the events that need a decision. Pure: it never blocks and does no I/O.

    ``resolve(table map body, offset)`` gives the encoder of a table's rows, None for a table that is not captured, ROWS_PARKED for one that is parked;
    asked once for each table map's bytes until ``forget_tables``, and each time again where the answer is IGNORED_FOR_NOW.
    ``pass_through`` names (database, table) whose rows events come out as LogEvents. ``keep_query`` puts the statement's text (ROWS_QUERY,
    ANNOTATE_ROWS) into ``source.query``. ``gtid_included`` decides for a UUID (MariaDB: domain-server) whether rows of its transactions are
    wanted; those of the passed-through tables always are. ``gives_partial``: a rows event without all columns, which no encoder
    can make whole, comes out as a LogEvent with its encoder, for the reader to read the rows again.
    ``spool`` makes a temporary file: compressed transactions of more than one packet lie there instead of in memory. ``transactions``: records have
    their order in their transaction, whose borders come with them; ``feed`` then stops behind every rows event without all columns, for ``count``.
    ``event_bytes_max``: a longer event is damage, met before its bytes are kept. ``look_ahead_bytes_max``: so much of a transaction waits until its end is
    known; of a longer one a LOOK_AHEAD event asks, and ``told`` answers. ``ends``: nothing is looked for; what ends a transaction or takes rows
    back comes out as a LogEvent.
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
        """Begin at an offset, as after connecting. The first transaction's first ``skip_events`` events, and then ``skip_rows`` rows, give nothing.

        ``transaction``: what those have counted; its BEGIN is not reported again.

        ``unreadable``: positions of rows events and table maps that are left out, whatever is wrong with them (DamagedLogError.event_at).
        """

    def feed(self, data: bytes) -> list[LogRows | LogEvent]:
        """Take more bytes; give what is finished.

        Stops behind a LogEvent that may change schemas, so that the reader can act before the next table is resolved, and before an event that
        cannot be handled: while ``held``, call ``feed(b"")`` again. The error of such an event is raised when nothing precedes it.
        """

    def flush(self) -> list[LogRows | LogEvent]:
        """Give out what is pending; an item without segments when only the position has moved."""

    def forget_tables(self) -> None:
        """Every table map asks ``resolve`` again."""

    def leave_out(self) -> None:
        """Pass over the next rows event of a captured table: the one that raised BadRowsError."""

    def told(self, undone: Sequence[tuple[int, int]]) -> None:
        """Answer a LOOK_AHEAD event: the parts of the open transaction whose rows are taken back, as ``binlog/undone.py`` has them."""

    def count(self, encoder: RowEncoder, records: int) -> TransactionCounts | None:
        """That many records (without tombstones) were made of the event without all columns that came last; gives the counts behind it."""

    @property
    def counts(self) -> LogCounts:
        """What it has met since it was made. Any thread may ask."""

    @property
    def held(self) -> bool:
        """Whether the last call stopped early and ``feed(b"")`` would go on."""

def scan_rows(buffer: bytes | bytearray | memoryview, start: int = 0) -> tuple[bool, int, int, int]:
    """(complete, rows, start of the last row's packet or -1, end up to which the buffer is used) from ``start`` on.

    Ends at an EOF or OK packet (first byte 0xFE; with and without CLIENT_DEPRECATE_EOF); ERR raises TransientError.
    """

def crc32(data: bytes | bytearray | memoryview, seed: int = 0) -> int:
    """Zlib's crc32."""

def md5_head(data: bytes | bytearray | memoryview) -> bytes:
    """The first eight bytes of hashlib's md5."""

def json_texts(data: bytes | bytearray | memoryview) -> tuple[str | None, str | None]:
    """The compact text of the bytes as a binary document and as the server's JSON text; None where the dialect's reader is asked. For tests."""

def json_doubts(rows: bytes, types: bytes) -> list[tuple[int, int]]:
    """The numbers and column paths of the rows whose JSON documents may hold values of doubtful kind; json_kinds.doubtful_rows is the reference
    implementation.
    """
