"""The secrets of a resolved configuration, each with what may be shown instead: its placeholder if
it came from a provider, else ``[hidden]``.

``secret_values`` finds the secrets of the configuration. This module adds the providers' values,
the parts of a template around its placeholders, and each line of a multi-line secret, because error
texts quote parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from dblog.config.options import HIDDEN, Option
from dblog.config.providers import SCRUBBED_LENGTH_MIN, Resolution, placeholders_in
from dblog.config.secret_values import secret_keys
from dblog.config.secret_values import secrets_of as secret_texts_of


def secrets_of(resolution: Resolution, properties: Mapping[str, str | None], options: tuple[Option, ...]) -> dict[str, str]:
    """Return each secret with what may be shown instead.

    Short texts are left out: they are hardly secrets, and would blank out half of any text.
    """
    values = {name: resolution.values.get(name, text) for name, text in properties.items()}
    written = list(secret_texts_of(options, values))
    for name in secret_keys(options, properties):
        written += _between_placeholders(properties[name] or "")
        if name.endswith("user.info"):
            written.append((values[name] or "").partition(":")[2])
    written += [line for text in written if "\n" in text for line in text.splitlines()]
    written += [unquote(text) for text in written if "%" in text]
    found = dict.fromkeys(written, HIDDEN) | resolution.secrets
    return {text: shown for text, shown in found.items() if len(text.strip()) >= SCRUBBED_LENGTH_MIN}


def _between_placeholders(text: str) -> Iterator[str]:
    end = 0
    for start, behind in placeholders_in(text):
        yield text[end:start]
        end = behind
    yield text[end:]
