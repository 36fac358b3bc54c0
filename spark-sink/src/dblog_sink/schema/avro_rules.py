"""Checks a schema against Avro's rules for names and types. Pure.

Spark's Avro parses the schema text of a plan and refuses one that breaks the rules, with an error
of Java that fails the whole batch. Anybody who writes a topic chooses its schemas, so the rules are
checked before a schema becomes part of a plan. Source: the Avro specification, "Schema
Declaration" and "Names", as ``org.apache.avro.Schema`` applies them in version 1.12.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_FIXED_BYTES_MAX = 1 << 20


def fault_of(schema: Any) -> str | None:
    """Return what is wrong with a schema of full names, None if Avro takes it.

    It has a type wherever one is needed, and each name of another type is defined before it. Raise
    RecursionError for one that is nested too deeply.
    """
    try:
        _check(schema, set())
    except _RuleBrokenError as e:
        return str(e)
    return None


class _RuleBrokenError(Exception):
    """The text names the rule and what breaks it."""


def _check(schema: Any, defined: set[str]) -> None:
    if isinstance(schema, list):
        _check_union(schema, defined)
        return
    if isinstance(schema, str):
        if schema not in _PRIMITIVES and schema not in defined:
            raise _RuleBrokenError(f"type {schema[:_SHOWN_CHARS]} is not defined")
        return
    kind = schema["type"]
    match kind:
        case "record" | "enum" | "fixed":
            _check_named(schema, kind, defined)
        case "array":
            _check(schema["items"], defined)
        case "map":
            _check(schema["values"], defined)
        case _:
            _check(kind, defined)


def _check_union(branches: list[Any], defined: set[str]) -> None:
    kinds = [branch if isinstance(branch, str) else branch["type"] if not isinstance(branch, list) else "union" for branch in branches]
    if "union" in kinds:
        raise _RuleBrokenError("a union is inside of a union")
    unnamed = [kind for kind in kinds if kind in _PRIMITIVES or kind in ("array", "map")]
    if len(set(unnamed)) < len(unnamed):
        raise _RuleBrokenError("a union has a type twice")
    for branch in branches:
        _check(branch, defined)


def _check_named(schema: Any, kind: str, defined: set[str]) -> None:
    name, space = schema["name"], schema.get("namespace", "")
    _check_name(name)
    for part in space.split(".") if space else ():
        _check_name(part)
    full = f"{space}.{name}" if space else name
    if full in defined or full in _PRIMITIVES:
        raise _RuleBrokenError(f"type {full[:_SHOWN_CHARS]} is defined twice")
    defined.add(full)
    if kind == "enum":
        symbols = schema["symbols"]
        if not isinstance(symbols, list) or not symbols:
            raise _RuleBrokenError("an enum has no symbols")
        _check_distinct(symbols, "symbols")
    elif kind == "fixed":
        size = schema["size"]
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _FIXED_BYTES_MAX:
            raise _RuleBrokenError(f"a fixed has no size, or more than {_FIXED_BYTES_MAX} bytes")
    else:
        _check_distinct([field["name"] for field in schema["fields"]], "fields")
        for field in schema["fields"]:
            _check(field["type"], defined)


def _check_distinct(names: Iterable[Any], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        _check_name(name)
        if name in seen:
            raise _RuleBrokenError(f"two {what} have the name {name[:_SHOWN_CHARS]}")
        seen.add(name)


_SHOWN_CHARS = 100


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name or not (name[0].isalpha() or name[0] == "_"):
        raise _RuleBrokenError("a name begins with no letter")
    if not all(char.isalnum() or char == "_" for char in name):
        raise _RuleBrokenError(f"the name {name[:_SHOWN_CHARS]!r} has other signs than letters, digits and underscores")
