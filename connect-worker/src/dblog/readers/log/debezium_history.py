"""Keeps Debezium's part of a schema history topic complete, so that Debezium can continue after
dblog.

Debezium's history has one record for each DDL statement, and a start replays them up to its offset
(AbstractSchemaHistory.recover). dblog's own records (history.py) mean nothing to Debezium. So if
the topic holds records of Debezium for this connector, each statement that dblog follows is also
written in Debezium's form, with its text and the offset after it. Without these records Debezium
would decode later rows with outdated columns.

A topic that Debezium never wrote to gets none. It lacks the statements that created the tables, so
Debezium could not recover from it anyway.

These records have keys, which Debezium ignores. So a statement that is followed again after a
restart is recognized and not written twice: repeating a swap of two columns would undo it.
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
    """Default database of the session, "" if there is none."""
    after: Offset
    """Position after the statement. It must be read at once, because it advances."""
    ts_ms: int


class DebeziumHistory:
    """Maker of Debezium's records for the statements of one connector.

    ``server`` is topic.prefix. ``observe`` must have seen the topic's records first.
    """

    def __init__(self, *, server: str) -> None:
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
        """Return key and value for the topic.

        Return None if Debezium keeps no history there, or if it has the statement already.
        """
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
    """Return an identity of a statement.

    With GTIDs it is the transaction, which another server has at another position; else it is
    server and position.
    """
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
