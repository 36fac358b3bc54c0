/* The part of librdkafka's C interface that _librdkafka.pyx calls, by pointer: the library is
 * confluent-kafka's, whose wheels contain no header. Layouts and numbers are librdkafka's
 * documented ABI (rdkafka.h), which only ever grows; the newest function here came with 1.6. */
#ifndef DBLOG_LIBRDKAFKA_H
#define DBLOG_LIBRDKAFKA_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

enum { RK_PRODUCER = 0, RK_COPY = 2, RK_PURGE_QUEUE_AND_FLIGHT = 3, RK_EVENT_DELIVERY = 0x1, RK_EVENT_ERROR = 0x8, RK_FATAL = -150, RK_QUEUE_FULL = -184 };
enum { RK_ARG_TOPIC = 2, RK_ARG_PARTITION = 3, RK_ARG_VALUE = 4, RK_ARG_KEY = 5, RK_ARG_OPAQUE = 6, RK_ARG_FLAGS = 7, RK_ARG_HEADERS = 10 };

typedef struct {
    int err;
    void *topic;
    int32_t partition;
    void *payload;
    size_t payload_size;
    void *key;
    size_t key_size;
    int64_t offset;
    void *opaque;
} rk_message;

typedef struct {
    int type;
    union {
        void *pointer;
        int number;
        int32_t number32;
        struct {
            void *start;
            size_t size;
        } memory;
        char padding[64];
    } is;
} rk_argument;

typedef struct {
    void *(*conf_new)(void);
    int (*conf_set)(void *conf, const char *name, const char *value, char *error, size_t error_size);
    void (*conf_set_events)(void *conf, int events);
    void (*conf_destroy)(void *conf);
    void *(*create)(int type, void *conf, char *error, size_t error_size);
    void (*destroy)(void *rk);
    int (*outq_len)(void *rk);
    int (*flush)(void *rk, int timeout_ms);
    int (*purge)(void *rk, int flags);
    int (*fatal_error)(void *rk, char *error, size_t error_size);
    void *(*topic_new)(void *rk, const char *name, void *conf);
    const char *(*topic_name)(void *topic);
    void (*topic_destroy)(void *topic);
    void *(*produceva)(void *rk, const rk_argument *arguments, size_t count);
    int (*error_code)(void *error);
    void (*error_destroy)(void *error);
    const char *(*err2str)(int error);
    void *(*headers_new)(size_t count);
    void *(*headers_copy)(void *headers);
    int (*header_add)(void *headers, const char *name, ssize_t name_size, const void *value, ssize_t value_size);
    void (*headers_destroy)(void *headers);
    int (*detach_headers)(const rk_message *message, void **headers);
    void *(*queue_get_main)(void *rk);
    void *(*queue_poll)(void *queue, int timeout_ms);
    void (*queue_destroy)(void *queue);
    int (*event_type)(void *event);
    size_t (*event_message_array)(void *event, const rk_message **messages, size_t size);
    int (*event_error)(void *event);
    const char *(*event_error_string)(void *event);
    void (*event_destroy)(void *event);
} rk_api;

/* Fill the table from the library that ``path`` links to. Return NULL, or the name of a missing
 * function. */
static const char *rk_load(rk_api *api, const char *path) {
    void *handle = dlopen(path, RTLD_NOW);
    if (!handle)
        return path;
#define RK_FIND(field, name)                                                                                                                         \
    {                                                                                                                                                \
        void *found = dlsym(handle, name);                                                                                                           \
        if (!found)                                                                                                                                  \
            return name;                                                                                                                             \
        memcpy(&api->field, &found, sizeof found);                                                                                                   \
    }
    RK_FIND(conf_new, "rd_kafka_conf_new")
    RK_FIND(conf_set, "rd_kafka_conf_set")
    RK_FIND(conf_set_events, "rd_kafka_conf_set_events")
    RK_FIND(conf_destroy, "rd_kafka_conf_destroy")
    RK_FIND(create, "rd_kafka_new")
    RK_FIND(destroy, "rd_kafka_destroy")
    RK_FIND(outq_len, "rd_kafka_outq_len")
    RK_FIND(flush, "rd_kafka_flush")
    RK_FIND(purge, "rd_kafka_purge")
    RK_FIND(fatal_error, "rd_kafka_fatal_error")
    RK_FIND(topic_new, "rd_kafka_topic_new")
    RK_FIND(topic_name, "rd_kafka_topic_name")
    RK_FIND(topic_destroy, "rd_kafka_topic_destroy")
    RK_FIND(produceva, "rd_kafka_produceva")
    RK_FIND(error_code, "rd_kafka_error_code")
    RK_FIND(error_destroy, "rd_kafka_error_destroy")
    RK_FIND(err2str, "rd_kafka_err2str")
    RK_FIND(headers_new, "rd_kafka_headers_new")
    RK_FIND(headers_copy, "rd_kafka_headers_copy")
    RK_FIND(header_add, "rd_kafka_header_add")
    RK_FIND(headers_destroy, "rd_kafka_headers_destroy")
    RK_FIND(detach_headers, "rd_kafka_message_detach_headers")
    RK_FIND(queue_get_main, "rd_kafka_queue_get_main")
    RK_FIND(queue_poll, "rd_kafka_queue_poll")
    RK_FIND(queue_destroy, "rd_kafka_queue_destroy")
    RK_FIND(event_type, "rd_kafka_event_type")
    RK_FIND(event_message_array, "rd_kafka_event_message_array")
    RK_FIND(event_error, "rd_kafka_event_error")
    RK_FIND(event_error_string, "rd_kafka_event_error_string")
    RK_FIND(event_destroy, "rd_kafka_event_destroy")
#undef RK_FIND
    return NULL;
}

/* Put one record into the producer's queue, copying its key and value. The record owns ``headers``
 * once it is accepted. ``headers``, ``key`` and ``value`` may be NULL. Return 0 or librdkafka's
 * error code. */
static int rk_produce(const rk_api *api, void *rk, void *topic, int32_t partition, const void *key, size_t key_size, const void *value, size_t value_size,
                      void *opaque, void *headers) {
    rk_argument arguments[7];
    size_t count = 0;
    void *error;
    int code;
#define RK_ARGUMENT(kind, field, given)                                                                                                              \
    arguments[count].type = kind;                                                                                                                    \
    arguments[count++].is.field = given;
    RK_ARGUMENT(RK_ARG_TOPIC, pointer, topic)
    RK_ARGUMENT(RK_ARG_PARTITION, number32, partition)
    RK_ARGUMENT(RK_ARG_FLAGS, number, RK_COPY)
    RK_ARGUMENT(RK_ARG_OPAQUE, pointer, opaque)
    if (headers) {
        RK_ARGUMENT(RK_ARG_HEADERS, pointer, headers)
    }
#undef RK_ARGUMENT
    if (key) {
        arguments[count].type = RK_ARG_KEY;
        arguments[count].is.memory.start = (void *)key;
        arguments[count++].is.memory.size = key_size;
    }
    if (value) {
        arguments[count].type = RK_ARG_VALUE;
        arguments[count].is.memory.start = (void *)value;
        arguments[count++].is.memory.size = value_size;
    }
    error = api->produceva(rk, arguments, count);
    if (!error)
        return 0;
    code = api->error_code(error);
    api->error_destroy(error);
    return code;
}

#endif
