"""Checks if data written with one Avro schema can be read with another: Avro's schema resolution,
as a registry applies it. Pure.

The rules are the Avro specification's ("Schema Resolution") as implemented by Avro Java's
``SchemaCompatibility``, which Confluent's registry uses: names are compared without namespace, a
reader's aliases count, and a reader's new field needs a default. With BACKWARD the new schema must
read data of the last one, with FORWARD the last one must read data of the new one, with FULL both.
The transitive levels compare with every earlier version.

Two schemas can have as many pairs of types as the product of their numbers of types. So the work of
a check is limited; beyond the limit the schemas cannot be compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from dblog.codecs.avro_text import PRIMITIVES, Names, full_name

_Version = TypeVar("_Version")

_STEPS_MAX = 2_000_000
"""Number of types read and pairs compared in one check: less than a second, during which the caller
blocks other registrations. It suffices for 200 versions with 300 columns.
"""
_KEPT_PAIR_STEPS = 5
"""Steps that a remembered pair costs, since it takes some 400 bytes of memory."""
_PATH_STEP_CHARS = 64
_NAME_CHARS_MAX = 200
_NAMES_SHOWN_MAX = 20
_PROBLEMS_MAX = 100
TOO_LARGE = (
    "The schemas are too large to compare: their types make too many pairs; use smaller unions, or a level that is not transitive, or set the subject's "
    "compatibility to NONE"
)


class Level(StrEnum):
    """The requirement for a new version of a subject's schema."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    def compared(self, earlier: Sequence[_Version]) -> Sequence[_Version]:
        """Return those of the earlier versions (oldest first) with which a new one is compared."""
        if self is Level.NONE:
            return ()
        return earlier if self.endswith("_TRANSITIVE") else earlier[-1:]


_PROMOTIONS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}


@dataclass(slots=True)
class _Node:
    """A schema with its type names resolved."""

    kind: str
    name: str = ""
    full: str = ""
    aliases: frozenset[str] = frozenset()
    fields: list[_Field] = field(default_factory=list)
    branches: list[_Node] = field(default_factory=list)
    items: _Node | None = None
    symbols: Mapping[str, None] = field(default_factory=dict)
    """Symbols of an enum in their order."""
    has_default: bool = False
    size: int = 0


@dataclass(slots=True)
class _Field:
    name: str
    type: _Node
    has_default: bool
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The text of a schema and the definitions that it refers to; each version has its own."""

    text: str
    names: Names = field(default_factory=dict)


def check_level(new: SchemaVersion, earlier: Sequence[SchemaVersion], level: Level) -> list[str]:
    """Return the problems of ``new`` with the earlier versions (oldest first), one line each.
    Return an empty list if it may be registered.
    """
    problems: list[str] = []
    steps = _Steps()
    try:
        for old in reversed(level.compared(earlier)):
            problems += _problems_beside(new, old, level, steps)
    except _TooLargeError:
        problems.append(TOO_LARGE)
    if len(problems) > _PROBLEMS_MAX:
        problems[_PROBLEMS_MAX:] = [f"and {len(problems) - _PROBLEMS_MAX} more"]
    return problems


def _problems_beside(new: SchemaVersion, old: SchemaVersion, level: Level, steps: _Steps) -> list[str]:
    problems: list[str] = []
    try:
        has, had = _nodes(new, steps), _nodes(old, steps)
        if level.startswith(("BACKWARD", "FULL")):
            found = _Comparison(steps).problems(has, had, "/")
            problems += [f"The new schema cannot read data of an earlier one: {text}" for text in found]
        if level.startswith(("FORWARD", "FULL")):
            found = _Comparison(steps).problems(had, has, "/")
            problems += [f"An earlier schema cannot read data of the new one: {text}" for text in found]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        problems.append("An earlier schema, or one that it refers to, is not an Avro schema that can be compared")
    return problems


class _TooLargeError(Exception):
    """The steps of a check are used up."""


class _Steps:
    """Counter of the work that a check may still do."""

    def __init__(self) -> None:
        self._left = _STEPS_MAX

    def take(self, count: int) -> None:
        """Count steps before the work is done. Raise _TooLargeError if none are left."""
        self._left -= count
        if self._left < 0:
            raise _TooLargeError


def _nodes(version: SchemaVersion, steps: _Steps) -> _Node:
    return _parse(json.loads(version.text), "", _Definitions(version.names, steps))


class _Definitions:
    """Named types of one schema. A type defined elsewhere is parsed when it is first used."""

    def __init__(self, names: Names, steps: _Steps) -> None:
        self.steps = steps
        self.nodes: dict[str, _Node] = {}
        self._elsewhere = dict(names)

    def find(self, name: str, enclosing: str) -> _Node:
        for full in (full_name(name, None, enclosing), name):
            if full in self.nodes:
                return self.nodes[full]
            if full in self._elsewhere:
                return _parse(self._elsewhere.pop(full), "", self)
        raise KeyError(name)


def _parse(schema: Any, enclosing: str, defined: _Definitions) -> _Node:
    defined.steps.take(1)
    if isinstance(schema, str):
        return _Node(schema) if schema in PRIMITIVES else defined.find(schema, enclosing)
    if isinstance(schema, list):
        return _Node("union", branches=[_parse(branch, enclosing, defined) for branch in schema])
    kind = schema["type"]
    if not isinstance(kind, str):
        return _parse(kind, enclosing, defined)
    match kind:
        case "array":
            return _Node("array", items=_parse(schema["items"], enclosing, defined))
        case "map":
            return _Node("map", items=_parse(schema["values"], enclosing, defined))
        case "record" | "error" | "enum" | "fixed":
            return _parse_named(kind, schema, enclosing, defined)
        case _:
            return _Node(kind) if kind in PRIMITIVES else defined.find(kind, enclosing)


def _parse_named(kind: str, schema: Mapping[str, Any], enclosing: str, defined: _Definitions) -> _Node:
    full = full_name(schema["name"], schema.get("namespace"), enclosing)
    space, _, name = full.rpartition(".")
    aliases = frozenset(full_name(alias, None, space) for alias in schema.get("aliases", ()))
    node = _Node("record" if kind == "error" else kind, name=name, full=full, aliases=aliases)
    # The node is stored before its fields are parsed, because a record may contain itself.
    defined.nodes[full] = node
    match kind:
        case "enum":
            node.symbols = dict.fromkeys(map(str, schema["symbols"]))
            node.has_default = "default" in schema
        case "fixed":
            node.size = schema["size"]
        case _:
            node.fields = [
                _Field(f["name"], _parse(f["type"], space, defined), "default" in f, tuple(f.get("aliases", ()))) for f in schema["fields"]
            ]
    return node


class _Comparison:
    """A comparison of a reader with a writer. Pairs under comparison count as readable, which ends
    recursion.

    Each pair is compared once, however many paths lead to it: types that each contain the next one
    twice would otherwise be visited 2^n times. A result found while an open pair counted as
    readable is valid only as long as that pair is open, so it is not stored. A pair that differs at
    first sight is not stored either: two unions have millions of those.
    """

    def __init__(self, steps: _Steps) -> None:
        self._steps = steps
        self._open: dict[tuple[int, int], int] = {}
        self._known: dict[tuple[int, int], list[str]] = {}
        self._lowest_taken = 0
        """Depth of the outermost open pair that counted as readable in the comparison so far."""

    def problems(self, reader: _Node, writer: _Node, path: str) -> list[str]:
        # A name may be as long as its schema, and it is part of every path below it.
        self._steps.take(1 + len(path) // _PATH_STEP_CHARS)
        at_once = self._at_first_sight(reader, writer, path)
        if at_once is not None:
            return at_once
        pair = (id(reader), id(writer))
        if pair in self._known:
            return self._known[pair][:1]
        if pair in self._open:
            self._lowest_taken = min(self._lowest_taken, self._open[pair])
            return []
        self._steps.take(_KEPT_PAIR_STEPS)
        depth = self._open[pair] = len(self._open)
        outside, self._lowest_taken = self._lowest_taken, depth
        try:
            found = self._compare(reader, writer, path)
        finally:
            del self._open[pair]
        if self._lowest_taken >= depth:
            self._known[pair] = found
        self._lowest_taken = min(outside, self._lowest_taken)
        return found

    def _at_first_sight(self, reader: _Node, writer: _Node, path: str) -> list[str] | None:
        """Return the problems of a pair that can be judged without looking at the types inside;
        None for other pairs.
        """
        if reader.kind == "union" or writer.kind == "union":
            return None
        if reader.kind != writer.kind:
            if writer.kind in _PROMOTIONS.get(reader.kind, ()):
                return []
            return [f"reader type {_shown(reader)} is not compatible with writer type {_shown(writer)} at {path}"]
        if reader.kind in ("array", "map"):
            return None
        if reader.name != writer.name and writer.full not in reader.aliases:
            return [f"name mismatch: reader {_cut(reader.full)}, writer {_cut(writer.full)} at {path}"]
        match reader.kind:
            case "fixed":
                return [] if reader.size == writer.size else [f"size mismatch: reader {reader.size}, writer {writer.size} at {path}"]
            case "enum":
                return self._missing_symbols(reader, writer, path)
            case "record":
                return None
            case _:
                return []

    def _missing_symbols(self, reader: _Node, writer: _Node, path: str) -> list[str]:
        if reader.has_default:
            return []
        self._steps.take(len(writer.symbols))
        missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
        if not missing:
            return []
        shown = ", ".join(map(_cut, missing[:_NAMES_SHOWN_MAX])) + (", ..." if len(missing) > _NAMES_SHOWN_MAX else "")
        return [f"reader enum lacks symbols {shown} at {path}"]

    def _compare(self, reader: _Node, writer: _Node, path: str) -> list[str]:
        if writer.kind == "union":
            return [text for number, branch in enumerate(writer.branches) for text in self.problems(reader, branch, f"{path}{number}/")]
        if reader.kind == "union":
            if any(not self.problems(branch, writer, path) for branch in reader.branches):
                return []
            return [f"reader union lacks writer type {_shown(writer)} at {path}"]
        if reader.kind == "record":
            return self._compare_fields(reader, writer, path)
        if reader.items is None or writer.items is None:
            raise AssertionError("an array or map without items")
        return self.problems(reader.items, writer.items, f"{path}{'items' if reader.kind == 'array' else 'values'}/")

    def _compare_fields(self, reader: _Node, writer: _Node, path: str) -> list[str]:
        problems: list[str] = []
        self._steps.take(len(writer.fields))
        by_name = {f.name: f for f in writer.fields}
        for wanted in reader.fields:
            self._steps.take(1 + len(wanted.aliases) + len(path) // _PATH_STEP_CHARS)
            path_here = f"{path}{wanted.name}/"
            found = next((by_name[name] for name in (wanted.name, *wanted.aliases) if name in by_name), None)
            if found is not None:
                problems += self.problems(wanted.type, found.type, path_here)
            elif not wanted.has_default and not (wanted.type.kind == "enum" and wanted.type.has_default):
                problems.append(f"reader field {_cut(wanted.name)} has no default and the writer does not write it, at {path_here}")
        return problems


def _shown(node: _Node) -> str:
    return f"{node.kind} {_cut(node.full)}" if node.full else node.kind


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_CHARS_MAX else f"{name[:_NAME_CHARS_MAX]}..."
