"""Rules from the key families that truncate, mask or hash the values of columns.

Debezium's (``RelationalDatabaseConnectorConfig``, ``ColumnMappers``):
``column.truncate.to.<N>.chars``, ``column.mask.with.<N>.chars``,
``column.mask.hash.<algorithm>.with.salt.<salt>`` and ``column.mask.hash.v2...``. Each value is a
list of regular expressions for ``db.table.column``. Only the first rule that matches a column
applies, in this order of families. A key that only resembles one of these is an error, because a
mask without effect would be worse; Debezium ignores it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_FAMILY = re.compile(r"column\.(?:truncate|mask)\..*", re.DOTALL)
_CUT = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
_MASK = re.compile(r"column\.mask\.with\.(\d+)\.chars")
_HASH = re.compile(r"column\.mask\.hash(\.v2)?\.([^.]+)\.with\.salt\.(.+)", re.DOTALL)
ALGORITHMS = ("MD5", "SHA-1", "SHA-224", "SHA-256", "SHA-384", "SHA-512", "SHA3-224", "SHA3-256", "SHA3-384", "SHA3-512", "SHA", "SHA1")
_LENGTH_MAX = 2**31 - 1
_DIGITS_MAX = 40
MASK_LENGTH_MAX = 65_535
"""Debezium accepts any integer. The mask is in each record, and no VARCHAR is longer than this."""
MASKS_LENGTH_MAX = 1 << 20
"""Total length of a connector's masks. A request to validate may name as many as fit its body."""
_KEYS = (
    "column.truncate.to.<N>.chars",
    "column.mask.with.<N>.chars",
    "column.mask.hash.<algorithm>.with.salt.<salt>",
    "column.mask.hash.v2.<algorithm>.with.salt.<salt>",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRule:
    """A rule from one key.

    ``kind`` is ``truncate``, ``mask`` or ``hash``; ``columns`` is the unsplit list.
    """

    option: str
    columns: str
    kind: str
    length: int = 0
    algorithm: str = ""
    salt: str = ""
    version: int = 1


def column_rules(properties: Mapping[str, str | None]) -> tuple[tuple[ColumnRule, ...], dict[str, list[str]]]:
    """Return the rules in the order of their precedence, and the errors by key."""
    found: list[tuple[tuple[int, int, str], ColumnRule]] = []
    errors: dict[str, list[str]] = {}
    for name, columns in properties.items():
        if not _FAMILY.fullmatch(name) or columns is None:
            continue
        if match := _CUT.fullmatch(name):
            _numbered(name, columns, "truncate", 0, match[1], found, errors)
        elif match := _MASK.fullmatch(name):
            _numbered(name, columns, "mask", 1, match[1], found, errors)
        elif match := _HASH.fullmatch(name):
            if match[2].upper() not in ALGORITHMS:
                errors[name] = [f"there is no digest {match[2]} here; use one of {', '.join(ALGORITHMS[:-2])}"]
            version = 2 if match[1] else 1
            rule = ColumnRule(option=name, columns=columns, kind="hash", algorithm=match[2], salt=match[3], version=version)
            found.append(((1 + version, 0, name), rule))
        else:
            errors[name] = [f"no such key; use one of {', '.join(_KEYS)}"]
    _refuse_masks_beyond(MASKS_LENGTH_MAX, [rule for _, rule in found if rule.kind == "mask"], errors)
    return tuple(rule for _, rule in sorted(found, key=lambda pair: pair[0]) if rule.option not in errors), errors


def _refuse_masks_beyond(length_max: int, masks: list[ColumnRule], errors: dict[str, list[str]]) -> None:
    """Add an error for each mask that takes the total length above ``length_max``."""
    total = 0
    for mask in masks:
        total += mask.length
        if total > length_max:
            errors[mask.option] = [f"the masks of the connector have more than {length_max} characters together; use shorter ones"]


def _numbered(
    name: str,
    columns: str,
    kind: str,
    family: int,
    digits: str,
    found: list[tuple[tuple[int, int, str], ColumnRule]],
    errors: dict[str, list[str]],
) -> None:
    least, most = (1, _LENGTH_MAX) if kind == "truncate" else (0, MASK_LENGTH_MAX)
    shown = digits if len(digits) <= _DIGITS_MAX else f"{digits[:_DIGITS_MAX]}..."
    # Python refuses to parse thousands of digits
    length = int(digits) if len(digits) <= _DIGITS_MAX else _LENGTH_MAX + 1
    if not least <= length <= most:
        errors[name] = [f"{shown} is not a length; use a number from {least} to {most}"]
        return
    found.append(((family, length, name), ColumnRule(option=name, columns=columns, kind=kind, length=length)))
