"""Options for queue, polls, retries and stop."""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.connector_options.forms import LOW, RUNTIME, bool_option, int_option, long_option, not_yet, option
from dblog.config.options import Large, Value, not_negative_long, only, positive, positive_long, topic_name


def _queue_size(value: Value, everything: Mapping[str, Value]) -> str | None:
    if isinstance(value, int) and value <= 0:
        return "A positive queue size is required"
    batch = everything.get("max.batch.size")
    if isinstance(value, int) and isinstance(batch, int) and value <= batch:
        return "Must be larger than the maximum batch size"
    return None


def _dead_letter_topic(value: Value, everything: Mapping[str, Value]) -> str | None:
    if not value:
        return None
    if everything.get("errors.tolerance") != "all":
        return "It is used with errors.tolerance=all only, for otherwise such a record fails the task; set that, or remove the key"
    return topic_name(value, everything)


RUNTIME_OPTIONS = (
    option(
        name="errors.deadletterqueue.topic.name",
        doc=(
            "Topic for a record about each record that a transform or converter cannot handle: where it stands, why, and the digest "
            "of its key. If absent, such records are logged and counted only."
        ),
        group=RUNTIME,
        label="Dead-letter topic",
        check=_dead_letter_topic,
    ),
    bool_option(
        name="errors.deadletterqueue.context.headers.enable",
        doc="Adds Kafka Connect's headers to records of that topic: __connect.errors.topic, .stage, .exception.message and others.",
        default="false",
        group=RUNTIME,
        label="Dead-letter headers",
        importance=LOW,
    ),
    bool_option(
        name="dblog.errors.deadletterqueue.records",
        doc="Adds the failed record to that topic's record: key and value with all their columns, as JSON with schemas.",
        default="false",
        group=RUNTIME,
        label="Dead-letter contents",
        importance=LOW,
    ),
    int_option(
        name="max.batch.size",
        doc="Maximum number of records of one poll.",
        default="2048",
        unit="records",
        group=RUNTIME,
        label="Change event batch size",
        check=positive,
    ),
    int_option(
        name="max.queue.size",
        doc="Maximum number of records between the reader and the sender; it must be larger than max.batch.size.",
        default="8192",
        unit="records",
        group=RUNTIME,
        label="Change event buffer size",
        check=_queue_size,
    ),
    long_option(
        name="max.queue.size.in.bytes",
        doc="Maximum size of the records between the reader and the sender; 0 means the worker's own limit.",
        default="0",
        unit="bytes",
        group=RUNTIME,
        label="Change event buffer bytes",
        check=not_negative_long,
        large=Large(1 << 30, "so many bytes may wait in the memory of the task's process when Kafka is slower than the database"),
    ),
    long_option(
        name="poll.interval.ms",
        doc="Time that a poll waits for a first record; values above 500 count as 500. If absent, an idle task looks 50 times a second.",
        unit="ms",
        group=RUNTIME,
        label="Poll interval",
        check=positive_long,
    ),
    int_option(
        name="errors.max.retries",
        doc=(
            "Number of restarts of the task's reader after errors that may pass, such as a lost connection, "
            "before the task fails; -1 means no limit."
        ),
        default="-1",
        group=RUNTIME,
        label="Retries",
    ),
    long_option(
        name="retriable.restart.connector.wait.ms",
        doc=(
            "Pause before such a restart. If absent, it is 10 s where errors.max.retries limits the restarts; "
            "otherwise it grows with each attempt from a fraction of a second to half a minute."
        ),
        unit="ms",
        importance=LOW,
        group=RUNTIME,
        label="Retriable wait",
        check=positive_long,
    ),
    option(
        name="custom.metric.tags",
        doc="Additional tags of the metrics.",
        importance=LOW,
        group=RUNTIME,
        label="Metric tags",
        refused=only(because=not_yet("tag metrics")),
    ),
    option(
        name="custom.sanitize.pattern",
        no_effect="values are never logged",
        doc="Regular expression of configuration keys whose values are hidden in logs. This worker never logs values.",
        importance=LOW,
        group=RUNTIME,
        label="Sanitize pattern",
    ),
    bool_option(
        name="statistics.metrics.enabled",
        no_effect="metrics are served in the Prometheus format, from which percentiles are computed",
        doc="Percentiles of the lag that Debezium's metrics show.",
        default="true",
        importance=LOW,
        group=RUNTIME,
        label="Statistics metrics",
    ),
    int_option(
        name="executor.shutdown.timeout.ms",
        no_effect="the readers end within the time that the worker gives a task: task.shutdown.graceful.timeout.ms",
        doc="Time that a stop waits for the readers to end.",
        default="4000",
        unit="ms",
        importance=LOW,
        group=RUNTIME,
        label="Shutdown timeout",
    ),
)
"""Options with Debezium's names, types and defaults, in the order of the reference page."""
