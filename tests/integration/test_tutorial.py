"""The connector of Debezium's MySQL tutorial, its configuration unchanged but for host, port and credentials, behaves as the tutorial describes.

The database is the tutorial's ``inventory``; the worker has JSON converters with schemas, as the tutorial's Connect image has.
"""

import json

import httpx
import pytest
from demo.pipeline import CONNECTOR_PASSWORD, CONNECTOR_USER, Worker, create_connector_user
from stack.process import wait_until
from support.json_lines import json_lines
from support.servers import execute
from support.topicfold import records

INVENTORY = (
    "DROP DATABASE IF EXISTS inventory",
    "CREATE DATABASE inventory",
    (
        "CREATE TABLE inventory.products (id INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(255) NOT NULL,"
        " description VARCHAR(512), weight FLOAT)"
    ),
    "ALTER TABLE inventory.products AUTO_INCREMENT = 101",
    "INSERT INTO inventory.products VALUES (default, 'scooter', 'Small 2-wheel scooter', 3.14), (default, 'car battery', '12V car battery', 8.1)",
    (
        "CREATE TABLE inventory.products_on_hand (product_id INTEGER NOT NULL PRIMARY KEY, quantity INTEGER NOT NULL,"
        " FOREIGN KEY (product_id) REFERENCES inventory.products(id))"
    ),
    "INSERT INTO inventory.products_on_hand VALUES (101, 3), (102, 8)",
    (
        "CREATE TABLE inventory.customers (id INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY, first_name VARCHAR(255) NOT NULL,"
        " last_name VARCHAR(255) NOT NULL, email VARCHAR(255) NOT NULL UNIQUE KEY) AUTO_INCREMENT=1001"
    ),
    (
        "INSERT INTO inventory.customers VALUES (default, 'Sally', 'Thomas', 'sally.thomas@acme.com'),"
        " (default, 'George', 'Bailey', 'gbailey@foobar.com'), (default, 'Edward', 'Walker', 'ed@walker.com'),"
        " (default, 'Anne', 'Kretchmar', 'annek@noanswer.org')"
    ),
    (
        "CREATE TABLE inventory.addresses (id INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY, customer_id INTEGER NOT NULL, street VARCHAR(255) NOT NULL,"
        " type enum('SHIPPING','BILLING','LIVING') NOT NULL, FOREIGN KEY address_customer (customer_id) REFERENCES inventory.customers(id))"
    ),
    "INSERT INTO inventory.addresses VALUES (default, 1001, '3183 Moore Avenue', 'SHIPPING')",
    (
        "CREATE TABLE inventory.orders (order_number INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY, order_date DATE NOT NULL, purchaser INTEGER NOT NULL,"
        " quantity INTEGER NOT NULL, product_id INTEGER NOT NULL, FOREIGN KEY order_customer (purchaser) REFERENCES inventory.customers(id),"
        " FOREIGN KEY ordered_product (product_id) REFERENCES inventory.products(id)) AUTO_INCREMENT = 10001"
    ),
    "INSERT INTO inventory.orders VALUES (default, '2016-01-16', 1001, 1, 102)",
    "CREATE TABLE inventory.geom (id INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY, g GEOMETRY NOT NULL, h GEOMETRY)",
    "INSERT INTO inventory.geom VALUES (default, ST_GeomFromText('POINT(1 1)'), NULL), (default, ST_GeomFromText('LINESTRING(2 1, 6 6)'), NULL)",
)
"""The tables of the tutorial's image, with fewer rows."""

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


def values_of(kafka, table: str) -> list[tuple[dict, dict | None]]:
    """Keys and values, without what is the envelope of schema and payload."""
    found = records(kafka.bootstrap, f"dbserver1.inventory.{table}")
    return [(json.loads(key)["payload"], None if value is None else json.loads(value)["payload"]) for key, value, _ in found]


@pytest.fixture
def worker(kafka, mysql, own_folder):
    execute(mysql, *INVENTORY)
    create_connector_user(mysql)
    worker = Worker(kafka, own_folder, name="tutorial", options={"key.converter": JSON_CONVERTER, "value.converter": JSON_CONVERTER})
    with worker:
        yield worker


def assert_progress_is_reported(worker: Worker) -> None:
    """Log, status and metrics show how many tables and rows the dump has read, and of which connector."""
    lines = json_lines(worker.log)
    tables = {line["table"]: line for line in lines if line["event"] == "table dumped"}
    (end,) = [line for line in lines if line["event"] == "dump done"]
    dump = httpx.get(f"{worker.url}/connectors/inventory-connector/status").json()["tasks"][0]["dump"]
    metrics = httpx.get(f"{worker.url}/metrics").text

    assert {table: line["rows"] for table, line in tables.items()} == {
        "inventory.addresses": 1,
        "inventory.customers": 4,
        "inventory.geom": 2,
        "inventory.orders": 1,
        "inventory.products": 2,
        "inventory.products_on_hand": 2,
    }
    assert {line["connector"] for line in [*tables.values(), end]} == {"inventory-connector"}
    done = sorted(line["tables_done"] for line in tables.values())  # small tables are read together, and may end together
    assert all(count >= n for n, count in enumerate(done, 1))
    assert done[-1] == 6
    assert (end["tables"], end["rows"]) == (6, 12)
    assert dump == {"running": False, "tables_done": 6, "tables_total": 6, "rows": 12}
    assert 'dblog_task_dump_rows_total{connector="inventory-connector",task="0"} 12.0' in metrics


def test_the_tutorial_s_connector_is_accepted_and_streams(worker, kafka, mysql):
    config = {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "tasks.max": "1",
        "database.hostname": mysql.host,
        "database.port": str(mysql.port),
        "database.user": CONNECTOR_USER,
        "database.password": CONNECTOR_PASSWORD,
        "database.server.id": "184054",
        "topic.prefix": "dbserver1",
        "database.include.list": "inventory",
        "schema.history.internal.kafka.bootstrap.servers": kafka.bootstrap,
        "schema.history.internal.kafka.topic": "schemahistory.inventory",
    }

    worker.rest.create("inventory-connector", config)

    def records_of_customers(count: int) -> bool:
        assert worker.rest.state("inventory-connector") != "FAILED"
        return len(values_of(kafka, "customers")) >= count

    wait_until(lambda: records_of_customers(4), timeout_s=60, what="the dump of customers")
    wait_until(lambda: worker.rest.dump("inventory-connector").done, timeout_s=60, what="the end of the dump")
    dumped = values_of(kafka, "customers")
    assert [(key, value["op"], value["after"]["first_name"]) for key, value in dumped] == [
        ({"id": 1001}, "r", "Sally"),
        ({"id": 1002}, "r", "George"),
        ({"id": 1003}, "r", "Edward"),
        ({"id": 1004}, "r", "Anne"),
    ]
    assert len(values_of(kafka, "geom")) == 2
    assert_progress_is_reported(worker)

    execute(mysql, "UPDATE inventory.customers SET first_name='Anne Marie' WHERE id=1004", "DELETE FROM inventory.customers WHERE id=1004")
    wait_until(lambda: records_of_customers(7), timeout_s=60, what="the update and the delete")

    (update_key, update), (delete_key, delete), (tombstone_key, tombstone) = values_of(kafka, "customers")[4:]
    assert update_key == delete_key == tombstone_key == {"id": 1004}
    assert (update["op"], update["before"]["first_name"], update["after"]["first_name"]) == ("u", "Anne", "Anne Marie")
    assert (delete["op"], delete["before"]["first_name"], delete["after"]) == ("d", "Anne Marie", None)
    assert tombstone is None
    assert (update["source"]["name"], update["source"]["db"], update["source"]["table"]) == ("dbserver1", "inventory", "customers")
    assert update["source"]["snapshot"] in {"false", None}
