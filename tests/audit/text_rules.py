"""Find texts that say too much or too little: statements with unquoted parts, secrets compared by ==, errors and traces that carry values of rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from audit.syntax import Source, is_constant, is_literal, keyword

_STATEMENT = re.compile(
    r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|REPLACE INTO|ALTER|CREATE|DROP|SET|SHOW|GRANT|FLUSH|LOCK|KILL|COPY|WITH|CALL|MERGE|TRUNCATE|DECLARE|FETCH|"
    r"ANALYZE|DESCRIBE|EXPLAIN|VACUUM|START_REPLICATION)\b"
)

_NUMBERS = re.compile(r".*(_ms|_s|_ns|_h|_max|_min|_bytes|count|number|epoch)$")

_QUOTES = re.compile(r"(quote\w*|literal|^int|^len|^float|lsn_text|type_sql|text_sql)$")
"""Functions whose results may stand in a statement."""

_MAKES_SQL = re.compile(r".*/dialects/\w+/catalog/\w+\.py")
"""Files whose one task it is to make statements, and whose tests try hostile names."""


def unquoted_sql(source: Source) -> Iterator[ast.AST]:
    if _MAKES_SQL.fullmatch(source.path):
        return
    for text in source.of(ast.JoinedStr):
        begin = text.values[0] if text.values else None
        if _begins_statement(begin) and not is_quoted(source, text) and not isinstance(source.parents[text], ast.Raise):
            yield text
    for made in source.of(ast.BinOp):
        if isinstance(made.op, ast.Mod | ast.Add) and _begins_statement(made.left) and not is_quoted(source, made.right):
            yield made
    for _, call in source.calls:
        given = (*call.args, *(item.value for item in call.keywords))
        filled_in = isinstance(call.func, ast.Attribute) and call.func.attr == "format" and _begins_statement(call.func.value)
        if filled_in and not all(is_quoted(source, value) for value in given):
            yield call


def _begins_statement(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _STATEMENT.match(node.value) is not None


def is_quoted(source: Source, node: ast.AST, depth: int = 0) -> bool:
    """Tell whether all that goes into a statement is a literal, a constant, a number, or comes from a function that quotes."""
    if is_constant(node):
        return True
    match node:
        case ast.JoinedStr(values=parts):
            return all(is_quoted(source, part.value if isinstance(part, ast.FormattedValue) else part, depth) for part in parts)
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[items]):
            return is_quoted(source, items, depth)
        case ast.Call(func=ast.Name(id="map"), args=[function, *_]):
            return _QUOTES.search(source.full_name(function)) is not None
        case ast.Call(func=function):
            return _QUOTES.search(source.full_name(function)) is not None
        case ast.GeneratorExp(elt=item) | ast.ListComp(elt=item):
            return is_quoted(source, item, depth)
        case ast.IfExp(body=one, orelse=other):
            return is_quoted(source, one, depth) and is_quoted(source, other, depth)
        case ast.BinOp(left=left, right=right):
            return is_quoted(source, left, depth) and is_quoted(source, right, depth)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return all(is_quoted(source, item, depth) for item in items)
        case ast.Name(id=name) | ast.Attribute(attr=name) if _NUMBERS.fullmatch(name):
            return True
        case ast.Name() if depth < 3:
            values = source.assigned(node)
            return bool(values) and all(is_quoted(source, value, depth + 1) for value in values)
        case _:
            return False


_SECRET = re.compile(r"(?i)(^|_)(password|passwd|secret|token|digest|hmac|mac|signature|credential|authorization|api_?key)s?$")


def compared_secrets(source: Source) -> Iterator[ast.AST]:
    for node in source.of(ast.Compare):
        if all(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops):
            sides = (node.left, *node.comparators)
            if any(map(is_constant, sides)):
                continue
            if any(
                _SECRET.search(source.full_name(side.func if isinstance(side, ast.Call) else side).rpartition(".")[2]) for side in sides
            ):
                yield node


_LOGS = ("debug", "info", "warning", "error", "critical", "exception", "log")


def quoted_driver_errors(source: Source) -> Iterator[ast.AST]:
    """Errors of a database that go into a text or a log line as they are."""
    for handler in source.of(ast.ExceptHandler):
        if handler.type is None or not handler.name:
            continue
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if not any(source.full_name(kind).startswith(("pymysql.", "psycopg2.")) or "_libpq." in ast.unparse(kind) for kind in kinds):
            continue
        for node in (inner for statement in handler.body for inner in ast.walk(statement)):
            if isinstance(node, ast.FormattedValue):
                values = [node.value]
            elif isinstance(node, ast.Call) and source.full_name(node.func) in ("str", "repr"):
                values = node.args
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in _LOGS
                and "log" in ast.unparse(node.func.value)
            ):
                values = [*node.args, *(item.value for item in node.keywords)]
            else:
                continue
            if any(isinstance(value, ast.Name) and value.id == handler.name for value in values):
                yield node


def logged_traces(source: Source) -> Iterator[ast.AST]:
    for name, call in source.calls:
        before, _, last = name.rpartition(".")
        if not before or last not in _LOGS:
            continue
        info = keyword(call, "exc_info")
        if (last == "exception" and before.rpartition(".")[2].endswith("log")) or (info is not None and not is_literal(info, False)):
            yield call
