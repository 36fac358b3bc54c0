"""Reports docstrings and texts of options that open with a fragment: a word that leaves the subject to be found in the code.

A function's docstring opens with a verb in the imperative, which ruff's D401 checks; that of a class, a property or a field with a noun.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOMS = ("connect-worker/src", "spark-sink/src", "docker", "helm", "tests/support")
_OPENING = re.compile(r"(?:What|Whether|Of|By|As|The same|Those|For|None|How|Where)\b")
_COMPILED = re.compile(r'^[ \t]*(?:cdef |cpdef )?(?:def|class)\b[^\n]*(?:\n[^\n]*){0,4}?:\s*\n\s*"""(?P<text>[^"]+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring of a module, class, function or field, or the text of an option, and the line where it begins."""

    line: int
    text: str


def fragments(root: Path) -> Iterator[str]:
    """Yield ``path:line: first words`` of each docstring and text of an option of the shipped code that opens with a fragment."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py*")):
            if path.suffix not in (".py", ".pyx", ".pyi") or "build" in path.parts:
                continue
            for docstring in docstrings(path):
                if opens_with_fragment(docstring):
                    yield f"{path.relative_to(root).as_posix()}:{docstring.line}: {docstring.text.splitlines()[0][:70]}"


def opens_with_fragment(docstring: Docstring) -> bool:
    """Return True if the docstring's first word leaves the subject out."""
    return _OPENING.match(docstring.text) is not None


def docstrings(path: Path) -> Iterator[Docstring]:
    """Yield the docstrings of a file, and its arguments ``doc``, which are texts of options.

    Of a file that Python cannot parse (``.pyx``) there are those after ``def`` and ``class`` only.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".pyx":
        for found in _COMPILED.finditer(text):
            yield Docstring(text.count("\n", 0, found.start("text")) + 1, found["text"].strip())
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            if body and (own := _text(body[0])) is not None:
                yield own
            for before, after in itertools.pairwise(body):
                if isinstance(before, ast.Assign | ast.AnnAssign) and (of_field := _text(after)) is not None:
                    yield of_field
        elif isinstance(node, ast.keyword) and node.arg == "doc" and isinstance(node.value, ast.Constant | ast.JoinedStr):
            yield Docstring(
                node.value.lineno, ast.literal_eval(node.value) if isinstance(node.value, ast.Constant) else ast.unparse(node.value)[2:-1]
            )


def _text(node: ast.stmt) -> Docstring | None:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return Docstring(node.lineno, text.strip())
        case _:
            return None
