"""What a browser is told of the pages of other origins that may call (CORS): the origins of the worker's file, and the headers that Kafka Connect allows."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from dblog.config.origins import AllowedOrigins

_METHODS = ("GET", "POST", "HEAD")
"""Without access.control.allow.methods, as in Connect."""
_HEADERS = ("X-Requested-With", "Content-Type", "Accept", "Origin")
"""What Connect allows up to Kafka 3.9; since 4.0 it is Content-Type alone, and pages of libraries that send X-Requested-With no longer get through."""


class Cors(CORSMiddleware):
    """Answers a browser's question before a call (preflight), and names the origin in the answer to the call."""

    def __init__(self, app: ASGIApp, *, origins: AllowedOrigins, methods: Sequence[str]) -> None:
        super().__init__(app, allow_origins=["*"] if origins.every else [], allow_methods=methods or _METHODS, allow_headers=_HEADERS)
        self._origins = origins

    def is_allowed_origin(self, origin: str) -> bool:
        """By the worker's list, whose patterns are matched in bounded time."""
        return self._origins.allows(origin)
