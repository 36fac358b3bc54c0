"""Parses Debezium's signals: a row of the signal table, a message or a line of a file becomes an
action of the connector. Pure.

Anybody who may write to the channel can send a signal. So it is read strictly, and an error message
quotes nothing of it, since a filter may contain values of rows. Types and fields are Debezium's
("Sending signals to a Debezium connector"). Snapshot signals become requests for dumps
(``dumprequests.py``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from dblog.config.regex import REQUEST_INSTRUCTIONS_MAX, PatternError, Room, any_of
from dblog.core.dumprequests import (
    ID_DIGITS,
    NAME_CHARS_MAX,
    PREDICATE_CHARS_MAX,
    TABLES_MAX,
    DumpRequest,
    Mode,
    Order,
    SignalOrigin,
)
from dblog.errors import DefiniteError

DATA_CHARS_MAX = 8192
"""Characters of one signal's data. Its request is part of the offset until it has ended. Debezium's
signal table allows 2048.
"""
ID_CHARS_MAX = 200
MESSAGE_CHARS_MAX = 2000
KNOWN = ("execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", "log", "schema-changes", "set-binlog-position")
WATERMARKS = ("snapshot-window-open", "snapshot-window-close")
"""Types of Debezium's own watermark signals, found if Debezium writes to the same table."""
FILTERS_OFF = (
    "filters of signals are switched off (dblog.signals.filters=false); leave additional-conditions out, or ask for the dump with a predicate by "
    "POST /connectors/NAME/dumps"
)
_SELECT = re.compile(r"\s*select\b", re.IGNORECASE)


class SignalError(DefiniteError):
    """The signal cannot be carried out."""


@dataclass(frozen=True, slots=True)
class Execute:
    """Action: dump the captured tables that match."""

    patterns: tuple[str, ...]
    filters: Mapping[str, str]
    """SQL conditions by pattern."""
    blocking: bool
    surrogate_key: str | None

    def request(self, origin: SignalOrigin, *, id: str, connector: str, created_ms: int, chunk_rows: int | None) -> DumpRequest:  # noqa: A002
        """Return the request for the dump."""
        return DumpRequest(
            id=id,
            connector=connector,
            created_ms=created_ms,
            requested_by="signal",
            mode=Mode.ROWS,
            tables=self.patterns,
            predicate=self.filters,
            surrogate_key=self.surrogate_key,
            chunk_rows=chunk_rows,
            order=Order.AS_GIVEN,
            signal=origin,
        )


@dataclass(frozen=True, slots=True)
class Stop:
    """Action: stop the dumps that signals requested, either all of them (None) or the tables that
    match.
    """

    patterns: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Action: pause the dumps that signals requested."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Action: resume the dumps that signals requested."""


@dataclass(frozen=True, slots=True)
class LogText:
    """Action: log a message, in which ``{}`` stands for the position."""

    message: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """No action to take, with the reason."""

    why: str


Action = Execute | Stop | Pause | Resume | LogText | Nothing


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal as its channel delivers it. ``data`` is JSON text, or "" if there is none."""

    id: str
    type: str
    data: str
    source: str
    """Identification of the place that held the signal. It is unique, so the same signal read twice
    counts as one.
    """

    @property
    def request_id(self) -> str:
        """Id of the request that the signal makes; the same each time the signal is read."""
        return sha256(f"{self.source}\0{self.id}".encode(errors="surrogatepass")).hexdigest()[:ID_DIGITS]


def signal_from_json(value: object, source: str) -> Signal:
    """Read a signal from a JSON object ``{"id": ..., "type": ..., "data": {...}}``. Raise
    SignalError for anything else.
    """
    if not isinstance(value, dict):
        raise SignalError(
            'it must be a JSON object, such as {"id": "1", "type": "execute-snapshot", "data": {"data-collections": ["shop\\\\.orders"]}}'
        )
    identity, kind, data = value.get("id"), value.get("type"), value.get("data")
    if not isinstance(identity, str) or not isinstance(kind, str):
        raise SignalError("id and type must be texts")
    return Signal(identity, kind, "" if data is None else data if isinstance(data, str) else json.dumps(data), source)


def action_of(signal: Signal) -> Action:
    """Return the action that a signal asks for. Raise SignalError with the reason, which quotes
    nothing of the signal.
    """
    if not signal.id or len(signal.id) > ID_CHARS_MAX:
        raise SignalError(f"its id must have 1 to {ID_CHARS_MAX} characters")
    if signal.type in WATERMARKS:
        return Nothing("it is a watermark of Debezium's")
    if signal.type not in KNOWN:
        raise SignalError(f"its type is not known; there are {', '.join(KNOWN)}")
    data = _data_of(signal)
    match signal.type:
        case "execute-snapshot":
            return _execute(data)
        case "stop-snapshot":
            _kind(data)
            return Stop(_patterns(data) if data.get("data-collections") else None)
        case "pause-snapshot" | "resume-snapshot":
            _kind(data)
            return Pause() if signal.type == "pause-snapshot" else Resume()
        case "log":
            message = data.get("message")
            if not isinstance(message, str) or not message:
                raise SignalError("its data needs a message")
            return LogText(message[:MESSAGE_CHARS_MAX])
        case "schema-changes":
            return Nothing(
                "schemas come from the log and the catalog here; a table whose schema is in doubt is read from the server by itself"
            )
        case "set-binlog-position":
            raise SignalError(
                "positions are not set by signals here; stop the connector, set the position by PATCH /connectors/NAME/offsets, and resume it"
            )
    message = f"{signal.type} is a known type of signals, and nothing is done for it"
    raise AssertionError(message)


def _data_of(signal: Signal) -> dict[str, Any]:
    if len(signal.data) > DATA_CHARS_MAX:
        raise SignalError(f"its data has {len(signal.data)} characters, and at most {DATA_CHARS_MAX} are allowed; use several signals")
    if not signal.data.strip():
        return {}
    try:
        data = json.loads(signal.data)
        # Half of a surrogate pair fails here; no offset could carry it.
        json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise SignalError("its data is not JSON") from None
    if not isinstance(data, dict):
        raise SignalError("its data must be a JSON object")
    return data


def _execute(data: dict[str, Any]) -> Execute:
    blocking = _kind(data) == "blocking"
    surrogate = data.get("surrogate-key")
    if surrogate is not None and (not isinstance(surrogate, str) or len(surrogate.strip()) > NAME_CHARS_MAX):
        raise SignalError(f"surrogate-key must be the name of a column, of at most {NAME_CHARS_MAX} characters")
    return Execute(_patterns(data), _filters(data, blocking=blocking), blocking, (surrogate or "").strip() or None)


def _kind(data: dict[str, Any]) -> str:
    kind = data.get("type")
    kind = "incremental" if kind is None else kind.lower() if isinstance(kind, str) else ""
    if kind not in ("incremental", "blocking"):
        raise SignalError("its snapshot type must be incremental or blocking")
    return kind


def _patterns(data: dict[str, Any]) -> tuple[str, ...]:
    value = data.get("data-collections")
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each.strip() for each in value):
        raise SignalError('data-collections must be a list of patterns, at least one, such as ["shop\\\\.orders"]')
    if len(value) > TABLES_MAX:
        raise SignalError(f"data-collections has {len(value)} patterns, and at most {TABLES_MAX} are allowed")
    return _usable("data-collections", tuple(each.strip() for each in value))


def _filters(data: dict[str, Any], *, blocking: bool) -> dict[str, str]:
    if data.get("additional-condition") is not None:
        raise SignalError('additional-condition is no longer known; use additional-conditions, [{"data-collection": ..., "filter": ...}]')
    given = data.get("additional-conditions")
    if given is None:
        return {}
    if not isinstance(given, list) or not all(
        isinstance(each, dict) and isinstance(each.get("data-collection"), str) and isinstance(each.get("filter"), str) for each in given
    ):
        raise SignalError('additional-conditions must be a list of {"data-collection": a pattern, "filter": SQL}')
    filters: dict[str, str] = {}
    for each in given:
        sql = each["filter"].strip()
        if not sql:
            continue
        if len(sql) > PREDICATE_CHARS_MAX or "\0" in sql:
            raise SignalError(f"a filter has more than {PREDICATE_CHARS_MAX} characters, or a NUL character")
        if blocking and _SELECT.match(sql):
            raise SignalError("the filter of a blocking snapshot is a SELECT; give its condition alone, as for an incremental one")
        filters.setdefault(each["data-collection"].strip(), sql)
    _usable("additional-conditions", tuple(filters))
    return filters


def _usable(name: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    try:
        any_of(patterns, ignore_case=True, room=Room(REQUEST_INSTRUCTIONS_MAX))
    except PatternError:
        raise SignalError(f"a pattern of {name} is not a regular expression that can be used") from None
    return patterns
