"""Dumps of some columns: rows that have the key and those alone, merged by whoever folds the topic, give the source's rows."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import pytest
from dblog.codecs.compatibility import Level, SchemaVersion, check_level
from dblog.errors import DefiniteError
from stack.database import Database
from support.follower import Follower, Row
from support.registry_server import RegistryServer
from support.servers import execute, new_database
from support.under_writes import under_writes

AVRO = "io.confluent.connect.avro.AvroConverter"
ROWS = 600


class Merger(Follower):
    """Merges what has some columns only into the rows that are there, as its schema says. Records have their schemas with them."""

    def __init__(self, source: Database, database: str, **config: str) -> None:
        schemas = {f"{part}.converter.schemas.enable": "true" for part in ("key", "value")}
        own = {"dblog.chunk.rows": "100", "value.converter.replace.null.with.default": "false"}
        super().__init__(source, database, **{**own, **schemas, **config})
        self.partial: list[tuple[str, Row]] = []

    def _take(self, table: str, key: bytes | None, value: bytes | None) -> None:
        if value is None:
            return
        record = json.loads(value)
        after = next(field for field in record["schema"]["fields"] if field["field"] == "after")
        if after.get("parameters") != {"io.dblog.partial": "true"}:
            super()._take(table, key, json.dumps(record["payload"]).encode())
            return
        payload = record["payload"]
        self.partial.append((table, payload))
        assert (payload["op"], payload["before"], payload["source"]["snapshot"]) == ("r", None, "incremental")
        assert [field["field"] for field in after["fields"]] == list(payload["after"])
        assert key is not None
        if (known := self.rows.get(table, {}).get(key.decode())) is not None:
            known.update(payload["after"])


@pytest.fixture
def shop(source: Database) -> Iterator[Callable[..., Merger]]:
    """Makes followers of two tables, which they have dumped."""
    database = new_database(source, "parts")
    execute(
        source,
        "CREATE TABLE orders (id INT PRIMARY KEY, status VARCHAR(10) NOT NULL, v BIGINT NOT NULL)",
        "CREATE TABLE items (sku VARCHAR(20) COLLATE utf8mb4_unicode_ci, line INT, v INT, note VARCHAR(10) NOT NULL, PRIMARY KEY (line, sku))",
        f"INSERT INTO orders WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) SELECT i, 'é', i FROM n",
        f"INSERT INTO items WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) "
        "SELECT CONCAT('é', i % 30), i, i, 'n' FROM n",
        database=database,
    )
    made: list[Merger] = []

    def make(**config: str) -> Merger:
        follower = Merger(source, database, **config)
        made.append(follower)
        follower.start().until_dumped()
        return follower

    yield make
    for follower in made:
        follower.task.stop()


def test_a_column_that_was_added_with_a_default_comes_by_itself_under_writes(shop: Any) -> None:
    follower = shop(**{"dblog.ddl.redump": "never"})  # nothing else brings the default
    follower.sql(
        "ALTER TABLE orders ADD COLUMN level INT NOT NULL DEFAULT 7, ADD COLUMN grade VARCHAR(5) DEFAULT 'a'",
        "UPDATE orders SET v = -1 WHERE id = 600",
    )
    follower.until(lambda: any("level" in row for row in follower.rows["orders"].values()))

    def statements(n: int) -> tuple[str, ...]:
        return (
            f"UPDATE orders SET status = 'u{n % 100}', level = {n} WHERE id % 97 = {n % 97}",
            f"DELETE FROM orders WHERE id = {n * 5}",
            f"UPDATE orders SET id = id + 100000 WHERE id = {n * 3}",
            f"INSERT INTO orders VALUES ({200_000 + n}, 'new', {n}, {n}, NULL)",
        )

    with under_writes(follower, statements):
        request = follower.ask(rf"{follower.database}\.orders", mode="columns", columns=["LEVEL", "grade"], chunk_rows=40)
        follower.until_state(request, "DONE")

    follower.until_equal("orders")
    assert {tuple(payload["after"]) for _, payload in follower.partial} == {("id", "level", "grade")}
    assert len(follower.partial) >= ROWS / 2, "the rows came by the dump, and not by the log alone"


@pytest.mark.either_server
def test_the_key_comes_whole_and_rows_may_be_chosen(shop: Any) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.items", mode="columns", columns=["v", "sku"], predicate={".*": "line <= 250"})
    status = follower.until_state(request, "DONE")

    assert status["rows"] == len(follower.partial) == 250
    assert {tuple(payload["after"]) for _, payload in follower.partial} == {("sku", "line", "v")}, "in the table's order"
    follower.until_equal("items")


@pytest.mark.either_server
@pytest.mark.parametrize(
    ("columns", "config", "reason"),
    [
        (["statu"], {}, "orders has no column statu as far as its log has been read; is status meant?"),
        (["nothing"], {}, "orders has no column nothing as far as its log has been read; ask for columns that it has"),
        (
            ["v"],
            {"column.exclude.list": r".*orders\.v"},
            "the column v of .*orders is not captured: column.include.list or column.exclude.list",
        ),
        (["v"], {"message.key.columns": ".*orders:status"}, "message.key.columns gives several rows of .*orders one key"),
        (["v"], {"value.converter.schemas.enable": "false"}, r"without schemas \(schemas.enable=false\) nothing shows"),
    ],
)
def test_what_cannot_be_sent_in_part_is_refused(
    source: Database, shop: Any, columns: list[str], config: dict[str, str], reason: str
) -> None:
    database = shop().database
    follower = Follower(source, database, **{"snapshot.mode": "no_data", "value.converter.schemas.enable": "true", **config})
    try:
        follower.start()
        with pytest.raises(DefiniteError, match=reason):
            follower.ask(rf"{database}\.orders", mode="columns", columns=columns)
    finally:
        follower.task.stop()


@pytest.mark.either_server
def test_an_asked_column_that_goes_in_mid_dump_ends_that_table_and_others_go_on(shop: Any) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.(orders|items)", mode="columns", columns=["v"], chunk_rows=20, delay_ms=20)
    follower.until(lambda: any(table == "orders" for table, _ in follower.partial))

    follower.sql("ALTER TABLE orders DROP COLUMN v")
    status = follower.until_state(request, "FAILED")

    assert "orders has no column v as far as its log has been read; ask for columns that it has" in status["reason"]
    assert {one["table"].rpartition(".")[2]: one["state"] for one in status["tables"]} == {"orders": "FAILED", "items": "DONE"}
    follower.until_equal("items")


@pytest.mark.either_server
def test_another_column_that_comes_in_mid_dump_does_no_harm(shop: Any) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.orders", mode="columns", columns=["v"], chunk_rows=20, delay_ms=20)
    follower.until(lambda: follower.partial)

    follower.sql("ALTER TABLE orders ADD COLUMN level INT NOT NULL FIRST")
    follower.until_state(request, "DONE")

    assert {tuple(payload["after"]) for _, payload in follower.partial} == {("id", "v")}
    assert {payload["after"]["id"] for _, payload in follower.partial} == set(range(1, ROWS + 1))


@pytest.mark.either_server
def test_in_avro_they_have_a_subject_of_their_own_and_the_tables_next_columns_are_not_refused_for_them(source: Database, shop: Any) -> None:
    database = shop().database
    with RegistryServer() as registry:
        avro = {f"{part}.converter": AVRO for part in ("key", "value")}
        avro |= {f"{part}.converter.schema.registry.url": registry.url for part in ("key", "value")}
        follower = AvroReader(source, database, registry, **avro)
        try:
            follower.start()
            request = follower.ask(rf"{database}\.orders", mode="columns", columns=["v"])
            follower.until_state(request, "DONE")
            follower.sql("UPDATE orders SET v = -v WHERE id = 1")
            follower.until(lambda: len(follower.read) > ROWS)
        finally:
            follower.task.stop()
        registered = [line for line in registry.requests if "POST" in line]

    partial, whole = follower.read[0], follower.read[-1]
    topic = f"{follower.config['topic.prefix']}.{database}.orders"
    assert partial[0]["connect.parameters"] == {"io.dblog.partial": "true"}
    assert "connect.parameters" not in whole[0]
    assert partial[0]["name"] == whole[0]["name"] == "Value"
    assert partial[2]["namespace"] == whole[2]["namespace"] == topic
    assert (partial[1]["after"], whole[1]["after"]) == ({"id": 1, "v": 1}, {"id": 1, "status": "é", "v": -1})
    assert sum(f"/subjects/{topic}.columns." in line for line in registered) == 1
    refused = check_level(SchemaVersion(json.dumps(whole[2])), [SchemaVersion(json.dumps(partial[2]))], Level.BACKWARD)
    assert refused, "under one subject a registry would refuse the next version of whole rows"


class AvroReader(Follower):
    """Keeps of each record the schema of its row, itself, and its schema."""

    def __init__(self, source: Database, database: str, registry: RegistryServer, **config: str) -> None:
        super().__init__(source, database, **{"snapshot.mode": "no_data", "include.schema.changes": "false", **config})
        self._registry = registry
        self.read: list[tuple[Row, Row, Row]] = []

    def _take(self, table: str, key: bytes | None, value: bytes | None) -> None:
        assert value is not None
        text = self._registry.answer("GET", f"/schemas/ids/{int.from_bytes(value[1:5])}", b"", None)[1]["schema"]
        schema = json.loads(text)
        record: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(schema))
        before = next(field for field in schema["fields"] if field["name"] == "before")
        self.read.append((before["type"][1], record, schema))
