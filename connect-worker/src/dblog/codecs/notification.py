"""Defines Debezium's notification record, which reports the steps of a snapshot in the topic of
notifications (notification.sink.topic.name).
"""

from __future__ import annotations

from dblog.codecs.envelope import INT64, STRING, struct
from dblog.codecs.schema import Kind, Schema

NOTIFICATION_KEY = struct("io.debezium.connector.common.NotificationKey", ("id", STRING), version=1)
NOTIFICATION_VALUE = struct(
    "io.debezium.connector.common.Notification",
    ("id", STRING),
    ("type", STRING),
    ("aggregate_type", STRING),
    ("additional_data", Schema(kind=Kind.MAP, optional=True, keys=STRING, items=STRING)),
    ("timestamp", INT64),
    version=1,
)
