"""Parses the answers of a schema registry.

A connector's configuration names the address, so any program may answer there. Its text must not
reach an error message, because the user who named the address would see it. So each reader returns
a value of its type, or raises ``NotARegistryError`` without any text of the answer.
"""

from __future__ import annotations

import json
from typing import Any

from dblog.codecs.compatibility import Level

TOGETHER_PATH = "/schemas/together"
"""Path that registers several schemas at once. Only the worker's own registry has it."""
TOGETHER_MAX = 200
"""Schemas of one such request."""

_VALUES_MAX = 500_000
"""Commas in an answer, which bound its values. A schema of a megabyte has about 50 000."""
_ID_MAX = 2**31 - 1
_ERROR_CODE_MAX = 99_999


class NotARegistryError(ValueError):
    """Raised for an answer that no registry gives."""


def parse_answer(data: bytes) -> Any:
    """Return the JSON value of an answer. The parser bounds its nesting."""
    if data.count(b",") > _VALUES_MAX:
        raise NotARegistryError
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise NotARegistryError from None


def id_of(answer: Any) -> int:
    """Return the id of a schema, checked to fit into a record's frame."""
    return _number(_member(answer, "id"), _ID_MAX)


def ids_of(answer: Any, count: int) -> list[int | None]:
    """Return the ids of several schemas in the request's order, None for a refused one."""
    if not isinstance(answer, list) or len(answer) != count:
        raise NotARegistryError
    return [None if isinstance(one, dict) and "error_code" in one else id_of(one) for one in answer]


def text_of(answer: Any) -> str:
    """Return the text of a schema."""
    text = _member(answer, "schema")
    if not isinstance(text, str) or not _is_unicode(text):
        raise NotARegistryError
    return text


def versions_of(answer: Any) -> list[int]:
    """Return the numbers of a subject's versions."""
    if not isinstance(answer, list):
        raise NotARegistryError
    return [_number(number, _ID_MAX) for number in answer]


def level_of(answer: Any) -> Level:
    """Return the compatibility level of a subject."""
    level = _member(answer, "compatibilityLevel")
    if not isinstance(level, str) or level not in Level.__members__:
        raise NotARegistryError
    return Level(level)


def error_code_of(data: bytes) -> int | None:
    """Return the error code of a registry's error, or None for any other answer."""
    try:
        return _number(_member(parse_answer(data), "error_code"), _ERROR_CODE_MAX)
    except NotARegistryError:
        return None


def message_of(data: bytes) -> str | None:
    """Return the message of a registry's error, or None.

    Show it only for the worker's own registry.
    """
    try:
        message = _member(parse_answer(data), "message")
    except NotARegistryError:
        return None
    return message if isinstance(message, str) and _is_unicode(message) else None


def _member(answer: Any, name: str) -> Any:
    if not isinstance(answer, dict) or name not in answer:
        raise NotARegistryError
    return answer[name]


def _number(value: Any, greatest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= greatest:
        raise NotARegistryError
    return value


def _is_unicode(text: str) -> bool:
    """Return False for half a surrogate pair, which JSON can express but no record can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
