"""Parse Python files for the rules of `code_rules`: calls by their full name, the function around a node, and what a local name may stand for."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Source:
    """One file of Python."""

    path: str
    """Its path from the root of the repository."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed text."""
        return ast.parse(self.text, self.path)

    @cached_property
    def _walked(self) -> tuple[dict[type[ast.AST], list[Any]], dict[ast.AST, ast.AST]]:
        """The nodes by kind, and the node around each, of one walk: a rule for each of them would make the walk the most of it."""
        kinds: dict[type[ast.AST], list[Any]] = defaultdict(list)
        parents: dict[ast.AST, ast.AST] = {}
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            node = waiting.pop()
            kinds[type(node)].append(node)
            for name in node._fields:
                value = getattr(node, name, None)
                for child in value if isinstance(value, list) else (value,):
                    if isinstance(child, ast.AST) and not isinstance(child, ast.expr_context | ast.operator):
                        parents[child] = node
                        waiting.append(child)
        return kinds, parents

    @property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node around each node."""
        return self._walked[1]

    def of(self, kind: type[Node]) -> list[Node]:
        """Return the nodes of a kind in the order of their lines."""
        return sorted(self._walked[0][kind], key=lambda node: getattr(node, "lineno", 0))

    @cached_property
    def imported(self) -> dict[str, str]:
        """The full name of each name that an import makes, in whatever function it stands."""
        found = {}
        for plain in self.of(ast.Import):
            for name in plain.names:
                first = name.name.partition(".")[0]
                found[name.asname or first] = name.name if name.asname else first
        for of_module in self.of(ast.ImportFrom):
            if of_module.module and not of_module.level:
                found |= {name.asname or name.name: f"{of_module.module}.{name.name}" for name in of_module.names}
        return found

    @cached_property
    def calls(self) -> list[tuple[str, ast.Call]]:
        """Every call with the full name of what is called; a name begins with a dot where what is before it is no name."""
        return [(self.full_name(node.func), node) for node in self.of(ast.Call)]

    def full_name(self, node: ast.AST) -> str:
        """Return the dotted name of an expression, with the module that it was imported from."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        parts.append(self.imported.get(node.id, node.id) if isinstance(node, ast.Name) else "")
        return ".".join(reversed(parts))

    def functions_around(self, node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
        """Yield the functions and classes around a node, the innermost first."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node

    def place(self, node: ast.AST) -> str:
        """Return the file with the name of the function around a node, which outlives changes of lines."""
        names = [around.name for around in self.functions_around(node)]
        return f"{self.path}::{'.'.join(reversed(names)) or '(module)'}"

    def assigned(self, node: ast.Name) -> list[ast.expr]:
        """Return what the function around a name assigns to it, or loops over; nothing for a parameter, or where it is unpacked."""
        inside: ast.AST = node
        while (inside := self.parents.get(inside, self.tree)) is not self.tree:
            for loop in getattr(inside, "generators", ()):
                if node.id in _names_of(loop.target):
                    return [loop.iter]
        around = next((one for one in self.functions_around(node) if not isinstance(one, ast.ClassDef)), self.tree)
        found: list[ast.expr] = []
        for inner in ast.walk(around):
            if isinstance(inner, ast.Assign) and any(isinstance(target, ast.Name) and target.id == node.id for target in inner.targets):
                found.append(inner.value)
            elif (
                isinstance(inner, ast.AnnAssign | ast.AugAssign | ast.NamedExpr)
                and isinstance(inner.target, ast.Name)
                and inner.target.id == node.id
            ):
                found += [inner.value] if inner.value is not None else []
            elif isinstance(inner, ast.For) and node.id in _names_of(inner.target):
                found.append(inner.iter)
        return found


def _names_of(target: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument; None where the call has no such argument."""
    return next((given.value for given in call.keywords if given.arg == name), None)


def is_literal(node: ast.AST | None, value: object) -> bool:
    """Tell whether an expression is this literal."""
    return isinstance(node, ast.Constant) and node.value is value


def is_constant(node: ast.AST) -> bool:
    """Tell whether an expression is made of literals, and of names that are constants by their capital letters."""
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.isupper()
        case ast.JoinedStr(values=parts):
            return all(is_constant(part.value if isinstance(part, ast.FormattedValue) else part) for part in parts)
        case ast.BinOp(left=left, right=right):
            return is_constant(left) and is_constant(right)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return all(map(is_constant, items))
        case (
            ast.Subscript(value=value) | ast.Call(func=ast.Attribute(value=value), args=[], keywords=[])
        ):  # an entry of a constant, its items()
            return is_constant(value) and not isinstance(value, ast.Constant)
        case _:
            return False
