# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, embedsignature=True
"""The compiled hot path: rows to Avro records (FastPlan), the log's bytes to batches of them
(LogDecoder), result-set packets.

Results equal those of the reference implementations (rowplan.ReferencePlan,
decoder_reference.ReferenceLogDecoder) byte for byte; property tests compare them. Every length from
outside is checked by hand; no function that can fail is ``noexcept``. The parts are in five files:
``_fast_bytes.pxi`` (buffers, varints, calendar, decimals), ``_fast_record.pxi`` (shared by the
plans of all dialects), ``_fast_json.pxi`` (documents), ``_fast_plan.pxi`` (FastPlan) and
``_fast_log.pxi`` (LogDecoder).
"""

import dataclasses

from dblog.codecs import avro, envelope, rowplan
from dblog.codecs.plan import Form, Source
from dblog.codecs.rewrites import Mask
from dblog.codecs.schema import Kind, Schema
from dblog.dialects.mysql.binlog.row_image import leaves_values_out
from dblog.dialects.mysql.binlog.source_block import BinlogContext, source_schema
from dblog.errors import BadRowsError, DamagedLogError, DefiniteError, TransientError

include "../../../codecs/_fast_bytes.pxi"
include "../../../codecs/_fast_record.pxi"


def crc32(data not None, uint32_t seed=0):
    """Return zlib's crc32, for tests."""
    cdef const uint8_t[::1] view = data
    return dblog_crc32(seed, &view[0], view.shape[0]) if view.shape[0] else seed


def md5_head(data not None):
    """Return the first eight bytes of hashlib's md5, for tests."""
    cdef const uint8_t[::1] view = data
    cdef uint8_t out[8]
    dblog_md5_head(&view[0] if view.shape[0] else NULL, view.shape[0], out)
    return PyBytes_FromStringAndSize(<char*>out, 8)


include "_fast_json.pxi"
include "_fast_plan.pxi"


def scan_rows(buffer not None, Py_ssize_t start=0):
    """Walk binary result-set row packets from ``start`` to the EOF, OK or ERR packet that ends
    them.

    Return (complete, row count, start of the last row's packet or -1, end of the bytes used).
    Packets have their 4-byte headers. A row of several packets counts once, when all of it is
    there, so the caller may continue at the end when more bytes have arrived.

    Every binary row begins with a zero byte, so the end is recognised with and without
    CLIENT_DEPRECATE_EOF: a packet that begins with 0xFE is EOF or OK. After it ``complete`` is
    true, and the end lies after it; ``encode_chunk`` ignores such a packet. An ERR packet raises
    TransientError with the server's code: the statement was cut short, and a new one may succeed.
    """
    cdef const uint8_t[::1] view = buffer
    cdef const uint8_t* base
    cdef Py_ssize_t size = view.shape[0], at = start, end, length, last = -1
    cdef int64_t count = 0
    cdef uint8_t first
    if size == 0 or start >= size:
        return False, 0, -1, start
    if start < 0:
        raise ValueError("a start before the buffer")
    base = &view[0]
    while size - at >= 5:
        length = <Py_ssize_t>little(base + at, 3)
        first = base[at + 4]
        end = at + 4 + length
        if end > size:
            break
        if length == 0:
            raise DefiniteError("the server sent an empty packet among the rows of a result set")
        if first == 0xFF:
            code = little(base + at + 5, 2) if length >= 3 else 0
            raise TransientError(f"the server ended the rows of a statement with error {code}")
        if first == 0xFE:
            return True, count, last, end
        if first != 0:
            raise DefiniteError(f"the server sent a packet of kind {first} among binary rows")
        while length == 0xFFFFFF:
            if size - end < 4:
                return False, count, last, at
            length = <Py_ssize_t>little(base + end, 3)
            if end + 4 + length > size:
                return False, count, last, at
            end += 4 + length
        last = at
        count += 1
        at = end
    return False, count, last, at


include "_fast_log.pxi"
