# Foundations of the extension: a growing buffer, Avro's varint, UTF-8 checks, calendar and decimal
# arithmetic.
#
# Nothing here uses a Python object. A function that can fail reports it by its result (0 for a
# buffer that could not grow), and its caller raises the error.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset, strlen

cdef struct Buf:
    uint8_t* data
    Py_ssize_t len
    Py_ssize_t cap


cdef inline bint room(Buf* b, Py_ssize_t more) noexcept nogil:
    """Make room for ``more`` bytes after ``len``. Return 0 if there is no memory."""
    cdef Py_ssize_t cap
    cdef uint8_t* data
    if b.cap - b.len >= more:
        return 1
    cap = b.cap * 2
    if cap < b.len + more:
        cap = b.len + more + 256
    data = <uint8_t*>realloc(b.data, cap)
    if data == NULL:
        return 0
    b.data = data
    b.cap = cap
    return 1


cdef inline uint8_t* put_long(uint8_t* w, int64_t value) noexcept nogil:
    """Write Avro's zigzag varint of at most ten bytes."""
    cdef uint64_t u = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while u >= 0x80:
        w[0] = <uint8_t>(u | 0x80)
        w += 1
        u >>= 7
    w[0] = <uint8_t>u
    return w + 1


cdef inline void copy_short(uint8_t* w, const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Copy bytes that are mostly few: two copies of fixed size, which may overlap, need no call of
    memcpy.
    """
    if n > 32:
        memcpy(w, p, n)
    elif n >= 16:
        memcpy(w, p, 16)
        memcpy(w + n - 16, p + n - 16, 16)
    elif n >= 8:
        memcpy(w, p, 8)
        memcpy(w + n - 8, p + n - 8, 8)
    elif n >= 4:
        memcpy(w, p, 4)
        memcpy(w + n - 4, p + n - 4, 4)
    elif n:
        w[0] = p[0]
        w[n >> 1] = p[n >> 1]
        w[n - 1] = p[n - 1]


cdef inline uint8_t* put_run(uint8_t* w, const void* source, Py_ssize_t n) noexcept nogil:
    """Write a length and the bytes."""
    w = put_long(w, n)
    copy_short(w, <const uint8_t*>source, n)
    return w + n


cdef inline Py_ssize_t digits_of(uint64_t value, char* out) noexcept nogil:
    """Write at most 20 decimal digits and return their number."""
    cdef char reverse[20]
    cdef Py_ssize_t n = 0, i
    while True:
        reverse[n] = <char>(48 + value % 10)
        n += 1
        value //= 10
        if value == 0:
            break
    for i in range(n):
        out[i] = reverse[n - 1 - i]
    return n


cdef inline uint64_t little(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Return a little-endian number of up to eight bytes."""
    cdef uint64_t value = 0
    cdef Py_ssize_t i
    for i in range(n):
        value |= <uint64_t>p[i] << (8 * i)
    return value


cdef inline uint64_t big(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Return a big-endian number of up to eight bytes."""
    cdef uint64_t value = 0
    cdef Py_ssize_t i
    for i in range(n):
        value = value << 8 | p[i]
    return value


cdef inline bint utf8_valid(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Return True if the bytes are UTF-8 as defined by RFC 3629 (no surrogates, no overlong
    forms).
    """
    cdef const uint8_t* end = p + n
    cdef uint64_t word
    cdef uint8_t c
    while p < end:
        while end - p >= 8:
            memcpy(&word, p, 8)
            if word & <uint64_t>0x8080808080808080:
                break
            p += 8
        if p >= end:
            break
        c = p[0]
        if c < 0x80:
            p += 1
        elif c < 0xC2:
            return 0
        elif c < 0xE0:
            if end - p < 2 or (p[1] & 0xC0) != 0x80:
                return 0
            p += 2
        elif c < 0xF0:
            if end - p < 3 or (p[1] & 0xC0) != 0x80 or (p[2] & 0xC0) != 0x80:
                return 0
            if (c == 0xE0 and p[1] < 0xA0) or (c == 0xED and p[1] > 0x9F):
                return 0
            p += 3
        elif c < 0xF5:
            if end - p < 4 or (p[1] & 0xC0) != 0x80 or (p[2] & 0xC0) != 0x80 or (p[3] & 0xC0) != 0x80:
                return 0
            if (c == 0xF0 and p[1] < 0x90) or (c == 0xF4 and p[1] > 0x8F):
                return 0
            p += 4
        else:
            return 0
    return 1


# --- calendar --------------------------------------------------------------------------------------------------------

cdef inline bint possible_day(int64_t year, int64_t month, int64_t day) noexcept nogil:
    """Return True if the proleptic Gregorian calendar has the day. Year 0 is a leap year; the
    server has no years after 9999.
    """
    if year > 9999 or month < 1 or month > 12 or day < 1:
        return 0
    if month == 2:
        if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
            return day <= 29
        return day <= 28
    if month == 4 or month == 6 or month == 9 or month == 11:
        return day <= 30
    return day <= 31


cdef inline int64_t days_of(int64_t year, int64_t month, int64_t day) noexcept nogil:
    """Return the days since 1970-01-01, for years from 0 on (Hinnant, "chrono-Compatible Low-Level
    Date Algorithms").
    """
    cdef int64_t era, yoe, doy, doe
    if month <= 2:
        year -= 1
    era = (year if year >= 0 else year - 399) // 400
    yoe = year - era * 400
    doy = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    doe = yoe * 365 + yoe // 4 - yoe // 100 + doy
    return era * 146097 + doe - 719468


cdef inline void civil_of(int64_t days, int64_t* year, int64_t* month, int64_t* day) noexcept nogil:
    """Return the date of a number of days since 1970-01-01."""
    cdef int64_t era, doe, yoe, doy, mp
    days += 719468
    era = days // 146097
    doe = days - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day[0] = doy - (153 * mp + 2) // 5 + 1
    month[0] = mp + 3 if mp < 10 else mp - 9
    year[0] = yoe + era * 400 + (1 if month[0] <= 2 else 0)


cdef uint8_t TWO_DIGITS[200]


cdef int _fill_two_digits() except -1:
    cdef int i
    for i in range(100):
        TWO_DIGITS[2 * i] = <uint8_t>(48 + i // 10)
        TWO_DIGITS[2 * i + 1] = <uint8_t>(48 + i % 10)
    return 0


_fill_two_digits()


cdef inline uint8_t* put_two(uint8_t* w, uint32_t value) noexcept nogil:
    memcpy(w, TWO_DIGITS + 2 * value, 2)
    return w + 2


cdef inline void date_text(uint8_t* w, uint32_t year, uint32_t month, uint32_t day) noexcept nogil:
    """Write ``2018-06-20T``, eleven bytes."""
    w = put_two(w, year // 100)
    w = put_two(w, year % 100)
    w[0] = 45
    w = put_two(w + 1, month)
    w[0] = 45
    w = put_two(w + 1, day)
    w[0] = 84


cdef inline uint8_t* put_zoned(uint8_t* w, const uint8_t* date, uint32_t seconds, uint32_t micros, int fsp) noexcept nogil:
    """Write ``2018-06-20T13:37:03.123Z`` as an Avro string, from its first eleven bytes, with
    exactly fsp fraction digits.
    """
    cdef uint8_t fraction[6]
    cdef uint32_t minutes = seconds // 60
    w[0] = <uint8_t>(2 * (20 + (fsp + 1 if fsp else 0)))
    memcpy(w + 1, date, 11)
    w = put_two(w + 12, minutes // 60)
    w[0] = 58
    w = put_two(w + 1, minutes % 60)
    w[0] = 58
    w = put_two(w + 1, seconds % 60)
    if fsp:
        put_two(put_two(put_two(fraction, micros // 10000), micros // 100 % 100), micros % 100)
        w[0] = 46
        memcpy(w + 1, fraction, 6)  # there is room, and bytes after the digits are overwritten
        w += 1 + fsp
    w[0] = 90
    return w + 1


# --- decimals --------------------------------------------------------------------------------------------------------

cdef enum:
    LIMBS = 8

cdef uint32_t TEN[10]
TEN[:] = [1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000]

cdef int DIGIT_BYTES[10]
DIGIT_BYTES[:] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]


cdef inline void scale_add(uint32_t* limbs, uint32_t factor, uint32_t more) noexcept nogil:
    """Compute limbs = limbs * factor + more. 256 bits hold 65 digits, whatever the bytes of the
    groups are.
    """
    cdef uint64_t carry = more
    cdef int i
    for i in range(LIMBS):
        carry += <uint64_t>limbs[i] * factor
        limbs[i] = <uint32_t>carry
        carry >>= 32


cdef inline uint8_t* put_unscaled(uint8_t* w, uint32_t* limbs, bint negative) noexcept nogil:
    """Write the shortest big-endian two's complement (java.math.BigInteger.toByteArray) as Avro
    bytes, at most 34.
    """
    cdef uint8_t magnitude[4 * LIMBS + 1]
    cdef int i, first = 0
    cdef uint8_t flip = 0
    cdef bint zero = 1
    for i in range(LIMBS):
        if limbs[i]:
            zero = 0
    if negative and not zero:
        flip = 0xFF
        for i in range(LIMBS):  # the complement of m is the inverse of m - 1
            limbs[i] -= 1
            if limbs[i] != <uint32_t>0xFFFFFFFF:
                break
    magnitude[0] = 0
    for i in range(LIMBS):
        magnitude[4 * i + 1] = <uint8_t>(limbs[LIMBS - 1 - i] >> 24)
        magnitude[4 * i + 2] = <uint8_t>(limbs[LIMBS - 1 - i] >> 16)
        magnitude[4 * i + 3] = <uint8_t>(limbs[LIMBS - 1 - i] >> 8)
        magnitude[4 * i + 4] = <uint8_t>limbs[LIMBS - 1 - i]
    while first < 4 * LIMBS and magnitude[first] == 0 and magnitude[first + 1] < 0x80:
        first += 1
    w = put_long(w, 4 * LIMBS + 1 - first)
    for i in range(first, 4 * LIMBS + 1):
        w[0] = magnitude[i] ^ flip
        w += 1
    return w


cdef inline uint8_t* put_unscaled_64(uint8_t* w, uint64_t value, bint negative) noexcept nogil:
    """Write a magnitude of 64 bits like ``put_unscaled``."""
    cdef uint8_t flip = 0
    cdef int n = 1
    if negative and value:
        flip = 0xFF
        value -= 1
    while n < 8 and value >> (8 * n - 1):
        n += 1
    if n == 8 and value >> 63:
        w[0] = 18
        w[1] = flip
        w += 2
    else:
        w[0] = <uint8_t>(2 * n)
        w += 1
    while n:
        n -= 1
        w[0] = <uint8_t>(value >> (8 * n)) ^ flip
        w += 1
    return w


cdef inline uint8_t* put_packed_decimal(uint8_t* w, const uint8_t* p, int precision, int scale) noexcept nogil:
    """Write the unscaled value of a packed DECIMAL. The caller must have checked that all its bytes
    exist.
    """
    cdef uint32_t limbs[LIMBS]
    cdef int whole = precision - scale
    cdef uint32_t flip = 0 if p[0] & 0x80 else 0xFFFFFFFF
    cdef uint32_t top = 0x80000000
    cdef uint64_t small = 0
    cdef uint32_t group
    cdef int part, count, digits, size
    cdef bint narrow = precision <= 17
    if not narrow:
        memset(limbs, 0, sizeof(limbs))
    for part in range(4):
        if part == 0:
            digits = whole % 9
            count = 1
        elif part == 1:
            digits = 9
            count = whole // 9
        elif part == 2:
            digits = 9
            count = scale // 9
        else:
            digits = scale % 9
            count = 1
        if digits == 0:
            continue
        size = DIGIT_BYTES[digits]
        while count:
            count -= 1
            if size == 4:
                group = (<uint32_t>p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]) ^ flip ^ top
            elif size == 1:
                group = p[0] ^ (flip & 0xFF) ^ (top >> 24)
            elif size == 2:
                group = (p[0] << 8 | p[1]) ^ (flip & 0xFFFF) ^ (top >> 16)
            else:
                group = (p[0] << 16 | p[1] << 8 | p[2]) ^ (flip & 0xFFFFFF) ^ (top >> 8)
            top = 0
            p += size
            if narrow:
                small = small * TEN[digits] + group
            else:
                scale_add(limbs, TEN[digits], group)
    if narrow:
        return put_unscaled_64(w, small, flip != 0)
    return put_unscaled(w, limbs, flip != 0)


cdef inline uint8_t* put_text_decimal(uint8_t* w, const uint8_t* p, Py_ssize_t n, int scale) noexcept nogil:
    """Write the text ``-12.30`` of a decimal as an unscaled value of ``scale``. Return NULL if it
    is not a decimal of at most 70 digits.
    """
    cdef uint32_t limbs[LIMBS]
    cdef const uint8_t* end = p + n
    cdef bint negative = 0, fraction = 0
    cdef uint64_t small = 0
    cdef int digits = 0, decimals = 0
    memset(limbs, 0, sizeof(limbs))
    if p < end and (p[0] == 45 or p[0] == 43):
        negative = p[0] == 45
        p += 1
    if n == 0 or n > 72:
        return NULL
    while p < end:
        if p[0] == 46 and not fraction:
            fraction = 1
        elif 48 <= p[0] <= 57:
            if not fraction or decimals < scale:
                if digits < 18:
                    small = small * 10 + (p[0] - 48)
                else:
                    if digits == 18:
                        limbs[0] = <uint32_t>small
                        limbs[1] = <uint32_t>(small >> 32)
                    scale_add(limbs, 10, p[0] - 48)
                digits += 1
                decimals += fraction
        else:
            return NULL
        p += 1
    if digits == 0:
        return NULL
    while decimals < scale:
        if digits < 18:
            small *= 10
        else:
            if digits == 18:
                limbs[0] = <uint32_t>small
                limbs[1] = <uint32_t>(small >> 32)
            scale_add(limbs, 10, 0)
        digits += 1
        decimals += 1
    if digits <= 18:
        return put_unscaled_64(w, small, negative)
    return put_unscaled(w, limbs, negative)
