"""Reads a request's body as JSON, within bounds that keep one request from holding up the others.

The parser of the standard library does not let other threads run while it works, and it makes a Python object of every value. So what is too much is
counted in the bytes first, which takes a millisecond.
"""

from __future__ import annotations

import json
from typing import Any

BODY_BYTES_MAX = 10 * 1024 * 1024
"""A larger body is answered with 413. Kafka's own limit for the record that a configuration becomes is a tenth of this."""

_VALUES_MAX = 200_000
"""Commas in a body, which bound its values: a megabyte of Avro schema has some 50 000."""


class BadBodyError(ValueError):
    """The body is no JSON that can be used; the text goes to the client."""


class Number(str):
    """The text of a JSON number: Connect makes strings of scalars, and 1.10 must not become 1.1."""

    __slots__ = ()


def parse_body(data: bytes, *, numbers_as_text: bool = False) -> Any:
    """The JSON value of a body. ``BadBodyError`` for no JSON, for too many values or levels, and for text that is no Unicode."""
    if data.count(b",") > _VALUES_MAX:
        raise BadBodyError(f"The request body has more than {_VALUES_MAX} values")
    try:
        if numbers_as_text:
            value = json.loads(data, parse_int=Number, parse_float=Number, parse_constant=Number)
        else:
            value = json.loads(data, parse_constant=_no_number)
        if b"\\u" in data or not data.isascii():
            # Half of a surrogate pair, written with \u or as the three bytes that Python's parser lets pass: no answer and no record could carry it.
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as e:
        raise BadBodyError("The request body is not valid JSON: it has too many levels") from e
    except UnicodeError as e:
        raise BadBodyError("The request body is not valid JSON: its text is not Unicode") from e
    except ValueError as e:
        raise BadBodyError(f"The request body is not valid JSON: {e}") from e
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")
