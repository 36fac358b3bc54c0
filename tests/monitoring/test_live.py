"""Faults of real processes make a real Prometheus, with the shipped rules and shorter times, fire what it should, and nothing before them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from demo.pipeline import Worker
from monitoring.live import address, create, frozen, shop, wait_for, watching
from stack import Kafka, MariaDb
from stack.process import wait_until
from support.servers import execute, started


def test_a_frozen_database_a_failed_task_and_a_stopped_worker_are_reported(kafka: Kafka, own_folder: Path) -> None:
    with (
        started(MariaDb(own_folder / "mariadb", durable=False)) as source,
        Worker(kafka, own_folder / "worker", name="alerts") as worker,
        watching(own_folder, {"worker": [address(worker.url)]}) as prometheus,
    ):
        create(worker, shop(kafka, source, "alive"))
        wait_until(lambda: prometheus.query("dblog_task_lag_seconds == 0") != [], timeout_s=60, what="a lag of nothing")
        execute(source, "INSERT INTO alive.orders VALUES (4, 'd')")
        no_trouble = {
            "DblogStalled",
            "DblogLagHigh",
            "DblogTaskFailed",
            "DblogTaskUnassigned",
            "DblogEventsSkipped",
            "DblogKafkaErrors",
            "DblogQueueFull",
            "DblogDumpStuck",
        }
        # A minute of the rules is one second here, and a busy machine may stall that long; but it passes while nothing is wrong.
        wait_until(lambda: not no_trouble & set(prometheus.firing()), timeout_s=60, what="no alert of a connector that is well")

        with frozen(source):
            wait_for(prometheus, "DblogStalled", "DblogLagHigh", timeout_s=240)
            pid = worker.task_pid()
            assert pid is not None
            os.kill(pid, signal.SIGKILL)  # its new process cannot start: the database answers nothing
            wait_for(prometheus, "DblogTaskUnassigned", timeout_s=120)
        ended = {"DblogStalled", "DblogLagHigh", "DblogTaskUnassigned"}
        wait_until(lambda: not ended & set(prometheus.firing()), timeout_s=120, what="the alerts to end")

        worker.rest.create(
            "broken",
            shop(kafka, source, "broken", database__initial__statements="NO SUCH STATEMENT").config | {"database.server.id": "184055"},
        )
        wait_for(prometheus, "DblogTaskFailed")
        assert {labels["connector"] for labels in prometheus.firing()["DblogTaskFailed"]} == {"broken"}

        worker.stop()
        wait_for(prometheus, "DblogNoWorker")
