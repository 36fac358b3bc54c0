"""``dblog tail`` shows what is in a topic."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from dblog.cli import app
from stack import Kafka
from support.envelopes import TableSchema
from support.registry_server import RegistryServer
from typer.testing import CliRunner


class Endless(BaseHTTPRequestHandler):
    """Answers as long as somebody reads."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            while True:
                self.wfile.write(b" " * 1_000_000)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """A topic of two partitions with ten records, their numbers in both; between them, one without a value."""
    name = f"t{uuid4().hex[:8]}.shop.t"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(60)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for n in range(10):
        value = None if n == 4 else json.dumps({"n": n})
        producer.produce(name, key=f"k{n}", value=value, partition=n % 2, timestamp=1_700_000_000_000 + n)
    producer.flush()
    return name


def tail(kafka: Kafka, *words: str) -> tuple[int, list[dict], str]:
    done = CliRunner().invoke(app, ["tail", "--bootstrap", kafka.bootstrap, *words])
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_the_newest_records_of_all_partitions_are_shown_in_the_order_of_their_times(kafka: Kafka, topic: str) -> None:
    status, shown, _ = tail(kafka, topic, "-n", "3")

    assert status == 0
    assert [(one["key"], one["value"]) for one in shown] == [(f"k{n}", {"n": n}) for n in (7, 8, 9)]
    assert shown[-1] == {"partition": 1, "offset": 4, "timestamp": 1_700_000_000_009, "key": "k9", "value": {"n": 9}}


def test_all_records_are_shown_from_the_beginning(kafka: Kafka, topic: str) -> None:
    status, shown, _ = tail(kafka, topic, "--from-beginning", "-n", "0")

    assert status == 0
    assert sorted(one["key"] for one in shown) == [f"k{n}" for n in range(10)]
    assert [one["key"] for one in shown if one["value"] is None] == ["k4"]
    assert len(tail(kafka, topic, "--from-beginning", "-n", "4")[1]) == 4


def test_avro_is_decoded_by_the_registry_and_damaged_bytes_are_shown_as_they_are(kafka: Kafka) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    with RegistryServer() as registry:
        table = TableSchema(topic=f"t{uuid4().hex[:8]}.shop.t", columns=[("id", "long"), ("v", "string")], registry=registry)
        value = table.value_bytes("c", after={"id": 7, "v": "wört"}, file="binlog.000001", pos=4)
        for one in (value, value[:9], b"\xff\xfe"):
            producer.produce(table.topic, key=table.key_bytes({"id": 7}), value=one)
        producer.flush()

        status, shown, _ = tail(kafka, table.topic, "--registry", registry.url)

    assert status == 0
    assert shown[0]["key"] == {"id": 7}
    assert shown[0]["value"]["after"] == {"id": 7, "v": "wört"}
    assert [sorted(one["value"]) for one in shown[1:]] == [["bytes", "reason"]] * 2


def test_what_is_not_there_is_a_sentence(kafka: Kafka, topic: str) -> None:
    assert tail(kafka, "no.such.topic")[::2] == (
        1,
        "topic no.such.topic cannot be read (Broker: Unknown topic or partition); a table's topic is <topic.prefix>.<database>.<table>\n",
    )
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, value=b"\x00\x00\x00\x00\x01\x02", partition=0)
    producer.flush()

    status, _, output = tail(kafka, topic, "--registry", "http://user:secret@127.0.0.1:1")

    assert status == 1
    assert "schema 1 cannot be had from the registry at http://127.0.0.1:1 (ConnectError)" in output
    assert "secret" not in output
    with HTTPServer(("127.0.0.1", 0), Endless) as endless:
        threading.Thread(target=endless.serve_forever, daemon=True).start()
        status, _, output = tail(kafka, topic, "--registry", f"http://127.0.0.1:{endless.server_port}")
        endless.shutdown()
    assert (status, "(ValueError)" in output) == (1, True)
