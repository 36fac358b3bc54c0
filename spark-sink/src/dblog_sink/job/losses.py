"""Finds records that the sink can never read, because Kafka lost them or the query begins later.

Their tables are parked, and the checkpoint moves past the gap.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import SparkSession

from dblog_sink.batches.table_book import TableBook
from dblog_sink.config.job_options import Settings
from dblog_sink.kafka import brokers, data_loss, source
from dblog_sink.kafka.data_loss import LostRecords
from dblog_sink.observe.progress import Progress
from dblog_sink.reconcile.arrivals import Arrivals
from dblog_sink.snapshots.waivers import Offsets
from dblog_sink.state import files
from dblog_sink.state.notes import State


class CheckpointOffsets:
    """A comparison of the checkpoint's offsets with Kafka's."""

    def __init__(self, session: SparkSession, settings: Settings) -> None:
        self._session = session
        self._settings = settings
        self._path = settings.checkpoint_path

    def of(self, topics: Collection[str]) -> tuple[Offsets, Offsets, Offsets]:
        """Return first offsets and ends of these topics, and the offsets read so far."""
        first, end = brokers.ends(self._session, self._settings, topics)
        return first, end, self._read()

    def losses(self, state: State) -> list[LostRecords]:
        """Return the losses among the records to be read next.

        ``state`` is the control table's, which knows the ids of the topics that were read.
        """
        wanted = self._read()
        if not wanted:
            return []
        first, end = brokers.ends(self._session, self._settings, wanted)
        return data_loss.losses(wanted, first, end, self._recreated(state, end))

    def _recreated(self, state: State, there: Collection[str]) -> frozenset[tuple[str, int]]:
        """Return partitions that were read under another topic id. ``there`` has Kafka's topics."""
        marks = {partition: mark.topic_id for partition, mark in list(state.high_water_marks.items()) if partition[0] in there}
        topics = sorted({topic for topic, _ in marks})
        return data_loss.recreated(marks, source.topic_ids(self._session, self._settings, topics) if topics else {})

    def pass_losses(self, state: State, book: TableBook, progress: Progress, arrivals: Arrivals) -> None:
        """Report lost records, park their tables, and move the checkpoint past the gap.

        Other tables go on. ``state`` is the control table's, which knows how far the sink had read
        if there is no checkpoint.
        """
        found = self._losses_without_checkpoint(state) if self._is_new() else self.losses(state)
        by_topic: dict[str, list[str]] = {}
        for one in found:
            by_topic.setdefault(one.topic, []).append(str(one))
        if by_topic:
            arrivals.lose(by_topic)
        for topic, lost in by_topic.items():
            reason = f"data loss: {'; '.join(lost)}. {self._advice(topic, arrivals)}"
            progress.emit("data_loss", topic=topic, reason=reason)
            table = topic in state.table_ids or not self._settings.excludes(topic)
            if table and not arrivals.of_markers(topic):
                book.park(topic, reason)
        if found and self._read():
            # Hadoop's client is used for local paths too, because it keeps checksums beside Spark's
            # files.
            offsets = files.HadoopFolder(self._session, f"{self._path}/offsets")
            data_loss.lead_past(files.folder(self._session, f"{self._path}/commits"), offsets, found)

    def _advice(self, topic: str, arrivals: Arrivals) -> str:
        spec = self._settings.table(topic)
        if spec is None:
            return "Dump its table again, then resume it"
        if arrivals.counts:
            return (
                f"Ask for a repair dump of the table (dblog dumps start CONNECTOR {spec.source_name} --mode repair), then resume it (dblog-sink resume "
                f"{spec.name}): rows that the source deleted meanwhile are removed when the dump is whole"
            )
        away = f"{spec.path} and {self._settings.tombstones_path(spec.path)}"
        return (
            "Dump the table again, then resume it; rows that the source deleted meanwhile stay, for the job reads no chunk markers (topics.markers), unless "
            f"you move {away} away before you resume it"
        )

    def _is_new(self) -> bool:
        """Return True if the query begins where the options say.

        A checkpoint with one open batch has a beginning already.
        """
        return not any(name.isdigit() for name in files.folder(self._session, f"{self._path}/offsets").names())

    def _losses_without_checkpoint(self, state: State) -> list[LostRecords]:
        wanted: dict[str, dict[int, int]] = {}
        for (topic, partition), mark in state.high_water_marks.items():
            wanted.setdefault(topic, {})[partition] = mark.offset + 1
        wanted = {topic: partitions for topic, partitions in wanted.items() if source.reads(self._session, self._settings, topic)}
        if not wanted:
            return []
        first, end = brokers.ends(self._session, self._settings, wanted)
        found = data_loss.losses_at_the_end if self._settings["topics.start"] == "latest" else data_loss.losses
        return found(wanted, first, end, self._recreated(state, end))

    def _read(self) -> Offsets:
        return data_loss.committed(
            files.folder(self._session, f"{self._path}/commits"), files.folder(self._session, f"{self._path}/offsets")
        )
