"""Writes librdkafka's log lines as this program's own: JSON like all others, and each problem once
a minute instead of once a try.
"""

from __future__ import annotations

import re
import threading
import time

import structlog

from dblog.kafka.failures import explained

_log = structlog.get_logger("dblog.kafka")

_LOGGED_AGAIN_S = 60.0
_RAW = re.compile(r"^%\d\|[\d.]+\|[A-Z_]+\|[^|]*\|\s*(?:\[thrd:[^]]*\]: )?")
"""Prefix of librdkafka's own lines on standard error: level, time, facility, client, thread."""
_PREFIX = re.compile(r"^[A-Z_]+ \[[^]]*\] (?:\[thrd:[^]]*\]: )?")
"""The prefix of lines that confluent-kafka passes to a logger."""
_CHANGING = re.compile(r"\d+(?:\.\d+)?(?= ?ms\b)|after \d+|\d+ identical|, \d+ ")


def is_client_line(line: str) -> bool:
    """Return True if librdkafka wrote the line to standard error itself."""
    return _RAW.match(line) is not None


class ClientLog:
    """The logger of one client, called by confluent-kafka.

    ``what`` names the client, such as a topic or a task's producer. ``fields`` are added to each
    line.
    """

    def __init__(self, what: str, **fields: str | int) -> None:
        self._what = what
        self._fields = fields
        self._lock = threading.Lock()
        self._logged: dict[str, tuple[float, int]] = {}

    def log(self, _level: int, text: str, *args: object) -> None:
        """Write one log line of librdkafka, given as a format and its arguments."""
        self.line(text % args if args else text)

    def line(self, line: str) -> None:
        """Write one log line of librdkafka, given as text."""
        reason = _PREFIX.sub("", _RAW.sub("", line, count=1), count=1)
        kind = _CHANGING.sub("#", reason)
        now_s = time.monotonic()
        with self._lock:
            logged_s, held_back = self._logged.get(kind, (-_LOGGED_AGAIN_S, 0))
            if now_s - logged_s < _LOGGED_AGAIN_S:
                self._logged[kind] = logged_s, held_back + 1
                return
            self._logged[kind] = now_s, 0
        more = {"means": sentence} if (sentence := explained(reason)) is not None else {}
        _log.warning(
            "kafka client", client=self._what, **self._fields, reason=reason, **more, **({"repeated": held_back} if held_back else {})
        )
