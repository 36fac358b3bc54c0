"""Makes the manifest entries of a snapshot: the version of each table, and whether it is complete.

It also keeps these versions readable for as long as the manifest promises.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from dblog_sink.batches.parts import Parts
from dblog_sink.delta import retention
from dblog_sink.delta import target as targets
from dblog_sink.errors import DefiniteError
from dblog_sink.reconcile.chunk_ledger import Loss
from dblog_sink.snapshots.manifest import Entry
from dblog_sink.state.notes import DumpMerged, HistoryChecked, Note, RecordsMissing, State, TableWritten
from dblog_sink.state.snapshot import NOWHERE, Position, Snapshot

log = logging.getLogger(__name__)

DumpedSince = Callable[[Mapping[str, Loss], Position, Mapping[str, int]], Collection[str] | None]
"""Function that returns topics whose tables were completely dumped after their loss.

Its arguments are the losses by topic, the position up to which dumps count, and the last batch that
counts by topic. It returns None if the source writes no markers.
"""


class Entries:
    """The table entries of snapshots.

    ``known`` has the entries of the last published snapshot by table. ``dumps_incomplete`` returns
    the topics whose first dump is incomplete at a position, with the reason; ``dumped_since``
    returns the topics whose losses are repaired.
    """

    def __init__(
        self,
        session: SparkSession,
        parts: Parts,
        *,
        dumps_incomplete: Callable[[Position, Mapping[str, int]], Mapping[str, str]],
        dumped_since: DumpedSince,
        now_s: Callable[[], float],
    ) -> None:
        self._session = session
        self._settings = parts.settings
        self._applier = parts.applier
        self._control = parts.control
        self._book = parts.book
        self._dumps_incomplete = dumps_incomplete
        self._dumped_since = dumped_since
        self._now_s = now_s
        self._keep_h: float = parts.settings["manifest.keep.h"]
        self._retention_set: set[str] = set()
        self._committed_ms: dict[str, int] = {}
        """Topic to the commit time of the version that the last snapshot names, in milliseconds."""
        self.known: Mapping[str, Entry] = {}

    def of(self, snapshot: Snapshot, notes: Sequence[Note], written: Collection[str], parked: Collection[str]) -> dict[str, Entry]:
        """Return the entries of a merged snapshot by table name.

        ``notes`` will be recorded with its publication, ``written`` has the topics that it changed,
        and ``parked`` those that it leaves out.
        """
        reasons = self._book.parked()
        dumps_incomplete = self._dumps_incomplete(snapshot.frontier.position, snapshot.frontier.sequences)
        dumped_ms = dict(self._control.state.dumped_ms)
        for note in notes:
            if isinstance(note, DumpMerged):
                dumped_ms[note.topic] = max(note.kafka_ms, dumped_ms.get(note.topic, -1))
        missing = missing_since(self._control.state, notes, repaired=self._complete())
        repaired = self._dumped_since(missing, snapshot.frontier.position, snapshot.frontier.sequences)
        topics = {*self._control.state.table_ids, *(note.topic for note in notes if isinstance(note, TableWritten))}
        found: dict[str, Entry] = {}
        for topic in sorted(topics):
            name = self._settings.table_name(topic)
            known = self.known.get(name)
            if topic in parked:
                # A part of the rows that the table has now may belong to this snapshot.
                if known is not None and self.keep_readable(topic, known):
                    found[name] = replace(known, complete=False, reason=f"parked: {reasons.get(topic, 'a moment ago')}")
                continue
            if known is None or topic in written or self._is_stale(topic):
                known, damage = self._newest(topic, known)
                if known is None:
                    continue
                if damage is not None:
                    found[name] = replace(known, complete=False, reason=damage)
                    continue
            reason = incomplete(
                snapshot,
                topic,
                dumped_ms=dumped_ms.get(topic, -1),
                missing_ms=missing[topic].ms if topic in missing else -1,
                repaired=None if repaired is None else topic in repaired,
            )
            reason = reason or dumps_incomplete.get(topic)
            found[name] = replace(known, complete=reason is None, reason=reason)
        return found

    def keep_readable(self, topic: str, entry: Entry) -> bool:
        """Keep a version readable for as long as a snapshot published now is kept.

        The version need not be the newest. Return False if it can no longer be read.
        """
        if topic not in self._committed_ms:
            committed_ms = targets.committed_ms(self._session, entry.path, entry.version)
            if committed_ms is None:
                return False
            self._committed_ms[topic] = committed_ms
        if not DeltaTable.isDeltaTable(self._session, entry.path):
            return False
        targets.retain(self._session, entry.path, keep_h=self._keep_h, now_s=self._now_s(), since_ms=self._committed_ms[topic])
        return True

    def _complete(self) -> set[str]:
        """Return topics whose tables are complete in the last snapshot.

        They stay complete even if another version of the sink decided so.
        """
        complete = {name for name, entry in self.known.items() if entry.complete}
        return {topic for topic in self._control.state.missing if self._settings.table_name(topic) in complete}

    def _is_stale(self, topic: str) -> bool:
        age_h = (self._now_s() - self._committed_ms.get(topic, 0) / 1000.0) / 3600.0
        return topic not in self._retention_set or retention.rests(age_h)

    def _newest(self, topic: str, known: Entry | None) -> tuple[Entry | None, str | None]:
        """Return the entry of the table's newest version and None.

        If that version is refused, return the known entry and the reason. Return no entry if there
        is no table, or the known version can no longer be read.
        """
        opened = self._applier.found(topic, self._session)
        if opened is None:
            return None, None
        target = opened.target
        # The sink checks before each of its commits. A table without commits is checked too;
        # otherwise its log might some day no longer reach back to the last check.
        try:
            checked = self._applier.tables.check(topic, target, self._control.log_ends(topic), self._session)
        except DefiniteError as e:
            log.warning("%s", e)
            readable = known is not None and self.keep_readable(topic, known)
            return (known, "somebody restored an older version of the table") if readable else (None, None)
        self._control.record([HistoryChecked(topic, *checked)], "recorded")
        targets.retain(self._session, target.path, keep_h=self._keep_h, now_s=self._now_s(), refresh=True)
        self._retention_set.add(topic)
        version, self._committed_ms[topic] = targets.version_of(self._session, target.path)
        return Entry(path=target.path, version=version, mode=targets.OPTION_OF[target.mode], complete=True), None


def missing_since(state: State, notes: Iterable[Note], *, repaired: Collection[str] = ()) -> dict[str, Loss]:
    """Return, by topic, the extent of records that were lost and not repaired.

    ``notes`` are those that the state does not have yet. ``repaired`` has topics whose tables were
    complete in the last snapshot, so that earlier losses are repaired.
    """
    found: dict[str, Loss] = {}
    for note in (*(note for topic, note in state.missing.items() if topic not in repaired), *notes):
        if isinstance(note, RecordsMissing):
            known = found.get(note.topic, Loss(-1))
            found[note.topic] = Loss(max(note.kafka_ms, known.ms), max(note.position or NOWHERE, known.position or NOWHERE))
    return {topic: replace(loss, position=None) if loss.position == NOWHERE else loss for topic, loss in found.items()}


def incomplete(snapshot: Snapshot, topic: str, *, dumped_ms: int, missing_ms: int, repaired: bool | None) -> str | None:
    """Return why the topic's table shows more or less than the snapshot, None if it does not.

    ``dumped_ms`` is the time of its last dumped row and ``missing_ms`` that of its last lost
    record, -1 for never. ``repaired`` is True if a whole dump has followed, None if that is
    unknown.
    """
    if topic in snapshot.missing:
        return snapshot.missing[topic]
    # The rows that lost changes are not known, so a partial dump proves no repair.
    if missing_ms >= 0 and not (dumped_ms > missing_ms if repaired is None else repaired):
        return "records of the source never came; dump the table again"
    if dumped_ms >= 0 and (snapshot.kafka_ms is None or dumped_ms >= snapshot.kafka_ms):
        return "rows of a dump, or merges made outside the snapshots (resume, replay, merges before there was a manifest), may be later than the snapshot"
    return None
