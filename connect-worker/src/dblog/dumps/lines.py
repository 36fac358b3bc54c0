"""Formats dumps for the terminal: one line per dump, or a picture of one dump and its
tables. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dblog.dumps.printable import printable

ENDED = frozenset({"DONE", "FAILED", "STOPPED"})
_BAR_CHARS = 24
_TABLE_BAR_CHARS = 12
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_WHOLE = 100
_UNIT = 1024


def table_of(dumps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table of dumps, headings first."""
    rows: list[tuple[str, ...]] = [("ID", "MODE", "STATE", "DONE", "TABLES", "ROWS", "PATTERNS")]
    for dump in dumps:
        status = dump["status"]
        patterns = ", ".join(dump.get("tables", ())) or "(the connector's own)"
        shown = dump["id"], dump.get("mode", ""), status["state"], share_text(status), _tables(status), _rows(status), patterns
        rows.append(tuple(map(printable, shown)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def details_of(dump: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that describe one dump: its request, its progress, its tables."""
    yield headline(dump)
    for name in ("tables", "predicate", "columns", "surrogate_key", "chunk_rows", "delay_ms", "parallelism", "priority", "order", "wanted"):
        if dump.get(name) not in (None, {}):
            yield printable(f"  {name}: {_value(dump[name])}")
    if dump.get("keys"):
        yield f"  keys: {len(dump['keys'])}"
    yield f"  {progress_of(dump['status'])}"
    for table in dump["status"].get("tables", ()):
        yield f"    {table_line(table, width=0)}"


def picture_of(dump: Mapping[str, Any], *, width: int, height: int) -> list[str]:
    """Return the live view: a bar for the dump, and one for each table that the terminal has room
    for.

    No line is longer than ``width``.
    """
    status = dump["status"]
    lines = [headline(dump), f"{bar(share(status), _BAR_CHARS)} {progress_of(status)}"]
    tables = status.get("tables", ())
    room = max(0, height - len(lines) - 2)
    names = max((len(printable(str(table.get("table")))) for table in tables[:room]), default=0)
    lines += [f"  {bar(share(table), _TABLE_BAR_CHARS)} {table_line(table, width=names)}" for table in tables[:room]]
    if (hidden := (status.get("tables_total") or len(tables)) - len(tables[:room])) > 0 and tables:
        lines.append(f"  and {hidden} more tables")
    return [line[: max(1, width - 1)] for line in lines]


def headline(dump: Mapping[str, Any]) -> str:
    """Return a line with the dump's id, connector, mode and state."""
    what = "the connector's own dump" if dump.get("requested_by") == "connector" else f"dump {dump['id']}"
    mode = dump.get("mode")
    reason = dump["status"].get("reason")
    return printable(
        f"{what} of {dump['connector']}"
        + (f" ({mode})" if mode else "")
        + f": {dump['status']['state']}"
        + _asked(dump)
        + (f", {reason}" if reason else "")
    )


def _asked(dump: Mapping[str, Any]) -> str:
    """Return a remark about a requested state that is not reached yet, which takes a
    second or two.
    """
    state, wanted = dump["status"]["state"], dump.get("wanted")
    if wanted in {"PAUSED", "STOPPED"} and state != wanted and state not in ENDED:
        return f" (asked to be {wanted})"
    return " (asked to go on)" if wanted == "RUNNING" and state == "PAUSED" else ""


def progress_of(status: Mapping[str, Any]) -> str:
    """Return the progress of a dump in one line."""
    parts = [f"{share_text(status)}", f"{_rows(status)} rows"]
    if status.get("rows_estimated") is not None and status["state"] not in ENDED:
        parts[-1] = f"{_rows(status)} of about {_number(status['rows_estimated'])} rows"
    if status.get("bytes"):
        parts.append(_size(status["bytes"]))
    parts.append(f"{_tables(status)} tables")
    if status.get("tables_failed"):
        parts.append(f"{status['tables_failed']} failed")
    if status.get("rows_per_s") is not None:
        parts.append(f"{_number(status['rows_per_s'])} rows/s")
    if status.get("eta_s") is not None:
        parts.append(_time_left(status))
    governor = status.get("governor") or {}
    if governor.get("state") in ("slowed", "held"):
        parts.append(f"{governor['state']}: {governor.get('reason')}")
    return printable(", ".join(part for part in parts if part))


def table_line(table: Mapping[str, Any], *, width: int) -> str:
    """Return the progress of one table in one line."""
    parts = [f"{_rows(table)} rows"]
    if table.get("rows_estimated") is not None and table.get("state") not in ENDED:
        parts = [f"{_rows(table)} of about {_number(table['rows_estimated'])} rows"]
    if table.get("chunks") is not None:
        parts.append(f"{_number(table['chunks'])} chunks")
    for name, what in (("chunks_open", "open"), ("chunks_read_again", "read again")):
        if table.get(name):
            parts.append(f"{_number(table[name])} {what}")
    if table.get("eta_s") is not None and table.get("state") not in ENDED:
        parts.append(_time_left(table))
    if table.get("chunk_rows") is not None and table.get("state") not in ENDED:
        parts.append(f"{_number(table['chunk_rows'])} rows a chunk")
    parts += [str(table[name]) for name in ("reason", "fault") if table.get(name)]
    return printable(f"{printable(str(table.get('table'))):<{width}}  {table.get('state')}  {', '.join(parts)}")


def share(status: Mapping[str, Any]) -> float | None:
    """Return the share that is done, from 0 to 1; None if nothing is known.

    The share is an estimate, so it stays below 1 until the state is DONE.
    """
    if status.get("state") == "DONE":
        return 1.0
    rows, estimated = status.get("rows"), status.get("rows_estimated")
    if rows is not None and estimated:
        return min(0.99, float(rows / estimated))
    done, total = status.get("tables_done"), status.get("tables_total")
    return min(0.99, float(done / total)) if done is not None and total else None


def share_text(status: Mapping[str, Any]) -> str:
    """Return the share that is done in percent, or ``?``."""
    done = share(status)
    return "?" if done is None else f"{int(done * _WHOLE)} %"


def bar(done: float | None, chars: int) -> str:
    """Return a progress bar, ``chars`` characters between brackets."""
    full = 0 if done is None else int(done * chars)
    return f"[{'#' * full}{'.' * (chars - full)}]"


def duration(seconds: float) -> str:
    """Return a duration with a fitting unit, such as ``90 s`` or ``5 min``."""
    whole = max(0, round(seconds))
    if whole < 2 * _MINUTE_S:
        return f"{whole} s"
    if whole < 2 * _HOUR_S:
        return f"{whole // _MINUTE_S} min"
    if whole < 2 * _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} days"


def _time_left(status: Mapping[str, Any]) -> str:
    """Return the time left, with the median relative error of past estimates if it is known."""
    error = status.get("eta_error")
    return f"{duration(status['eta_s'])} left" + ("" if error is None else f" ± {round(error * _WHOLE)} %")


def _size(size_bytes: float) -> str:
    """Return a size with a fitting unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size_bytes < _UNIT:
            return f"{size_bytes:.3g} {unit}" if size_bytes < _WHOLE else f"{size_bytes:.0f} {unit}"
        size_bytes /= _UNIT
    return f"{size_bytes:,.1f} TiB"


def _tables(status: Mapping[str, Any]) -> str:
    total = status.get("tables_total")
    return f"{_number(status.get('tables_done', 0))} of {'?' if total is None else _number(total)}"


def _rows(status: Mapping[str, Any]) -> str:
    return _number(status.get("rows") or 0)


def _number(value: float) -> str:
    """Return a number with its digits in groups of three."""
    return f"{round(value):,}".replace(",", " ")


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{name}: {text}" for name, text in value.items())
    return str(value)
