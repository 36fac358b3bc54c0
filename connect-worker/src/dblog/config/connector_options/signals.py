"""Options for signals and notifications."""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.connector_options.forms import LOW, SIGNALS, bool_option, int_option, list_option, long_option, option
from dblog.config.namespaces import Namespace
from dblog.config.options import Check, Value, not_negative, not_negative_long, positive_long


def _writes_nothing(value: Value, everything: Mapping[str, Value]) -> str | None:
    if value and everything.get("dblog.row.image.missing") == "reread":
        return "rows that are read again (dblog.row.image.missing=reread) need written watermarks; remove one of the two keys"
    return None


SIGNAL_CHANNELS = ("source", "kafka", "file", "in-process", "jmx")
NOTIFICATION_CHANNELS = ("sink", "log", "jmx")


def _members(what: str, known: tuple[str, ...]) -> Check:
    def check(value: Value, _everything: Mapping[str, Value]) -> str | None:
        unknown = [each for each in value if each.strip() not in known] if isinstance(value, tuple) else []
        return f"there is no {what} {unknown[0]}; there are {', '.join(known)}" if unknown else None

    return check


def _notification_channels(value: Value, everything: Mapping[str, Value]) -> str | None:
    if fault := _members("notification channel", NOTIFICATION_CHANNELS)(value, everything):
        return fault
    if isinstance(value, tuple) and "sink" in value and not everything.get("notification.sink.topic.name"):
        return "the channel sink needs notification.sink.topic.name, the topic that notifications are written to"
    return None


def signal_tables(namespace: Namespace) -> Check:
    """Return a check for names of tables in databases, or in schemas."""

    def check(value: Value, _everything: Mapping[str, Value]) -> str | None:
        names = [each.strip() for each in value.split(",")] if isinstance(value, str) and value.strip() else []
        if any(len([part for part in name.split(".") if part]) != 2 for name in names):  # noqa: PLR2004 - database and table
            return f"it must be {namespace}.table, or several of them separated by commas"
        return None

    return check


def _plain_name(value: Value, _everything: Mapping[str, Value]) -> str | None:
    if isinstance(value, str) and ("/" in value or "\0" in value or value in ("", ".", "..")):
        return "it must be the name of a file, without folders: they stand in the folder that the worker's dblog.signal.files.folder names"
    return None


SIGNAL_OPTIONS = (
    bool_option(
        name="read.only",
        doc=(
            "If true, nothing is written to the source, not even watermarks. GTIDs then prove what a chunk's "
            "snapshot contains (MySQL: gtid_mode=ON). The account needs no privilege to write, and chunks may "
            "be read from a replica (dblog.dump.hostname)."
        ),
        default="false",
        group=SIGNALS,
        label="Read only",
        check=_writes_nothing,
    ),
    option(
        name="signal.data.collection",
        doc=(
            "Tables into which signals are inserted, as database.table, separated by commas. Each begins with "
            "three text columns: id, type and data. Their rows are written to no topic."
        ),
        group=SIGNALS,
        label="Signal table",
        check=signal_tables(Namespace.DATABASE),
    ),
    list_option(
        name="signal.enabled.channels",
        doc=(
            "Channels of signals, separated by commas: source (rows of signal.data.collection), kafka "
            "(records of signal.kafka.topic), file (lines of signal.file), in-process (POST "
            "/connectors/NAME/signals, which always works). jmx is accepted and has no effect."
        ),
        default="source",
        group=SIGNALS,
        label="Signal channels",
        check=_members("signal channel", SIGNAL_CHANNELS),
    ),
    option(
        name="signal.kafka.topic",
        doc=(
            "Topic of signals. Records of partition 0 whose key is topic.prefix are read. If absent, it is "
            "topic.prefix followed by -signal."
        ),
        group=SIGNALS,
        label="Signal topic",
    ),
    option(
        name="signal.kafka.groupId",
        doc="Consumer group at whose committed offset the first start begins. Later starts begin at the connector's own offset.",
        default="kafka-signal",
        group=SIGNALS,
        label="Signal group",
    ),
    option(
        name="signal.kafka.bootstrap.servers",
        doc="Brokers (host:port, separated by commas) of the topic of signals. If absent, they are the worker's.",
        group=SIGNALS,
        label="Signal brokers",
    ),
    int_option(
        name="signal.kafka.poll.timeout.ms",
        no_effect="records of the topic are taken as they come",
        doc="Time that one poll of that topic waits for records.",
        default="0",
        unit="ms",
        importance=LOW,
        group=SIGNALS,
        label="Signal poll",
    ),
    option(
        name="signal.file",
        doc=(
            "Name of a file in the folder that the worker's option dblog.signal.files.folder names. Each line "
            "is one signal as a JSON object. The file is emptied after the offset that includes its signals "
            "is stored."
        ),
        default="file-signals.txt",
        check=_plain_name,
        importance=LOW,
        group=SIGNALS,
        label="Signal file",
    ),
    long_option(
        name="signal.poll.interval.ms",
        doc="Interval at which the file of signals is read.",
        default="5000",
        unit="ms",
        importance=LOW,
        group=SIGNALS,
        label="Signal poll interval",
        check=positive_long,
    ),
    int_option(
        name="signal.emit.failure.max.retries",
        no_effect="watermarks are not signals here; what fails is tried again by errors.max.retries",
        doc="Number of attempts to write a watermark.",
        default="0",
        importance=LOW,
        group=SIGNALS,
        label="Signal retries",
        check=not_negative,
    ),
    long_option(
        name="signal.emit.failure.backoff.ms",
        no_effect="watermarks are not signals here; what fails is tried again by errors.max.retries",
        doc="Pause between two attempts.",
        default="10000",
        unit="ms",
        importance=LOW,
        group=SIGNALS,
        label="Signal retry pause",
        check=not_negative_long,
    ),
    list_option(
        name="notification.enabled.channels",
        doc=(
            "Channels of notifications of dumps, separated by commas: sink (records of "
            "notification.sink.topic.name), log (log lines, without keys of rows). jmx is accepted and has no "
            "effect."
        ),
        group=SIGNALS,
        label="Notification channels",
        check=_notification_channels,
    ),
    option(
        name="notification.sink.topic.name",
        doc="Topic of notifications. The channel sink requires it.",
        group=SIGNALS,
        label="Notification topic",
    ),
)
"""Options with Debezium's names, types and defaults, in the order of the reference page."""
