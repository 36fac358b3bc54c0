"""Log lines to stdout, one event a line: JSON for machines, plain for people. Levels can be set by logger while running.

Row values and secrets are never handed to a logger (errors scrub theirs); as a second guard, fields whose names show that they are secret are hidden
here. Levels are Connect's (OFF to ALL), looked up for the nearest ancestor of a logger's name, as log4j does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections.abc import Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import Any

import structlog

from dblog.observe.hidden import HIDDEN_IN_LOG

LEVELS = {"ALL": 0, "TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50, "OFF": 100}
ROOT = "root"

_METHOD_LEVELS = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "exception": 40, "critical": 50, "fatal": 50, "msg": 20}
_SECRET_WORDS = ("password", "secret", "jaas", "token")
_TASK_PACKAGES = ("dialects", "kafka", "readers", "runtime")
_TRACE_LINES_MAX = 100
_TRACE_CHARS_MAX = 40_000
_KNOWN_LOGGERS = (
    "dblog",
    "dblog.apply",
    "dblog.audit",
    "dblog.cli",
    "dblog.cluster",
    "dblog.cluster.dumps",
    "dblog.cluster.herder",
    "dblog.cluster.processes",
    "dblog.config",
    "dblog.dialects",
    "dblog.kafka",
    "dblog.kafka.admin",
    "dblog.kafka.group",
    "dblog.kafka.log",
    "dblog.kafka.registry",
    "dblog.observe",
    "dblog.observe.traces",
    "dblog.readers",
    "dblog.rest",
    "dblog.rest.connectors",
    "dblog.runtime",
)
"""Every logger of the herder's process, and the packages of those in tasks, each of whose modules has one."""


@cache
def _task_modules() -> frozenset[str]:
    """The modules of those packages; a name that looks like one would be kept for ever, and any client may send millions."""
    source = Path(__file__).parents[1]
    files = (file.relative_to(source) for package in _TASK_PACKAGES for file in (source / package).rglob("*.py"))
    return frozenset(".".join(("dblog", *file.with_suffix("").parts)).removesuffix(".__init__") for file in files)


def _exists(name: str) -> bool:
    return name in _KNOWN_LOGGERS or name in _task_modules()


class LevelTable:
    """Levels by logger name, and when each was last set through the worker's interface."""

    def __init__(self, level: str = "INFO") -> None:
        self._lock = threading.Lock()
        self._levels: dict[str, str] = {ROOT: level}
        self._modified_ms: dict[str, int | None] = {ROOT: None}

    def set(self, name: str, level: str) -> list[str]:
        """Set a logger and all below it; the sorted names changed, none for a logger or a level that does not exist. A JVM worker writes levels small."""
        level = level.upper()
        if level not in LEVELS or (name != ROOT and not _exists(name)):
            return []
        with self._lock:
            names = {name} | {known for known in (*self._levels, *_KNOWN_LOGGERS) if known.startswith(f"{name}.")}
            if name == ROOT:
                names = {ROOT, *self._levels}
            now_ms = time.time_ns() // 1_000_000
            for changed in names:
                self._levels[changed] = level
                self._modified_ms[changed] = now_ms
            return sorted(names)

    def all(self) -> dict[str, tuple[str, int | None]]:
        """Level in force and time of change of every logger that is known."""
        with self._lock:
            return {name: (self._effective(name), self._modified_ms.get(name)) for name in sorted({*self._levels, *_KNOWN_LOGGERS})}

    def own(self) -> dict[str, str]:
        """The loggers that have a level of their own, ancestors first."""
        with self._lock:
            return dict(sorted(self._levels.items()))

    def take(self, levels: Mapping[str, str]) -> None:
        """Set exactly these, as another process has them."""
        with self._lock:
            self._levels = {ROOT: self._levels[ROOT], **levels}

    def get(self, name: str) -> tuple[str, int | None] | None:
        """The same for one logger; one that exists without a level of its own has its ancestor's. None: no such logger."""
        with self._lock:
            if name in self._levels:
                return self._levels[name], self._modified_ms.get(name)
            return (self._effective(name), None) if _exists(name) else None

    def passes(self, name: str, level: int) -> bool:
        """Whether a line of that level is written."""
        return level >= LEVELS[self._effective(name)]

    def _effective(self, name: str) -> str:
        levels = self._levels
        while name:
            if name in levels:
                return levels[name]
            name = name.rpartition(".")[0]
        return levels[ROOT]


TABLE = LevelTable()
"""The process's levels."""


def set_levels(pairs: str) -> list[str]:
    """Set levels written as ``logger=LEVEL,logger=LEVEL``; the names of loggers or levels that do not exist."""
    unknown = []
    for pair in filter(None, (each.strip() for each in pairs.split(","))):
        name, _, level = pair.partition("=")
        if not TABLE.set(name.strip(), level.strip()):
            unknown.append(name.strip())
    return unknown


class _LogLine:
    """The innermost logger: a name, and a stream that is looked up late so that tests can capture it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def msg(self, text: str) -> None:
        # A name in it may be a database's bytes that are no UTF-8.
        sys.stdout.write(text.encode(errors="backslashreplace").decode() + "\n")
        sys.stdout.flush()

    debug = info = warning = warn = error = critical = fatal = exception = log = msg


def _filter(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    name = getattr(logger, "name", "")
    if not TABLE.passes(name, _METHOD_LEVELS.get(method, 20)):
        raise structlog.DropEvent
    event["logger"] = name
    if method == "exception":
        event.setdefault("exc_info", True)
    event["level"] = {"warn": "warning", "exception": "error", "msg": "info"}.get(method, method)
    return event


def _hide(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    for key in event:
        if any(word in key.lower() for word in _SECRET_WORDS):
            event[key] = "[hidden]"
    return event


def _json(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    ordered = {key: event.pop(key) for key in ("timestamp", "level", "logger", "event") if key in event}
    line = {key: _without_hidden(value) for key, value in {**ordered, **event}.items()}
    return json.dumps(line, ensure_ascii=False, default=str).translate(_CONTROLS)


def _without_hidden(value: object) -> object:
    """The value as it may be shown: hidden before it is JSON, where a number that is hidden would leave a text without quotes."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    shown = HIDDEN_IN_LOG.out_of(text)
    return value if shown == text else shown


def _plain(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    at, level, name, text = (event.pop(key, "") for key in ("timestamp", "level", "logger", "event"))
    trace = event.pop("exception", None)
    # Names come from users: none may begin a line that looks like ours.
    fields = " ".join(f"{key}={value}" for key, value in event.items())
    line = f"{at} {str(level).upper():7} {text}{' ' if fields else ''}{fields} [{name}]" + (f"\n{trace}" if trace else "")
    return HIDDEN_IN_LOG.out_of(line).replace("\n", "\n    ").translate(_CONTROLS)


_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)}
"""What moves a terminal's cursor or begins a line for some readers, as JSON writes it."""


def shortened(trace: str) -> str:
    """A trace's beginning and end: one of a recursion has thousands of lines."""
    lines = trace.split("\n")
    if len(lines) > _TRACE_LINES_MAX:
        half = _TRACE_LINES_MAX // 2
        trace = "\n".join([*lines[:half], f"  ... {len(lines) - 2 * half} lines left out ...", *lines[-half:]])
    if len(trace) > _TRACE_CHARS_MAX:
        half = _TRACE_CHARS_MAX // 2
        trace = f"{trace[:half]}... {len(trace) - 2 * half} characters left out ...{trace[-half:]}"
    return trace


def configure_logs(*, format: str = "json", level: str = "INFO") -> None:  # noqa: A002  the option's name
    """Set up structlog for this process; called once by the composition root, before the first line."""
    TABLE.set(ROOT, level.upper())
    structlog.configure(
        processors=[
            _filter,
            structlog.contextvars.merge_contextvars,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(lambda exc_info: shortened("".join(traceback.format_exception(*exc_info)).rstrip("\n"))),
            _hide,
            _plain if format == "plain" else _json,
        ],
        wrapper_class=structlog.BoundLogger,
        logger_factory=lambda *names: _LogLine(str(names[0]) if names else ""),
        cache_logger_on_first_use=False,
    )
