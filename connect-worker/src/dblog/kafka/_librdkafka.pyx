# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""A producer for whole batches: C code calls librdkafka once for each record, and reads its reports
once for each request.

confluent-kafka's ``produce`` creates Python objects for every record, its headers and its
acknowledgement, which costs several times as much as the rest of a record's path. This producer
calls the same library (confluent-kafka's own, found through its module) by its C interface: lists
of keys and values are handed over with the interpreter's lock released, and acknowledgements come
back as counts per batch. Everything else (consumers, admin, the offset producer) stays with
confluent-kafka. Source of the interface: librdkafka's rdkafka.h (rd_kafka_produceva,
rd_kafka_event_*).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, intptr_t
from libc.stdlib cimport free, malloc

from confluent_kafka import KafkaError, KafkaException, cimpl

from dblog.kafka.retriable import RETRIABLE

UNPROVED = "acknowledged without an offset, so it may be in no log"
# A broker may accept a new producer's second request after it refused the first one, for example
# while a partition gets its leader. When the first one is sent again, its sequence number is below
# what the broker has seen: the broker calls it a duplicate, and librdkafka a success.

cdef extern from "librdkafka.h" nogil:
    int RK_PRODUCER, RK_PURGE_QUEUE_AND_FLIGHT, RK_EVENT_DELIVERY, RK_EVENT_ERROR, RK_FATAL, RK_QUEUE_FULL
    ctypedef struct rk_message:
        int err
        void* topic
        size_t payload_size
        size_t key_size
        long long offset
        void* opaque
    ctypedef struct rk_api:
        void* (*conf_new)() noexcept nogil
        int (*conf_set)(void* conf, const char* name, const char* value, char* error, size_t error_size) noexcept nogil
        void (*conf_set_events)(void* conf, int events) noexcept nogil
        void (*conf_destroy)(void* conf) noexcept nogil
        void* (*create)(int type, void* conf, char* error, size_t error_size) noexcept nogil
        void (*destroy)(void* rk) noexcept nogil
        int (*outq_len)(void* rk) noexcept nogil
        int (*flush)(void* rk, int timeout_ms) noexcept nogil
        int (*purge)(void* rk, int flags) noexcept nogil
        int (*fatal_error)(void* rk, char* error, size_t error_size) noexcept nogil
        void* (*topic_new)(void* rk, const char* name, void* conf) noexcept nogil
        const char* (*topic_name)(void* topic) noexcept nogil
        void (*topic_destroy)(void* topic) noexcept nogil
        const char* (*err2str)(int error) noexcept nogil
        void* (*headers_new)(size_t count) noexcept nogil
        int (*header_add)(void* headers, const char* name, ssize_t name_size, const void* value, ssize_t value_size) noexcept nogil
        void (*headers_destroy)(void* headers) noexcept nogil
        void* (*headers_copy)(void* headers) noexcept nogil
        int (*detach_headers)(const rk_message* message, void** headers) noexcept nogil
        void* (*queue_get_main)(void* rk) noexcept nogil
        void* (*queue_poll)(void* queue, int timeout_ms) noexcept nogil
        void (*queue_destroy)(void* queue) noexcept nogil
        int (*event_type)(void* event) noexcept nogil
        size_t (*event_message_array)(void* event, const rk_message** messages, size_t size) noexcept nogil
        int (*event_error)(void* event) noexcept nogil
        const char* (*event_error_string)(void* event) noexcept nogil
        void (*event_destroy)(void* event) noexcept nogil
    const char* rk_load(rk_api* api, const char* path) noexcept
    int rk_produce(const rk_api* api, void* rk, void* topic, int32_t partition, const void* key, size_t key_size, const void* value,
                   size_t value_size, void* opaque, void* headers) noexcept

cdef rk_api api
cdef const char* missing = rk_load(&api, cimpl.__file__.encode())
if missing != NULL:
    raise ImportError(f"the librdkafka that confluent-kafka brings has no {missing.decode()}; install the confluent-kafka that pyproject.toml names")

cdef enum:
    ERROR_SIZE = 512
    SLICE = 512  # records whose addresses are taken before the interpreter's lock is released
    HEARD = 256  # messages taken from a delivery event at once
    CLOSE_TRIES = 100
    CLOSE_WAIT_MS = 100


cdef class RecordHeaders:
    """A record's headers in librdkafka's form."""

    cdef void* handle

    def __cinit__(self, headers):
        cdef bytes name, text
        self.handle = api.headers_new(len(headers))
        for header, value in headers:
            name = header.encode()
            if value is None:
                api.header_add(self.handle, name, len(name), NULL, 0)
            else:
                text = value
                api.header_add(self.handle, name, len(name), PyBytes_AS_STRING(text), len(text))

    def __dealloc__(self):
        if self.handle != NULL:
            api.headers_destroy(self.handle)


cdef class BatchProducer:
    """A librdkafka producer. Not safe for several threads at once.

    ``settings`` are librdkafka's, already as text. Raises KafkaException naming a setting that
    librdkafka does not accept. Without ``close``, undelivered records are dropped when the producer
    is garbage-collected.

    ``headers`` are those that most records carry. librdkafka wants separate headers for each
    record, and creating and freeing them takes longer than everything else it does for a small
    record. So they are created once and lent. librdkafka only reads a record's headers until it
    reports the record, and reports every accepted record exactly once; there the headers are taken
    back (rd_kafka_message_detach_headers) before it frees the record. No record may leave in
    another way: ``close`` purges and waits for the reports before it destroys the library's handle.
    ``lend`` gives the records of one tag other headers in the same way.
    """

    cdef void* rk
    cdef void* queue
    cdef dict topics
    cdef dict lent
    cdef RecordHeaders headers
    cdef public bint expects_offsets
    """True if acknowledgements have an offset, which proves that a broker has the record."""

    def __cinit__(self, dict settings not None, headers=()):
        cdef char error[ERROR_SIZE]
        cdef void* conf = api.conf_new()
        cdef bytes name, value
        self.topics = {}
        self.lent = {}
        self.headers = RecordHeaders(headers)
        self.expects_offsets = "0" not in (settings.get("acks"), settings.get("request.required.acks"))
        for key, given in settings.items():
            name, value = key.encode(), given.encode()
            if api.conf_set(conf, name, value, error, ERROR_SIZE) != 0:
                api.conf_destroy(conf)
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, error.decode("utf-8", "replace")))
        api.conf_set_events(conf, RK_EVENT_DELIVERY | RK_EVENT_ERROR)
        self.rk = api.create(RK_PRODUCER, conf, error, ERROR_SIZE)
        if self.rk == NULL:
            api.conf_destroy(conf)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, error.decode("utf-8", "replace")))
        self.queue = api.queue_get_main(self.rk)

    def __del__(self):
        # In __dealloc__ the lent headers of a collected cycle would already be freed, while records
        # under way still hold them.
        self.close()

    def close(self):
        """Drop undelivered records and end the producer. Safe to call again."""
        cdef void* rk = self.rk
        cdef int tries = 0
        if rk == NULL:
            return
        with nogil:
            api.purge(rk, RK_PURGE_QUEUE_AND_FLIGHT)
        while api.outq_len(rk) and tries < CLOSE_TRIES:
            tries += 1
            self.serve(CLOSE_WAIT_MS)
        self.rk = NULL
        if api.outq_len(rk):
            # Unreported records still hold lent headers. Leaking the handle is better than freeing
            # memory twice.
            Py_INCREF(self.headers)
            Py_INCREF(self.lent)
            return
        for topic in self.topics.values():
            api.topic_destroy(<void*><intptr_t>topic)
        self.topics.clear()
        api.queue_destroy(self.queue)
        with nogil:
            api.destroy(rk)

    def __len__(self):
        """Return the number of records and requests that are still out, with unserved events."""
        return api.outq_len(self.rk) if self.rk != NULL else 0

    def produce(self, str topic not None, int32_t partition, list keys not None, list values not None, Py_ssize_t start, Py_ssize_t stop,
                bint with_headers, intptr_t tag):
        """Hand over the records from ``start`` to ``stop``.

        Keys and values are bytes or None. ``partition`` -1 leaves the choice to the partitioner.
        ``tag`` comes back with the acknowledgements.

        Return (index after the last accepted record, error code). The code is 0 if all records were
        accepted and ``QUEUE_FULL`` if the rest must wait for ``serve``; otherwise it is the reason
        why the record at that index was refused.
        """
        cdef const char* key_starts[SLICE]
        cdef const char* value_starts[SLICE]
        cdef Py_ssize_t key_sizes[SLICE]
        cdef Py_ssize_t value_sizes[SLICE]
        cdef Py_ssize_t at = start, index, count
        cdef int code = 0
        cdef void* handle
        cdef void* lent = self.headers.handle if with_headers else NULL
        cdef void* of_most = NULL
        cdef void* of_others = NULL
        if self.rk == NULL:
            raise ValueError("the producer is closed")
        if self.lent and self._lent_to(tag, &of_most, &of_others):
            lent = of_most if with_headers else of_others
        if not 0 <= start <= stop <= len(keys) or stop > len(values):
            raise IndexError("records outside the lists")
        handle = self._topic(topic)
        while at < stop and code == 0:
            count = min(stop - at, <Py_ssize_t>SLICE)
            for index in range(count):
                point(keys[at + index], &key_starts[index], &key_sizes[index])
                point(values[at + index], &value_starts[index], &value_sizes[index])
            with nogil:  # the lists keep the bytes alive
                for index in range(count):
                    code = rk_produce(
                        &api, self.rk, handle, partition, key_starts[index], key_sizes[index], value_starts[index], value_sizes[index], <void*>tag, lent
                    )
                    if code != 0:
                        count = index
                        break
            at += count
        return at, code

    def lend(self, intptr_t tag, RecordHeaders of_most not None, RecordHeaders of_others not None):
        """Set the headers of this tag's records until ``take_back``.

        ``of_most`` replaces the common headers, ``of_others`` goes to records without them.
        """
        self.lent[tag] = (of_most, of_others)

    def take_back(self, intptr_t tag):
        """Release the headers lent to a tag, all of whose records have been reported."""
        self.lent.pop(tag, None)

    def produce_one(self, str topic not None, int32_t partition, object key, object value, list headers not None, intptr_t tag):
        """Hand over one record with its own headers. Return the error code, 0 if accepted."""
        cdef const char* key_start
        cdef const char* value_start
        cdef Py_ssize_t key_size, value_size
        cdef void* own
        cdef int code
        if self.rk == NULL:
            raise ValueError("the producer is closed")
        point(key, &key_start, &key_size)
        point(value, &value_start, &value_size)
        own = api.headers_copy(RecordHeaders(headers).handle)
        code = rk_produce(&api, self.rk, self._topic(topic), partition, key_start, key_size, value_start, value_size, <void*>tag, own)
        if code != 0:
            api.headers_destroy(own)
        return code

    def serve(self, int timeout_ms):
        """Wait up to ``timeout_ms`` for events, then process all there are.

        Return (acknowledged, failures, errors): counts of delivered records by tag; (tag, topic,
        KafkaError, bytes) of each failed record; a KafkaError for each problem with the brokers. A
        record is either acknowledged or failed, never both. # I1
        """
        cdef dict acknowledged = {}
        cdef list failures = [], errors = []
        cdef const rk_message* messages[HEARD]
        cdef size_t count, index
        cdef void* headers
        cdef void* of_most = NULL
        cdef void* of_others = NULL
        cdef intptr_t tag = 0, run = 0
        cdef void* event
        cdef int kind
        if self.rk == NULL:
            return acknowledged, failures, errors
        while True:
            with nogil:
                event = api.queue_poll(self.queue, timeout_ms)
            if event == NULL:
                break
            timeout_ms = 0
            try:
                kind = api.event_type(event)
                if kind == RK_EVENT_DELIVERY:
                    while True:
                        count = api.event_message_array(event, messages, HEARD)
                        if count == 0:
                            break
                        for index in range(count):
                            if <intptr_t>messages[index].opaque != tag:
                                if run:
                                    acknowledged[tag] = acknowledged.get(tag, 0) + run
                                tag, run = <intptr_t>messages[index].opaque, 0
                                of_most = of_others = NULL
                                if self.lent:
                                    self._lent_to(tag, &of_most, &of_others)
                            if api.detach_headers(messages[index], &headers) == 0 and headers != self.headers.handle:
                                if headers != of_most and headers != of_others:
                                    api.headers_destroy(headers)
                            if messages[index].err == 0 and (messages[index].offset >= 0 or not self.expects_offsets):
                                run += 1
                            elif messages[index].err == 0:
                                name = (<bytes>api.topic_name(messages[index].topic)).decode()
                                failures.append(
                                    (tag, name, KafkaError(KafkaError.DUPLICATE_SEQUENCE_NUMBER, UNPROVED, retriable=True), size_of(messages[index]))
                                )
                            else:
                                name = (<bytes>api.topic_name(messages[index].topic)).decode()
                                failures.append(
                                    (tag, name, self._error(messages[index].err, api.err2str(messages[index].err)), size_of(messages[index]))
                                )
                elif kind == RK_EVENT_ERROR:
                    errors.append(self._error(api.event_error(event), api.event_error_string(event)))
            finally:
                api.event_destroy(event)
        if run:
            acknowledged[tag] = acknowledged.get(tag, 0) + run
        return acknowledged, failures, errors

    def flush(self, int timeout_ms):
        """Send everything now and wait up to ``timeout_ms`` for delivery. ``serve`` reports it."""
        if self.rk != NULL:
            with nogil:
                api.flush(self.rk, timeout_ms)

    cdef bint _lent_to(self, intptr_t tag, void** of_most, void** of_others) except -1:
        cdef object pair = self.lent.get(tag)
        if pair is None:
            return False
        of_most[0] = (<RecordHeaders>pair[0]).handle
        of_others[0] = (<RecordHeaders>pair[1]).handle
        return True

    cdef void* _topic(self, str name) except NULL:
        cdef void* handle
        found = self.topics.get(name)
        if found is not None:
            return <void*><intptr_t>found
        handle = api.topic_new(self.rk, name.encode(), NULL)
        if handle == NULL:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"no producer can be made for topic {name}"))
        self.topics[name] = <intptr_t>handle
        return handle

    cdef object _error(self, int code, const char* text):
        cdef char reason[ERROR_SIZE]
        if code == RK_FATAL:  # stands for the producer's fatal error, which has the true reason
            code = api.fatal_error(self.rk, reason, ERROR_SIZE)
            return KafkaError(code, reason.decode("utf-8", "replace"), True)
        return KafkaError(code, text.decode("utf-8", "replace"), False, code in RETRIABLE)


QUEUE_FULL = RK_QUEUE_FULL


cdef inline size_t size_of(const rk_message* message) noexcept:
    return message.payload_size + message.key_size


cdef inline int point(object data, const char** start, Py_ssize_t* size) except -1:
    if data is None:
        start[0], size[0] = NULL, 0
        return 0
    if not isinstance(data, bytes):
        raise TypeError(f"keys and values are bytes or None, not {type(data).__name__}")
    start[0], size[0] = PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)
    return 0
