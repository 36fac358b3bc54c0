# FastLogged stores the transactions that a run has read from the log, without a Python object for
# each.

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from dblog.dialects.postgres.pgoutput.visibility import RANGES_MAX, RECENT_MAX

cdef struct Commit:
    int64_t xid           # number with 64 bits
    int64_t high          # position in D7's numbers
    int64_t low
    PyObject* relations   # owned reference

cdef struct Xids:
    int64_t start
    int64_t end           # number after the last one


cdef class FastLogged:
    """The compiled form of ``visibility.Logged``. Only the log thread uses it."""

    cdef int64_t newest
    cdef set in_doubt
    cdef Commit* recent   # a ring
    cdef Py_ssize_t recent_max, first, count
    cdef Xids* old        # in order; adjacent ranges are joined
    cdef Py_ssize_t old_max, old_count, old_room
    cdef bint overflown

    def __cinit__(self):
        self.recent = NULL
        self.old = NULL

    def __init__(self, begin not None, *, Py_ssize_t recent_max=RECENT_MAX, Py_ssize_t ranges_max=RANGES_MAX):
        assert recent_max > 0 and self.recent == NULL
        self.newest = begin.xmax
        self.in_doubt = set(begin.under_way)
        self.recent_max = recent_max
        self.old_max = ranges_max
        self.recent = <Commit*>malloc(recent_max * sizeof(Commit))
        if self.recent == NULL:
            raise MemoryError

    def __dealloc__(self):
        while self.count:
            self.take_first()
        free(self.recent)
        free(self.old)

    def committed(self, uint32_t xid, position not None, frozenset relations not None):
        """Note that the log has the commit of a transaction; see visibility.Logged."""
        self.note(xid, position[0], position[1], relations)

    cdef int note(self, uint32_t xid, int64_t high, int64_t low, frozenset relations) except -1:
        cdef int64_t transaction = self.whole(xid)
        cdef Py_ssize_t at
        if self.in_doubt:
            self.in_doubt.discard(transaction)
        if self.count == self.recent_max:
            self.add(self.recent[self.first].xid)
            self.take_first()
        at = self.first + self.count
        if at >= self.recent_max:
            at -= self.recent_max
        Py_INCREF(relations)
        self.recent[at] = Commit(transaction, high, low, <PyObject*>relations)
        self.count += 1
        return 0

    cdef inline void take_first(self) noexcept:
        Py_DECREF(<object>self.recent[self.first].relations)
        self.first += 1
        if self.first == self.recent_max:
            self.first = 0
        self.count -= 1

    cdef inline int64_t whole(self, uint32_t xid) noexcept:
        """Return the 64-bit number that is nearest to the newest known one."""
        cdef int64_t found = self.newest >> 32 << 32 | <int64_t>xid
        cdef int64_t half = <int64_t>1 << 31
        if found > self.newest + half:
            found -= <int64_t>1 << 32
        elif found < self.newest - half:
            found += <int64_t>1 << 32
        self.newest = max(self.newest, found)
        return found

    def shows(self, shown not None, relation, low not None):
        """Return True if a chunk shows everything before ``low``; see visibility.Logged."""
        cdef int64_t xmin = shown.xmin, xmax = shown.xmax, low_high = low[0], low_low = low[1]
        cdef frozenset under_way = shown.under_way
        cdef Py_ssize_t i
        cdef Commit* one
        self.newest = max(self.newest, xmax)
        self.forget(xmin)
        if self.overflown or any([not shown.shows(doubtful) for doubtful in self.in_doubt]):
            return False
        if self.old_count and self.old[self.old_count - 1].end > xmax:
            return False
        for number in under_way:
            if self.is_old(number):
                return False
        for i in range(self.count):
            one = &self.recent[(self.first + i) % self.recent_max]
            if one.high > low_high or (one.high == low_high and one.low >= low_low):
                continue
            if one.xid < xmin or (one.xid < xmax and one.xid not in under_way):
                continue
            if relation is None or relation in <frozenset>one.relations:
                return False
        return True

    cdef int forget(self, int64_t xmin) except -1:
        """Drop transactions below ``xmin``, which every snapshot from now on shows."""
        cdef Py_ssize_t i, whole = 0, kept = self.count
        cdef Commit one
        self.in_doubt = {doubtful for doubtful in self.in_doubt if doubtful >= xmin}
        for i in range(kept):
            one = self.recent[self.first]
            if one.xid >= xmin:
                Py_INCREF(<object>one.relations)
            self.take_first()
            if one.xid >= xmin:
                self.recent[(self.first + self.count) % self.recent_max] = one
                self.count += 1
        while whole < self.old_count and self.old[whole].end <= xmin:
            whole += 1
        if whole:
            self.old_count -= whole
            memmove(self.old, self.old + whole, self.old_count * sizeof(Xids))
        if self.old_count == 0:
            self.overflown = 0
        return 0

    cdef Py_ssize_t begun(self, int64_t xid) noexcept:
        """Return the number of ranges that begin at or before ``xid``."""
        cdef Py_ssize_t low = 0, high = self.old_count, middle
        if high and self.old[high - 1].start <= xid:
            return high
        while low < high:
            middle = (low + high) // 2
            if self.old[middle].start <= xid:
                low = middle + 1
            else:
                high = middle
        return low

    cdef bint is_old(self, int64_t xid) noexcept:
        cdef Py_ssize_t at = self.begun(xid) - 1
        return at >= 0 and xid < self.old[at].end

    cdef int add(self, int64_t xid) except -1:
        """Add a transaction to the ranges of old ones."""
        cdef Py_ssize_t at = self.begun(xid)
        cdef bint joins_left = at > 0 and self.old[at - 1].end == xid
        cdef bint joins_right = at < self.old_count and self.old[at].start == xid + 1
        cdef Xids* more
        if at > 0 and xid < self.old[at - 1].end:
            return 0  # the log was read again
        if joins_left and joins_right:
            self.old[at - 1].end = self.old[at].end
            self.old_count -= 1
            memmove(&self.old[at], &self.old[at + 1], (self.old_count - at) * sizeof(Xids))
        elif joins_left:
            self.old[at - 1].end += 1
        elif joins_right:
            self.old[at].start -= 1
        elif self.old_count >= self.old_max:
            self.overflown = 1
        else:
            if self.old_count == self.old_room:
                more = <Xids*>realloc(self.old, (self.old_room * 2 + 64) * sizeof(Xids))
                if more == NULL:
                    raise MemoryError
                self.old = more
                self.old_room = self.old_room * 2 + 64
            memmove(&self.old[at + 1], &self.old[at], (self.old_count - at) * sizeof(Xids))
            self.old[at] = Xids(xid, xid + 1)
            self.old_count += 1
        return 0
