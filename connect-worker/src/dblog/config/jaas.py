r"""Java's login configurations (JAAS), as far as Kafka's files and ``sasl.jaas.config`` use them.

A module is ``class flag option=value ... ;``; a file has entries ``name { module module };``.
Values are words, or quoted with ``"`` (or ``'``, as many write them), with Java's escapes: ``\n``,
``\101``, and ``\`` before any other sign stands for that sign. Source: the class comment of
``javax.security.auth.login.Configuration``. No error quotes a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

FLAGS = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | (?P<sign>[{};=]) | "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)' | (?P<word>[^\s{};="'/]+|/)""",
    re.VERBOSE | re.DOTALL,
)


_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""Escapes of ``java.io.StreamTokenizer``, with which Java reads these files."""


def _escaped(found: re.Match[str]) -> str:
    sign = found[1]
    return chr(int(sign, 8)) if sign[0] in "01234567" else _CONTROLS.get(sign, sign)


class JaasError(ValueError):
    """The text is not a login configuration. The message names the first part that is wrong."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One module of an entry."""

    class_name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


def parse_modules(text: str) -> tuple[LoginModule, ...]:
    """Return the modules of a ``sasl.jaas.config``. Raise JaasError if it is not valid."""
    tokens = _Tokens(text)
    modules = tuple(_modules(tokens))
    tokens.expect_end()
    return modules


def parse_entries(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Return the entries of a file by name. Raise JaasError if it is not valid."""
    tokens = _Tokens(text)
    entries = {}
    while not tokens.at_end:
        name = tokens.word("the name of an entry")
        tokens.sign("{", f"the entry {name}")
        entries[name] = tuple(_modules(tokens))
        tokens.sign("}", f"the entry {name}")
        tokens.sign(";", f"the entry {name}")
    return entries


def _modules(tokens: _Tokens) -> Iterator[LoginModule]:
    while not tokens.at_end and not tokens.sees("}"):
        class_name = tokens.word("the class of a login module")
        flag = tokens.word(f"a flag behind {class_name}").lower()
        if flag not in FLAGS:
            raise JaasError(f"{class_name} is not followed by one of {', '.join(FLAGS)}")
        options = {}
        while not tokens.sees(";"):
            name = tokens.word(f"an option of {class_name}, or the semicolon after them")
            tokens.sign("=", f"the option {name} of {class_name}")
            options[name] = tokens.word(f"the value of the option {name} of {class_name}")
        tokens.sign(";", class_name)
        yield LoginModule(class_name, flag, options)


class _Tokens:
    """Signs and words of a text in order, with quoted words unquoted."""

    def __init__(self, text: str) -> None:
        self._left: list[tuple[str, str]] = []
        end = 0
        while end < len(text):
            found = _TOKEN.match(text, end)
            if found is None:
                raise JaasError("a quote or a comment is not closed")
            end = found.end()
            if found.lastgroup in ("double", "single"):
                self._left.append(("word", _ESCAPE.sub(_escaped, found[found.lastgroup])))
            elif found.lastgroup is not None:
                self._left.append((found.lastgroup, found[found.lastgroup]))
        self._left.reverse()

    @property
    def at_end(self) -> bool:
        return not self._left

    def sees(self, sign: str) -> bool:
        return bool(self._left) and self._left[-1] == ("sign", sign)

    def word(self, what: str) -> str:
        if not self._left or self._left[-1][0] != "word":
            raise JaasError(f"{what} is missing")
        return self._left.pop()[1]

    def sign(self, sign: str, where: str) -> None:
        if not self.sees(sign):
            raise JaasError(f"{sign} is missing at {where}")
        self._left.pop()

    def expect_end(self) -> None:
        if self._left:
            raise JaasError("there is text after the last semicolon")
