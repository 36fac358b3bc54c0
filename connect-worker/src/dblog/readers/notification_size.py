"""Shrinks a notification to a size that Kafka accepts.

A notification repeats texts from others: patterns of a signal, and keys of rows. Its readers want
to know that a dump has advanced, so the texts are cut at a marked position, and the connector
continues. Lists of more than 1000 tables are left out before that (core/notices.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TEXT_CHARS_MAX = (16 * 1024, 1024, 64)


def smaller_notifications(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the value with ever shorter texts."""
    for chars_max in _TEXT_CHARS_MAX:
        yield {**value, "additional_data": {name: _cut(text, chars_max) for name, text in value["additional_data"].items()}}


def _cut(text: str, chars_max: int) -> str:
    return (
        text
        if len(text) <= chars_max
        else f"{text[:chars_max]}... (cut by dblog: {len(text) - chars_max} of {len(text)} characters are left out)"
    )
