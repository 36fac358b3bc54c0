"""Writes an Avro schema in one canonical text, which a registry compares, stores and returns.

Confluent's registry keeps the text of Avro Java's ``Schema.toString()``: compact JSON, attributes
in a fixed order, full names split into name and namespace, a namespace left out if it is the
enclosing one, and types already defined written as references. Two texts of the same schema become
the same text here, so they get the same id. Docs, defaults and properties count, unlike in Avro's
parsing canonical form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from dblog.errors import DefiniteError

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = {
    "record": {"type", "name", "namespace", "doc", "fields", "aliases"},
    "error": {"type", "name", "namespace", "doc", "fields", "aliases"},
    "enum": {"type", "name", "namespace", "doc", "symbols", "default", "aliases"},
    "fixed": {"type", "name", "namespace", "doc", "size", "aliases"},
    "array": {"type", "items"},
    "map": {"type", "values"},
}
_TOO_DEEP = "the schema is nested too deeply"
_FIELD_RESERVED = {"name", "type", "doc", "default", "order", "aliases"}
_DEPTH_MAX = 60
"""Largest depth of records, unions, arrays and maps inside each other. A record takes five of
Python's 1000 stack frames, and code that reads or compares the text needs some too.
"""
_JSON_DEPTH_MAX = 4 * _DEPTH_MAX
"""Largest depth of nested JSON values; a record takes three levels."""
_SIZE_MAX = 2**31 - 1

Names = Mapping[str, Any]
"""Definitions by full name, for types that a schema refers to and that are defined elsewhere."""


def canonical_text(text: str, *, names: Names | None = None) -> str:
    """Return the schema in its canonical text. Raise DefiniteError for anything that is not an Avro
    schema.
    """
    try:
        schema = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        # A bare type name is a schema too, with or without its quotes.
        if text.strip() not in PRIMITIVES:
            raise DefiniteError("the schema is not JSON") from None
        schema = text.strip()
    _require_levels(schema)
    defined = dict.fromkeys(names or ())
    try:
        canonical = json.dumps(_schema(schema, "", defined, 0), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        canonical.encode()
    except RecursionError:
        raise DefiniteError(_TOO_DEEP) from None
    except UnicodeEncodeError:
        # Half of a surrogate pair can be written in JSON, but no record could carry it.
        raise DefiniteError("the schema's text is not Unicode") from None
    except ValueError:
        # 1e999 is read as infinity.
        raise DefiniteError("the schema has a number that is too large") from None
    return canonical


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _require_levels(value: Any) -> None:
    """Raise DefiniteError if the JSON is nested too deeply. Defaults and properties may have any
    depth, and Python's JSON readers and writers are recursive.
    """
    level = [value]
    for _ in range(_JSON_DEPTH_MAX):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise DefiniteError(_TOO_DEEP)


def full_name(name: str, namespace: str | None, enclosing: str) -> str:
    """Return a type's full name by Avro's rule: a dotted name is full already; any other is
    prefixed with its own namespace, or else with the enclosing one.
    """
    if "." in name:
        return name
    space = enclosing if namespace is None else namespace
    return f"{space}.{name}" if space else name


def _schema(schema: Any, enclosing: str, defined: dict[str, None], depth: int) -> Any:
    if depth > _DEPTH_MAX:
        raise DefiniteError(_TOO_DEEP)
    match schema:
        case str():
            return _named(schema, enclosing, defined)
        case list():
            return _union(schema, enclosing, defined, depth)
        case {"type": dict() | list() as inner} if len(schema) == 1:
            return _schema(inner, enclosing, defined, depth + 1)
        case {"type": str(kind)}:
            return _complex(kind, schema, enclosing, defined, depth)
        case {"type": dict() as inner}:
            return _schema(inner, enclosing, defined, depth + 1)
        case _:
            raise DefiniteError("a schema must be a type name, a union, or an object with a type")


def _named(name: str, enclosing: str, defined: dict[str, None]) -> str:
    if name in PRIMITIVES:
        return name
    full = full_name(name, None, enclosing)
    if full not in defined:
        if name in defined:
            full = name
        else:
            raise DefiniteError(f"the type {name} is not defined")
    space, _, simple = full.rpartition(".")
    return simple if space == enclosing else full


def _union(branches: list[Any], enclosing: str, defined: dict[str, None], depth: int) -> list[Any]:
    out: list[Any] = []
    seen: set[str] = set()
    for branch in branches:
        if isinstance(branch, list):
            raise DefiniteError("a union may not hold a union")
        written = _schema(branch, enclosing, defined, depth + 1)
        kind = _branch_kind(branch, enclosing)
        if kind in seen:
            raise DefiniteError(f"a union holds {kind} twice")
        seen.add(kind)
        out.append(written)
    return out


def _branch_kind(branch: Any, enclosing: str) -> str:
    if isinstance(branch, str):
        return branch if branch in PRIMITIVES else full_name(branch, None, enclosing)
    kind = branch.get("type")
    if isinstance(kind, str) and kind in ("record", "error", "enum", "fixed"):
        return full_name(branch["name"], branch.get("namespace"), enclosing)
    return kind if isinstance(kind, str) else json.dumps(kind)


def _complex(kind: str, schema: Mapping[str, Any], enclosing: str, defined: dict[str, None], depth: int) -> Any:
    if kind in PRIMITIVES:
        properties = {key: value for key, value in schema.items() if key != "type"}
        return {"type": kind, **properties} if properties else kind
    if kind not in _RESERVED:
        return _named(kind, enclosing, defined)
    out: dict[str, Any] = {"type": kind}
    match kind:
        case "array":
            out["items"] = _schema(_required(schema, "items", kind), enclosing, defined, depth + 1)
        case "map":
            out["values"] = _schema(_required(schema, "values", kind), enclosing, defined, depth + 1)
        case _:
            return _definition(kind, schema, enclosing, defined, depth, out)
    return {**out, **_properties(schema, _RESERVED[kind])}


def _definition(
    kind: str, schema: Mapping[str, Any], enclosing: str, defined: dict[str, None], depth: int, out: dict[str, Any]
) -> dict[str, Any]:
    name = _required(schema, "name", kind)
    if not isinstance(name, str) or not all(_NAME.fullmatch(part) for part in name.split(".")):
        raise DefiniteError(f"{name!r} is not an Avro name")
    if not isinstance(schema.get("namespace"), str | None):
        raise DefiniteError(f"the namespace of {name} is not a text")
    full = full_name(name, schema.get("namespace"), enclosing)
    if full in defined:
        raise DefiniteError(f"the type {full} is defined twice")
    defined[full] = None
    space, _, out["name"] = full.rpartition(".")
    if space != enclosing:
        out["namespace"] = space
    if schema.get("doc") is not None:
        out["doc"] = schema["doc"]
    match kind:
        case "enum":
            symbols = _required(schema, "symbols", kind)
            if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols) or len(set(symbols)) < len(symbols):
                raise DefiniteError(f"the enum {full} needs different symbols")
            out["symbols"] = symbols
            if "default" in schema:
                if schema["default"] not in symbols:
                    raise DefiniteError(f"the default of the enum {full} is none of its symbols")
                out["default"] = schema["default"]
        case "fixed":
            size = _required(schema, "size", kind)
            if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _SIZE_MAX:
                raise DefiniteError(f"the fixed {full} needs a size")
            out["size"] = size
        case _:
            fields = _required(schema, "fields", kind)
            if not isinstance(fields, list):
                raise DefiniteError(f"the record {full} needs a list of fields")
            out["fields"] = [_field(field, space, defined, depth, full) for field in fields]
            names = [field["name"] for field in out["fields"]]
            if len(set(names)) < len(names):
                raise DefiniteError(f"the record {full} has two fields of one name")
    out |= _properties(schema, _RESERVED[kind])
    if aliases := _aliases(schema, full):
        out["aliases"] = aliases
    return out


def _field(field: Any, enclosing: str, defined: dict[str, None], depth: int, owner: str) -> dict[str, Any]:
    if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
        raise DefiniteError(f"a field of {owner} has no name or no type")
    if not _NAME.fullmatch(field["name"]):
        raise DefiniteError(f"{field['name']!r} of {owner} is not an Avro name")
    out: dict[str, Any] = {"name": field["name"], "type": _schema(field["type"], enclosing, defined, depth + 1)}
    if field.get("doc") is not None:
        out["doc"] = field["doc"]
    if "default" in field:
        out["default"] = field["default"]
    if field.get("order", "ascending") != "ascending":
        out["order"] = field["order"]
    if aliases := _aliases(field, f"{field['name']} of {owner}"):
        out["aliases"] = aliases
    return out | _properties(field, _FIELD_RESERVED)


def _aliases(of: Mapping[str, Any], owner: str) -> list[str]:
    aliases = of.get("aliases") or []
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise DefiniteError(f"the aliases of {owner} are not a list of names")
    return aliases


def _required(schema: Mapping[str, Any], key: str, kind: str) -> Any:
    if key not in schema:
        raise DefiniteError(f"a schema of type {kind} has no {key}")
    return schema[key]


def _properties(schema: Mapping[str, Any], reserved: set[str]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in reserved}
