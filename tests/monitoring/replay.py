"""Cases of the rules as live pages of metrics: what promtool is given as series, a Prometheus scrapes over loopback, sixty times as fast.

A value that is a time is as much smaller as the rules' thresholds are: a number of seconds is divided, an instant is moved towards the beginning of the
replay. A connector is named after its case, so that the cases do not add up.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from monitoring.cases import Case

SAMPLE_S = 15.0
_SERIES = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})?")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_PART = re.compile(r"(?P<start>_|-?[\d.]+)(?:(?P<by>[+-][\d.]+))?x(?P<times>\d+)")


def values(text: str) -> list[float | None]:
    """The samples of promtool's notation."""
    found: list[float | None] = []
    for part in text.split():
        match = _PART.fullmatch(part)
        assert match is not None, part
        if match["start"] == "_":
            found += [None] * int(match["times"])
        else:
            found += [float(match["start"]) + at * float(match["by"] or 0) for at in range(int(match["times"]) + 1)]
    return found


@dataclass(kw_only=True)
class Replay:
    """One case, served from the moment it is entered."""

    case: Case
    factor: float
    address: str = ""
    _began_s: float = field(default_factory=time.time)
    _server: Any = None

    def __enter__(self) -> Self:
        self._series = [(_SERIES.fullmatch(name), values(text)) for name, text in self.case.series.items() if name != "up"]
        replay = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = replay.page().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._began_s = time.time()
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def page(self) -> str:
        """The metrics of now."""
        at = int((time.time() - self._began_s) * self.factor / SAMPLE_S)
        lines = []
        for match, samples in self._series:
            assert match is not None
            value = samples[min(at, len(samples) - 1)]
            if value is not None:
                lines.append(f"{match['name']}{self._labels(match['labels'])} {self._scaled(match['name'], value)!r}\n")
        return "".join(lines)

    def _labels(self, text: str | None) -> str:
        given: Mapping[str, str] = dict(_LABEL.findall(text or ""))
        shown = {name: value for name, value in given.items() if name not in ("job", "instance")}
        if "connector" in shown:
            shown["connector"] = self.case.alert
        return "{" + ",".join(f'{name}="{value}"' for name, value in shown.items()) + "}" if shown else ""

    def _scaled(self, name: str, value: float) -> float:
        if name.endswith("_timestamp_seconds"):
            return self._began_s + value / self.factor
        return value / self.factor if name.endswith("_seconds") else value
