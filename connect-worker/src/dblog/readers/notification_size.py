"""Fit a notification into what Kafka takes.

It repeats what others chose: patterns of a signal, and keys of rows. Who waits for it wants to know
that a dump has come on, so its texts are cut at a marked place, and the connector goes on. Lists of
more than 1000 tables are left out before that (core/notices.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TEXT_CHARS_MAX = (16 * 1024, 1024, 64)


def smaller_notifications(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Give the value with shorter and shorter texts, for as long as it is too large."""
    for chars_max in _TEXT_CHARS_MAX:
        yield {**value, "additional_data": {name: _cut(text, chars_max) for name, text in value["additional_data"].items()}}


def _cut(text: str, chars_max: int) -> str:
    return (
        text
        if len(text) <= chars_max
        else f"{text[:chars_max]}... (cut by dblog: {len(text) - chars_max} of {len(text)} characters are left out)"
    )
