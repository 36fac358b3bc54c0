"""What a table's properties say is taken back where the sink has written it, and parks the table where somebody else has."""

from __future__ import annotations

import json

import pytest
from dblog_sink.config.tables import TableSpec
from dblog_sink.delta.target import _fills_of
from dblog_sink.errors import ParkError

SPEC = TableSpec(name="shop.t", path="/lake/shop/t", topic="p.shop.t")


def fills(**given: object) -> dict[str, str]:
    return {"dblog.fills": json.dumps({"c": {"below": 7, "sql": "'x'", "done": False} | given})}


def test_a_default_of_the_sinks_own_is_taken_back() -> None:
    assert _fills_of(SPEC, {}) == {}
    assert _fills_of(SPEC, fills())["c"]["sql"] == "'x'"


@pytest.mark.parametrize(
    "given",
    [
        {"sql": "java_method('java.lang.System', 'load', '/lake/x.so')"},
        {"sql": "(SELECT max(value) FROM text.`/etc/dblog/own/kafka/password`)"},
        {"sql": 5},
        {"below": "7 OR true"},
    ],
)
def test_other_sql_in_a_property_parks_the_table(given: dict[str, object]) -> None:  # number 43 of the sink's safety
    with pytest.raises(
        ParkError, match=r"shop\.t: the property dblog\.fills of /lake/shop/t holds a default of column c that the sink did not write"
    ):
        _fills_of(SPEC, fills(**given))
