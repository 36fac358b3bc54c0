"""The comparison as build/bench/peer.json for programs and as tables for people, with the goals beside."""

from __future__ import annotations

import statistics
from typing import Any

from measures import Measured
from rich.table import Table
from works import PEAK_MIB_MAX, CatchUp, Dump, DumpBeside, Latency, Restart, Work


def entry(work: Work, results: dict[str, list[Measured]], facts: dict[str, Any]) -> dict[str, Any]:
    """One element of peer.json: medians of the rounds, ratios against the tuned peer (for a restart there is only the peer as it comes)."""
    medians: dict[str, dict[str, float | None] | None] = {
        key: _median(results[key], rates=not isinstance(work, Restart)) if key in results else None
        for key in ("ours", "peer", "peer_tuned")
    }
    ours, against = medians["ours"], medians["peer_tuned"] or medians["peer"]
    wall = cpu = None
    if ours and against:
        # Less is better where the answer is a delay.
        delay = isinstance(work, Latency | Restart)
        wall = _ratio(against["p50_ms"], ours["p50_ms"]) if delay else _ratio(ours["records_per_s"], against["records_per_s"])
        cpu = _ratio(ours["records_per_cpu_s"], against["records_per_cpu_s"])
    return {
        "work": work.name,
        **medians,
        "ratio_wall": wall,
        "ratio_cpu": cpu,
        "records": next(iter(results.values()))[0].records,
        "rounds": len(next(iter(results.values()))),
        "machine": facts,
    }


def _median(runs: list[Measured], *, rates: bool) -> dict[str, float | None]:
    return {
        "records_per_s": statistics.median(m.records / m.wall_s for m in runs) if rates else None,
        "records_per_cpu_s": statistics.median(m.records / m.cpu_s for m in runs if m.cpu_s) if any(m.cpu_s for m in runs) else None,
        "peak_rss_mib": max((m.peak_mib for m in runs if m.peak_mib is not None), default=None),
        "p50_ms": statistics.median(m.p50_ms for m in runs if m.p50_ms is not None) if runs[0].p50_ms is not None else None,
        "p99_ms": statistics.median(m.p99_ms for m in runs if m.p99_ms is not None) if runs[0].p99_ms is not None else None,
    }


def _ratio(more: float | None, less: float | None) -> float | None:
    return more / less if more and less else None


def tables(works: list[Work], entries: list[dict[str, Any]]) -> list[Table]:
    """Throughput, and delays; one of them when nothing of the other was asked."""
    by_name = {work.name: work for work in works}
    through = _table(
        "throughput: thousand records",
        ("work", "ours /s", "/CPU-s", "MiB", "peer /s", "/CPU-s", "tuned /s", "/CPU-s", "MiB", "wall", "CPU"),
    )
    delays = _table("delays: ms", ("work", "ours p50", "p99", "k per CPU-s", "peer p50", "p99", "tuned p50", "p99", "MiB", "goal"))
    for e in entries:
        work, ours, peer, tuned = by_name[e["work"]], e["ours"] or {}, e["peer"] or {}, e["peer_tuned"] or {}
        match work:
            case CatchUp() | Dump() | DumpBeside():
                through.add_row(
                    work.name,
                    *(_k(ours.get("records_per_s")), _k(ours.get("records_per_cpu_s")), _mib(ours.get("peak_rss_mib"))),
                    *(_k(peer.get("records_per_s")), _k(peer.get("records_per_cpu_s"))),
                    *(_k(tuned.get("records_per_s")), _k(tuned.get("records_per_cpu_s")), _plain(tuned.get("peak_rss_mib"))),
                    *(_times(e["ratio_wall"], work.goal.wall), _times(e["ratio_cpu"], work.goal.cpu)),
                )
        match work:
            case Latency() | Restart() | DumpBeside():
                goals = _goals(work)
                delays.add_row(
                    work.name,
                    *(_ms(ours.get("p50_ms"), goals[0]), _ms(ours.get("p99_ms"), goals[1]), _k(ours.get("records_per_cpu_s"))),
                    *(_plain(peer.get("p50_ms")), _plain(peer.get("p99_ms")), _plain(tuned.get("p50_ms")), _plain(tuned.get("p99_ms"))),
                    *(_mib(ours.get("peak_rss_mib")), f"p50 {goals[0]:g}, p99 {goals[1]:g}"),
                )
    return [table for table in (through, delays) if table.row_count]


def _goals(work: Latency | Restart | DumpBeside) -> tuple[float, float]:
    """Of p50 and of p99, in ms."""
    match work:
        case Latency():
            return work.goal_p50_ms, work.goal_p99_ms
        case DumpBeside():
            return work.goal_p99_ms, work.goal_p99_ms
        case Restart():
            return work.goal_ms, work.goal_ms


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(title=title)
    for at, heading in enumerate(headings):
        table.add_column(heading, justify="right" if at else "left")
    return table


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _k(value: float | None) -> str:
    return "" if value is None else _plain(value / 1000)


def _coloured(text: str, *, good: bool) -> str:
    return f"[{'green' if good else 'red'}]{text}[/]"


def _mib(value: float | None) -> str:
    return "" if value is None else _coloured(f"{value:,.0f}", good=value < PEAK_MIB_MAX)


def _times(value: float | None, goal: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if goal is None else _coloured(f"{value:.1f} of {goal:g}", good=value >= goal)


def _ms(value: float | None, goal: float) -> str:
    return "" if value is None else _coloured(_plain(value), good=value < goal)
