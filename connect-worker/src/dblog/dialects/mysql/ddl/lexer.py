r"""A lexer that splits SQL text into tokens as MySQL's and MariaDB's do, and a cursor that reads
them.

Rule source: sql_lex.cc of both servers. Differences are data: ANSI_QUOTES makes ``"`` an identifier
quote, NO_BACKSLASH_ESCAPES makes ``\\`` an ordinary character. A version comment (``/*!50100 ...
*/``, ``/*M!100301 ... */``) is text for the servers that it names and a comment for others. The
lexer never raises: an unterminated string or comment ends with the text, and the parser then misses
what it expects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice


class Kind(Enum):
    """The kind of a token."""

    WORD = auto()
    """An identifier or keyword without quotes."""
    QUOTED = auto()
    """An identifier in quotes; never a keyword."""
    STRING = auto()
    NUMBER = auto()
    BITS = auto()
    """A bit literal, b'01' or 0b01; the token's text is the digits."""
    HEX = auto()
    """A hex literal, x'4a' or 0x4a; the token's text is the digits."""
    VARIABLE = auto()
    OP = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token: ``text`` is its value without quotes and escapes, ``upper`` the keyword that it may
    be, ``start`` and ``end`` its offsets in the statement.
    """

    kind: Kind
    text: str
    upper: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LexerMode:
    """The settings of a session that decide how its text is split."""

    ansi_quotes: bool = False
    backslash_escapes: bool = True
    mariadb: bool = False
    version: int = 999999
    """The server's version as version comments write it: 80034, 101105."""


TOKENS_MAX = 200_000
"""The most tokens that are read of one statement. The largest tables that servers accept (an ENUM
of 65 535 members, 8192 partitions) need fewer. A client may send a statement of a GiB, and nothing
else of the task runs while it is read.
"""

DIGITS_MAX = 10
"""The most digits of a length. The largest that servers take is that of a LONGBLOB, 4294967295."""

ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}

_SPACE = re.compile(r"[ \t\n\v\f\r\x00]+")
_ENDS_DASHES = re.compile(r"[\x00-\x20\x7f]|\Z")
"""The text that must follow two dashes for them to begin a comment: my_isspace() and my_iscntrl()
of the servers, in the session's charset.
"""
_HEX = re.compile(r"[xX]'([0-9A-Fa-f]*)'")
_BITS = re.compile(r"[bB]'([01]*)'")
_WORD = re.compile(r"[0-9A-Za-z_$\u0080-\U0010ffff]+")
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_DIGITS = "0123456789"
_PREFIXED_LITERAL = re.compile(r"0x([0-9A-Fa-f]+)|0b([01]+)")
_VERSION_COMMENT = re.compile(r"/\*(M)?!(\d{5,6})?")
_VARIABLE = re.compile(r"@@?[0-9A-Za-z_.$\u0080-\U0010ffff]*")
_COMMENT_MARK = re.compile(r"\*/|/\*")
_PLAIN = {(quote, escapes): re.compile("[^" + quote + (r"\\" if escapes else "") + "]+") for quote in "'\"`" for escapes in (False, True)}
"""Runs of characters in a quoted text that stand for themselves."""
_OPERATOR = re.compile(r"<=>|:=|->>|->|<<|>>|<=|>=|<>|!=|\|\||&&|.", re.DOTALL)


def tokenize(text: str, mode: LexerMode, *, tokens_max: int | None = None) -> list[Token]:
    """Split a statement into its tokens, at most the first ``tokens_max``. Comments are left out,
    but not the text in version comments that apply.
    """
    return list(islice(each_token(text, mode), tokens_max))


def each_token(text: str, mode: LexerMode) -> Iterator[Token]:
    """Yield tokens one by one, lazily."""
    return _Lexer(text, mode).run()


class _Lexer:
    def __init__(self, text: str, mode: LexerMode) -> None:
        self.text = text
        self.mode = mode
        self.at = 0
        self.open_version_comments = 0
        self.last: Token | None = None

    def run(self) -> Iterator[Token]:
        text, length = self.text, len(self.text)
        while self.at < length:
            space = _SPACE.match(text, self.at)
            if space:
                self.at = space.end()
            elif not self._comment():
                yield self._token()

    def _comment(self) -> bool:
        text, at = self.text, self.at
        if text[at] == "#" or (text.startswith("--", at) and _ENDS_DASHES.match(text, at + 2)):
            end = text.find("\n", at)
            self.at = len(text) if end < 0 else end + 1
            return True
        if self.open_version_comments and text.startswith("*/", at):
            self.open_version_comments -= 1
            self.at += 2
            return True
        if not text.startswith("/*", at):
            return False
        version = _VERSION_COMMENT.match(text, at)
        if version and self._applies(version[1] is not None, version[2]):
            self.open_version_comments += 1
            self.at = version.end()
        else:
            self.at = self._comment_end(at + 2, nested=version is not None)
        return True

    def _applies(self, mariadb_only: bool, version: str | None) -> bool:  # noqa: FBT001 - two facts of one comment
        if mariadb_only and not self.mode.mariadb:
            return False
        if version is None:
            return True
        number = int(version)
        # MariaDB skips comments that name versions 5.7 to 9 of MySQL.
        if self.mode.mariadb and not mariadb_only and 50700 <= number <= 99999:  # noqa: PLR2004 - versions
            return False
        return number <= self.mode.version

    def _comment_end(self, at: int, *, nested: bool) -> int:
        if not nested:
            close = self.text.find("*/", at)
            return len(self.text) if close < 0 else close + 2
        depth = 1
        for mark in _COMMENT_MARK.finditer(self.text, at):
            depth += 1 if mark[0] == "/*" else -1
            if not depth:
                return mark.end()
        return len(self.text)

    def _token(self) -> Token:
        text, at = self.text, self.at
        char = text[at]
        following = text[at + 1] if at + 1 < len(text) else ""
        if char == "`" or (char == '"' and self.mode.ansi_quotes):
            return self._quoted(Kind.QUOTED, char, at + 1)
        if char in "'\"":
            return self._quoted(Kind.STRING, char, at + 1)
        if literal := _HEX.match(text, at):
            return self._token_of(Kind.HEX, literal[1], literal.end())
        if literal := _BITS.match(text, at):
            return self._token_of(Kind.BITS, literal[1], literal.end())
        if following == "'" and char in "nN":
            return self._quoted(Kind.STRING, "'", at + 2)
        if char == "@":
            return self._variable()
        if (char in _DIGITS or (char == "." and following and following in _DIGITS and not self._after_name())) and (
            number := self._number()
        ):
            return number
        if word := _WORD.match(text, at):
            return self._token_of(Kind.WORD, word[0], word.end())
        operator = _OPERATOR.match(text, at)
        assert operator is not None
        return self._token_of(Kind.OP, operator[0], operator.end())

    def _number(self) -> Token | None:
        """Read a number. Return None if letters follow (``1st`` is a name) or a name's dot precedes
        (``db.1``).
        """
        text, at = self.text, self.at
        literal = _PREFIXED_LITERAL.match(text, at)
        word = _WORD.match(text, at)
        if literal and word and word.end() == literal.end():
            return self._token_of(Kind.HEX if literal[1] else Kind.BITS, literal[1] or literal[2], literal.end())
        last = self.last
        if last is not None and last.text == "." and last.kind is Kind.OP and last.end == at:
            return None
        number = _NUMBER.match(text, at)
        if number is None or (word and word.end() > number.end()):
            return None
        return self._token_of(Kind.NUMBER, number[0], number.end())

    def _after_name(self) -> bool:
        """Return whether a dot here joins two names (``t.5`` after a name) instead of beginning a
        fraction.
        """
        return self.last is not None and self.last.kind in (Kind.WORD, Kind.QUOTED) and self.last.end == self.at

    def _variable(self) -> Token:
        text, at = self.text, self.at
        if text[at + 1 : at + 2] in ("'", '"', "`"):
            return self._quoted(Kind.VARIABLE, text[at + 1], at + 2)
        variable = _VARIABLE.match(text, at)
        assert variable is not None
        return self._token_of(Kind.VARIABLE, variable[0], variable.end())

    def _quoted(self, kind: Kind, quote: str, at: int) -> Token:
        text, parts = self.text, []
        escapes = self.mode.backslash_escapes and kind is not Kind.QUOTED and quote != "`"
        plain = _PLAIN[quote, escapes]
        while at < len(text):
            if (run := plain.match(text, at)) is not None:
                parts.append(run[0])
                at = run.end()
                continue
            char = text[at]
            if char == quote:
                if text[at + 1 : at + 2] != quote:
                    break
                parts.append(quote)
                at += 2
            elif at + 1 < len(text):
                escaped = text[at + 1]
                parts.append("\\" + escaped if escaped in "%_" else ESCAPES.get(escaped, escaped))
                at += 2
            else:
                parts.append(char)
                at += 1
        return self._token_of(kind, "".join(parts), min(at + 1, len(text)))

    def _token_of(self, kind: Kind, value: str, end: int) -> Token:
        token = self.last = Token(kind, value, value.upper() if kind is Kind.WORD else "", self.at, end)
        self.at = end
        return token


class NotUnderstood(Exception):  # noqa: N818 - an answer of the parser to itself, never seen outside
    """An exception for text that does not match the expected grammar."""


END = Token(Kind.OP, "", "", 0, 0)


class Cursor:
    """A reader of tokens from left to right."""

    def __init__(self, tokens: list[Token], text: str) -> None:
        self.tokens = tokens
        self.text = text
        self.at = 0

    @property
    def next(self) -> Token:
        """The next token; ``END`` after the last."""
        return self.tokens[self.at] if self.at < len(self.tokens) else END

    def peek(self, count: int) -> Token:
        """Return the token ``count`` places after the next."""
        return self.tokens[self.at + count] if self.at + count < len(self.tokens) else END

    @property
    def ended(self) -> bool:
        """True at the end of the tokens, or at the semicolon that ends the statement."""
        return self.at >= len(self.tokens) or self.is_op(";")

    def is_word(self, *words: str) -> bool:
        """Return whether the next tokens are these keywords, in this order."""
        return all(self.peek(n).upper == word for n, word in enumerate(words))

    def is_any(self, *words: str) -> bool:
        """Return whether the next token is one of these keywords."""
        return self.next.kind is Kind.WORD and self.next.upper in words

    def take(self, *words: str) -> bool:
        """Skip these keywords if they come next; return whether they did."""
        if self.next.upper != words[0] or not self.is_word(*words):
            return False
        self.at += len(words)
        return True

    def take_any(self, *words: str) -> str | None:
        """Skip and return one of these keywords if it comes next; return None otherwise."""
        if not self.is_any(*words):
            return None
        self.at += 1
        return self.tokens[self.at - 1].upper

    def expect(self, *words: str) -> None:
        """Skip these keywords; raise NotUnderstood if they do not come next."""
        if not self.take(*words):
            raise NotUnderstood(f"{' '.join(words)} expected at {self.location}")

    def is_op(self, op: str) -> bool:
        """Return whether the next token is this operator or punctuation mark."""
        return self.next.kind is Kind.OP and self.next.text == op and self.at < len(self.tokens)

    def take_op(self, op: str) -> bool:
        """Skip this operator if it comes next; return whether it did."""
        if not self.is_op(op):
            return False
        self.at += 1
        return True

    def expect_op(self, op: str) -> None:
        """Skip this operator; raise NotUnderstood if it does not come next."""
        if not self.take_op(op):
            raise NotUnderstood(f"{op} expected at {self.location}")

    def step(self) -> Token:
        """Skip and return the next token; raise NotUnderstood at the end."""
        if self.at >= len(self.tokens):
            raise NotUnderstood("the statement ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    @property
    def is_name(self) -> bool:
        """True if the next token can be an identifier."""
        return self.at < len(self.tokens) and self.next.kind in (Kind.WORD, Kind.QUOTED)

    def name(self) -> str:
        """Read an identifier; raise NotUnderstood if none comes next."""
        if not self.is_name:
            raise NotUnderstood(f"a name expected at {self.location}")
        return self.step().text

    def number(self) -> int:
        """Read an unsigned integer; raise NotUnderstood if none comes next, or one of more than
        DIGITS_MAX digits. Servers take any number of leading zeros.
        """
        token = self.next
        if token.kind is not Kind.NUMBER or not token.text.isdigit():
            raise NotUnderstood(f"a number expected at {self.location}")
        digits = token.text.lstrip("0") or "0"
        if len(digits) > DIGITS_MAX:
            raise NotUnderstood(f"a smaller number expected at {self.location}")
        self.at += 1
        return int(digits)

    def string(self) -> str:
        """Read a string literal. Adjacent ones are joined (``'a' 'b'``), an introducer
        (``_utf8mb4'a'``) is skipped.
        """
        if self.next.kind is Kind.WORD and self.next.text.startswith("_") and self.peek(1).kind is Kind.STRING:
            self.at += 1
        parts = []
        while self.next.kind is Kind.STRING:
            parts.append(self.step().text)
        if not parts:
            raise NotUnderstood(f"a string expected at {self.location}")
        return "".join(parts)

    def skip_group(self) -> str:
        """Skip a group in parentheses; return its text without them."""
        start = self.next
        self.expect_op("(")
        depth = 1
        while depth:
            token = self.step()
            if token.kind is Kind.OP:
                depth += (token.text == "(") - (token.text == ")")
        return self.text[start.end : self.tokens[self.at - 1].start].strip()

    def skip_one(self) -> None:
        """Skip one token, or a whole group in parentheses."""
        if self.is_op("("):
            self.skip_group()
        else:
            self.step()

    @property
    def location(self) -> str:
        """The cursor's position for an error message, without the statement's text, which may hold
        values.
        """
        if self.at >= len(self.tokens):
            return "the end"
        token = self.next
        return f"character {token.start}" + (f" ({token.upper})" if token.kind is Kind.WORD else "")
