"""``slot.stream.params``: further options of the plugin that writes a slot's messages, as ``name=value;name=value`` (Debezium's form).

Of pgoutput's (PostgreSQL manual, 55.5 "Logical Streaming Replication Parameters") a user may choose ``origin``. The others decide the form of the messages,
which dblog sets as its decoder reads them.
"""

from __future__ import annotations

from dblog.errors import ConfigError

STREAM_PARAMS = "slot.stream.params"
_VALUES = {"origin": ("any", "none")}


def stream_params(text: str | None) -> dict[str, str]:
    """The options, by name. Raises ConfigError for one that is none of a user's choice."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in (text or "").split(";"))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in _VALUES:
            why = f"{name} is no option that can be set: dblog sets those of pgoutput by itself, but for origin; remove it from the key"
            raise ConfigError({STREAM_PARAMS: [why]})
        if value not in _VALUES[name]:
            raise ConfigError({STREAM_PARAMS: [f"{name} must be one of {', '.join(_VALUES[name])}"]})
        found[name] = value
    return found
