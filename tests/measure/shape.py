"""Measures the shape of the shipped code: sizes, the largest class and constructor, callables that constructors are given.

    make measure [ARGS="--list callables"]

Prints one row for each package, so that two commits can be compared. ``--list`` names what a column counts: ``classes``, ``constructors``, ``files``,
``small``, ``callables``, ``names``. Python files are read by their syntax. Compiled code (.pyx, .pxi, .h) counts by lines alone.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.openings import docstrings, opens_with_fragment

ROOT = Path(__file__).parents[2]
PACKAGES = {"worker": "connect-worker/src/dblog", "sink": "spark-sink/src/dblog_sink"}
COMPILED = (".pyx", ".pxi", ".h")

LONG_FILE_LINES = 500
SMALL_MODULE_LINES = 60
LONG_CLASS_LINES = 400


@dataclass(frozen=True, slots=True)
class Found:
    """A measured thing: its size, or 1 for a thing that is only counted, and where it is."""

    size: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Measurements of one package."""

    files: int
    python_lines: int
    code_lines: int
    """Lines of Python without blank lines, comments and docstrings."""
    compiled_lines: int
    classes: tuple[Found, ...]
    """Classes by their lines, longest first."""
    constructors: tuple[Found, ...]
    """``__init__`` methods by their lines without the docstring, longest first."""
    long_files: tuple[Found, ...]
    small_modules: tuple[Found, ...]
    callables: tuple[Found, ...]
    """Parameters of ``__init__`` whose annotation is a callable, by class and parameter."""
    callable_fields: tuple[Found, ...]
    """Fields of dataclasses whose annotation is a callable."""
    fragments: int
    shared_names: tuple[Found, ...]
    """Names of public classes that several modules of the package define, with the number of classes."""


def shape(folder: Path) -> Shape:
    """Return the measurements of the package in ``folder``."""
    paths = sorted(folder.rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    lines = {path: _lines(path) for path in paths}
    aliases = set(_callable_aliases(trees.values()))
    by_name: dict[str, list[str]] = defaultdict(list)
    classes, constructors, callables, fields = [], [], [], []
    for path, tree in trees.items():
        where = path.relative_to(folder).as_posix()
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            classes.append(Found(_span(node), f"{where}::{node.name}"))
            if node in tree.body and not node.name.startswith("_"):
                by_name[node.name].append(where)
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and member.name == "__init__":
                    constructors.append(Found(_span(member) - _docstring_lines(member), f"{where}::{node.name}"))
                    callables += [Found(1, f"{where}::{node.name}({name})") for name in _callable_parameters(member, aliases)]
                elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name) and _is_callable(member.annotation, aliases):
                    fields.append(Found(1, f"{where}::{node.name}.{member.target.id}"))
    return Shape(
        files=len(paths),
        python_lines=sum(lines.values()),
        code_lines=sum(_code_lines(path, trees[path]) for path in paths),
        compiled_lines=sum(_lines(path) for path in folder.rglob("*") if path.suffix in COMPILED),
        classes=_longest(classes),
        constructors=_longest(constructors),
        long_files=_longest(Found(count, path.relative_to(folder).as_posix()) for path, count in lines.items() if count > LONG_FILE_LINES),
        small_modules=_longest(
            Found(count, path.relative_to(folder).as_posix())
            for path, count in lines.items()
            if count < SMALL_MODULE_LINES and path.name not in ("__init__.py", "__main__.py")
        ),
        callables=tuple(callables),
        callable_fields=tuple(fields),
        fragments=sum(opens_with_fragment(docstring) for path in paths for docstring in docstrings(path)),
        shared_names=_longest(Found(len(places), f"{name}: {', '.join(places)}") for name, places in by_name.items() if len(places) > 1),
    )


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _span(node: ast.ClassDef | ast.FunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def _docstring_lines(node: ast.AST) -> int:
    body = getattr(node, "body", [])
    match body[0] if isinstance(body, list) and body else None:
        case ast.Expr(value=ast.Constant(value=str())) as first:
            return (first.end_lineno or first.lineno) - first.lineno + 1
        case _:
            return 0


def _code_lines(path: Path, tree: ast.Module) -> int:
    in_docstrings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    text = path.read_text(encoding="utf-8").splitlines()
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in in_docstrings
        for number, line in enumerate(text, start=1)
    )


def _callable_aliases(trees: Iterable[ast.Module]) -> Iterator[str]:
    """Yield the names that modules give to types of callables, such as ``Notify = Callable[[str], None]``."""
    for tree in trees:
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() as value) if _is_callable(value, set()):
                    yield name
                case _:
                    pass


def _is_callable(annotation: ast.expr | None, aliases: set[str]) -> bool:
    """Return True for a callable, an optional one, and a name for one; not for a list or a mapping of callables."""
    match annotation:
        case ast.Name(id=name):
            return name == "Callable" or name in aliases
        case ast.Subscript(value=ast.Name(id="Callable")):
            return True
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_callable(left, aliases) or _is_callable(right, aliases)
        case _:
            return False


def _callable_parameters(function: ast.FunctionDef, aliases: set[str]) -> Iterator[str]:
    every = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return (argument.arg for argument in every if _is_callable(argument.annotation, aliases))


def _longest(found: Iterable[Found]) -> tuple[Found, ...]:
    return tuple(sorted(found, key=lambda one: (-one.size, one.name)))


def rows(shapes: dict[str, Shape]) -> Iterator[tuple[str, ...]]:
    """Yield the table: what is measured, then its value in each package."""
    yield ("measured", *shapes)
    every = shapes.values()
    yield ("Python files", *(f"{one.files:,}" for one in every))
    yield ("lines of Python", *(f"{one.python_lines:,}" for one in every))
    yield ("  of them code", *(f"{one.code_lines:,}" for one in every))
    yield ("lines of compiled code", *(f"{one.compiled_lines:,}" for one in every))
    yield ("lines shipped", *(f"{one.python_lines + one.compiled_lines:,}" for one in every))
    yield ("largest class, lines", *(_largest(one.classes) for one in every))
    yield (f"classes over {LONG_CLASS_LINES} lines", *(str(sum(found.size > LONG_CLASS_LINES for found in one.classes)) for one in every))
    yield ("largest constructor, lines", *(_largest(one.constructors) for one in every))
    yield ("constructors", *(str(len(one.constructors)) for one in every))
    yield ("  their parameters that are callables", *(str(len(one.callables)) for one in every))
    yield ("fields of dataclasses that are callables", *(str(len(one.callable_fields)) for one in every))
    yield (f"files over {LONG_FILE_LINES} lines", *(str(len(one.long_files)) for one in every))
    yield (f"modules under {SMALL_MODULE_LINES} lines", *(str(len(one.small_modules)) for one in every))
    yield ("docstrings that open with a fragment", *(str(one.fragments) for one in every))
    yield ("names of several public classes", *(str(len(one.shared_names)) for one in every))


def _largest(found: tuple[Found, ...]) -> str:
    return f"{found[0].size:,} {found[0].name.rpartition('::')[2]}" if found else "0"


LISTS = {
    "classes": lambda one: tuple(found for found in one.classes if found.size > LONG_CLASS_LINES),
    "constructors": lambda one: one.constructors[:20],
    "files": lambda one: one.long_files,
    "small": lambda one: one.small_modules,
    "callables": lambda one: (*one.callables, *one.callable_fields),
    "names": lambda one: one.shared_names,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--list", choices=sorted(LISTS), help="name what a column counts, package by package")
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="another checkout to measure")
    arguments = parser.parse_args()
    shapes = {name: shape(arguments.root / folder) for name, folder in PACKAGES.items()}
    if arguments.list:
        for name, one in shapes.items():
            for found in LISTS[arguments.list](one):
                print(f"{name:8}{found.size:6}  {found.name}")
        return 0
    for measured, *values in rows(shapes):
        print(f"{measured:42}" + "".join(f"{value:>32}" for value in values))
    return 0


if __name__ == "__main__":
    sys.exit(main())
