"""Reads what the address of a schema registry answers, as what a registry answers or not at all.

The address may be anybody's, for a connector's configuration names it. What another program answers there must end in our own sentence: its text in an
error would be shown to whoever named the address. So each reader gives a value of its type, or ``NotARegistryError`` without any text of the answer.
"""

from __future__ import annotations

import json
from typing import Any

from dblog.codecs.compatibility import Level

TOGETHER_PATH = "/schemas/together"
"""Where the worker's own registry registers several schemas with one request; no other has it."""
TOGETHER_MAX = 200
"""Schemas of one such request."""

_VALUES_MAX = 500_000
"""Commas of an answer, which bound its values: a schema of a megabyte has some 50 000."""
_ID_MAX = 2**31 - 1
_ERROR_CODE_MAX = 99_999


class NotARegistryError(ValueError):
    """No registry answers so."""


def parse_answer(data: bytes) -> Any:
    """The JSON value of an answer of bounded size; its levels are bounded by the parser."""
    if data.count(b",") > _VALUES_MAX:
        raise NotARegistryError
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise NotARegistryError from None


def id_of(answer: Any) -> int:
    """The id of a schema, as it fits into a record's frame."""
    return _number(_member(answer, "id"), _ID_MAX)


def ids_of(answer: Any, count: int) -> list[int | None]:
    """The ids of several schemas, in the order of the question; None for each that is refused."""
    if not isinstance(answer, list) or len(answer) != count:
        raise NotARegistryError
    return [None if isinstance(one, dict) and "error_code" in one else id_of(one) for one in answer]


def text_of(answer: Any) -> str:
    """The text of a schema."""
    text = _member(answer, "schema")
    if not isinstance(text, str) or not _is_unicode(text):
        raise NotARegistryError
    return text


def versions_of(answer: Any) -> list[int]:
    """The numbers of a subject's versions."""
    if not isinstance(answer, list):
        raise NotARegistryError
    return [_number(number, _ID_MAX) for number in answer]


def level_of(answer: Any) -> Level:
    """The compatibility that is asked of a subject."""
    level = _member(answer, "compatibilityLevel")
    if not isinstance(level, str) or level not in Level.__members__:
        raise NotARegistryError
    return Level(level)


def error_code_of(data: bytes) -> int | None:
    """The number that a registry gives its errors; None of any other answer."""
    try:
        return _number(_member(parse_answer(data), "error_code"), _ERROR_CODE_MAX)
    except NotARegistryError:
        return None


def message_of(data: bytes) -> str | None:
    """The words that a registry gives its errors; only for those of the worker's own."""
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
    """Half of a surrogate pair can be written in JSON, and could go into no record and no answer."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
