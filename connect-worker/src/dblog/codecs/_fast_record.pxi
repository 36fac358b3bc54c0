# Parts that the compiled row plans of all dialects share: checksums and fingerprints, times in a
# record's unit, and the properties of a schema that affect bytes.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_Append, PyList_GET_SIZE, PyList_SetSlice

cdef extern from "../../../codecs/fast_crc32.h" nogil:
    void dblog_crc32_init()
    uint32_t dblog_crc32(uint32_t seed, const uint8_t* p, size_t n)

cdef extern from "../../../codecs/fast_md5.h" nogil:
    void dblog_md5_head(const uint8_t* p, size_t n, uint8_t* out)

dblog_crc32_init()


cdef inline uint32_t crc32_of(uint32_t seed, const uint8_t* p, Py_ssize_t n) noexcept nogil:
    return dblog_crc32(seed, p, n)


cdef inline int64_t floor_div(int64_t value, int64_t unit) noexcept nogil:
    """Return a quotient rounded toward the past, like Java's floorDiv and Python's //."""
    cdef int64_t q = value // unit
    return q - 1 if value % unit < 0 else q


cdef inline int64_t in_unit(int64_t micros, int64_t unit) noexcept nogil:
    """Return microseconds as milli-, micro- or nanoseconds. Nanoseconds outside of the years 1677
    to 2262 wrap, like a Java long.
    """
    if unit == 1:
        return micros
    return floor_div(micros, unit) if unit > 0 else <int64_t>(<uint64_t>micros * <uint64_t>-unit)


cdef inline Py_ssize_t signed_digits(int64_t value, char* out) noexcept nogil:
    """Write decimal digits with a sign and return their number."""
    if value >= 0:
        return digits_of(<uint64_t>value, out)
    out[0] = 45
    return 1 + digits_of(<uint64_t>0 - <uint64_t>value, out + 1)


_STRING = Schema(kind=Kind.STRING)
_NEW_KEY_HEADER = rowplan.NEW_KEY_HEADER
_OLD_KEY_HEADER = rowplan.OLD_KEY_HEADER


def _branches(schema):
    """Return the union bytes of (null, value)."""
    assert schema.optional
    return (2, 0) if avro.null_branch(schema) else (0, 2)


def _rewriting(read, rewrite):
    """Return a reader whose value is masked, hashed or truncated."""
    if rewrite is None:
        return read

    def rewritten(raw):
        value = read(raw)
        return None if value is None else rewrite(value)

    return rewritten
