"""Frames of many schemas: one request where the registry takes many, one each where it does not, and the same bytes."""

import pytest
from dblog.codecs.envelope import struct
from dblog.codecs.schema import Kind, Schema
from dblog.errors import TransientError
from dblog.kafka.converters import AvroConverter, Converter, JsonConverter
from dblog.kafka.frames import Asked, frames, registers_together
from support.answering_registry import AnsweringRegistry

SCHEMA = struct("n.S", ("a", Schema(kind=Kind.INT32)))
ILLEGAL = struct("n.S", ("not legal in Avro", Schema(kind=Kind.INT32)))


def asked(key: Converter, value: Converter) -> list[Asked]:
    return [
        (key, "t", SCHEMA),
        (value, "t", SCHEMA),
        (key, "refused", SCHEMA),
        (value, "u", ILLEGAL),
        (value, "v", SCHEMA),
    ]


@pytest.mark.parametrize(
    ("trusted", "settings", "paths"),
    [
        (True, {}, ["/schemas/together"]),
        (False, {}, [f"/subjects/{subject}/versions" for subject in ("t-key", "t-value", "refused-key", "v-value")]),
        (True, {"auto.register.schemas": "false"}, [f"/subjects/{subject}" for subject in ("t-key", "t-value", "refused-key", "v-value")]),
    ],
)
def test_frames_come_in_the_order_asked_for_by_one_request_of_the_workers_own_registry_alone(trusted, settings, paths) -> None:
    registry = AnsweringRegistry()
    client = registry.client(trusted=trusted)
    key, value = (AvroConverter(settings, is_key=is_key, registry=client) for is_key in (True, False))

    made = frames(asked(key, value))

    assert made == [b"\0\0\0\0\1", b"\0\0\0\0\2", None, None, b"\0\0\0\0\3"]
    assert registry.paths == paths
    assert registers_together(key) == (paths == ["/schemas/together"])
    assert [converter.prefix(topic, schema) for converter, topic, schema in (asked(key, value)[n] for n in (0, 1, 4))] == [
        made[0],
        made[1],
        made[4],
    ]


def test_one_converter_may_have_a_registry_and_the_other_none() -> None:
    registry = AnsweringRegistry()
    key, value = JsonConverter({}, option_prefix=""), AvroConverter({}, is_key=False, registry=registry.client(trusted=True))

    assert frames(asked(key, value)) == [b"", b"\0\0\0\0\1", b"", None, b"\0\0\0\0\2"]
    assert registry.paths == ["/schemas/together"]


def test_a_registry_that_is_away_fails_them_all() -> None:
    registry = AnsweringRegistry()
    registry.is_away = True
    client = registry.client(trusted=True)
    key, value = (AvroConverter({}, is_key=is_key, registry=client) for is_key in (True, False))

    with pytest.raises(TransientError):
        frames(asked(key, value))
