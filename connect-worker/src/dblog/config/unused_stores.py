"""Finds TLS files of the database that a connection without TLS would not use.

Whoever names a truststore expects TLS. Debezium's MariaDB connector, whose ``database.ssl.mode`` is ``disable`` by default, connects in
clear text all the same and reports nothing. Here the default does not decide it: the configuration has to name the mode. A mode that is
given counts, and is an insecure choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dblog.config.options import Option

_STORES: Mapping[str, tuple[str, ...]] = {
    "database.ssl.mode": ("database.ssl.truststore", "database.ssl.keystore"),
    "database.sslmode": ("database.sslrootcert", "database.sslcert", "database.sslkey"),
}
"""The keys of the files by the key of the mode: MySQL's and MariaDB's, PostgreSQL's."""
_WITHOUT_TLS = ("disable", "disabled")


def mode_of(options: Iterable[Option]) -> Option | None:
    """The option that has the mode of TLS; None for a connector without one."""
    return next((option for option in options if option.name in _STORES), None)


def unused_stores(properties: Mapping[str, str | None], *, mode: Option) -> tuple[str, ...]:
    """The keys of the files that the mode, given or by default, does not use."""
    chosen = properties.get(mode.name, mode.default) or ""
    if chosen.strip().lower() not in _WITHOUT_TLS:
        return ()
    return tuple(key for key in _STORES[mode.name] if (properties.get(key) or "").strip())


def refused_stores(properties: Mapping[str, str | None], *, mode: Option | None) -> dict[str, list[str]]:
    """Messages for files that only the mode's default leaves unused, by their keys."""
    if mode is None or mode.name in properties:
        return {}
    reason = (
        f"{mode.name} is not set and its default is {mode.default}, so the connection would not be encrypted and the store not be used; "
        f"set {mode.name}=verify-full (or verify-ca, or trust), or {mode.name}={mode.default} for a connection without TLS"
    )
    return {key: [f"The '{key}' value is invalid: {reason}"] for key in unused_stores(properties, mode=mode)}
