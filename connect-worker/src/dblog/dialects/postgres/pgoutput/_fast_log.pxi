# LogDecoder turns the copy messages of a replication connection into batches of finished records.
#
# Pure: bytes in, items out. If ``committed`` is a FastLogged, a transaction needs no Python objects
# except for its records. Rare messages (Relation, TRUNCATE, logical messages) are read by functions
# of the reference implementation. A message is consumed only after it was handled. After an
# exception the decoder is positioned before it, and everything earlier has been returned, so a
# caller may try again or give up. # I4 I5

import struct

from dblog.codecs.transactions import TransactionBorder, TransactionCounts, TransactionOrder
from dblog.core.moved_keys import is_enforced_by_row
from dblog.dialects.postgres.pgoutput import messages
from dblog.dialects.postgres.pgoutput.items import LogEvent, LogOffset, SignalRow
from dblog.dialects.postgres.pgoutput.position import lsn_text
from dblog.dialects.postgres.pgoutput.row_image import UNCHANGED as UNCHANGED_FIELD, images
from dblog.model import TableId
from dblog.readers.items import IgnoredForNow, LogCounts, LogRows, RowsParked

cdef int64_t EPOCH_US = messages.POSTGRES_EPOCH_US
cdef frozenset NO_TABLES = frozenset()

cdef enum:
    LENGTH = 4            # length before each copy message
    XLOG_DATA = 25        # header of a copy message with a message of the log
    KEEPALIVE = 18
    BEGIN = 21
    COMMIT = 26
    ROW = 5
    SLOTS = 256
    NUMBER_BITS = 34
    SIGNAL_COLUMNS = 3


cdef class _Output:
    """The records of one encoder in a segment of the current item. They grow until another encoder
    writes to the same topic.
    """

    cdef object encoder
    cdef FastPlan fast
    cdef str topic
    cdef str name         # name of the table
    cdef bint settles     # True if a key may belong to two rows within a transaction
    cdef list keys
    cdef list values
    cdef dict headers
    cdef int64_t item     # item of the segment; if it is not the decoder's current one, the next rows begin a new segment


cdef class _Table:
    """A table as its last Relation message describes it, and the treatment of its rows."""

    cdef object relation
    cdef frozenset alone  # set of its number, as ``committed`` takes it
    cdef int64_t changed_in  # number of the last transaction that changed it, as the decoder counts
    cdef bint asked
    cdef bint parked
    cdef _Output output   # None if there is no encoder


cdef class LogDecoder:
    """The decoder of the log. ``_fast.pyi`` explains its methods; the reference implementation is
    ``decoder_reference.ReferenceLogDecoder``.
    """

    cdef object resolve
    cdef object committed
    cdef FastLogged logged
    cdef str database
    cdef bytes database_bytes
    cdef object signal_tables
    cdef object fill
    cdef object complete
    cdef object settle
    cdef int64_t records_max
    cdef int64_t bytes_max
    cdef object now_us
    # input
    cdef bytes data
    cdef Py_ssize_t at
    cdef bint stopped
    cdef bint left_out
    # position in the log
    cdef int64_t epoch
    cdef uint64_t lsn
    cdef uint64_t skip_commit
    cdef int64_t skip
    cdef uint64_t skip_lsn   # LSN of the last change taken before, and its number there; 0 if unknown
    cdef int64_t skip_change
    cdef object resumed      # TransactionCounts of the offset where reading began
    cdef str kind
    # the open transaction
    cdef uint64_t commit_lsn    # 0 if no transaction is open
    cdef uint32_t xid
    cdef int64_t event          # number of its changes that were taken
    cdef uint64_t change_lsn    # LSN at which the last of them was written
    cdef int64_t change         # number of changes read from that LSN
    cdef int64_t ts_us
    cdef int64_t low            # D7's second number before its first change
    cdef Ctx ctx
    cdef object origin
    cdef bytes origin_bytes
    cdef int64_t number         # number of the transaction since the decoder was created
    cdef frozenset changed      # numbers of the tables that it has changed
    # records of the transaction, if transactions are reported
    cdef bint transactions
    cdef object counts_
    cdef bytes counts_id
    cdef int64_t total
    cdef list borders
    cdef dict lacking      # by table the keys of rows with a record that lacks values
    # tables
    cdef dict tables         # number -> _Table
    cdef dict outputs        # id(encoder) -> _Output
    cdef dict last_outputs   # topic -> the _Output with the topic's last segment
    cdef list slots
    cdef int64_t slot_numbers[SLOTS]
    # output
    cdef list items
    cdef list segments       # segments of the current item
    cdef int64_t item
    cdef int64_t records
    cdef int64_t bytes_
    cdef int64_t source_ts_us
    cdef int64_t now
    cdef bint moved
    # for metrics
    cdef int64_t log_bytes, created, updated, deleted, unchanged
    cdef int64_t other_tables, skipped_operations, parked, commits

    def __init__(
        self,
        *,
        resolve not None,
        committed not None,
        str database not None,
        int64_t records_max=1000,
        int64_t bytes_max=1 << 20,
        signal_tables=frozenset(),
        bint transactions=False,
        fill=None,
        complete=None,
        settle=None,
    ):
        self.fill = fill
        self.complete = complete
        self.settle = settle
        self.resolve = resolve
        self.committed = committed
        self.logged = committed if isinstance(committed, FastLogged) else None
        self.database = database
        self.database_bytes = database.encode()
        self.records_max = records_max
        self.bytes_max = bytes_max
        self.signal_tables = signal_tables
        self.transactions = transactions
        self.tables = {}
        self.outputs = {}
        self.last_outputs = {}
        self.slots = [None] * SLOTS
        for i in range(SLOTS):
            self.slot_numbers[i] = -1
        self.start(LogOffset(lsn=0), epoch=0, now_us=lambda: 0)

    def start(self, at not None, *, int64_t epoch, now_us not None):
        """Begin at an offset, as after connecting. Only the tables are kept from an earlier
        connection.
        """
        self.lsn = at.lsn
        self.epoch = epoch
        self.now_us = now_us
        self.skip_commit = at.commit_lsn
        self.skip = at.event
        self.skip_lsn = at.change_lsn
        self.skip_change = at.change
        self.resumed = at.transaction
        self.kind = ""
        self.commit_lsn = 0
        self.xid = 0
        self.event = 0
        self.change_lsn = 0
        self.change = 0
        self.ts_us = 0
        self.origin = None
        self.origin_bytes = None
        self.changed = NO_TABLES
        self.counts_ = None
        self.total = 0
        memset(&self.ctx, 0, sizeof(Ctx))
        self.ctx.database = PyBytes_AS_STRING(self.database_bytes)
        self.ctx.database_len = PyBytes_GET_SIZE(self.database_bytes)
        self.ctx.has_xid = 1
        self.ctx.has_lsn = 1
        self.data = b""
        self.at = 0
        self.stopped = 0
        self.left_out = 0
        self.lacking = {}
        self.borders = []
        self.items = []
        self.segments = []
        self.item = self.item + 1
        self.records = 0
        self.bytes_ = 0
        self.source_ts_us = 0
        self.moved = 0

    @property
    def counts(self):
        """Counts of everything decoded so far. Another thread may read them."""
        return LogCounts(
            bytes=self.log_bytes,
            created=self.created,
            updated=self.updated,
            deleted=self.deleted,
            unchanged=self.unchanged,
            other_tables=self.other_tables,
            skipped_operations=self.skipped_operations,
            parked=self.parked,
            commits=self.commits,
        )

    @property
    def held(self):
        """True if the last call stopped early and ``feed(b"")`` would continue."""
        return self.at < PyBytes_GET_SIZE(self.data)

    def forget_tables(self):
        """Ask for the encoder of each table again."""
        cdef _Table table
        for table in self.tables.values():
            table.output = None
            table.asked = 0
            table.parked = 0
        self.outputs.clear()

    def leave_out(self):
        """Skip the next row of a captured table: the one that raised BadRowsError."""
        self.left_out = 1

    def feed(self, bytes data not None):
        """Take more messages and return what is finished."""
        cdef list items
        cdef const uint8_t* base
        cdef Py_ssize_t size, n
        if PyBytes_GET_SIZE(data):
            self.data = self.data[self.at:] + data if self.at < PyBytes_GET_SIZE(self.data) else data
            self.at = 0
            self.check_lengths()
        self.stopped = 0
        self.now = self.now_us()
        self.ctx.now_us = self.now
        self.ctx.serial = next_serial()
        base = <const uint8_t*>PyBytes_AS_STRING(self.data)
        size = PyBytes_GET_SIZE(self.data)
        try:
            while self.at < size and not self.stopped:
                n = <Py_ssize_t>little(base + self.at, LENGTH)
                self.copy_message(base + self.at + LENGTH, n)
                self.at += LENGTH + n
        except Exception:
            # Everything before the bad message is returned first; the next call reads that message
            # again.
            if not self.items and not self.records:
                raise
            self.emit_batch(0)
        if self.at >= size:
            self.data = b""
            self.at = 0
        items = self.items
        self.items = []
        return items

    def flush(self):
        """Return everything that is pending, and the position if it has moved."""
        cdef list items
        if self.records or self.moved or self.borders:
            self.emit_batch(1)
        items = self.items
        self.items = []
        return items

    # --- messages --------------------------------------------------------------------------------------------------------

    cdef int check_lengths(self) except -1:
        """Raise DamagedLogError unless every copy message is complete."""
        cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(self.data)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(self.data), at = 0
        while at < size:
            if size - at < LENGTH or size - at - LENGTH < <Py_ssize_t>little(base + at, LENGTH):
                self.data = b""
                raise DamagedLogError("a copy message is cut off")
            at += LENGTH + <Py_ssize_t>little(base + at, LENGTH)
        return 0

    cdef int copy_message(self, const uint8_t* p, Py_ssize_t n) except -1:
        cdef uint64_t lsn
        if n and p[0] == 119:  # w
            if n <= XLOG_DATA:
                raise self.damaged("a message without content")
            self.message(p + XLOG_DATA, n - XLOG_DATA, big(p + 1, 8))
            self.log_bytes += n - XLOG_DATA
        elif n and p[0] == 107:  # k
            if n < KEEPALIVE:
                raise self.damaged("a message that is cut off")
            lsn = big(p + 1, 8)
            if not self.commit_lsn and lsn > self.lsn:
                self.lsn = lsn  # everything that ended before it has been sent
                self.moved = 1
                if lsn > self.skip_commit:
                    self.skip = 0
        else:
            raise self.damaged("a copy message of an unknown kind")
        return 0

    cdef int message(self, const uint8_t* p, Py_ssize_t n, uint64_t lsn) except -1:
        cdef uint8_t letter = p[0]
        if letter == 73 or letter == 85 or letter == 68:  # I, U, D
            if n < ROW:
                raise self.damaged("a message that is cut off")
            return self.row(CREATE if letter == 73 else UPDATE if letter == 85 else DELETE, <uint32_t>big(p + 1, 4), p + ROW, n - ROW, lsn)
        if letter == 66:  # B
            if n < BEGIN:
                raise self.damaged("a message that is cut off")
            return self.begin(big(p + 1, 8), <int64_t>big(p + 9, 8) + EPOCH_US, <uint32_t>big(p + 17, 4))
        if letter == 67:  # C
            if n < COMMIT:
                raise self.damaged("a message that is cut off")
            return self.commit(big(p + 10, 8), <int64_t>big(p + 18, 8) + EPOCH_US)
        if letter == 82:  # R
            return self.relation(p, n, lsn)
        if letter == 84:  # T
            return self.truncate(self.read(messages.read_truncate, p, n), lsn)
        if letter == 77:  # M
            return self.emitted(self.read(messages.read_message, p, n), lsn)
        if letter == 79:  # O
            return self.set_origin(self.read(messages.read_origin, p, n))
        if letter != 89:  # Y is the name of a type, which the catalog has too
            raise self.damaged(f"a message of the unknown kind {bytes([letter])!r}")
        return 0

    cdef object read(self, read, const uint8_t* p, Py_ssize_t n):
        """Return the content of a rare message, read by ``read``."""
        try:
            return read(PyBytes_FromStringAndSize(<char*>p, n), 1)
        except (ValueError, IndexError, struct.error) as error:
            raise self.damaged("a message that is cut off") from error

    cdef int begin(self, uint64_t commit_lsn, int64_t ts_us, uint32_t xid) except -1:
        cdef uint64_t aligned = (commit_lsn + 7) >> 3 << 3  # as in position.sequence_of
        self.commit_lsn = commit_lsn
        self.xid = xid
        self.ts_us = ts_us
        self.event = 0
        self.change_lsn = 0
        self.change = 0
        self.low = <int64_t>((aligned & 0xFFFFFFFF) >> 3 << NUMBER_BITS)
        self.changed = NO_TABLES
        self.number += 1
        if commit_lsn != self.skip_commit:
            self.skip = 0
        self.ctx.serial = next_serial()
        self.ctx.xid = xid
        self.ctx.source_ts_us = ts_us
        self.ctx.high = self.epoch << 32 | <int64_t>(aligned >> 32)
        self.ctx.transaction = NULL
        if self.ctx.origin != NULL:
            self.set_origin(None)
        self.counts_ = None
        if self.transactions:
            self.begin_counts()
        return 0

    cdef int begin_counts(self) except -1:
        counts = TransactionCounts(f"{self.xid}:{self.commit_lsn}")
        if self.skip and self.resumed is not None:
            counts = self.resumed.copy()
        elif not self.skip:
            self.borders.append(TransactionBorder(counts.id, self.ts_us))
        self.counts_ = counts
        self.total = sum(counts.tables.values())
        self.counts_id = counts.id.encode()
        self.ctx.transaction = PyBytes_AS_STRING(self.counts_id)
        self.ctx.transaction_len = PyBytes_GET_SIZE(self.counts_id)
        return 0

    cdef int commit(self, uint64_t end_lsn, int64_t ts_us) except -1:
        if not self.commit_lsn:
            raise self.damaged("a commit without a transaction")
        if self.logged is not None:
            self.logged.note(self.xid, self.ctx.high, self.low, self.changed)
        else:
            self.committed(self.xid, self.commit_lsn, self.changed)
        if self.counts_ is not None:
            self.borders.append(TransactionBorder(self.counts_.id, ts_us, dict(self.counts_.tables)))
            self.counts_ = None
        self.lsn = end_lsn
        self.moved = 1
        self.commit_lsn = 0
        self.skip = 0
        self.event = 0
        self.commits += 1
        self.source_ts_us = ts_us
        return 0

    cdef int set_origin(self, origin) except -1:
        self.ctx.serial = next_serial()
        self.origin = origin
        if origin is None:
            self.ctx.origin = NULL
            self.ctx.origin_len = 0
            self.ctx.has_origin_lsn = 0
            return 0
        self.origin_bytes = origin.name.encode()
        self.ctx.origin = PyBytes_AS_STRING(self.origin_bytes)
        self.ctx.origin_len = PyBytes_GET_SIZE(self.origin_bytes)
        self.ctx.has_origin_lsn = 1
        self.ctx.origin_lsn = origin.lsn
        return 0

    cdef int relation(self, const uint8_t* p, Py_ssize_t n, uint64_t lsn) except -1:
        cdef _Table table = None
        cdef Py_ssize_t slot
        relation = self.read(messages.read_relation, p, n)
        table = self.tables.get(relation.number)
        if table is None or table.relation != relation:
            table = _Table.__new__(_Table)
            table.relation = relation
            table.alone = frozenset((relation.number,))
            self.tables[relation.number] = table
            slot = <Py_ssize_t>relation.number & (SLOTS - 1)
            self.slots[slot] = table
            self.slot_numbers[slot] = relation.number
        return self.event_out(relation, lsn, 0)

    cdef int truncate(self, truncate, uint64_t lsn) except -1:
        self.changed = self.changed.union(truncate.relations)
        if self.was_taken(lsn):
            self.take(lsn)
            return 0
        self.kind = "TRUNCATE"
        return self.event_out(truncate, lsn, 1)

    cdef int emitted(self, message, uint64_t lsn) except -1:
        if not message.transactional and not self.commit_lsn:
            self.emit_batch(0)
            self.kind = "MESSAGE"
            self.items.append(
                LogEvent(
                    message=message,
                    lsn=lsn,
                    commit_lsn=lsn,
                    number=1,
                    xid=0,
                    ts_us=self.source_ts_us,
                    position=self.offset() if self.skip else LogOffset(lsn=self.lsn, kind="MESSAGE"),
                )
            )
            return 0
        if self.was_taken(lsn):
            self.take(lsn)
            return 0
        self.kind = "MESSAGE"
        return self.event_out(message, lsn, 1)

    cdef inline int64_t numbered(self, uint64_t lsn) noexcept:
        """Return the number of the next change at the LSN where it was written."""
        return self.change + 1 if lsn == self.change_lsn else 1

    cdef inline bint was_taken(self, uint64_t lsn) noexcept:
        """Return True if an earlier connection has taken the transaction's next change, which was
        written at ``lsn``. Changes of a transaction come in the order of these LSNs.
        """
        if not self.skip:
            return 0
        if self.skip_lsn:
            if lsn < self.skip_lsn or (lsn == self.skip_lsn and self.numbered(lsn) <= self.skip_change):
                return 1
        elif self.event < self.skip:
            return 1
        # The last change that was taken is not published any more.
        self.event = self.skip
        self.change_lsn = self.skip_lsn
        self.change = self.skip_change
        self.skip = 0
        return 0

    cdef inline void take(self, uint64_t lsn) noexcept:
        """Count a change of the transaction. Numbers continue after those given before, and none is
        given twice. # I2
        """
        self.change = self.numbered(lsn)
        self.change_lsn = lsn
        self.event += 1
        if not self.skip:
            return
        if (lsn == self.skip_lsn and self.change == self.skip_change) or (not self.skip_lsn and self.event == self.skip):
            self.event = self.skip
            self.skip = 0
        else:
            self.event = min(self.event, self.skip - 1)

    cdef int event_out(self, message, uint64_t lsn, bint taken) except -1:
        """Emit a message by itself, after the rows that precede it. ``taken`` is True if it counts
        as a change.
        """
        cdef int64_t number = self.event + 1
        self.emit_batch(0)
        if taken:
            self.take(lsn)
        self.items.append(
            LogEvent(
                message=message,
                lsn=lsn or self.commit_lsn,  # a Relation message has no LSN
                commit_lsn=self.commit_lsn or self.lsn,
                number=number,
                xid=self.xid,
                ts_us=self.ts_us,
                position=self.offset(),
            )
        )
        self.stopped = not isinstance(message, messages.Message)
        return 0

    # --- rows ------------------------------------------------------------------------------------------------------------

    cdef int row(self, uint8_t op, uint32_t number, const uint8_t* p, Py_ssize_t n, uint64_t lsn) except -1:
        cdef _Table table
        cdef Py_ssize_t slot = number & (SLOTS - 1)
        cdef bint was_taken
        if not self.commit_lsn:
            raise self.damaged("a row outside of a transaction")
        if self.slot_numbers[slot] == number:
            table = <_Table>self.slots[slot]
        else:
            table = self.tables.get(number)
            if table is None:
                raise self.damaged(f"a row of table number {number} without its Relation message")
            self.slots[slot] = table
            self.slot_numbers[slot] = number
        was_taken = self.was_taken(lsn)
        if not table.asked:
            self.ask(table)
        if table.changed_in != self.number:
            table.changed_in = self.number
            self.changed = self.changed | table.alone if self.changed else table.alone
        if was_taken or table.output is None or self.left_out:
            self.left_out = self.left_out and (was_taken or table.output is None)
            if not was_taken and table.output is None:
                self.passed_over(op, table, p, n, lsn)
            else:
                if was_taken and table.output is not None and table.output.settles:
                    self.settled(op, table.output, p, n, 1)
                self.take(lsn)
            return 0
        if table.output.settles:
            for op_sent, body in self.settled(op, table.output, p, n, 0):
                self.encode(ord(op_sent), table.output, <const uint8_t*>PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body), lsn)
        else:
            self.encode(op, table.output, p, n, lsn)
        self.take(lsn)
        self.moved = 1
        if self.records >= self.records_max or self.bytes_ >= self.bytes_max:
            self.emit_batch(0)
        return 0

    cdef list settled(self, uint8_t op, _Output output, const uint8_t* p, Py_ssize_t n, bint taken):
        """Return the changes to send instead of one."""
        body = PyBytes_FromStringAndSize(<char*>p, n)
        try:
            return self.settle(output.encoder.plan, chr(op), body, self.xid, self.commit_lsn, self.event + 1, taken=taken)
        except BadRowsError:
            raise
        except DefiniteError as error:
            raise BadRowsError(f"{error} (transaction {self.xid}, committed at {lsn_text(self.commit_lsn)})") from error

    cdef int ask(self, _Table table) except -1:
        cdef _Output output = None
        position = (self.ctx.high, self.low | self.event + 1)
        encoder = self.resolve(table.relation, position, self.offset())
        table.asked = not isinstance(encoder, IgnoredForNow)
        table.parked = isinstance(encoder, RowsParked)
        if encoder is not None and table.asked and not table.parked:
            output = self.outputs.get(id(encoder))
            if output is None:
                output = self.last_outputs.get(encoder.plan.topic)
            if output is None or output.encoder is not encoder:
                output = _Output.__new__(_Output)
                output.encoder = encoder
                output.fast = encoder if isinstance(encoder, FastPlan) else None
                output.settles = self.settle is not None and not is_enforced_by_row(encoder.plan)
                output.topic = encoder.plan.topic
                output.name = str(encoder.plan.table.id)
                output.item = -1
            self.outputs[id(encoder)] = output
        table.output = output
        return 0

    cdef int passed_over(self, uint8_t op, _Table table, const uint8_t* p, Py_ssize_t n, uint64_t lsn) except -1:
        """Handle a row without an encoder: skip it, or emit it if it is of a signal table."""
        relation = table.relation
        if self.signal_tables and TableId(relation.schema, relation.name) in self.signal_tables:
            return self.signal(op, relation, PyBytes_FromStringAndSize(<char*>p, n), lsn)
        self.take(lsn)
        if table.parked:
            self.parked += 1
        else:
            self.other_tables += 1
        self.moved = 1
        return 0

    cdef int signal(self, uint8_t op, relation, bytes body, uint64_t lsn) except -1:
        _, after, _ = images(chr(op), body)
        if op != CREATE or after is None:
            self.take(lsn)
            return 0
        fault = None
        texts = [None] * SIGNAL_COLUMNS
        if len(after) < SIGNAL_COLUMNS:
            fault = f"{relation.schema}.{relation.name} is no signal table: it needs three columns of text, id, type and data"
        else:
            texts = [
                None if field is None or field is UNCHANGED_FIELD else field.decode("utf-8", "replace") for field in after[:SIGNAL_COLUMNS]
            ]
        return self.event_out(SignalRow(tuple(texts), fault), lsn, 1)

    cdef int encode(self, uint8_t op, _Output output, const uint8_t* p, Py_ssize_t n, uint64_t lsn) except -1:
        cdef FastPlan fast = output.fast
        cdef Py_ssize_t before, bytes_before, made
        cdef bytes filled, completed
        if output.item != self.item:
            output.keys = []
            output.values = []
            output.headers = {}
        before = PyList_GET_SIZE(output.keys)
        try:
            if op == UPDATE and n and p[0] == 75 and self.fill is not None:  # K
                filled = self.fill(output.encoder.plan, PyBytes_FromStringAndSize(<char*>p, n), self.xid)
                p = <const uint8_t*>PyBytes_AS_STRING(filled)
                n = PyBytes_GET_SIZE(filled)
            if fast is None:
                self.encode_slowly(op, output, p, n, lsn)
            else:
                self.ctx.lsn = lsn
                self.ctx.low = self.low | self.event + 1
                if self.counts_ is not None:
                    self.ctx.total = self.total
                    self.ctx.of_table = self.counts_.tables.get(output.name, 0)
                bytes_before = fast.out_bytes
                fast.change(op, p, n, 1, &self.ctx, output.keys, output.values, output.headers)
                if fast.lacks and op == UPDATE and PyList_GET_SIZE(output.keys) > before:
                    completed = self.completed(output, PyBytes_FromStringAndSize(<char*>p, n))
                    if completed is None:
                        self.lacks(output)
                    else:
                        # Its key is unchanged, so its only record has no headers.
                        del output.keys[before:]
                        del output.values[before:]
                        bytes_before = fast.out_bytes
                        fast.change(
                            op, <const uint8_t*>PyBytes_AS_STRING(completed), PyBytes_GET_SIZE(completed), 1,
                            &self.ctx, output.keys, output.values, output.headers,
                        )
                self.bytes_ += fast.out_bytes - bytes_before
        except BadRowsError:
            raise
        except DefiniteError as error:
            raise BadRowsError(f"{error} (transaction {self.xid}, committed at {lsn_text(self.commit_lsn)})") from error
        self.kind = "INSERT" if op == CREATE else "UPDATE" if op == UPDATE else "DELETE"
        made = PyList_GET_SIZE(output.keys) - before
        if fast is not None:
            if made and self.counts_ is not None:
                self.count_of(output.name, fast.of_table - self.ctx.of_table)
            self.count_row(op, made, 1, (op == CREATE and fast.skip_c) or (op == UPDATE and fast.skip_u) or (op == DELETE and fast.skip_d))
        if made:
            self.records += made
            if output.item != self.item:
                self.begin_segment(output)
        return 0

    cdef int encode_slowly(self, uint8_t op, _Output output, const uint8_t* p, Py_ssize_t n, uint64_t lsn) except -1:
        """Encode a row with another encoder than FastPlan: for a converter without a compiled form,
        or a chain of transforms.
        """
        cdef Py_ssize_t base = PyList_GET_SIZE(output.keys)
        context = PostgresContext(
            database=self.database,
            xid=self.xid,
            lsn=lsn,
            origin=None if self.origin is None else self.origin.name,
            origin_lsn=None if self.origin is None else self.origin.lsn,
            source_ts_us=self.ts_us,
            now_us=self.now,
            sequence_high=self.ctx.high,
            sequence_low=self.low | self.event + 1,
            transaction=None
            if self.counts_ is None
            else TransactionOrder(self.counts_.id, self.total, self.counts_.tables.get(output.name, 0)),
        )
        body = PyBytes_FromStringAndSize(<char*>p, n)
        lacks = op == UPDATE and lacks_values(output.encoder.plan, body)
        if lacks and (completed := self.completed(output, body)) is not None:
            body, lacks = completed, False
        keys, values, headers = output.encoder.encode_rows(chr(op), body, context)
        records = sum([value is not None for value in values])
        if records and self.counts_ is not None:
            self.count_of(output.name, records)
        moved = 0
        for index, header in headers.items():
            output.headers[base + index] = header
            moved += header[0][0] == rowplan.OLD_KEY_HEADER and "d" not in output.encoder.plan.skipped_operations
        output.keys.extend(keys)
        output.values.extend(values)
        if keys and lacks:
            self.lacks(output)
        # A changed key gives a delete and a create.
        self.count_row(op, len(keys), records - moved, chr(op) in output.encoder.plan.skipped_operations)
        self.bytes_ += sum([len(part) for part in keys if part is not None]) + sum([len(part) for part in values if part is not None])
        return 0

    cdef bytes completed(self, _Output output, bytes body):
        """Return an update that lacks values completed with them. Return None if its key must be
        reported as lacking them.
        """
        return None if self.complete is None else self.complete(output.encoder.plan, body, self.xid)

    cdef int lacks(self, _Output output) except -1:
        """Note the key of the last record as lacking values."""
        key = output.keys[PyList_GET_SIZE(output.keys) - 1]  # wraparound is off
        if key is not None:
            self.lacking.setdefault(output.encoder.plan.table.id, set()).add(key)
        return 0

    cdef int count_of(self, str name, int64_t records) except -1:
        self.counts_.tables[name] = self.counts_.tables.get(name, 0) + records
        self.total += records
        return 0

    cdef inline void count_row(self, uint8_t op, Py_ssize_t made, int64_t rows, bint skipped) noexcept:
        """Count ``rows`` rows, of which ``made`` records were created."""
        if made == 0:
            self.skipped_operations += skipped
            self.unchanged += not skipped
        elif op == CREATE:
            self.created += rows
        elif op == UPDATE:
            self.updated += rows
        else:
            self.deleted += rows

    cdef int begin_segment(self, _Output output) except -1:
        """Make the output's lists the next segment. The topic's previous segment takes no more
        rows, because they would overtake these. # I2
        """
        cdef _Output last = self.last_outputs.get(output.topic)
        if last is not None:
            last.item = -1
        self.last_outputs[output.topic] = output
        output.item = self.item
        self.segments.append((output.encoder, output.keys, output.values, output.headers))
        return 0

    # --- items -----------------------------------------------------------------------------------------------------------

    cdef object offset(self):
        cdef bint open_ = self.commit_lsn and self.event
        if self.skip:  # no new change has come yet of the transaction that was taken in part
            return LogOffset(
                lsn=self.lsn,
                commit_lsn=self.skip_commit,
                event=self.skip,
                change_lsn=self.skip_lsn,
                change=self.skip_change,
                xid=self.xid,
                ts_us=self.ts_us,
                kind=self.kind,
                transaction=None if self.resumed is None else self.resumed.copy(),
            )
        return LogOffset(
            lsn=self.lsn,
            commit_lsn=self.commit_lsn if open_ else 0,
            event=self.event if open_ else 0,
            change_lsn=self.change_lsn if open_ else 0,
            change=self.change if open_ else 0,
            xid=self.xid,
            ts_us=self.ts_us,
            kind=self.kind,
            transaction=None if self.counts_ is None or not open_ else self.counts_.copy(),
        )

    cdef int emit_batch(self, bint always) except -1:
        """End the current item. With ``always``, do so even if it has only a position."""
        if not self.records and not self.borders and not always:
            return 0
        self.items.append(
            LogRows(
                segments=self.segments,
                records=self.records + len(self.borders),
                bytes=self.bytes_,
                source_ts_us=self.ts_us or None,
                position=self.offset(),
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
        self.moved = 0
        return 0

    cdef object damaged(self, what):
        """Return an error of the stream itself, with the position where it was found."""
        return DamagedLogError(f"the server sent {what}, behind {lsn_text(self.lsn)}")
