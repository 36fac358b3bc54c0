"""Resolved raw records of one topic, before anything is decided about them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from dblog_sink.schema.resolve import Known
from dblog_sink.tables.open_tables import OpenTable


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """The topic's records that are rows, with their schemas."""

    opened: OpenTable | None
    """Table of the topic, None if it does not exist yet."""
    known: Known
    records: DataFrame
    unwrapped: bool
    nulls: bool
    """True if null values are among the records of a topic with envelopes."""
