"""Program of `object_store.ObjectStore`: moto's S3, one request at a time, with faults by plan.

Arguments: `<port> <bucket>`.
"""

from __future__ import annotations

import json
import logging
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The faults as shares of all requests.

    A `lost` request is carried out, but its answer never comes.
    """

    refused: float = 0.0
    lost: float = 0.0
    slow: float = 0.0
    slow_s: float = 0.2
    lost_of: str = ""
    """Method whose answers may be lost, for objects named with `lost_named`; empty for all."""
    lost_named: str = ""
    lost_most: int = 1 << 30
    heeds_conditions: bool = True
    """False for a store that accepts If-None-Match but ignores it."""
    seed: int = 0


@dataclass
class Faulty:
    """An application that handles one request at a time, each possibly with a fault."""

    store: Application
    plan: Faults = field(default_factory=Faults)
    counts: Counter[str] = field(default_factory=Counter)
    dice: random.Random = field(default_factory=lambda: random.Random(0))
    turn: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/_faults":
            return self._asked(environ, start)
        with self.turn:
            what = self._drawn(environ)
            self.counts["requests"] += 1
            if what:
                self.counts[what] += 1
        if what == "slow":
            time.sleep(self.plan.slow_s)
        if what == "refused":
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("503 Slow Down", [("Content-Type", "application/xml")])
            return [b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"]
        with self.turn:
            if not self.plan.heeds_conditions:
                environ.pop("HTTP_IF_NONE_MATCH", None)
            answer = list(self.store(environ, start))
            if environ["REQUEST_METHOD"] == "GET" and "list-type" in environ.get("QUERY_STRING", ""):
                self.counts["lists"] += 1
                self.counts["keys"] += sum(part.count(b"<Contents>") for part in answer)
        if what == "lost":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return answer

    def _drawn(self, environ: dict[str, Any]) -> str:
        plan, drawn = self.plan, self.dice.random()
        if drawn < plan.refused:
            return "refused"
        if drawn < plan.refused + plan.slow:
            return "slow"
        losable = plan.lost_of in ("", environ["REQUEST_METHOD"]) and plan.lost_named in environ["PATH_INFO"]
        if losable and drawn < plan.refused + plan.slow + plan.lost and self.counts["lost"] < plan.lost_most:
            return "lost"
        return ""

    def _asked(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self.turn:
            if environ["REQUEST_METHOD"] == "POST":
                self.plan = Faults(**json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))))
                self.counts.clear()
                self.dice.seed(self.plan.seed)
            answer = json.dumps({"ready": True, "counts": self.counts}).encode()
        start("200 OK", [("Content-Type", "application/json")])
        return [answer]


def main(port: int, bucket: str) -> None:
    """Serve until the process is ended."""
    # It logs a line for each request.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    s3_backends["123456789012"]["global"].create_bucket(bucket, "us-east-1")
    faulty = Faulty(DomainDispatcherApplication(create_backend_app))
    make_server("127.0.0.1", port, faulty, threaded=True, request_handler=MotoRequestHandler).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
