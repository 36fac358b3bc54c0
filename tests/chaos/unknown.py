"""What a record has of a value that the log does not show: Debezium's placeholder, in the form of each kind of column.

MySQL leaves large columns out of the log with binlog_row_image=NOBLOB, PostgreSQL those that an update left alone (TOAST).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from base64 import b64encode, urlsafe_b64encode
from typing import Any

_UNKNOWN = b"__debezium_unavailable_value"
_TEXT = _UNKNOWN.decode()
_BYTES = list(memoryview(_UNKNOWN).cast("b"))
_BASE64 = b64encode(_UNKNOWN).decode()
_TEXTS = (_TEXT, json.dumps(_TEXT), _BASE64, urlsafe_b64encode(_UNKNOWN).decode(), _UNKNOWN.hex(), b64encode(b64encode(_UNKNOWN)).decode())
_STRUCTS = (
    *({"wkb": one, "srid": None} for one in (_UNKNOWN, _BASE64)),
    *({"scale": 0, "value": one} for one in (_UNKNOWN, _BASE64)),
    {_TEXT: _TEXT},
)
_MAPS = (json.dumps({_TEXT: _TEXT}), json.dumps({_TEXT: _TEXT}, separators=(",", ":")))
_ARRAYS = (
    _BYTES,
    [bool(number >> bit & 1) for number in _BYTES for bit in range(7, -1, -1)],
    [number.to_bytes(1, "big", signed=True) for number in _BYTES],
    [b64encode(number.to_bytes(1, "big", signed=True)).decode() for number in _BYTES],
    [str(uuid.UUID(bytes=hashlib.md5(_UNKNOWN, usedforsecurity=False).digest(), version=3))],
    *([one] for one in (_UNKNOWN, *_TEXTS, *_MAPS, *_STRUCTS)),
)
_ALL = (_UNKNOWN, *_TEXTS, *_MAPS, *_STRUCTS, *_ARRAYS)


def is_unknown(value: Any) -> bool:
    """Whether a record's value only says that there is one."""
    return isinstance(value, str | bytes | list | dict) and any(value == one for one in _ALL)
