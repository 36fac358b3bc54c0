"""Which texts of a configuration are secrets: by the option's type, by the key's words, and by where they stand in a value.

What a provider has given is one as a whole, and its placeholder stands for it. Of the rest, values of password options and of keys that sound like one; in
login configurations (JAAS) and URLs the password alone as well, for error texts may quote a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from dblog.config.options import HIDDEN, Kind, Option
from dblog.config.providers import SCRUBBED_LENGTH_MIN, Resolution

_WORDS = (
    "password",
    "passwd",
    "secret",
    "token",
    "jaas",
    "key.pem",
    "ssl.keystore.key",
    "user.info",
    "credential",
    "request.header.",
    "api.key",
    "apikey",
)
_NOT = ("credentials.source", "token.endpoint.url")
_JAAS_PASSWORD = re.compile(r"""password\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.IGNORECASE | re.DOTALL)
_USER_INFO = re.compile(r"://([^/@\s]*)@")


def is_secret_key(name: str) -> bool:
    """Whether a key sounds as if its value must not be shown; a misspelt one counts."""
    lowered = name.lower()
    return any(word in lowered for word in _WORDS) and not lowered.endswith(_NOT)


def without_logins(text: str) -> str:
    """The text with the logins in its URLs hidden."""
    return _USER_INFO.sub(f"://{HIDDEN}@", text)


def secrets_of(resolution: Resolution, properties: Mapping[str, str | None], options: tuple[Option, ...]) -> dict[str, str]:
    """Each secret, and what may be shown instead. Short ones would blank out half of any text, and are none worth the name."""
    passwords = {option.name for option in options if option.kind is Kind.PASSWORD}
    found: dict[str, str] = {}
    for name, text in properties.items():
        if text is not None and name not in resolution.placeholders and (name in passwords or is_secret_key(name)):
            found[text] = HIDDEN
            if name.endswith("user.info"):
                found[text.partition(":")[2]] = HIDDEN
    for text in resolution.values.values():
        found |= dict.fromkeys(_parts(text), HIDDEN)
    return {text: shown for text, shown in (found | resolution.secrets).items() if len(text.strip()) >= SCRUBBED_LENGTH_MIN}


def _parts(text: str) -> Iterator[str]:
    for quoted, single, bare in _JAAS_PASSWORD.findall(text) if "assword" in text else ():
        written = quoted or single or bare
        yield written
        yield re.sub(r"\\(.)", r"\1", written)
    for login in _USER_INFO.findall(text):
        password = login.partition(":")[2]
        yield password
        yield unquote(password)
