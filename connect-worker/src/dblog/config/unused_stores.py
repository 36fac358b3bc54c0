"""Finds TLS stores of the database that a connection without TLS would not use.

Whoever names a truststore expects TLS. Debezium's MariaDB connector, whose ``database.ssl.mode`` is ``disable`` by default, connects in clear text all the same
and reports nothing. Here the default does not decide it: the configuration has to name the mode. A mode that is given counts, and is an insecure choice.
"""

from __future__ import annotations

from collections.abc import Mapping

MODE = "database.ssl.mode"
_STORES = ("database.ssl.truststore", "database.ssl.keystore")
_WITHOUT_TLS = ("disable", "disabled")


def unused_stores(properties: Mapping[str, str | None], *, mode_default: str | None) -> tuple[str, ...]:
    """The keys of the stores that the mode, given or by default, does not use."""
    mode = properties.get(MODE, mode_default) or ""
    if mode.strip().lower() not in _WITHOUT_TLS:
        return ()
    return tuple(key for key in _STORES if (properties.get(key) or "").strip())


def refused_stores(properties: Mapping[str, str | None], *, mode_default: str | None) -> dict[str, list[str]]:
    """Messages for stores that only the mode's default leaves unused, by their keys."""
    if MODE in properties:
        return {}
    reason = (
        f"{MODE} is not set and its default is {mode_default}, so the connection would not be encrypted and the store not be used; "
        f"set {MODE}=verify-full (or verify-ca, or trust), or {MODE}={mode_default} for a connection without TLS"
    )
    return {key: [f"The '{key}' value is invalid: {reason}"] for key in unused_stores(properties, mode_default=mode_default)}
