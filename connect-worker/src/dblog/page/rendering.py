"""Renders the templates. Every value is escaped, wherever it stands (Jinja2's autoescape)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dblog.page.asked import page_path
from dblog.page.formats import FILTERS
from dblog.rest.api import PAGE_PATH

_FOLDER = Path(__file__).parent / "templates"


class Rendering:
    """The templates, compiled when they are first used."""

    def __init__(self, **globals_: Any) -> None:
        """Create the environment. ``globals_`` are names that every template knows."""
        self._environment = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {**FILTERS, "segment": _segment}
        self._environment.globals |= {"page_path": page_path, "root": PAGE_PATH, **globals_}

    def page(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a whole page."""
        return self._environment.get_template(template).render(values)

    def block(self, template: str, name: str, values: Mapping[str, Any]) -> str:
        """Return one block of a page, for a part that is replaced alone."""
        found = self._environment.get_template(template)
        return "".join(found.blocks[name](found.new_context(dict(values))))


def _segment(text: str) -> str:
    return quote(text, safe="")
