"""Kafka's JsonConverter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dblog.codecs.json import JsonForm, schemaless, value_writer
from dblog.codecs.schema import Schema
from dblog.errors import ConfigError
from dblog.kafka.converters.contract import Once, WithoutRegistry, flag


class JsonConverter(WithoutRegistry):
    """Kafka's JsonConverter."""

    writes_structs = True

    def __init__(self, settings: Mapping[str, str], *, option_prefix: str) -> None:
        self._form = json_form(settings, option_prefix=option_prefix)
        self._known = Once[Callable[[Any], bytes]]()

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the value as JSON, with its schema if schemas.enable is set."""
        if schema is None:
            return None if value is None else schemaless(value, self._form)
        return self._known.of(topic, schema, lambda: value_writer(schema, self._form))(value)

    def partial_fault(self) -> str | None:
        """Return None if records carry their schema, which marks such records."""
        if self._form.schemas_enable:
            return None
        return "without schemas (schemas.enable=false) nothing shows that the other columns are as they were; set it to true"


def json_form(settings: Mapping[str, str], *, option_prefix: str) -> JsonForm:
    """Return the form that a converter's settings choose. Raise ConfigError naming the option."""
    decimal_format = settings.get("decimal.format", "BASE64").upper()
    if decimal_format not in ("BASE64", "NUMERIC"):
        raise ConfigError({f"{option_prefix}decimal.format": [f"{decimal_format} is not one of BASE64, NUMERIC"]})
    return JsonForm(
        schemas_enable=flag(settings, "schemas.enable", default=True),
        decimal_numeric=decimal_format == "NUMERIC",
        replace_null_with_default=flag(settings, "replace.null.with.default", default=True),
    )
