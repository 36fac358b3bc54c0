"""Two real workers of one group under writes: paused, killed and stopped in turn, nothing is lost, nothing goes back, and no offset does. # I1 I2 I3 I7"""

import json
import os
import random
import signal
import threading

import httpx
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from demo.pipeline import Connector, Worker, create_connector_user, task_pids, task_pids_by_ps
from demo.rest import NO_TLS
from stack.process import wait_until
from support.servers import connected, execute, new_database
from support.topicfold import fold, records
from support.worker import alive

ROWS = 400


def write_until(stopped: threading.Event, server, database: str) -> None:
    """Changes of every kind, each its own transaction, as fast as the server takes them."""
    dice = random.Random(8)
    with connected(server, database=database) as connection, connection.cursor() as cursor:
        number = 0
        while not stopped.is_set():
            number += 1
            key = dice.randrange(ROWS)
            cursor.execute(
                "REPLACE INTO t VALUES (%s, %s)" if dice.random() < 0.8 else "DELETE FROM t WHERE id = %s AND v < %s", (key, number)
            )
            stopped.wait(0.01)


def offsets_of(kafka, group: str, connector: str) -> list[tuple[str, int]]:
    found = []
    for key, value, _ in records(kafka.bootstrap, f"{group}-offset"):
        if key is not None and value is not None and json.loads(key)[0] == connector:
            offset = json.loads(value)
            found.append((offset["file"], offset["pos"]))
    return found


def end_of(kafka, topic: str) -> int:
    """Records of a topic so far; it is never still here, so it cannot be read to its end."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "standby-end", "log_level": 2})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1] for partition in partitions)
    except KafkaException as e:
        if e.args[0].code() not in {KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART}:  # noqa: SLF001 - librdkafka's local codes are spelled so
            raise
        return 0  # its first record has not been sent yet
    finally:
        consumer.close()


def test_a_group_of_two_under_writes_loses_nothing_and_no_offset_goes_back(kafka, mariadb, own_folder):
    database, name = new_database(mariadb, "standby"), "standby"
    execute(mariadb, "CREATE TABLE t (id INT PRIMARY KEY, v BIGINT)", database=database)
    execute(mariadb, f"INSERT INTO t SELECT seq, 0 FROM seq_0_to_{ROWS - 1}", database=database)
    create_connector_user(mariadb)
    options = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "offset.flush.interval.ms": "200"}
    first, second = (Worker(kafka, own_folder / side, name=name, options=options) for side in "ab")
    connector = Connector(name=name, prefix=name, source=mariadb, kafka=kafka, database=database)
    topic, stopped = f"{name}.{database}.t", threading.Event()
    writer = threading.Thread(target=write_until, args=(stopped, mariadb, database))

    def leads(worker: Worker) -> bool:
        # A standby is healthy too, and its message states it.
        leading = worker.rest.healthy() and "standby" not in httpx.get(f"{worker.rest.url}/health", timeout=10, verify=NO_TLS).text
        return leading and worker.rest.state(name) == "RUNNING" and len(task_pids(worker.pid)) == 1

    def grown(by: int = 20) -> None:
        before = end_of(kafka, topic)
        wait_until(lambda: end_of(kafka, topic) >= before + by, timeout_s=60, what=f"more records of {topic}")
        stored = end_of(kafka, f"dblog-{name}-offset")
        wait_until(lambda: end_of(kafka, f"dblog-{name}-offset") >= stored + 3, timeout_s=60, what="more stored offsets")

    try:
        first.start()
        writer.start()
        first.rest.create(name, connector.config)
        wait_until(lambda: leads(first), timeout_s=60, what="the first worker's task")
        second.ready = lambda: True
        second.start()
        grown()

        paused = first.pid, *task_pids(first.pid)
        assert task_pids_by_ps(first.pid) == list(paused[1:])
        for pid in reversed(paused):
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: leads(second), timeout_s=60, what="the second worker to take over")
        assert not alive(paused[1])
        grown()
        os.kill(first.pid, signal.SIGCONT)
        grown()
        wait_until(first.rest.healthy, timeout_s=60, what="the first worker to stand by, which is healthy")
        assert task_pids(first.pid) == []

        second.kill()
        wait_until(lambda: leads(first), timeout_s=60, what="the first worker to take over again")
        grown()
        second.start()
        first.stop()
        wait_until(lambda: leads(second), timeout_s=60, what="the second worker to take over from one that stopped")
        grown()
        stopped.set()
        writer.join()

        expected = {(key,): value for key, value in execute(mariadb, "SELECT id, v FROM t", database=database)}

        def folded_now() -> bool:
            return {key: row["v"] for key, row in fold(kafka.bootstrap, second.url, topic).rows.items()} == expected

        wait_until(folded_now, timeout_s=60, what="the folded topic to be the table", pause_s=0.5)
        assert fold(kafka.bootstrap, second.url, topic).violations == []
        positions = offsets_of(kafka, f"dblog-{name}", name)
        assert len(positions) > 10
        assert positions == sorted(positions)
    finally:
        stopped.set()
        for worker in (first, second):
            if worker.pid is not None and alive(worker.pid):
                os.kill(worker.pid, signal.SIGCONT)
            worker.stop()
        execute(mariadb, f"DROP DATABASE {database}")
