"""A herder without Kafka: the test controls its topics, membership and clock.

It runs turn by turn in the test's thread.
"""

import sys
import threading

from dblog.cluster.herder import Herder
from dblog.cluster.program import TaskProgram
from dblog.cluster.records import TaskId, task_status_record
from dblog.config.worker import read_worker_config
from dblog.kafka.log import LogRecord
from dblog.observe.logs import LevelTable

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
    """A topic that is read at once, unless a test prevents that.

    Reading waits while ``readable`` is cleared, and fails while ``problem`` is set.

    The test decides when records are read that were put later.
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
    """A clock that stands still unless a test moves it."""

    def __init__(self):
        self.at_s = 100.0

    def monotonic_s(self):
        return self.at_s

    def now_us(self):
        return round(self.at_s * 1_000_000)


def herder_with(clock, membership, properties=None, **more):
    """Return a herder without a running thread; ``properties`` extend the worker's usual ones."""
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
        levels=LevelTable(),
        on_fatal=lambda _error: None,
        **more,
    )


def turn(herder):
    """Run one turn of the herder's thread."""
    # A turn waits until there is something to do.
    herder.loop.post(lambda: None)
    herder.turn()


def read_status(herder, status):
    """Deliver a status record of task c-0, and run a turn."""
    key, value = task_status_record(TaskId("c", 0), status)
    herder.statuses.log.take(LogRecord(0, 0, key, value))
    turn(herder)
