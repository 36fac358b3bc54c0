"""Mirror mode on small batches: every lawful order of arrival ends with the source's rows."""

from __future__ import annotations

import pytest

from sink.harness import Sink, change, tombstone
from support.envelopes import TableSchema
from support.registry_server import RegistryServer


@pytest.fixture
def items(registry: RegistryServer) -> TableSchema:
    return TableSchema(topic="p.shop.items", columns=[("id", "long"), ("name", ["null", "string"])], registry=registry)


def test_inserts_updates_and_deletes_arrive(sink: Sink, items: TableSchema) -> None:
    sink.batch(change(items, "c", {"id": 1, "name": "a"}, at=100), change(items, "c", {"id": 2, "name": "b"}, at=110))

    sink.batch(
        change(items, "u", {"id": 1, "name": "A"}, before={"id": 1, "name": "a"}, at=200),
        change(items, "d", {"id": 2, "name": "b"}, at=210),
        tombstone(items, {"id": 2, "name": "b"}),
        change(items, "c", {"id": 3, "name": None}, at=220),
    )

    assert sink.rows(items) == [{"id": 1, "name": "A"}, {"id": 3, "name": None}]
    assert sink.quarantined() == []
