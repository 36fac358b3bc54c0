"""Log lines to stdout, one event a line: JSON for machines, plain for people. Levels can be set by
logger at run time.

Row values and secrets are never passed to a logger, and errors remove theirs. As a second guard,
this module hides fields whose names suggest a secret. Levels are Connect's (OFF to ALL). A logger
without a level takes that of its nearest ancestor, as in log4j.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import Any

import structlog

from dblog.observe.hidden import HIDDEN_IN_LOG
from dblog.observe.lines import CONTROLS, Line, line_of

LEVELS = {"ALL": 0, "TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50, "OFF": 100}
ROOT = "root"

_METHOD_LEVELS = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "exception": 40, "critical": 50, "fatal": 50, "msg": 20}
_SECRET_WORDS = ("password", "secret", "jaas", "token")
_TASK_PACKAGES = ("dialects", "kafka", "readers", "runtime", "transforms")
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
    "dblog.cluster.sinks",
    "dblog.config",
    "dblog.dialects",
    "dblog.kafka",
    "dblog.kafka.admin",
    "dblog.kafka.group",
    "dblog.kafka.log",
    "dblog.kafka.registry",
    "dblog.observe",
    "dblog.observe.traces",
    "dblog.page",
    "dblog.readers",
    "dblog.rest",
    "dblog.rest.connectors",
    "dblog.runtime",
    "dblog.transforms",
)
"""Loggers of the herder's process, and the packages whose modules each have a logger in tasks."""


@cache
def _task_modules() -> frozenset[str]:
    """Return the logger names of the modules in the tasks' packages.

    Only these exist: an entry is kept forever, and a client could invent millions of names.
    """
    source = Path(__file__).parents[1]
    files = (file.relative_to(source) for package in _TASK_PACKAGES for file in (source / package).rglob("*.py"))
    return frozenset(".".join(("dblog", *file.with_suffix("").parts)).removesuffix(".__init__") for file in files)


def _exists(name: str) -> bool:
    return name in _KNOWN_LOGGERS or name in _task_modules()


class LevelTable:
    """Log levels by logger name, and when each was last set through the worker's interface."""

    def __init__(self, level: str = "INFO") -> None:
        self._lock = threading.Lock()
        self._levels: dict[str, str] = {ROOT: level}
        self._modified_ms: dict[str, int | None] = {ROOT: None}

    def set(self, name: str, level: str) -> list[str]:
        """Set the level of a logger and of all loggers below it. Return the changed names, sorted.

        The list is empty if the logger or the level does not exist. ``level`` may be in lower case,
        as a JVM worker writes it.
        """
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
        """Return each known logger's level and when it was set (ms; None if never)."""
        with self._lock:
            return {name: (self._effective(name), self._modified_ms.get(name)) for name in sorted({*self._levels, *_KNOWN_LOGGERS})}

    def own(self) -> dict[str, str]:
        """Return the loggers that have a level of their own, ancestors first."""
        with self._lock:
            return dict(sorted(self._levels.items()))

    def take(self, levels: Mapping[str, str]) -> None:
        """Replace all levels by those of another process. The root's may be missing."""
        with self._lock:
            self._levels = {ROOT: self._levels[ROOT], **levels}

    def get(self, name: str) -> tuple[str, int | None] | None:
        """Return a logger's level and when it was set (ms). None if there is no such logger.

        A logger without a level of its own has its nearest ancestor's.
        """
        with self._lock:
            if name in self._levels:
                return self._levels[name], self._modified_ms.get(name)
            return (self._effective(name), None) if _exists(name) else None

    def passes(self, name: str, level: int) -> bool:
        """Return True if a line of this level is written."""
        return level >= LEVELS[self._effective(name)]

    def _effective(self, name: str) -> str:
        levels = self._levels
        while name:
            if name in levels:
                return levels[name]
            name = name.rpartition(".")[0]
        return levels[ROOT]


TABLE = LevelTable()
"""This process's log levels."""


def set_levels(pairs: str) -> list[str]:
    """Set levels written as ``logger=LEVEL,logger=LEVEL``.

    Return the names of unknown loggers or levels.
    """
    unknown = []
    for pair in filter(None, (each.strip() for each in pairs.split(","))):
        name, _, level = pair.partition("=")
        if not TABLE.set(name.strip(), level.strip()):
            unknown.append(name.strip())
    return unknown


class _LogLine:
    """The innermost logger. Looks stdout up at each line, so that tests can capture it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def msg(self, text: str) -> None:
        # A name in the line may come from a database whose bytes are not valid UTF-8.
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


def _hide(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key in event:
        if any(word in key.lower() for word in _SECRET_WORDS):
            event[key] = "[hidden]"
    return event


class Tap:
    """A processor that passes each line on, besides writing it."""

    def __init__(self) -> None:
        self._take: Callable[[Line, Mapping[str, Any]], None] | None = None

    def set(self, take: Callable[[Line, Mapping[str, Any]], None] | None) -> None:
        """Pass lines and their fields to ``take``, which must not wait, fail or log. None ends it."""
        self._take = take

    def __call__(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if self._take is not None:
            self._take(line_of(event, HIDDEN_IN_LOG.out_of), event)
        return event


TAP = Tap()
"""This process's tap."""


def _json(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    ordered = {key: event.pop(key) for key in ("timestamp", "level", "logger", "event") if key in event}
    line = {key: _without_hidden(value) for key, value in {**ordered, **event}.items()}
    return json.dumps(line, ensure_ascii=False, default=str).translate(CONTROLS)


def _without_hidden(value: object) -> object:
    """Return the value with secrets replaced.

    Replaced before it becomes JSON: a secret that is a number would leave a text without quotes.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    shown = HIDDEN_IN_LOG.out_of(text)
    return value if shown == text else shown


def _plain(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    at, level, name, text = (event.pop(key, "") for key in ("timestamp", "level", "logger", "event"))
    trace = event.pop("exception", None)
    # Names come from users, so none of them may start a line that looks like one of ours.
    fields = " ".join(f"{key}={value}" for key, value in event.items())
    line = f"{at} {str(level).upper():7} {text}{' ' if fields else ''}{fields} [{name}]" + (f"\n{trace}" if trace else "")
    return HIDDEN_IN_LOG.out_of(line).replace("\n", "\n    ").translate(CONTROLS)


def shortened(trace: str) -> str:
    """Return the beginning and the end of a long trace; a recursion's has thousands of lines."""
    lines = trace.split("\n")
    if len(lines) > _TRACE_LINES_MAX:
        half = _TRACE_LINES_MAX // 2
        trace = "\n".join([*lines[:half], f"  ... {len(lines) - 2 * half} lines left out ...", *lines[-half:]])
    if len(trace) > _TRACE_CHARS_MAX:
        half = _TRACE_CHARS_MAX // 2
        trace = f"{trace[:half]}... {len(trace) - 2 * half} characters left out ...{trace[-half:]}"
    return trace


def configure_logs(*, format: str = "json", level: str = "INFO") -> None:  # noqa: A002  the option's name
    """Set up structlog for this process.

    Call once at the composition root, before the first log line.
    """
    TABLE.set(ROOT, level.upper())
    structlog.configure(
        processors=[
            _filter,
            structlog.contextvars.merge_contextvars,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(lambda exc_info: shortened("".join(traceback.format_exception(*exc_info)).rstrip("\n"))),
            _hide,
            TAP,
            _plain if format == "plain" else _json,
        ],
        wrapper_class=structlog.BoundLogger,
        logger_factory=lambda *names: _LogLine(str(names[0]) if names else ""),
        cache_logger_on_first_use=False,
    )
