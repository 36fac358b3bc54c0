"""Texts that must not be shown, and what stands for them: the secrets of a configuration in lines of the log, in errors and in traces."""

from __future__ import annotations

import json
from collections.abc import Mapping


def forms_of(secret: str) -> tuple[str, str, str]:
    """A secret as it is, and as it is written in JSON, with and without escapes of what is not ASCII."""
    return secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]


class Hidden:
    """Takes known texts out of others."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        """``known``: a secret, and what is shown instead."""
        self._known: tuple[tuple[str, str], ...] = ()
        self.take(known or {})

    def take(self, known: Mapping[str, str]) -> None:
        """Hide these from now on, and no others. Each is hidden as it is written in JSON too; what another one contains comes later."""
        written = {form: shown for secret, shown in known.items() for form in forms_of(secret)}
        self._known = tuple(sorted(written.items(), key=lambda pair: -len(pair[0])))

    def out_of(self, text: str) -> str:
        """The text without them."""
        for secret, shown in self._known:
            text = text.replace(secret, shown)
        return text


HIDDEN_IN_LOG = Hidden()
"""Of this process's own lines: a task takes its configuration's."""
