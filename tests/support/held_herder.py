"""A herder without Kafka: its topics, its membership and its clock are the test's. One turn at a time, in the test's thread."""

import sys
import threading

from dblog.cluster.herder import Herder
from dblog.cluster.program import TaskProgram
from dblog.cluster.records import TaskId, task_status_record
from dblog.config.worker import read_worker_config
from dblog.kafka.log import LogRecord

CONFIG = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "tasks.max": "1",
    "database.hostname": "db",
    "database.user": "u",
    "database.server.id": "5400",
    "topic.prefix": "shop",
    "schema.history.internal.kafka.topic": "history",
    "schema.history.internal.kafka.bootstrap.servers": "b:9092",
}


class HeldLog:
    """A topic that is read at once, unless ``readable`` is cleared, or cannot be read while ``problem`` is set. What is put later is read back when the
    test says so.
    """

    def __init__(self, topic, take=None):
        self.topic = topic
        self.take = take
        self.ended = None
        self.problem = None
        self.readable = threading.Event()
        self.readable.set()
        self.reads = 0
        self.put = []
        self.value_bytes_max = 1 << 30

    def read_to_end(self, *, limit_s):
        self.reads += 1
        self.readable.wait(limit_s)
        if self.problem is not None:
            raise self.problem

    def put_all(self, writes, *, limit_s):
        for write in writes:
            self.take(LogRecord(0, 0, write.key, write.value))

    def put_later(self, key, value, *, smaller=()):
        self.put.append((key, next((each for each in (value, *smaller) if each is None or len(each) <= self.value_bytes_max), value)))

    def read_back(self):
        held, self.put = self.put, []
        for key, value in held:
            self.take(LogRecord(0, 0, key, value))

    def abandon(self):
        pass


class HeldClock:
    """Stands still unless a test moves it."""

    def __init__(self):
        self.at_s = 100.0

    def monotonic_s(self):
        return self.at_s

    def now_us(self):
        return round(self.at_s * 1_000_000)


def herder_with(clock, membership, properties=None, **more):
    """A herder whose thread is not started; ``properties``: what its worker's file has beside the usual."""
    properties = {
        "bootstrap.servers": "localhost:1",
        "group.id": "g",
        "config.storage.topic": "c",
        "offset.storage.topic": "o",
        "status.storage.topic": "s",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        **(properties or {}),
    }
    return Herder(
        read_worker_config(properties),
        make_log=HeldLog,
        membership=membership,
        prepare=lambda _stopped: "",
        task_program=TaskProgram([sys.executable]),
        providers={},
        clock=clock,
        set_level=lambda _name, _level: [],
        levels=dict,
        on_fatal=lambda _error: None,
        **more,
    )


def turn(herder):
    """One turn of the herder's thread."""
    herder.loop.post(lambda: None)  # a turn waits for something to do
    herder.turn()


def read_status(herder, status):
    """A record of the status of task c-0 arrives, and a turn follows."""
    key, value = task_status_record(TaskId("c", 0), status)
    herder.statuses.log.take(LogRecord(0, 0, key, value))
    turn(herder)
