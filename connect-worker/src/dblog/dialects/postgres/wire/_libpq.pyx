# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""Copies data with libpq directly, without a Python object for each row and without the
interpreter's lock while it waits.

psycopg2 opens the connection (logins, TLS) and gives its PGconn pointer. The functions are looked
up in the very libpq that psycopg2 has loaded, because a second one could not use its connections.
Source of the rules: PostgreSQL manual, 34.10 "Functions Associated with the COPY Command".
"""

import psycopg2._psycopg

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uintptr_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, strcmp, strncpy, strstr

cdef extern from "dlfcn.h" nogil:
    void* dlopen(const char* name, int flags)
    void* dlsym(void* handle, const char* name)
    int RTLD_NOW
    int RTLD_NOLOAD

ctypedef int (*get_copy_data_f)(void*, char**, int) noexcept nogil
ctypedef int (*put_copy_data_f)(void*, const char*, int) noexcept nogil
ctypedef int (*of_connection_f)(void*) noexcept nogil
ctypedef void (*free_f)(void*) noexcept nogil
ctypedef const char* (*text_f)(void*) noexcept nogil
ctypedef void* (*exec_f)(void*, const char*, int, const void*, const void*, const void*, const void*, int) noexcept nogil
ctypedef void* (*get_result_f)(void*) noexcept nogil
ctypedef char* (*field_f)(void*, int) noexcept nogil
ctypedef void (*noticed_f)(void*, void*) noexcept nogil
ctypedef void* (*set_noticed_f)(void*, noticed_f, void*) noexcept nogil

cdef get_copy_data_f get_copy_data
cdef put_copy_data_f put_copy_data
cdef of_connection_f consume_input
cdef of_connection_f flush_output
cdef free_f free_memory
cdef free_f clear_result
cdef text_f error_message
cdef exec_f execute
cdef get_result_f get_result
cdef of_connection_f result_status
cdef field_f error_field
cdef set_noticed_f set_noticed

cdef int COPY_OUT = 3
cdef int FATAL_ERROR = 7
cdef int SQLSTATE = 67  # PG_DIAG_SQLSTATE, 'C'
cdef int PRIMARY = 77   # PG_DIAG_MESSAGE_PRIMARY, 'M'


cdef void* _symbol(void* library, const char* name) except NULL:
    cdef void* found = dlsym(library, name)
    if found == NULL:
        raise ImportError(f"psycopg2's libpq has no {name.decode()}")
    return found


cdef int _load() except -1:
    global get_copy_data, put_copy_data, consume_input, flush_output, free_memory, clear_result, error_message, execute, get_result
    global result_status, error_field, set_noticed
    path = psycopg2._psycopg.__file__.encode()
    cdef void* library = dlopen(path, RTLD_NOW | RTLD_NOLOAD)
    if library == NULL:
        raise ImportError("psycopg2's extension is not loaded")
    get_copy_data = <get_copy_data_f>_symbol(library, b"PQgetCopyData")
    put_copy_data = <put_copy_data_f>_symbol(library, b"PQputCopyData")
    consume_input = <of_connection_f>_symbol(library, b"PQconsumeInput")
    flush_output = <of_connection_f>_symbol(library, b"PQflush")
    free_memory = <free_f>_symbol(library, b"PQfreemem")
    clear_result = <free_f>_symbol(library, b"PQclear")
    error_message = <text_f>_symbol(library, b"PQerrorMessage")
    execute = <exec_f>_symbol(library, b"PQexecParams")
    get_result = <get_result_f>_symbol(library, b"PQgetResult")
    result_status = <of_connection_f>_symbol(library, b"PQresultStatus")
    error_field = <field_f>_symbol(library, b"PQresultErrorField")
    set_noticed = <set_noticed_f>_symbol(library, b"PQsetNoticeReceiver")
    return 0


_load()


class ServerError(Exception):
    """An error of the server, or of the connection if ``sqlstate`` is empty. ``primary`` is its
    first line.
    """

    def __init__(self, sqlstate, primary):
        super().__init__(sqlstate, primary)
        self.sqlstate = sqlstate
        self.primary = primary


class AlarmError(ServerError):
    """A notice for which an ``Alarm`` waits."""


cdef struct Bell:
    bint has_rung
    const char* state
    const char* word
    char primary[512]


cdef class Alarm:
    """A watch for a notice with this SQLSTATE and this word in its text, on a connection that
    ``received`` reads. Keep it as long as the connection.
    """

    cdef Bell bell
    cdef bytes state, word

    def __init__(self, uintptr_t connection, bytes state not None, bytes word not None):
        self.state, self.word = state, word
        self.bell.state = state
        self.bell.word = word
        set_noticed(<void*>connection, _noticed, &self.bell)


cdef void _noticed(void* to, void* result) noexcept nogil:
    cdef Bell* bell = <Bell*>to
    cdef char* state = error_field(result, SQLSTATE)
    cdef char* primary = error_field(result, PRIMARY)
    if bell.has_rung or state == NULL or primary == NULL or strcmp(state, bell.state) != 0 or strstr(primary, bell.word) == NULL:
        return
    strncpy(bell.primary, primary, 511)
    bell.has_rung = True


cdef struct Bytes:
    uint8_t* at
    Py_ssize_t n
    Py_ssize_t room


cdef inline int _add(Bytes* out, const void* data, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t room
    cdef uint8_t* moved
    if out.n + n > out.room:
        room = out.room * 2 + n + 65536
        moved = <uint8_t*>realloc(out.at, room)
        if moved == NULL:
            return -1
        out.at = moved
        out.room = room
    memcpy(out.at + out.n, data, n)
    out.n += n
    return 0


def received(uintptr_t connection, Py_ssize_t bytes_max, Alarm alarm=None):
    """Return (bytes, open): the copy messages that have arrived on a connection in COPY BOTH, each
    after its length (4 bytes, little-endian), and True if the server will send more.

    It stops after ``bytes_max`` bytes and never waits. Raise AlarmError when the notice has come
    and everything before it has been returned.
    """
    cdef void* conn = <void*>connection
    cdef Bytes out
    cdef char* row = NULL
    cdef int n = 0, state = 0
    cdef uint32_t length
    cdef bint consumed = False
    cdef Bell silent
    cdef Bell* bell = &silent
    silent.has_rung = False
    if alarm is not None:
        bell = &alarm.bell
    out.at = NULL
    out.n = 0
    out.room = 0
    with nogil:
        while out.n < bytes_max and not bell.has_rung:
            n = get_copy_data(conn, &row, 1)
            if n > 0 and bell.has_rung:  # before this message
                free_memory(row)
            elif n > 0:
                consumed = False
                length = <uint32_t>n
                state = _add(&out, &length, 4) or _add(&out, row, n)
                free_memory(row)
                if state:
                    break
            elif n == 0:
                if consumed:
                    break
                if not consume_input(conn):
                    n = -2
                    break
                consumed = True
            else:
                break
    try:
        if state:
            raise MemoryError
        if bell.has_rung and out.n == 0:
            raise AlarmError((<bytes>bell.state).decode(), _text(bell.primary))
        if n < 0 and out.n == 0:
            _raise_result(conn, "" if n == -1 else _text(error_message(conn)))
        return PyBytes_FromStringAndSize(<char*>out.at, out.n), n >= 0
    finally:
        free(out.at)


def send(uintptr_t connection, bytes message not None):
    """Put a copy message on a connection in COPY BOTH. Raise ServerError if the connection is
    lost.
    """
    cdef void* conn = <void*>connection
    cdef const char* p = message
    cdef int n = <int>len(message)
    cdef int done
    with nogil:
        done = put_copy_data(conn, p, n)
        if done == 1:
            done = flush_output(conn)
            done = -1 if done < 0 else 1
    if done != 1:
        raise ServerError("", _text(error_message(conn)))


def copied(uintptr_t connection, bytes statement not None, Py_ssize_t bytes_max):
    """Return (rows, number of rows, start of the last row or -1) of a ``COPY (...) TO STDOUT``.
    Rows beyond ``bytes_max`` (0: no limit) are dropped, but at least one is kept.

    It waits without the interpreter's lock, and another thread may shut the connection's socket
    down. Raise ServerError for every failure.
    """
    cdef void* conn = <void*>connection
    cdef const char* sql = statement
    cdef void* result
    cdef Bytes out
    cdef char* row = NULL
    cdef int n = 0, state = 0, status
    cdef Py_ssize_t count = 0, last = -1
    out.at = NULL
    out.n = 0
    out.room = 0
    with nogil:
        # The extended protocol accepts only one statement, whatever its text contains.
        result = execute(conn, sql, 0, NULL, NULL, NULL, NULL, 0)
        status = result_status(result)
    if status != COPY_OUT:
        _raise(result, conn)
    with nogil:
        clear_result(result)
        while True:
            n = get_copy_data(conn, &row, 0)
            if n <= 0:
                break
            if not state and (bytes_max == 0 or out.n <= bytes_max):
                last = out.n
                count += 1
                state = _add(&out, row, n)
            free_memory(row)
    try:
        if n == -2:
            raise ServerError("", _text(error_message(conn)))
        _end(conn)
        if state:
            raise MemoryError
        return PyBytes_FromStringAndSize(<char*>out.at, out.n), count, last
    finally:
        free(out.at)


cdef int _end(void* conn) except -1:
    """Take the results after the last row. An error among them is raised after all have been
    taken.
    """
    cdef void* result
    failed = None
    while True:
        with nogil:
            result = get_result(conn)
        if result == NULL:
            break
        if result_status(result) == FATAL_ERROR and failed is None:
            failed = _error(result, conn)
        clear_result(result)
    if failed is not None:
        raise failed
    return 0


cdef int _raise_result(void* conn, str why) except -1:
    """Raise the error that ended COPY BOTH. An error of the server waits to be taken even if rows
    came before it; otherwise the server ended the stream by itself. ``why`` is libpq's own reason,
    if it has one.
    """
    cdef void* result
    with nogil:
        result = get_result(conn)
    if result != NULL and result_status(result) != FATAL_ERROR:
        clear_result(result)
        result = NULL
    if result == NULL:
        raise ServerError("", why or "the server ended the stream")
    _raise(result, conn)
    return 0


cdef int _raise(void* result, void* conn) except -1:
    error = _error(result, conn) if result != NULL else ServerError("", _text(error_message(conn)))
    if result != NULL:
        clear_result(result)
    raise error


cdef object _error(void* result, void* conn):
    cdef char* state = error_field(result, SQLSTATE)
    cdef char* primary = error_field(result, PRIMARY)
    return ServerError(
        "" if state == NULL else (<bytes>state).decode("utf-8", "replace"),
        _text(error_message(conn)) if primary == NULL else (<bytes>primary).decode("utf-8", "replace"),
    )


cdef object _text(const char* message):
    if message == NULL:
        return ""
    return (<bytes>message).decode("utf-8", "replace").strip()
