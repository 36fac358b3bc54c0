"""Dumps that send no row: their markers' fingerprints are those of the rows that the topic has, recomputed here by an Avro writer that is not ours."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import pytest
from dblog.errors import DefiniteError
from stack.database import Database
from support.fingerprints import fingerprints, prints_of
from support.follower import Follower, Row
from support.registry_server import RegistryServer
from support.servers import execute, new_database
from support.under_writes import under_writes

AVRO = "io.confluent.connect.avro.AvroConverter"
ROWS = 600


class Auditor(Follower):
    """Folds rows, and compares each marker with the fold of its moment: what stood in the chunk and was not touched in the window is what is folded."""

    def __init__(self, source: Database, database: str, **config: str) -> None:
        super().__init__(source, database, **{"dblog.chunk.rows": "100", **config})
        self.markers: list[Row] = []
        self.marked = self._mark
        self.amiss: list[str] = []

    def _mark(self, value: bytes) -> None:
        marker = json.loads(value)
        if marker["mode"] == "verify":
            assert marker["rows_read"] - marker["rows_dropped"] == len(prints_of(marker))
            here = fingerprints(self.rows.get(marker["table"].rpartition(".")[2], {}).values(), marker["schemas"])
            self.amiss += [
                f"{marker['chunk_id']} {marker['table']} has a row that is not folded" for one in prints_of(marker) if one not in here
            ]
        else:
            assert marker["fingerprints"] is None
            assert marker["schemas"] is None
        assert marker["ts_ms"] - 3_600_000 < marker["low_ts_ms"] <= marker["ts_ms"]
        self.markers.append(marker)

    def chain(self, identity: str, table: str) -> list[Row]:
        """The chunks of the table from its beginning to its end, in whatever order they came; each begins where the one before ended."""
        chunks = [m for m in self.markers if m["dump"] == identity and m["table"].endswith(f".{table}")]
        begin = max(n for n, m in enumerate(chunks) if m["begins"])
        chain, following = [chunks[begin]], {m["range_after"]: m for m in chunks[begin + 1 :] if not m["begins"]}
        while not chain[-1]["final"]:
            chain.append(following[chain[-1]["range_upto"]])
        assert {m["scope"] for m in chain} == {"table"}
        return chain


@pytest.fixture
def shop(source: Database) -> Iterator[Callable[..., Auditor]]:
    """Makes followers of two tables, which they have dumped."""
    database = new_database(source, "audited")
    execute(
        source,
        "CREATE TABLE orders (id INT PRIMARY KEY, status VARCHAR(10), v BIGINT NOT NULL, level SMALLINT DEFAULT 3)",
        "CREATE TABLE items (sku VARCHAR(20) COLLATE utf8mb4_unicode_ci, line INT, v INT, PRIMARY KEY (sku, line))",
        "CREATE TABLE bare (id INT PRIMARY KEY)",
        f"INSERT INTO orders WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) "
        "SELECT i, IF(i % 3 = 0, NULL, 'é'), i * 1000000007, IF(i % 5 = 0, NULL, i) FROM n",
        f"INSERT INTO items WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) SELECT CONCAT('é', i % 30), i, i FROM n",
        database=database,
    )
    made: list[Auditor] = []

    def make(**config: str) -> Auditor:
        follower = Auditor(source, database, **{"value.converter.replace.null.with.default": "false", **config})
        made.append(follower)
        follower.start().until_dumped()
        return follower

    yield make
    for follower in made:
        follower.task.stop()


def test_under_writes_each_fingerprint_is_of_a_row_that_the_topic_has_and_at_rest_they_are_all_of_its_rows(shop: Any) -> None:
    follower = shop()

    def statements(n: int) -> tuple[str, ...]:
        return (
            f"UPDATE orders SET status = 'u{n % 100}' WHERE id % 97 = {n % 97}",
            f"DELETE FROM items WHERE line = {n}",
            f"UPDATE orders SET id = id + 100000 WHERE id = {n * 3}",
            f"INSERT INTO orders VALUES ({200_000 + n}, 'new', {n}, DEFAULT)",
        )

    with under_writes(follower, statements):
        dropped = 0
        while not dropped:
            busy = follower.ask(rf"{follower.database}\.(orders|items)", mode="verify", parallelism=2, chunk_rows=40)
            follower.until_state(busy, "DONE")
            dropped = sum(m["rows_dropped"] for m in follower.markers if m["dump"] == busy.id)
    follower.until_equal("orders")
    follower.until_equal("items")
    sent = len(follower.values)
    quiet = follower.ask(rf"{follower.database}\..*", mode="verify", parallelism=3, chunk_rows=20)
    follower.until_state(quiet, "DONE")

    assert follower.amiss == []
    assert len(follower.values) == sent, "no row is sent"
    for table in ("orders", "items", "bare"):
        chain = follower.chain(quiet.id, table)
        found = [one for marker in chain for one in prints_of(marker)]
        assert len(found) == len(set(found)) == len(follower.rows.get(table, {}))
        assert set(found) == fingerprints(follower.rows.get(table, {}).values(), chain[0]["schemas"])
        assert follower.chain(busy.id, table) if table != "bare" else len(chain) == 1


@pytest.mark.either_server
def test_a_row_that_is_not_the_sources_is_the_one_whose_fingerprint_differs(shop: Any) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.orders", mode="verify")
    follower.until_state(request, "DONE")
    chain = follower.chain(request.id, "orders")
    rows = follower.rows["orders"]
    damaged, deleted = list(rows)[17], list(rows)[30]

    rows[damaged] = rows[damaged] | {"v": 1}
    del rows[deleted]

    source = {one for marker in chain for one in prints_of(marker)}
    lake = fingerprints(rows.values(), chain[0]["schemas"])
    assert len(lake - source) == 1
    assert len(source - lake) == 2
    assert {one[:8] for one in lake - source} < {one[:8] for one in source}, "the key is known"


@pytest.mark.either_server
def test_a_verify_dump_goes_on_over_kills_with_a_chain_that_is_whole(shop: Any) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.orders", mode="verify", chunk_rows=40, delay_ms=20)

    for chunks in (2, 5, 8):
        follower.until(lambda chunks=chunks: sum(m["dump"] == request.id for m in follower.markers) >= chunks)
        follower.sql(f"DELETE FROM orders WHERE id = {chunks}", f"UPDATE orders SET status = 'k' WHERE id = {chunks * 60}")
        follower.restart()
    follower.until_state(request, "DONE")

    assert follower.amiss == []
    chain = follower.chain(request.id, "orders")
    assert sum(len(prints_of(marker)) for marker in chain) >= ROWS - 6


@pytest.mark.either_server
def test_columns_that_come_in_mid_dump_are_in_the_schemas_of_the_chunks_behind_them(shop: Any) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.(orders|items)", mode="verify", chunk_rows=50, delay_ms=20)
    follower.until(lambda: any(m["dump"] == request.id and m["table"].endswith("orders") for m in follower.markers))

    follower.sql("ALTER TABLE orders ADD COLUMN grade INT")  # with a default its rows would be others, and the dump would begin again
    follower.until_state(request, "DONE")

    chain = follower.chain(request.id, "orders")
    assert "grade" not in chain[0]["schemas"]["row"]
    assert "grade" in chain[-1]["schemas"]["row"]
    assert sum(len(prints_of(marker)) for marker in chain) == ROWS


@pytest.mark.either_server
def test_a_key_that_goes_in_mid_dump_ends_that_table_with_a_reason(shop: Any) -> None:
    follower = shop()
    request = follower.ask(rf"{follower.database}\.(orders|items)", mode="verify", chunk_rows=20, delay_ms=20)
    follower.until(lambda: any(m["dump"] == request.id and m["table"].endswith("orders") for m in follower.markers))

    follower.sql("ALTER TABLE orders DROP PRIMARY KEY")
    status = follower.until_state(request, "FAILED")

    assert "orders has no key, and the mode verify finds rows by their keys" in status["reason"]
    assert {one["table"].rpartition(".")[2]: one["state"] for one in status["tables"]} == {"orders": "FAILED", "items": "DONE"}


@pytest.mark.either_server
def test_both_converters_give_the_same_fingerprints(shop: Any) -> None:
    in_json = shop()
    first = in_json.ask(rf"{in_json.database}\..*", mode="verify")
    in_json.until_state(first, "DONE")

    with RegistryServer() as registry:
        avro = {f"{part}.converter": AVRO for part in ("key", "value")} | {
            f"{part}.converter.schema.registry.url": registry.url for part in ("key", "value")
        }
        in_avro = AvroAuditor(
            in_json.source,
            in_json.database,
            registry,
            **avro,
            **{"topic.prefix": in_json.config["topic.prefix"], "snapshot.mode": "no_data", "include.schema.changes": "false"},
        )
        try:
            in_avro.start()
            second = in_avro.ask(rf"{in_json.database}\..*", mode="verify")
            in_avro.until_state(second, "DONE")
        finally:
            in_avro.task.stop()

    for table in ("orders", "items", "bare"):
        one, other = in_json.chain(first.id, table), in_avro.chain(second.id, table)
        assert [row for m in one for row in prints_of(m)] == [
            row for m in other for row in prints_of(m)
        ]  # a slow server gets smaller chunks
        assert {str(m["schemas"]) for m in one} == {str(m["schemas"]) for m in other}


class AvroAuditor(Auditor):
    """Reads markers in Avro; there are no rows."""

    def __init__(self, source: Database, database: str, registry: RegistryServer, **config: str) -> None:
        super().__init__(source, database, **config)
        self._registry = registry

    def _mark(self, value: bytes) -> None:
        schema = self._registry.answer("GET", f"/schemas/ids/{int.from_bytes(value[1:5])}", b"", None)[1]["schema"]
        self.markers.append(fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(json.loads(schema))))


@pytest.mark.either_server
@pytest.mark.parametrize(
    ("config", "mode", "reason"),
    [
        ({"message.key.columns": ".*orders:status"}, "verify", "message.key.columns gives several rows of .*orders one key"),
        ({"column.mask.with.5.chars": ".*items.sku"}, "verify", "the key column sku has other values in the rows"),
        ({"column.exclude.list": ".*items.line"}, "verify", "the key column line is left out of the rows"),
        (
            {
                "topic.naming.strategy": "io.debezium.schema.DefaultRegexTopicNamingStrategy",
                "topic.regex": r"(.*)\.(orders|bare)",
                "topic.replacement": "$1.both",
                "topic.key.enforce.uniqueness": "false",
            },
            "repair",
            "rows of .* go to one topic, .*both, so nobody could tell",
        ),
    ],
)
def test_tables_whose_rows_cannot_be_found_by_their_keys_are_refused(shop: Any, config: dict[str, str], mode: str, reason: str) -> None:
    follower = shop(**{"snapshot.mode": "initial", **config})

    with pytest.raises(DefiniteError, match=reason):
        follower.ask(rf"{follower.database}\..*", mode=mode)


@pytest.mark.either_server
def test_a_table_without_a_key_is_refused(shop: Any) -> None:
    follower = shop()
    follower.sql("CREATE TABLE notes (t TEXT)", "INSERT INTO notes VALUES ('a')")
    follower.until(lambda: follower.rows.get("notes"))

    with pytest.raises(DefiniteError, match="notes has no key, and the mode verify finds rows by their keys"):
        follower.ask(rf"{follower.database}\.notes", mode="verify")
