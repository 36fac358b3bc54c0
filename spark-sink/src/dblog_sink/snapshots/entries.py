"""Which version of each table a snapshot names in the manifest, whether it is complete, and that it can be read as long as the manifest promises."""

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
"""The topics whose tables were dumped wholly again behind a loss, given by topic, up to a position and by batches up to those given by topic. None: no markers
show that.
"""


class Entries:
    """``known``: the entries of the last published snapshot, by table. ``dumps_incomplete``: by topic, why its first dump is not complete at a position;
    ``dumped_since``: whether what never came is repaired.
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
        """By topic, when the version that the last snapshot names was committed."""
        self.known: Mapping[str, Entry] = {}

    def of(self, snapshot: Snapshot, notes: Sequence[Note], written: Collection[str], parked: Collection[str]) -> dict[str, Entry]:
        """The entries of a snapshot that is merged. ``notes``: those that are recorded when it is published; ``written``: topics that it has changed."""
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
                if known is not None and self.keep_readable(topic, known):  # a part of what it has now may belong to this snapshot
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
        """Keep the version readable for as long as a snapshot of now is kept, though it need not be the newest; False where it cannot be read."""
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
        """The topics whose tables the last snapshot has as complete: what another version of the sink has shown so is not taken back."""
        complete = {name for name, entry in self.known.items() if entry.complete}
        return {topic for topic in self._control.state.missing if self._settings.table_name(topic) in complete}

    def _is_stale(self, topic: str) -> bool:
        age_h = (self._now_s() - self._committed_ms.get(topic, 0) / 1000.0) / 3600.0
        return topic not in self._retention_set or retention.rests(age_h)

    def _newest(self, topic: str, known: Entry | None) -> tuple[Entry | None, str | None]:
        """The entry of the table's newest version; or the known one, and why the newest is not taken. No entry where there is no table."""
        opened = self._applier.found(topic, self._session)
        if opened is None:
            return None, None
        target = opened.target
        # Checked before each commit of ours, also to a table that rests: else the log may one day no longer reach back to the last check.
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
    """By topic, up to where records of it never came. ``notes``: those that the state does not have yet; ``repaired``: topics whose tables were complete in
    the last snapshot, so that what the state has was repaired by then.
    """
    found: dict[str, Loss] = {}
    for note in (*(note for topic, note in state.missing.items() if topic not in repaired), *notes):
        if isinstance(note, RecordsMissing):
            known = found.get(note.topic, Loss(-1))
            found[note.topic] = Loss(max(note.kafka_ms, known.ms), max(note.position or NOWHERE, known.position or NOWHERE))
    return {topic: replace(loss, position=None) if loss.position == NOWHERE else loss for topic, loss in found.items()}


def incomplete(snapshot: Snapshot, topic: str, *, dumped_ms: int, missing_ms: int, repaired: bool | None) -> str | None:
    """Why the topic's table shows less or more than a snapshot, as far as is noted. ``dumped_ms``: when its last dumped row came, ``missing_ms``: up to
    when records never came, -1 for never; ``repaired``: whether it was dumped wholly since then, None if nothing tells.
    """
    if topic in snapshot.missing:
        return snapshot.missing[topic]
    # Which rows lack the records is not known, so some rows of a dump repair nothing for certain.
    if missing_ms >= 0 and not (dumped_ms > missing_ms if repaired is None else repaired):
        return "records of the source never came; dump the table again"
    if dumped_ms >= 0 and (snapshot.kafka_ms is None or dumped_ms >= snapshot.kafka_ms):
        return "rows of a dump, or what was done beside the snapshots (resume, replay, merges before there was a manifest), may be later than the snapshot"
    return None
