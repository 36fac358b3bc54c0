"""Raw records of one topic, with their schemas resolved: what is known before anything is decided about them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from dblog_sink.schema.resolve import Known
from dblog_sink.tables.open_tables import OpenTable


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """``records``: the topic's records, without those that are not rows."""

    opened: OpenTable | None
    """The topic's table, None if there is none yet."""
    known: Known
    records: DataFrame
    unwrapped: bool
    nulls: bool
    """Null values of an envelope's topic are among the records."""
