"""Finds secrets written out in a configuration, where the placeholder of a config provider could
be. They are stored as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from dblog.config.options import Kind, Option
from dblog.config.providers import placeholders_in
from dblog.config.secret_values import NO_SECRETS, is_secret, secret_spans, shown_name

_NAMED_MAX = 5
"""Number of keys that the header of an answer can show."""


def inline_secret_keys(options: Iterable[Option], properties: Mapping[str, str | None]) -> list[str]:
    """Return the keys whose values contain secrets written out.

    Excludes a misspelt password key, which is reported as misspelt.
    """
    kinds = {name: option.kind for option in options for name in (option.name, *option.aliases)}
    found = []
    for name, text in properties.items():
        if text is None or not text.strip() or text.strip().lower() in NO_SECRETS:
            continue
        secrets = [text[start:end] for start, end in secret_spans(name, text)]
        # The secrets of a text with assignments are within it.
        if not secrets and (kinds[name] is Kind.PASSWORD if name in kinds else is_secret(name)):
            secrets = [text]
        if any(next(placeholders_in(secret), None) is None for secret in secrets):
            found.append(name)
    return found


def described(keys: Sequence[str], providers: Collection[str]) -> str:
    """Return one warning that names all keys.

    A warning only, because Debezium's users write passwords out, and their configurations must
    work.
    """
    names = ", ".join(shown_name(key) for key in keys[:_NAMED_MAX])
    names += f" and {len(keys) - _NAMED_MAX} more" if len(keys) > _NAMED_MAX else ""
    remedy = (
        f"write a placeholder of a config provider instead ({', '.join(providers)})"
        if providers
        else "name a provider in config.providers of the worker's file, and write its placeholder, such as ${file:/path:key}, instead"
    )
    return f"{names}: written out, so it is stored as it is in the worker's topic of configurations; {remedy}"
