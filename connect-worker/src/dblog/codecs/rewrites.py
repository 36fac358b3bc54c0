"""Replaces a column's value in records by a mask, a hash, or its beginning.

Source of the rules: Debezium's ``MaskStrings`` and ``TruncateStrings``, measured on 3.6.1. Only the
value's struct changes, never the key. Lengths of texts count UTF-16 units, as in Java: a character
of two units that is cut in half leaves a question mark.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

HASHES = {
    "MD5": "md5",
    "SHA": "sha1",
    "SHA-1": "sha1",
    "SHA1": "sha1",
    "SHA-224": "sha224",
    "SHA-256": "sha256",
    "SHA-384": "sha384",
    "SHA-512": "sha512",
    "SHA3-224": "sha3_224",
    "SHA3-256": "sha3_256",
    "SHA3-384": "sha3_384",
    "SHA3-512": "sha3_512",
}
"""Python's names of digests by Java's names."""

_JAVA_STRING, _JAVA_LONG_STRING = b"\xac\xed\x00\x05\x74", b"\xac\xed\x00\x05\x7c"
_JAVA_SHORT_MAX = 0xFFFF
_BMP_MAX = 0xFFFF


@dataclass(frozen=True, slots=True)
class Truncate:
    """Rewrite of ``column.truncate.to.<length>.chars``: the first characters of a text, or the
    first bytes of a binary value.
    """

    length: int

    def __call__(self, value: Any) -> Any:
        """Return the truncated value; NULL stays NULL."""
        if isinstance(value, str):
            return truncated_text(value, self.length)
        return value[: self.length] if isinstance(value, bytes) else value


@dataclass(frozen=True, slots=True)
class Mask:
    """Rewrite of ``column.mask.with.<N>.chars``: the same text for every value, NULL included."""

    text: str

    def __call__(self, _value: Any) -> Any:
        """Return the mask."""
        return self.text


@dataclass(frozen=True, slots=True)
class Hash:
    """Rewrite of ``column.mask.hash[.v2].<algorithm>.with.salt.<salt>``: hexadecimal digits, at
    most as many as the column has characters (0: no limit).

    Version 1 hashes the text as Java serializes it, version 2 its UTF-8 bytes.
    """

    algorithm: str
    salt: str
    version: int
    length: int = 0

    def __call__(self, value: Any) -> Any:
        """Return the hash of a text; NULL and other types stay as they are."""
        if not isinstance(value, str):
            return value
        raw = value.encode("utf-8") if self.version == 2 else java_serialized(value)  # noqa: PLR2004 - the second version
        digits = hashlib.new(HASHES[self.algorithm.upper()], self.salt.encode("utf-8") + raw, usedforsecurity=False).hexdigest()
        return digits[: self.length] if self.length else digits


Rewrite = Truncate | Mask | Hash


def truncated_text(text: str, length: int) -> str:
    """Return ``String.substring(0, length)`` of a text as Java encodes it in UTF-8."""
    if len(text) <= length // 2:
        return text
    if max(text[:length], default="") <= "\uffff":
        return text[:length]
    units = 0
    for at, char in enumerate(text):
        wide = ord(char) > _BMP_MAX
        if units + 1 + wide > length:
            return text[:at] + "?" if wide and units < length else text[:at]
        units += 1 + wide
    return text


def java_serialized(text: str) -> bytes:
    """Return the bytes of ``ObjectOutputStream.writeObject(text)``: a header, a length and modified
    UTF-8 (Java Object Serialization Specification, 6.2).
    """
    raw = b"".join(_modified_utf8(char) for char in text)
    if len(raw) <= _JAVA_SHORT_MAX:
        return _JAVA_STRING + len(raw).to_bytes(2, "big") + raw
    return _JAVA_LONG_STRING + len(raw).to_bytes(8, "big") + raw


def _modified_utf8(char: str) -> bytes:
    if char == "\0":
        return b"\xc0\x80"
    code = ord(char)
    if code <= _BMP_MAX:
        return char.encode("utf-8", "surrogatepass")
    high, low = 0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code - 0x10000 & 0x3FF)
    return (chr(high) + chr(low)).encode("utf-8", "surrogatepass")
