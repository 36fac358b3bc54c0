"""Shows a table's newest rows, the quarantine, or the outcomes of repair dumps.

This is ``dblog-sink show``. It reads with Spark, because not every reader of Delta supports
deletion vectors and renamed columns. The newest rows have the highest positions in the source's
log, in every mode. Row values are shown because the user asks for them; of quarantined records only
their location and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.config.job_options import Settings
from dblog_sink.delta.target import identity, version_of
from dblog_sink.errors import DefiniteError
from dblog_sink.kafka.source import topic_to_read
from dblog_sink.reconcile.arrivals import GHOSTS
from dblog_sink.records.decode import SEQ1, SEQ2
from dblog_sink.state.control_table import read_state

QUARANTINE, DUMPS = "quarantine", "dumps"
"""Arguments in place of a table's name, which contains a dot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The number of rows and the newest ones, as JSON objects."""

    table: str
    path: str
    version: int
    rows: int
    newest: list[str]


def show(session: SparkSession, settings: Settings, *, table: str, rows_max: int) -> Shown:
    """Return the newest rows of the table's newest version.

    Raise DefiniteError if the sink has no such table.
    """
    if table == QUARANTINE:
        path = f"{settings.state_path}/quarantine"
        if identity(session, path) is None:
            return Shown(table=QUARANTINE, path=path, version=0, rows=0, newest=[])
        columns = ("topic", "partition", "offset", "timestamp", "reason", "at")
        return _shown(session, QUARANTINE, path, rows_max, order=[F.desc("at"), *columns[:3]], columns=columns)
    if table == DUMPS:
        return _dumps(session, settings, rows_max)
    spec = settings.table(topic_to_read(settings, read_state(session, settings.state_path), table))
    assert spec is not None
    if identity(session, spec.path) is None:
        msg = f"{spec.name} has no Delta table yet; its records may have landed and wait for their merge"
        raise DefiniteError(msg)
    return _shown(session, spec.name, spec.path, rows_max, order=[F.desc(SEQ1), F.desc(SEQ2)], columns=("*",))


def _dumps(session: SparkSession, settings: Settings, rows_max: int) -> Shown:
    """Return the outcomes of repair dumps: the number of removed rows, or why none was removed."""
    path = f"{settings.state_path}/chunks"
    if identity(session, path) is None or "dump" not in (frame := session.read.format("delta").load(path)).columns:
        return Shown(table=DUMPS, path=path, version=0, rows=0, newest=[])
    found = frame.where(F.col("kind") == GHOSTS).select(F.col("name").alias("table"), "topic", "dump", "result", "rows", "why", "at")
    newest = found.orderBy(F.desc("at")).limit(rows_max).select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}))
    return Shown(
        table=DUMPS, path=path, version=version_of(session, path)[0], rows=found.count(), newest=[row[0] for row in newest.collect()]
    )


def _shown(session: SparkSession, table: str, path: str, rows_max: int, *, order: Sequence[Column | str], columns: Sequence[str]) -> Shown:
    version, _ = version_of(session, path)
    frame = session.read.format("delta").option("versionAsOf", version).load(path)
    newest = frame.orderBy(*order).limit(rows_max).select(F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}))
    return Shown(table=table, path=path, version=version, rows=frame.count(), newest=[row[0] for row in newest.collect()])
