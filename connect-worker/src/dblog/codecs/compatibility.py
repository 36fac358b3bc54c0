"""Whether data written with one Avro schema can be read with another: Avro's schema resolution, as a registry checks it. Pure.

The rules are the Avro specification's ("Schema Resolution") in the reading of Avro Java's ``SchemaCompatibility``, which Confluent's
registry uses: names are compared without namespace, a reader's aliases count, a reader's new field needs a default. Levels: BACKWARD means the
new schema reads data of the last one, FORWARD the reverse, FULL both; the transitive forms look at every earlier version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dblog.codecs.avro_text import PRIMITIVES, Names, full_name


class Level(StrEnum):
    """What a new version of a subject's schema must be able to do."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


_PROMOTIONS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}


@dataclass(slots=True)
class _Node:
    """A schema with its names looked up."""

    kind: str
    name: str = ""
    full: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[_Field] = field(default_factory=list)
    branches: list[_Node] = field(default_factory=list)
    items: _Node | None = None
    symbols: tuple[str, ...] = ()
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
    """A schema's text and the definitions that it refers to: each version has its own."""

    text: str
    names: Names = field(default_factory=dict)


def check_level(new: SchemaVersion, earlier: Sequence[SchemaVersion], level: Level) -> list[str]:
    """What is wrong with ``new`` beside the earlier versions (oldest first), one line each; empty when it may be registered."""
    if level is Level.NONE or not earlier:
        return []
    compared = earlier if level.endswith("_TRANSITIVE") else earlier[-1:]
    problems: list[str] = []
    for old in reversed(compared):
        try:
            if level.startswith(("BACKWARD", "FULL")):
                problems += [f"The new schema cannot read data of an earlier one: {text}" for text in read_problems(new, old)]
            if level.startswith(("FORWARD", "FULL")):
                problems += [f"An earlier schema cannot read data of the new one: {text}" for text in read_problems(old, new)]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            problems.append("An earlier schema, or one that it refers to, is no Avro schema that can be compared")
    return problems


def read_problems(reader: SchemaVersion, writer: SchemaVersion) -> list[str]:
    """Why data of ``writer`` cannot be read with ``reader``; empty when it can."""
    return _Comparison().problems(_nodes(reader), _nodes(writer), "/")


def _nodes(version: SchemaVersion) -> _Node:
    return _parse(json.loads(version.text), "", _Definitions(version.names))


class _Definitions:
    """Named types of one schema, those defined elsewhere being parsed when first used."""

    def __init__(self, names: Names) -> None:
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
    aliases = tuple(full_name(alias, None, space) for alias in schema.get("aliases", ()))
    node = _Node("record" if kind == "error" else kind, name=name, full=full, aliases=aliases)
    # Before the fields: a record may hold itself.
    defined.nodes[full] = node
    match kind:
        case "enum":
            node.symbols = tuple(schema["symbols"])
            node.has_default = "default" in schema
        case "fixed":
            node.size = schema["size"]
        case _:
            node.fields = [
                _Field(f["name"], _parse(f["type"], space, defined), "default" in f, tuple(f.get("aliases", ()))) for f in schema["fields"]
            ]
    return node


class _Comparison:
    """One walk over a reader and a writer; pairs being compared are taken as readable, which ends recursion.

    A pair is compared once, however many ways lead to it: types that hold the next one twice would be walked 2^n times. What was found while an open pair was
    taken as readable holds only as long as that pair does, and is not kept.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], int] = {}
        self._known: dict[tuple[int, int], list[str]] = {}
        self._lowest_taken = 0
        """The outermost open pair that was taken as readable in the walk so far."""

    def problems(self, reader: _Node, writer: _Node, path: str) -> list[str]:
        pair = (id(reader), id(writer))
        if pair in self._known:
            return self._known[pair][:1]
        if pair in self._open:
            self._lowest_taken = min(self._lowest_taken, self._open[pair])
            return []
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

    def _compare(self, reader: _Node, writer: _Node, path: str) -> list[str]:
        if writer.kind == "union":
            return [text for number, branch in enumerate(writer.branches) for text in self.problems(reader, branch, f"{path}{number}/")]
        if reader.kind == "union":
            if any(not self.problems(branch, writer, path) for branch in reader.branches):
                return []
            return [f"reader union lacks writer type {_shown(writer)} at {path}"]
        if reader.kind != writer.kind:
            if writer.kind in _PROMOTIONS.get(reader.kind, ()):
                return []
            return [f"reader type {_shown(reader)} is not compatible with writer type {_shown(writer)} at {path}"]
        match reader.kind:
            case "array" | "map":
                if reader.items is None or writer.items is None:
                    raise AssertionError("an array or map without items")
                return self.problems(reader.items, writer.items, f"{path}{'items' if reader.kind == 'array' else 'values'}/")
            case "record" | "enum" | "fixed":
                return self._compare_named(reader, writer, path)
            case _:
                return []

    def _compare_named(self, reader: _Node, writer: _Node, path: str) -> list[str]:
        if reader.name != writer.name and writer.full not in reader.aliases:
            return [f"name mismatch: reader {reader.full}, writer {writer.full} at {path}"]
        if reader.kind == "fixed":
            return [] if reader.size == writer.size else [f"size mismatch: reader {reader.size}, writer {writer.size} at {path}"]
        if reader.kind == "enum":
            missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
            return [f"reader enum lacks symbols {', '.join(missing)} at {path}"] if missing and not reader.has_default else []
        problems: list[str] = []
        by_name = {f.name: f for f in writer.fields}
        for wanted in reader.fields:
            place = f"{path}{wanted.name}/"
            found = next((by_name[name] for name in (wanted.name, *wanted.aliases) if name in by_name), None)
            if found is not None:
                problems += self.problems(wanted.type, found.type, place)
            elif not wanted.has_default and not (wanted.type.kind == "enum" and wanted.type.has_default):
                problems.append(f"reader field {wanted.name} has no default and the writer does not write it, at {place}")
        return problems


def _shown(node: _Node) -> str:
    return f"{node.kind} {node.full}" if node.full else node.kind
