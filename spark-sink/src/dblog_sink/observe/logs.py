"""Writes the driver's log lines to standard error: text for people, or JSON for a log store.

In JSON each event of ``observe/progress.py`` is a line with its facts as fields: a batch and each
of its tables, a merge, a snapshot, a parked table. Values of rows are never passed to a logger.
Values of secret options are hidden wherever they appear, as in the message of a client that repeats
its configuration.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
FORMATS = ("plain", "json")
_PLAIN = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEVEL_NAMES = {"WARNING": "warning", "CRITICAL": "error"}
_HIDDEN = "[hidden]"
_SHORTEST_SECRET = 4
"""Minimum length of a hidden secret; a shorter text would hide parts of common words."""
_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Characters that move a terminal's cursor or start a line for some readers, mapped to JSON
escapes.
"""
FACTS = "dblog_facts"
"""Attribute of a log record that has an event's facts."""


def configure(*, layout: str = "plain", level: str = "INFO", secrets: Iterable[str] = ()) -> None:
    """Set up logging for this process. It may be called again once the configuration is known."""
    root = logging.getLogger()
    for former in [one for one in root.handlers if isinstance(one, _OnStderr)]:
        root.removeHandler(former)
    handler = _OnStderr()
    handler.setFormatter(_Lines(layout, secrets))
    root.addHandler(handler)
    root.setLevel("WARNING" if level == "WARN" else level)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # It logs why a batch failed, which the job reports itself.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)


class _OnStderr(logging.Handler):
    """A handler that looks up the stream at each line, so that a replaced stream gets the lines."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001  as logging's own handlers: a line that cannot be written stops nothing
            self.handleError(record)


class Hidden:
    """A function that hides secrets in a text, also as Python and JSON write them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        written = {
            form for secret in secrets if len(secret) >= _SHORTEST_SECRET for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1])
        }
        self._secrets = sorted(written, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return text


class _Lines(logging.Formatter):
    def __init__(self, layout: str, secrets: Iterable[str]) -> None:
        super().__init__(_PLAIN)
        self._layout = layout
        self._without_secrets = Hidden(secrets)

    def format(self, record: logging.LogRecord) -> str:
        if self._layout == "plain":
            return self._without_secrets(super().format(record))
        line: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": _LEVEL_NAMES.get(record.levelname, record.levelname.lower()),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, FACTS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        hidden = {key: self._hidden_in(value) for key, value in line.items()}
        return json.dumps(hidden, ensure_ascii=False, default=str).translate(_CONTROLS)

    def _hidden_in(self, value: Any) -> Any:
        """Return the value with secrets hidden.

        This happens before it becomes JSON, which would escape some of a secret's characters.
        """
        match value:
            case str():
                return self._without_secrets(value)
            case Mapping():
                return {key: self._hidden_in(one) for key, one in value.items()}
            case list() | tuple():
                return [self._hidden_in(one) for one in value]
            case _:
                return value
