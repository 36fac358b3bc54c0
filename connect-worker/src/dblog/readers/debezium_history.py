"""Keep Debezium's part of a schema history topic complete, so that Debezium can go on after dblog.

Debezium's history has one record for each DDL statement, and a start replays them up to its offset (AbstractSchemaHistory.recover). dblog's own records
(history.py) mean nothing to Debezium. Where the topic holds records of Debezium's for this connector, each statement that dblog follows is therefore written
in Debezium's form as well: with its text, and the offset after it. Without them Debezium would decode later rows with the columns of before.

A topic that Debezium never wrote to gets none: the statements that made its tables are not in it, so Debezium could not recover from it anyway.

These records have keys, which Debezium ignores, so a statement that is followed again after a restart is recognized and not written twice: a swap of two
columns would be undone by its repetition.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dblog.model import OffsetMap

FORMAT = 1
_OURS = "debezium"


class Offset(Protocol):
    """A position that can be written as a source offset."""

    def to_map(self) -> OffsetMap:
        """Return the offset with Debezium's keys and dblog's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStatement:
    """A DDL statement of the log."""

    text: str
    database: str
    """The session's default database, "" for none."""
    after: Offset
    """The position after the statement; read at once, or not at all."""
    ts_ms: int


class DebeziumHistory:
    """Make Debezium's records of one connector's statements. ``observe`` must have seen the topic's records first."""

    def __init__(self, *, server: str) -> None:
        """``server`` is topic.prefix."""
        self._server = server
        self._is_kept = False
        self._written: set[str] = set()

    def observe(self, key: bytes | None, value: bytes | None) -> None:
        """Take note of one record of the topic."""
        if key is None:
            self._is_kept = self._is_kept or (value is not None and self._is_debeziums(value))
        elif b'"debezium"' in key and (identity := self._identity_of(key)) is not None:
            self._written.add(identity)

    def record(self, statement: LoggedStatement) -> tuple[bytes, bytes] | None:
        """Return key and value for the topic; None where Debezium keeps no history there, or has the statement."""
        if not self._is_kept:
            return None
        position = {name: value for name, value in statement.after.to_map().items() if not name.startswith("dblog_")}
        identity = _identity(position, statement.text)
        if identity in self._written:
            return None
        key = {"dblog": FORMAT, _OURS: self._server, "statement": identity}
        value = {
            "source": {"server": self._server},
            "position": position,
            "ts_ms": statement.ts_ms,
            "databaseName": statement.database,
            "ddl": statement.text,
        }
        return _json(key), _json(value)

    def _is_debeziums(self, value: bytes) -> bool:
        record = _mapping(value)
        source = record.get("source")
        return "ddl" in record and isinstance(source, Mapping) and source.get("server") == self._server

    def _identity_of(self, key: bytes) -> str | None:
        parsed = _mapping(key)
        return str(parsed["statement"]) if parsed.get(_OURS) == self._server and "statement" in parsed else None


def _identity(position: Mapping[str, object], text: str) -> str:
    """Tell statements apart: by their transaction where there are GTIDs, for another server has it at another place; else by server and place."""
    names = ("gtids",) if position.get("gtids") else ("server_id", "file", "pos")
    return hashlib.sha256(_json([*(position.get(name) for name in names), position.get("event"), text])).hexdigest()[:32]


def _mapping(text: bytes) -> Mapping[str, object]:
    try:
        parsed = json.loads(text)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
