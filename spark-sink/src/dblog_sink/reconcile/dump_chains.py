"""Decides from chunk markers which dumps of a table are whole. Pure.

The source does not have rows that a whole dump did not bring. A chain is the set of markers of one
dump of one topic. It is whole if complete chunks lead from one that begins the table to one that
ends it, each starting where the one before ended (schemas/README.md). Then every row of the source
has a record at or after the low watermark of the first chunk: the row was sent, a change inside a
window replaced it, or it was written later. A row of the table whose newest record is older is
therefore a ghost.

The order of arrival does not matter. Markers form a graph of bounds, and a chunk that a restarted
worker reads again is another edge. A dump that begins its table again starts another attempt, after
all chunks of the attempt before. Attempts are never mixed, because each looks up the end of the
table anew.

In doubt rows are kept: the next dump finds a ghost that stayed, but a row deleted by mistake is
lost.

In a dump of many chunks, runs of complete neighbours are kept as one link (``folding.py``).

A verify dump sends no rows, so its chunks are complete as they come. What it shows about some rows
holds whether or not it covers the whole table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from dblog_sink.reconcile.chunk_ledger import Marker, ReadTo, is_past
from dblog_sink.reconcile.dump_coverage import Position
from dblog_sink.reconcile.folding import FOLD_ABOVE, UNFOLDED, UNFOLDED_OF_MANY, runs
from dblog_sink.records.source_epochs import EPOCH_SHIFT

REPAIR, VERIFY = "repair", "verify"
"""Modes of dumps. A whole repair dump is followed by the removal of ghosts. A verify dump sends
fingerprints in place of rows.
"""
WHOLE_TABLE = "table"
"""Scope of dumps that cover their tables."""

ChainKey = tuple[str, str]
"""A topic and the id of a dump."""

NOT_BEGUN = "its first chunk was not met"
MISSING_CHUNK = "a chunk between its first and its last was not met"
LOST = "records of the topic were lost while it ran, or right before"
OTHER_LOG = "another server's log began while it ran"
TOO_OLD = "it began longer ago than chunks.keep.h"
TOO_LONG = "too many chunks"
SHARED = "rows of other tables may be in the topic"
NOT_COUNTED = "the sink began to count in the middle of it"
IN_QUARANTINE = "records of the topic are in quarantine since it began"
NOT_ENDED = "its last chunk was not met"
OVERTAKEN = "another dump of the table that compares began before it ended"

_PLAIN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
"""Matches database and table without characters that are replaced or used as separators in topic
names, so that no other table has the same topic.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Further facts of a link that stands for a run of complete chunks.

    The link's marker is that of the run's first chunk by position.
    """

    latest: Position
    """Low watermark of the latest chunk."""
    met_first_s: float
    met_last_s: float
    opened_ms: int
    """Earliest time at which a window of the run opened, in milliseconds."""
    ahead_s: float
    """Largest ``ahead_s`` of the run's links."""
    settles: Marker | None
    """Marker that stands for all chunks to be waited for: those with rows that were not sent, and
    those of a verify dump. None if there is none.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A chunk of a dump, or a run of chunks.

    ``high`` is the first number of the high watermark's position; ``ts_ms`` is the worker's time
    when the window closed.
    """

    marker: Marker
    dump: str
    scope: str
    server: str
    source: str
    """Table name in the source."""
    after: str | None
    upto: str | None
    begins: bool
    final: bool
    high: int
    dropped: int
    """Number of rows that were not sent because a change in the log replaced them."""
    ts_ms: int
    low_ts_ms: int | None = None
    """Worker's time of the low watermark; None from an older worker, which does not write it."""
    folded: Folded | None = None
    """Further facts if the link stands for a run of chunks, else None."""

    @property
    def low(self) -> Position:
        """Position of the low watermark."""
        return self.marker.position

    @property
    def latest(self) -> Position:
        """Low watermark of the latest chunk."""
        return self.low if self.folded is None else self.folded.latest

    @property
    def met_s(self) -> tuple[float, float]:
        """Times when the first and the last marker came, by the sink's clock."""
        return (self.marker.met_s, self.marker.met_s) if self.folded is None else (self.folded.met_first_s, self.folded.met_last_s)

    @property
    def opened_ms(self) -> int:
        """Time when the first window opened, in milliseconds; when it closed, if the worker reports
        only that.
        """
        if self.folded is not None:
            return self.folded.opened_ms
        return self.ts_ms if self.low_ts_ms is None else self.low_ts_ms

    @property
    def ahead_s(self) -> float:
        """Lower bound on how far the worker's clock is ahead of the sink's, in seconds."""
        return self.ts_ms / 1000 - self.marker.met_s if self.folded is None else self.folded.ahead_s

    def settles(self, mode: str) -> Marker | None:
        """Return the marker past whose ends every partition must be read before the dump is whole.

        Return None if there is none.
        """
        if self.folded is not None:
            return self.folded.settles
        return self.marker if self.dropped or mode == VERIFY else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """A dump of a table that has ended.

    ``table`` is the table's name in the lake. ``ts_ms`` is the worker's time of the low watermark,
    or of the end of the first window if the worker is older.
    """

    topic: str
    dump: str
    table: str
    low: Position
    ts_ms: int
    upto: Position
    """Low watermark of the last chunk."""
    scope: str = WHOLE_TABLE
    mode: str = REPAIR

    @property
    def key(self) -> ChainKey:
        """Key of the dump's chain."""
        return self.topic, self.dump


@dataclass(frozen=True, slots=True)
class Kept:
    """A dump after which no row is removed, and the reason."""

    dump: Dump
    why: str


@dataclass(slots=True)
class Chain:
    """The chunks of one dump, by chunk id.

    A verdict is empty for a complete chunk, else the fault. A chunk that is not judged has none.
    """

    links: dict[str, Link] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    has_end: bool = False
    """True once a final chunk has come."""
    reported: str = ""
    """Reason that was last reported for the dump not being whole; empty if none was."""
    left_over: int = 0
    """Number of links after the last folding. Folding is tried again at twice that number."""


@dataclass(slots=True)
class Chains:
    """All dumps of one ``mode`` that still wait for an outcome."""

    mode: str = REPAIR
    open: dict[ChainKey, Chain] = field(default_factory=dict)
    done: dict[ChainKey, Position] = field(default_factory=dict)
    """Whole dumps, with the position where each began. Last chunks that a restarted worker sends
    again change nothing.
    """
    lost_s: dict[str, float] = field(default_factory=dict)
    """Topic to the time when records of it were last found to be lost."""
    sources: dict[str, set[str]] = field(default_factory=dict)
    """Topic to the source tables whose markers name it."""
    fold_above: int = FOLD_ABOVE
    unfolded: int = UNFOLDED

    def name(self, topic: str, source: str) -> None:
        """Record that rows of a source table go to this topic."""
        self.sources.setdefault(topic, set()).add(source)

    def lose(self, topic: str, at_s: float) -> None:
        """Record that records of the topic were found to be lost."""
        self.lost_s[topic] = max(at_s, self.lost_s.get(topic, at_s))

    def link(self, link: Link) -> None:
        """Add a marker to its chain. Repeating it changes nothing."""
        key = (link.marker.topic, link.dump)
        began = self.done.get(key)
        if began is not None and key not in self.open and not (link.begins and link.low > began):
            return
        chain = self.open.setdefault(key, Chain())
        chain.links.setdefault(link.marker.chunk_id, link)
        chain.has_end |= link.final
        if self.mode == VERIFY:
            chain.verdicts[link.marker.chunk_id] = ""
        if len(chain.links) > max(self.fold_above, 2 * chain.left_over):
            self._fold(chain, self.unfolded)

    def judge(self, topic: str, chunk_id: str, fault: str) -> None:
        """Set the verdict on a chunk. ``fault`` is empty if all its rows came."""
        for (one, _), chain in self.open.items():
            if one == topic and chunk_id in chain.links:
                chain.verdicts[chunk_id] = fault

    def decide(
        self, read_to: ReadTo, *, now_s: float, wait_s: float, keep_s: float, uncounted: Callable[[str, Position], bool]
    ) -> list[Dump | Kept]:
        """Return dumps that have reached an outcome.

        A whole dump is returned once as a Dump. One that is not whole is returned as Kept, again
        each time the reason changes. ``uncounted`` tells whether rows of the chunk of this topic
        and low watermark may have come before counting began.
        """
        found: list[Dump | Kept] = []
        for key, chain in list(self.open.items()):
            outcome = self._outcome(chain, read_to, now_s=now_s, wait_s=wait_s, uncounted=uncounted) if chain.has_end else None
            newest_s = max(link.met_s[1] for link in chain.links.values())
            if isinstance(outcome, Dump):
                began_s = min(link.met_s[0] for link in chain.links.values() if link.low >= outcome.low)
                if now_s - began_s > keep_s:
                    outcome = Kept(outcome, TOO_OLD)
                else:
                    self.done[key] = outcome.low
            if outcome is None and self.mode == VERIFY and (why := self._abandoned(key, chain, now_s - newest_s > keep_s)) is not None:
                outcome = Kept(_dump_of(chain.links.values(), self.mode), why)
                del self.open[key]
            elif isinstance(outcome, Dump) or now_s - newest_s > keep_s or (self.mode == VERIFY and _is_over(outcome)):
                del self.open[key]
            if isinstance(outcome, Kept) and outcome.why == chain.reported:
                outcome = None
            elif isinstance(outcome, Kept):
                chain.reported = outcome.why
            if outcome is not None:
                found.append(outcome)
        return found

    def forget(self, links_max: int) -> list[Kept]:
        """Drop the oldest dumps while there are more than ``links_max`` links, and return them. #
        I6
        """
        found = []
        if sum(len(chain.links) for chain in self.open.values()) > links_max:
            for chain in self.open.values():
                self._fold(chain, min(self.unfolded, UNFOLDED_OF_MANY))
        while sum(len(chain.links) for chain in self.open.values()) > links_max:
            chain = self.open.pop(next(iter(self.open)))
            found.append(Kept(_dump_of(chain.links.values(), self.mode), TOO_LONG))
        return found

    def _fold(self, chain: Chain, unfolded: int) -> None:
        """Replace each run of complete neighbours by one link, except among the newest chunks.

        Runs do not cross attempts.
        """
        in_order = sorted(chain.links.values(), key=lambda link: link.low)
        newest = {link.marker.chunk_id for link in in_order[max(0, len(in_order) - unfolded) :]}
        for attempt in _attempts(in_order):
            alike = [
                link
                for link in attempt
                if link.marker.chunk_id not in newest
                and chain.verdicts.get(link.marker.chunk_id) == ""
                and _traits(link) == _traits(attempt[0])
                and link.low[0] >> EPOCH_SHIFT == link.high >> EPOCH_SHIFT
            ]
            for run in runs(alike):
                for link in run:
                    del chain.links[link.marker.chunk_id]
                    del chain.verdicts[link.marker.chunk_id]
                one = _one_of(run, self.mode)
                chain.links[one.marker.chunk_id] = one
                chain.verdicts[one.marker.chunk_id] = ""
        chain.left_over = len(chain.links)

    def _abandoned(self, key: ChainKey, chain: Chain, old: bool) -> str | None:  # noqa: FBT001  a fact
        """Return why the sink stops waiting for a dump that has not ended, or None if it still
        waits.
        """
        last = max(link.latest for link in chain.links.values())
        others = [link for (topic, dump), other in self.open.items() if topic == key[0] and dump != key[1] for link in other.links.values()]
        began = [began for (topic, _), began in self.done.items() if topic == key[0]] + [link.low for link in others if link.begins]
        if not chain.has_end and any(low > last for low in began):
            return OVERTAKEN
        return None if not old else MISSING_CHUNK if chain.has_end else NOT_ENDED

    def _outcome(
        self, chain: Chain, read_to: ReadTo, *, now_s: float, wait_s: float, uncounted: Callable[[str, Position], bool]
    ) -> Dump | Kept | None:
        """Return the outcome of the newest whole attempt, else of the newest one; None if more may
        come.
        """
        found: list[Dump | Kept | None] = []
        for attempt in _attempts(chain.links.values()):
            first = attempt[0]
            if not any(link.final for link in attempt):
                found.append(None)
            elif not first.begins:
                found.append(Kept(_dump_of(attempt, self.mode), NOT_BEGUN))
            elif (fault := self._fault(attempt, uncounted, wait_s=wait_s)) is not None:
                found.append(Kept(_dump_of(attempt, self.mode), fault))
            else:
                found.append(_chained(attempt, chain.verdicts, read_to, self.mode, now_s=now_s, wait_s=wait_s))
        return next((one for one in reversed(found) if isinstance(one, Dump)), found[-1])

    def _fault(self, attempt: list[Link], uncounted: Callable[[str, Position], bool], *, wait_s: float) -> str | None:
        """Return why a dump is in doubt even if all its chunks are complete, else None."""
        first = attempt[0]
        topic = first.marker.topic
        if self.mode == REPAIR and any(link.scope != WHOLE_TABLE for link in attempt):
            return f"it does not cover the whole table (scope {next(link.scope for link in attempt if link.scope != WHOLE_TABLE)})"
        if not is_alone(topic, first.server, first.source) or len(self.sources.get(topic, {first.source}) | {first.source}) > 1:
            return SHARED
        if len({number >> EPOCH_SHIFT for link in attempt for number in (link.low[0], link.high)}) > 1:
            return OTHER_LOG
        lost_s = self.lost_s.get(topic)
        if lost_s is not None and _opened_s(attempt, wait_s) <= lost_s:
            return LOST
        return NOT_COUNTED if self.mode == REPAIR and uncounted(topic, first.low) else None


def _is_over(outcome: Dump | Kept | None) -> bool:
    """Return True if no later marker can make this dump whole."""
    return isinstance(outcome, Kept) and outcome.why not in (NOT_BEGUN, MISSING_CHUNK)


def is_alone(topic: str, server: str, source: str) -> bool:
    """Return True if the topic's name proves that it belongs to this table alone.

    The name must be ``<topic.prefix>.<database>.<table>``, with no character of it replaced.
    """
    return topic == f"{server}.{source}" and _PLAIN.fullmatch(source) is not None


def _opened_s(attempt: list[Link], window_s: float) -> float:
    """Return when the first window of a dump opened, by the sink's clock, or an earlier time.

    Markers give the worker's time. If a marker arrived before the time written in it, the worker's
    clock is ahead by at least the difference, which is subtracted. A clock that lags only makes the
    dump seem older. Markers of older workers give the time when windows closed; ``window_s`` stands
    for how long a window is open.
    """
    ahead_s = max(0.0, *(link.ahead_s for link in attempt))
    opened_ms = min(link.opened_ms for link in attempt)
    return opened_ms / 1000 - ahead_s - window_s


def _attempts(links: Iterable[Link]) -> list[list[Link]]:
    """Split the chunks into attempts, in the order of their low watermarks.

    A new attempt starts at each chunk that begins the table.
    """
    found: list[list[Link]] = []
    for link in sorted(links, key=lambda link: (link.low, not link.begins)):
        if not found or (link.begins and (link.low > found[-1][0].low or not found[-1][0].begins)):
            found.append([])
        found[-1].append(link)
    return found


def _chained(
    attempt: list[Link], verdicts: Mapping[str, str], read_to: ReadTo, mode: str, *, now_s: float, wait_s: float
) -> Dump | Kept | None:
    complete = [link for link in attempt if verdicts.get(link.marker.chunk_id) == ""]
    if _reaches_end(complete):
        # Nobody counts the changes that replaced rows of these chunks. They have come once all
        # partitions are read past the ends of that time. The same holds for all changes before a
        # chunk of a verify dump.
        replaced = (marker for link in complete if (marker := link.settles(mode)) is not None)
        settled = all(is_past(marker, read_to, now_s=now_s, wait_s=wait_s) for marker in replaced)
        return _dump_of(attempt, mode) if settled else None
    if any(link.marker.chunk_id not in verdicts for link in attempt):
        return None
    faults = [fault for link in attempt if (fault := verdicts[link.marker.chunk_id])]
    if faults:
        return Kept(_dump_of(attempt, mode), faults[0])
    if now_s - max(link.met_s[1] for link in attempt) < wait_s:
        return None
    return Kept(_dump_of(attempt, mode), MISSING_CHUNK)


def _traits(link: Link) -> tuple[object, ...]:
    """Return the properties that all chunks of a run must share."""
    return link.scope, link.server, link.source, link.low[0] >> EPOCH_SHIFT


def _one_of(run: list[Link], mode: str) -> Link:
    """Merge a run of complete chunks into one link."""
    first = min(run, key=lambda link: link.low)
    waited = [marker for link in run if (marker := link.settles(mode)) is not None]
    folded = Folded(
        latest=max(link.latest for link in run),
        met_first_s=min(link.met_s[0] for link in run),
        met_last_s=max(link.met_s[1] for link in run),
        opened_ms=min(link.opened_ms for link in run),
        ahead_s=max(link.ahead_s for link in run),
        settles=_latest_of(waited) if waited else None,
    )
    begin, end = run[0], run[-1]
    return replace(first, after=begin.after, upto=end.upto, begins=begin.begins, final=end.final, folded=folded)


def _latest_of(markers: list[Marker]) -> Marker:
    """Merge markers into one that is past only when every one of them is."""
    ends: dict[int, int] = {}
    for marker in markers:
        for partition, end in marker.ends.items():
            ends[partition] = max(end, ends.get(partition, end))
    exact = all(marker.exact for marker in markers)
    return replace(markers[0], ends=ends, exact=exact, met_s=max(marker.met_s for marker in markers))


def _reaches_end(links: list[Link]) -> bool:
    """Return True if these chunks lead from the table's beginning to its end."""
    behind: dict[str | None, list[Link]] = {}
    for link in links:
        if not link.begins:
            behind.setdefault(link.after, []).append(link)
    met: set[str | None] = set()
    ahead = [link for link in links if link.begins]
    while ahead:
        link = ahead.pop()
        if link.final:
            return True
        if link.upto not in met:
            met.add(link.upto)
            ahead += behind.get(link.upto, [])
    return False


def _dump_of(links: Iterable[Link], mode: str) -> Dump:
    in_order = sorted(links, key=lambda link: link.low)
    first = in_order[0]
    marker = first.marker
    scope = next((link.scope for link in in_order if link.scope != WHOLE_TABLE), WHOLE_TABLE)
    return Dump(
        topic=marker.topic,
        dump=first.dump,
        table=marker.table,
        low=marker.position,
        ts_ms=first.ts_ms if first.low_ts_ms is None else first.low_ts_ms,
        upto=max(link.latest for link in in_order),
        scope=scope,
        mode=mode,
    )
