"""A small language of expressions over a record, for Debezium's Filter and ContentBasedRouter.

It takes the one-line conditions that people write in Groovy and JavaScript (``value.op == 'u' &&
value.after.id > 2``, ``value.op == 'd' ? 'deletes' : null``) and nothing else: no assignments,
loops, closures, constructors, or methods beyond a fixed list. It has neither side effects nor
recursion, so an expression ends after a time linear in its length. What it does not know is refused
when the configuration is checked.

Comparison and truth are Groovy's: numbers of all types compare by value, a text never equals a
number, null and empty values are false. A field that the struct does not have, and a field of null
without ``?.``, is an error of the record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from dblog.codecs.schema import Kind, Schema
from dblog.config.regex import Pattern, PatternError
from dblog.transforms.decimals import decimal_of, is_decimal
from dblog.transforms.faults import RecordError
from dblog.transforms.record import Header, Record
from dblog.transforms.structs import field_of, with_default

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?![\w.]))|(?P<name>[A-Za-z_$][\w$]*)|(?P<text>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<sign>===|!==|==~|==|!=|<=|>=|&&|\|\||\?\.|\?:|[()\[\].,!<>?:+-]))"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "$": "$"}
_VARIABLES = ("key", "value", "keySchema", "valueSchema", "topic", "header", "headers")
_CHARS_MAX = 10_000
_DEPTH_MAX = 50
_NUMBER_CHARS_MAX = 100


class ExpressionError(ValueError):
    """The expression is not one that this language has. The text says where and why."""


class Item(NamedTuple):
    """A value with its schema; None for literals and results."""

    value: Any
    schema: Schema | None = None


Evaluate = Callable[[Record], Item]
_NULL = Item(None)


class Expression:
    """A parsed expression."""

    def __init__(self, text: str) -> None:
        """Parse the expression. Raise ExpressionError if it is not known here."""
        self.text = text
        self._evaluate = _Parser(text).whole()

    def evaluate(self, record: Record) -> Any:
        """Return the result for a record. Raise RecordError if it has none."""
        try:
            return _plain(self._evaluate(record))
        except (ArithmeticError, TypeError, RecursionError) as e:
            raise RecordError(f"the expression has no result: {type(e).__name__}") from e


class _Parser:
    """The parsing of one expression, from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > _CHARS_MAX:
            raise ExpressionError(f"an expression has at most {_CHARS_MAX} characters")
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0

    def whole(self) -> Evaluate:
        made = self._choice()
        self._takes(";")
        if self._at < len(self._tokens):
            raise ExpressionError(f"{self._shown()} is not expected there; only one expression is known here, without statements")
        return made

    def _choice(self) -> Evaluate:
        self._deeper()
        condition = self._any()
        if self._takes("?"):
            first = self._choice()
            self._require(":")
            second = self._choice()
            made: Evaluate = lambda record: first(record) if _truth(condition(record)) else second(record)  # noqa: E731
        elif self._takes("?:"):
            other = self._choice()
            made = lambda record: found if _truth(found := condition(record)) else other(record)  # noqa: E731
        else:
            made = condition
        self._depth -= 1
        return made

    def _any(self) -> Evaluate:
        parts = [self._all()]
        while self._takes("||"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else lambda record: Item(any(_truth(part(record)) for part in parts))

    def _all(self) -> Evaluate:
        parts = [self._comparison()]
        while self._takes("&&"):
            parts.append(self._comparison())
        return parts[0] if len(parts) == 1 else lambda record: Item(all(_truth(part(record)) for part in parts))

    def _comparison(self) -> Evaluate:
        left = self._sum()
        for sign, compare in _COMPARISONS.items():
            if self._takes(sign):
                right = self._sum()
                return lambda record: Item(compare(_plain(left(record)), _plain(right(record))))
        if self._takes("==~"):
            pattern = self._pattern()
            return lambda record: Item(pattern.fullmatch(_text_of(left(record), "==~")))
        if self._takes("in"):
            right = self._sum()
            return lambda record: Item(_contains(right(record), left(record)))
        return left

    def _sum(self) -> Evaluate:
        made = self._unary()
        while (sign := next((sign for sign in "+-" if self._takes(sign)), None)) is not None:
            made = _added(made, self._unary(), sign)
        return made

    def _unary(self) -> Evaluate:
        if self._takes("!"):
            inside = self._signed()
            return lambda record: Item(not _truth(inside(record)))
        if self._takes("-"):
            number = self._signed()
            return lambda record: Item(-_number_of(_plain(number(record))))
        return self._path()

    def _signed(self) -> Evaluate:
        self._deeper()
        made = self._unary()
        self._depth -= 1
        return made

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise ExpressionError(f"an expression is nested at most {_DEPTH_MAX} times")

    def _path(self) -> Evaluate:
        made = self._start()
        while True:
            if self._takes("?."):
                made = self._member(made, safe=True)
            elif self._takes("."):
                made = self._member(made, safe=False)
            elif self._takes("["):
                index = self._choice()
                self._require("]")
                made = _indexed(made, index)
            else:
                return made

    def _start(self) -> Evaluate:
        if self._takes("("):
            made = self._choice()
            self._require(")")
            return made
        if self._takes("["):
            items: list[Evaluate] = []
            while not self._takes("]"):
                items.append(self._choice())
                if not self._takes(","):
                    self._require("]")
                    break
            return lambda record: Item([_plain(item(record)) for item in items])
        kind, text = self._next()
        match kind:
            case "number":
                if len(text) > _NUMBER_CHARS_MAX:
                    raise ExpressionError(f"a number has at most {_NUMBER_CHARS_MAX} digits")
                number = Item(Decimal(text) if "." in text else int(text))
                return lambda _record: number
            case "text":
                literal = Item(_unquoted(text))
                return lambda _record: literal
            case "name" if text in ("true", "false"):
                flag = Item(text == "true")
                return lambda _record: flag
            case "name" if text in ("null", "undefined"):
                return lambda _record: _NULL
            case "name" if text in _STARTS:
                return _STARTS[text]
            case "name":
                raise ExpressionError(f"{text} is not known here; an expression can use {', '.join(_VARIABLES[:-1])}")
            case _:
                raise ExpressionError(f"{text} is not expected there")

    def _member(self, owner: Evaluate, *, safe: bool) -> Evaluate:
        kind, name = self._next()
        if kind != "name":
            raise ExpressionError(f"{name} is not a name of a field")
        if not self._takes("("):
            return _field(owner, name, safe=safe)
        arguments: list[Evaluate] = []
        while not self._takes(")"):
            arguments.append(self._choice())
            if not self._takes(","):
                self._require(")")
                break
        if name == "get" and len(arguments) == 1:
            return _indexed(owner, arguments[0], safe=safe)
        method = _METHODS.get((name, len(arguments)))
        if method is None:
            known = ", ".join(sorted({f"{one}()" for one, _ in _METHODS} | {"get()"}))
            raise ExpressionError(f"{name}() with {len(arguments)} arguments is not known here; known are {known}")
        if name == "matches":
            # The pattern is compiled once, so it has to be one text that is written out.
            written = self._tokens[self._at - 3] == ("sign", "(")
            pattern = _compiled(self._tokens[self._at - 2] if written else ("", ""), len(arguments))
            return lambda record: _called(owner, record, safe, lambda item: pattern.fullmatch(_text_of(item, name)))
        return lambda record: _called(owner, record, safe, lambda item: method(item, *(_plain(argument(record)) for argument in arguments)))

    def _pattern(self) -> Pattern:
        return _compiled(self._next(), 1)

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise ExpressionError("the expression is not complete")
        self._at += 1
        return self._tokens[self._at - 1]

    def _takes(self, text: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] in (("sign", text), ("name", text)):
            self._at += 1
            return True
        return False

    def _require(self, text: str) -> None:
        if not self._takes(text):
            raise ExpressionError(f"{text} is missing before {self._shown()}")

    def _shown(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else "the end"


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    stripped = text.rstrip().rstrip(";").rstrip()
    while at < len(stripped):
        found = _TOKEN.match(stripped, at)
        if found is None:
            raise ExpressionError(f"{stripped[at:].strip()[:1]} is not known here")
        kind = str(found.lastgroup)
        word = found[kind]
        if kind == "text" and word[0] == '"' and re.search(r"(?<!\\)\$[{A-Za-z]", word):
            raise ExpressionError("a text with ${...} in it is not known here; add texts with +")
        yield kind, {"===": "==", "!==": "!="}.get(word, word)
        at = found.end()


def _unquoted(text: str) -> str:
    def escaped(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPES:
            raise ExpressionError(f"\\{found[1]} in a text is not known here")
        return _ESCAPES[found[1]]

    return re.sub(r"\\(.)", escaped, text[1:-1])


def _compiled(token: tuple[str, str], arguments: int) -> Pattern:
    if token[0] != "text" or arguments != 1:
        raise ExpressionError("a pattern has to be written out as a text")
    try:
        return Pattern(_unquoted(token[1]))
    except PatternError as e:
        raise ExpressionError(str(e)) from e


_STARTS: dict[str, Evaluate] = {
    "key": lambda record: Item(record.key, record.key_schema),
    "value": lambda record: Item(record.value, record.value_schema),
    "keySchema": lambda record: Item(record.key_schema),
    "valueSchema": lambda record: Item(record.value_schema),
    "topic": lambda record: Item(record.topic),
    "header": lambda record: Item({header.name: header for header in record.headers}),
    "headers": lambda record: Item({header.name: header for header in record.headers}),
}


def _field(owner: Evaluate, name: str, *, safe: bool) -> Evaluate:
    def get(record: Record) -> Item:
        item = owner(record)
        if item.value is None:
            if safe:
                return _NULL
            raise RecordError(f"the expression asks for {name} of null; write ?.{name} where this may be")
        return _member_of(item, name)

    return get


def _indexed(owner: Evaluate, index: Evaluate, *, safe: bool = False) -> Evaluate:
    def get(record: Record) -> Item:
        item, at = owner(record), _plain(index(record))
        if item.value is None:
            if safe:
                return _NULL
            raise RecordError("the expression asks for a part of null")
        if isinstance(item.value, list) and isinstance(at, int):
            items = item.schema.items if item.schema is not None else None
            return Item(item.value[at], items) if -len(item.value) <= at < len(item.value) else _NULL
        return _member_of(item, str(at))

    return get


def _member_of(item: Item, name: str) -> Item:
    match item.value:
        case Header():
            if name in ("value", "schema"):
                return Item(item.value.value, item.value.schema) if name == "value" else Item(item.value.schema)
        case Schema():
            if name in ("name", "version", "optional", "doc"):
                return Item(getattr(item.value, name))
        case Mapping():
            if item.schema is None or item.schema.kind is Kind.MAP:
                inside = None if item.schema is None else item.schema.items
                return Item(item.value.get(name), inside)
            field = field_of(item.schema, name)
            if field is not None:
                return Item(with_default(item.value, field), field.schema)
        case _:
            pass
    raise RecordError(f"{name} is not a valid field name")


def _called(owner: Evaluate, record: Record, safe: bool, call: Callable[[Item], Any]) -> Item:  # noqa: FBT001 - the ?. of the path
    item = owner(record)
    if item.value is None:
        if safe:
            return _NULL
        raise RecordError("the expression calls a method of null; write ?. where this may be")
    return Item(call(item))


def _text_of(item: Item, name: str) -> str:
    value = _plain(item)
    if not isinstance(value, str):
        raise RecordError(f"{name} is for texts")
    return value


def _argument(value: Any) -> str:
    if not isinstance(value, str):
        raise RecordError("a method of a text needs a text")
    return value


def _size(item: Item) -> int:
    if not isinstance(item.value, str | list | dict):
        raise RecordError("size() is for texts, lists and maps")
    return len(item.value)


_METHODS: dict[tuple[str, int], Callable[..., Any]] = {
    ("startsWith", 1): lambda item, start: _text_of(item, "startsWith").startswith(_argument(start)),
    ("endsWith", 1): lambda item, end: _text_of(item, "endsWith").endswith(_argument(end)),
    ("contains", 1): lambda item, part: _contains(item, Item(part)),
    ("includes", 1): lambda item, part: _contains(item, Item(part)),
    ("containsKey", 1): lambda item, name: isinstance(item.value, dict) and name in item.value,
    ("matches", 1): lambda item, text: (item, text),
    ("equals", 1): lambda item, other: _equal(_plain(item), other),
    ("equalsIgnoreCase", 1): lambda item, other: _text_of(item, "equalsIgnoreCase").lower() == str(other).lower(),
    ("toLowerCase", 0): lambda item: _text_of(item, "toLowerCase").lower(),
    ("toUpperCase", 0): lambda item: _text_of(item, "toUpperCase").upper(),
    ("trim", 0): lambda item: _text_of(item, "trim").strip(),
    ("isEmpty", 0): lambda item: _size(item) == 0,
    ("size", 0): _size,
    ("length", 0): _size,
    ("name", 0): lambda item: _member_of(item, "name").value,
    ("version", 0): lambda item: _member_of(item, "version").value,
    ("value", 0): lambda item: _plain(_member_of(item, "value")),
    ("toString", 0): lambda item: _shown_text(_plain(item)),
}


def _plain(item: Item) -> Any:
    """Return the value in the form in which it is compared: a Decimal as a number."""
    if item.schema is not None and item.value is not None and is_decimal(item.schema):
        return decimal_of(item.schema, item.value)
    return item.value


def _truth(item: Item) -> bool:
    return bool(_plain(item))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _equal(left: Any, right: Any) -> bool:
    if _is_number(left) and _is_number(right):
        return bool(left == right)
    return type(left) is type(right) and bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        if (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
            return compare(left, right)
        raise RecordError("the expression compares values of types that have no order, or null")

    return ordered


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<=": _ordered(lambda left, right: left <= right),
    ">=": _ordered(lambda left, right: left >= right),
    "<": _ordered(lambda left, right: left < right),
    ">": _ordered(lambda left, right: left > right),
}


def _contains(whole: Item, part: Item) -> bool:
    value, wanted = _plain(whole), _plain(part)
    if isinstance(value, str):
        return _argument(wanted) in value
    if isinstance(value, list):
        return any(_equal(one, wanted) for one in value)
    if isinstance(value, dict):
        return wanted in value
    raise RecordError("the expression looks for a value in something that is not a text, list or map")


def _number_of(value: Any) -> Any:
    if not _is_number(value):
        raise RecordError("the expression calculates with something that is not a number")
    return value


def _added(left: Evaluate, right: Evaluate, sign: str) -> Evaluate:
    def add(record: Record) -> Item:
        first, second = _plain(left(record)), _plain(right(record))
        if sign == "+" and (isinstance(first, str) or isinstance(second, str)):
            return Item(_shown_text(first) + _shown_text(second))
        first, second = _number_of(first), _number_of(second)
        if isinstance(first, float) != isinstance(second, float):
            first, second = float(first), float(second)
        return Item(first + second if sign == "+" else first - second)

    return add


def _shown_text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str() | int() | Decimal():
            return str(value)
        case _:
            raise RecordError("the expression makes a text of a value that is none")
