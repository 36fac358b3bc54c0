"""Finds secrets in a configuration: values by their key, and parts of values and names by their
context.

A declared option shows by its kind whether it is secret. Keys of clients and converters are not
declared here, and a misspelt key is not declared at all, so their names are examined too. Inside a
visible value these parts are secret: the login of a URL, the passwords assigned in a JAAS text or a
statement, quoted texts of a statement after IDENTIFIED or PASSWORD, and a private key. Inside a
name it is the salt of a column's hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from dblog.config.converter_options import CONVERTER_OPTIONS
from dblog.config.framework import CONVERTER_PREFIXES
from dblog.config.options import HIDDEN, Kind, Option

_SECRET_NAME = re.compile(
    r"passw|passphrase|(?<!old)pwd(?<!^pwd)|secret|jaas|token(?!\.endpoint)|credential(?!s\.source)|(?:api|access|private|shared|account)[._-]?key|key\.pem|"
    r"ssl\.keystore\.key$|auth\.user\.info|request\.header\.|oauthbearer\.(?:config|extensions)",
    re.IGNORECASE,
)
_CONVERTER_PASSWORDS = sorted(option.name for option in CONVERTER_OPTIONS if option.kind is Kind.PASSWORD)
_ALIKE = 0.8
"""difflib's ratio above which a key counts as a misspelt password's, as for all unknown keys."""
NO_SECRETS = frozenset({"true", "false", "none", "null"})

_LOGIN = re.compile(r"(?<=://)(?:[^\s/?#\"'<>]+(?=@)|[^\s/?#@:\"'<>]{1,256}:(?!\d*(?:[/?#,]|\Z))[^\s\"'<>]{1,256}?(?=@))")
"""The login before the host of a URL. A password may contain a slash by mistake, so the second form
requires that the text is not a port number.
"""
_SALT = re.compile(r"(?<=column\.mask\.hash\.)((?:v2\.)?[^.]+\.(?:with\.salt\.)?)(.+)", re.DOTALL)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(.+?)(?:-----END|\Z)", re.DOTALL)
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.|'')*)'?|"((?:[^"\\]|\\.|"")*)"?""", re.DOTALL)
_LOGIN_STATEMENT = re.compile(r"\b(?:IDENTIFIED|PASSWORD)\b", re.IGNORECASE)
_ASSIGNED = re.compile(r"""(?<![\w.])([\w.]{1,100})\s*=\s*(?:"((?:[^"\\]|\\.)*)"?|'((?:[^'\\]|\\.)*)'?|([^\s;"']+))""", re.DOTALL)

_ASSIGNED_IN_SQL = re.compile(
    r"""(?<![\w.])([\w.]{1,100})\s*=\s*(?:''([^']+)''|"((?:[^"\\]|\\.)*)"?|'((?:[^'\\]|\\.|'')*)'?|([^\s;"']+))""", re.DOTALL
)
_INSIDE = (2, 5)
"""Groups for values inside a text that is itself quoted: in doubled quotes, or without quotes."""


def is_secret(name: str) -> bool:
    """Return True if the name of an undeclared key or a variable suggests a secret."""
    return _SECRET_NAME.search(name) is not None


def shown_name(name: str) -> str:
    """Return the name of a key with its salt hidden."""
    return _SALT.sub(rf"\1{HIDDEN}", name)


def shown_value(name: str, text: str) -> str:
    """Return a key's value with its secrets hidden."""
    pieces: list[str] = []
    end = 0
    for start, behind in sorted(secret_spans(name, text)):
        if start >= end:
            pieces += [text[end:start], HIDDEN]
        end = max(end, behind)
    return "".join([*pieces, text[end:]])


def secret_keys(options: Iterable[Option], names: Iterable[str]) -> frozenset[str]:
    """Return the names whose whole value is secret.

    They are declared passwords, names that suggest a secret, and misspelt passwords.
    """
    kinds = {name: option.kind for option in options for name in (option.name, *option.aliases)}
    passwords = sorted(name for name, kind in kinds.items() if kind is Kind.PASSWORD)
    return frozenset(
        name
        for name in names
        if (kinds[name] is Kind.PASSWORD if name in kinds else is_secret(name) or _resembles(name, passwords) or _of_converter(name))
    )


def secrets_of(options: Iterable[Option], properties: Mapping[str, str | None]) -> Iterator[str]:
    """Yield every secret of a configuration, as written."""
    keys = secret_keys(options, properties)
    for name, text in properties.items():
        if salt := _SALT.search(name):
            yield salt[2]
        if text is None:
            continue
        if name in keys and text.strip().lower() not in NO_SECRETS:
            yield text
        for start, end in secret_spans(name, text):
            secret = text[start:end]
            yield secret
            _, colon, password = secret.partition(":")
            if colon and text[:start].endswith("://"):
                yield password


def _of_converter(name: str) -> bool:
    """Return True for a converter's password, also misspelt."""
    part = next((part for part in CONVERTER_PREFIXES if name.startswith(part)), None)
    return part is not None and _resembles(name.removeprefix(part), _CONVERTER_PASSWORDS)


def _resembles(name: str, passwords: list[str]) -> bool:
    return bool(get_close_matches(name.lower().strip(), passwords, n=1, cutoff=_ALIKE))


def secret_spans(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of secrets in a value, whatever its key."""
    yield from (match.span() for match in _LOGIN.finditer(text))
    yield from (match.span(1) for match in _PRIVATE_KEY.finditer(text))
    if "jaas" in name or "LoginModule" in text:
        for match in _ASSIGNED.finditer(text):
            if is_secret(match[1]):
                yield match.span(match.lastindex or 0)
        return
    assigned = [match for match in _ASSIGNED_IN_SQL.finditer(text) if is_secret(match[1]) and text[match.end() - 1] != "("]
    yield from (match.span(match.lastindex or 0) for match in assigned)
    # A value assigned without quotes is inside quotes, as in dblink_connect('password=...'), so
    # quotes must not be counted from there.
    inside = {match.start(1) for match in assigned if match.lastindex in _INSIDE}
    statement = next((match for match in _LOGIN_STATEMENT.finditer(text) if match.start() not in inside), None)
    if statement is not None:
        for match in _QUOTED.finditer(text, statement.end()):
            # 'name'@'host' is an account, not a secret.
            if text[match.start() - 1] != "@" and text[match.end() : match.end() + 1] != "@":
                yield match.span(match.lastindex or 0)
