"""The dumps of a dummy task: it answers the control messages about them, but reads no rows.

The task's configuration and a request's fields determine its answers:

- ``dummy.dumps`` is a file for the received messages about dumps, including the first requests.
- ``dummy.tables`` has the captured tables (default shop.orders, shop.items).
- ``dummy.check`` is ``silent`` for no answer to a check, ``deaf`` for no answer about a table,
  ``away`` for the answer that the database cannot be reached, or ``end`` for a task that ends
  without an answer.
- ``dummy.initial`` is the number of tables, of ten, that the first dump has read.
- A request has 1 000 rows for each revision. With ``delay_ms`` 999 its dump ends as DONE, with 998
  as FAILED; with 997 its end is reported, but a message to forget it is ignored.
- A predicate with the word "syntax" counts as invalid SQL, and a text does not fit as a key.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dblog.core.dumprequests import DumpRequest, Wanted, request_from_json, selects, supersedes

DONE, FAILED, DEAF = 999, 998, 997
STARTED_MS = 1764170000000


class DummyDumps:
    """The dumps of one dummy task."""

    def __init__(self, start: Mapping[str, Any], send: Callable[[dict[str, object]], None]) -> None:
        config = start["config"]
        self._tables = config.get("dummy.tables", "shop.orders,shop.items").split(",")
        self._check = config.get("dummy.check", "")
        self._initial = config.get("dummy.initial")
        self._send = send
        self._echo = config.get("dummy.dumps")
        self._requests: dict[str, DumpRequest] = {}
        self._log({"type": "start", "dumps": start.get("dumps")})
        for request in start.get("dumps", ()):
            self._note(request)
        if self._requests or self._initial is not None:
            self.report()

    def take(self, message: Mapping[str, Any]) -> None:
        """Handle a message of the herder; ignore messages that are not about dumps."""
        match message:
            case {"type": "dump", "request": dict(request)}:
                self._log(message)
                self._note(request)
            case {"type": "dump_forget", "id": str(dump)}:
                self._log(message)
                if (known := self._requests.get(dump)) is not None and known.delay_ms != DEAF:
                    del self._requests[dump]
            case {"type": "signal"}:
                self._log(message)
                return
            case {"type": "dump_check", "call": int(call), "request": dict(request)}:
                self._answer(call, request_from_json(request))
                return
            case {"type": "dump_table", "call": int(call), "table": str(name)}:
                self._log(message)
                if self._check != "deaf":
                    found = [table for table in self._tables if table.lower() == name.lower()]
                    self._send({"type": "dump_checked", "call": call, "error": None, "tables": found})
                return
            case _:
                return
        self.report()

    def report(self) -> None:
        """Send the status of each dump."""
        statuses = [self._status(request) for request in self._requests.values()]
        if self._initial is not None:
            done = int(self._initial)
            own = self._numbers("initial", "DONE" if done == 10 else "RUNNING", 100 * done, 10, done) | {"rows_estimated": 1000}
            statuses.insert(0, own)
        self._send({"type": "dumps", "dumps": statuses})

    def _log(self, message: Mapping[str, Any]) -> None:
        if self._echo:
            with Path(self._echo).open("a", encoding="utf-8") as file:
                file.write(json.dumps(message) + "\n")

    def _note(self, value: Mapping[str, Any]) -> None:
        request = request_from_json(value)
        if supersedes(request, self._requests.get(request.id)):
            self._requests[request.id] = request

    def _answer(self, call: int, request: DumpRequest) -> None:
        if self._check == "silent":
            return
        if self._check == "end":
            os.kill(os.getpid(), signal.SIGKILL)
        error = self._error(request)
        tables = [table for table in self._tables if selects(request)(table)]
        self._send({"type": "dump_checked", "call": call, "error": error, "tables": [] if error else tables})

    def _error(self, request: DumpRequest) -> dict[str, Any] | None:
        if self._check == "away":
            return {"status": 503, "message": "the database does not answer; try again"}
        if not any(map(selects(request), self._tables)):
            return {"status": 404, "message": "no captured table matches; see table.include.list"}
        if any("syntax" in sql for sql in request.predicate.values()):
            return {"status": 400, "message": "predicate: the database does not take it as SQL"}
        if request.keys and isinstance(request.keys[0][0], str):
            return {"status": 400, "message": "keys: the key of shop.orders is an INT, and a text was given"}
        return None

    def _status(self, request: DumpRequest) -> dict[str, Any]:
        state = {Wanted.RUNNING: "RUNNING", Wanted.PAUSED: "PAUSED", Wanted.STOPPED: "STOPPED"}[request.wanted]
        reason = None
        if request.delay_ms in (DONE, DEAF):
            state = "DONE"
        if request.delay_ms == FAILED:
            state, reason = "FAILED", "the table shop.orders was dropped"
        tables = [table for table in self._tables if selects(request)(table)]
        ended = state in ("DONE", "FAILED", "STOPPED")
        status = self._numbers(request.id, state, 1000 * request.revision, len(tables), len(tables) if state == "DONE" else 0)
        return status | {
            "reason": reason,
            "ended_ms": STARTED_MS + 1000 if ended else None,
            "tables": [
                {
                    "table": table,
                    "state": (request.wanted_of(table).value if state == "RUNNING" else state),
                    "rows": 500 * request.revision,
                    "bytes": 5000,
                    "chunks": request.revision,
                    "rows_estimated": 10_000,
                    "chunk_rows": request.chunk_rows or 2048,
                    "reason": None,
                    "fault": None,
                }
                for table in tables
            ],
        }

    @staticmethod
    def _numbers(dump: str, state: str, rows: int, tables: int, done: int) -> dict[str, Any]:
        return {
            "id": dump,
            "state": state,
            "tables_total": tables,
            "tables_done": done,
            "tables_failed": 0,
            "rows": rows,
            "bytes": rows * 10,
            "chunks": rows // 500,
            "rows_estimated": 20_000,
            "rows_per_s": 5000.0 if state == "RUNNING" else None,
            "eta_s": 4.0 if state == "RUNNING" else None,
            "started_ms": STARTED_MS,
            "ended_ms": None,
            "reason": None,
            "tables": [],
        }
