"""The worker's properties with their placeholders resolved by the config providers that the same
file names.

As in Kafka (AbstractConfig), the keys of ``config.providers`` create the providers, so nothing
resolves these keys themselves. Unlike in Kafka, an unresolvable placeholder ends the start: a
worker that looks for brokers at ``${env:BROKERS}`` would wait forever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dblog.config.clients import CLIENT_CHOICES
from dblog.config.options import split_list
from dblog.config.providers import Provider, Resolution, WithheldProvider, build_providers, placeholders_in, resolve
from dblog.config.secret_values import secret_keys
from dblog.config.secrets import secrets_of
from dblog.config.worker_options import WORKER_OPTIONS
from dblog.errors import ConfigError

_PROVIDERS = "config.providers"
_WITHHELD = "dblog.config.providers.own"

_UNCOMMON_LENGTH_MIN = 8
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_SWITCHES = frozenset({"true", "false", "none", "null"})
_CHOICES = _SWITCHES | {choice.lower() for option in WORKER_OPTIONS for choice in option.choices} | set(CLIENT_CHOICES)


@dataclass(frozen=True, slots=True)
class WorkerFile:
    """The resolved content of a worker's file."""

    texts: dict[str, str]
    """Every key, resolved."""
    placeholders: dict[str, str]
    """Original text by key, for keys that had a placeholder."""
    providers: Mapping[str, Provider]
    """Providers for the placeholders of connectors. A provider reserved for the worker is replaced
    by one that refuses.
    """
    hidden: dict[str, str]
    """Each secret of the file, with what is shown instead.

    Values of providers are secrets, as in a connector's configuration, with two exceptions that
    keep log lines readable. Options that the worker itself declares (group, addresses, levels)
    appear in its log, answers and topics. And a number, a choice (``true``, ``snappy``) or a text
    of less than 8 characters is an ordinary word, unless the name of its key suggests a secret.
    """


def resolve_worker_file(written: Mapping[str, str]) -> WorkerFile:
    """Resolve a worker's file.

    Raise ConfigError with every key that cannot be resolved, without any value.
    """
    own = {name: text for name, text in written.items() if name in (_PROVIDERS, _WITHHELD) or name.startswith(f"{_PROVIDERS}.")}
    _require_plain(own)
    withheld = split_list(own.get(_WITHHELD, ""))
    providers = build_providers(split_list(own.get(_PROVIDERS, "")), own, withheld=withheld)
    if unknown := [name for name in withheld if name not in providers]:
        message = f"{_PROVIDERS} has no {', '.join(unknown)}; name here only what it names"
        raise ConfigError({_WITHHELD: [message]})
    by_owner = {name: provider.for_owner() for name, provider in providers.items()}
    declared_names = {option.name for option in WORKER_OPTIONS}
    declared = resolve(_of_names(written, declared_names - own.keys()), by_owner)
    others = resolve(_of_names(written, written.keys() - declared_names - own.keys()), by_owner)
    if errors := declared.errors | others.errors:
        raise ConfigError(errors)
    texts = {**written, **declared.values, **others.values}
    placeholders = declared.placeholders | others.placeholders
    hidden = secrets_of(Resolution(texts, placeholders, _uncommon(others), {}), written, WORKER_OPTIONS)
    of_connectors = providers | {name: WithheldProvider(_WITHHELD) for name in withheld}
    return WorkerFile(texts, placeholders, of_connectors, hidden)


def _uncommon(resolution: Resolution) -> dict[str, str]:
    """Return the providers' values without ordinary words.

    The whole value of a secret key stays.
    """
    whole = {resolution.values[name].strip() for name in secret_keys(WORKER_OPTIONS, resolution.values)} - _SWITCHES
    return {secret: shown for secret, shown in resolution.secrets.items() if secret.strip() in whole or not _is_ordinary(secret.strip())}


def _is_ordinary(text: str) -> bool:
    return len(text) < _UNCOMMON_LENGTH_MIN or _NUMBER.fullmatch(text) is not None or text.lower() in _CHOICES


def _require_plain(own: Mapping[str, str]) -> None:
    errors = {
        name: [f"{text[start:end]} is not resolved here, for these keys make the config providers; write the value itself"]
        for name, text in own.items()
        for start, end in placeholders_in(text)
    }
    if errors:
        raise ConfigError(errors)


def _of_names(written: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    wanted = set(names)
    return {name: text for name, text in written.items() if name in wanted}
