"""How a column's bytes in the binlog become text: MySQL's character sets as Python codecs, and how wide a character gets.

The width decides how many length bytes an image uses (a CHAR(100) of utf8mb4 may need 400 bytes, so two). Rule source: ``SHOW CHARACTER SET``.
MySQL's ``latin1`` is cp1252 with the five undefined bytes mapped to the control characters of the same number. Bytes without a meaning in a
non-Unicode set become ``?``, which is what the server itself sends for them in a result set, so both ways of reading a row agree.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

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
"""Bytes of the widest character of each character set."""

UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4"})
"""Bytes that are already what a record wants."""

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
_LATIN1_UNDEFINED = {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}


def _question_mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?", error.end


codecs.register_error("dblog.question_mark", _question_mark)


def bytes_max(charset: str | None, *, where: str) -> int:
    """Bytes of the widest character; ``where`` names table and column for the error."""
    width = BYTES_MAX.get(_name(charset))
    if width is None:
        raise _unknown(charset, where)
    return width


def decoder(charset: str | None, *, where: str) -> Callable[[bytes], str]:
    """A function from a column's bytes to its text. Never fails on bytes: what cannot be decoded is replaced, as the server does."""
    name = _name(charset)
    if name in UTF8:
        return _utf8
    if (table := single_byte_table(name)) is not None:
        return lambda raw: "".join([table[byte] for byte in raw])
    codec = _CODECS.get(name)
    if codec is None:
        raise _unknown(charset, where)
    errors = "replace" if name in _UNICODE else "dblog.question_mark"
    return lambda raw: raw.decode(codec, errors)


def single_byte_table(charset: str | None) -> tuple[str, ...] | None:
    """The 256 characters of a one-byte character set, None for the others."""
    name = _name(charset)
    codec = _CODECS.get(name)
    if codec is None or BYTES_MAX.get(name) != 1:
        return None
    table = [bytes([byte]).decode(codec, "dblog.question_mark") for byte in range(256)]
    if name == "latin1":
        for byte, char in _LATIN1_UNDEFINED.items():
            table[byte] = char
    return tuple(table)


def _utf8(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _name(charset: str | None) -> str:
    return (charset or "utf8mb4").lower()


def _unknown(charset: str | None, where: str) -> DefiniteError:
    return DefiniteError(
        f"{where}: character set {charset} cannot be decoded; convert the column to utf8mb4, or leave it out with column.exclude.list"
    )
