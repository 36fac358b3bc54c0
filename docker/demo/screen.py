"""Draws a run as one picture for a terminal, or as single lines for a file. Pure: a view in, text out.

The picture follows the way of a row: source, worker, topics, lake. Below are the kills, what the run
does and waits for now, and the newest events, as many as fit. Every line fits into the given width.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from dataclasses import dataclass, field

from rich.cells import cell_len, set_cell_size
from rich.text import Text

BAR_CELLS = 28
WIDTH_MIN = 40
LINE_INTERVAL_S = 14.0
"""Seconds between two lines with all numbers where there is no terminal: a busy machine adds some,
and nobody is left without a line for longer than 15 s.
"""
RATE_WINDOW_S = 6.0
_LABEL_CELLS, _NUMBER = 9, 9
_EVENTS_MIN = 3
_DIM, _BOLD, _RED, _GREEN, _YELLOW = "dim", "bold", "bold red", "green", "yellow"


@dataclass(slots=True)
class Numbers:
    """The displayed numbers; None if not known (yet)."""

    rows_dumped: int | None = None
    rows_to_dump: int = 0
    dump_done: bool = False
    records: int | None = None
    changes: int = 0
    rows_lake: int | None = None
    rows_by_table: dict[str, int] = field(default_factory=dict)
    commits: int = 0
    """Number of commits of all tables of the lake."""
    newest_order_at: dt.datetime | None = None
    lag_s: float | None = None
    task: str = "-"
    dump: str = ""


@dataclass(slots=True)
class Rate:
    """A number's growth per second over the last ``RATE_WINDOW_S`` seconds."""

    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def take(self, value: int, now_s: float) -> float:
        """Add a sample. Return the growth per second, 0 while it does not grow."""
        while len(self._seen) > 1 and now_s - self._seen[1][0] >= RATE_WINDOW_S:
            self._seen.popleft()
        self._seen.append((now_s, value))
        from_s, before = self._seen[0]
        passed_s = now_s - from_s
        return max(0.0, (value - before) / passed_s) if passed_s > 0 else 0.0


@dataclass(slots=True)
class View:
    """Everything that is shown of a run. Times are in seconds since its start."""

    title: str
    source: str = "source"
    """Name of the database server."""
    elapsed_s: float = 0.0
    phase: str = "starting"
    waits_for: str = ""
    """Condition that the run waits for, empty if it does not wait."""
    waits_since_s: float = 0.0
    numbers: Numbers = field(default_factory=Numbers)
    changes_per_s: float = 0.0
    records_per_s: float = 0.0
    rows_per_s: float = 0.0
    kills: list[tuple[float, str]] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)

    @property
    def waiting(self) -> str:
        """Condition that the run waits for, with the seconds so far; empty if it does not wait."""
        return f"{self.waits_for}, {max(0.0, self.elapsed_s - self.waits_since_s):.0f} s so far" if self.waits_for else ""


def picture(view: View, *, width: int, height: int) -> list[Text]:
    """Return the lines of the screen: at most ``height``, none wider than ``width`` cells."""
    n = view.numbers
    head = _head(view, width)
    body = [
        _row("source", f"{n.changes:>{_NUMBER},} changes", _per_s(view.changes_per_s), view.source),
        _row("worker", (f"task {n.task}", _color(n.task)), *_dump(n)),
        *([_row("", "second dump", n.dump)] if n.dump else []),
        _row("topics", f"{_count(n.records):>{_NUMBER}} records in Kafka", _per_s(view.records_per_s)),
        _row("lake", f"{_count(n.rows_lake):>{_NUMBER}} rows in Delta", _per_s(view.rows_per_s), f"{n.commits} commits", f"lag {_lag(n)}"),
        *_tables(n.rows_by_table, width),
        _row("killed", *((f"{moment(at_s)} {what}", _RED) for at_s, what in view.kills)) if view.kills else _row("killed", "nothing yet"),
        Text(""),
        _row("now", (view.phase, _BOLD)),
        _row("waits", (f"for {view.waiting}", _YELLOW)) if view.waiting else _row("waits", "for nothing"),
    ]
    room = height - len(head) - len(body) - 1
    events = view.events[-room:] if room >= _EVENTS_MIN else []
    below = [Text(""), *(_event(at_s, text) for at_s, text in events)] if events else []
    return [_cut(line, width) for line in [*head, *body, *below][:height]]


def line(view: View) -> str:
    """Return one line with all numbers, for a file."""
    n = view.numbers
    parts = [
        f"source {n.changes:,} changes {_per_s(view.changes_per_s)}",
        f"worker {n.task}, dumped {_count(n.rows_dumped)} of {n.rows_to_dump:,} rows",
        f"topics {_count(n.records)} records {_per_s(view.records_per_s)}",
        f"lake {_count(n.rows_lake)} rows {_per_s(view.rows_per_s)}, lag {_lag(n)}",
        f"killed {', '.join(what for _, what in view.kills) or 'nothing yet'}",
        *([f"second dump {n.dump}"] if n.dump else []),
        *([f"waits for {view.waiting}"] if view.waiting else []),
    ]
    return f"{stamp(view.elapsed_s)}  | {' | '.join(parts)}"


def stamp(at_s: float) -> str:
    """Return a time since the start as it begins a printed line."""
    return f"{at_s:6.1f} s"


def moment(at_s: float) -> str:
    """Return a time since the start as minutes and seconds."""
    return f"{int(at_s) // 60}:{int(at_s) % 60:02}"


def bar(share: float, cells: int = BAR_CELLS) -> str:
    """Return a bar that is full at a share of 1."""
    full = int(min(1.0, max(0.0, share)) * cells)
    return "█" * full + "░" * (cells - full)


def _head(view: View, width: int) -> list[Text]:
    """Return the title with the time at the right, and a rule."""
    time = moment(view.elapsed_s)
    title = set_cell_size(view.title, max(0, width - cell_len(time) - 1))
    return [Text.assemble((title, _BOLD), " ", (time, _BOLD)), Text("─" * width, style=_DIM)]


def _row(label: str, *parts: str | tuple[str, str]) -> Text:
    """Return a labelled line; empty parts are left out."""
    text = Text(f"{label:{_LABEL_CELLS}}", style=_DIM)
    shown = [part for part in parts if part and part[0]]
    for at, part in enumerate(shown):
        plain, style = part if isinstance(part, tuple) else (part, "")
        text.append(plain, style=f"not dim {style}".strip())
        if at < len(shown) - 1:
            text.append("   ")
    return text


def _tables(rows: dict[str, int], width: int) -> list[Text]:
    """Return the rows of each table of the lake, in as many lines as the width needs."""
    lines: list[str] = []
    for table, count in rows.items():
        one = f"{table} {count:,}"
        if lines and cell_len(f"{lines[-1]} · {one}") <= width - _LABEL_CELLS:
            lines[-1] += f" · {one}"
        else:
            lines.append(one)
    return [_row("", text) for text in lines]


def _dump(n: Numbers) -> list[str | tuple[str, str]]:
    if n.rows_dumped is None or not n.rows_to_dump:
        return ["no dump yet"]
    # New rows are dumped too, so the number may exceed the rows at the start.
    share = 1.0 if n.dump_done else min(0.99, n.rows_dumped / n.rows_to_dump)
    return [(bar(share), _GREEN), f"{share:.0%} dumped", f"{n.rows_dumped:,} rows"]


def _event(at_s: float, text: str) -> Text:
    return Text.assemble((f"{moment(at_s):>6}   ", _DIM), (text, _RED if text.startswith("kill") else ""))


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text


def _color(task: str) -> str:
    return _GREEN if task == "RUNNING" else _RED if task == "FAILED" else _YELLOW


def _per_s(rate: float) -> str:
    return f"({rate:,.0f}/s)"


def _lag(n: Numbers) -> str:
    return "-" if n.lag_s is None else f"{n.lag_s:.0f} s"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
