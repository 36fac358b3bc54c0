"""A table's newest rows, or what is in quarantine, for ``dblog-sink show``: by Spark, which reads deletion vectors and renamed columns, as not every
reader of Delta does.

The newest are those of the highest positions in the source's log, whatever mode the table is kept in. Row values are shown because they are asked for; of
records in quarantine only where they stand and why.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from dblog_sink.config import Settings
from dblog_sink.decode import SEQ1, SEQ2
from dblog_sink.errors import DefiniteError
from dblog_sink.marks import read_state
from dblog_sink.source import topic_of
from dblog_sink.target import identity, version_of

QUARANTINE = "quarantine"
"""In the place of a table's name, which has a dot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What there is. ``newest``: rows as JSON objects, the newest first."""

    table: str
    path: str
    version: int
    rows: int
    newest: list[str]


def show(session: SparkSession, settings: Settings, *, table: str, rows_max: int) -> Shown:
    """The table's newest version. DefiniteError if the sink has no such table."""
    if table == QUARANTINE:
        return _quarantined(session, f"{settings.state_path}/quarantine", rows_max)
    spec = settings.table(topic_of(settings, read_state(session, f"{settings.state_path}/marks"), table))
    assert spec is not None
    if identity(session, spec.path) is None:
        msg = f"{spec.name} has no Delta table yet; its records may have landed and wait for their merge"
        raise DefiniteError(msg)
    version, _ = version_of(session, spec.path)
    frame = session.read.format("delta").option("versionAsOf", version).load(spec.path)
    newest = frame.orderBy(F.desc(SEQ1), F.desc(SEQ2)).limit(rows_max).select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}))
    return Shown(table=spec.name, path=spec.path, version=version, rows=frame.count(), newest=[row[0] for row in newest.collect()])


def _quarantined(session: SparkSession, path: str, rows_max: int) -> Shown:
    """Where the records stand in Kafka and why they are here; not what is in them."""
    if identity(session, path) is None:
        return Shown(table=QUARANTINE, path=path, version=0, rows=0, newest=[])
    version, _ = version_of(session, path)
    frame = session.read.format("delta").option("versionAsOf", version).load(path)
    place = F.to_json(F.struct("topic", "partition", "offset", "timestamp", "reason", "at"))
    newest = frame.orderBy(F.desc("at"), "topic", "partition", "offset").limit(rows_max).select(place)
    return Shown(table=QUARANTINE, path=path, version=version, rows=frame.count(), newest=[row[0] for row in newest.collect()])
