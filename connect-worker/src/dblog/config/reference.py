"""Generates the reference page of options from their declarations (D13)."""

from __future__ import annotations

from collections.abc import Sequence

from dblog.config.infos import documentation
from dblog.config.options import Option


def reference_page(options: Sequence[Option]) -> str:
    """Return a Markdown table: key, type with unit, default, meaning and choices."""
    lines = ["| Key | Type | Default | Meaning |", "| --- | --- | --- | --- |"]
    lines += [f"| `{option.name}` | {_type(option)} | {_default(option)} | {_meaning(option)} |" for option in options if option.listed]
    return "\n".join(lines)


def _type(option: Option) -> str:
    return option.kind.value.lower() + (f", {option.unit}" if option.unit else "")


def _default(option: Option) -> str:
    if option.required:
        return "required"
    return f"`{option.default}`" if option.default else "-"


def _meaning(option: Option) -> str:
    parts = [documentation(option)]
    if option.choices:
        parts.append("One of: " + ", ".join(option.choices) + ".")
    if option.aliases:
        parts.append("Also written " + ", ".join(option.aliases) + ".")
    return " ".join(parts).replace("|", "\\|")
