"""Tells two versions of a table's Avro schema apart: columns that came, went, or changed. Pure.

A value's schema is Debezium's envelope, whose fields ``before`` and ``after`` share the record of the
table's columns; a flat schema has the columns themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One column's difference. None stands for a column that is not there."""

    name: str
    before: str | None
    after: str | None


def columns_of(schema: str) -> dict[str, str]:
    """Return the columns of a value's schema with their types in words, or none of what is no record."""
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    named: dict[str, Mapping[str, Any]] = {}
    _collect(parsed, named)
    row = parsed
    for field in _fields(parsed):
        if field.get("name") in ("before", "after"):
            found = next((each for each in (_record(kind, named) for kind in _choices(field.get("type"))) if each is not None), None)
            if found is not None:
                row = dict(found)
                break
    return {str(field.get("name")): _type(field.get("type")) for field in _fields(row)}


def changes_between(before: Mapping[str, str], after: Mapping[str, str]) -> list[ColumnChange]:
    """Return the columns that differ, in the order of the newer version, those that went last."""
    return [
        ColumnChange(name, before.get(name), after.get(name))
        for name in [*after, *(name for name in before if name not in after)]
        if before.get(name) != after.get(name)
    ]


def _fields(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    fields = record.get("fields")
    return [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []


def _choices(kind: object) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def _collect(kind: object, named: dict[str, Mapping[str, Any]]) -> None:
    for each in _choices(kind):
        if isinstance(each, dict):
            if each.get("type") == "record":
                named[str(each.get("name"))] = each
            for field in _fields(each):
                _collect(field.get("type"), named)


def _record(kind: object, named: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    if isinstance(kind, dict) and kind.get("type") == "record":
        return kind
    return named.get(kind.rpartition(".")[2]) if isinstance(kind, str) else None


def _type(kind: object) -> str:
    choices = _choices(kind)
    names = [_name(each) for each in choices if each != "null"]
    return " or ".join(names) + (", may be NULL" if "null" in choices else "")


def _name(kind: object) -> str:
    if not isinstance(kind, dict):
        return str(kind)
    logical = kind.get("logicalType") or kind.get("connect.name")
    base = str(kind.get("type"))
    if logical == "decimal":
        return f"decimal({kind.get('precision')}, {kind.get('scale', 0)})"
    return f"{base} ({str(logical).rpartition('.')[2]})" if logical else base
