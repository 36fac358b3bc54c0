"""Bounds a configuration before it is checked.

The checks compare each key with the known ones and remove each secret from each message, so their
time grows with the product of these. A request may be ten times as large as a record of Kafka, and
one with 100 000 keys that are passwords would take hours, in which no other configuration can be
checked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dblog.cluster.requests import RequestError, bad_request

KEYS_MAX = 5000
CHARS_MAX = 2 * 1024 * 1024
"""Most characters of names and values. A record of Kafka holds half, unless its limit is raised."""
SECRETS_MAX = 2000
"""Most different secrets in keys and values."""


def require_bounded(properties: Mapping[str, str | None]) -> None:
    """Raise RequestError 400 for a configuration with too many keys or characters."""
    if len(properties) > KEYS_MAX:
        raise _too_large(f"{len(properties)} keys", f"{KEYS_MAX}")
    chars = sum(len(name) + len(text or "") for name, text in properties.items())
    if chars > CHARS_MAX:
        raise _too_large(f"{chars} characters", f"{CHARS_MAX}")


def require_few(secrets: Collection[str]) -> None:
    """Raise RequestError 400 for too many secrets: each is removed from every message."""
    if len(secrets) > SECRETS_MAX:
        raise _too_large(f"{len(secrets)} passwords, tokens and other secrets", f"{SECRETS_MAX}")


def _too_large(size: str, most: str) -> RequestError:
    return bad_request(f"The configuration has {size}, and at most {most} are allowed; divide the tables among several connectors")
