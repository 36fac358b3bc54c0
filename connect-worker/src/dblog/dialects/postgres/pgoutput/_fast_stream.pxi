# Copy messages of transactions that are sent before they end: finds where their pieces begin and
# end, and rewrites them without their transaction's number. See ``streamed.py``.


cdef inline uint8_t _letter(const uint8_t* p, Py_ssize_t n) noexcept:
    """Return the letter of the log's message in a copy message; 0 if it has none."""
    return p[XLOG_DATA] if n > XLOG_DATA and p[0] == 119 else 0


def next_border(bytes data not None, Py_ssize_t at):
    """Return (start, end, letter) of the next copy message from ``at`` on that begins or ends a
    piece of a transaction under way, or ends such a transaction (S, E, c, A). Return (the end, the
    end, 0) if there is none. ``start`` is the place of the message's length.
    """
    cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), n
    cdef uint8_t letter
    while at < size:
        if size - at < LENGTH or size - at - LENGTH < <Py_ssize_t>little(base + at, LENGTH):
            raise DamagedLogError("a copy message is cut off")
        n = <Py_ssize_t>little(base + at, LENGTH)
        letter = _letter(base + at + LENGTH, n)
        if letter == 83 or letter == 69 or letter == 99 or letter == 65:  # S, E, c, A
            return at, at + LENGTH + n, letter
        at += LENGTH + n
    return size, size, 0


def of_transaction(bytes data not None, frozenset aborted not None, dict unshown not None):
    """Return the copy messages of a piece as they would be in a transaction that is sent whole:
    without the number in each, without messages of the subtransactions in ``aborted``, and without
    keepalives.

    The server describes a table once, even if that happens in a subtransaction that is rolled back.
    So the Relation message of a rolled-back subtransaction waits in ``unshown``, by the table's
    number, until a row or a TRUNCATE of this or a later transaction needs it. Until then it has no
    meaning, because the change that it describes may have been rolled back too.
    """
    cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), at = 0, n
    cdef const uint8_t* p
    cdef uint8_t letter
    cdef uint32_t number
    cdef Buf out
    memset(&out, 0, sizeof(Buf))
    try:
        while at < size:
            n = <Py_ssize_t>little(base + at, LENGTH)
            p = base + at + LENGTH
            letter = _letter(p, n)
            at += LENGTH + n
            if letter == 0:
                continue
            if letter == 79:  # O has no number
                _copy(&out, p, n)
                continue
            if n < XLOG_DATA + ROW:
                raise DamagedLogError("a message of a transaction under way is cut off")
            number = <uint32_t>big(p + XLOG_DATA + ROW, 4) if n >= XLOG_DATA + ROW + 4 else 0
            if aborted and <uint32_t>big(p + XLOG_DATA + 1, 4) in aborted:
                if letter == 82:  # R
                    unshown[number] = PyBytes_FromStringAndSize(<char*>p, n)
                continue
            if unshown:
                if letter == 82:
                    unshown.pop(number, None)
                elif letter == 84 or letter == 73 or letter == 85 or letter == 68:
                    _show_for(&out, unshown, letter, p + XLOG_DATA + ROW, n - XLOG_DATA - ROW)
            _write(&out, p, n, 4)
        return PyBytes_FromStringAndSize(<char*>out.data, out.len) if out.len else b""
    finally:
        free(out.data)


cdef int _show(Buf* out, dict unshown, uint32_t number) except -1:
    """Write the waiting Relation message of a table."""
    cdef bytes message = unshown.pop(number)
    _write(out, <const uint8_t*>PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message), 4)
    return 0


cdef int _copy(Buf* out, const uint8_t* p, Py_ssize_t n) except -1:
    """Write a copy message unchanged, after its length. A keepalive is shorter than a message of
    the log.
    """
    cdef uint8_t* w
    if not room(out, LENGTH + n):
        raise MemoryError
    w = out.data + out.len
    w[0] = n & 0xFF
    w[1] = n >> 8 & 0xFF
    w[2] = n >> 16 & 0xFF
    w[3] = n >> 24 & 0xFF
    memcpy(w + LENGTH, p, n)
    out.len += LENGTH + n
    return 0


cdef int _write(Buf* out, const uint8_t* p, Py_ssize_t n, Py_ssize_t left_out) except -1:
    """Write a copy message after its length, without ``left_out`` bytes after its letter."""
    cdef uint32_t shorter = <uint32_t>(n - left_out)
    cdef uint8_t* w
    if not room(out, LENGTH + n):
        raise MemoryError
    w = out.data + out.len
    w[0] = shorter & 0xFF
    w[1] = shorter >> 8 & 0xFF
    w[2] = shorter >> 16 & 0xFF
    w[3] = shorter >> 24
    memcpy(w + LENGTH, p, XLOG_DATA + 1)
    memcpy(w + LENGTH + XLOG_DATA + 1, p + XLOG_DATA + 1 + left_out, n - XLOG_DATA - 1 - left_out)
    out.len += LENGTH + n - left_out
    return 0


def with_unshown(bytes data not None, dict unshown not None):
    """Return copy messages of whole transactions, with each Relation message of ``unshown``
    inserted before the message that needs it.
    """
    cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), at = 0, n
    cdef const uint8_t* p
    cdef uint8_t letter
    cdef Buf out
    memset(&out, 0, sizeof(Buf))
    try:
        while at < size:
            n = <Py_ssize_t>little(base + at, LENGTH)
            p = base + at + LENGTH
            letter = _letter(p, n)
            at += LENGTH + n
            if unshown and n >= XLOG_DATA + ROW:
                if letter == 82:  # R
                    unshown.pop(<uint32_t>big(p + XLOG_DATA + 1, 4), None)
                elif letter == 84 or letter == 73 or letter == 85 or letter == 68:
                    _show_for(&out, unshown, letter, p + XLOG_DATA + 1, n - XLOG_DATA - 1)
            _copy(&out, p, n)
        return PyBytes_FromStringAndSize(<char*>out.data, out.len) if out.len else b""
    finally:
        free(out.data)


cdef int _show_for(Buf* out, dict unshown, uint8_t letter, const uint8_t* p, Py_ssize_t n) except -1:
    """Write the waiting Relation messages for the table of a row, or for those of a TRUNCATE, which
    may name several (count, flags, numbers).
    """
    cdef Py_ssize_t at = 0, count = 1
    cdef uint32_t number
    if letter == 84:
        at, count = 5, <Py_ssize_t>big(p, 4) if n >= 4 else 0
    while count and n >= at + 4:
        number = <uint32_t>big(p + at, 4)
        if number in unshown:
            _show(out, unshown, number)
        at += 4
        count -= 1
    return 0
