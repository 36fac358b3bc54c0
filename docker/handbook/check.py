"""Reports what leads nowhere on the built site, and what a page would fetch from elsewhere.

`mkdocs build --strict` checks links in Markdown. This check reads the HTML that readers get, menus
and footers too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADING = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_NOT_LOADED = frozenset({"canonical", "prev", "next", "alternate", "edit"})
"""Kinds of `<link>` that only name a page."""
_STAND_IN = "x"
"""Stands for a piece of code, which may hold Markdown."""
_OF_CSS = re.compile(r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"]?((?:https?:)?//[^'\";]+)")
_UNRENDERED = re.compile(r"^\s*(?:- \S|\|.*\|\s*$|\| ?-{3}|```|\d+\. \S)|\]\([^)\s]+\)", re.MULTILINE)
"""Markdown that is still there in a page's text, since it was read by other rules than it was written for."""


@dataclass
class _Read(HTMLParser):
    """One page's targets, fragments and prose."""

    fragments: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    _code: int = 0
    _article: bool = False
    _heading: bool = False

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.fragments |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if (name := _LOADING.get(tag)) and given.get(name) and not _NOT_LOADED & set(given.get("rel", "").split()):
            self.loads.append(given[name])
        self._article |= tag == "article"
        self._heading |= tag in _HEADINGS
        self._code += tag in ("code", "pre", "script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre", "script", "style")
        if tag == "article":
            self._article = False
        if tag in _HEADINGS:
            self._heading = False

    def handle_data(self, data: str) -> None:
        if self._article and not self._heading:
            self.prose.append(_STAND_IN if self._code else data)


def _read(site: Path) -> dict[Path, _Read]:
    found = {}
    for page in sorted(site.rglob("*.html")):
        read = _Read()
        read.feed(page.read_text(encoding="utf-8"))
        found[page] = read
    return found


def problems(site: Path) -> list[str]:
    """Return a line for each thing that is wrong on the site."""
    read = _read(site)
    return [*_broken(site, read), *_foreign(site, read), *_unrendered(site, read)]


def _broken(site: Path, read: Mapping[Path, _Read]) -> Iterator[str]:
    for page, found in read.items():
        for link in (*found.links, *found.loads):
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            path = unquote(target.path)
            base = site if path.startswith("/") or page.name == "404.html" else page.parent
            file = page if not path else (base / path.lstrip("/")).resolve()
            if file.is_dir():
                file = file / "index.html"
            if not file.is_file():
                yield f"{page.relative_to(site)}: no file {link}"
            elif target.fragment and file.suffix == ".html" and unquote(target.fragment) not in read[file].fragments:
                yield f"{page.relative_to(site)}: no heading {link}"


def _foreign(site: Path, read: Mapping[Path, _Read]) -> Iterator[str]:
    for page, found in read.items():
        yield from (f"{page.relative_to(site)}: fetches {load}" for load in found.loads if urlsplit(load).netloc)
    for sheet in sorted(site.rglob("*.css")):
        for match in _OF_CSS.finditer(sheet.read_text(encoding="utf-8")):
            yield f"{sheet.relative_to(site)}: fetches {match[1] or match[2]}"


def _unrendered(site: Path, read: Mapping[Path, _Read]) -> Iterator[str]:
    for page, found in read.items():
        for match in _UNRENDERED.finditer("".join(found.prose)):
            yield f"{page.relative_to(site)}: still Markdown: {match[0].strip()[:60]}"
