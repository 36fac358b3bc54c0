"""Prints answers as a table, as JSON or as YAML, safe for a terminal. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dblog.dumps.printable import json_of, printable, printable_lines

FORMATS = ("table", "json", "yaml")


def shown(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], form: str) -> str:
    """Return rows in a form of FORMATS. A table has these columns, the other forms have all fields."""
    if form == "json":
        return json_of(list(rows))
    if form == "yaml":
        return printable_lines(yaml_of(list(rows)))
    cells = [[column.upper() for column in columns], *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(columns))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells)


def one(value: Mapping[str, Any], form: str) -> str:
    """Return one object in a form of FORMATS; as a table its fields are lines."""
    if form == "json":
        return json_of(dict(value))
    if form == "yaml":
        return printable_lines(yaml_of(dict(value)))
    width = max((len(name) for name in value), default=0)
    return "\n".join(f"{printable(name).ljust(width)}  {_cell(each)}" for name, each in value.items())


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def yaml_of(value: Any, indent: str = "") -> str:
    """Return JSON values as YAML. Texts are written as JSON does, which YAML reads alike."""
    if isinstance(value, Mapping) and value:
        return "\n".join(f"{indent}{json.dumps(str(name), ensure_ascii=False)}:{_nested(each, indent)}" for name, each in value.items())
    if isinstance(value, list) and value:
        return "\n".join(f"{indent}-{_nested(each, indent)}" for each in value)
    return f"{indent}{json.dumps(value, ensure_ascii=False)}"


def _nested(value: Any, indent: str) -> str:
    if isinstance(value, Mapping | list) and value:
        return f"\n{yaml_of(value, f'{indent}  ')}"
    return f" {json.dumps(value, ensure_ascii=False)}"
