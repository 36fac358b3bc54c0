"""Finds values of a connector that take more of the worker's memory, or of a server's connections,
than one connector should.

Each is taken: Debezium has no maximum, and somebody may have a machine for it. But a worker runs
connectors of others too, so the status says what such a value can take. Options whose values others
bound, such as rows by bytes, have no such limit (tests/worker/config/test_large_values.py has the
reasons).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dblog.config.options import Option

_CLIENTS = (
    "producer.override.",
    "consumer.override.",
    "signal.consumer.",
    "schema.history.internal.consumer.",
    "schema.history.internal.producer.",
)
_CLIENT_KIB_MAX = 1 << 20
_CLIENT_KEYS = ("queue.buffering.max.kbytes", "queued.max.messages.kbytes")
"""Librdkafka's queues of records that wait, in KiB. Its settings of one request or one record are
bounded by these, or by what the topic has.
"""


def large_values(options: Iterable[Option], properties: Mapping[str, str | None]) -> dict[str, str]:
    """Return a sentence for each key whose value is larger than usual."""
    found = {}
    for option in options:
        for name in (option.name, *option.aliases):
            value = _number(properties.get(name))
            if option.large is not None and value is not None and value > option.large.above:
                found[name] = f"{value} is more than {option.large.above}: {option.large.takes}"
    for name in (f"{prefix}{key}" for prefix in _CLIENTS for key in _CLIENT_KEYS):
        value = _number(properties.get(name))
        if value is not None and value > _CLIENT_KIB_MAX:
            found[name] = (
                f"{value} is more than {_CLIENT_KIB_MAX}: the task's process may hold so many KiB of records that wait for a broker"
            )
    return found


def _number(text: str | None) -> int | None:
    """Return the number that a text is, None for any other text."""
    try:
        return int(text or "")
    except ValueError:
        return None
