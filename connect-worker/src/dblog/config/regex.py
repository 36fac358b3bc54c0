r"""Patterns of configurations: Java's dialect, matched in time linear in the text.

A user who posts a connector writes its patterns, and a backtracking matcher (``java.util.regex``,
Python's ``re``) can be kept busy forever by a short one such as ``(a|aa)+!``. RE2 follows all
alternatives at once. Java's spellings are translated. Constructs that RE2 lacks are refused by
name, and never change their meaning: back references, atomic groups and possessive quantifiers
(they depend on the path taken), and most lookarounds. One common use of lookarounds is supported,
such as ``db\.(?!tmp_).*``: if everything before a lookahead (or after a lookbehind) has one fixed
length, the position is known, and the whole means "this matches, and that does not".

Sources: the page of ``java.util.regex.Pattern``; RE2's syntax page. Remaining differences: letters
beyond ASCII are compared without case too, and ``.`` matches every character except the line feed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import re2

PATTERN_CHARS_MAX = 10_000
LIST_CHARS_MAX = 1_000_000
"""Characters of all patterns of one list. A connector's record in Kafka cannot be larger either."""
_MEMORY_BYTES_MAX = 1024 * 1024
"""Memory of one compiled expression, by RE2's measure."""
INSTRUCTIONS_MAX = 4_000_000
"""Most instructions of the patterns of one list together: some 100 MiB and ten seconds. A list of a
million characters has a million or two, but one of ``\\pL{50}`` has 60 000 in seven characters.
"""
REQUEST_INSTRUCTIONS_MAX = 400_000
"""Most instructions of the patterns of a request or a signal, of which many may come at once."""
CHAIN_INSTRUCTIONS_MAX = 1_000_000
"""Most instructions of the patterns of all transforms and predicates of a connector. Each is compiled
twice, to check it and to make the transform.
"""
_REPETITIONS_MAX = 1000
_DEPTH_MAX = 100
_JOINED_CHARS = 16_000
_SHOWN_CHARS = 100

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.")
_PLAIN_CHARS_MAX = 200
"""Length of a name of these characters that skips translation, because it means the same in both
dialects. It makes reading a list of a hundred thousand names five times as fast.
"""

_POSIX = {
    name: f"[:{name.lower()}:]"
    for name in ("Lower", "Upper", "Alpha", "Digit", "Alnum", "Punct", "Graph", "Print", "Blank", "Cntrl", "XDigit", "Space", "ASCII")
}
_SETS = {
    "s": r"\t-\r ",
    "h": r"\t \x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}",
    "v": r"\n-\r\x{85}\x{2028}\x{2029}",
}
"""Java's ``\\s``, ``\\h`` and ``\\v`` as the inside of a class."""
_AROUND = {"(?=": "lookahead", "(?!": "lookahead", "(?<=": "lookbehind", "(?<!": "lookbehind"}


class PatternError(ValueError):
    """The pattern cannot be used. The text gives users the reason."""


class Room:
    """The instructions that patterns may still have together. Memory and time grow with them."""

    def __init__(self, instructions_max: int = INSTRUCTIONS_MAX) -> None:
        self._instructions_max = self._left = instructions_max

    def take(self, instructions: int) -> None:
        """Count the instructions of one more expression. Raise PatternError if there is no room."""
        self._left -= instructions
        if self._left < 0:
            raise PatternError(
                f"the patterns have more than {self._instructions_max} instructions together; write fewer repetitions such as {{50}}, and fewer classes such "
                "as \\pL, which has thousands of letters"
            )

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Count all patterns that this thread compiles inside of ``with``, wherever that is."""
        token = _SHARED.set(self)
        try:
            yield
        finally:
            _SHARED.reset(token)


_SHARED: ContextVar[Room | None] = ContextVar("shared_room", default=None)


class Pattern:
    """One pattern without groups. Safe for several threads."""

    __slots__ = ("_ways", "text")

    def __init__(self, text: str, *, ignore_case: bool = False, room: Room | None = None) -> None:
        """Compile the pattern.

        Raise PatternError for an invalid pattern, one that cannot be matched in bounded time, or
        one for which there is no ``room``.
        """
        self.text = text
        self._ways = tuple(
            tuple((_compiled(each.text, ignore_case=ignore_case, room=room), each.wanted) for each in way.all_of())
            for way in _ways_of(text)
        )

    def fullmatch(self, text: str) -> bool:
        """Return True if the whole text matches."""
        return any(all((each.fullmatch(text) is not None) is wanted for each, wanted in way) for way in self._ways)


class Replacing:
    """A pattern with a replacement for texts that it matches as a whole, as Java's
    ``Matcher.replaceFirst`` applies it. Safe for several threads.

    ``$1`` and ``${name}`` in the replacement stand for groups, a backslash for the sign after it.
    """

    __slots__ = ("_parts", "_ways", "text")

    def __init__(self, text: str, replacement: str, *, ignore_case: bool = False) -> None:
        """Compile both. Raise PatternError if either cannot be used."""
        self.text = text
        self._ways = tuple(
            (
                _compiled(way.text, ignore_case=ignore_case, captures=True),
                tuple((_compiled(each.text, ignore_case=ignore_case), each.wanted) for each in way.conditions),
            )
            for way in _ways_of(text, captures=True)
        )
        self._parts = _replacement_of(replacement, self._ways[0][0])

    def replaced(self, text: str) -> str | None:
        """Return the text with its first match replaced, or None if the pattern does not match the
        whole text.
        """
        for pattern, conditions in self._ways:
            whole = pattern.fullmatch(text)
            if whole is None or not all((each.fullmatch(text) is not None) is wanted for each, wanted in conditions):
                continue
            # Java looks for the first match again, which may be shorter than the text. Conditions
            # hold for the whole text, so then the whole text is the match.
            found = whole if conditions else pattern.search(text)
            made = "".join(part if isinstance(part, str) else found.group(*part) or "" for part in self._parts)
            return text[: found.start()] + made + text[found.end() :]
        return None

    def expanded(self, text: str) -> str | None:
        """Return the replacement for a text that the pattern matches as a whole, else None."""
        for pattern, conditions in self._ways:
            found = pattern.fullmatch(text)
            if found is not None and all((each.fullmatch(text) is not None) is wanted for each, wanted in conditions):
                return "".join(part if isinstance(part, str) else found.group(*part) or "" for part in self._parts)
        return None


def _replacement_of(text: str, pattern: Any) -> tuple[str | tuple[int | str], ...]:
    """Return the parts of a replacement: texts, and groups as tuples of one number or name."""
    parts: list[str | tuple[int | str]] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\":
            if at == len(text):
                raise PatternError(
                    "the replacement ends with a backslash, which stands for the sign after it; write \\\\ for the sign itself"
                )
            parts.append(text[at])
            at += 1
        elif char != "$":
            parts.append(char)
        elif (named := re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(text, at)) is not None:
            if named[1] not in pattern.groupindex:
                raise PatternError(f"the replacement names the group {named[1]}, which the pattern does not have")
            parts.append((named[1],))
            at = named.end()
        elif at < len(text) and text[at] in "0123456789":
            number = int(text[at])
            at += 1
            if number > pattern.groups:
                raise PatternError(f"the replacement names the group {number}, and the pattern has {pattern.groups}")
            while at < len(text) and text[at] in "0123456789" and number * 10 + int(text[at]) <= pattern.groups:
                number = number * 10 + int(text[at])
                at += 1
            parts.append((number,))
        else:
            raise PatternError(
                "a $ in the replacement needs the number of a group, as in $1, or its name, as in ${name}; write \\$ for the sign"
            )
    return tuple(parts)


def as_written(text: str) -> str:
    """Return a pattern for a message.

    Backslashes are not doubled, so that users can search and copy it.
    """
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:_SHOWN_CHARS])
    return f"'{shown}{'...' if len(text) > _SHOWN_CHARS else ''}'"


def any_of(texts: Iterable[str], *, ignore_case: bool, room: Room | None = None) -> Callable[[str], bool]:
    """Return a function that tells whether a whole text matches one of the patterns.

    Lists have thousands of members, so plain members are matched together. Raise PatternError
    naming the member at fault. ``room`` is what they may take, which several lists can share;
    without it the list has a room of its own.
    """
    room = room or Room()
    joined: list[str] = []
    held: list[str] = []
    others: list[Pattern] = []
    chars = held_chars = 0
    for text in texts:
        chars += len(text)
        if chars > LIST_CHARS_MAX:
            raise PatternError(f"the patterns have more than {LIST_CHARS_MAX} characters together")
        try:
            if 0 < len(text) <= _PLAIN_CHARS_MAX and _PLAIN.issuperset(text):
                held.append(f"(?:{text})")
                held_chars += len(text)
                ways = []
            else:
                ways = _ways_of(text)
            if any(way.conditions for way in ways):
                others.append(Pattern(text, ignore_case=ignore_case, room=room))
                continue
            for way in ways:
                # compiled alone: a limit that many exceed together is no member's error
                _compiled(way.text, ignore_case=ignore_case, room=room)
        except PatternError as e:
            raise PatternError(f"{as_written(text)} is not a regular expression that can be used: {e}") from None
        held += (f"(?:{way.text})" for way in ways)
        held_chars += sum(len(way.text) for way in ways)
        if held_chars > _JOINED_CHARS:
            joined.append("|".join(held))
            held.clear()
            held_chars = 0
    if held:
        joined.append("|".join(held))
    together = [_compiled(text, ignore_case=ignore_case) for text in joined]
    re2.purge()  # its cache would keep the patterns beyond their connector

    def matches(name: str) -> bool:
        name = _in_utf8(name)
        return any(each.fullmatch(name) is not None for each in together) or any(each.fullmatch(name) for each in others)

    return matches


def _in_utf8(name: str) -> str:
    """Return a name with each lone surrogate replaced, because RE2 accepts none.

    A lone surrogate stands for a byte that was not valid UTF-8.
    """
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Condition:
    text: str
    wanted: bool


@dataclass(frozen=True, slots=True)
class _Way:
    """One alternative in RE2's syntax, with further conditions on the whole text."""

    text: str
    conditions: tuple[_Condition, ...] = ()

    def all_of(self) -> tuple[_Condition, ...]:
        return (_Condition(self.text, wanted=True), *self.conditions)


def _compiled(text: str, *, ignore_case: bool, room: Room | None = None, captures: bool = False) -> Any:
    room = _SHARED.get() if room is None else room
    if room is not None:
        room.take(0)  # making one to find that there is no room takes a tenth of a second
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not captures
    options.case_sensitive = not ignore_case
    options.max_mem = _MEMORY_BYTES_MAX
    try:
        made = re2.compile(text, options)
    except re2.error as e:
        reason = e.args[0].decode("utf-8", "replace") if isinstance(e.args[0], bytes) else str(e)
        raise PatternError(reason) from None
    except UnicodeError:
        raise PatternError("a pattern has half of a surrogate pair") from None
    if room is not None:
        room.take(made.programsize)
    return made


def _ways_of(text: str, *, captures: bool = False) -> list[_Way]:
    if len(text) > PATTERN_CHARS_MAX:
        raise PatternError(f"a pattern has more than {PATTERN_CHARS_MAX} characters; write several, with commas")
    reader = _Reader(text, captures=captures)
    sequences = reader.sequences()
    if reader.more():
        raise PatternError("a closing parenthesis has no opening one; write \\) for the sign")
    flags = reader.flags
    if captures and len(sequences) > 1:
        # Groups are numbered over all alternatives, so these stay together.
        if any(piece.kind or piece.inside is not None for pieces in sequences for piece in pieces):
            raise PatternError("alternatives beside looking around cannot be used in a pattern with a replacement; write one of them")
        sequences = [[_Piece("|".join("".join(piece.text for piece in pieces) for pieces in sequences), None)]]
    ways = [_way(pieces) for pieces in _unwrapped(sequences)]
    return [_Way(flags + way.text, tuple(_Condition(flags + each.text, each.wanted) for each in way.conditions)) for way in ways]


@dataclass(slots=True)
class _Piece:
    """A part of a sequence: its text and its fixed width in characters, or None if the width
    varies.

    With ``kind`` it is a lookaround.
    """

    text: str
    width: int | None
    kind: str = ""
    """``lookahead``, ``lookbehind``, or ``tempered``: any text without ``text`` in it."""
    wanted: bool = True
    least: int = 0
    """Minimum number of characters of a tempered piece."""
    inside: list[list[_Piece]] | None = None
    """The sequences of a group that contains a lookaround."""


class _Reader:
    """Translates one pattern, from left to right."""

    def __init__(self, text: str, *, captures: bool = False) -> None:
        self._text = text
        self._at = 0
        self._captures = captures
        self.flags = ""
        """Flags at the start that apply to the whole pattern, such as ``(?i)``."""

    def more(self) -> bool:
        return self._at < len(self._text)

    def sequences(self, depth: int = 0) -> list[list[_Piece]]:
        """Return the alternatives of the whole pattern, or of one group."""
        if depth > _DEPTH_MAX:
            raise PatternError(f"groups are nested more than {_DEPTH_MAX} times")
        found: list[list[_Piece]] = [[]]
        while self.more() and not self._sees(")"):
            if self._takes("|"):
                found.append([])
            elif (quantifier := self._quantifier()) is not None:
                if not found[-1] or found[-1][-1].kind:
                    raise PatternError(
                        f"{quantifier} has nothing to repeat; write .{quantifier} for any characters, or \\{quantifier} for the sign"
                    )
                found[-1][-1] = _tempered(found[-1][-1], quantifier) or _repeated(found[-1][-1], quantifier)
            else:
                found[-1].append(self._piece(depth))
        return found

    def _piece(self, depth: int) -> _Piece:
        if self._sees("("):
            return self._group(depth)
        if self._takes("["):
            return _Piece(self._class(), 1)
        if self._takes("\\"):
            return self._escape()
        if self._sees("^") or self._sees("$"):
            return _Piece(self._next(), 0)
        return _Piece(self._next(), 1)

    def _group(self, depth: int) -> _Piece:
        opening = self._opening()
        if opening == "(?>":
            raise PatternError("an atomic group (?>...) cannot be used in a pattern here; write (?:...)")
        flags = opening[2:].rstrip(":)") if opening.startswith("(?") and opening[2:3] not in ":<=!P" else ""
        if unknown := set(flags) - set("imsu-"):
            raise PatternError(f"the flag {min(unknown)} of {opening} cannot be used in a pattern here; only i, m, s and u can")
        if opening.endswith(")") and opening != "(":
            if depth or self._at != len(opening):
                raise PatternError(f"{opening} can be used at the beginning of a pattern only; write (?{flags}:...)")
            self.flags = opening.replace("u", "") if set(flags) - set("u-") else ""
            return _Piece("", 0)
        sequences = self.sequences(depth + 1)
        if not self._takes(")"):
            raise PatternError("an opening parenthesis has no closing one; write \\( for the sign")
        if any(piece.kind or piece.inside is not None for pieces in sequences for piece in pieces):
            if opening not in ("(", "(?:") or (self._captures and opening == "("):
                raise PatternError(_AROUND_INSIDE)
            return _Piece("", None, inside=sequences)
        inside = "|".join("".join(piece.text for piece in pieces) for pieces in sequences)
        widths = {_width(pieces) for pieces in sequences}
        if opening in _AROUND:
            return _Piece(inside, 0, kind=_AROUND[opening], wanted="!" not in opening)
        written = opening.replace("u", "") if flags else opening
        if self._captures and (opening == "(" or (opening.startswith("(?<") and opening.endswith(">"))):
            return _Piece(f"{opening.replace('(?<', '(?P<')}{inside})", widths.pop() if len(widths) == 1 else None)
        return _Piece(
            f"{'(?:' if written in ('(?:', '(', '(?-:') or '<' in written else written}{inside})",
            widths.pop() if len(widths) == 1 else None,
        )

    def _opening(self) -> str:
        """Read the opening of a group up to its content; all of it for flags without content."""
        start = self._at
        self._at += 1
        if not self._takes("?"):
            return "("
        for more in ("<=", "<!", "=", "!", ">", ":"):
            if self._takes(more):
                return f"(?{more}"
        if self._takes("<"):
            end = self._text.find(">", self._at)
            if end < 0 or not self._text[self._at : end].isalnum():
                raise PatternError("a group's name is not closed, or has other signs than letters and digits; write (?<name>...) or (...)")
            self._at = end + 1
            return self._text[start : self._at]
        while self.more() and (self._text[self._at].isalpha() or self._sees("-")):
            self._at += 1
        if not (self._takes(":") or self._takes(")")):
            raise PatternError(f"{self._text[start : self._at + 1]} begins no group that is known; write (?:...) or (...)")
        return self._text[start : self._at]

    def _class(self) -> str:
        parts = ["["]
        if self._takes("^"):
            parts.append("^")
        first = True
        while first or not self._takes("]"):
            if not self.more():
                raise PatternError("a class [...] is not closed; write \\[ for the sign")
            if self._sees("["):
                raise PatternError("a class inside a class cannot be used in a pattern here; write \\[ for a bracket")
            if self._takes("&&"):
                raise PatternError("&& in a class cannot be used in a pattern here; write \\& for the sign")
            parts.append(self._escape(in_class=True).text if self._takes("\\") else _literal(self._next(), keep="-^"))
            first = False
        return "".join([*parts, "]"])

    def _escape(self, *, in_class: bool = False) -> _Piece:
        """Translate the escape after a backslash."""
        letter = self._next("a pattern ends with a backslash; write \\\\ for the sign")
        if letter == "Q" and not in_class:
            return self._quoted()
        if letter in "pP":
            return _Piece(self._property(letter, in_class=in_class), 1)
        if letter in _SETS:
            return _Piece(_SETS[letter] if in_class else f"[{_SETS[letter]}]", 1)
        if letter.lower() in _SETS and not in_class:
            return _Piece(f"[^{_SETS[letter.lower()]}]", 1)
        if letter in "bB" and not in_class:
            return _Piece(f"\\{letter}", 0)
        if letter in "Az" and not in_class:
            return _Piece(f"\\{letter}", 0)
        if letter in "123456789k":
            raise PatternError(
                f"the back reference \\{letter} cannot be used in a pattern here; write out the repeated text, as in a_a|b_b for (a|b)_\\1"
            )
        if letter in "dDwWSaftnr":
            return _Piece(f"\\{letter}", 1)
        return _Piece(self._character(letter), 1)

    def _character(self, letter: str) -> str:
        match letter:
            case "u":
                return _literal(chr(self._number(4, 4, 16)))
            case "x" if self._takes("{"):
                code = self._number(1, 6, 16)
                if not self._takes("}") or code > 0x10FFFF:  # noqa: PLR2004  the last of Unicode
                    raise PatternError("\\x{...} is not a character")
                return _literal(chr(code))
            case "x":
                return _literal(chr(self._number(2, 2, 16)))
            case "0":
                return _literal(chr(self._number(1, 3, 8)))
            case "c":
                return _literal(chr(ord(self._next("\\c has no letter")) ^ 64))
            case "e":
                return _literal("\x1b")
            case _ if letter.isascii() and letter.isalnum():
                remedy = (
                    "\\z, or nothing, for the whole name has to match"
                    if letter == "Z"
                    else "a backslash before punctuation and known letters only"
                )
                raise PatternError(f"\\{letter} cannot be used in a pattern here; write {remedy}")
            case _:
                return _literal(letter)

    def _number(self, least: int, most: int, base: int) -> int:
        digits = ""
        while len(digits) < most and self.more() and self._text[self._at] in "0123456789abcdefABCDEF"[: 8 if base == 8 else 22]:  # noqa: PLR2004
            digits += self._next()
        if len(digits) < least:
            raise PatternError("an escape has too few digits; write \\x41, \\u0041 or \\0101")
        return int(digits, base)

    def _property(self, letter: str, *, in_class: bool) -> str:
        name = self._next("\\p has no name")
        if name == "{":
            end = self._text.find("}", self._at)
            name = self._text[self._at : end] if end >= 0 else ""
            self._at = max(end + 1, self._at)
        if name in _POSIX:
            posix = _POSIX[name] if letter == "p" else _POSIX[name].replace("[:", "[:^")
            return posix if in_class else f"[{posix}]"
        name = name.removeprefix("Is")
        if not name.isalpha() or re.match("java|In[A-Z]", name):
            raise PatternError(
                f"\\{letter}{{{name}}} cannot be used in a pattern here; write a general category or a script, as in \\p{{Lu}} or \\p{{IsGreek}}"
            )
        return f"\\{letter}{{{name}}}"

    def _quoted(self) -> _Piece:
        end = self._text.find("\\E", self._at)
        quoted = self._text[self._at : end] if end >= 0 else self._text[self._at :]
        self._at = end + 2 if end >= 0 else len(self._text)
        if self._sees("*", "+", "?", "{"):  # Java repeats only the last character
            raise PatternError("the text between \\Q and \\E cannot be repeated here; put it into a group")
        return _Piece("".join(_literal(char) for char in quoted), len(quoted))

    def _quantifier(self) -> str | None:
        start = self._at
        if self._takes("{"):
            end = self._text.find("}", self._at)
            inside = self._text[self._at : end] if end >= 0 else ""
            low, _comma, high = inside.partition(",")
            if not (low.isascii() and low.isdigit()) or (high and not (high.isascii() and high.isdigit())) or len(inside) > 20:  # noqa: PLR2004
                raise PatternError(
                    "{ begins no repetition such as {2} or, in a list, whose commas separate, {2\\,5}; write \\{ for the sign"
                )
            if max(int(low), int(high or 0)) > _REPETITIONS_MAX:
                remedy = f"{{{low},}}" if int(low) <= _REPETITIONS_MAX else f"at most {{{_REPETITIONS_MAX}}}"
                raise PatternError(f"{{{inside}}} repeats more than {_REPETITIONS_MAX} times; write {remedy}")
            self._at = end + 1
        elif not (self._takes("*") or self._takes("+") or self._takes("?")):
            return None
        end = self._at
        if self._takes("+"):
            given = self._text[start : self._at]
            raise PatternError(
                f"the possessive quantifier {given} cannot be used in a pattern here; write {given[:-1]} without the + after it"
            )
        # Laziness does not change whether the whole text matches, but which parts groups match.
        lazy = "?" if self._takes("?") and self._captures else ""
        # RE2 treats a number with a leading zero as literal text.
        return re.sub(r"\d+", lambda digits: str(int(digits[0])), self._text[start:end]) + lazy

    def _sees(self, *texts: str) -> bool:
        return self._text.startswith(texts, self._at)

    def _takes(self, text: str) -> bool:
        if not self._sees(text):
            return False
        self._at += len(text)
        return True

    def _next(self, missing: str = "a pattern is not complete") -> str:
        if not self.more():
            raise PatternError(missing)
        self._at += 1
        return self._text[self._at - 1]


def _literal(char: str, *, keep: str = "") -> str:
    return char if char.isalnum() or char in "_ " or char in keep else f"\\x{{{ord(char):X}}}"


def _repeated(piece: _Piece, quantifier: str) -> _Piece:
    count = int(quantifier.rstrip("?")[1:-1]) if quantifier.startswith("{") and "," not in quantifier else None
    width = 0 if piece.width == 0 else piece.width * count if piece.width is not None and count is not None else None
    return _Piece(f"(?:{piece.text}){quantifier}", width)


_AROUND_INSIDE = "looking around inside a group cannot be used in a pattern here; look around outside of it, as in shop\\.(?!tmp_).*"


def _tempered(piece: _Piece, quantifier: str) -> _Piece | None:
    """Translate ``((?!x).)*``, a common form of "without x from here on".

    Return None for others.
    """
    match piece.inside:
        case [[_Piece(kind="lookahead", wanted=False) as unwanted, _Piece(text=".")]] if quantifier in ("*", "+"):
            if _compiled(unwanted.text, ignore_case=False).fullmatch("") is not None:
                raise PatternError("(?!...) of nothing cannot be repeated in a pattern here; write what may not follow")
            return _Piece(unwanted.text, None, kind="tempered", least=int(quantifier == "+"))
        case None:
            return None
        case _:
            raise PatternError(_AROUND_INSIDE)


def _unwrapped(sequences: list[list[_Piece]]) -> Iterator[list[_Piece]]:
    """Yield each alternative. A single group is replaced by the alternatives in it."""
    for pieces in sequences:
        if len(pieces) == 1 and pieces[0].inside is not None:
            yield from _unwrapped(pieces[0].inside)
        elif any(piece.inside is not None for piece in pieces):
            raise PatternError(_AROUND_INSIDE)
        else:
            yield pieces


def _width(pieces: Iterable[_Piece]) -> int | None:
    widths = [piece.width for piece in pieces]
    return None if None in widths else sum(width for width in widths if width is not None)


def _way(pieces: list[_Piece]) -> _Way:
    """Translate a sequence. Each lookaround becomes a condition, which needs a known position."""
    conditions: list[_Condition] = []
    for number, piece in enumerate(pieces):
        if not piece.kind:
            continue
        ahead = piece.kind != "lookbehind"
        distance = _width(pieces[:number] if ahead else pieces[number + 1 :])
        if distance is None or distance > _REPETITIONS_MAX:
            where = "before a lookahead" if ahead else "behind a lookbehind"
            remedy = "put it after a fixed beginning, as in shop\\.(?!tmp_).*" if ahead else "put it at the end, as in shop\\..*(?<!_tmp)"
            raise PatternError(f"the part {where} has no fixed length, which cannot be used in a pattern here; {remedy}")
        beside = f"(?s:.{{{distance}}})"
        if piece.kind == "tempered":
            if _width(pieces[number + 1 :]) != 0:
                raise PatternError("((?!...).)* can be used at the end of a pattern only")
            conditions.append(_Condition(f"{beside}(?s:.*)(?:{piece.text})(?s:.*)", wanted=False))
            continue
        text = f"{beside}(?:{piece.text})(?s:.*)" if ahead else f"(?s:.*)(?:{piece.text}){beside}"
        conditions.append(_Condition(text, piece.wanted))
    texts = (piece.text if not piece.kind else (".+" if piece.least else ".*") if piece.kind == "tempered" else "" for piece in pieces)
    return _Way("".join(texts), tuple(conditions))
