"""``slot.stream.params``: further options of the slot's output plugin, as ``name=value;name=value``
(Debezium's form).

Of pgoutput's options (PostgreSQL manual, 55.5 "Logical Streaming Replication Parameters") users may
set ``origin``. The others decide the format of the messages, so dblog sets them for its decoder.
"""

from __future__ import annotations

from dblog.errors import ConfigError

STREAM_PARAMS = "slot.stream.params"
_VALUES = {"origin": ("any", "none")}


def stream_params(text: str | None) -> dict[str, str]:
    """Return the options by name. Raise ConfigError for one that users may not set."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in (text or "").split(";"))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in _VALUES:
            why = f"{name} is not an option that can be set: dblog sets those of pgoutput by itself, but for origin; remove it from the key"
            raise ConfigError({STREAM_PARAMS: [why]})
        if value not in _VALUES[name]:
            raise ConfigError({STREAM_PARAMS: [f"{name} must be one of {', '.join(_VALUES[name])}"]})
        found[name] = value
    return found
