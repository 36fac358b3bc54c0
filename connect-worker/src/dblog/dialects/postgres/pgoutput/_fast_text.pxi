# Reads the server's texts as values, like values/fields.py, for the texts that a server normally
# writes.
#
# Nothing here uses a Python object. A text of another form (a year before Christ, an infinity, NaN,
# more digits than fit) is no error: the function returns 0 or NULL, and the caller uses the
# dialect's reader, which decides.

from libc.float cimport FLT_MAX

cdef extern from *:
    """
    typedef unsigned __int128 dblog_wide;
    static inline void dblog_multiply(uint64_t a, uint64_t b, uint64_t *high, uint64_t *low)
    {
        dblog_wide product = (dblog_wide)a * b;
        *high = (uint64_t)(product >> 64);
        *low = (uint64_t)product;
    }
    static inline int dblog_leading_zeros(uint64_t value) { return __builtin_clzll(value); }
    """
    void dblog_multiply(uint64_t a, uint64_t b, uint64_t* high, uint64_t* low) noexcept nogil
    int dblog_leading_zeros(uint64_t value) noexcept nogil

cdef enum:
    POWER_MAX = 300       # largest power of ten handled here
    LONG_DIGITS = 19      # decimal digits that always fit 64 bits
    LIMB_DIGITS = 76      # decimal digits that fit put_unscaled's limbs
    EXACT_POWER = 22      # largest power of ten that is an exact double

cdef struct Power:
    uint64_t high         # first 128 bits of 5 ** q, the first of which is set
    uint64_t low
    int exponent          # 10 ** q is (high * 2 ** 64 + low) * 2 ** exponent

cdef Power POWERS[2 * POWER_MAX + 1]
cdef double EXACT[EXACT_POWER + 1]
cdef uint8_t HEX[256]


cdef int _fill_powers() except -1:
    for q in range(-POWER_MAX, POWER_MAX + 1):
        power = 5 ** abs(q)
        if q >= 0:
            shift = power.bit_length() - 128
            bits = power >> shift if shift > 0 else power << -shift
        else:
            shift = -(power.bit_length() + 127)
            bits = (1 << -shift) // power
        assert bits.bit_length() == 128
        POWERS[q + POWER_MAX] = Power(bits >> 64, bits & 0xFFFFFFFFFFFFFFFF, shift + q)
    for q in range(EXACT_POWER + 1):
        EXACT[q] = float(10 ** q)
    return 0


cdef int _fill_hex() except -1:
    memset(HEX, 0xFF, 256)
    for digit in range(16):
        for letter in f"{digit:x}{digit:X}":
            HEX[ord(letter)] = <uint8_t>digit
    return 0


_fill_powers()
_fill_hex()


cdef inline bint int_of(const uint8_t* p, Py_ssize_t n, int64_t* out) noexcept nogil:
    """Read decimal digits, perhaps after a minus. Return 0 if they are anything else or do
    not fit.
    """
    cdef const uint8_t* end = p + n
    cdef uint64_t value = 0
    cdef uint8_t digit
    cdef bint negative = n > 0 and p[0] == 45
    p += negative
    if p == end or end - p > LONG_DIGITS:
        return 0
    while p < end:
        digit = p[0] - 48
        if digit > 9:
            return 0
        value = value * 10 + digit
        p += 1
    if value > <uint64_t>0x7FFFFFFFFFFFFFFF:
        return 0
    out[0] = -<int64_t>value if negative else <int64_t>value
    return 1


cdef inline bint double_of(const uint8_t* p, Py_ssize_t n, double* out) noexcept nogil:
    """Read a decimal number, perhaps with an exponent, as the nearest double. Return 0 for another
    text, and if this arithmetic cannot decide which double is nearest.

    A number of few digits needs one exact division or multiplication (Clinger, "How to Read
    Floating Point Numbers Accurately", 1990). Others are a 128-bit product with a truncated power.
    The true value lies less than two units of the last place above it. So if both ends of that
    range round to the same double, that is the result (the idea of Lemire, "Number Parsing at a
    Gigabyte per Second", 2021).
    """
    cdef const uint8_t* end = p + n
    cdef uint64_t digits = 0, high, low, more_high, more_low, mantissa, rest, half, bits
    cdef int count = 0, power = 0, exponent = 0, zeros, drop
    cdef uint8_t digit
    cdef Power* five
    cdef bint negative = n > 0 and p[0] == 45, point = 0, below, any_digit = 0
    p += negative
    while p < end:
        digit = p[0] - 48
        if digit <= 9:
            any_digit = 1
            if digits or digit:
                count += 1
                if count > LONG_DIGITS:
                    return 0
                digits = digits * 10 + digit
            power -= point
        elif p[0] == 46 and not point:
            point = 1
        else:
            break
        p += 1
    if not any_digit:
        return 0
    if p < end:
        if p[0] != 101 or end - p < 2 or end - p > 6:  # e
            return 0
        p += 1
        below = p[0] == 45
        if p[0] == 45 or p[0] == 43:
            p += 1
        if p == end:
            return 0
        while p < end:
            digit = p[0] - 48
            if digit > 9:
                return 0
            exponent = exponent * 10 + digit
            p += 1
        power += -exponent if below else exponent
    if digits <= <uint64_t>1 << 53 and -EXACT_POWER <= power <= EXACT_POWER:
        out[0] = <double>digits / EXACT[-power] if power < 0 else <double>digits * EXACT[power]
        if negative:
            out[0] = -out[0]
        return 1
    if digits == 0 or power < -POWER_MAX or power > POWER_MAX:
        return 0
    five = &POWERS[power + POWER_MAX]
    zeros = dblog_leading_zeros(digits)
    digits <<= zeros
    dblog_multiply(digits, five.high, &high, &low)
    dblog_multiply(digits, five.low, &more_high, &more_low)
    low += more_high
    high += low < more_high
    # The number is (high, low) * 2 ** (exponent + 64 - zeros), and a little more. The double takes
    # 53 bits of high.
    drop = 11 if high >> 63 else 10
    mantissa = high >> drop
    rest = high & ((<uint64_t>1 << drop) - 1)
    half = <uint64_t>1 << (drop - 1)
    if rest > half or (rest == half and low):
        mantissa += 1
    elif rest == half or (rest == half - 1 and low >= <uint64_t>0xFFFFFFFFFFFFFFFD):
        return 0
    exponent = five.exponent + 128 - zeros + drop + 1075
    if mantissa >> 53:
        mantissa >>= 1
        exponent += 1
    if exponent < 1 or exponent > 2046:
        return 0
    bits = (mantissa & ((<uint64_t>1 << 52) - 1)) | <uint64_t>exponent << 52 | <uint64_t>negative << 63
    memcpy(out, &bits, 8)
    return 1


cdef inline uint8_t* put_decimal(uint8_t* w, const uint8_t* p, Py_ssize_t n, int scale) noexcept nogil:
    """Write a plain decimal as an unscaled value of ``scale``, in Avro bytes. Return NULL for any
    other text, and for more digits than fit.
    """
    cdef const uint8_t* end = p + n
    cdef uint32_t limbs[LIMBS]
    cdef uint64_t small = 0
    cdef uint32_t group = 0
    cdef int digits = 0, decimals = 0, grouped = 0
    cdef bint negative = n > 0 and p[0] == 45, point = 0
    cdef uint8_t digit
    p += negative
    if end - p > LIMB_DIGITS + 1:
        return NULL
    if end - p + scale <= LONG_DIGITS - 1:  # a point may be among them
        while p < end:
            digit = p[0] - 48
            if digit <= 9:
                small = small * 10 + digit
                digits += 1
                decimals += point
            elif p[0] == 46 and not point:
                point = 1
            else:
                return NULL
            p += 1
        if digits == 0 or decimals > scale:
            return NULL
        while decimals < scale:
            small *= 10
            decimals += 1
        return put_unscaled_64(w, small, negative)
    memset(limbs, 0, sizeof(limbs))
    while p < end or decimals < scale:
        if p == end:
            digit = 0
            decimals += 1
        else:
            digit = p[0] - 48
            if digit > 9:
                if p[0] != 46 or point:
                    return NULL
                point = 1
                p += 1
                continue
            decimals += point
            p += 1
        digits += 1
        if digits > LIMB_DIGITS or decimals > scale:
            return NULL
        group = group * 10 + digit
        grouped += 1
        if grouped == 9:
            scale_add(limbs, TEN[9], group)
            group = grouped = 0
    if digits == 0:
        return NULL
    scale_add(limbs, TEN[grouped], group)
    return put_unscaled(w, limbs, negative)


cdef inline bint plain_decimal(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Return True for an ASCII text that begins like a number, which is then written unchanged."""
    cdef Py_ssize_t i, at = n > 0 and p[0] == 45
    cdef uint8_t seen = 0
    if at >= n or <uint8_t>(p[at] - 48) > 9:
        return 0
    for i in range(n):
        seen |= p[i]
    return seen < 0x80


cdef inline uint8_t* put_hex(uint8_t* w, const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Write the bytes after ``\\x`` as Avro bytes. Return NULL for any other text."""
    cdef Py_ssize_t i
    cdef uint8_t high, low, wrong = 0
    if n < 2 or n & 1 or p[0] != 92 or p[1] != 120:
        return NULL
    n = n // 2 - 1
    p += 2
    w = put_long(w, n)
    for i in range(n):
        high = HEX[p[2 * i]]
        low = HEX[p[2 * i + 1]]
        wrong |= high | low
        w[i] = <uint8_t>(high << 4 | (low & 15))
    return NULL if wrong & 0x80 else w + n


cdef struct Day:
    uint8_t text[11]      # text in a record, with the T that follows
    bint known
    int64_t number        # days since 1970-01-01


cdef inline int64_t two_of(const uint8_t* p) noexcept nogil:
    """Return a number of two digits, or a negative one if they are not digits."""
    cdef uint8_t tens = p[0] - 48, ones = p[1] - 48
    return tens * 10 + ones if tens <= 9 and ones <= 9 else -10000


cdef inline bint day_of(Day* day, const uint8_t* p) noexcept nogil:
    """Read the date in the next ten bytes into ``day``. It is kept, since neighbouring rows often
    have the same date.
    """
    cdef int64_t year, month, number
    if day.known and memcmp(day.text, p, 10) == 0:
        return 1
    if p[4] != 45 or p[7] != 45:
        return 0
    year = two_of(p) * 100 + two_of(p + 2)
    month = two_of(p + 5)
    number = two_of(p + 8)
    if year < 0 or not possible_day(year, month, number):
        return 0
    memcpy(day.text, p, 10)
    day.text[10] = 84
    day.number = days_of(year, month, number)
    day.known = 1
    return 1


cdef inline Py_ssize_t clock_of(const uint8_t* p, Py_ssize_t n, int64_t* seconds, int64_t* micros) noexcept nogil:
    """Return the length of a time such as ``23:59:59.999999``, or 0 for another text. Impossible
    times are accepted here as by the reader.
    """
    cdef int64_t hours, minutes
    cdef Py_ssize_t at = 8
    cdef int64_t fraction = 0
    cdef int unit = 100000
    cdef uint8_t digit
    if n < 8 or p[2] != 58 or p[5] != 58:
        return 0
    hours = two_of(p)
    minutes = two_of(p + 3)
    seconds[0] = two_of(p + 6)
    if hours < 0 or minutes < 0 or seconds[0] < 0:
        return 0
    seconds[0] += (hours * 60 + minutes) * 60
    if n > 9 and p[8] == 46:
        at = 9
        while at < n and unit:
            digit = p[at] - 48
            if digit > 9:
                break
            fraction += digit * unit
            unit //= 10
            at += 1
        if at == 9:
            return 0
    micros[0] = fraction
    return at
