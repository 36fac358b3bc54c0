"""librdkafka's own log lines as ours: JSON like every other line, and each trouble once a minute, not at every try."""

from __future__ import annotations

import re
import threading
import time

import structlog

from dblog.kafka.failures import explained

_log = structlog.get_logger("dblog.kafka")

_LOGGED_AGAIN_S = 60.0
_RAW = re.compile(r"^%\d\|[\d.]+\|[A-Z_]+\|[^|]*\|\s*(?:\[thrd:[^]]*\]: )?")
"""As librdkafka writes to standard error by itself: level, time, facility, client, thread."""
_PREFIX = re.compile(r"^[A-Z_]+ \[[^]]*\] (?:\[thrd:[^]]*\]: )?")
"""As confluent-kafka hands it to a logger."""
_CHANGING = re.compile(r"\d+(?:\.\d+)?(?= ?ms\b)|after \d+|\d+ identical|, \d+ ")


def is_client_line(line: str) -> bool:
    """Whether librdkafka wrote it to standard error by itself."""
    return _RAW.match(line) is not None


class ClientLog:
    """The logger of one client, by the protocol that confluent-kafka calls. ``what`` names it: a topic, a task's producer. ``fields`` are in each line."""

    def __init__(self, what: str, **fields: str | int) -> None:
        self._what = what
        self._fields = fields
        self._lock = threading.Lock()
        self._logged: dict[str, tuple[float, int]] = {}

    def log(self, _level: int, text: str, *args: object) -> None:
        """One line of librdkafka."""
        self.line(text % args if args else text)

    def line(self, line: str) -> None:
        """The same, in one piece."""
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
