# LogDecoder: the bytes of a binlog connection to batches of finished records, for MySQL and
# MariaDB.
#
# Pure: bytes in, items out. A transaction of a captured table costs no Python object except its
# records; one of no captured table costs none at all. An event that is not a row, nor part of a
# transaction's frame, nor known to be meaningless becomes a LogEvent, in order among the rows.
#
# An event is consumed only when it was handled. After an exception the decoder is at that event,
# with everything earlier already returned, so the caller may try again (a registry that was
# unreachable) or give up. # I4 I5

from dblog.dialects.mysql.binlog import unpacking
from dblog.dialects.mysql.binlog.items import EOF_PACKET, ERR_PACKET, EVENT_BYTES_MAX, IGNORED_FOR_NOW, LOOK_AHEAD, LOOK_AHEAD_BYTES_MAX, ROWS_PARKED
from dblog.dialects.mysql.binlog.items import LogCounts, LogEvent, LogOffset, LogRows
from dblog.dialects.mysql.binlog.undone import Undone
from dblog.codecs.transactions import TransactionBorder, TransactionCounts, TransactionOrder
from dblog.dialects.mysql.binlog.event_types import EventType

# The numbers of event_types.py, read once when the module is loaded.
cdef int QUERY = EventType.QUERY
cdef int STOP = EventType.STOP
cdef int ROTATE = EventType.ROTATE
cdef int FORMAT_DESCRIPTION = EventType.FORMAT_DESCRIPTION
cdef int XID = EventType.XID
cdef int TABLE_MAP = EventType.TABLE_MAP
cdef int WRITE_ROWS_V1 = EventType.WRITE_ROWS_V1
cdef int UPDATE_ROWS_V1 = EventType.UPDATE_ROWS_V1
cdef int DELETE_ROWS_V1 = EventType.DELETE_ROWS_V1
cdef int HEARTBEAT = EventType.HEARTBEAT
cdef int ROWS_QUERY = EventType.ROWS_QUERY
cdef int WRITE_ROWS = EventType.WRITE_ROWS
cdef int UPDATE_ROWS = EventType.UPDATE_ROWS
cdef int DELETE_ROWS = EventType.DELETE_ROWS
cdef int GTID = EventType.GTID
cdef int ANONYMOUS_GTID = EventType.ANONYMOUS_GTID
cdef int PREVIOUS_GTIDS = EventType.PREVIOUS_GTIDS
cdef int TRANSACTION_CONTEXT = EventType.TRANSACTION_CONTEXT
cdef int VIEW_CHANGE = EventType.VIEW_CHANGE
cdef int XA_PREPARE = EventType.XA_PREPARE
cdef int PARTIAL_UPDATE_ROWS = EventType.PARTIAL_UPDATE_ROWS
cdef int TRANSACTION_PAYLOAD = EventType.TRANSACTION_PAYLOAD
cdef int HEARTBEAT_V2 = EventType.HEARTBEAT_V2
cdef int GTID_TAGGED = EventType.GTID_TAGGED
cdef int MARIADB_ANNOTATE_ROWS = EventType.MARIADB_ANNOTATE_ROWS
cdef int MARIADB_BINLOG_CHECKPOINT = EventType.MARIADB_BINLOG_CHECKPOINT
cdef int MARIADB_GTID = EventType.MARIADB_GTID
cdef int MARIADB_GTID_LIST = EventType.MARIADB_GTID_LIST
cdef int MARIADB_QUERY_COMPRESSED = EventType.MARIADB_QUERY_COMPRESSED
cdef int MARIADB_WRITE_ROWS_COMPRESSED_V1 = EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1
cdef int MARIADB_WRITE_ROWS_COMPRESSED = EventType.MARIADB_WRITE_ROWS_COMPRESSED
cdef int MARIADB_DELETE_ROWS_COMPRESSED = EventType.MARIADB_DELETE_ROWS_COMPRESSED

cdef enum:
    HEADER = 19
    CHECKSUM = 4
    FLAG_IN_USE = 0x01
    FLAG_ARTIFICIAL = 0x20
    # flag of MySQL's GTID event: the transaction may contain more than rows, so its rows may be
    # undone
    STATEMENTS = 1
    STANDALONE = 1          # flags of MariaDB's GTID event
    GROUP_COMMIT_ID = 2
    PREPARED_XA = 64
    COMPLETED_XA = 128
    START_ALTER = 2         # its extra flags
    ROLLBACK_ALTER = 8
    DUMMY_TABLE = 0xFFFFFF
    SLOTS = 256
    RANGES_MAX = 4096
    TIME_BITS = 53        # microseconds whose nanoseconds fit 63 bits: until the year 2255
    POSITION_BITS = 40       # a position shifted by 23 for D7's number must fit 63 bits
    TAG_MAX = 32
    # bytes unpacked from compressed events after which the caller gets control
    INFLATED_MAX = 1 << 22
    ARRIVING_MIN = 4096  # bytes of a partial event that count as arriving: a heartbeat is shorter

cdef enum Kind_:
    TABLE_IGNORED = 0
    TABLE_FAST = 1
    TABLE_SLOW = 2
    TABLE_PASSED = 3

cdef struct Source_:
    uint8_t sid[16]
    char tag[TAG_MAX]
    Py_ssize_t tag_len

cdef struct Range:
    int64_t source    # MySQL: index of its uuid and tag; MariaDB: domain
    int64_t first     # MariaDB: server id
    int64_t last

cdef struct Event:
    uint32_t timestamp
    int type_code
    uint32_t server_id
    uint32_t flags
    int64_t start
    int64_t next
    int64_t low           # D7's second number of row 0
    const uint8_t* body
    Py_ssize_t n


cdef class _Output:
    """The records of one encoder in the segment that is being filled, until another encoder writes
    into the same topic.
    """

    cdef object encoder
    cdef FastPlan fast
    cdef str topic
    cdef str name         # the table's name
    cdef list keys
    cdef list values
    cdef dict headers
    # the segment's item; if it is not the decoder's, the next rows begin a new segment
    cdef int64_t item


cdef class _Table:
    """A table map, and the use of its rows."""

    cdef bytes body
    cdef int kind
    cdef bint parked
    cdef _Output output


cdef class LogDecoder:
    """The compiled log decoder. ``_fast.pyi`` has its contract;
    ``decoder_reference.ReferenceLogDecoder`` is the reference implementation.
    """

    cdef object resolve
    cdef object pass_through
    cdef object now_us
    cdef bint mariadb
    cdef bint checksum_at_start
    cdef bint checksum
    cdef bint keep_query
    cdef int64_t records_max
    cdef int64_t bytes_max
    cdef int64_t event_bytes_max
    # input
    cdef bytes data
    cdef Py_ssize_t at
    cdef Buf carry          # a packet that has not arrived completely
    cdef Buf joined         # an event of several packets
    cdef bint joined_whole
    cdef object spool
    cdef object spooled     # a compressed transaction of several packets, in a file
    cdef int64_t spooled_len
    cdef bint stopped
    # a compressed transaction: the unread rest, and the events unpacked so far
    cdef object payload
    cdef Buf inner
    cdef Py_ssize_t inner_at
    cdef int64_t inner_start   # start of the next event, in the unpacked bytes
    cdef int64_t payload_start
    cdef int64_t payload_next
    cdef bint packed
    cdef int64_t inflated
    cdef bint left_out
    # the open transaction's end, which is searched before its rows are handled
    cdef bint looking
    cdef bint asked           # the caller searches for it
    cdef bint off             # the connection has ended before it
    cdef Py_ssize_t look_at   # bytes after its beginning that were searched
    cdef Py_ssize_t look_ahead_bytes_max
    cdef Buf waiting          # its bytes so far
    cdef object undone        # Undone; None if nothing is undone
    cdef bint ends            # no search: what ends a transaction or undoes rows is returned
    cdef bint void_           # the next statement is the first half of an ALTER, or one that failed
    cdef object gtid_included
    cdef bint gives_partial
    cdef bint excluded      # the open transaction's rows are excluded
    # position in the log
    cdef str file
    cdef bytes file_bytes
    cdef int64_t file_index
    cdef int64_t epoch
    cdef int64_t event_end      # end of the last event
    cdef int64_t transaction
    cdef int64_t event_count
    cdef bint in_transaction
    cdef bint opened        # a GTID event was seen whose transaction has not ended
    cdef bint first_transaction
    cdef int64_t skip_events
    cdef int64_t skip_rows
    cdef uint32_t last_timestamp
    cdef uint32_t last_server_id
    # the open transaction's GTID
    cdef bint has_gtid
    cdef char gtid_text[128]
    cdef Py_ssize_t gtid_len
    cdef int64_t gtid_source
    cdef int64_t gtid_number
    cdef int64_t gtid_server
    cdef int64_t commit_us
    cdef int64_t thread
    cdef bint has_thread
    cdef bytes query
    cdef Source_* sources
    cdef Py_ssize_t sources_count
    cdef list source_texts
    cdef Range* ranges
    cdef Py_ssize_t ranges_count
    # the open transaction's records, if transactions are reported
    cdef bint transactions
    cdef object resumed      # TransactionCounts of the offset at which reading began
    cdef object counts       # TransactionCounts; None outside a transaction or without counting
    cdef dict counts_tables
    cdef bytes counts_id
    cdef int64_t total
    cdef bint ended          # its END is reported, but not passed yet
    cdef list borders
    cdef dict lacking      # keys of rows whose record lacks values, by table
    # tables
    cdef dict tables         # table map without its id -> _Table
    cdef dict by_id          # ids that lost their slot in the current transaction
    cdef dict outputs        # id(encoder) -> _Output
    cdef dict last_outputs   # topic -> the _Output of the topic's last segment
    cdef list slots
    cdef uint64_t slot_ids[SLOTS]
    # output
    cdef list items
    cdef object unreadable   # positions of events to leave out; None without any
    cdef int kind            # type of the current event; 0 until its header is checked
    cdef list segments       # segments of the item that is being filled
    cdef int64_t item
    cdef int64_t records
    cdef int64_t bytes_
    cdef int64_t source_ts_us
    cdef int64_t silent      # bytes of log since the last item
    cdef int64_t now
    cdef bint moved
    # for metrics
    cdef int64_t log_bytes
    cdef int64_t created, updated, deleted, unchanged
    cdef int64_t other_tables, other_sources, skipped_operations, parked
    cdef int64_t commits, rollbacks

    def __cinit__(self):
        self.sources = NULL
        self.ranges = NULL

    def __init__(
        self,
        *,
        str flavor not None,
        resolve not None,
        bint checksum=True,
        int64_t records_max=1000,
        int64_t bytes_max=1 << 20,
        pass_through=frozenset(),
        bint keep_query=False,
        gtid_included=None,
        bint gives_partial=False,
        spool=None,
        bint transactions=False,
        int64_t event_bytes_max=EVENT_BYTES_MAX,
        int64_t look_ahead_bytes_max=LOOK_AHEAD_BYTES_MAX,
        bint ends=False,
    ):
        if flavor not in ("mysql", "mariadb"):
            raise AssertionError(f"no flavor {flavor}")
        self.mariadb = flavor == "mariadb"
        self.resolve = resolve
        self.checksum_at_start = checksum
        self.keep_query = keep_query
        self.gtid_included = gtid_included
        self.gives_partial = gives_partial
        self.spool = spool
        self.transactions = transactions
        self.records_max = records_max
        self.bytes_max = bytes_max
        self.event_bytes_max = event_bytes_max
        self.look_ahead_bytes_max = look_ahead_bytes_max
        self.ends = ends
        self.pass_through = pass_through
        self.ranges = <Range*>malloc(RANGES_MAX * sizeof(Range))
        if self.ranges == NULL:
            raise MemoryError
        self.source_texts = []
        self.tables = {}
        self.by_id = {}
        self.outputs = {}
        self.last_outputs = {}
        self.slots = [None] * SLOTS
        self.start("", 4, now_us=lambda: 0)

    def __dealloc__(self):
        free(self.sources)
        free(self.ranges)
        free(self.carry.data)
        free(self.joined.data)
        free(self.inner.data)
        free(self.waiting.data)

    def start(
        self,
        str file not None,
        int64_t pos,
        *,
        int64_t skip_events=0,
        int64_t skip_rows=0,
        int64_t epoch=0,
        now_us not None,
        unreadable=frozenset(),
        transaction=None,
    ):
        """Begin at an offset of a new connection. Only the tables are kept from an earlier one."""
        self.resumed = transaction
        self.counts = None
        self.total = 0
        self.ended = 0
        self.borders = []
        self.lacking = {}
        self.unreadable = unreadable if unreadable else None
        self.kind = 0
        self.data = b""
        self.at = 0
        self.carry.len = 0
        self.joined.len = 0
        self.joined_whole = 0
        self.spooled = None
        self.stopped = 0
        self.payload = None
        self.inner.len = 0
        self.inner_at = 0
        self.packed = 0
        self.inflated = 0
        self.left_out = 0
        self.looking = 0
        self.asked = 0
        self.off = 0
        self.look_at = 0
        self.waiting.len = 0
        self.undone = None
        self.void_ = 0
        self.excluded = 0
        self.checksum = self.checksum_at_start
        self.epoch = epoch
        self.now_us = now_us
        self.set_file(file)
        self.event_end = pos
        self.transaction = pos
        self.event_count = 0
        self.in_transaction = 0
        self.opened = 0
        self.first_transaction = 1
        self.skip_events = skip_events
        self.skip_rows = skip_rows
        self.last_timestamp = 0
        self.last_server_id = 0
        self.has_gtid = 0
        self.commit_us = 0
        self.has_thread = 0
        self.query = None
        self.ranges_count = 0
        self.by_id.clear()
        self.items = []
        self.segments = []
        self.item = self.item + 1
        self.records = 0
        self.bytes_ = 0
        self.source_ts_us = -1
        self.silent = 0
        self.moved = 0

    def forget_tables(self):
        """Make every table map call ``resolve`` again, since a schema has changed."""
        cdef Py_ssize_t i
        self.tables.clear()
        self.by_id.clear()
        self.outputs.clear()
        self.last_outputs.clear()
        for i in range(SLOTS):
            self.slots[i] = None
            self.slot_ids[i] = 0

    def leave_out(self):
        """Skip the rows event that the last call could not handle."""
        self.left_out = 1

    def told(self, undone):
        """Answer the last LOOK_AHEAD event with the undone parts of the open transaction."""
        self.undone = Undone(self.transaction, undone) if undone else None
        self.looking = 0
        self.asked = 0

    def count(self, encoder not None, int64_t records):
        """Count this many records for the rows event returned last; return the counts after it."""
        if self.counts is None:
            return None
        self.count_of(str(encoder.plan.table.id), records)
        return self.counts.copy()

    cdef int count_of(self, str name, int64_t records) except -1:
        if records:
            self.counts_tables[name] = self.counts_tables.get(name, 0) + records
            self.total += records
        return 0

    @property
    def counts(self):
        """Counts of events and rows so far. Any thread may read them."""
        cdef int64_t arriving = self.carry.len if self.carry.len > ARRIVING_MIN else 0
        return LogCounts(
            bytes=self.log_bytes + arriving + self.waiting.len + (self.joined.len if self.spooled is None else self.spooled_len),
            created=self.created,
            updated=self.updated,
            deleted=self.deleted,
            unchanged=self.unchanged,
            other_tables=self.other_tables,
            other_sources=self.other_sources,
            skipped_operations=self.skipped_operations,
            parked=self.parked,
            commits=self.commits,
            rollbacks=self.rollbacks,
        )

    @property
    def held(self):
        """True if the last call stopped early and ``feed(b"")`` would continue."""
        if not self.stopped or self.asked:
            return False
        return self.waiting.len > 0 or self.payload is not None or self.at < PyBytes_GET_SIZE(self.data) or self.carry.len >= 4 or bool(self.joined_whole)

    def feed(self, bytes data not None):
        """Take more bytes; return the finished items."""
        cdef list items
        cdef const uint8_t* base
        cdef const uint8_t* payload
        cdef Py_ssize_t size, n, take
        cdef bint carried, known
        self.now = self.now_us()
        self.stopped = 0
        if self.waiting.len > 0:
            self.put_aside(&self.waiting, <const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
            if self.looking:
                try:
                    known = self.look(self.waiting.data, self.waiting.len)
                except BaseException:
                    self.stopped = 1
                    self.emit_batch(0)
                    if not self.items:
                        raise
                    known = 0
                if not known:
                    if self.off:
                        self.waiting.len = 0
                    items = self.items
                    self.items = []
                    return items
            self.data = PyBytes_FromStringAndSize(<char*>self.waiting.data, self.waiting.len)
            self.at = 0
            self.waiting.len = 0
            if self.waiting.cap > (1 << 22):
                free(self.waiting.data)
                memset(&self.waiting, 0, sizeof(Buf))
        elif self.at < PyBytes_GET_SIZE(self.data):
            if PyBytes_GET_SIZE(data):
                self.data = self.data[self.at:] + data
                self.at = 0
        else:
            self.data = data
            self.at = 0
        base = <const uint8_t*>PyBytes_AS_STRING(self.data)
        size = PyBytes_GET_SIZE(self.data)
        try:
            while not self.stopped:
                if self.payload is not None:
                    self.packed_event()
                    continue
                if self.looking:
                    if not self.look(base + self.at, size - self.at):
                        break
                    continue
                if self.joined_whole and self.spooled is not None:
                    self.spooled_packet()
                    self.spooled = None
                    self.joined_whole = 0
                    continue
                if self.joined_whole:
                    self.packet(self.joined.data, self.joined.len)
                    self.joined.len = 0
                    self.joined_whole = 0
                    if self.joined.cap > (1 << 22):
                        free(self.joined.data)
                        memset(&self.joined, 0, sizeof(Buf))
                    continue
                carried = self.carry.len > 0
                if carried:
                    if self.carry.len < 4:
                        take = min(4 - self.carry.len, size - self.at)
                        self.put_aside(&self.carry, base + self.at, take)
                        if self.carry.len < 4:
                            break
                    n = <Py_ssize_t>little(self.carry.data, 3)
                    take = min(4 + n - self.carry.len, size - self.at)
                    self.put_aside(&self.carry, base + self.at, take)
                    if self.carry.len < 4 + n:
                        break
                    payload = self.carry.data + 4
                else:
                    if size - self.at < 4:
                        break
                    n = <Py_ssize_t>little(base + self.at, 3)
                    if size - self.at < 4 + n:
                        break
                    payload = base + self.at + 4
                if n == 0xFFFFFF or self.joined.len > 0 or self.spooled is not None:
                    self.join(payload, n)
                else:
                    self.packet(payload, n)
                if carried:
                    self.carry.len = 0
                    if self.carry.cap > (1 << 22):
                        free(self.carry.data)
                        memset(&self.carry, 0, sizeof(Buf))
                else:
                    self.at += 4 + n
        except BaseException:
            # The items before the bad event are returned first; the next call meets it again.
            self.stopped = 1
            self.emit_batch(0)
            if not self.items:
                raise
        if self.off:
            self.at = size
        elif self.looking and self.at < size:
            self.put_aside(&self.waiting, base + self.at, size - self.at)
            self.at = size
        elif not self.stopped and self.at < size:
            self.put_aside(&self.carry, base + self.at, size - self.at)
            self.at = size
        if self.at >= size:
            self.data = b""
            self.at = 0
        items = self.items
        self.items = []
        return items

    def flush(self):
        """Return the pending items, and the position if it has moved."""
        cdef list items
        self.emit_batch(self.moved)
        items = self.items
        self.items = []
        return items

    cdef int put_aside(self, Buf* b, const uint8_t* p, Py_ssize_t n) except -1:
        if n > 0:
            if not room(b, n):
                raise MemoryError
            memcpy(b.data + b.len, p, n)
            b.len += n
            if b is &self.carry:
                self.at += n
        return 0

    # --- the search for the end of the open transaction -------------------------------------------

    cdef int look_ahead(self) except -1:
        """Handle no further event before the end of the transaction is known."""
        self.looking = not self.ends
        self.look_at = 0
        self.undone = None
        return 0

    cdef bint look(self, const uint8_t* p, Py_ssize_t n) except -1:
        """Look for the transaction's end in the bytes that have arrived; return whether its events
        may be handled.
        """
        cdef Py_ssize_t size
        while n - self.look_at >= 4:
            size = <Py_ssize_t>little(p + self.look_at, 3)
            if size == 0xFFFFFF:
                self.ask()
                return 0
            if self.look_at + 4 + size > n:
                break
            if size == 0 or p[self.look_at + 4] != 0:
                # The connection ends here, so nothing more of the transaction is known.
                self.packet(p + self.look_at + 4, size)
                self.off = 1
                return 0
            if self.ends_with(p, size):
                self.looking = 0
                return 1
            self.look_at += 4 + size
            if self.look_at > self.look_ahead_bytes_max:
                self.ask()
                return 0
        if n > self.look_ahead_bytes_max:
            self.ask()
        return 0

    cdef int ask(self) except -1:
        self.put_packet(LOOK_AHEAD, b"", 0)
        self.asked = 1
        return 0

    cdef bint ends_with(self, const uint8_t* base, Py_ssize_t n) except -1:
        """Return whether the event at ``look_at``, in a packet of ``n`` bytes, ends the
        transaction.
        """
        cdef const uint8_t* p = base + self.look_at + 5
        cdef Py_ssize_t size = n - 1
        cdef int t
        if size < HEADER:
            self.kind = 0
            raise self.damaged("an event shorter than its header")
        t = p[4]
        if t == XID or t == XA_PREPARE:
            self.require_sound(p, size)
            return 1
        if t == TRANSACTION_PAYLOAD:
            return 1
        if (
            t == GTID
            or t == ANONYMOUS_GTID
            or t == GTID_TAGGED
            or t == MARIADB_GTID
            or t == ROTATE
            or t == FORMAT_DESCRIPTION
            or t == STOP
        ):
            if self.looked_at_is_sound(base):
                self.undone = Undone(self.transaction)
                self.undone.cut()
            return 1
        if t == QUERY or (t == MARIADB_QUERY_COMPRESSED and self.mariadb):
            return self.ends_with_query(p, size, t != QUERY)
        return 0

    cdef bint ends_with_query(self, const uint8_t* p, Py_ssize_t size, bint packed) except -1:
        cdef Event e
        cdef Py_ssize_t skip = 0, n
        cdef const uint8_t* body = p + HEADER
        self.require_sound(p, size)
        n = size - HEADER - (CHECKSUM if self.checksum else 0)
        if n >= 13:
            skip = 13 + (body[11] | body[12] << 8) + body[8] + 1
        if skip == 0 or skip > n:
            raise self.damaged("a query event that is too short")
        text = PyBytes_FromStringAndSize(<char*>body + skip, n - skip)
        try:
            if packed:
                text = unpacking.inflated(text)
            if not self.in_transaction and self.look_at == 0:
                return not text[:40].upper().startswith((b"BEGIN", b"XA START", b"XA BEGIN"))
            e.flags = <uint32_t>little(p + 17, 2)
            self.put_position(&e, <int64_t>little(p + 13, 4), size)
            undone = self.undone if self.undone is not None else Undone(self.transaction)
            ended = undone.statement(text, e.start)
        except ValueError as error:
            raise self.damaged(str(error)) from error
        self.undone = undone
        return ended

    cdef int require_sound(self, const uint8_t* p, Py_ssize_t size) except -1:
        cdef Event e
        self.kind = p[4]
        if self.checksum:
            e.type_code = p[4]
            e.flags = <uint32_t>little(p + 17, 2)
            if size < HEADER + CHECKSUM or not self.sound(p, size, &e):
                raise self.damaged(f"an event of type {p[4]} whose checksum is wrong")
        return 0

    cdef bint looked_at_is_sound(self, const uint8_t* base) except -1:
        """Return whether no damaged event can have hidden an earlier end. A damaged one is reported
        later, when it is handled.
        """
        cdef Py_ssize_t at = 0, size
        cdef Event e
        if not self.checksum:
            return 1
        while at < self.look_at:
            size = <Py_ssize_t>little(base + at, 3)
            e.type_code = base[at + 9]
            e.flags = <uint32_t>little(base + at + 22, 2)
            if size - 1 < HEADER + CHECKSUM or not self.sound(base + at + 5, size - 1, &e):
                return 0
            at += 4 + size
        return 1

    # --- packets and events -----------------------------------------------------------------------

    cdef int join(self, const uint8_t* p, Py_ssize_t n) except -1:
        """Append a packet of an event that has several; those of a compressed transaction go into a
        file. # I6
        """
        if (self.joined.len if self.spooled is None else self.spooled_len) + n > self.event_bytes_max:
            self.kind = 0
            raise self.damaged(f"an event of more than {self.event_bytes_max} bytes")
        if self.spooled is None and self.spool is not None and self.joined.len == 0 and p[0] == 0 and p[5] == TRANSACTION_PAYLOAD:
            self.spooled = unpacking.Spool(self.spool())
            self.spooled_len = 0
        if self.spooled is not None:
            self.spooled.write(PyBytes_FromStringAndSize(<char*>p, n))
            self.spooled_len += n
        else:
            if not room(&self.joined, n):
                raise MemoryError
            memcpy(self.joined.data + self.joined.len, p, n)
            self.joined.len += n
        self.joined_whole = n < 0xFFFFFF
        return 0

    cdef int spooled_packet(self) except -1:
        """Handle a compressed transaction in a file, like ``packet``."""
        cdef Event e
        cdef bytes head = unpacking.FilePart(self.spooled, 1, 1 + HEADER)[:]
        cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(head)
        cdef int64_t size = self.spooled_len - 1
        cdef int64_t end = self.spooled_len
        e.timestamp = <uint32_t>little(p, 4)
        e.type_code = self.kind = p[4]
        e.server_id = <uint32_t>little(p + 5, 4)
        if <int64_t>little(p + 9, 4) != size:
            raise self.damaged(f"an event of {size} bytes that claims {little(p + 9, 4)}")
        e.flags = <uint32_t>little(p + 17, 2)
        if self.checksum:
            end -= CHECKSUM
            want = int.from_bytes(unpacking.FilePart(self.spooled, end, end + CHECKSUM)[:], "little")
            if unpacking.FilePart(self.spooled, 1, end).crc32() != want:
                raise self.damaged(f"an event of type {e.type_code} whose checksum is wrong")
        self.put_position(&e, <int64_t>little(p + 13, 4), size)
        self.unpack(&e, unpacking.FilePart(self.spooled, 1 + HEADER, end))
        self.silent += size
        self.log_bytes += size
        if self.silent > (1 << 24):
            self.emit_batch(1)
        return 0

    cdef int put_position(self, Event* e, int64_t log_pos, int64_t size) except -1:
        """Set the event's positions. Its header has the low 32 bits of the position after it."""
        if log_pos == 0 or e.flags & FLAG_ARTIFICIAL:
            e.start = e.next = self.event_end
        else:
            e.next = (self.event_end & ~<int64_t>0xFFFFFFFF) | log_pos
            # The header's field has 32 bits, but a file may be longer.
            if e.next + <int64_t>0x80000000 < self.event_end:
                e.next += <int64_t>1 << 32
            e.start = e.next - size
        e.low = e.start << 23
        return 0

    cdef int packet(self, const uint8_t* p, Py_ssize_t n) except -1:
        """Handle one whole packet. Handlers change nothing before they can no longer fail."""
        cdef Event e
        cdef Py_ssize_t size
        cdef uint32_t length
        cdef int64_t log_pos
        cdef bint checked
        if n == 0:
            raise self.damaged("an empty packet")
        if p[0] == 0xFF or (p[0] == 0xFE and n < 9):
            self.put_packet(ERR_PACKET if p[0] == 0xFF else EOF_PACKET, p, n)
            return 0
        if p[0] != 0:
            raise self.damaged(f"a packet of kind {p[0]} in the stream of events")
        p += 1
        size = n - 1
        self.kind = 0
        if size < HEADER:
            raise self.damaged("an event shorter than its header")
        e.timestamp = <uint32_t>little(p, 4)
        e.type_code = p[4]
        e.server_id = <uint32_t>little(p + 5, 4)
        if self.unreadable is not None and left_out_kind(e.type_code) and (self.file, self.event_end) in self.unreadable:
            self.pass_unreadable(&e, size)
            return 0
        length = <uint32_t>little(p + 9, 4)
        log_pos = <int64_t>little(p + 13, 4)
        e.flags = <uint32_t>little(p + 17, 2)
        if <Py_ssize_t>length != size:
            raise self.damaged(f"an event of {size} bytes that claims {length}")
        self.kind = e.type_code
        checked = self.checksum
        if e.type_code == FORMAT_DESCRIPTION:
            if size < HEADER + 57 + 5:
                raise self.damaged("a format description that is too short")
            checked = p[size - 5] == 1
        elif e.type_code == ROTATE and e.flags & FLAG_ARTIFICIAL:
            # Generated before a format is known. MariaDB adds a checksum as requested, MySQL none.
            checked = size >= HEADER + CHECKSUM and self.sound(p, size, &e)
        if checked:
            if size < HEADER + CHECKSUM:
                raise self.damaged("an event without room for its checksum")
            if not self.sound(p, size, &e):
                raise self.damaged(f"an event of type {e.type_code} whose checksum is wrong")
        e.body = p + HEADER
        e.n = size - HEADER - (CHECKSUM if checked or e.type_code == FORMAT_DESCRIPTION else 0)
        self.put_position(&e, log_pos, size)
        self.handle(&e)
        self.silent += size
        if e.type_code != HEARTBEAT and e.type_code != HEARTBEAT_V2:
            self.log_bytes += size
        if self.silent > (1 << 24) or self.ranges_count >= RANGES_MAX - 2:
            self.emit_batch(1)
        return 0

    cdef int pass_unreadable(self, Event* e, Py_ssize_t size) except -1:
        """Leave out an unreadable event. Its header may be damaged, so its end is computed from its
        size. A table map takes all others with it.
        """
        cdef Py_ssize_t i
        if e.type_code == TABLE_MAP:
            self.by_id.clear()
            for i in range(SLOTS):
                self.slots[i] = None
                self.slot_ids[i] = 0
        e.next = self.event_end + size
        self.inside(e)
        self.silent += size
        self.log_bytes += size
        if self.silent > (1 << 24) or self.ranges_count >= RANGES_MAX - 2:
            self.emit_batch(1)
        return 0

    cdef bint sound(self, const uint8_t* p, Py_ssize_t size, Event* e) except -1:
        """Return whether the CRC32 at the end fits. A log file that was open when read has a flag
        set that the checksum does not cover.
        """
        cdef uint32_t want = <uint32_t>little(p + size - CHECKSUM, 4)
        cdef uint8_t header[HEADER]
        if crc32_of(0, p, size - CHECKSUM) == want:
            return 1
        if e.type_code == FORMAT_DESCRIPTION and e.flags & FLAG_IN_USE:
            memcpy(header, p, HEADER)
            header[17] &= 0xFE
            return crc32_of(crc32_of(0, header, HEADER), p + HEADER, size - CHECKSUM - HEADER) == want
        return 0

    cdef int handle(self, Event* e) except -1:
        cdef int t = e.type_code
        if t == TABLE_MAP:
            self.table_map(e)
            self.inside(e)
        elif WRITE_ROWS <= t <= DELETE_ROWS:
            self.rows(e, 2, b"cud"[t - WRITE_ROWS])
        elif WRITE_ROWS_V1 <= t <= DELETE_ROWS_V1:
            self.rows(e, 1, b"cud"[t - WRITE_ROWS_V1])
        elif t == QUERY:
            self.query_event(e)
        elif t == XID:
            self.finish(e)
            self.commits += 1
            self.last_rows(e)
            if self.ends:
                self.emit_batch(0)
                self.put_event(e, None, 0)
                self.stopped = 1
        elif (t == GTID or t == ANONYMOUS_GTID) and not self.mariadb:
            self.gtid_event(e)
        elif t == MARIADB_GTID and self.mariadb:
            self.mariadb_gtid_event(e)
        elif t == GTID_TAGGED and not self.mariadb:
            self.tagged_gtid_event(e)
        elif t == ROTATE:
            self.rotate(e)
        elif t == FORMAT_DESCRIPTION:
            self.format_description(e)
        elif t == HEARTBEAT or t == HEARTBEAT_V2:
            pass
        elif t == ROWS_QUERY or t == MARIADB_ANNOTATE_ROWS:
            if self.keep_query:
                if t == ROWS_QUERY and e.n > 0:
                    self.query = PyBytes_FromStringAndSize(<char*>e.body + 1, e.n - 1)
                else:
                    self.query = PyBytes_FromStringAndSize(<char*>e.body, e.n)
                self.query = self.query.decode("utf-8", "replace").encode()
            self.inside(e)
        elif (
            t == STOP
            or t == PREVIOUS_GTIDS
            or t == TRANSACTION_CONTEXT
            or t == VIEW_CHANGE
            or t == MARIADB_BINLOG_CHECKPOINT
            or t == MARIADB_GTID_LIST
        ):
            self.inside(e)
        elif t == TRANSACTION_PAYLOAD:
            self.unpack(e, PyBytes_FromStringAndSize(<char*>e.body, e.n))
        elif self.mariadb and (t == MARIADB_QUERY_COMPRESSED or MARIADB_WRITE_ROWS_COMPRESSED_V1 <= t <= MARIADB_DELETE_ROWS_COMPRESSED):
            self.inflate(e)
        elif t == PARTIAL_UPDATE_ROWS and not self.mariadb:
            self.rows(e, 3, b"u")
        elif t == XA_PREPARE:
            self.count_end(e)
            self.emit_batch(0)
            gtid, time_us = self.gtid(), self.time_of(e)
            self.finish(e)
            self.put_event(e, gtid, time_us)
            self.stopped = 1
        elif self.sent_before():
            self.inside(e)
        else:
            self.emit_batch(0)
            gtid, time_us = self.gtid(), self.time_of(e)
            self.inside(e)
            self.put_event(e, gtid, time_us)
            self.stopped = 1
        return 0

    cdef inline bint sent_before(self) noexcept:
        """Return whether the next event of the open transaction was returned before the restart."""
        return self.first_transaction and self.in_transaction and self.event_count < self.skip_events

    cdef inline int inside(self, Event* e) except -1:
        """Note that an event passed which neither begins nor ends a transaction."""
        self.pass_(e)
        if self.in_transaction:
            self.event_count += 1
        elif not self.opened:
            self.transaction = self.event_end
        return 0

    cdef inline int pass_(self, Event* e) except -1:
        self.event_end = e.next
        self.last_timestamp = e.timestamp
        self.last_server_id = e.server_id
        self.moved = 1
        return 0

    cdef int finish(self, Event* e) except -1:
        """Note that the transaction ends with this event."""
        cdef Range* r
        cdef Py_ssize_t i
        self.count_end(e)
        self.counts = None
        self.pass_(e)
        if self.has_gtid:
            if self.mariadb:
                for i in range(self.ranges_count):
                    r = &self.ranges[i]
                    if r.source == self.gtid_source:
                        break
                else:
                    r = &self.ranges[self.ranges_count]
                    self.ranges_count += 1
                    r.source = self.gtid_source
                r.first = self.gtid_server
                r.last = self.gtid_number
            else:
                r = &self.ranges[self.ranges_count - 1] if self.ranges_count else NULL
                if r != NULL and r.source == self.gtid_source and r.last + 1 == self.gtid_number:
                    r.last = self.gtid_number
                else:
                    r = &self.ranges[self.ranges_count]
                    self.ranges_count += 1
                    r.source = self.gtid_source
                    r.first = r.last = self.gtid_number
        self.has_gtid = 0
        self.commit_us = 0
        self.has_thread = 0
        self.query = None
        self.in_transaction = 0
        self.opened = 0
        self.event_count = 0
        self.packed = 0
        self.excluded = 0
        self.undone = None
        self.transaction = self.event_end
        self.first_transaction = 0
        if self.by_id:
            self.by_id.clear()
        return 0

    cdef int begin(self, Event* e) except -1:
        """Note that the transaction begins with this event."""
        if not self.opened:
            self.transaction = e.start
        self.pass_(e)
        self.in_transaction = 1
        self.event_count = 1
        self.counts = None
        return 0

    cdef int begin_counts(self, Event* e) except -1:
        """Count the records that follow. Report the transaction's BEGIN, unless that was before the
        restart.
        """
        if not self.transactions:
            return 0
        name = self.gtid() if self.has_gtid else f"file={self.file},pos={e.start}"
        resumed = self.resumed if self.first_transaction and self.skip_events else None
        self.ended = 0
        if resumed is not None and resumed.id == name:
            self.counts = resumed.copy()
            self.total = sum(resumed.tables.values())
        else:
            self.counts = TransactionCounts(name)
            self.total = 0
        self.counts_tables = self.counts.tables
        self.counts_id = name.encode()
        if resumed is None or resumed.id != name:
            self.put_border(TransactionBorder(name, self.time_of(e)))
            self.last_rows(e)
        return 0

    cdef inline int count_end(self, Event* e) except -1:
        """Report the transaction's END, before the event that ends it is passed. The counts stay
        until then, because an item may be cut in between.
        """
        if self.counts is not None and not self.ended:
            self.ended = 1
            self.put_border(TransactionBorder(self.counts.id, self.time_of(e), dict(self.counts_tables)))
        return 0

    cdef int put_border(self, object border) except -1:
        self.borders.append(border)
        self.records += 1
        self.source_ts_us = border.ts_us
        return 0

    # --- kinds of events --------------------------------------------------------------------------

    cdef int format_description(self, Event* e) except -1:
        # The last byte before the checksum, which this event always has.
        cdef uint8_t algorithm = e.body[e.n - 1]
        if algorithm > 1 and algorithm != 255:
            raise self.damaged(f"checksums of kind {algorithm}; run SET GLOBAL binlog_checksum=CRC32 on the source")
        self.checksum = algorithm == 1
        self.inside(e)
        return 0

    cdef int rotate(self, Event* e) except -1:
        cdef int64_t pos
        if e.n < 9:
            raise self.damaged("a rotate event that is too short")
        pos = <int64_t>little(e.body, 8)
        if pos < 0 or pos >> POSITION_BITS:
            raise self.damaged("a rotate event to an impossible position")
        name = (<bytes>PyBytes_FromStringAndSize(<char*>e.body + 8, e.n - 8)).rstrip(b"\0").decode("utf-8", "replace")
        if name == self.file and e.flags & FLAG_ARTIFICIAL:
            if not self.in_transaction and not self.opened:
                self.event_end = pos
                self.transaction = pos
            return 0
        if self.file:
            self.emit_batch(0)
        known = self.file
        start = e.start
        self.set_file(name)
        self.event_end = pos
        self.moved = 1
        if self.in_transaction:  # The server crashed: no transaction continues in another file.
            self.first_transaction = 0
        self.in_transaction = 0
        self.opened = 0
        self.packed = 0
        self.has_gtid = 0
        self.has_thread = 0
        self.query = None
        self.counts = None
        self.undone = None
        self.excluded = 0
        self.commit_us = 0
        self.event_count = 0
        self.transaction = pos
        e.start, e.next = pos, pos
        self.put_event(e, None, <int64_t>e.timestamp * 1000000)
        return 0

    cdef int set_file(self, str name) except -1:
        self.file = name
        self.file_bytes = name.encode()
        digits = name.rpartition(".")[2]
        self.file_index = int(digits) if digits.isdecimal() and len(digits) < 10 else 0
        return 0

    cdef int query_event(self, Event* e) except -1:
        cdef Py_ssize_t skip
        cdef const uint8_t* text
        cdef Py_ssize_t n
        if e.n < 13:
            raise self.damaged("a query event that is too short")
        skip = 13 + (e.body[11] | e.body[12] << 8) + e.body[8] + 1
        if skip > e.n:
            raise self.damaged("a query event that is too short")
        text = e.body + skip
        n = e.n - skip
        if self.void_:  # The first half of an ALTER, or one that failed.
            self.finish(e)
            return 0
        if n == 5 and memcmp(text, b"BEGIN", 5) == 0:
            self.begin(e)
            self.thread = <int64_t>little(e.body, 4)
            self.has_thread = not self.mariadb
            self.begin_counts(e)
            return 0
        word = (<bytes>PyBytes_FromStringAndSize(<char*>text, min(n, 40))).upper().strip()
        if word == b"COMMIT" and not self.ends:
            self.finish(e)
            self.commits += 1
            self.last_rows(e)
            return 0
        if self.in_transaction and (word.startswith(b"SAVEPOINT ") or word.startswith(b"RELEASE SAVEPOINT ")) and not self.ends:
            self.inside(e)
            return 0
        if self.sent_before() and word != b"ROLLBACK":
            self.inside(e)
            return 0
        if word == b"ROLLBACK" or word.startswith((b"XA COMMIT", b"XA ROLLBACK")):
            self.count_end(e)
        self.emit_batch(0)
        gtid, time_us = self.gtid(), self.time_of(e)
        if word == b"ROLLBACK":
            self.finish(e)
            self.rollbacks += 1
        elif word == b"COMMIT" or word.startswith(b"XA COMMIT") or word.startswith(b"XA ROLLBACK"):
            self.finish(e)
        elif (word.startswith(b"XA START") or word.startswith(b"XA BEGIN")) and not self.in_transaction:
            self.begin(e)
        elif self.in_transaction:
            self.inside(e)
        else:
            self.finish(e)
        self.put_event(e, gtid, time_us)
        if self.has_thread:
            item = self.items[len(self.items) - 1]
            item.thread = self.thread
        self.stopped = 1
        return 0

    cdef int gtid_event(self, Event* e) except -1:
        cdef int64_t commit = 0
        cdef Py_ssize_t at
        if e.n < 25:
            raise self.damaged("a GTID event that is too short")
        at = 25 + 17
        if e.n >= at + 7 and e.body[25] == 2:
            commit = <int64_t>little(e.body + at, 7)
            if commit >> 55:  # Another server committed it first, at a time of its own.
                commit = 0
                if e.n >= at + 14:
                    commit = <int64_t>little(e.body + at + 7, 7)
        self.open_(e, commit)
        if e.type_code == GTID:
            self.set_mysql_gtid(e.body + 1, NULL, 0, <int64_t>little(e.body + 17, 8))
        else:
            self.has_gtid = 0
        if e.body[0] & STATEMENTS:
            self.look_ahead()
        return 0

    cdef int open_(self, Event* e, int64_t commit) except -1:
        if commit < 0 or commit >> TIME_BITS:
            raise self.damaged("an impossible commit time")
        self.commit_us = commit
        self.transaction = e.start
        self.pass_(e)
        self.opened = 1
        self.in_transaction = 0
        self.event_count = 0
        self.packed = 0
        self.excluded = 0
        self.counts = None
        self.undone = None
        self.void_ = 0
        return 0

    cdef int set_mysql_gtid(self, const uint8_t* sid, const char* tag, Py_ssize_t tag_len, int64_t number) except -1:
        """Note the GTID. If the server is that of the last transaction, the beginning of the text
        stays.
        """
        cdef Source_* s
        cdef Py_ssize_t i
        cdef Source_* grown
        for i in range(self.sources_count - 1, -1, -1):
            s = &self.sources[i]
            if memcmp(s.sid, sid, 16) == 0 and s.tag_len == tag_len and (tag_len == 0 or memcmp(s.tag, tag, tag_len) == 0):
                break
        else:
            i = self.sources_count
            grown = <Source_*>realloc(self.sources, (i + 1) * sizeof(Source_))
            if grown == NULL:
                raise MemoryError
            self.sources = grown
            s = &self.sources[i]
            memcpy(s.sid, sid, 16)
            if tag_len:
                memcpy(s.tag, tag, tag_len)
            s.tag_len = tag_len
            digits = (<bytes>PyBytes_FromStringAndSize(<char*>sid, 16)).hex()
            uuid = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
            name = (<bytes>PyBytes_FromStringAndSize(tag, tag_len)).decode("ascii", "replace") if tag_len else ""
            self.source_texts.append((uuid, name, f"{uuid}:{name}:".encode() if name else f"{uuid}:".encode()))
            self.sources_count += 1
        head = <bytes>self.source_texts[i][2]
        memcpy(self.gtid_text, PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
        self.gtid_len = PyBytes_GET_SIZE(head)
        self.gtid_len += signed_digits(number, &self.gtid_text[self.gtid_len])
        self.gtid_source = i
        self.gtid_number = number
        self.has_gtid = 1
        self.excluded = self.gtid_included is not None and not self.gtid_included(self.source_texts[i][0])
        return 0

    cdef int tagged_gtid_event(self, Event* e) except -1:
        """Read GTID_TAGGED_LOG_EVENT: numbered fields, integers of variable length
        (libs/mysql/serialization).
        """
        cdef const uint8_t* p = e.body
        cdef const uint8_t* end = e.body + e.n
        cdef uint64_t value, field, last_field, size
        cdef uint8_t sid[16]
        cdef int64_t number = -1, immediate = 0, original = 0
        cdef uint64_t flags = 0
        cdef const char* tag = NULL
        cdef Py_ssize_t tag_len = 0
        cdef int i
        cdef bint has_sid = 0
        p = self.varlen(p, end, &value)
        p = self.varlen(p, end, &size)
        p = self.varlen(p, end, &last_field)
        if size > <uint64_t>e.n:
            raise self.damaged("a tagged GTID event that is too short")
        end = e.body + size
        while p < end:
            p = self.varlen(p, end, &field)
            if field == 1:
                for i in range(16):
                    p = self.varlen(p, end, &value)
                    sid[i] = <uint8_t>value
                has_sid = 1
            elif field == 3:
                p = self.varlen(p, end, &value)
                if value > TAG_MAX or <uint64_t>(end - p) < value:
                    raise self.damaged("a GTID tag that is too long")
                tag = <const char*>p
                tag_len = value
                p += value
            elif field <= 11:
                p = self.varlen(p, end, &value)
                if field == 0:
                    flags = value
                elif field == 2:
                    number = <int64_t>(value >> 1)
                elif field == 6:
                    immediate = <int64_t>value
                elif field == 7:
                    original = <int64_t>value
            elif field <= last_field:
                raise self.damaged(f"a tagged GTID event with the unknown field {field}")
            else:
                break
        if not has_sid or number < 0:
            raise self.damaged("a tagged GTID event without GTID")
        for i in range(tag_len):
            if <uint8_t>tag[i] >= 0x80:
                raise self.damaged("a GTID tag that is no tag")
        self.open_(e, original if original else immediate)
        self.set_mysql_gtid(sid, tag, tag_len, number)
        if flags & STATEMENTS:
            self.look_ahead()
        return 0

    cdef const uint8_t* varlen(self, const uint8_t* p, const uint8_t* end, uint64_t* value) except NULL:
        """Read an integer. The trailing ones of the first byte are the number of bytes that follow.
        """
        cdef int more = 0
        cdef uint8_t first
        if p >= end:
            raise self.damaged("a tagged GTID event that is too short")
        first = p[0]
        while more < 8 and first >> more & 1:
            more += 1
        if end - p < 1 + more:
            raise self.damaged("a tagged GTID event that is too short")
        if more == 8:
            value[0] = little(p + 1, 8)
        else:
            value[0] = little(p, 1 + more) >> (more + 1)
        return p + 1 + more

    cdef int mariadb_gtid_event(self, Event* e) except -1:
        cdef int64_t number, domain
        cdef uint8_t flags
        cdef Py_ssize_t n
        if e.n < 13:
            raise self.damaged("a GTID event that is too short")
        number = <int64_t>little(e.body, 8)
        domain = <int64_t>little(e.body + 8, 4)
        flags = e.body[12]
        if flags & PREPARED_XA:
            self.emit_batch(0)  # Its rows may be undone, so they come in items of their own.
        n = digits_of(<uint64_t>domain, self.gtid_text)
        self.gtid_text[n] = 45
        n += 1 + digits_of(e.server_id, &self.gtid_text[n + 1])
        self.gtid_text[n] = 45
        n += 1 + digits_of(<uint64_t>number, &self.gtid_text[n + 1])
        self.gtid_len = n
        self.gtid_source = domain
        self.gtid_server = e.server_id
        self.gtid_number = number
        self.has_gtid = 1
        self.open_(e, 0)
        self.excluded = self.gtid_included is not None and not self.gtid_included(f"{domain}-{e.server_id}")
        n = 13  # The extra flags follow the fields announced by the first flags.
        if flags & GROUP_COMMIT_ID:
            n += 8
        if flags & (PREPARED_XA | COMPLETED_XA) and n + 6 <= e.n:
            n += 6 + e.body[n + 4] + e.body[n + 5]
        self.void_ = n < e.n and e.body[n] & (START_ALTER | ROLLBACK_ALTER)
        if not flags & STANDALONE:
            self.in_transaction = 1
            self.event_count = 1
            self.begin_counts(e)
            self.look_ahead()
        if flags & PREPARED_XA:
            self.emit_batch(0)
            self.put_event(e, self.gtid(), self.time_of(e))
            self.stopped = 1
        return 0

    # --- compressed parts -------------------------------------------------------------------------

    cdef int unpack(self, Event* e, object body) except -1:
        """Open a compressed transaction. ``packed_event`` then handles its events one by one,
        before the next packet.
        """
        if self.payload is not None:
            raise self.damaged("a compressed transaction inside another one")
        try:
            payload = unpacking.Payload(body)
        except ValueError as error:
            raise self.damaged(str(error)) from error
        self.pass_(e)
        self.payload = payload
        self.inner.len = 0
        self.inner_at = 0
        self.inner_start = 0
        self.payload_start = e.start
        self.payload_next = e.next
        self.packed = 1
        return 0

    cdef int packed_event(self) except -1:
        """Handle one event of the compressed transaction, or its end.

        Such an event has no checksum, and the position in its header has no meaning: its position
        is that of the whole transaction. Its offset in the unpacked bytes keeps the
        numbers of ``source.sequence`` (D7) distinct and ascending, the same after every restart.
        """
        cdef Event e
        cdef const uint8_t* p
        cdef int64_t size
        if not self.unpacked(HEADER):
            if self.inner.len > self.inner_at:
                raise self.damaged("a compressed transaction that ends inside an event")
            self.payload = None
            self.inner.len = 0
            self.inner_at = 0
            if self.inner.cap > (1 << 22):
                free(self.inner.data)
                memset(&self.inner, 0, sizeof(Buf))
            return 0
        size = <int64_t>little(self.inner.data + self.inner_at + 9, 4)
        if size > self.event_bytes_max:
            raise self.damaged(f"an event of more than {self.event_bytes_max} bytes")
        if size < HEADER or not self.unpacked(size):
            raise self.damaged("a compressed transaction that ends inside an event")
        p = self.inner.data + self.inner_at
        e.timestamp = <uint32_t>little(p, 4)
        e.type_code = p[4]
        e.server_id = <uint32_t>little(p + 5, 4)
        e.flags = <uint32_t>little(p + 17, 2)
        e.start = self.payload_start
        e.next = self.payload_next
        e.low = (self.payload_start << 23) + self.inner_start
        e.body = p + HEADER
        e.n = size - HEADER
        if e.type_code in _NEVER_PACKED:
            raise self.damaged(f"an event of type {e.type_code} inside a compressed transaction")
        self.handle(&e)
        self.inner_at += size
        self.inner_start += size
        self.silent += size
        if self.silent > (1 << 24):
            self.emit_batch(1)
        return 0

    cdef bint unpacked(self, int64_t size) except -1:
        """Have this many bytes of the compressed transaction at ``inner_at``; return 0 if it has no
        more.
        """
        while self.inner.len - self.inner_at < size:
            try:
                piece = self.payload.read()
            except ValueError as error:
                raise self.damaged(str(error)) from error
            if not piece:
                return 0
            if self.inner_at:
                memmove(self.inner.data, self.inner.data + self.inner_at, self.inner.len - self.inner_at)
                self.inner.len -= self.inner_at
                self.inner_at = 0
            self.put_aside(&self.inner, <const uint8_t*>PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
        return 1

    cdef int inflate(self, Event* e) except -1:
        """Handle an event of MariaDB's log_bin_compress: the usual event with its statement or rows
        packed. Everything before those is plain.
        """
        cdef Event plain_ = e[0]
        cdef Py_ssize_t head
        cdef uint64_t table_id
        cdef _Table table = None
        if e.type_code == MARIADB_QUERY_COMPRESSED:
            if e.n < 13:
                raise self.damaged("a query event that is too short")
            plain_.type_code = QUERY
            head = 13 + (e.body[11] | e.body[12] << 8) + e.body[8] + 1
        else:
            if e.n < 10:
                raise self.damaged("a rows event that is too short")
            if e.type_code < MARIADB_WRITE_ROWS_COMPRESSED:
                plain_.type_code = WRITE_ROWS_V1 + e.type_code - MARIADB_WRITE_ROWS_COMPRESSED_V1
                head = 8
            else:
                plain_.type_code = WRITE_ROWS + e.type_code - MARIADB_WRITE_ROWS_COMPRESSED
                head = 8 + max(e.body[8] | e.body[9] << 8, 2)
            table_id = little(e.body, 6)
            if self.slot_ids[table_id & (SLOTS - 1)] == table_id:
                table = <_Table>self.slots[table_id & (SLOTS - 1)]
            else:
                table = self.by_id.get(table_id)
            if table is None or table.kind == TABLE_IGNORED or self.sent_before():
                return self.handle(&plain_)  # Its rows are not read.
            head = self.rows_head(e, head, 2 if plain_.type_code in (UPDATE_ROWS_V1, UPDATE_ROWS) else 1)
        if head > e.n:
            raise self.damaged("a compressed event that is too short")
        try:
            rest = unpacking.inflated(PyBytes_FromStringAndSize(<char*>e.body + head, e.n - head))
        except ValueError as error:
            raise self.damaged(str(error)) from error
        body = PyBytes_FromStringAndSize(<char*>e.body, head) + rest
        plain_.body = <const uint8_t*>PyBytes_AS_STRING(body)
        plain_.n = PyBytes_GET_SIZE(body)
        self.handle(&plain_)
        self.inflated += PyBytes_GET_SIZE(body)
        if self.inflated >= INFLATED_MAX:
            self.inflated = 0
            self.stopped = 1
        return 0

    cdef Py_ssize_t rows_head(self, Event* e, Py_ssize_t at, int bitmaps) except -1:
        """Return the offset of a rows event's rows: after the number of columns and the bitmaps of
        present ones.
        """
        cdef int width
        cdef uint64_t columns
        if at >= e.n:
            raise self.damaged("a rows event that is too short")
        columns = e.body[at]
        at += 1
        if columns >= 0xFB:
            width = 2 if columns == 0xFC else 3 if columns == 0xFD else 8 if columns == 0xFE else 0
            if width == 0 or at + width > e.n:
                raise self.damaged("a rows event that is too short")
            columns = little(e.body + at, width)
            at += width
        if columns > <uint64_t>e.n * 8:
            raise self.damaged("a rows event that is too short")
        return at + bitmaps * <Py_ssize_t>((columns + 7) // 8)

    # --- tables and rows --------------------------------------------------------------------------

    cdef int table_map(self, Event* e) except -1:
        cdef uint64_t table_id
        cdef Py_ssize_t slot
        cdef _Table table
        cdef _Table other
        if e.n < 8:
            raise self.damaged("a table map that is too short")
        table_id = little(e.body, 6)
        slot = table_id & (SLOTS - 1)
        table = <_Table>self.slots[slot]
        if (
            table is not None
            and PyBytes_GET_SIZE(table.body) == e.n - 6
            and self.slot_ids[slot] == table_id
            and memcmp(PyBytes_AS_STRING(table.body), e.body + 6, e.n - 6) == 0
        ):
            return 0
        key = PyBytes_FromStringAndSize(<char*>e.body + 6, e.n - 6)
        table = self.tables.get(key)
        if table is None:
            table = self.new_table(e, key)
            if PyBytes_GET_SIZE(table.body):
                self.tables[key] = table
        other = <_Table>self.slots[slot]
        if other is not None and self.slot_ids[slot] != table_id:
            self.by_id[self.slot_ids[slot]] = other
        self.slots[slot] = table
        self.slot_ids[slot] = table_id
        self.by_id.pop(table_id, None)
        return 0

    cdef _Table new_table(self, Event* e, bytes key):
        cdef Py_ssize_t at = 8, n
        cdef _Table table = _Table.__new__(_Table)
        cdef _Output output
        names = []
        for _ in range(2):
            if at >= e.n:
                raise self.damaged("a table map that is too short")
            n = e.body[at]
            if at + n + 2 > e.n:
                raise self.damaged("a table map that is too short")
            names.append((<bytes>PyBytes_FromStringAndSize(<char*>e.body + at + 1, n)).decode("utf-8", "replace"))
            at += n + 2
        table.body = key
        if tuple(names) in self.pass_through:
            table.kind = TABLE_PASSED
            return table
        body = PyBytes_FromStringAndSize(<char*>e.body, e.n)
        try:
            encoder = self.resolve(body, self.offset(0))
            if encoder is IGNORED_FOR_NOW:
                table.kind = TABLE_IGNORED
                table.body = b""  # No table map equals it, so the next one asks again.
                return table
            if encoder is None or encoder is ROWS_PARKED:
                table.kind = TABLE_IGNORED
                table.parked = encoder is not None
                return table
            encoder.check_table_map(body)
        except DefiniteError as error:
            raise self.located(error, e) from error
        output = self.outputs.get(id(encoder))
        if output is None:
            output = _Output.__new__(_Output)
            output.encoder = encoder
            output.fast = encoder if isinstance(encoder, FastPlan) else None
            output.topic = encoder.plan.topic
            output.name = str(encoder.plan.table.id) if self.transactions else ""
            output.item = -1
            self.outputs[id(encoder)] = output
        table.kind = TABLE_SLOW if output.fast is None else TABLE_FAST
        table.output = output
        return table

    cdef int rows(self, Event* e, int version, uint8_t op) except -1:
        cdef uint64_t table_id
        cdef _Table table
        cdef int64_t skip = 0
        cdef bint silent = self.sent_before()
        if e.n < 8:
            raise self.damaged("a rows event that is too short")
        table_id = little(e.body, 6)
        if self.slot_ids[table_id & (SLOTS - 1)] == table_id:
            table = <_Table>self.slots[table_id & (SLOTS - 1)]
        else:
            table = self.by_id.get(table_id)
        if table is None:
            # the server's mark for "statement end" when it filtered all rows away
            if table_id == DUMMY_TABLE:
                self.inside(e)
                return 0
            raise self.damaged(f"rows of table number {table_id} without its table map")
        if self.first_transaction and self.in_transaction and self.event_count == self.skip_events:
            skip = self.skip_rows
        if self.excluded and table.kind != TABLE_PASSED and not silent:
            silent = 1
            self.other_sources += 1
        if self.undone is not None and self.undone.covers(e.start):
            self.inside(e)
            return 0
        if table.kind == TABLE_PASSED and not silent:
            return self.pass_on(e, table)
        if table.kind == TABLE_SLOW and self.sent_before():
            # An encoder that decides by the earlier rows of the transaction has it.
            note = getattr(table.output.encoder, "note", None)
            if note is not None:
                note(chr(op), PyBytes_FromStringAndSize(<char*>e.body, e.n), version, self.file, self.transaction)
        if table.kind != TABLE_IGNORED and not silent and self.left_out:
            self.left_out = 0
            self.inside(e)
        elif table.kind != TABLE_IGNORED and not silent:
            if self.encode(e, table, version, op, skip):
                self.inside(e)
                self.last_rows(e)
            else:
                self.pass_on(e, table)
                if self.payload is not None or self.transactions:
                    self.stopped = 1  # The reader reports how many records it makes of them.
        else:
            self.inside(e)
            if table.kind == TABLE_IGNORED and not silent:
                if table.parked:
                    self.parked += 1
                else:
                    self.other_tables += 1
        return 0

    cdef int pass_on(self, Event* e, _Table table) except -1:
        """Return rows as an event that the reader handles itself."""
        self.emit_batch(0)
        gtid, time_us = self.gtid(), self.time_of(e)
        self.inside(e)
        self.put_event(e, gtid, time_us)
        item = self.items[len(self.items) - 1]
        item.table = PyBytes_FromStringAndSize(<char*>e.body, 6) + table.body
        if table.kind != TABLE_PASSED:
            item.encoder = table.output.encoder
            item.transaction = self.order_of(table.output)
            if self.has_thread:
                item.thread = self.thread
        return 0

    cdef object order_of(self, _Output output):
        if self.counts is None:
            return None
        return TransactionOrder(self.counts.id, self.total, self.counts_tables.get(output.name, 0))

    cdef int last_rows(self, Event* e) except -1:
        if self.records >= self.records_max or self.bytes_ >= self.bytes_max:
            self.emit_batch(0)
        return 0

    cdef int encode(self, Event* e, _Table table, int version, uint8_t op, int64_t skip) except -1:
        """Encode the rows; return 1 if they are records now, 0 if only the reader can add the
        columns that they lack.
        """
        cdef _Output output = table.output
        cdef Ctx ctx
        cdef Py_ssize_t before
        cdef int64_t bytes_before, unchanged_before, made
        cdef Py_ssize_t keys_before
        cdef int64_t source_ts_us = self.time_of(e)
        if output.item != self.item:
            output.keys = []
            output.values = []
            output.headers = {}
        before = len(output.keys)
        try:
            if table.kind == TABLE_FAST:
                memset(&ctx, 0, sizeof(Ctx))
                ctx.file = PyBytes_AS_STRING(self.file_bytes)
                ctx.file_len = PyBytes_GET_SIZE(self.file_bytes)
                if self.has_gtid:
                    ctx.gtid = self.gtid_text
                    ctx.gtid_len = self.gtid_len
                if self.query is not None:
                    ctx.query = PyBytes_AS_STRING(self.query)
                    ctx.query_len = PyBytes_GET_SIZE(self.query)
                ctx.pos = e.start
                ctx.server_id = e.server_id
                ctx.source_ts_us = source_ts_us
                ctx.now_us = self.now
                ctx.thread = self.thread
                ctx.has_thread = self.has_thread
                ctx.high = self.sequence_high()
                ctx.low = e.low
                if self.counts is not None:
                    ctx.transaction = PyBytes_AS_STRING(self.counts_id)
                    ctx.transaction_len = PyBytes_GET_SIZE(self.counts_id)
                    ctx.total = self.total
                    ctx.of_table = self.counts_tables.get(output.name, 0)
                bytes_before = output.fast.out_bytes
                unchanged_before = output.fast.out_unchanged
                keys_before = PyList_GET_SIZE(output.keys)
                made = output.fast.event(op, e.body, e.n, version, skip, &ctx, output.keys, output.values, output.headers)
                self.bytes_ += output.fast.out_bytes - bytes_before
                self.unchanged += output.fast.out_unchanged - unchanged_before
                self.count_rows(op, made)
                if PyList_GET_SIZE(output.keys) == keys_before and (
                    (op == 99 and output.fast.skip_c) or (op == 117 and output.fast.skip_u) or (op == 100 and output.fast.skip_d)
                ):
                    self.skipped_operations += 1
                if self.counts is not None:
                    self.count_of(output.name, output.fast.of_table - ctx.of_table)
                if output.fast.lacks:
                    self.lacks(output, before)
            else:
                self.encode_slowly(e, output, version, op, skip, source_ts_us)
        except rowplan.MissingColumnsError as error:
            if not self.gives_partial:
                raise self.bad_rows(error, e) from error
            return 0
        except DefiniteError as error:
            raise self.bad_rows(error, e) from error
        if len(output.keys) > before:
            self.records += len(output.keys) - before
            self.source_ts_us = source_ts_us
            if output.item != self.item:
                self.begin_segment(output)
        return 1

    cdef int lacks(self, _Output output, Py_ssize_t first) except -1:
        """Note that the rows of the records from ``first`` on lack values."""
        table = output.encoder.plan.table.id
        self.lacking.setdefault(table, set()).update([key for key in output.keys[first:] if key is not None])
        return 0

    cdef inline void count_rows(self, uint8_t op, int64_t rows) noexcept:
        if op == 99:
            self.created += rows
        elif op == 117:
            self.updated += rows
        else:
            self.deleted += rows

    cdef int begin_segment(self, _Output output) except -1:
        """Begin a segment with the output's lists. The topic's last segment takes no more rows,
        because they would overtake these. # I2
        """
        cdef _Output last = self.last_outputs.get(output.topic)
        if last is not None:
            last.item = -1
        self.last_outputs[output.topic] = output
        output.item = self.item
        self.segments.append((output.encoder, output.keys, output.values, output.headers))
        return 0

    cdef int encode_slowly(self, Event* e, _Output output, int version, uint8_t op, int64_t skip, int64_t source_ts_us) except -1:
        """Encode rows with an encoder in Python: a converter without a compiled form, or a chain of
        transforms.
        """
        cdef Py_ssize_t base = len(output.keys)
        context = BinlogContext(
            file=self.file,
            pos=e.start,
            server_id=e.server_id,
            source_ts_us=source_ts_us,
            now_us=self.now,
            sequence_high=self.sequence_high(),
            sequence_low=e.low,
            gtid=self.gtid(),
            thread=self.thread if self.has_thread else None,
            query=None if self.query is None else self.query.decode("utf-8", "replace"),
            transaction=self.order_of(output),
            begin=self.transaction,
        )
        body = PyBytes_FromStringAndSize(<char*>e.body, e.n)
        keys, values, headers = output.encoder.encode_rows(chr(op), body, context, version=version, skip_rows=skip)
        output.keys.extend(keys)
        output.values.extend(values)
        if self.counts is not None:
            self.count_of(output.name, sum([value is not None for value in values]))
        moved = 0
        for index, header in headers.items():
            output.headers[base + index] = header
            moved += header[0][0] == rowplan.OLD_KEY_HEADER and "d" not in output.encoder.plan.skipped_operations
        # A changed key makes a delete and a create.
        self.count_rows(op, sum([value is not None for value in values]) - moved)
        if not values and chr(op) in output.encoder.plan.skipped_operations:
            self.skipped_operations += 1
        self.bytes_ += sum([len(k) for k in keys if k is not None]) + sum([len(v) for v in values if v is not None])
        if keys and op == 117 and leaves_values_out(output.encoder.plan, body, version=version):
            self.lacks(output, base)
        return 0

    # --- items ------------------------------------------------------------------------------------

    cdef int emit_batch(self, bint always) except -1:
        """End the current item; with ``always`` even one that has only a position."""
        if not self.records and not always:
            return 0
        self.items.append(
            LogRows(
                segments=self.segments,
                records=self.records,
                bytes=self.bytes_,
                source_ts_us=self.source_ts_us if self.records else None,
                position=self.offset(1),
                borders=tuple(self.borders),
                lacking=self.lacking or {},
            )
        )
        if self.lacking:
            self.lacking = {}
        if self.borders:
            self.borders = []
        self.segments = []
        self.item += 1
        self.records = 0
        self.bytes_ = 0
        if self.payload is not None:
            # A few bytes of a compressed transaction may hold any number of rows: one item at a
            # time.
            self.stopped = 1
        return 0

    cdef int put_event(self, Event* e, object gtid, int64_t time_us) except -1:
        """Append an event for the reader's decision. Called after the position has moved past it,
        with values that the transaction's end resets.
        """
        self.items.append(
            LogEvent(
                type_code=e.type_code,
                timestamp_s=e.timestamp,
                server_id=e.server_id,
                body=PyBytes_FromStringAndSize(<char*>e.body, e.n),
                file=self.file,
                start_pos=e.start,
                next_pos=e.next,
                position=self.offset(1),
                gtid=gtid,
                source_ts_us=time_us,
                sequence_high=self.sequence_high(),
                sequence_low=e.low,
                flags=e.flags,
            )
        )
        return 0

    cdef int put_packet(self, int type_code, const uint8_t* p, Py_ssize_t n) except -1:
        """Append an ERR or EOF packet, by which the server ends the stream."""
        self.emit_batch(0)
        self.items.append(
            LogEvent(
                type_code=type_code,
                timestamp_s=0,
                server_id=0,
                body=PyBytes_FromStringAndSize(<char*>p, n),
                file=self.file,
                start_pos=self.event_end,
                next_pos=self.event_end,
                position=self.offset(1),
                gtid=self.gtid(),
                sequence_high=self.sequence_high(),
                sequence_low=self.event_end << 23,
            )
        )
        self.stopped = 1
        return 0

    cdef object offset(self, bint with_delta):
        """Return the offset; ``with_delta`` includes the finished transactions and empties their
        list.
        """
        cdef Py_ssize_t i
        cdef Range* r
        delta = []
        if with_delta:
            for i in range(self.ranges_count):
                r = &self.ranges[i]
                if self.mariadb:
                    delta.append((r.source, r.first, r.last))
                else:
                    uuid, tag, _ = self.source_texts[r.source]
                    delta.append((uuid, tag, r.first, r.last))
            self.ranges_count = 0
            self.silent = 0
            self.moved = 0
        return LogOffset(
            file=self.file,
            pos=self.transaction,
            event=0 if self.packed else self.event_count,
            packed_event=self.event_count if self.packed else 0,
            row=0,
            ts_sec=self.last_timestamp,
            server_id=self.last_server_id,
            in_transaction=bool(self.in_transaction),
            transaction=None if self.counts is None else self.counts.copy(),
            gtids_delta=delta,
        )

    cdef object gtid(self):
        if not self.has_gtid:
            return None
        return (<bytes>PyBytes_FromStringAndSize(self.gtid_text, self.gtid_len)).decode("ascii", "replace")

    cdef inline int64_t time_of(self, Event* e) noexcept:
        return self.commit_us if self.commit_us else <int64_t>e.timestamp * 1000000

    cdef inline int64_t sequence_high(self) noexcept:
        return self.epoch << 32 | self.file_index

    cdef object damaged(self, what):
        """Return an error of the stream itself, with its position."""
        at = self.event_end if self.payload is None else self.payload_start
        return DamagedLogError(
            f"the log at {self.file or 'its start'}:{at} holds {what}; check the log with mysqlbinlog --verify-binlog-checksum, "
            "and where it is damaged reset the connector's offsets: its tables are dumped again",
            event_at=(self.file, at) if self.payload is None and left_out_kind(self.kind) else None,
        )

    cdef object located(self, error, Event* e):
        """Return the error with the event's position."""
        return DefiniteError(f"{error} (event at {self.file}:{e.start})")

    cdef object bad_rows(self, error, Event* e):
        return BadRowsError(f"{error} (event at {self.file}:{e.start})")


_NEVER_PACKED = unpacking.NEVER_PACKED


cdef inline bint left_out_kind(int t) noexcept:
    """Return whether the type is a rows event or a table map. Leaving one out of a log loses its
    rows and nothing else.
    """
    return (
        t == TABLE_MAP
        or WRITE_ROWS <= t <= DELETE_ROWS
        or WRITE_ROWS_V1 <= t <= DELETE_ROWS_V1
        or t == PARTIAL_UPDATE_ROWS
        or MARIADB_WRITE_ROWS_COMPRESSED_V1 <= t <= MARIADB_DELETE_ROWS_COMPRESSED
    )
