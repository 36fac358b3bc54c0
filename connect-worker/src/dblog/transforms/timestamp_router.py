"""TimestampRouter: makes a topic of the topic's name and the record's timestamp.

Debezium's records have no timestamp, so this works after a transform that sets one, such as the
outbox's EventRouter.
"""

from __future__ import annotations

from dblog.config.options import Importance, Settings
from dblog.errors import ConfigError
from dblog.transforms.faults import RecordError
from dblog.transforms.java_dates import DateFormat
from dblog.transforms.options import text
from dblog.transforms.parts import Part
from dblog.transforms.plugin import Effect, TransformPlugin
from dblog.transforms.record import Record


class TimestampRouter:
    """The topic's form, with ``${topic}`` and ``${timestamp}``, and the form of the time."""

    effect = Effect.CHANGES

    def __init__(self, topic_format: str, timestamp_format: DateFormat) -> None:
        self._topic_format = topic_format
        self._timestamp_format = timestamp_format

    def apply(self, record: Record) -> Record:
        """Return the record in its topic. Raise RecordError if it has no timestamp."""
        if record.timestamp is None:
            raise RecordError("Timestamp missing on record: records of a database have none, unless a transform before this one sets it")
        time = self._timestamp_format.format(record.timestamp)
        return record.with_topic(self._topic_format.replace("${topic}", record.topic).replace("${timestamp}", time))


def _make(settings: Settings, _part: Part) -> TimestampRouter:
    try:
        return TimestampRouter(settings.text("topic.format"), DateFormat(settings.text("timestamp.format")))
    except ValueError as e:
        raise ConfigError({"timestamp.format": [str(e)]}) from e


TIMESTAMP_ROUTER = TransformPlugin(
    class_name="org.apache.kafka.connect.transforms.TimestampRouter",
    doc="Makes a topic of the topic's name and the record's timestamp.",
    make=_make,
    options=(
        text(
            "topic.format",
            "The topic, in which ${topic} and ${timestamp} are replaced.",
            default="${topic}-${timestamp}",
            importance=Importance.HIGH,
        ),
        text("timestamp.format", "Pattern of SimpleDateFormat for the timestamp.", default="yyyyMMdd", importance=Importance.HIGH),
    ),
)
