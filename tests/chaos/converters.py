"""The converters that a plan draws from, as a connector is given them."""

from __future__ import annotations

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
CONVERTERS = {
    "avro": {},
    "json": {
        f"{side}.converter{name}": text
        for side in ("key", "value")
        for name, text in (("", JSON_CONVERTER), (".schemas.enable", "true"), (".replace.null.with.default", "false"))
    },
    "json-bare": {
        f"{side}.converter{name}": text
        for side in ("key", "value")
        for name, text in (("", JSON_CONVERTER), (".schemas.enable", "false"), (".replace.null.with.default", "false"))
    },
}
"""What a connector is given for each. By Kafka's rule JSON has a column's default for its NULL unless reported otherwise, and could
not be compared."""

SINK_CONVERTERS = ("avro", "json")
"""Those whose topics the sink reads."""
