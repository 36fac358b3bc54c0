"""Converters of columns that ``converters`` names, by the Java classes that people use.

Debezium's ``CustomConverter`` is Java. Of its own, TinyIntOneToBooleanConverter runs here, for MySQL
and MariaDB; every other class is refused by name, for a converter that is silently ignored would
change what readers get.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dblog.config.options import regexes, split_list
from dblog.config.regex import Room

BOOLEAN_CLASS = "io.debezium.connector.binlog.converters.TinyIntOneToBooleanConverter"
_BOOLEAN_CLASSES = (
    BOOLEAN_CLASS,
    "io.debezium.connector.mysql.converters.TinyIntOneToBooleanConverter",
    "io.debezium.connector.mariadb.converters.TinyIntOneToBooleanConverter",
)
_TYPE, _SELECTOR, _LENGTH = "type", "selector", "length.checker"
_REASONS = {
    "JdbcSinkDataTypesConverter": "this worker does not have it; let the sink map BOOLEAN and REAL columns, and remove the key",
    "ZeroDateFallbackConverter": "a zero date is null or 1970-01-01 here, as without the converter; remove the key",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanColumns:
    """The columns of type TINYINT that become true and false.

    ``selector`` is a list of regular expressions for ``db.table.column``, empty for all columns.
    """

    option: str
    selector: str
    only_width_one: bool
    """True if only columns with the display width 1 are converted, as in TINYINT(1)."""


def column_converters(properties: Mapping[str, str | None]) -> tuple[tuple[BooleanColumns, ...], dict[str, list[str]]]:
    """Return the converters in the order of their names, and the errors by key."""
    found: list[BooleanColumns] = []
    errors: dict[str, list[str]] = {}
    room = Room()
    for name in names_of(properties):
        given = {
            key.removeprefix(f"{name}."): value for key, value in properties.items() if key.startswith(f"{name}.") and value is not None
        }
        class_name = given.get(_TYPE, "").strip()
        if not class_name:
            errors.setdefault("converters", []).append(f"{name} has no class; name it in {name}.{_TYPE}, such as {BOOLEAN_CLASS}")
            continue
        if class_name not in _BOOLEAN_CLASSES:
            errors[f"{name}.{_TYPE}"] = [_refused(class_name)]
            continue
        for key in given.keys() - {_TYPE, _SELECTOR, _LENGTH}:
            errors[f"{name}.{key}"] = [f"there is no such option; the converter has {_SELECTOR} and {_LENGTH}"]
        selector = given.get(_SELECTOR, "").strip()
        if selector and (wrong := regexes(split_list(selector), {}, room=room)) is not None:
            errors[f"{name}.{_SELECTOR}"] = [wrong]
        only_width_one = given.get(_LENGTH, "").strip().lower() in ("", "true")
        found.append(BooleanColumns(option=f"{name}.{_SELECTOR}", selector=selector, only_width_one=only_width_one))
    return tuple(found), errors


def names_of(properties: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the names in ``converters``, whose settings have them as a prefix."""
    return tuple(dict.fromkeys(split_list(properties.get("converters") or "")))


def _refused(class_name: str) -> str:
    reason = _REASONS.get(class_name.rpartition(".")[2])
    return f"class {class_name} does not run in this worker: {reason or f'Java classes cannot; it has {BOOLEAN_CLASS} alone'}"
