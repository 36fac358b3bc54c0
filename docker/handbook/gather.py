"""Gathers the pages of the map into one folder, from which mkdocs builds the site.

The folder has the paths of the repository, so links between pages stay as they are. Pictures and
small files of data that a page links to come along. A link to anything else of the repository
becomes its text: the site is read without the repository.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from handbook.made import FOLDER, made_pages
from handbook.markdown import nested, with_links, with_plain_pipes

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "mkdocs.yml"
PICTURES = (".svg", ".png")
SHOWN = (*PICTURES, ".avsc", ".json", ".properties", ".yaml")
"""Endings of files that the site has a copy of, where a page links to them."""


def pages_of_map(map_file: Path = MAP) -> dict[str, str]:
    """Return each page's title in the menu, by its path in the repository."""
    return dict(_entries(_read_map(map_file)["nav"]))


def _read_map(map_file: Path) -> Mapping[str, Any]:
    # The map names a Python function, which only mkdocs has to find.
    text = re.sub(r"!!python/name:", "", map_file.read_text(encoding="utf-8"))
    read: Mapping[str, Any] = yaml.safe_load(text)
    return read


def _entries(nav: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for entry in nav:
        for title, inside in entry.items():
            if isinstance(inside, str):
                yield inside, title
            else:
                yield from _entries(inside)


def gather(folder: Path, *, root: Path = ROOT) -> None:
    """Fill the folder with the map's pages, the pictures they show, and what is made from code."""
    shutil.rmtree(folder, ignore_errors=True)
    made = made_pages()
    paths = pages_of_map(root / MAP.relative_to(ROOT))
    shown: set[str] = set()
    for path in paths:
        text = made[path] if path in made else (root / path).read_text(encoding="utf-8")
        _write(folder / path, for_site(text, path, pages=frozenset(paths), root=root, shown=shown))
    for path, text in made.items():
        if path not in paths:
            _write(folder / path, text)
    for path in sorted(shown):
        _write(folder / path, (root / path).read_bytes())


def for_site(text: str, path: str, *, pages: frozenset[str], root: Path, shown: set[str]) -> str:
    """Return a page of the repository as mkdocs has to read it. Add the files that it shows to `shown`."""

    def change(target: str) -> str | None:
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return target
        file, _, fragment = target.partition("#")
        found = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        if (root / found).is_dir():
            found = posixpath.normpath(f"{found}/README.md")
        if found.endswith(SHOWN) and (root / found).is_file():
            shown.add(found)
        if found in pages or found in shown or found.startswith(f"{FOLDER}/"):
            fragment = f"#{fragment}" if fragment else ""
            return posixpath.relpath(found, posixpath.dirname(path) or ".") + fragment
        return None

    return nested(with_plain_pipes(with_links(text, change)))


def _write(file: Path, content: str | bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
