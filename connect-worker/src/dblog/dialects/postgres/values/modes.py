"""Holds the connector options that decide what PostgreSQL's columns become in records.

Names and defaults are those of Debezium's PostgreSQL connector (manual, Connector configuration
properties).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dblog.codecs.rewrites import Rewrite
from dblog.errors import DefiniteError

TIME_MODES = ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")
DECIMAL_MODES = ("precise", "double", "string")
BINARY_MODES = ("bytes", "base64", "base64-url-safe", "hex")
HSTORE_MODES = ("json", "map")
INTERVAL_MODES = ("numeric", "string")
CONVERTING_FAILURE_MODES = ("warn", "fail", "skip")
UNAVAILABLE = "__debezium_unavailable_value"

_HEX = "hex:"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeModes:
    """The handling modes. The names are Debezium's property names with underscores. Raise
    DefiniteError for an unknown mode.
    """

    time_precision_mode: str = "adaptive"
    decimal_handling_mode: str = "precise"
    binary_handling_mode: str = "bytes"
    hstore_handling_mode: str = "json"
    interval_handling_mode: str = "numeric"
    event_converting_failure_handling_mode: str = "warn"
    money_fraction_digits: int = 2
    include_unknown_datatypes: bool = False
    include_schema_comments: bool = False
    unavailable_value_placeholder: str = UNAVAILABLE
    column_propagate_source_type: Callable[[str], bool] | None = field(default=None, compare=False)
    """Predicate for ``schema.table.column``: True if the column gets ``__debezium.source.column.*``
    parameters. None if no column does.
    """
    datatype_propagate_source_type: Callable[[str], bool] | None = field(default=None, compare=False)
    """Predicate for ``schema.table.type``: True if columns of the type get these parameters. None
    if none do.
    """
    column_rewrite: Callable[[str], Rewrite | None] | None = field(default=None, compare=False)
    """Function that returns the rewrite of a column's values for ``schema.table.column``, or
    None.
    """

    def __post_init__(self) -> None:
        """Raise DefiniteError for an unknown mode, digits below zero or a placeholder that is not
        hexadecimal.
        """
        _check("time.precision.mode", self.time_precision_mode, TIME_MODES)
        _check("decimal.handling.mode", self.decimal_handling_mode, DECIMAL_MODES)
        _check("binary.handling.mode", self.binary_handling_mode, BINARY_MODES)
        _check("hstore.handling.mode", self.hstore_handling_mode, HSTORE_MODES)
        _check("interval.handling.mode", self.interval_handling_mode, INTERVAL_MODES)
        _check("event.converting.failure.handling.mode", self.event_converting_failure_handling_mode, CONVERTING_FAILURE_MODES)
        if self.money_fraction_digits < 0:
            raise DefiniteError(f"money.fraction.digits={self.money_fraction_digits} is not a number of digits; use 0 or more")
        _ = self.placeholder

    @classmethod
    def from_settings(
        cls,
        settings: Mapping[str, Any],
        *,
        column_propagate: Callable[[str], bool] | None = None,
        datatype_propagate: Callable[[str], bool] | None = None,
        column_rewrite: Callable[[str], Rewrite | None] | None = None,
    ) -> TypeModes:
        """Return the modes from a connector's properties or parsed settings, by property name.
        Missing ones keep Debezium's default.
        """

        def text(name: str, default: str) -> str:
            value = settings.get(name)
            return default if value is None else str(value).strip().lower()

        digits = text("money.fraction.digits", "2")
        if not digits.removeprefix("-").isdecimal():
            raise DefiniteError(f"money.fraction.digits={digits} is not a number of digits; use 0 or more")
        placeholder = settings.get("unavailable.value.placeholder")
        return cls(
            time_precision_mode=text("time.precision.mode", "adaptive"),
            decimal_handling_mode=text("decimal.handling.mode", "precise"),
            binary_handling_mode=text("binary.handling.mode", "bytes"),
            hstore_handling_mode=text("hstore.handling.mode", "json"),
            interval_handling_mode=text("interval.handling.mode", "numeric"),
            event_converting_failure_handling_mode=text("event.converting.failure.handling.mode", "warn"),
            money_fraction_digits=int(digits),
            include_unknown_datatypes=text("include.unknown.datatypes", "false") == "true",
            include_schema_comments=text("include.schema.comments", "false") == "true",
            unavailable_value_placeholder=UNAVAILABLE if placeholder is None else str(placeholder),
            column_propagate_source_type=column_propagate,
            datatype_propagate_source_type=datatype_propagate,
            column_rewrite=column_rewrite,
        )

    @property
    def placeholder(self) -> bytes:
        """Placeholder for an unchanged TOAST value: the option's text in UTF-8, or the bytes
        written after ``hex:``.
        """
        text = self.unavailable_value_placeholder
        if not text.startswith(_HEX):
            return text.encode()
        try:
            return bytes.fromhex(text.removeprefix(_HEX))
        except ValueError:
            raise DefiniteError(
                f"unavailable.value.placeholder={text} is not hexadecimal; write two digits 0-9, a-f for each byte after {_HEX}"
            ) from None


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise DefiniteError(f"{name}={value} is not supported by this connector; use one of {', '.join(allowed)}")
