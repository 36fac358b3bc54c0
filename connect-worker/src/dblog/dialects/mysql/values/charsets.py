"""The decoding of a column's bytes in the binlog to text: MySQL's charsets as Python codecs, and
the width of their characters.

The width decides how many length bytes an image uses: a CHAR(100) of utf8mb4 may need 400 bytes, so
two. Rule source: ``SHOW CHARACTER SET``. MySQL's ``latin1`` is cp1252. Where a charset differs from
the Python codec of its name, charset_tables.py has the server's characters. A character that
Unicode lacks becomes ``?``, as the server itself sends it in a result set, so rows from the log and
from a SELECT agree.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from functools import cache

from dblog.dialects.mysql.values.charset_tables import FRAMES, LOWER, MANY_BYTE_EXCEPTIONS, ONE_BYTE_EXCEPTIONS, UPPER_HALVES
from dblog.errors import DefiniteError

BYTES_MAX = {
    "armscii8": 1,
    "ascii": 1,
    "big5": 2,
    "binary": 1,
    "cp1250": 1,
    "cp1251": 1,
    "cp1256": 1,
    "cp1257": 1,
    "cp850": 1,
    "cp852": 1,
    "cp866": 1,
    "cp932": 2,
    "dec8": 1,
    "eucjpms": 3,
    "euckr": 2,
    "gb18030": 4,
    "gb2312": 2,
    "gbk": 2,
    "geostd8": 1,
    "greek": 1,
    "hebrew": 1,
    "hp8": 1,
    "keybcs2": 1,
    "koi8r": 1,
    "koi8u": 1,
    "latin1": 1,
    "latin2": 1,
    "latin5": 1,
    "latin7": 1,
    "macce": 1,
    "macroman": 1,
    "sjis": 2,
    "swe7": 1,
    "tis620": 1,
    "ucs2": 2,
    "ujis": 3,
    "utf16": 4,
    "utf16le": 4,
    "utf32": 4,
    "utf8": 3,
    "utf8mb3": 3,
    "utf8mb4": 4,
}
"""Bytes of the widest character of each charset."""

UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4"})
"""Charsets whose bytes go into a record unchanged."""

_CODECS = {
    "ascii": "ascii",
    "big5": "big5",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "cp932": "cp932",
    "eucjpms": "euc_jp",
    "euckr": "cp949",
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin1": "cp1252",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "sjis": "shift_jis",
    "tis620": "tis_620",
    "ucs2": "utf_16_be",
    "ujis": "euc_jp",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
}
_UNICODE = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
_UNIT = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}


def _question_mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?", error.end


codecs.register_error("dblog.question_mark", _question_mark)


def bytes_max(charset: str | None, *, where: str) -> int:
    """Return the bytes of the charset's widest character. ``where`` names table and column for the
    error.
    """
    width = BYTES_MAX.get(_name(charset))
    if width is None:
        raise _unknown(charset, where)
    return width


def decoder(charset: str | None, *, where: str) -> Callable[[bytes], str]:
    """Return a function from a column's bytes to its text. It never fails on bytes: what cannot be
    decoded is replaced, as the server does.
    """
    name = _name(charset)
    if name in UTF8:
        return _utf8
    if (table := single_byte_table(name)) is not None:
        return lambda raw: "".join([table[byte] for byte in raw])
    if name in FRAMES:
        return _many_bytes(name)
    if name not in _UNICODE:
        raise _unknown(charset, where)
    codec = _CODECS[name]

    def of_unicode(raw: bytes) -> str:
        try:
            text = raw.decode(codec)
        except UnicodeDecodeError:
            text = raw.decode(codec, "surrogatepass") if len(raw) % _UNIT[name] == 0 else raw.decode(codec, "replace")
        if name == "ucs2" and not text.isascii():  # in ucs2 two surrogates are two characters
            text = "".join([chr(int.from_bytes(raw[i : i + 2], "big")) for i in range(0, len(raw), 2)])
        # MariaDB stores lone surrogates, and sends each in a result set as three bytes that are not
        # UTF-8.
        return text if text.isprintable() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")

    return of_unicode


def single_byte_table(charset: str | None) -> tuple[str, ...] | None:
    """Return the 256 characters of a one-byte charset; None for other charsets."""
    name = _name(charset)
    if BYTES_MAX.get(name) != 1 or name == "binary":
        return None
    if name in UPPER_HALVES:
        table = [*map(chr, range(128)), *UPPER_HALVES[name]]
    else:
        table = [bytes([byte]).decode(_CODECS[name], "dblog.question_mark") for byte in range(256)]
    for byte, char in (LOWER.get(name, {}) | ONE_BYTE_EXCEPTIONS.get(name, {})).items():
        table[byte] = char
    return tuple(table)


@cache
def certain_bytes(charset: str | None) -> Mapping[str, int] | None:
    """Return the byte of each character of a one-byte charset that only one byte decodes to; None
    for other charsets.
    """
    table = single_byte_table(charset)
    if table is None:
        return None
    return {char: byte for byte, char in enumerate(table) if char != "?" and table.count(char) == 1}


class _Characters(dict[bytes, str]):
    """The characters of a multi-byte charset, each decoded on first use."""

    def __init__(self, name: str) -> None:
        super().__init__(MANY_BYTE_EXCEPTIONS.get(name, {}))
        self._name = name

    def __missing__(self, code: bytes) -> str:
        char = self[code] = self._decoded(code)
        return char

    def _decoded(self, code: bytes) -> str:
        try:
            if self._name == "eucjpms" and len(code) == 2 and code[0] != 0x8E:  # noqa: PLR2004 - JIS X 0208 as cp932 maps it
                return _shifted(code).decode("cp932")
            return code.decode(_CODECS[self._name])
        except UnicodeDecodeError:
            return "?"


def _shifted(code: bytes) -> bytes:
    """Return the same row and cell of JIS X 0208 in Shift-JIS's form."""
    row, cell = code[0] - 0xA0, code[1] - 0xA0
    high = (row - 1) // 2 + (0x81 if row <= 62 else 0xC1)  # noqa: PLR2004 - half-width katakana lie between
    low = cell + 0x3F + (cell >= 64) if row & 1 else cell + 0x9E  # noqa: PLR2004 - 0x7F is left out
    return bytes((high, low))


@cache
def _many_bytes(name: str) -> Callable[[bytes], str]:
    """Return a decoder of a multi-byte charset. It uses the codec if that agrees with the server
    for these bytes, else decodes character by character.
    """
    codec = _CODECS[name]
    characters = _Characters(name)
    cut = re.compile(FRAMES[name], re.DOTALL).findall
    # eucjpms differs too much from Python's euc_jp for the codec to be tried first.
    differs = re.compile(
        b"|".join(map(re.escape, MANY_BYTE_EXCEPTIONS.get(name, ())) if name != "eucjpms" else [b"[\x80-\xff]"]) or b"(?!)"
    ).search

    def decode(raw: bytes) -> str:
        if not differs(raw):
            try:
                return raw.decode(codec)
            except UnicodeDecodeError:
                pass
        return "".join([characters[code] for code in cut(raw)])

    return decode


def _utf8(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _name(charset: str | None) -> str:
    return (charset or "utf8mb4").lower()


def _unknown(charset: str | None, where: str) -> DefiniteError:
    return DefiniteError(
        f"{where}: character set {charset} cannot be decoded; convert the column to utf8mb4, or leave it out with column.exclude.list"
    )
