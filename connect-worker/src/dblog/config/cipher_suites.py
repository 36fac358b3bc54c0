"""The list ``ssl.cipher.suites``, in Java's or OpenSSL's names, translated for OpenSSL.

Java uses the names of IANA's registry (``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256``). OpenSSL has its
own names for the suites of TLS 1.2, and a list for these alone. Its three suites of TLS 1.3 cannot
be chosen one by one, neither by Python's ssl (before 3.15) nor by librdkafka. Source: OpenSSL's
manual, openssl-ciphers(1), "Cipher suite names".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

OF_TLS_1_3 = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
"""The suites of TLS 1.3. They have the same names in both, and TLS 1.3 always offers all three."""

_SEPARATORS = re.compile(r"[,:\s]+")
"""Java's comma, and the separators of OpenSSL's own lists."""
_AES = re.compile(r"TLS_(?:RSA|(\w+))_WITH_AES_(128|256)(?:_CBC|_(GCM|CCM(?:_8)?))(?:_(SHA[0-9]*))?")
_CHACHA20 = re.compile(r"TLS_(\w+)_WITH_CHACHA20_POLY1305_SHA256")


@dataclass(frozen=True, slots=True)
class CipherSuites:
    """The suites of one list; both fields are empty without a list."""

    of_tls_1_2: tuple[str, ...]
    """OpenSSL's names. A name that is neither Java's nor of TLS 1.3 stays as given."""
    of_tls_1_3: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse a list. OpenSSL ignores unknown names if it knows at least one."""
        names = [name for name in _SEPARATORS.split(text) if name]
        return cls(tuple(_of_openssl(name) for name in names if name not in OF_TLS_1_3), OF_TLS_1_3.intersection(names))

    @property
    def openssl_list(self) -> str:
        """The suites of TLS 1.2 in OpenSSL's syntax."""
        return ":".join(self.of_tls_1_2)

    def __bool__(self) -> bool:
        return bool(self.of_tls_1_2 or self.of_tls_1_3)


def _of_openssl(name: str) -> str:
    if found := _CHACHA20.fullmatch(name):
        return f"{found[1].replace('_', '-')}-CHACHA20-POLY1305"
    if found := _AES.fullmatch(name):
        keys, bits, mode, checksum = found.groups()
        parts = (keys and keys.replace("_", "-"), f"AES{bits}", mode and mode.replace("_", ""), checksum)
        return "-".join(part for part in parts if part)
    return name
