"""Tells browsers which pages of other origins may call (CORS): the origins in the worker's file,
and the headers that Kafka Connect allows.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from dblog.config.origins import AllowedOrigins

_METHODS = ("GET", "POST", "HEAD")
"""Methods without access.control.allow.methods, as in Connect."""
_HEADERS = ("X-Requested-With", "Content-Type", "Accept", "Origin")
"""The headers that Connect allows up to Kafka 3.9. Since 4.0 it allows only Content-Type, which
blocks pages whose libraries send X-Requested-With.
"""


class Cors(CORSMiddleware):
    """Answers a browser's preflight request, and names the origin in the answer to the call."""

    def __init__(self, app: ASGIApp, *, origins: AllowedOrigins, methods: Sequence[str]) -> None:
        super().__init__(app, allow_origins=["*"] if origins.every else [], allow_methods=methods or _METHODS, allow_headers=_HEADERS)
        self._origins = origins

    def is_allowed_origin(self, origin: str) -> bool:
        """Return True if the worker's list allows the origin.

        Patterns are matched in bounded time.
        """
        return self._origins.allows(origin)
