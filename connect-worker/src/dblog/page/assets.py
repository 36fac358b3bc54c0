"""Serves the page's files: its style and script, and the two libraries that ``assets/vendor`` has
from npm, as ``assets/vendor/lock.json`` pins them.

An address holds a digest of the file, so a browser keeps a file for good and an upgrade changes the
address. Files are read and packed once, when the worker starts.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from dblog.cluster.requests import not_found
from dblog.rest.api import PAGE_ASSETS

FOLDER = Path(__file__).parent / "assets"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FILES = ("page.css", "page.js", "icon.svg", "vendor/htmx.min.js", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css")
_DIGEST_CHARS = 12
_YEAR_S = 31_536_000


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent."""

    content: bytes
    packed: bytes
    type: str


class Assets:
    """The files by their addresses."""

    def __init__(self) -> None:
        self._by_name: dict[str, Asset] = {}
        self._urls: dict[str, str] = {}
        for file in _FILES:
            content = (FOLDER / file).read_bytes()
            stem, dot, suffix = file.rpartition("/")[2].rpartition(".")
            name = f"{stem}.{hashlib.sha256(content).hexdigest()[:_DIGEST_CHARS]}{dot}{suffix}"
            self._by_name[name] = Asset(content, gzip.compress(content, 9, mtime=0), _TYPES[f".{suffix}"])
            self._urls[file.rpartition("/")[2]] = PAGE_ASSETS + name

    def url(self, file: str) -> str:
        """Return the address of a file."""
        return self._urls[file]

    async def answer(self, request: HttpRequest) -> Response:
        """Answer with a file, packed if the browser takes that."""
        name = request.path_params["file"]
        asset, kept = self._by_name.get(name), f"public, max-age={_YEAR_S}, immutable"
        if asset is None:
            # A standby of another version serves the file of its own for a page of the leader.
            stem, _, suffix = name.rpartition(".")
            own = self._urls.get(f"{stem.rpartition('.')[0]}.{suffix}", "").removeprefix(PAGE_ASSETS)
            asset, kept = self._by_name.get(own), "no-cache"
        if asset is None:
            raise not_found(f"There is no such file; the page of this version has {', '.join(sorted(self._urls))}")
        packs = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"Cache-Control": kept, "Vary": "Accept-Encoding"}
        if packs:
            headers["Content-Encoding"] = "gzip"
        return Response(asset.packed if packs else asset.content, HTTPStatus.OK, headers, asset.type)
