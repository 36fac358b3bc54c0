"""Stored passwords of users: plain, as in Kafka Connect, or as a salted scrypt hash of the form
``$scrypt$ln=14,r=8,p=1$salt$hash``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

_BEGINS = "$scrypt$"
_FORM = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{16,128})\$([A-Za-z0-9+/]{22,128})")
_LN, _R, _P = 14, 8, 1
"""Cost of a new hash: 16 MiB and about 40 ms for one try."""
_LN_MAX, _R_MAX, _P_MAX = 17, 16, 4
"""Largest accepted cost, so that a file of users cannot make a login take gigabytes."""
_SALT_BYTES = 16
_HASH_BYTES = 32


class HashError(ValueError):
    """The text starts like a hash but is malformed."""


@dataclass(frozen=True, slots=True)
class StoredPassword:
    """The digest that a password is compared with; never the password itself."""

    digest: bytes = field(repr=False)
    salt: bytes = field(default=b"", repr=False)
    ln: int = 0
    """0 for a plain password's SHA-256, which is compared in constant time."""
    r: int = 0
    p: int = 0

    @property
    def is_slow(self) -> bool:
        """True if a comparison takes about 40 ms of a core."""
        return self.ln > 0

    def is_of(self, password: str) -> bool:
        """Return True if the password is the right one. Takes as long for a wrong one."""
        return hmac.compare_digest(self.digest, self._digest(password))

    def _digest(self, password: str) -> bytes:
        if not self.is_slow:
            return hashlib.sha256(password.encode()).digest()
        return _scrypt(password, self.salt, self.ln, self.r, self.p, len(self.digest))


def stored(text: str) -> StoredPassword:
    """Parse a user's entry of a file. Raise HashError, without its text, for a malformed hash."""
    if not text.startswith(_BEGINS):
        return StoredPassword(hashlib.sha256(text.encode()).digest())
    match = _FORM.fullmatch(text.strip())
    try:
        if match is None:
            raise HashError
        ln, r, p = (int(match[number]) for number in (1, 2, 3))
        salt, digest = (base64.b64decode(match[number] + "=" * (-len(match[number]) % 4), validate=True) for number in (4, 5))
        if not (1 <= ln <= _LN_MAX and 1 <= r <= _R_MAX and 1 <= p <= _P_MAX):
            raise HashError
    except (HashError, binascii.Error):
        raise HashError("is not a hash of a password; make one with: dblog users hash") from None
    return StoredPassword(digest, salt, ln, r, p)


def hashed(password: str) -> str:
    """Return a hash of the password with a new salt, in the form of a file of users."""
    salt = secrets.token_bytes(_SALT_BYTES)
    parts = (base64.b64encode(part).decode().rstrip("=") for part in (salt, _scrypt(password, salt, _LN, _R, _P, _HASH_BYTES)))
    return f"{_BEGINS}ln={_LN},r={_R},p={_P}${'$'.join(parts)}"


def _scrypt(password: str, salt: bytes, ln: int, r: int, p: int, length: int) -> bytes:
    n = 2**ln
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, dklen=length, maxmem=128 * r * (n + p + 2) + 1024 * 1024)
