# JSON documents as one compact text, from MySQL's binary form (sql-common/json_binary.h) and from
# the text that the server prints.
#
# The common kinds of value are written here. Rare or damaged ones (dates and other opaque values,
# escapes by number, numbers with an exponent, text that is not UTF-8) return 0. Then the dialect's
# reader writes the whole document, or reports what is wrong with it.

from libc.stdio cimport snprintf

cdef extern from "Python.h":
    char* PyOS_double_to_string(double value, char format_code, int precision, int flags, int* kind) except NULL
    void PyMem_Free(void* p)
    int Py_DTSF_ADD_DOT_0

cdef Buf document  # a single buffer, written and copied out under the interpreter's lock

cdef enum:
    JSON_DEPTH_MAX = 120
    JSON_NUMBER_MAX = 400


cdef inline bint append(Buf* out, const void* p, Py_ssize_t n) except -1:
    if not room(out, n):
        raise MemoryError
    memcpy(out.data + out.len, p, n)
    out.len += n
    return 1


cdef inline bint append_byte(Buf* out, uint8_t byte) except -1:
    if not room(out, 1):
        raise MemoryError
    out.data[out.len] = byte
    out.len += 1
    return 1


cdef int append_integer(Buf* out, uint64_t value, bint negative) except -1:
    cdef char digits[24]
    cdef Py_ssize_t n = digits_of(value, digits)
    if negative:
        append_byte(out, 45)
    return append(out, digits, n)


cdef int append_double(Buf* out, double value) except -1:
    """Append ``Double.toString``, or the exact digits above its range; return 0 below it."""
    cdef char digits[JSON_NUMBER_MAX]
    cdef char* text
    cdef Py_ssize_t n
    if value == 0 or 1e-3 <= value < 1e7 or -1e7 < value <= -1e-3:
        text = PyOS_double_to_string(value, 114, 0, Py_DTSF_ADD_DOT_0, NULL)
        append(out, text, strlen(text))
        PyMem_Free(text)
        return 1
    if not (1e7 <= value < 1e300 or -1e300 < value <= -1e7):
        return 0
    # 2 ** 23 and more leave 29 binary places at most
    n = snprintf(digits, JSON_NUMBER_MAX, "%.32f", value)
    while digits[n - 1] == 48:
        n -= 1
    if digits[n - 1] == 46:
        n -= 1
    return append(out, digits, n)


cdef int append_quoted(Buf* out, const uint8_t* p, Py_ssize_t n) except -1:
    """Append a string, with the escapes that JSON requires."""
    cdef Py_ssize_t i
    cdef uint8_t byte
    cdef uint8_t* w
    if not room(out, 6 * n + 2):
        raise MemoryError
    w = out.data + out.len
    w[0] = 34
    w += 1
    for i in range(n):
        byte = p[i]
        if byte >= 32 and byte != 34 and byte != 92:
            w[0] = byte
            w += 1
            continue
        w[0] = 92
        if byte == 34 or byte == 92:
            w[1] = byte
        elif byte == 8:
            w[1] = 98
        elif byte == 9:
            w[1] = 116
        elif byte == 10:
            w[1] = 110
        elif byte == 12:
            w[1] = 102
        elif byte == 13:
            w[1] = 114
        else:
            memcpy(w + 1, b"u00", 3)
            w[4] = 48 + (byte >> 4)
            w[5] = 48 + (byte & 15) if byte & 15 < 10 else 55 + (byte & 15)
            w += 4
        w += 2
    w[0] = 34
    out.len = w + 1 - out.data
    return 1


cdef int append_packed_decimal(Buf* out, const uint8_t* p, Py_ssize_t n) except -1:
    """Append an opaque DECIMAL: precision, scale, and the server's packed digits
    (strings/decimal.cc).
    """
    cdef uint8_t packed[40]
    cdef char digits[JSON_NUMBER_MAX]
    cdef int precision, scale, whole, groups[4]
    cdef Py_ssize_t size, i, at = 0, used = 0, first
    cdef uint8_t flip
    cdef uint64_t value
    cdef int part, width, count
    if n < 3:
        return 0
    precision, scale = p[0], p[1]
    whole = precision - scale
    if precision > 65 or scale > 30 or whole < 0:
        return 0
    size = whole // 9 * 4 + DIGIT_BYTES[whole % 9] + scale // 9 * 4 + DIGIT_BYTES[scale % 9]
    if size == 0 or n - 2 < size or size > 40:
        return 0
    flip = 0 if p[2] & 0x80 else 0xFF
    for i in range(size):
        packed[i] = p[2 + i] ^ flip
    packed[0] ^= 0x80
    for part in range(2):
        count = whole if part == 0 else scale
        if part == 0 and count % 9:
            used += put_group(digits + used, big(packed + at, DIGIT_BYTES[count % 9]), count % 9)
            at += DIGIT_BYTES[count % 9]
        for i in range(count // 9):
            used += put_group(digits + used, big(packed + at, 4), 9)
            at += 4
        if part == 1 and count % 9:
            used += put_group(digits + used, big(packed + at, DIGIT_BYTES[count % 9]), count % 9)
            at += DIGIT_BYTES[count % 9]
    first = 0
    while first < whole - 1 and digits[first] == 48:
        first += 1
    if flip:
        for i in range(used):
            if digits[i] != 48:
                append_byte(out, 45)
                break
    if whole == 0:
        append_byte(out, 48)
    else:
        append(out, digits + first, whole - first)
    if scale:
        append_byte(out, 46)
        append(out, digits + whole, scale)
    return 1


cdef Py_ssize_t put_group(char* w, uint64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width - 1, -1, -1):
        w[i] = 48 + value % 10
        value //= 10
    return width


cdef int json_length(const uint8_t* raw, Py_ssize_t n, Py_ssize_t* at, Py_ssize_t* length) noexcept nogil:
    """Read a length of seven bits a byte, lowest first; return 0 if it exceeds the document."""
    cdef int shift = 0
    length[0] = 0
    while shift < 35 and at[0] < n:
        length[0] |= <Py_ssize_t>(raw[at[0]] & 0x7F) << shift
        at[0] += 1
        if raw[at[0] - 1] < 0x80:
            return length[0] <= n - at[0]
        shift += 7
    return 0


cdef int json_scalar(const uint8_t* raw, Py_ssize_t n, int kind, Py_ssize_t at, Buf* out) except -1:
    cdef Py_ssize_t width
    cdef int64_t number
    cdef uint64_t bits
    cdef double value
    if kind == 4:
        if at >= n or raw[at] > 2:
            return 0
        if raw[at] == 0:
            return append(out, b"null", 4)
        return append(out, b"true", 4) if raw[at] == 1 else append(out, b"false", 5)
    width = 2 if kind <= 6 else 4 if kind <= 8 else 8
    if kind < 5 or kind > 11 or n - at < width:
        return 0
    bits = little(raw + at, width)
    if kind == 11:
        memcpy(&value, raw + at, 8)
        return append_double(out, value)
    if kind == 6 or kind == 8 or kind == 10:
        return append_integer(out, bits, 0)
    number = <int16_t>bits if kind == 5 else <int32_t>bits if kind == 7 else <int64_t>bits
    return append_integer(out, <uint64_t>number if number >= 0 else 0 - <uint64_t>number, number < 0)


cdef int json_value(const uint8_t* raw, Py_ssize_t n, int kind, Py_ssize_t at, Buf* out, int depth) except -1:
    cdef Py_ssize_t length, start = at + 1
    if at >= n:
        return 0
    if kind <= 3:
        return json_container(raw, n, kind, at, out, depth + 1)
    if kind == 12:
        if not json_length(raw, n, &at, &length):
            return 0
        return append_quoted(out, raw + at, length)
    if kind == 15:
        if raw[at] != 246 or not json_length(raw, n, &start, &length):
            return 0
        return append_packed_decimal(out, raw + start, length)
    return json_scalar(raw, n, kind, at, out)


cdef int json_container(const uint8_t* raw, Py_ssize_t n, int kind, Py_ssize_t start, Buf* out, int depth) except -1:
    """Append an object or array. It consists of counts, key entries, value entries, keys and
    values; offsets count from ``start``.
    """
    cdef Py_ssize_t width = 4 if kind & 1 else 2
    cdef bint is_object = kind < 2
    cdef Py_ssize_t count, size, keys, values, index, entry, at, length
    cdef int member
    # Offsets of a damaged document may form a loop.
    if depth > JSON_DEPTH_MAX or out.len > 64 * n + 4096 or n - start < 2 * width:
        return 0
    count = <Py_ssize_t>little(raw + start, width)
    size = <Py_ssize_t>little(raw + start + width, width)
    keys = start + 2 * width
    values = keys + (width + 2) * count if is_object else keys
    if size > n - start or values + (width + 1) * count > start + size:
        return 0
    append_byte(out, 123 if is_object else 91)
    for index in range(count):
        if index:
            append_byte(out, 44)
        if is_object:
            entry = keys + (width + 2) * index
            at = start + <Py_ssize_t>little(raw + entry, width)
            length = <Py_ssize_t>little(raw + entry + width, 2)
            if at > n or length > n - at:
                return 0
            append_quoted(out, raw + at, length)
            append_byte(out, 58)
        entry = values + (width + 1) * index
        member = raw[entry]
        if member == 4 or member == 5 or member == 6 or (width == 4 and (member == 7 or member == 8)):
            if not json_scalar(raw, n, member, entry + 1, out):
                return 0
        elif not json_value(raw, n, member, start + <Py_ssize_t>little(raw + entry + 1, width), out, depth):
            return 0
    return append_byte(out, 125 if is_object else 93)


cdef int json_of_binary(const uint8_t* raw, Py_ssize_t n, Buf* out) except -1:
    """Write the text of a binary document into ``out``; return 0 if the dialect's reader must do
    it.
    """
    out.len = 0
    if n == 0 or not json_value(raw, n, raw[0], 1, out, 0):
        return 0
    return utf8_valid(out.data, out.len)


cdef int json_of_text(const uint8_t* p, Py_ssize_t n, Buf* out) except -1:
    """Write the text of what the server prints into ``out``, without blanks, with strings and
    numbers unchanged; return 0 if the dialect's reader must do it.
    """
    cdef Py_ssize_t at = 0, start, point
    cdef uint8_t byte
    cdef bint zero
    out.len = 0
    if not room(out, n + 1):
        raise MemoryError
    if n and p[0] == 0:  # final already: see dialects/mysql/wire/json_kinds.py
        append(out, p + 1, n - 1)
        return out.len and utf8_valid(out.data, out.len)
    while at < n:
        byte = p[at]
        if byte == 32 or byte == 10 or byte == 13 or byte == 9:
            at += 1
            continue
        start = at
        if byte == 34:
            at += 1
            while at < n and p[at] != 34:
                if p[at] < 32:
                    return 0
                if p[at] == 92:
                    at += 1
                    if at >= n or memchr(b'"\\bfnrt', p[at], 7) == NULL:
                        return 0
                at += 1
            if at >= n or (at - start >= 12 and memcmp(p + start, b'"base64:type', 12) == 0):
                return 0
            at += 1
        elif byte == 45 or 48 <= byte <= 57:
            at += byte == 45
            start = at
            while at < n and 48 <= p[at] <= 57:
                at += 1
            if at == start or (p[start] == 48 and at - start > 1):
                return 0
            if at < n and p[at] == 46:
                point = at
                at += 1
                while at < n and 48 <= p[at] <= 57:
                    at += 1
                if at == point + 1:
                    return 0
                # Where Double.toString has no exponent, a double's text is the server's; elsewhere
                # the reader decides.
                if point - start > 7:
                    return 0
                if p[start] == 48 and at - point > 3 and p[point + 1] == 48 and p[point + 2] == 48 and p[point + 3] == 48:
                    return 0
            if at < n and (p[at] == 101 or p[at] == 69):
                return 0
            start -= byte == 45
        elif byte == 123 or byte == 125 or byte == 91 or byte == 93 or byte == 44 or byte == 58:
            at += 1
        elif n - at >= 4 and (memcmp(p + at, b"true", 4) == 0 or memcmp(p + at, b"null", 4) == 0):
            at += 4
        elif n - at >= 5 and memcmp(p + at, b"false", 5) == 0:
            at += 5
        else:
            return 0
        memcpy(out.data + out.len, p + start, at - start)
        out.len += at - start
    return out.len and utf8_valid(out.data, out.len)


def json_texts(data not None):
    """Return both readings of the same bytes, None where the dialect's reader must decide; for
    tests.
    """
    cdef bytes raw = bytes(data)
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(raw)
    binary = (<bytes>document.data[:document.len]).decode() if json_of_binary(p, len(raw), &document) else None
    text = (<bytes>document.data[:document.len]).decode() if json_of_text(p, len(raw), &document) else None
    return binary, text


# --- documents whose text does not show everything ------------------------------------------------


cdef bint json_doubtful(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Return whether the server's text may hold a value of doubtful kind. Never false where
    dialects/mysql/wire/json_kinds.doubts finds one.
    """
    cdef Py_ssize_t at = 0, start, point, length
    while at < n:
        if p[at] == 34:
            at += 1
            start = at
            while at < n and p[at] != 34:
                at += 2 if p[at] == 92 else 1
            length = at - start
            at += 1
            if length == 26:
                if p[start + 4] == 45 and p[start + 10] == 32 and p[start + 19] == 46:
                    return True
            elif 15 <= length <= 17:
                if p[start + length - 7] == 46 and p[start + length - 10] == 58:
                    return True
            if length >= 12 and memcmp(p + start, b"base64:type", 11) == 0:
                return True
        elif 48 <= p[at] <= 57:
            start = at
            while at < n and 48 <= p[at] <= 57:
                at += 1
            if at < n and p[at] == 46:
                point = at
                at += 1
                while at < n and 48 <= p[at] <= 57:
                    at += 1
                # Within these bounds a double's text has no exponent in Java, and equals a
                # decimal's.
                if point - start > 7:
                    return True
                if p[start] == 48 and at - point > 3 and p[point + 1] == 48 and p[point + 2] == 48 and p[point + 3] == 48:
                    return True
        else:
            at += 1
    return False


def json_doubts(rows not None, bytes types not None):
    """Return the rows with doubtful values; the compiled form of
    dialects/mysql/wire/json_kinds.doubtful_rows.

    It may return rows without doubtful values: it returns every row that spans several packets.
    """
    cdef const uint8_t[::1] view = rows
    cdef const uint8_t* p
    cdef const uint8_t* kinds = <const uint8_t*>PyBytes_AS_STRING(types)
    cdef Py_ssize_t columns = len(types), size = view.shape[0], start = 0, at, end, length, number = 0, i
    cdef int code
    cdef bint doubtful
    found = []
    if size == 0:
        return found
    p = &view[0]
    while start < size:
        if size - start < 4:
            raise ValueError("rows end inside a packet")
        length = <Py_ssize_t>little(p + start, 3)
        end = start + 4 + length
        doubtful = length == 0xFFFFFF
        while length == 0xFFFFFF and size - end >= 4:
            length = <Py_ssize_t>little(p + end, 3)
            end += 4 + length
        if end > size:
            raise ValueError("rows end inside a packet")
        at = start + 5 + (columns + 9) // 8
        if not doubtful:
            for i in range(columns):
                if at > end:
                    raise ValueError("a row ends before its columns do")
                if p[start + 5 + ((i + 2) >> 3)] >> ((i + 2) & 7) & 1:
                    continue
                code = kinds[i]
                if code == 8 or code == 5:
                    at += 8
                elif code == 3 or code == 9 or code == 4:
                    at += 4
                elif code == 2 or code == 13:
                    at += 2
                elif code == 1:
                    at += 1
                else:
                    if at >= end:
                        raise ValueError("a row ends before its columns do")
                    length = p[at]
                    at += 1
                    if length >= 251:
                        code = 2 if length == 0xFC else 3 if length == 0xFD else 8
                        if code > end - at:
                            raise ValueError("a row ends before its columns do")
                        length = <Py_ssize_t>little(p + at, code)
                        at += code
                    if length < 0 or length > end - at:
                        raise ValueError("a row ends before its columns do")
                    if kinds[i] == 245 and json_doubtful(p + at, length):
                        doubtful = True
                        break
                    at += length
        if doubtful:
            found.append((number, start))
        number += 1
        start = end
    return found
