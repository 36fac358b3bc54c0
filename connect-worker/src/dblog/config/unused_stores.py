"""Finds TLS files of the database that a connection without TLS would not use.

A user who names a truststore expects TLS. Debezium's MariaDB connector, whose ``database.ssl.mode``
is ``disable`` by default, connects in clear text all the same and reports nothing. Here the default
is not enough: the configuration has to name the mode. An explicit mode without TLS is accepted, as
an insecure choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dblog.config.options import Option

_STORES: Mapping[str, tuple[str, ...]] = {
    "database.ssl.mode": ("database.ssl.truststore", "database.ssl.keystore"),
    "database.sslmode": ("database.sslrootcert", "database.sslcert", "database.sslkey"),
}
"""Options with files, by the option with the mode: MySQL's and MariaDB's, PostgreSQL's."""
_WITHOUT_TLS = ("disable", "disabled")


def mode_of(options: Iterable[Option]) -> Option | None:
    """Return the option with the TLS mode, or None for a connector without one."""
    return next((option for option in options if option.name in _STORES), None)


def unused_stores(properties: Mapping[str, str | None], *, mode: Option) -> tuple[str, ...]:
    """Return the file options that the mode, explicit or by default, does not use."""
    chosen = properties.get(mode.name, mode.default) or ""
    if chosen.strip().lower() not in _WITHOUT_TLS:
        return ()
    return tuple(key for key in _STORES[mode.name] if (properties.get(key) or "").strip())


def refused_stores(properties: Mapping[str, str | None], *, mode: Option | None) -> dict[str, list[str]]:
    """Return errors, by option, for files that only the default of the mode leaves unused."""
    if mode is None or mode.name in properties:
        return {}
    reason = (
        f"{mode.name} is not set and its default is {mode.default}, so the connection would not be encrypted and the store not be used; "
        f"set {mode.name}=verify-full (or verify-ca, or trust), or {mode.name}={mode.default} for a connection without TLS"
    )
    return {key: [f"The '{key}' value is invalid: {reason}"] for key in unused_stores(properties, mode=mode)}
