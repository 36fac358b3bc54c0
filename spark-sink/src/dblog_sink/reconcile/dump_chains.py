"""Which dumps of a table are whole, by the markers of their chunks: what a whole dump did not bring, the source does not have. Pure.

A chain is the markers of one dump of one topic. It is whole if complete chunks lead from one that begins to one that is final, each from the end of the one
before (schemas/README.md). Then every row of the source has a record at or behind the low watermark of the chunk that begins: its row was sent, or a change
inside a window replaced it, or it came later. So a row of the table whose newest record is older is a ghost.

No order of arrival is relied on: markers are a graph of bounds, and a chunk that a restarted worker reads again is one edge more. A dump that begins its
table again is another attempt, which begins behind all chunks of the one before: the two are never mixed, for each has looked up anew where the table ends.

Whatever is doubtful keeps the rows: a ghost that stays is found by the next dump, a row that is deleted by mistake is gone.

Of a dump of many chunks, runs of complete neighbours are kept as one link (``folding.py``).

A dump that only compares (mode ``verify``) sends no rows, so its chunks are complete as they come; and what it shows of some rows of a table is shown,
whether it covers all of them or not.
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
"""Modes: ghosts are removed after the one, and the other sends no rows, but what they are compared by."""
WHOLE_TABLE = "table"
"""The scope of dumps that cover their tables."""

ChainKey = tuple[str, str]
"""A topic, and the id of the dump."""

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
"""Database and table with no character that a topic's name replaces, or that separates its parts: no other table has a topic of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What a link must know besides that stands for a run of complete chunks, whose first one it is by position."""

    latest: Position
    """The low watermark of the latest of them."""
    met_first_s: float
    met_last_s: float
    opened_ms: int
    """The least time at which a window of them opened."""
    ahead_s: float
    """How far the worker's clock was ahead at most."""
    settles: Marker | None
    """Reached when all of them are that are waited for: those of which rows were not sent, or that compare. None: none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One chunk of a dump. ``high``: the first number of the high watermark's position; ``ts_ms``: when the window closed."""

    marker: Marker
    dump: str
    scope: str
    server: str
    source: str
    """The table's name in the source."""
    after: str | None
    upto: str | None
    begins: bool
    final: bool
    high: int
    dropped: int
    """Rows that were not sent, for a change of the log replaced them."""
    ts_ms: int
    low_ts_ms: int | None = None
    """When the worker met the low watermark; None: an older one, which does not tell."""
    folded: Folded | None = None
    """Of a link that stands for a run of chunks."""

    @property
    def low(self) -> Position:
        """The low watermark."""
        return self.marker.position

    @property
    def latest(self) -> Position:
        """The low watermark of its latest chunk."""
        return self.low if self.folded is None else self.folded.latest

    @property
    def met_s(self) -> tuple[float, float]:
        """When the first and the last of its markers came."""
        return (self.marker.met_s, self.marker.met_s) if self.folded is None else (self.folded.met_first_s, self.folded.met_last_s)

    @property
    def opened_ms(self) -> int:
        """When its first window opened, as far as the worker tells."""
        if self.folded is not None:
            return self.folded.opened_ms
        return self.ts_ms if self.low_ts_ms is None else self.low_ts_ms

    @property
    def ahead_s(self) -> float:
        """How far the worker's clock was ahead at least, by the times of its markers."""
        return self.ts_ms / 1000 - self.marker.met_s if self.folded is None else self.folded.ahead_s

    def settles(self, mode: str) -> Marker | None:
        """Return the marker that every partition must be read past before the dump is whole; None: there is none."""
        if self.folded is not None:
            return self.folded.settles
        return self.marker if self.dropped or mode == VERIFY else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """A dump of a table that came to its end. ``table`` is the name in the lake, ``ts_ms`` the worker's time of the low watermark; of an older worker that of
    the first window's end.
    """

    topic: str
    dump: str
    table: str
    low: Position
    ts_ms: int
    upto: Position
    """The low watermark of its last chunk."""
    scope: str = WHOLE_TABLE
    mode: str = REPAIR

    @property
    def key(self) -> ChainKey:
        """Which chain it is of."""
        return self.topic, self.dump


@dataclass(frozen=True, slots=True)
class Kept:
    """A dump after which no row is removed, and why."""

    dump: Dump
    why: str


@dataclass(slots=True)
class Chain:
    """The chunks of one dump, by their ids. ``verdicts``: empty for a complete chunk, else what is wrong with it; none yet for one that is not judged."""

    links: dict[str, Link] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    has_end: bool = False
    """A final chunk was met."""
    reported: str = ""
    """Why it was not whole when that was last reported."""
    left_over: int = 0
    """Links that the last folding left: it is tried again when there are twice as many."""


@dataclass(slots=True)
class Chains:
    """Everything of one ``mode`` that is not acted on yet."""

    mode: str = REPAIR
    open: dict[ChainKey, Chain] = field(default_factory=dict)
    done: dict[ChainKey, Position] = field(default_factory=dict)
    """Dumps that were whole, and where they began: what a restarted worker reads again of their ends changes nothing."""
    lost_s: dict[str, float] = field(default_factory=dict)
    """By topic, when records of it were last found to be lost."""
    sources: dict[str, set[str]] = field(default_factory=dict)
    """By topic, the tables of the source whose markers name it."""
    fold_above: int = FOLD_ABOVE
    unfolded: int = UNFOLDED

    def name(self, topic: str, source: str) -> None:
        """Rows of a source table go to this topic."""
        self.sources.setdefault(topic, set()).add(source)

    def lose(self, topic: str, at_s: float) -> None:
        """Records of the topic were found to be lost."""
        self.lost_s[topic] = max(at_s, self.lost_s.get(topic, at_s))

    def link(self, link: Link) -> None:
        """A marker came; the same one a second time changes nothing."""
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
        """A chunk was judged; ``fault`` is empty if all of it came."""
        for (one, _), chain in self.open.items():
            if one == topic and chunk_id in chain.links:
                chain.verdicts[chunk_id] = fault

    def decide(
        self, read_to: ReadTo, *, now_s: float, wait_s: float, keep_s: float, uncounted: Callable[[str, Position], bool]
    ) -> list[Dump | Kept]:
        """What came to its end: dumps that are whole, each once, and those that are not, each time for another reason.

        ``uncounted``: whether rows of a chunk of this topic and low watermark may have come before counting began.
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
        """Drop the oldest dumps of too many gaps. # I6"""
        found = []
        if sum(len(chain.links) for chain in self.open.values()) > links_max:
            for chain in self.open.values():
                self._fold(chain, min(self.unfolded, UNFOLDED_OF_MANY))
        while sum(len(chain.links) for chain in self.open.values()) > links_max:
            chain = self.open.pop(next(iter(self.open)))
            found.append(Kept(_dump_of(chain.links.values(), self.mode), TOO_LONG))
        return found

    def _fold(self, chain: Chain, unfolded: int) -> None:
        """Keep each run of complete neighbours as one link, but for the newest chunks. Attempts are not mixed."""
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
        """Why a dump that has not ended is not waited for any more."""
        last = max(link.latest for link in chain.links.values())
        others = [link for (topic, dump), other in self.open.items() if topic == key[0] and dump != key[1] for link in other.links.values()]
        began = [began for (topic, _), began in self.done.items() if topic == key[0]] + [link.low for link in others if link.begins]
        if not chain.has_end and any(low > last for low in began):
            return OVERTAKEN
        return None if not old else MISSING_CHUNK if chain.has_end else NOT_ENDED

    def _outcome(
        self, chain: Chain, read_to: ReadTo, *, now_s: float, wait_s: float, uncounted: Callable[[str, Position], bool]
    ) -> Dump | Kept | None:
        """Of the newest attempt, unless an earlier one is whole. None: more may come."""
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
        """What makes a dump doubtful, however complete its chunks are."""
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
    """Whether nothing that comes makes this dump whole."""
    return isinstance(outcome, Kept) and outcome.why not in (NOT_BEGUN, MISSING_CHUNK)


def is_alone(topic: str, server: str, source: str) -> bool:
    """Whether the topic's name shows that it is one table's: ``<topic.prefix>.<database>.<table>``, from which no character was taken away."""
    return topic == f"{server}.{source}" and _PLAIN.fullmatch(source) is not None


def _opened_s(attempt: list[Link], window_s: float) -> float:
    """When the first window of a dump opened, by the sink's clock, or earlier. Markers tell it by the worker's: that is ahead at least as far as one of them
    came before it was written, and behind only what makes the dump seem older. Those of older workers tell when windows closed, and ``window_s`` is taken for
    how long one is open.
    """
    ahead_s = max(0.0, *(link.ahead_s for link in attempt))
    opened_ms = min(link.opened_ms for link in attempt)
    return opened_ms / 1000 - ahead_s - window_s


def _attempts(links: Iterable[Link]) -> list[list[Link]]:
    """The chunks in the order of their low watermarks, parted in front of each that begins its table."""
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
        # The changes that replaced rows of its chunks are counted by nobody: they have come when all partitions are read past what there was. So are all
        # changes in front of a chunk that only compares.
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
    """What all chunks of a run must have in common."""
    return link.scope, link.server, link.source, link.low[0] >> EPOCH_SHIFT


def _one_of(run: list[Link], mode: str) -> Link:
    """Return the link that stands for a run of complete chunks."""
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
    """Return a marker that every partition is read past only when that is so of all of these."""
    ends: dict[int, int] = {}
    for marker in markers:
        for partition, end in marker.ends.items():
            ends[partition] = max(end, ends.get(partition, end))
    exact = all(marker.exact for marker in markers)
    return replace(markers[0], ends=ends, exact=exact, met_s=max(marker.met_s for marker in markers))


def _reaches_end(links: list[Link]) -> bool:
    """Whether these chunks lead from the table's beginning to its end."""
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
