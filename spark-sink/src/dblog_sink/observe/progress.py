"""Writes progress lines, one JSON object a line, for the demo, for tests and for ``tail -f``.

A ``batch`` line is written when a batch is committed. It has the applied and live rows of each
table and the age of its newest row (``source_lag_s``: from the commit on the source to visible in
Delta). If a table's path is ``land``, its records are in the landing table, and
``query/freshest.py`` shows them; a ``merge`` line follows when they are in the mirror. An ``idle``
or ``behind`` line counts the records that wait in Kafka. ``parked``, ``resumed`` and ``vacuum``
lines are about one table; ``started``, ``stopped`` and ``failed`` frame a run. Values of rows never
appear.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dblog_sink.observe.logs import FACTS
from dblog_sink.tables.modes.work import Applied

log = logging.getLogger(__name__)


_SHOWN_EVERY_S = 30.0
"""Seconds between log lines about waiting records."""
_ERRORS = frozenset({"failed", "data_loss", "parked"})
_WARNINGS = frozenset({"restarting", "incomplete"})


Listener = Callable[[str, Mapping[str, Any]], None]
"""Function that receives the kind and facts of a line."""


class Progress:
    """The writer of progress lines; threads may share it."""

    def __init__(
        self,
        file: Path | None,
        *,
        listener: Listener = lambda _kind, _facts: None,
        log_facts: bool = False,
        now_s: Callable[[], float] = time.time,
        bytes_max: int = 0,
    ) -> None:
        """Open the progress file, if any.

        ``listener`` receives every line, with or without a file. ``log_facts`` logs lines with
        their facts, for logs in JSON, instead of sentences. A file that reaches ``bytes_max`` is
        renamed to ``<file>.1``, replacing the one before; 0 means never.
        """
        self._file = file
        self._listener = listener
        self._log_facts = log_facts
        self._now_s = now_s
        self._bytes_max = bytes_max
        self._full_at = bytes_max
        """Size at which the file is renamed next; more than ``bytes_max`` after a failed
        attempt.
        """
        self._turn = threading.Lock()
        self._totals: dict[str, dict[str, int]] = {}
        self._shown: tuple[str, float] = ("", 0.0)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)

    def emit(self, kind: str, **facts: Any) -> None:
        """Write one line."""
        self._listener(kind, facts)
        self._show(kind, facts)
        if self._file is None:
            return
        line = json.dumps({"at": round(self._now_s(), 3), "kind": kind, **facts}, separators=(",", ":"))
        with self._turn:
            with self._file.open("a", encoding="utf-8") as out:
                out.write(f"{line}\n")
                # A pipe does not grow.
                size = out.tell() if out.seekable() else 0
            if 0 < self._full_at <= size:
                self._put_aside(self._file, size)

    def _put_aside(self, file: Path, size: int) -> None:
        """Start another file. If that fails, this one grows further, and the job goes on."""
        try:
            # /dev/stdout is a link, and the link would be renamed.
            if file.is_symlink():
                msg = "it is a link"
                raise OSError(msg)
            file.replace(file.with_name(f"{file.name}.1"))
        except OSError as e:
            if self._full_at == self._bytes_max:
                log.warning(
                    "%s has %d bytes and cannot be renamed to %s.1 (%s): it grows on; let the job write its folder, or set progress.file.mib.max=0 and rotate "
                    "it by other means",
                    file,
                    size,
                    file.name,
                    e.strerror or e,
                )
            self._full_at = size + self._bytes_max
        else:
            self._full_at = self._bytes_max

    def count(self, kind: str, **facts: Any) -> None:
        """Pass an event to the listener that is too small for a line."""
        self._listener(kind, facts)

    def _show(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Log that the job starts or becomes idle, and now and then how much waits."""
        if kind in ("idle", "behind"):
            before, at_s = self._shown
            if kind == before and (kind == "idle" or self._now_s() - at_s < _SHOWN_EVERY_S):
                return
            self._shown = (kind, self._now_s())
        if self._log_facts:
            self._log(kind, facts)
        elif kind == "started":
            log.info("%s started; checkpoint %s. Waiting for records", facts["name"], facts["checkpoint"])
        elif kind == "idle":
            log.info("up to date with Kafka after batch %d; waiting for records", facts["batch_id"])
        elif kind == "behind":
            log.info("%d records wait in Kafka, %d in the landing table", facts["records_behind"], facts["rows_waiting"])

    @staticmethod
    def _log(kind: str, facts: Mapping[str, Any]) -> None:
        """Log an event with its facts; for a batch also one event for each table."""
        tables = facts.get("tables")
        if not isinstance(tables, Mapping):
            tables = {}
        level = logging.ERROR if kind in _ERRORS else logging.WARNING if kind in _WARNINGS else logging.INFO
        own = {name: value for name, value in facts.items() if value is not tables}
        log.log(level, kind, extra={FACTS: own | ({"tables": len(tables)} if tables else {})})
        for table, one in tables.items():
            log.info("table", extra={FACTS: {"table": table, "batch_id": facts["batch_id"], **one}})

    def batch(
        self,
        batch_id: int,
        applied: list[Applied],
        *,
        seconds: float,
        records: int,
        resent: int,
        phases: Mapping[str, float] | None = None,
    ) -> None:
        """Report a committed batch. ``phases`` has the seconds of its steps."""
        now_ms = self._now_s() * 1000
        tables: dict[str, dict[str, Any]] = {}
        for one in applied:
            total = self._totals.setdefault(one.table, {"records": 0, "upserts": 0, "deletes": 0, "bad": 0})
            for name in total:
                total[name] += getattr(one, name)
            tables[one.table] = self._facts(one, now_ms) | {"total": dict(total)}
        self.emit(
            "batch",
            batch_id=batch_id,
            records=records,
            resent=resent,
            seconds=round(seconds, 3),
            rate=round(records / seconds) if seconds > 0 else 0,
            phases={name: round(taken, 3) for name, taken in (phases or {}).items()},
            tables=tables,
        )
        if not self._log_facts:
            log.info("batch %d: %d records of %d tables in %.2f s", batch_id, records, len(applied), seconds)

    def merge(self, applied: Applied, *, sequence: int) -> None:
        """Report that a table's landed rows are merged up to a batch sequence."""
        self.emit("merge", table=applied.table, sequence=sequence, **self._facts(applied, self._now_s() * 1000))

    @staticmethod
    def _facts(one: Applied, now_ms: float) -> dict[str, Any]:
        facts = asdict(one)
        for name in ("table", "topic", "table_id", "appending", "positions"):
            del facts[name]
        facts["seconds"] = round(one.seconds, 3)
        facts["source_lag_s"] = None if one.source_ts_ms is None else round((now_ms - one.source_ts_ms) / 1000, 3)
        return facts
