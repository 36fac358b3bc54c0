"""Finds topics whose name was read as that of another table, because names contain dots.

A topic's parts are separated by dots. Table ``hr.salaries`` of database ``inventory`` has the topic
``p.inventory.hr.salaries``, which ``topics.name`` reads as table ``salaries`` of database ``hr``
with a prefix that has a dot. Only the record's source block shows the truth, so it is checked
before the topic's Delta table is created.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.schema.avro import read_avro
from dblog_sink.schema.writer_schemas import ENVELOPE, Envelope

_PARTS_MIN = 4
"""Least number of parts of an ambiguous topic name; three can be split in one way only."""


def misread(topic: str, read: tuple[str, str], records: DataFrame, envelopes: Mapping[bytes, Envelope]) -> str | None:
    """Return why the topic is not that of the table ``read`` from its name, None if it is.

    ``read`` is database and table. Return None too if no record shows it. ``records`` are the
    topic's; one of them is read, and only if the name is ambiguous.
    """
    if len(topic.split(".")) < _PARTS_MIN and "." not in read[0] + read[1]:
        return None
    for schema_id, envelope in envelopes.items():
        if envelope.kind == ENVELOPE:
            of_schema = records.where(F.col("value_schema_id") == F.lit(bytearray(schema_id)))
            if envelope.json_type is not None:
                source = F.get_json_object(F.col("value").cast("string"), "$.payload.source")
            else:
                source = F.to_json(read_avro(F.expr("substring(value, 6)"), envelope.writer_text, _reader(envelope))["source"])
            found = of_schema.select(source.alias("source")).where("source IS NOT NULL").limit(1).collect()
            if found and (names := named_otherwise(topic, read, json.loads(found[0][0]))) is not None:
                return (
                    f"topic {topic} holds rows of table {names[1]} of {names[0]}, and topics.name reads its name as table {read[1]} of {read[0]}; "
                    rf"set topics.name so that it names the prefix, such as (?P<prefix>PREFIX)\.(?P<db>[^.]+)\.(?P<table>.+), start the sink again and resume "
                    "the topic; or leave it out with topics.exclude"
                )
    return None


def _reader(envelope: Envelope) -> str:
    """Return the reader schema of the names in the source block alone; missing ones are NULL."""
    reader = json.loads(envelope.position_text)
    (source,) = (field for field in reader["fields"] if field["name"] == "source")
    names = [{"name": name, "type": ["null", "string"], "default": None} for name in ("db", "schema", "table")]
    fields = [source | {"type": source["type"] | {"fields": names}}]
    return json.dumps(reader | {"fields": fields})


def named_otherwise(topic: str, read: tuple[str, str], source: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return database (or schema) and table of a source block if they differ from those ``read``.

    The topic's name must end with them, else return None: a transform has then chosen it on
    purpose.
    """
    names = (str(source.get("schema") or source.get("db") or ""), str(source.get("table") or ""))
    return names if all(names) and f".{topic}".endswith(f".{names[0]}.{names[1]}") and names != read else None
