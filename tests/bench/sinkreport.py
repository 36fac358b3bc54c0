"""The comparison of the sinks as build/bench/sink.json for programs and as tables for people, with the goals beside."""

from __future__ import annotations

import statistics
from typing import Any

from rich.table import Table
from sinkmeasures import Measured
from sinkworks import Memory, Paced, Throughput, Work


def entry(work: Work, results: dict[str, list[Measured]], half: dict[str, list[Measured]]) -> dict[str, Any]:
    """One element of sink.json: medians of the rounds; the ratio is ours over the naive sink's, above 1 where ours is better."""
    sides = {key: _side(runs) for key, runs in results.items()}
    ours, naive = sides.get("ours"), sides.get("naive")
    made: dict[str, Any] = {"work": work.name, "ours": ours, "naive": naive, "ratio": None, "goal": {}}
    match work:
        case Throughput():
            made["goal"] = {"ratio": work.goal}
            if ours and naive:
                made["ratio"] = ours["rows_per_s"] / naive["rows_per_s"]
            if half:
                made["half_rate"] = _side(half["ours"])
                made["goal"]["half_rate_p99_s"] = work.half_rate_p99_s
        case Paced():
            made["goal"] = {"p99_s": work.goal_p99_s}
            made["per_s"], made["tables"] = work.per_s, work.tables
            if ours and naive:
                made["ratio"] = naive["p99_s"] / ours["p99_s"]
        case Memory():
            made["goal"] = {"heap": "flat"}
    return made


def _side(runs: list[Measured]) -> dict[str, Any]:
    walls = [m for m in runs if m.wall_s and m.p99_s is None]
    return {
        "records": runs[0].records,
        "rounds": len(runs),
        "rows_per_s": statistics.median(m.records / m.wall_s for m in walls if m.wall_s) if walls else None,
        "rows_per_cpu_s": statistics.median(m.records / m.cpu_s for m in walls if m.cpu_s) if walls else None,
        "p50_s": _median([m.p50_s for m in runs]),
        "p99_s": _median([m.p99_s for m in runs]),
        "heap_mib": list(runs[0].heap_mib) or None,
        "rss_mib": list(runs[0].rss_mib) or None,
    }


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def tables(entries: list[dict[str, Any]]) -> list[Table]:
    """Rates, freshness and memory; one of them when nothing of the others was asked."""
    rates = _table("rows a second", ("work", "naive", "per CPU-s", "ours", "per CPU-s", "times", "p99 at half rate"))
    delays = _table("freshness: seconds", ("work", "naive p50", "p99", "ours p50", "p99", "goal"))
    memory = _table("driver memory: MiB", ("work", "heap after collection", "resident"))
    for e in entries:
        ours, naive, goal = e["ours"] or {}, e["naive"] or {}, e["goal"]
        if "ratio" in goal:
            half = e.get("half_rate")
            rates.add_row(
                e["work"],
                *(_whole(side.get(name)) for side in (naive, ours) for name in ("rows_per_s", "rows_per_cpu_s")),
                "" if e["ratio"] is None else _coloured(f"{e['ratio']:.1f} of {goal['ratio']:g}", good=e["ratio"] >= goal["ratio"]),
                _coloured(f"{half['p99_s']:.1f} s", good=half["p99_s"] < goal["half_rate_p99_s"]) if half else "",
            )
        elif "p99_s" in goal:
            p99 = ours.get("p99_s")
            delays.add_row(
                e["work"],
                *(_seconds(naive.get("p50_s")), _seconds(naive.get("p99_s")), _seconds(ours.get("p50_s"))),
                *("" if p99 is None else _coloured(_seconds(p99), good=p99 < goal["p99_s"]), f"p99 {goal['p99_s']:g}"),
            )
        else:
            memory.add_row(e["work"], *(" ".join(f"{mib:.0f}" for mib in ours.get(name) or ()) for name in ("heap_mib", "rss_mib")))
    return [table for table in (rates, delays, memory) if table.row_count]


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(title=title)
    for at, heading in enumerate(headings):
        table.add_column(heading, justify="right" if at else "left")
    return table


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _coloured(text: str, *, good: bool) -> str:
    return f"[{'green' if good else 'red'}]{text}[/]"
