# FastPlan turns rows of one table version into finished Avro records. The only Python objects are
# the bytes of keys and values.
#
# The fields of a row are found first, in a tuple of the log or in a line of COPY. Both have the
# same texts, so each column needs only one operation. The row is encoded once into a buffer. Its
# record is composed of that and of the parts of the envelope that are the same for a whole
# transaction. A text that an operation does not know goes through the dialect's reader and Avro's
# plain writer, like all texts of a column without an operation (OP_CALL). Anything that is not a
# row of this table is refused here in one way, and the reference implementation gives the reason.

cdef enum Op:
    OP_CALL = 0
    OP_CONSTANT  # a mask
    OP_UTF8
    OP_INT
    OP_BOOL
    OP_DECIMAL
    OP_DECIMAL_TEXT
    OP_DOUBLE
    OP_FLOAT
    OP_TIMESTAMP
    OP_ZONED
    OP_DAYS
    OP_TIME
    OP_HEX
    OP_COPY

cdef enum:
    NOTHING = -1          # NULL, in place of a field's length
    UNCHANGED = -2        # a large value that was not sent, in place of a field's length
    FIELD_MAX = 48        # bytes that a field takes in addition to its text
    CREATE = 99
    UPDATE = 117
    DELETE = 100

cdef struct Col:
    int op
    bint included
    bint union_
    uint8_t some
    int scale
    int fsp
    int64_t unit          # divisor (positive) or factor (negative) of microseconds
    bint narrow           # nanoseconds: only years whose days all fit 64 bits
    int slot              # index in the key, -1 if not in the key
    bint apart            # True if the key has other bytes than the row; column count + slot encodes them
    bint null_is_key      # True if NULL is a value that the replica identity may show
    Py_ssize_t nothing_len      # bytes written for NULL; -1 if NULL is not allowed
    const uint8_t* nothing
    bint needed           # True if a record needs a real value
    Py_ssize_t unchanged_len    # bytes written for a value that was not sent; -1: as for NULL
    const uint8_t* unchanged
    Day day

cdef struct Ctx:
    int64_t serial        # changes with each context
    const char* database
    Py_ssize_t database_len
    const char* origin    # NULL if there is none
    Py_ssize_t origin_len
    const char* snapshot
    Py_ssize_t snapshot_len
    const char* transaction    # NULL if there is no transaction block
    Py_ssize_t transaction_len
    int64_t total              # records of the transaction before this row's, in all and of its table
    int64_t of_table
    uint64_t origin_lsn
    bint has_origin_lsn
    uint64_t xid
    bint has_xid
    uint64_t lsn
    bint has_lsn
    int64_t source_ts_us
    int64_t now_us
    int64_t high
    int64_t low

cdef struct Span:
    Py_ssize_t start
    Py_ssize_t end

cdef struct Field:
    const uint8_t* p
    Py_ssize_t n

cdef int64_t last_serial = 0


cdef inline int64_t next_serial() noexcept:
    global last_serial
    last_serial += 1
    return last_serial


cdef class FastPlan:
    """The compiled form of ``rowplan.ReferencePlan`` for ``row_image.PostgresImage``; Avro only."""

    cdef readonly object plan
    cdef object image
    cdef object reference  # the reference implementation, created when an error needs it
    cdef Col* cols
    cdef Py_ssize_t count
    cdef Py_ssize_t fixed_max
    cdef Py_ssize_t key_count
    cdef Span* before_key
    cdef Span* after_key
    cdef Field* before
    cdef Field* after
    cdef Buf rows          # row, or both rows, encoded last
    cdef Buf keys          # columns of the keys whose bytes differ from the row's
    cdef Buf plain         # fields of a line without backslashes
    cdef Buf parts         # parts of the envelope
    cdef Py_ssize_t part1, part2, part3
    cdef Py_ssize_t op_at  # place of the operation's letter in part 3
    cdef Py_ssize_t order_at  # place in part 3 of a record's numbers in its transaction; 0 without transaction block
    cdef int64_t serial    # serial of the context that the parts were built for
    cdef int64_t total, of_table  # numbers of the last record
    cdef int64_t low
    cdef char low_digits[24]
    cdef Py_ssize_t low_len
    cdef char sequence[64]
    cdef Py_ssize_t sequence_head
    cdef object keep       # owner of the bytes that ``cols`` points to
    cdef bint any_apart    # True if a column of the key has other bytes there than in the row
    cdef list readers
    cdef list writers
    cdef list key_readers  # readers for keys in headers
    cdef list key_unchanged
    cdef bytes key_prefix, value_prefix, head, table_name
    cdef uint8_t before_some, before_null, after_some, after_null
    cdef bint tombstones, skip_unchanged, skip_c, skip_u, skip_d
    cdef bint busy             # True while a caller uses the buffers, which serve only one at a time
    cdef bint lacks            # True if the new row of the last change lacks a value that records need
    cdef Py_ssize_t out_bytes  # bytes of all records so far; a decoder uses differences

    def __cinit__(self):
        self.cols = NULL
        self.before_key = NULL
        self.after_key = NULL
        self.before = NULL
        self.after = NULL

    def __init__(self, plan, image):
        self.plan = plan
        self.image = image
        self.keep = []
        _check_schemas(plan)
        self.count = len(plan.columns)
        self.key_count = len(plan.key)
        size = self.count + self.key_count
        self.cols = <Col*>malloc(max(size, 1) * sizeof(Col))
        self.before_key = <Span*>malloc(max(self.key_count, 1) * sizeof(Span))
        self.after_key = <Span*>malloc(max(self.key_count, 1) * sizeof(Span))
        self.before = <Field*>malloc(max(self.count, 1) * sizeof(Field))
        self.after = <Field*>malloc(max(self.count, 1) * sizeof(Field))
        if self.cols == NULL or self.before_key == NULL or self.after_key == NULL or self.before == NULL or self.after == NULL:
            raise MemoryError
        memset(self.cols, 0, max(size, 1) * sizeof(Col))
        self.readers = [None] * size
        self.writers = [None] * size
        self.key_readers = []
        self.key_unchanged = []
        self.fixed_max = 64
        for index in range(self.count):
            self._column(index)
            self.cols[index].needed = image.needs_value(plan, index)
        names = {name.lower() for name in plan.table.key}
        for slot, index in enumerate(plan.key):
            column = plan.columns[index]
            declared = plan.table.columns[index]
            self.cols[index].slot = slot
            self.cols[index].null_is_key = declared.nullable and declared.name.lower() in names
            if column.apart:
                self.cols[index].apart = 1
                self.any_apart = 1
                self._column(self.count + slot)
            self.key_readers.append(image.reader(plan, column))
            self.key_unchanged.append(image.unavailable(column))
        self._envelope()

    def __dealloc__(self):
        free(self.cols)
        free(self.before_key)
        free(self.after_key)
        free(self.before)
        free(self.after)
        free(self.rows.data)
        free(self.keys.data)
        free(self.plain.data)
        free(self.parts.data)

    # --- built once ------------------------------

    def _column(self, Py_ssize_t index):
        """Prepare a column of the row, or, after those, a column of the key whose bytes differ from
        the row's.
        """
        cdef Col* c = &self.cols[index]
        cdef Py_ssize_t at = self.column_at(index)
        column = self.plan.columns[at]
        unchanged = self.image.unavailable(column)
        if index >= self.count:
            column = dataclasses.replace(column, included=True, schema=column.key_schema, rewrite=None)
        c.slot = -1
        c.nothing_len = -1
        c.unchanged_len = -1
        c.included = column.included
        if not column.included:
            return
        schema = column.schema
        c.union_ = schema.optional
        if schema.optional:
            c.nothing = self.kept(avro.encode(schema, None), &c.nothing_len)
            c.some = _branches(schema)[1]
        elif column.zero is not None:
            c.nothing = self.kept(avro.encode(schema, column.zero), &c.nothing_len)
        if column.rewrite is not None and unchanged is not None:
            unchanged = column.rewrite(unchanged)
        if unchanged is not None:
            c.unchanged = self.kept(avro.encode(schema, unchanged), &c.unchanged_len)
        c.scale = column.scale
        c.fsp = column.length
        c.unit = _UNITS.get(column.form, 1)
        c.narrow = column.form == Form.NANOS
        if isinstance(column.rewrite, Mask):
            assert (column.source, column.form) == (PgSource.TEXT, Form.TEXT), "a mask of what is no text"
            c.nothing = c.unchanged = self.kept(avro.encode(schema, column.rewrite.text), &c.nothing_len)
            c.unchanged_len = c.nothing_len
            c.op = OP_CONSTANT
            return
        c.op = OP_CALL if column.rewrite is not None else _OPS.get((column.source, column.form), OP_CALL)
        if c.op == OP_ZONED and not 0 <= c.fsp <= 6:
            c.op = OP_CALL
        self.fixed_max += FIELD_MAX
        self.readers[index] = _rewriting(self.image.reader(self.plan, column), column.rewrite)
        self.writers[index] = avro.writer(dataclasses.replace(schema, optional=False))

    cdef const uint8_t* kept(self, bytes encoded, Py_ssize_t* size) except NULL:
        self.keep.append(encoded)
        self.fixed_max += PyBytes_GET_SIZE(encoded)
        size[0] = PyBytes_GET_SIZE(encoded)
        return <const uint8_t*>PyBytes_AS_STRING(encoded)

    cdef Py_ssize_t column_at(self, Py_ssize_t index):
        """Return the index of the table's column. Columns of the key that are encoded separately
        come after the row's.
        """
        return index if index < self.count else self.plan.key[index - self.count]

    def _envelope(self):
        """Prepare the parts of the envelope that no row changes."""
        plan = self.plan
        fields = {f.name: f.schema for f in plan.value_schema.fields}
        self.before_null, self.before_some = _branches(fields["before"])
        self.after_null, self.after_some = _branches(fields["after"])
        self.key_prefix = plan.key_prefix
        self.value_prefix = plan.value_prefix
        self.head = b"".join(avro.encode(_STRING, text) for text in (plan.version, plan.connector, plan.server_name))
        self.table_name = b"".join(avro.encode(_STRING, text) for text in (plan.table.id.database, plan.table.id.name))
        self.tombstones = plan.tombstones
        self.skip_unchanged = plan.skip_unchanged
        self.skip_c = "c" in plan.skipped_operations
        self.skip_u = "u" in plan.skipped_operations
        self.skip_d = "d" in plan.skipped_operations

    # --- one context ------------------------------

    cdef int begin(self, Ctx* ctx) except -1:
        """Build the parts of the envelope that all rows of a context share, unless they are built
        already.
        """
        cdef Buf* b = &self.parts
        cdef uint8_t* w
        self.set_low(ctx.low)
        if self.serial == ctx.serial:
            return 0
        b.len = 0
        if not room(
            b,
            PyBytes_GET_SIZE(self.head) + PyBytes_GET_SIZE(self.table_name)
            + ctx.database_len + ctx.origin_len + ctx.snapshot_len + ctx.transaction_len + 256,
        ):
            raise MemoryError
        w = b.data
        # 1: version, connector, name, ts_ms, snapshot, db, the sequence's union index
        memcpy(w, PyBytes_AS_STRING(self.head), PyBytes_GET_SIZE(self.head))
        w = put_long(w + PyBytes_GET_SIZE(self.head), floor_div(ctx.source_ts_us, 1000))
        w[0] = 0
        w += 1
        if ctx.snapshot == NULL:
            w = put_run(w, b"false", 5)
        else:
            w = put_run(w, ctx.snapshot, ctx.snapshot_len)
        w = put_run(w, ctx.database, ctx.database_len)
        w[0] = 2
        self.part1 = w + 1 - b.data
        w += 1
        # 2: ts_us, ts_ns, schema, table, txId
        w[0] = 2
        w = put_long(w + 1, ctx.source_ts_us)
        w[0] = 2
        w = put_long(w + 1, ctx.source_ts_us * 1000)
        memcpy(w, PyBytes_AS_STRING(self.table_name), PyBytes_GET_SIZE(self.table_name))
        w += PyBytes_GET_SIZE(self.table_name)
        w = put_number(w, ctx.has_xid, ctx.xid)
        self.part2 = w - b.data
        # 3, after the lsn: xmin, origin, origin_lsn, transaction, op, ts_ms, ts_us, ts_ns
        w[0] = 0
        w += 1
        if ctx.origin == NULL:
            w[0] = 0
            w += 1
        else:
            w[0] = 2
            w = put_run(w + 1, ctx.origin, ctx.origin_len)
        w = put_number(w, ctx.has_origin_lsn, ctx.origin_lsn)
        if ctx.transaction == NULL:
            w[0] = 0
            w += 1
            self.order_at = 0
        else:
            w[0] = 2
            w = put_run(w + 1, ctx.transaction, ctx.transaction_len)
            self.order_at = w - b.data
        w[0] = 2
        self.op_at = w + 1 - b.data
        w[2] = 2
        w = put_long(w + 3, floor_div(ctx.now_us, 1000))
        w[0] = 2
        w = put_long(w + 1, ctx.now_us)
        w[0] = 2
        w = put_long(w + 1, ctx.now_us * 1000)
        self.part3 = w - b.data
        b.len = self.part3
        # the sequence's text up to the low number
        self.sequence[0] = 91
        self.sequence[1] = 34
        self.sequence_head = 2 + signed_digits(ctx.high, &self.sequence[2])
        memcpy(&self.sequence[self.sequence_head], b'","', 3)
        self.sequence_head += 3
        self.serial = ctx.serial
        return 0

    cdef inline void set_low(self, int64_t low) noexcept:
        """Update the text of D7's second number. Most numbers are one more than the one before."""
        if self.low_len and low == self.low + 1 and low > 0 and self.low_digits[self.low_len - 1] < 57:
            self.low_digits[self.low_len - 1] += 1
        elif low != self.low or not self.low_len:
            self.low_len = signed_digits(low, self.low_digits)
        self.low = low

    cdef object record(self, uint8_t op, const uint8_t* before, Py_ssize_t before_len, const uint8_t* after, Py_ssize_t after_len, Ctx* ctx):
        """Return the bytes of one value. ``before`` and ``after`` are encoded rows or NULL."""
        cdef uint8_t lsn_text[12]
        cdef Py_ssize_t lsn_len = put_number(lsn_text, ctx.has_lsn, ctx.lsn) - lsn_text
        cdef uint8_t order_text[20]
        cdef Py_ssize_t order_len = 0
        cdef Py_ssize_t prefix_len = PyBytes_GET_SIZE(self.value_prefix)
        cdef Py_ssize_t sequence_len = self.sequence_head + self.low_len + 2
        cdef Py_ssize_t size = prefix_len + 2 + before_len + after_len + self.part3 + 1 + sequence_len + lsn_len
        cdef uint8_t* parts = self.parts.data
        cdef uint8_t* w
        cdef object value
        if self.order_at:
            self.total += 1
            self.of_table += 1
            order_len = put_long(put_long(order_text, self.total), self.of_table) - order_text
            size += order_len
        value = PyBytes_FromStringAndSize(NULL, size)
        w = <uint8_t*>PyBytes_AS_STRING(value)
        copy_short(w, <const uint8_t*>PyBytes_AS_STRING(self.value_prefix), prefix_len)
        w += prefix_len
        if before == NULL:
            w[0] = self.before_null
            w += 1
        else:
            w[0] = self.before_some
            memcpy(w + 1, before, before_len)
            w += 1 + before_len
        if after == NULL:
            w[0] = self.after_null
            w += 1
        else:
            w[0] = self.after_some
            memcpy(w + 1, after, after_len)
            w += 1 + after_len
        memcpy(w, parts, self.part1)
        w += self.part1
        w[0] = <uint8_t>(2 * sequence_len)
        copy_short(w + 1, <const uint8_t*>self.sequence, self.sequence_head)
        w += 1 + self.sequence_head
        copy_short(w, <const uint8_t*>self.low_digits, self.low_len)
        w += self.low_len
        w[0] = 34
        w[1] = 93
        w += 2
        memcpy(w, parts + self.part1, self.part2 - self.part1)
        w += self.part2 - self.part1
        copy_short(w, lsn_text, lsn_len)
        w += lsn_len
        if order_len:
            memcpy(w, parts + self.part2, self.order_at - self.part2)
            w += self.order_at - self.part2
            copy_short(w, order_text, order_len)
            w += order_len
            memcpy(w, parts + self.order_at, self.part3 - self.order_at)
            w[self.op_at - self.order_at] = op
            return value
        memcpy(w, parts + self.part2, self.part3 - self.part2)
        w[self.op_at - self.part2] = op
        return value

    # --- one row ------------------------------

    cdef const uint8_t* fields_of_tuple(self, const uint8_t* p, const uint8_t* end, Field* fields, bint* any_unchanged) except NULL:
        """Read the fields of the tuple that begins at ``p`` and return the place after it."""
        cdef Py_ssize_t i, n
        if end - p < 2 or (p[0] << 8 | p[1]) != self.count:
            raise _refused()
        p += 2
        for i in range(self.count):
            if p == end:
                raise _refused()
            if p[0] == 116:  # t
                if end - p < 5:
                    raise _refused()
                n = <Py_ssize_t>(<uint32_t>p[1] << 24 | p[2] << 16 | p[3] << 8 | p[4])
                p += 5
                if end - p < n:
                    raise _refused()
                fields[i] = Field(p, n)
                p += n
                continue
            if p[0] == 110:  # n
                fields[i] = Field(p, NOTHING)
            elif p[0] == 117:  # u
                fields[i] = Field(p, UNCHANGED)
                any_unchanged[0] = 1
            else:
                raise _refused()
            p += 1
        return p

    cdef int fields_of_line(self, const uint8_t* p, const uint8_t* end, Field* fields) except -1:
        """Read the fields of a line of COPY without its escapes. ``end`` is its newline."""
        cdef const uint8_t* start
        cdef uint8_t* w
        cdef Py_ssize_t i = 0
        self.plain.len = 0
        while True:
            if i == self.count:
                raise _refused()
            start = p
            while p < end and p[0] != 9 and p[0] != 92:
                p += 1
            if p == end or p[0] == 9:
                fields[i] = Field(start, p - start)
            elif p == start and end - p >= 2 and p[1] == 78 and (end - p == 2 or p[2] == 9):
                fields[i] = Field(p, NOTHING)
                p += 2
            else:
                if not room(&self.plain, end - start):
                    raise MemoryError
                w = unescaped(self.plain.data + self.plain.len, start, &p, end)
                fields[i] = Field(NULL, w - self.plain.data - self.plain.len)
                self.plain.len = w - self.plain.data
            i += 1
            if p == end:
                break
            p += 1
        if i != self.count:
            raise _refused()
        if self.plain.len:  # the buffer does not move any more
            w = self.plain.data
            for i in range(self.count):
                if fields[i].p == NULL:
                    fields[i].p = w
                    w += fields[i].n
        return 0

    cdef int row(self, Field* fields, Span* key) except -1:
        """Append a row to ``rows`` as Avro."""
        cdef Buf* b = &self.rows
        cdef Py_ssize_t i, texts = 0, start
        cdef uint8_t* w
        cdef uint8_t* done
        cdef Col* c
        for i in range(self.count):
            if fields[i].n > 0:
                texts += fields[i].n
        if not room(b, self.fixed_max + texts):
            raise MemoryError
        w = b.data + b.len
        for i in range(self.count):
            c = &self.cols[i]
            start = w - b.data
            if c.included:
                done = NULL
                if fields[i].n >= 0:
                    done = put(c, fields[i].p, fields[i].n, w)
                if done == NULL:
                    b.len = start
                    self.put_rare(c, &fields[i], b, i, self.fixed_max + texts)
                    w = b.data + b.len
                else:
                    w = done
            if c.slot >= 0:
                if c.apart:
                    self.put_apart(c, &fields[i], key)
                else:
                    key[c.slot] = Span(start, w - b.data)
        b.len = w - b.data
        return 0

    cdef int put_apart(self, Col* c, Field* field, Span* key) except -1:
        """Append a column of the key whose bytes differ from the row's to ``keys``."""
        cdef Py_ssize_t index = self.count + c.slot
        cdef Col* own = &self.cols[index]
        cdef Buf* b = &self.keys
        cdef Py_ssize_t start = b.len
        cdef uint8_t* done = NULL
        if not room(b, self.fixed_max + max(field.n, 0)):
            raise MemoryError
        if field.n >= 0:
            done = put(own, field.p, field.n, b.data + start)
        if done == NULL:
            self.put_rare(own, field, b, index, 0)
        else:
            b.len = done - b.data
        key[c.slot] = Span(start, b.len)
        return 0

    cdef inline const uint8_t* key_bytes(self, Py_ssize_t slot, const uint8_t* row):
        """Return the start from which the span of a key's column counts."""
        if self.any_apart and self.cols[self.count + slot].included:
            return self.keys.data
        return row

    cdef int put_rare(self, Col* c, Field* field, Buf* b, Py_ssize_t index, Py_ssize_t needed) except -1:
        """Append a field that ``put`` cannot write. Afterwards ``needed`` bytes are free again."""
        cdef Py_ssize_t size
        if c.op != OP_CONSTANT and field.n >= 0:
            if c.op == OP_UTF8:  # a database in SQL_ASCII may contain any bytes
                encoded = avro.encode(_STRING, (<bytes>PyBytes_FromStringAndSize(<char*>field.p, field.n)).decode("utf-8", "replace"))
            else:
                encoded = self.called(field, index)
            if encoded is not None:
                size = PyBytes_GET_SIZE(encoded)
                if not room(b, 1 + size + needed):
                    raise MemoryError
                if c.union_:
                    b.data[b.len] = c.some
                    b.len += 1
                memcpy(b.data + b.len, PyBytes_AS_STRING(encoded), size)
                b.len += size
                return 0
        if field.n == UNCHANGED and c.unchanged_len >= 0:
            memcpy(b.data + b.len, c.unchanged, c.unchanged_len)
            b.len += c.unchanged_len
        elif c.nothing_len >= 0:
            memcpy(b.data + b.len, c.nothing, c.nothing_len)
            b.len += c.nothing_len
        else:
            raise _refused()
        return 0

    cdef bytes called(self, Field* field, Py_ssize_t index):
        """Return the field encoded by the dialect's reader and Avro's plain writer; None if the
        value is None.
        """
        value = self.readers[index](PyBytes_FromStringAndSize(<char*>field.p, field.n))
        if value is None:
            return None
        out = bytearray()
        self.writers[index](out, value)
        return bytes(out)

    cdef object key_of(self, Span* key, const uint8_t* row):
        """Return the key's bytes, from the spans of its columns in the encoded row."""
        cdef Py_ssize_t i, size = PyBytes_GET_SIZE(self.key_prefix)
        cdef uint8_t* w
        for i in range(self.key_count):
            size += key[i].end - key[i].start
        value = PyBytes_FromStringAndSize(NULL, size)
        w = <uint8_t*>PyBytes_AS_STRING(value)
        copy_short(w, <const uint8_t*>PyBytes_AS_STRING(self.key_prefix), PyBytes_GET_SIZE(self.key_prefix))
        w += PyBytes_GET_SIZE(self.key_prefix)
        for i in range(self.key_count):
            copy_short(w, self.key_bytes(i, row) + key[i].start, key[i].end - key[i].start)
            w += key[i].end - key[i].start
        return value

    cdef bint same_key(self):
        """Return True if both rows have the same key."""
        cdef Py_ssize_t i, n
        cdef const uint8_t* base
        for i in range(self.key_count):
            n = self.before_key[i].end - self.before_key[i].start
            if n != self.after_key[i].end - self.after_key[i].start:
                return 0
            base = self.key_bytes(i, self.rows.data)
            if memcmp(base + self.before_key[i].start, base + self.after_key[i].start, n) != 0:
                return 0
        return 1

    cdef object key_text(self, Field* fields):
        """Return the key as header text. It is rare, so it goes through Python values."""
        cdef Py_ssize_t slot
        cdef Field* field
        row = {}
        for slot, index in enumerate(self.plan.key):
            column = self.plan.columns[index]
            field = &fields[<Py_ssize_t>index]
            value = None
            if field.n >= 0:
                value = self.key_readers[slot](PyBytes_FromStringAndSize(<char*>field.p, field.n))
            elif field.n == UNCHANGED:
                value = self.key_unchanged[slot]
            if value is None and not column.key_schema.optional:
                value = column.zero
            row[column.name] = value
        return rowplan.key_text(self.plan, row).encode()

    # --- a change ------------------------------

    cdef int change(self, uint8_t op, const uint8_t* p, Py_ssize_t n, bint wanted, Ctx* ctx, list keys, list values, dict headers) except -1:
        """Append the records of one change, given as its message after the table's number. After an
        error the lists are unchanged.
        """
        cdef object body
        self.total = ctx.total
        self.of_table = ctx.of_table
        if (op == CREATE and self.skip_c) or (op == UPDATE and self.skip_u and self.skip_c and self.skip_d) or (op == DELETE and self.skip_d):
            return 0
        self.enter()
        try:
            self.encode(op, p, p + n, wanted, ctx, keys, values, headers)
        except DefiniteError as error:
            body = PyBytes_FromStringAndSize(<char*>p, n)
            self.slow().encode_rows(chr(op), body, _SOME_CONTEXT)
            raise AssertionError("the reference implementation accepts what the compiled one refuses") from error
        finally:
            self.busy = 0
        return 0

    cdef int encode(
        self, uint8_t op, const uint8_t* p, const uint8_t* end, bint wanted, Ctx* ctx, list keys, list values, dict headers
    ) except -1:
        cdef bint has_before = 0, whole = 0, any_unchanged = 0
        cdef Py_ssize_t before_len, i
        if op != CREATE and p < end and (p[0] == 75 or p[0] == 79):  # K, O
            whole = p[0] == 79
            has_before = 1
            p = self.fields_of_tuple(p + 1, end, self.before, &any_unchanged)
        if op != DELETE:
            any_unchanged = 0
            if p == end or p[0] != 78:  # N
                raise _refused()
            p = self.fields_of_tuple(p + 1, end, self.after, &any_unchanged)
            if op == UPDATE and self.skip_u and not has_before:
                if p != end:
                    raise _refused()
                return 0
            if any_unchanged and has_before:
                for i in range(self.count):
                    if self.after[i].n == UNCHANGED and self.before[i].n != NOTHING:
                        self.after[i] = self.before[i]
            self.lacks = 0
            if any_unchanged:
                for i in range(self.count):
                    if self.after[i].n == UNCHANGED:
                        if self.cols[i].needed:
                            raise _refused()
                        self.lacks |= self.cols[i].included
        if p != end or (op == DELETE and not has_before):
            raise _refused()
        if has_before and not whole and not self.shows_key():
            if op == DELETE:
                raise no_key(self.plan)
            has_before = 0
        self.begin(ctx)
        self.rows.len = 0
        self.keys.len = 0
        if has_before:
            self.row(self.before, self.before_key)
        before_len = self.rows.len
        if op != DELETE:
            self.row(self.after, self.after_key)
        if not wanted:
            return 0
        if op == DELETE:
            return self.emit_delete(before_len, keys, values, headers, None, ctx)
        if has_before:
            return self.emit_update(before_len, keys, values, headers, ctx)
        if op == UPDATE and self.skip_u:
            return 0
        key = self.key_of(self.after_key, self.rows.data) if self.key_count else None
        return self.emit(key, self.record(op, NULL, 0, self.rows.data, self.rows.len, ctx), keys, values)

    cdef bint shows_key(self):
        """Return True if a replica identity has the columns of the message key, which may be
        different ones.
        """
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.cols[i].slot >= 0 and self.before[i].n == NOTHING and not self.cols[i].null_is_key:
                return 0
        return 1

    cdef inline int enter(self) except -1:
        """Mark the plan as busy. Another thread, which a reader in Python lets run, would write
        into the same buffers.
        """
        if self.busy:
            raise AssertionError("a row plan was called while it is at work: two threads share it")
        self.busy = 1
        return 0

    cdef object slow(self):
        """Return the reference implementation."""
        if self.reference is None:
            self.reference = rowplan.ReferencePlan(self.plan, self.image)
        return self.reference

    cdef inline int emit(self, object key, object value, list keys, list values) except -1:
        PyList_Append(keys, key)
        PyList_Append(values, value)
        if key is not None:
            self.out_bytes += PyBytes_GET_SIZE(key)
        if value is not None:
            self.out_bytes += PyBytes_GET_SIZE(value)
        return 0

    cdef int emit_delete(self, Py_ssize_t before_len, list keys, list values, dict headers, object header, Ctx* ctx) except -1:
        key = self.key_of(self.before_key, self.rows.data) if self.key_count else None
        if header is not None:
            headers[len(keys)] = header
        self.emit(key, self.record(DELETE, self.rows.data, before_len, NULL, 0, ctx), keys, values)
        if self.tombstones and key is not None:
            if header is not None:
                headers[len(keys)] = header
            self.emit(key, None, keys, values)
        return 0

    cdef int emit_update(self, Py_ssize_t before_len, list keys, list values, dict headers, Ctx* ctx) except -1:
        cdef Py_ssize_t after_len = self.rows.len - before_len
        if self.skip_unchanged and before_len == after_len and memcmp(self.rows.data, self.rows.data + before_len, before_len) == 0:
            return 0
        if self.same_key():
            if self.skip_u:
                return 0
            key = self.key_of(self.after_key, self.rows.data) if self.key_count else None
            value = self.record(UPDATE, self.rows.data, before_len, self.rows.data + before_len, after_len, ctx)
            return self.emit(key, value, keys, values)
        new_key, old_key = self.key_text(self.after), self.key_text(self.before)
        if not self.skip_d:
            self.emit_delete(before_len, keys, values, headers, [(_NEW_KEY_HEADER, new_key)], ctx)
        if self.skip_c:
            return 0
        headers[len(keys)] = [(_OLD_KEY_HEADER, old_key)]
        key = self.key_of(self.after_key, self.rows.data)
        return self.emit(key, self.record(CREATE, NULL, 0, self.rows.data + before_len, after_len, ctx), keys, values)

    # --- methods of RowEncoder ------------------------------

    def encode_rows(self, str op not None, bytes body not None, context not None, *, version=None, Py_ssize_t skip_rows=0):
        """Return the records of a rows event; see rowplan.RowEncoder. ``body`` is a change's
        message after the table's number, with one row.
        """
        cdef Ctx ctx
        cdef list keys = [], values = []
        cdef dict headers = {}
        if op not in ("c", "u", "d"):
            raise AssertionError(f"no change has the operation {op}")
        held = _fill(&ctx, context)
        self.change(ord(op), <const uint8_t*>PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body), skip_rows < 1, &ctx, keys, values, headers)
        del held
        return keys, values, headers

    def encode_chunk(self, rows not None, context not None, dropped_keys not None, str op not None="r"):
        """Return the records of a chunk; see rowplan.RowEncoder. ``rows`` are lines of COPY; one
        without its newline is left out.
        """
        cdef const uint8_t[::1] view = rows
        cdef list keys = [], values = []
        cdef Ctx ctx
        cdef const uint8_t* p
        cdef const uint8_t* end
        cdef const uint8_t* newline
        cdef uint8_t code = ord(op)
        cdef int64_t low, dropped = 0
        cdef uint64_t digest = 0
        cdef bint any_dropped = bool(dropped_keys)
        cdef object key
        if view.shape[0] == 0:
            return keys, values, 0, 0
        p = &view[0]
        end = p + view.shape[0]
        held = _fill(&ctx, context)
        low = ctx.low
        self.enter()
        try:
            self.total = ctx.total
            self.of_table = ctx.of_table
            self.begin(&ctx)
            while p < end:
                newline = <const uint8_t*>memchr(p, 10, end - p)
                if newline == NULL:
                    break
                self.line(p, newline)
                p = newline + 1
                digest += crc32_of(0, self.rows.data, self.rows.len)
                key = None
                if self.key_count:
                    key = self.key_of(self.after_key, self.rows.data)
                    if any_dropped and key in dropped_keys:
                        dropped += 1
                        continue
                if code != 114:
                    self.set_low(low + PyList_GET_SIZE(keys))
                self.emit(key, self.record(code, NULL, 0, self.rows.data, self.rows.len, &ctx), keys, values)
        except DefiniteError as error:
            self.slow().encode_chunk(bytes(rows), context, dropped_keys, op)
            raise AssertionError("the reference implementation accepts what the compiled one refuses") from error
        finally:
            self.busy = 0
        del held
        return keys, values, dropped, digest

    cdef int line(self, const uint8_t* p, const uint8_t* end) except -1:
        """Encode a line of COPY. ``end`` is its newline."""
        self.rows.len = 0
        self.keys.len = 0
        self.fields_of_line(p, end, self.after)
        return self.row(self.after, self.after_key)

    def end_of_rows(self, rows not None, Py_ssize_t start, Py_ssize_t rows_max, Py_ssize_t bytes_max):
        """Return the end of the next rows; see rowplan.RowEncoder."""
        cdef const uint8_t[::1] view = rows
        cdef Py_ssize_t size = view.shape[0], end = start
        cdef const uint8_t* newline
        while rows_max > 0:
            newline = <const uint8_t*>memchr(&view[end], 10, size - end) if end < size else NULL
            if newline == NULL:
                return size
            if end > start and newline + 1 - &view[0] - start > bytes_max:
                return end
            end = newline + 1 - &view[0]
            rows_max -= 1
        return end

    def fingerprint_chunk(self, rows not None, dropped_keys not None):
        """Return the fingerprints of a chunk's rows; see rowplan.RowEncoder."""
        cdef const uint8_t[::1] view = rows
        cdef const uint8_t* p
        cdef const uint8_t* end
        cdef const uint8_t* newline
        cdef int64_t dropped = 0
        cdef uint64_t digest = 0
        cdef bint any_dropped = bool(dropped_keys)
        cdef Py_ssize_t frame = PyBytes_GET_SIZE(self.key_prefix)
        cdef object key
        cdef Buf out
        assert self.key_count, "rows without a key have no fingerprints"
        if view.shape[0] == 0:
            return b"", 0, 0
        memset(&out, 0, sizeof(out))
        p = &view[0]
        end = p + view.shape[0]
        self.enter()
        try:
            while p < end:
                newline = <const uint8_t*>memchr(p, 10, end - p)
                if newline == NULL:
                    break
                self.line(p, newline)
                p = newline + 1
                digest += crc32_of(0, self.rows.data, self.rows.len)
                key = self.key_of(self.after_key, self.rows.data)
                if any_dropped and key in dropped_keys:
                    dropped += 1
                    continue
                if not room(&out, 16):
                    raise MemoryError
                dblog_md5_head(<const uint8_t*>PyBytes_AS_STRING(key) + frame, PyBytes_GET_SIZE(key) - frame, out.data + out.len)
                dblog_md5_head(self.rows.data, self.rows.len, out.data + out.len + 8)
                out.len += 16
            return PyBytes_FromStringAndSize(<char*>out.data, out.len), dropped, digest
        except DefiniteError as error:
            self.slow().fingerprint_chunk(bytes(rows), dropped_keys)
            raise AssertionError("the reference implementation accepts what the compiled one refuses") from error
        finally:
            self.busy = 0
            free(out.data)

    def check_table_map(self, bytes body not None):
        """Raise DefiniteError if the table map does not fit; see rowplan.RowEncoder."""
        self.image.check_table_map(self.plan, body)


cdef inline uint8_t* put(Col* c, const uint8_t* p, Py_ssize_t n, uint8_t* w) noexcept nogil:
    """Write one field that is neither NULL nor unchanged, after its union index. Return NULL if the
    dialect's reader must be used.

    ``n`` is the field's checked length; ``n`` and FIELD_MAX bytes must be free.
    """
    cdef int64_t value, seconds, micros
    cdef double number
    cdef float single
    cdef int op = c.op
    if c.union_:
        w[0] = c.some
        w += 1
    if op == OP_UTF8:
        return put_run(w, p, n) if utf8_valid(p, n) else NULL
    elif op == OP_INT:
        return put_long(w, value) if int_of(p, n, &value) else NULL
    elif op == OP_BOOL:
        if n != 1 or (p[0] != 116 and p[0] != 102):
            return NULL
        w[0] = p[0] == 116
        return w + 1
    elif op == OP_DECIMAL:
        return put_decimal(w, p, n, c.scale)
    elif op == OP_DECIMAL_TEXT:
        return put_run(w, p, n) if plain_decimal(p, n) else NULL
    elif op == OP_DOUBLE:
        if not double_of(p, n, &number):
            return NULL
        memcpy(w, &number, 8)
        return w + 8
    elif op == OP_FLOAT:
        if not double_of(p, n, &number) or number > FLT_MAX or number < -FLT_MAX:
            return NULL
        single = <float>number
        memcpy(w, &single, 4)
        return w + 4
    elif op == OP_TIMESTAMP:
        if n < 19 or p[10] != 32 or not day_of(&c.day, p) or clock_of(p + 11, n - 11, &seconds, &micros) != n - 11:
            return NULL
        if c.narrow and not -106000 < c.day.number < 106000:  # the years 1680 to 2260
            return NULL
        return put_long(w, in_unit((c.day.number * 86400 + seconds) * 1000000 + micros, c.unit))
    elif op == OP_ZONED:
        if n < 22 or p[10] != 32 or not day_of(&c.day, p) or clock_of(p + 11, n - 14, &seconds, &micros) != n - 14:
            return NULL
        if p[n - 3] != 43 or p[n - 2] != 48 or p[n - 1] != 48 or p[11] > 50 or p[14] > 53 or p[17] > 53 or seconds >= 86400:
            return NULL
        return put_zoned(w, c.day.text, seconds, micros, c.fsp)
    elif op == OP_DAYS:
        return put_long(w, c.day.number) if n == 10 and day_of(&c.day, p) else NULL
    elif op == OP_TIME:
        if n == 0 or clock_of(p, n, &seconds, &micros) != n:
            return NULL
        return put_long(w, in_unit(seconds * 1000000 + micros, c.unit))
    elif op == OP_HEX:
        return put_hex(w, p, n)
    elif op == OP_COPY:
        return put_run(w, p, n)
    return NULL


cdef inline uint8_t* put_number(uint8_t* w, bint has, uint64_t value) noexcept nogil:
    """Write an optional number. LSNs and transaction numbers fit 63 bits."""
    if not has:
        w[0] = 0
        return w + 1
    w[0] = 2
    return put_long(w + 1, <int64_t>value)


cdef uint8_t* unescaped(uint8_t* w, const uint8_t* p, const uint8_t** at, const uint8_t* end) noexcept nogil:
    """Copy a field of COPY without its escapes, and move ``at`` after it. A backslash at its end is
    a plain backslash.
    """
    cdef uint8_t letter
    while p < end and p[0] != 9:
        letter = p[0]
        p += 1
        if letter == 92 and p < end and p[0] != 9:
            letter = p[0]
            p += 1
            if letter == 110:
                letter = 10
            elif letter == 116:
                letter = 9
            elif letter == 114:
                letter = 13
            elif letter == 98:
                letter = 8
            elif letter == 102:
                letter = 12
            elif letter == 118:
                letter = 11
        w[0] = letter
        w += 1
    at[0] = p
    return w


cdef tuple _fill(Ctx* ctx, context):
    """Fill ``ctx`` from a context and return the owners of its bytes."""
    database = context.database.encode()
    origin = None if context.origin is None else context.origin.encode()
    snapshot = None if context.snapshot is None else context.snapshot.encode()
    transaction = None if context.transaction is None else context.transaction.id.encode()
    memset(ctx, 0, sizeof(Ctx))
    ctx.serial = next_serial()
    ctx.database = PyBytes_AS_STRING(database)
    ctx.database_len = len(database)
    if origin is not None:
        ctx.origin = PyBytes_AS_STRING(origin)
        ctx.origin_len = len(origin)
    if snapshot is not None:
        ctx.snapshot = PyBytes_AS_STRING(snapshot)
        ctx.snapshot_len = len(snapshot)
    if transaction is not None:
        ctx.transaction = PyBytes_AS_STRING(transaction)
        ctx.transaction_len = len(transaction)
        ctx.total = context.transaction.total
        ctx.of_table = context.transaction.of_table
    ctx.has_origin_lsn = context.origin_lsn is not None
    ctx.origin_lsn = context.origin_lsn or 0
    ctx.has_xid = context.xid is not None
    ctx.xid = context.xid or 0
    ctx.has_lsn = context.lsn is not None
    ctx.lsn = context.lsn or 0
    ctx.source_ts_us = context.source_ts_us
    ctx.now_us = context.now_us
    ctx.high = context.sequence_high
    ctx.low = context.sequence_low
    return database, origin, snapshot, transaction


_SOME_CONTEXT = PostgresContext(database="", source_ts_us=0, now_us=0, sequence_high=0, sequence_low=0)
"""Context for calls of the reference implementation that only need its error, which does not depend
on a context.
"""
_UNITS = {Form.MILLIS: 1000, Form.MICROS: 1, Form.NANOS: -1000}
_OPS = {
    (PgSource.BOOL, Form.BOOLEAN): OP_BOOL,
    (PgSource.INT, Form.INT): OP_INT,
    (PgSource.FLOAT4, Form.FLOAT32): OP_FLOAT,
    (PgSource.FLOAT8, Form.FLOAT64): OP_DOUBLE,
    (PgSource.NUMERIC, Form.DECIMAL): OP_DECIMAL,
    (PgSource.NUMERIC, Form.DECIMAL_TEXT): OP_DECIMAL_TEXT,
    (PgSource.NUMERIC, Form.DECIMAL_DOUBLE): OP_DOUBLE,
    (PgSource.TEXT, Form.TEXT): OP_UTF8,
    (PgSource.TEXT, Form.BYTES): OP_COPY,
    (PgSource.BYTEA, Form.BYTES): OP_HEX,
    (PgSource.DATE, Form.DAYS): OP_DAYS,
    (PgSource.TIME, Form.MILLIS): OP_TIME,
    (PgSource.TIME, Form.MICROS): OP_TIME,
    (PgSource.TIME, Form.NANOS): OP_TIME,
    (PgSource.TIMESTAMP, Form.MILLIS): OP_TIMESTAMP,
    (PgSource.TIMESTAMP, Form.MICROS): OP_TIMESTAMP,
    (PgSource.TIMESTAMP, Form.NANOS): OP_TIMESTAMP,
    (PgSource.TIMESTAMPTZ, Form.ZONED_TIMESTAMP): OP_ZONED,
}


def _refused():
    """Return an error for anything that is not a row of this table; the reference implementation
    reports the reason.
    """
    return DefiniteError("no row of this table")


def _check_schemas(plan):
    """Assert that the schemas have the shape for which the parts of the envelope are laid out.
    Another shape is a bug of the caller, not of the data.
    """
    names = [f.name for f in plan.value_schema.fields]
    fields = {f.name: f.schema for f in plan.value_schema.fields}
    assert names == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"], names
    assert fields["source"] == source_schema(), "an unknown source block"
    assert fields["transaction"] == envelope.TRANSACTION_BLOCK, "an unknown transaction block"
    included = [(c.name, c.schema) for c in plan.columns if c.included]
    for name in ("before", "after"):
        assert fields[name].optional, name
        assert [(f.name, f.schema) for f in fields[name].fields] == included, name
    if plan.key:
        keys = [(plan.columns[i].name, plan.columns[i].key_schema) for i in plan.key]
        assert plan.key_schema is not None
        assert [(f.name, f.schema) for f in plan.key_schema.fields] == keys, "a key that is no copy of columns"
        assert len(set(plan.key)) == len(plan.key), "a column twice in the key"
