"""Parses request bodies as JSON, within bounds that keep one request from blocking the others.

The standard library's parser lets no other thread run while it works, and creates a Python object
for every value. So the bytes are checked against the bounds first, which takes a millisecond.
"""

from __future__ import annotations

import json
from typing import Any

BODY_BYTES_MAX = 10 * 1024 * 1024
"""Larger bodies get 413. Kafka's own limit for a configuration's record is a tenth of this."""

_VALUES_MAX = 200_000
"""Commas in a body, which bound its values. A megabyte of Avro schema has about 50 000."""


class BadBodyError(ValueError):
    """The body is not usable JSON. The client gets the text."""


class Number(str):
    """The text of a JSON number.

    Connect turns scalars into strings, and 1.10 must not become 1.1.
    """

    __slots__ = ()


def parse_body(data: bytes, *, numbers_as_text: bool = False) -> Any:
    """Return the JSON value of a body.

    Raise BadBodyError for invalid JSON, for too many values or levels, and for text that is not
    valid Unicode.
    """
    if data.count(b",") > _VALUES_MAX:
        raise BadBodyError(f"The request body has more than {_VALUES_MAX} values")
    try:
        if numbers_as_text:
            value = json.loads(data, parse_int=Number, parse_float=Number, parse_constant=Number)
        else:
            value = json.loads(data, parse_constant=_no_number)
        if b"\\u" in data or not data.isascii():
            # Detects half of a surrogate pair, written with \u or as three bytes that Python's
            # parser accepts. No answer and no record could hold it.
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as e:
        raise BadBodyError("The request body is not valid JSON: it has too many levels") from e
    except UnicodeError as e:
        raise BadBodyError("The request body is not valid JSON: its text is not Unicode") from e
    except ValueError as e:
        raise BadBodyError(f"The request body is not valid JSON: {e}") from e
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")
