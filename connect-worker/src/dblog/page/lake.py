"""Puts together what sinks report of a connector's tables. Pure.

A sink's report is about all of its topics; a connector's part of it are the tables of that
connector's topics. Several sinks may have tables of one topic.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dblog.cluster.sinkrecords import SinkId
from dblog.cluster.sinkstore import KnownSink, SinkOfTable

BAD_WORDS = ("FAILED", "GONE", "UNKNOWN")
"""Words for a sink that does not bring its tables up to date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSeen:
    """One sink, as far as it concerns some tables."""

    name: str
    state_path: str
    word: str
    """GONE, UNKNOWN, or the state that it reported: RUNNING, STARTING, RESTARTING, FAILED, STOPPED."""
    sentence: str
    """Says what is wrong with it. Empty where nothing is."""
    remedy: str
    lag_s: float | None
    seen_s: float
    program: str
    known: KnownSink

    @property
    def is_bad(self) -> bool:
        """True if it does not bring its tables up to date."""
        return self.word in BAD_WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """The tables that sinks make of a connector's topics."""

    sinks: tuple[SinkSeen, ...]
    lag_s: float | None
    """Time from Kafka to the tables, of the sink that is the furthest behind."""
    tables: int
    rows: int | None
    parked: tuple[SinkOfTable, ...]
    quarantined: int
    differing: int
    """Tables whose last comparison with the source showed wrong rows."""
    equal: int
    source_ts_ms: int | None
    """Source's time of the newest change that is in one of the tables."""

    @property
    def word(self) -> str:
        """The worst word of its sinks."""
        order = (*BAD_WORDS, "RESTARTING", "STARTING", "STOPPED", "RUNNING")
        words = [each.word for each in self.sinks]
        return next((word for word in order if word in words), words[0] if words else "")


def seen(known: KnownSink, now_s: float, *, with_reason: bool) -> SinkSeen:
    """Return a sink with the sentence about what is wrong. Without ``with_reason`` its own reason,
    which may name tables that the caller may not see, is left out.
    """
    report, word = known.report, known.word(now_s)
    reason = f": {report.reason}" if report.reason and with_reason else ""
    sentence, remedy = "", ""
    if not report.is_known:
        sentence = f"It reports in version {report.version}, which this worker does not know."
        remedy = "Upgrade this worker; the sink itself goes on."
    elif word == "GONE":
        sentence = "It has not reported for a while, and did not say that it stops: it was killed, hangs, or cannot reach Kafka."
        remedy = (
            "See whether its driver runs, and its log. It goes on from its checkpoint when it is started again; nothing is lost before "
            "Kafka's retention ends."
        )
    elif word == "FAILED":
        sentence = f"It has ended{reason}."
        remedy = "Its log has the whole message. Once the cause is gone, start it again; it goes on from its checkpoint."
    elif word == "RESTARTING":
        sentence = f"Its query starts again{reason}."
    elif report.blocked:
        sentence = f"A transaction blocks its next consistent snapshot{f' ({report.blocked})' if with_reason else ''}: some of its records are missing."
        remedy = "If they are lost, name the transaction in the sink's manifest.pass, and dump the tables again."
    return SinkSeen(
        name=known.id.name,
        state_path=known.id.state_path,
        word=word,
        sentence=sentence,
        remedy=remedy,
        lag_s=known.lag_s(now_s),
        seen_s=known.seen_s,
        program=report.program,
        known=known,
    )


def lake_of(
    found: Sequence[SinkOfTable], sink_of: Callable[[SinkId], KnownSink | None], now_s: float, *, with_reason: bool = False
) -> Lake | None:
    """Return what sinks have of these tables, or None if no sink has any."""
    ids = dict.fromkeys(each.sink for each in found)
    known = [sink for each in ids if (sink := sink_of(each)) is not None]
    if not known:
        return None
    sinks = tuple(seen(each, now_s, with_reason=with_reason) for each in known)
    lags = [each.lag_s for each in sinks if each.lag_s is not None]
    rows = [each.table.rows for each in found if each.table.rows is not None]
    times = [each.table.source_ts_ms for each in found if each.table.source_ts_ms is not None]
    verdicts = [each.table.verified for each in found if each.table.verified is not None]
    return Lake(
        sinks=sinks,
        lag_s=max(lags) if lags else None,
        tables=len({each.topic for each in found}),
        rows=sum(rows) if rows else None,
        parked=tuple(each for each in found if each.table.parked is not None),
        quarantined=sum(each.table.quarantined or 0 for each in found),
        differing=sum(each.wrong > 0 for each in verdicts),
        equal=sum(each.wrong == 0 and each.result == "equal" for each in verdicts),
        source_ts_ms=max(times) if times else None,
    )


def by_topic(found: Iterable[SinkOfTable]) -> Mapping[str, list[SinkOfTable]]:
    """Return what sinks report of tables, by topic."""
    tables: dict[str, list[SinkOfTable]] = {}
    for each in found:
        tables.setdefault(each.topic, []).append(each)
    return tables


def resume_command(table: SinkOfTable) -> str:
    """Return the command that lets a sink write a parked table again, its name quoted for a shell."""
    return f"dblog-sink resume {shlex.quote(table.table.name)} --config <the sink's configuration>"
