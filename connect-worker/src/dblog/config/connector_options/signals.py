"""Signals and notifications."""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.connector_options.forms import LOW, SIGNALS, bool_option, int_option, list_option, long_option, not_yet, option
from dblog.config.options import Value, not_negative, not_negative_long, only, positive_long


def _writes_nothing(value: Value, everything: Mapping[str, Value]) -> str | None:
    if value and everything.get("dblog.row.image.missing") == "reread":
        return "rows that are read again (dblog.row.image.missing=reread) need written watermarks; remove one of the two keys"
    return None


SIGNAL_OPTIONS = (
    bool_option(
        name="read.only",
        doc="Never write to the source, not even watermarks: GTIDs prove what a chunk's snapshot shows (MySQL: gtid_mode=ON). The account needs no privilege "
        "to write, and chunks may be read from a replica (dblog.dump.hostname).",
        default="false",
        group=SIGNALS,
        label="Read only",
        check=_writes_nothing,
    ),
    option(
        name="signal.data.collection",
        doc="Table that signals are inserted into.",
        group=SIGNALS,
        label="Signal table",
        refused=only(because=not_yet("obey signals")),
    ),
    list_option(
        name="signal.enabled.channels",
        doc="Ways that signals come.",
        default="source",
        group=SIGNALS,
        label="Signal channels",
        refused=lambda value: None if value in ((), ("source",)) else not_yet("obey signals from a topic or a file"),
    ),
    option(name="signal.kafka.topic", no_effect="signals are not obeyed yet", doc="Topic of signals.", group=SIGNALS, label="Signal topic"),
    option(
        name="signal.kafka.groupId",
        no_effect="signals are not obeyed yet",
        doc="Group that reads it.",
        default="kafka-signal",
        group=SIGNALS,
        label="Signal group",
    ),
    option(
        name="signal.kafka.bootstrap.servers",
        no_effect="signals are not obeyed yet",
        doc="Brokers of that topic.",
        group=SIGNALS,
        label="Signal brokers",
    ),
    int_option(
        name="signal.kafka.poll.timeout.ms",
        no_effect="signals are not obeyed yet",
        doc="Wait of one poll.",
        default="0",
        unit="ms",
        importance=LOW,
        group=SIGNALS,
        label="Signal poll",
    ),
    option(
        name="signal.file",
        no_effect="signals are not obeyed yet",
        doc="File of signals.",
        default="file-signals.txt",
        importance=LOW,
        group=SIGNALS,
        label="Signal file",
    ),
    long_option(
        name="signal.poll.interval.ms",
        no_effect="signals are not obeyed yet",
        doc="How often signals are looked for.",
        default="5000",
        unit="ms",
        importance=LOW,
        group=SIGNALS,
        label="Signal poll interval",
        check=positive_long,
    ),
    int_option(
        name="signal.emit.failure.max.retries",
        no_effect="signals are not obeyed yet",
        doc="Tries to write a watermark.",
        default="0",
        importance=LOW,
        group=SIGNALS,
        label="Signal retries",
        check=not_negative,
    ),
    long_option(
        name="signal.emit.failure.backoff.ms",
        no_effect="signals are not obeyed yet",
        doc="Pause between them.",
        default="10000",
        unit="ms",
        importance=LOW,
        group=SIGNALS,
        label="Signal retry pause",
        check=not_negative_long,
    ),
    list_option(
        name="notification.enabled.channels",
        doc="Ways that notifications go out.",
        group=SIGNALS,
        label="Notification channels",
        refused=only(because=not_yet("send notifications")),
    ),
    option(
        name="notification.sink.topic.name",
        no_effect="notifications are not sent yet",
        doc="Topic of notifications.",
        group=SIGNALS,
        label="Notification topic",
    ),
)
"""Debezium's names, types and defaults; in the order of forms and of the reference page."""
