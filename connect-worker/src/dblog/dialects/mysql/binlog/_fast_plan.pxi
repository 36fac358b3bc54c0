# FastPlan: rows of one table version to finished Avro records, without Python objects except the
# bytes of key and value.
#
# A plan is an array of columns, each with one operation for the log's image and one for a result
# set. A row is encoded once into a buffer. Its record is assembled from that and from parts of the
# envelope that are the same for a whole rows event. The extent of every field is found and checked
# against the end of the row once (``row_of_log``, ``row_of_result``), before an operation sees it.
# Column kinds without an operation call the dialect's reader and Avro's plain writer (OP_CALL).

cdef enum Op:
    OP_SKIP = 0
    OP_CALL
    OP_CONSTANT  # a mask: its bytes are in the zero's field, also for NULL
    OP_S1  # from here on: fixed widths, see ``plain``
    OP_U1
    OP_S2
    OP_U2
    OP_S3
    OP_U3
    OP_S4
    OP_U4
    OP_S8
    OP_COPY4
    OP_COPY8
    OP_WIDEN  # up to here
    OP_WIDE_UNSIGNED
    OP_TRUTH
    OP_PACKED_DECIMAL
    OP_TEXT_DECIMAL
    OP_YEAR
    OP_DATE3
    OP_TIME2
    OP_DATETIME2
    OP_TIMESTAMP2
    OP_RESULT_DAYS
    OP_RESULT_DATETIME
    OP_RESULT_ZONED
    OP_RESULT_TIME
    OP_UTF8  # from here on an operation's output depends on its input's length
    OP_REVERSED
    OP_ONE_BYTE
    OP_BYTES
    OP_ENUM
    OP_SET
    OP_JSON_BINARY
    OP_JSON_TEXT

cdef struct Col:
    int log_op
    int result_op
    bint included
    bint union
    uint8_t some
    uint8_t null
    bint trim
    int prefix
    Py_ssize_t size
    Py_ssize_t result_size
    int precision
    int scale
    int fsp
    bint of_day           # a time of day: other values go to the dialect's reader
    int64_t unit          # microseconds are divided (positive) or multiplied (negative) by this
    Py_ssize_t pad
    int slot              # index in the key, -1 for none
    bint apart  # the key's bytes are not the row's: the column at column count + slot makes them
    Py_ssize_t zero_len   # -1: no zero
    const uint8_t* zero
    const uint8_t** members
    Py_ssize_t* member_len
    Py_ssize_t members_count
    # the last date, since neighbouring rows often have the same one
    # as the source writes it; a result set's with FROM_RESULT, because the numbers overlap; -1:
    # none yet
    int64_t date
    int64_t date_days
    uint8_t date_text[11]
    bint adjust_years

cdef int64_t FROM_RESULT = 1 << 40

cdef struct Ctx:
    const char* file
    Py_ssize_t file_len
    const char* gtid
    Py_ssize_t gtid_len
    const char* query
    Py_ssize_t query_len
    const char* snapshot
    Py_ssize_t snapshot_len
    const char* transaction    # NULL: no transaction block
    Py_ssize_t transaction_len
    int64_t total  # the transaction's records before this event's first, in all and of its table
    int64_t of_table
    int64_t pos
    int64_t server_id
    int64_t source_ts_us
    int64_t now_us
    int64_t thread
    bint has_thread
    int64_t high
    int64_t low

cdef struct Span:
    Py_ssize_t start
    Py_ssize_t end
    const uint8_t* raw
    Py_ssize_t raw_len


cdef class FastPlan:
    """The compiled form of ``rowplan.ReferencePlan``; made by ``compile_plan``."""

    cdef readonly object plan
    cdef object image
    cdef Col* cols
    cdef Py_ssize_t count
    cdef Py_ssize_t bitmap_len
    cdef Py_ssize_t fixed_max
    cdef Py_ssize_t key_count
    cdef Span* before_key
    cdef Span* after_key
    cdef Buf rows          # the row (or both rows) just encoded
    cdef Buf keys          # the two key structs
    cdef Buf parts         # the envelope's parts of this event
    cdef Py_ssize_t part1, part2, part3
    cdef Py_ssize_t op_at  # offset of the operation's letter in part 3
    # offset in part 3 of a record's numbers in its transaction; 0 without transaction block
    cdef Py_ssize_t order_at
    cdef int64_t total, of_table  # those of the last record
    cdef char low_digits[24]
    cdef Py_ssize_t low_len
    cdef char sequence[64]
    cdef Py_ssize_t sequence_head
    cdef object keep       # owns the bytes that ``cols`` points into
    cdef bint any_apart    # true if a column of the key has other bytes there than in the row
    cdef list key_readers  # for keys in headers
    cdef list log_readers
    cdef list result_readers
    cdef list writers
    cdef bytes key_prefix, value_prefix, head, middle, table_name
    cdef uint8_t before_some, before_null, after_some, after_null
    cdef bint tombstones, skip_unchanged, skip_c, skip_u, skip_d
    cdef bint lacks            # true if rows of the last event lack a value of a captured column
    cdef bint busy             # the buffers serve one caller at a time
    cdef Py_ssize_t out_bytes  # bytes of all records so far; a decoder takes differences
    cdef int64_t left_out      # updates of the event that are not written
    cdef int64_t out_unchanged # rows left out because nothing changed

    def __cinit__(self):
        self.cols = NULL
        self.before_key = NULL
        self.after_key = NULL

    def __init__(self, plan, image):
        self.plan = plan
        self.image = image
        self.keep = []
        _check_schemas(plan)
        self.count = len(plan.columns)
        self.bitmap_len = (self.count + 7) // 8
        self.key_count = len(plan.key)
        self.cols = <Col*>malloc(max(self.count + self.key_count, 1) * sizeof(Col))
        self.before_key = <Span*>malloc(max(self.key_count, 1) * sizeof(Span))
        self.after_key = <Span*>malloc(max(self.key_count, 1) * sizeof(Span))
        if self.cols == NULL or self.before_key == NULL or self.after_key == NULL:
            raise MemoryError
        memset(self.cols, 0, max(self.count + self.key_count, 1) * sizeof(Col))
        self.log_readers = [None] * (self.count + self.key_count)
        self.result_readers = [None] * (self.count + self.key_count)
        self.writers = [None] * (self.count + self.key_count)
        self.fixed_max = 64
        self.key_readers = []
        for index in range(self.count):
            self._column(index)
        for slot, index in enumerate(plan.key):
            self.cols[index].slot = slot
            if plan.columns[index].apart:
                self.cols[index].apart = 1
                self.any_apart = 1
                self._column(self.count + slot)
            self.key_readers.append(image.log_reader(plan, index))
        self._envelope()

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.cols != NULL:
            for i in range(self.count + self.key_count):
                free(self.cols[i].members)
                free(self.cols[i].member_len)
            free(self.cols)
        free(self.before_key)
        free(self.after_key)
        free(self.rows.data)
        free(self.keys.data)
        free(self.parts.data)

    # --- made once --------------------------------------------------------------------------------

    def _column(self, Py_ssize_t index):
        """Prepare a column of the row or, after those, a column of the key whose bytes are not the
        row's.
        """
        cdef Col* c = &self.cols[index]
        cdef Py_ssize_t at = self.column_at(index)
        plan = self.plan
        column = plan.columns[at]
        if index >= self.count:
            column = dataclasses.replace(column, included=True, schema=column.key_schema, rewrite=None)
        layout = self.image.column_layout(plan, at)
        c.slot = -1
        c.date = -1
        c.zero_len = -1
        c.prefix = layout.prefix
        c.size = layout.size
        c.result_size = _result_size(column.source)
        c.included = column.included
        if not column.included:
            return
        schema = column.schema
        c.union = schema.optional
        if schema.optional:
            branch = avro.null_branch(schema)
            c.null = 2 if branch else 0
            c.some = 0 if branch else 2
        elif column.zero is not None:
            zero = avro.encode(schema, column.zero)
            self.keep.append(zero)
            c.zero = <const uint8_t*>PyBytes_AS_STRING(zero)
            c.zero_len = len(zero)
            self.fixed_max += c.zero_len
        c.precision = column.length
        c.scale = column.scale
        c.fsp = column.length
        c.unit = _UNITS.get(column.form, 1)
        c.of_day = column.unfit != "keep"
        c.adjust_years = column.adjust_years
        if isinstance(column.rewrite, Mask):
            self.constant(c, avro.encode(schema, column.rewrite.text))
            return
        declared = plan.table.columns[at]
        c.trim = declared.type.lower() in _CHARS
        c.pad = 0
        if column.source == Source.BINARY and declared.type.lower() == "binary":
            c.pad = 1 if declared.length is None else declared.length
        c.log_op = OP_CALL if column.rewrite is not None else self._log_op(c, column, at)
        c.result_op = OP_CALL if column.rewrite is not None else _result_op(column)
        self.fixed_max += 48
        if c.log_op in (OP_CALL, OP_JSON_BINARY):
            self.log_readers[index] = _rewriting(self.image.log_reader(plan, at), column.rewrite)
        if c.result_op in (OP_CALL, OP_JSON_TEXT):
            self.result_readers[index] = _rewriting(self.image.result_reader(plan, at), column.rewrite)
        if c.log_op in (OP_CALL, OP_JSON_BINARY) or c.result_op in (OP_CALL, OP_JSON_TEXT):
            self.writers[index] = avro.writer(dataclasses.replace(schema, optional=False))

    cdef int constant(self, Col* c, bytes encoded) except -1:
        self.keep.append(encoded)
        c.zero = <const uint8_t*>PyBytes_AS_STRING(encoded)
        c.zero_len = PyBytes_GET_SIZE(encoded)
        c.union = 0
        c.log_op = OP_CONSTANT
        c.result_op = OP_CONSTANT
        self.fixed_max += c.zero_len
        return 0

    cdef Py_ssize_t column_at(self, Py_ssize_t index):
        """Return the column of the table. Columns of the key with bytes of their own come after the
        table's.
        """
        return index if index < self.count else self.plan.key[index - self.count]

    cdef int _log_op(self, Col* c, column, Py_ssize_t index) except -1:
        source, form = column.source, column.form
        if column.compressed:
            return OP_CALL
        if source in _INT_OPS and form in (Form.INT, Form.UNSIGNED_WRAPPED):
            return _INT_OPS[source][1 if column.unsigned else 0]
        if source in _INT_OPS and form == Form.BOOLEAN or source == Source.BIT and form == Form.BOOLEAN:
            return OP_TRUTH
        if source == Source.INT64 and form == Form.DECIMAL and column.unsigned:
            return OP_WIDE_UNSIGNED
        if source == Source.ENUM and form == Form.TEXT:
            self._members(c, ("", *column.members), framed=True)
            return OP_ENUM
        if source == Source.SET and form == Form.TEXT and len(column.members) <= 64:
            self._members(c, column.members, framed=False)
            return OP_SET
        if source == Source.TEXT and form == Form.TEXT:
            table = self.image.text_table(self.plan, index)
            if table is None:
                return OP_CALL
            if not table:
                return OP_UTF8
            self._members(c, table, framed=False)
            return OP_ONE_BYTE
        if source == Source.DECIMAL and form == Form.DECIMAL and (c.precision > 65 or c.scale > c.precision):
            return OP_CALL
        return _LOG_OPS.get((source, form), OP_CALL)

    cdef int _members(self, Col* c, texts, bint framed) except -1:
        """Prepare texts as UTF-8 to copy, each with a length prefix if ``framed``."""
        cdef Py_ssize_t i, longest = 0, total = 0
        raw = [text.encode() for text in texts]
        encoded = [avro.encode(_STRING, text) for text in texts] if framed else raw
        self.keep.append(encoded)
        c.members_count = len(encoded)
        c.members = <const uint8_t**>malloc(max(c.members_count, 1) * sizeof(uint8_t*))
        c.member_len = <Py_ssize_t*>malloc(max(c.members_count, 1) * sizeof(Py_ssize_t))
        if c.members == NULL or c.member_len == NULL:
            raise MemoryError
        for i in range(c.members_count):
            c.members[i] = <const uint8_t*>PyBytes_AS_STRING(encoded[i])
            c.member_len[i] = len(encoded[i])
            longest = max(longest, c.member_len[i])
            total += c.member_len[i] + 1
        self.fixed_max += longest if framed else (total if c.members_count <= 64 else 0)
        return 0

    def _envelope(self):
        """Prepare the parts of the envelope that are the same for all events."""
        plan = self.plan
        fields = {f.name: f.schema for f in plan.value_schema.fields}
        before, after = fields["before"], fields["after"]
        self.before_null, self.before_some = _branches(before)
        self.after_null, self.after_some = _branches(after)
        self.key_prefix = plan.key_prefix
        self.value_prefix = plan.value_prefix
        self.head = b"".join(avro.encode(_STRING, text) for text in (plan.version, plan.connector, plan.server_name))
        self.middle = avro.encode(_STRING, plan.table.id.database) + b"\x02"
        self.table_name = b"\x02" + avro.encode(_STRING, plan.table.id.name)
        self.tombstones = plan.tombstones
        self.skip_unchanged = plan.skip_unchanged
        self.skip_c = "c" in plan.skipped_operations
        self.skip_u = "u" in plan.skipped_operations
        self.skip_d = "d" in plan.skipped_operations

    # --- one event --------------------------------------------------------------------------------

    cdef int begin(self, Ctx* ctx, uint8_t op) except -1:
        """Build the parts of the envelope that all rows of an event share."""
        cdef Buf* b = &self.parts
        cdef uint8_t* w
        b.len = 0
        if not room(
            b,
            PyBytes_GET_SIZE(self.head) + PyBytes_GET_SIZE(self.middle) + PyBytes_GET_SIZE(self.table_name)
            + ctx.file_len + ctx.gtid_len + ctx.query_len + ctx.snapshot_len + ctx.transaction_len + 256,
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
        memcpy(w, PyBytes_AS_STRING(self.middle), PyBytes_GET_SIZE(self.middle))
        w += PyBytes_GET_SIZE(self.middle)
        self.part1 = w - b.data
        # 2: ts_us, ts_ns, table, server_id, gtid, file, pos
        w[0] = 2
        w = put_long(w + 1, ctx.source_ts_us)
        w[0] = 2
        w = put_long(w + 1, ctx.source_ts_us * 1000)
        memcpy(w, PyBytes_AS_STRING(self.table_name), PyBytes_GET_SIZE(self.table_name))
        w = put_long(w + PyBytes_GET_SIZE(self.table_name), ctx.server_id)
        if ctx.gtid == NULL:
            w[0] = 0
            w += 1
        else:
            w[0] = 2
            w = put_run(w + 1, ctx.gtid, ctx.gtid_len)
        w = put_run(w, ctx.file, ctx.file_len)
        w = put_long(w, ctx.pos)
        self.part2 = w - b.data
        # 3: thread, query, transaction, op, ts_ms, ts_us, ts_ns
        if ctx.has_thread:
            w[0] = 2
            w = put_long(w + 1, ctx.thread)
        else:
            w[0] = 0
            w += 1
        if ctx.query == NULL:
            w[0] = 0
            w += 1
        else:
            w[0] = 2
            w = put_run(w + 1, ctx.query, ctx.query_len)
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
        w[1] = op
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
        self.set_low(ctx.low)
        return 0

    cdef inline void set_low(self, int64_t low) noexcept:
        self.low_len = signed_digits(low, self.low_digits)

    cdef inline void next_low(self, int64_t low) noexcept:
        """Increment the text by one; ``low`` is the new number, for cases with a carry."""
        cdef char* last = &self.low_digits[self.low_len - 1]
        if 48 <= last[0] < 57 and self.low_digits[0] != 45:
            last[0] += 1
        else:
            self.low_len = signed_digits(low, self.low_digits)

    cdef object record(self, uint8_t op, const uint8_t* before, Py_ssize_t before_len, const uint8_t* after, Py_ssize_t after_len, int64_t row):
        """Return the bytes of one value; ``before`` and ``after`` are encoded rows or NULL."""
        cdef uint8_t row_text[12]
        cdef Py_ssize_t row_len = put_long(row_text, row) - row_text
        cdef uint8_t order_text[20]
        cdef Py_ssize_t order_len = 0
        cdef Py_ssize_t prefix_len = PyBytes_GET_SIZE(self.value_prefix)
        cdef Py_ssize_t sequence_len = self.sequence_head + self.low_len + 2
        cdef Py_ssize_t size = prefix_len + 2 + before_len + after_len + self.part3 + 1 + sequence_len + row_len
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
        copy_short(w, row_text, row_len)
        w += row_len
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

    # --- one row ----------------------------------------------------------------------------------

    cdef const uint8_t* row_of_log(self, const uint8_t* p, const uint8_t* end, Span* key) except NULL:
        """Append one row image to ``rows`` as Avro; return the image's end."""
        cdef Buf* b = &self.rows
        cdef const uint8_t* bitmap = p
        cdef Py_ssize_t i, n, start
        cdef Col* c
        cdef int done
        if end - p < self.bitmap_len:
            raise self.short(-1)
        p += self.bitmap_len
        if not room(b, self.fixed_max):
            raise MemoryError
        for i in range(self.count):
            c = &self.cols[i]
            start = b.len
            if bitmap[i >> 3] >> (i & 7) & 1:
                if c.included:
                    self.put_nothing(c, b, i)
                    if c.slot >= 0:
                        key[c.slot] = Span(start, b.len, NULL, 0)
                if c.apart:
                    self.put_apart(c, NULL, 0, key, 1)
                continue
            n = c.size
            if c.prefix:
                if end - p < c.prefix:
                    raise self.short(i)
                n = p[0]
                if c.prefix > 1:
                    n |= <Py_ssize_t>p[1] << 8
                    if c.prefix > 2:
                        n |= <Py_ssize_t>p[2] << 16
                        if c.prefix > 3:
                            n |= <Py_ssize_t>p[3] << 24
                p += c.prefix
            if end - p < n:
                raise self.short(i)
            if OP_S1 <= c.log_op <= OP_WIDEN:
                b.len = plain(c, c.log_op, p, b.data + start) - b.data
            elif c.included:
                done = self.put(c, c.log_op, p, n, b, i, 1)
                if done == 0:
                    b.len = start
                    self.put_nothing(c, b, i)
            if c.slot >= 0:
                if c.apart:
                    self.put_apart(c, p, n, key, 1)
                else:
                    key[c.slot] = Span(start, b.len, p, n)
            p += n
        return p

    cdef const uint8_t* row_of_result(self, const uint8_t* p, const uint8_t* end, Span* key) except NULL:
        """Append one binary result-set row, from its leading zero byte on, to ``rows`` as Avro;
        return its end.
        """
        cdef Buf* b = &self.rows
        cdef const uint8_t* bitmap = p + 1
        cdef Py_ssize_t i, n, start, width
        cdef Col* c
        cdef int done
        if end - p < 1 + (self.count + 9) // 8:
            raise self.short(-1)
        p += 1 + (self.count + 9) // 8
        if not room(b, self.fixed_max):
            raise MemoryError
        for i in range(self.count):
            c = &self.cols[i]
            start = b.len
            if bitmap[(i + 2) >> 3] >> ((i + 2) & 7) & 1:
                if c.included:
                    self.put_nothing(c, b, i)
                    if c.slot >= 0:
                        key[c.slot] = Span(start, b.len, NULL, 0)
                if c.apart:
                    self.put_apart(c, NULL, 0, key, 0)
                continue
            n = c.result_size
            if n <= 0:
                if end - p < 1:
                    raise self.short(i)
                width = p[0]
                p += 1
                if n < 0 or width < 0xFB:
                    n = width
                else:
                    width = 2 if width == 0xFC else 3 if width == 0xFD else 8 if width == 0xFE else 0
                    if width == 0 or end - p < width:
                        raise self.short(i)
                    n = <Py_ssize_t>little(p, width)
                    if n < 0:
                        raise self.short(i)
                    p += width
            if end - p < n:
                raise self.short(i)
            if OP_S1 <= c.result_op <= OP_WIDEN:
                b.len = plain(c, c.result_op, p, b.data + start) - b.data
            elif c.included:
                done = self.put(c, c.result_op, p, n, b, i, 0)
                if done == 0:
                    b.len = start
                    self.put_nothing(c, b, i)
            if c.slot >= 0:
                if c.apart:
                    self.put_apart(c, p, n, key, 0)
                else:
                    key[c.slot] = Span(start, b.len, p, n)
            p += n
        if p != end:
            raise DefiniteError(f"{self.plan.table.id}: a row of a chunk is longer than its columns; the known schema does not fit the data")
        return p

    cdef int put_apart(self, Col* c, const uint8_t* p, Py_ssize_t n, Span* key, bint log) except -1:
        """Append a column of the key whose bytes are not the row's to ``keys``; ``p`` NULL for
        NULL.
        """
        cdef Py_ssize_t index = self.count + c.slot
        cdef Col* own = &self.cols[index]
        cdef Buf* b = &self.keys
        cdef Py_ssize_t start = b.len
        cdef int op = own.log_op if log else own.result_op
        cdef int done = 0
        if not room(b, self.fixed_max):
            raise MemoryError
        if p != NULL:
            if OP_S1 <= op <= OP_WIDEN:
                b.len = plain(own, op, p, b.data + start) - b.data
                done = 1
            else:
                done = self.put(own, op, p, n, b, index, log)
        if done == 0:
            b.len = start
            self.put_nothing(own, b, index)
        key[c.slot] = Span(start, b.len, p, n)
        return 0

    cdef inline const uint8_t* key_bytes(self, Py_ssize_t slot, const uint8_t* row):
        """Return the base of the spans of a column of the key."""
        if self.any_apart and self.cols[self.count + slot].included:
            return self.keys.data
        return row

    cdef inline int put_nothing(self, Col* c, Buf* b, Py_ssize_t index) except -1:
        """Append NULL, or the zero of a column that has no NULL."""
        if c.union:
            b.data[b.len] = c.null
            b.len += 1
        elif c.zero_len >= 0:
            memcpy(b.data + b.len, c.zero, c.zero_len)
            b.len += c.zero_len
        else:
            raise rowplan.no_value(self.plan, self.column_at(index))
        return 0

    cdef inline int put(self, Col* c, int op, const uint8_t* p, Py_ssize_t n, Buf* b, Py_ssize_t index, bint log) except -1:
        """Append one field that is not NULL; return 0 if its value is impossible (such as a date).

        ``n`` is the field's checked extent. ``fixed_max`` bytes are free before it; an operation
        whose output depends on ``n`` makes room.
        """
        cdef uint8_t* w
        cdef uint64_t u
        cdef int64_t year, month, day, seconds, micros, value
        cdef Py_ssize_t i, total
        if op == OP_CALL:
            return self.put_called(c, p, n, b, index, log)
        if op == OP_CONSTANT:
            return 0
        if op >= OP_UTF8 and not room(b, self.fixed_max + 3 * n + c.pad):
            raise MemoryError
        w = b.data + b.len
        if c.union:
            w[0] = c.some
            w += 1
        if op == OP_UTF8:
            if c.trim:
                while n and p[n - 1] == 32:
                    n -= 1
            if not utf8_valid(p, n):
                return self.put_mended(c, p, n, b)
            w = put_run(w, p, n)
        elif op == OP_WIDE_UNSIGNED:
            w = put_unscaled_64(w, little(p, 8), 0)
        elif op == OP_TRUTH:
            w[0] = 0
            for i in range(n):
                if p[i]:
                    w[0] = 1
            w += 1
        elif op == OP_PACKED_DECIMAL:
            w = put_packed_decimal(w, p, c.precision, c.scale)
        elif op == OP_TEXT_DECIMAL:
            w = put_text_decimal(w, p, n, c.scale)
            if w == NULL:
                raise DefiniteError(f"{self.plan.table.id}, column {self.plan.table.columns[self.column_at(index)].name}: the server sent a decimal that is none")
        elif op == OP_YEAR:
            w = put_long(w, p[0] + 1900 if p[0] else 0)
        elif op == OP_DATE3:
            u = little(p, 3)
            if not remember_date(c, <int64_t>u, u >> 9, u >> 5 & 15, u & 31):
                return 0
            w = put_long(w, c.date_days)
        elif op == OP_TIME2:
            value = time2_micros(p, n)
            if c.of_day and not 0 <= value <= <int64_t>86400000000:
                return self.beyond_day(p, n, index, log)
            w = put_long(w, in_unit(value, c.unit))
        elif op == OP_DATETIME2:
            value = <int64_t>big(p, 5) - <int64_t>0x8000000000
            if value < 0 or not remember_date(c, value >> 17, (value >> 22) // 13, (value >> 22) % 13, value >> 17 & 31):
                return 0
            micros = ((value >> 12 & 31) * 3600 + (value >> 6 & 63) * 60 + (value & 63)) * 1000000 + fraction_micros(p + 5, n - 5)
            w = put_long(w, in_unit(c.date_days * <int64_t>86400000000 + micros, c.unit))
        elif op == OP_TIMESTAMP2:
            value = <int64_t>big(p, 4)
            if value == 0:
                return 0
            seconds = value % 86400
            if value // 86400 != c.date:
                c.date = value // 86400
                civil_of(c.date, &year, &month, &day)
                date_text(c.date_text, year, month, day)
            micros = fraction_micros(p + 4, n - 4)
            w = put_zoned(w, c.date_text, seconds, micros if micros < 1000000 else 999999, c.fsp)
        elif op == OP_RESULT_DAYS or op == OP_RESULT_DATETIME or op == OP_RESULT_ZONED:
            if n == 0:
                return 0
            if n < 4:
                self.refuse_time(index)
            year = p[0] | p[1] << 8
            seconds = micros = 0
            if n >= 7:
                seconds = p[4] * 3600 + p[5] * 60 + p[6]
            if n >= 11:
                micros = <int64_t>little(p + 7, 4)
            if year > 9999 or seconds >= 100 * 3600 or micros > 999999:
                self.refuse_time(index)
            if not remember_date(c, <int64_t>little(p, 4) | FROM_RESULT, year, p[2], p[3]):
                return 0
            if op == OP_RESULT_DAYS:
                w = put_long(w, c.date_days)
            elif op == OP_RESULT_DATETIME:
                w = put_long(w, in_unit((c.date_days * 86400 + seconds) * 1000000 + micros, c.unit))
            else:
                w = put_zoned(w, c.date_text, seconds, micros, c.fsp)
        elif op == OP_RESULT_TIME:
            value = 0
            if n and (n < 8 or little(p + 1, 4) > 999 or (n >= 12 and little(p + 8, 4) > 999999)):
                self.refuse_time(index)
            if n >= 8:
                value = ((<int64_t>little(p + 1, 4) * 24 + p[5]) * 60 + p[6]) * 60 + p[7]
                value *= 1000000
                if n >= 12:
                    value += <int64_t>little(p + 8, 4)
                if p[0]:
                    value = -value
            if c.of_day and not 0 <= value <= <int64_t>86400000000:
                return self.beyond_day(p, n, index, log)
            w = put_long(w, in_unit(value, c.unit))
        elif op == OP_REVERSED:
            w = put_long(w, n)
            for i in range(n):
                w[i] = p[n - 1 - i]
            w += n
        elif op == OP_BYTES:
            w = put_long(w, max(n, c.pad))
            memcpy(w, p, n)
            w += n
            if n < c.pad:
                memset(w, 0, c.pad - n)
                w += c.pad - n
        elif op == OP_ONE_BYTE:
            if c.trim:
                while n and p[n - 1] == 32:
                    n -= 1
            total = 0
            for i in range(n):
                total += c.member_len[p[i]]
            w = put_long(w, total)
            for i in range(n):
                memcpy(w, c.members[p[i]], c.member_len[p[i]])
                w += c.member_len[p[i]]
        elif op == OP_ENUM:
            u = little(p, n)
            if u >= <uint64_t>c.members_count:
                self.refuse(p, n, index)
            memcpy(w, c.members[u], c.member_len[u])
            w += c.member_len[u]
        elif op == OP_SET:
            u = little(p, n)
            if c.members_count < 64 and u >> c.members_count:
                self.refuse(p, n, index)
            total = -1  # one comma fewer than members, even if a member is empty
            for i in range(c.members_count):
                if u >> i & 1:
                    total += c.member_len[i] + 1
            w = put_long(w, total if total > 0 else 0)
            total = 0
            for i in range(c.members_count):
                if u >> i & 1:
                    if total:
                        w[0] = 44
                        w += 1
                    total = 1
                    memcpy(w, c.members[i], c.member_len[i])
                    w += c.member_len[i]
        elif op == OP_JSON_BINARY or op == OP_JSON_TEXT:
            if not (json_of_binary(p, n, &document) if op == OP_JSON_BINARY else json_of_text(p, n, &document)):
                return self.put_called(c, p, n, b, index, log)
            if not room(b, self.fixed_max + document.len):
                raise MemoryError
            w = b.data + b.len
            if c.union:
                w[0] = c.some
                w += 1
            w = put_run(w, document.data, document.len)
        else:
            raise AssertionError(f"no operation {op}")
        b.len = w - b.data
        return 1

    cdef int put_called(self, Col* c, const uint8_t* p, Py_ssize_t n, Buf* b, Py_ssize_t index, bint log) except -1:
        """Append a field of a kind without an operation, by the dialect's reader and Avro's plain
        writer.
        """
        cdef Py_ssize_t size
        read = self.log_readers[index] if log else self.result_readers[index]
        value = read(PyBytes_FromStringAndSize(<char*>p, n))
        if value is None:
            return 0
        out = bytearray()
        self.writers[index](out, value)
        encoded = bytes(out)
        size = PyBytes_GET_SIZE(encoded)
        if not room(b, self.fixed_max + size):
            raise MemoryError
        if c.union:
            b.data[b.len] = c.some
            b.len += 1
        memcpy(b.data + b.len, PyBytes_AS_STRING(encoded), size)
        b.len += size
        return 1

    cdef int put_mended(self, Col* c, const uint8_t* p, Py_ssize_t n, Buf* b) except -1:
        """Append text that is not UTF-8 although its column claims it: broken bytes become U+FFFD,
        as in Java.
        """
        cdef Py_ssize_t size
        text = (<bytes>PyBytes_FromStringAndSize(<char*>p, n)).decode("utf-8", "replace")
        if c.trim:
            text = text.rstrip(" ")
        encoded = text.encode()
        size = PyBytes_GET_SIZE(encoded)
        if not room(b, self.fixed_max + size):
            raise MemoryError
        if c.union:
            b.data[b.len] = c.some
            b.len += 1
        b.len = put_run(b.data + b.len, PyBytes_AS_STRING(encoded), size) - b.data
        return 1

    cdef int refuse(self, const uint8_t* p, Py_ssize_t n, Py_ssize_t index) except -1:
        """Let the dialect's reader report what is wrong with a field."""
        self.image.log_reader(self.plan, self.column_at(index))(PyBytes_FromStringAndSize(<char*>p, n))
        raise AssertionError("the slow reader accepts what the fast one refuses")

    cdef int beyond_day(self, const uint8_t* p, Py_ssize_t n, Py_ssize_t index, bint log) except -1:
        """Return 0 for NULL, or let the dialect's reader raise its error."""
        reader = self.image.log_reader if log else self.image.result_reader
        if reader(self.plan, self.column_at(index))(PyBytes_FromStringAndSize(<char*>p, n)) is not None:
            raise AssertionError("the slow reader accepts what the fast one refuses")
        return 0

    cdef int refuse_time(self, Py_ssize_t index) except -1:
        raise DefiniteError(f"{self.plan.table.id}, column {self.plan.table.columns[self.column_at(index)].name}: the server sent a date that is none")

    cdef object short(self, Py_ssize_t index):
        return _truncated(self.plan, index)

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
        """Return whether both images have the same key."""
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

    cdef object key_text(self, Span* key):
        """Return the key as header text, by values, since this is rare."""
        cdef Py_ssize_t slot
        row = {}
        for slot, index in enumerate(self.plan.key):
            column = self.plan.columns[index]
            value = None
            if key[slot].raw != NULL:
                value = self.key_readers[slot](PyBytes_FromStringAndSize(<char*>key[slot].raw, key[slot].raw_len))
            if value is None and not column.key_schema.optional:
                value = column.zero
            row[column.name] = value
        return rowplan.key_text(self.plan, row).encode()

    # --- a rows event -----------------------------------------------------------------------------

    cdef const uint8_t* rows_start(self, uint8_t op, const uint8_t* p, const uint8_t* end, int version) except NULL:
        """Return the start of the rows, after the checks of image.rows_start."""
        cdef Py_ssize_t i, pass_
        cdef uint64_t width
        cdef Py_ssize_t extra
        cdef uint8_t want
        if end - p < 10:
            raise self.short(-1)
        if version == 0:
            version = 2 if p[9] == 0 else 1
        p += 8
        if version == 2:
            extra = p[0] | p[1] << 8
            extra = max(extra, 2)
            if end - p < extra:
                raise self.short(-1)
            p += extra
        if end - p < 1:
            raise self.short(-1)
        width = p[0]
        p += 1
        if width >= 0xFB:
            i = 2 if width == 0xFC else 3 if width == 0xFD else 8 if width == 0xFE else 0
            if i == 0 or end - p < i:
                raise self.short(-1)
            width = little(p, i)
            p += i
        if width != <uint64_t>self.count:
            raise rowplan.other_width(self.plan, width)
        for pass_ in range(2 if op == 117 else 1):
            if end - p < self.bitmap_len:
                raise self.short(-1)
            for i in range(self.bitmap_len):
                want = 0xFF
                if i == self.bitmap_len - 1 and self.count & 7:
                    want = (1 << (self.count & 7)) - 1
                if p[i] & want != want:
                    raise rowplan.partial_image(self.plan)
            p += self.bitmap_len
        return p

    cdef int64_t event(
        self, uint8_t op, const uint8_t* body, Py_ssize_t n, int version, int64_t skip_rows, Ctx* ctx, list keys, list values, dict headers
    ) except -1:
        """Append the records of a rows event; return the number of rows. On an error the lists are
        unchanged.
        """
        cdef const uint8_t* p
        cdef const uint8_t* end = body + n
        cdef int64_t row = 0
        cdef Py_ssize_t before_count = len(keys)
        self.total = ctx.total
        self.of_table = ctx.of_table
        self.left_out = 0
        self.lacks = 0
        if (op == 99 and self.skip_c) or (op == 117 and self.skip_u and self.skip_c and self.skip_d) or (op == 100 and self.skip_d):
            return 0
        self.enter()
        try:
            try:
                if version == 3:
                    raise rowplan.partial_image(self.plan)
                p = self.rows_start(op, body, end, version)
            except rowplan.PartialImageError:
                shortened = PyBytes_FromStringAndSize(<char*>body, n)
                whole = self.image.whole_rows(self.plan, chr(op), shortened, version=version or None)
                self.lacks = op == 117 and self.image.leaves_values_out(self.plan, shortened, version=version or None)
                body = <const uint8_t*>PyBytes_AS_STRING(whole)
                end = body + PyBytes_GET_SIZE(whole)
                p = self.rows_start(op, body, end, 2)
            self.begin(ctx, op)
            while p < end:
                self.rows.len = 0
                self.keys.len = 0
                if op == 99:
                    p = self.row_of_log(p, end, self.after_key)
                    if row >= skip_rows:
                        self.emit_create(row, keys, values)
                elif op == 117:
                    p = self.row_of_log(p, end, self.before_key)
                    self.emit_update(&p, end, row, row >= skip_rows, keys, values, headers)
                else:
                    p = self.row_of_log(p, end, self.before_key)
                    if row >= skip_rows:
                        self.emit_delete(row, self.rows.len, keys, values, headers, None)
                row += 1
                self.next_low(ctx.low + row)
        except BaseException:
            del keys[before_count:]
            del values[before_count:]
            for index in [i for i in headers if i >= before_count]:
                del headers[index]
            raise
        finally:
            self.busy = 0
        return max(row - skip_rows, 0) - self.left_out

    cdef inline int enter(self) except -1:
        """Mark the plan as in use. Another thread, which a reader in Python may let in, would write
        into the same buffers.
        """
        if self.busy:
            raise AssertionError("a row plan was called while it is at work: two threads share it")
        self.busy = 1
        return 0

    cdef inline int emit(self, object key, object value, list keys, list values) except -1:
        PyList_Append(keys, key)
        PyList_Append(values, value)
        if key is not None:
            self.out_bytes += PyBytes_GET_SIZE(key)
        if value is not None:
            self.out_bytes += PyBytes_GET_SIZE(value)
        return 0

    cdef int emit_create(self, int64_t row, list keys, list values) except -1:
        key = self.key_of(self.after_key, self.rows.data) if self.key_count else None
        self.emit(key, self.record(99, NULL, 0, self.rows.data, self.rows.len, row), keys, values)
        return 0

    cdef int emit_delete(self, int64_t row, Py_ssize_t before_len, list keys, list values, dict headers, object header) except -1:
        key = self.key_of(self.before_key, self.rows.data) if self.key_count else None
        if header is not None:
            headers[len(keys)] = header
        self.emit(key, self.record(100, self.rows.data, before_len, NULL, 0, row), keys, values)
        if self.tombstones and key is not None:
            if header is not None:
                headers[len(keys)] = header
            self.emit(key, None, keys, values)
        return 0

    cdef int emit_update(self, const uint8_t** p, const uint8_t* end, int64_t row, bint wanted, list keys, list values, dict headers) except -1:
        cdef Py_ssize_t before_len = self.rows.len
        cdef Py_ssize_t after_len
        p[0] = self.row_of_log(p[0], end, self.after_key)
        after_len = self.rows.len - before_len
        if not wanted:
            return 0
        if self.skip_unchanged and before_len == after_len and memcmp(self.rows.data, self.rows.data + before_len, before_len) == 0:
            self.out_unchanged += 1
            return 0
        if self.same_key():
            if self.skip_u:
                self.left_out += 1
                return 0
            key = self.key_of(self.after_key, self.rows.data) if self.key_count else None
            value = self.record(117, self.rows.data, before_len, self.rows.data + before_len, after_len, row)
            self.emit(key, value, keys, values)
            return 0
        if not self.skip_d:
            self.emit_delete(row, before_len, keys, values, headers, [(_NEW_KEY_HEADER, self.key_text(self.after_key))])
        if self.skip_c:
            return 0
        headers[len(keys)] = [(_OLD_KEY_HEADER, self.key_text(self.before_key))]
        key = self.key_of(self.after_key, self.rows.data)
        self.emit(key, self.record(99, NULL, 0, self.rows.data + before_len, after_len, row), keys, values)
        return 0

    # --- the contract's methods -------------------------------------------------------------------

    def encode_rows(self, str op not None, bytes body not None, context not None, *, version=None, Py_ssize_t skip_rows=0):
        """Encode the rows of an event; see rowplan.RowEncoder."""
        cdef Ctx ctx
        cdef list keys = [], values = []
        cdef dict headers = {}
        if op not in ("c", "u", "d"):
            raise AssertionError(f"no rows event has the operation {op}")
        held = _fill(&ctx, context)
        self.event(
            ord(op), <const uint8_t*>PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body), version or 0, skip_rows, &ctx, keys, values, headers
        )
        del held
        return keys, values, headers

    def encode_chunk(self, rows not None, context not None, dropped_keys not None, str op not None="r"):
        """Encode the rows of a chunk; see rowplan.RowEncoder."""
        cdef Ctx ctx
        cdef list keys = [], values = []
        cdef const uint8_t[::1] view = rows
        cdef const uint8_t* p
        cdef const uint8_t* end
        cdef const uint8_t* payload
        cdef Py_ssize_t n
        cdef int64_t dropped = 0
        cdef uint64_t digest = 0
        cdef bint any_dropped = bool(dropped_keys)
        cdef int64_t row = 0
        cdef uint8_t code
        cdef Buf joined
        if op not in ("r", "c", "u"):
            raise AssertionError(f"rows that were read are no operation {op}")
        code = ord(op)
        if view.shape[0] == 0:
            return keys, values, 0, 0
        held = _fill(&ctx, context)
        memset(&joined, 0, sizeof(joined))
        p = &view[0]
        end = p + view.shape[0]
        self.enter()
        try:
            self.total = ctx.total
            self.of_table = ctx.of_table
            self.begin(&ctx, code)
            while p < end:
                p = next_payload(p, end, &payload, &n, &joined)
                if n == 0 or payload[0] != 0:
                    break
                self.rows.len = 0
                self.keys.len = 0
                self.row_of_result(payload, payload + n, self.after_key)
                digest += crc32_of(0, self.rows.data, self.rows.len)
                key = None
                if self.key_count:
                    key = self.key_of(self.after_key, self.rows.data)
                    if any_dropped and key in dropped_keys:
                        dropped += 1
                        continue
                self.emit(key, self.record(code, NULL, 0, self.rows.data, self.rows.len, row), keys, values)
                if code != 114:
                    row += 1
                    self.next_low(ctx.low + row)
        finally:
            self.busy = 0
            free(joined.data)
        del held
        return keys, values, dropped, digest

    def end_of_rows(self, rows not None, Py_ssize_t start, Py_ssize_t rows_max, Py_ssize_t bytes_max):
        """Return the offset after the next rows; see rowplan.RowEncoder."""
        cdef const uint8_t[::1] view = rows
        cdef Py_ssize_t size = view.shape[0], at = start, length
        while at < size:
            while True:
                if size - at < 4:
                    return size  # encode_chunk raises the error
                length = <Py_ssize_t>little(&view[at], 3)
                at += 4 + length
                if at >= size:
                    return size
                if length < 0xFFFFFF:
                    break
            rows_max -= 1
            if rows_max <= 0 or at - start >= bytes_max:
                return at
        return size

    def fingerprint_chunk(self, rows not None, dropped_keys not None):
        """Return fingerprints of a chunk's rows; see rowplan.RowEncoder."""
        cdef const uint8_t[::1] view = rows
        cdef const uint8_t* p
        cdef const uint8_t* end
        cdef const uint8_t* payload
        cdef Py_ssize_t n
        cdef int64_t dropped = 0
        cdef uint64_t digest = 0
        cdef bint any_dropped = bool(dropped_keys)
        cdef Py_ssize_t frame = PyBytes_GET_SIZE(self.key_prefix)
        cdef object key
        cdef Buf joined, out
        assert self.key_count, "rows without a key have no fingerprints"
        if view.shape[0] == 0:
            return b"", 0, 0
        memset(&joined, 0, sizeof(joined))
        memset(&out, 0, sizeof(out))
        p = &view[0]
        end = p + view.shape[0]
        self.enter()
        try:
            while p < end:
                p = next_payload(p, end, &payload, &n, &joined)
                if n == 0 or payload[0] != 0:
                    break
                self.rows.len = 0
                self.keys.len = 0
                self.row_of_result(payload, payload + n, self.after_key)
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
        finally:
            self.busy = 0
            free(joined.data)
            free(out.data)

    def check_table_map(self, bytes body not None):
        """Raise DefiniteError if the table map does not fit the plan; see rowplan.RowEncoder."""
        self.image.check_table_map(self.plan, body)


cdef inline uint8_t* plain(Col* c, int op, const uint8_t* p, uint8_t* w) noexcept nogil:
    """Write an included field of fixed width, all of whose checks are done."""
    cdef float single
    cdef double wide
    if c.union:
        w[0] = c.some
        w += 1
    if op == OP_S4:
        return put_long(w, <int32_t>(p[0] | p[1] << 8 | p[2] << 16 | <uint32_t>p[3] << 24))
    if op == OP_S8:
        return put_long(w, <int64_t>little(p, 8))
    if op == OP_S1:
        return put_long(w, <int8_t>p[0])
    if op == OP_U1:
        return put_long(w, p[0])
    if op == OP_S2:
        return put_long(w, <int16_t>(p[0] | p[1] << 8))
    if op == OP_U2:
        return put_long(w, p[0] | p[1] << 8)
    if op == OP_S3:
        return put_long(w, <int32_t>(p[0] << 8 | p[1] << 16 | <uint32_t>p[2] << 24) >> 8)
    if op == OP_U3:
        return put_long(w, p[0] | p[1] << 8 | p[2] << 16)
    if op == OP_U4:
        return put_long(w, <int64_t>(p[0] | p[1] << 8 | p[2] << 16 | <uint64_t>p[3] << 24))
    if op == OP_COPY8:
        memcpy(w, p, 8)
        return w + 8
    if op == OP_COPY4:
        memcpy(w, p, 4)
        return w + 4
    memcpy(&single, p, 4)  # OP_WIDEN
    wide = single
    memcpy(w, &wide, 8)
    return w + 8


cdef inline bint remember_date(Col* c, int64_t key, int64_t year, int64_t month, int64_t day) noexcept nogil:
    """Note days and text of a date for the next row; return 0 for an impossible date. ``key`` is
    the date as the source writes it.
    """
    if key == c.date:
        return 1
    if not possible_day(year, month, day):
        return 0
    if c.adjust_years and year < 100:
        year += 2000 if year < 70 else 1900
    c.date = key
    c.date_days = days_of(year, month, day)
    date_text(c.date_text, year, month, day)
    return 1


cdef const uint8_t* next_payload(const uint8_t* p, const uint8_t* end, const uint8_t** payload, Py_ssize_t* n, Buf* joined) except NULL:
    """Set the payload of the next row, joined if it spans packets; return the start of the packet
    after it.
    """
    cdef Py_ssize_t length
    cdef bint first = 1
    joined.len = 0
    while True:
        if end - p < 4:
            raise DefiniteError("the rows of a chunk end inside a packet" if first else "the rows of a chunk end inside a row")
        length = <Py_ssize_t>little(p, 3)
        p += 4
        if end - p < length:
            raise DefiniteError("the rows of a chunk end inside a packet")
        if first and length < 0xFFFFFF:
            payload[0] = p
            n[0] = length
            return p + length
        first = 0
        if not room(joined, length):
            raise MemoryError
        memcpy(joined.data + joined.len, p, length)
        joined.len += length
        p += length
        if length < 0xFFFFFF:
            payload[0] = joined.data
            n[0] = joined.len
            return p


cdef inline int64_t fraction_micros(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Return the microseconds of a big-endian fraction of 0 to 3 bytes."""
    if n == 0:
        return 0
    if n == 1:
        return p[0] * 10000
    if n == 2:
        return (p[0] << 8 | p[1]) * 100
    return p[0] << 16 | p[1] << 8 | p[2]


cdef inline int64_t time2_micros(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Return the microseconds of a TIME2. The whole field with its fraction is one number with an
    offset.
    """
    cdef Py_ssize_t extra = n - 3
    cdef int64_t packed = <int64_t>big(p, n) - (<int64_t>0x800000 << (8 * extra))
    cdef int64_t sign = 1
    cdef int64_t seconds, fraction
    if packed < 0:
        sign = -1
        packed = -packed
    seconds = packed >> (8 * extra)
    fraction = packed & ((<int64_t>1 << (8 * extra)) - 1)
    seconds = (seconds >> 12 & 0x3FF) * 3600 + (seconds >> 6 & 63) * 60 + (seconds & 63)
    if extra == 1:
        fraction *= 10000
    elif extra == 2:
        fraction *= 100
    return sign * (seconds * 1000000 + fraction)


cdef tuple _fill(Ctx* ctx, context):
    """Fill ``ctx`` with C values of the context; return the objects that own their bytes."""
    file = context.file.encode()
    gtid = None if context.gtid is None else context.gtid.encode()
    query = None if context.query is None else context.query.encode()
    snapshot = None if context.snapshot is None else context.snapshot.encode()
    transaction = None if context.transaction is None else context.transaction.id.encode()
    memset(ctx, 0, sizeof(Ctx))
    ctx.file = PyBytes_AS_STRING(file)
    ctx.file_len = len(file)
    if gtid is not None:
        ctx.gtid = PyBytes_AS_STRING(gtid)
        ctx.gtid_len = len(gtid)
    if query is not None:
        ctx.query = PyBytes_AS_STRING(query)
        ctx.query_len = len(query)
    if snapshot is not None:
        ctx.snapshot = PyBytes_AS_STRING(snapshot)
        ctx.snapshot_len = len(snapshot)
    if transaction is not None:
        ctx.transaction = PyBytes_AS_STRING(transaction)
        ctx.transaction_len = len(transaction)
        ctx.total = context.transaction.total
        ctx.of_table = context.transaction.of_table
    ctx.pos = context.pos
    ctx.server_id = context.server_id
    ctx.source_ts_us = context.source_ts_us
    ctx.now_us = context.now_us
    ctx.has_thread = context.thread is not None
    ctx.thread = context.thread or 0
    ctx.high = context.sequence_high
    ctx.low = context.sequence_low
    return file, gtid, query, snapshot, transaction


_CHARS = frozenset({"char", "nchar", "national char"})
_UNITS = {Form.MILLIS: 1000, Form.MICROS: 1, Form.NANOS: -1000}
_INT_OPS = {
    Source.INT8: (OP_S1, OP_U1),
    Source.INT16: (OP_S2, OP_U2),
    Source.INT24: (OP_S3, OP_U3),
    Source.INT32: (OP_S4, OP_U4),
    Source.INT64: (OP_S8, OP_S8),
}
_LOG_OPS = {
    (Source.FLOAT, Form.FLOAT32): OP_COPY4,
    (Source.FLOAT, Form.FLOAT64): OP_WIDEN,
    (Source.DOUBLE, Form.FLOAT64): OP_COPY8,
    (Source.DECIMAL, Form.DECIMAL): OP_PACKED_DECIMAL,
    (Source.YEAR, Form.INT): OP_YEAR,
    (Source.DATE, Form.DAYS): OP_DATE3,
    (Source.TIME, Form.MILLIS): OP_TIME2,
    (Source.TIME, Form.MICROS): OP_TIME2,
    (Source.TIME, Form.NANOS): OP_TIME2,
    (Source.DATETIME, Form.MILLIS): OP_DATETIME2,
    (Source.DATETIME, Form.MICROS): OP_DATETIME2,
    (Source.DATETIME, Form.NANOS): OP_DATETIME2,
    (Source.TIMESTAMP, Form.ZONED_TIMESTAMP): OP_TIMESTAMP2,
    (Source.BIT, Form.BITS): OP_REVERSED,
    (Source.BINARY, Form.BYTES): OP_BYTES,
    (Source.JSON, Form.TEXT): OP_JSON_BINARY,
}
_RESULT_OPS = {
    (Source.FLOAT, Form.FLOAT32): OP_COPY4,
    (Source.FLOAT, Form.FLOAT64): OP_WIDEN,
    (Source.DOUBLE, Form.FLOAT64): OP_COPY8,
    (Source.DECIMAL, Form.DECIMAL): OP_TEXT_DECIMAL,
    (Source.YEAR, Form.INT): OP_U2,
    (Source.DATE, Form.DAYS): OP_RESULT_DAYS,
    (Source.TIME, Form.MILLIS): OP_RESULT_TIME,
    (Source.TIME, Form.MICROS): OP_RESULT_TIME,
    (Source.TIME, Form.NANOS): OP_RESULT_TIME,
    (Source.DATETIME, Form.MILLIS): OP_RESULT_DATETIME,
    (Source.DATETIME, Form.MICROS): OP_RESULT_DATETIME,
    (Source.DATETIME, Form.NANOS): OP_RESULT_DATETIME,
    (Source.TIMESTAMP, Form.ZONED_TIMESTAMP): OP_RESULT_ZONED,
    (Source.BIT, Form.BITS): OP_REVERSED,
    (Source.BINARY, Form.BYTES): OP_BYTES,
    (Source.JSON, Form.TEXT): OP_JSON_TEXT,
    (Source.TEXT, Form.TEXT): OP_UTF8,
    (Source.ENUM, Form.TEXT): OP_UTF8,
    (Source.SET, Form.TEXT): OP_UTF8,
    (Source.UUID, Form.TEXT): OP_UTF8,
    (Source.INET4, Form.TEXT): OP_UTF8,
    (Source.INET6, Form.TEXT): OP_UTF8,
}
_RESULT_SIZES = {
    Source.INT8: 1,
    Source.INT16: 2,
    Source.YEAR: 2,
    Source.INT24: 4,
    Source.INT32: 4,
    Source.FLOAT: 4,
    Source.INT64: 8,
    Source.DOUBLE: 8,
    Source.DATE: -1,
    Source.TIME: -1,
    Source.DATETIME: -1,
    Source.TIMESTAMP: -1,
    Source.TIME_OLD: -1,
    Source.DATETIME_OLD: -1,
    Source.TIMESTAMP_OLD: -1,
}


cdef Py_ssize_t _result_size(source):
    """Return the bytes of a field in a binary result set: 0 for length-encoded, -1 for a packed
    time.
    """
    return _RESULT_SIZES.get(source, 0)


cdef int _result_op(column) except -1:
    source, form = column.source, column.form
    if source in _INT_OPS:
        if form in (Form.INT, Form.UNSIGNED_WRAPPED):
            return _INT_OPS[Source.INT32 if source == Source.INT24 else source][1 if column.unsigned else 0]
        if form == Form.BOOLEAN:
            return OP_TRUTH
        if source == Source.INT64 and form == Form.DECIMAL and column.unsigned:
            return OP_WIDE_UNSIGNED
        return OP_CALL
    if source == Source.BIT and form == Form.BOOLEAN:
        return OP_TRUTH
    return _RESULT_OPS.get((source, form), OP_CALL)


def _truncated(plan, index):
    where = str(plan.table.id) if index < 0 else f"{plan.table.id}, column {plan.table.columns[index].name}"
    return DefiniteError(f"{where}: a row ends too early; the known schema does not fit the data")


def _check_schemas(plan):
    """Assert the schema for which the parts of the envelope are laid out. Another one is a bug of
    the caller.
    """
    names = [f.name for f in plan.value_schema.fields]
    fields = {f.name: f.schema for f in plan.value_schema.fields}
    assert names == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"], names
    assert fields["source"] == source_schema(plan.connector), "an unknown source block"
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


def compile_plan(plan, image):
    """Return the fast encoder of a table version; ``image`` is the dialect's image module."""
    return FastPlan(plan, image)
