"""A task that is ordered to stop before it sends anything ends at once, whatever it is at; later it gets its time, and no more."""

from __future__ import annotations

import queue
import sys
import time
from pathlib import Path

import pytest
from dblog.config.plugins import CONNECTORS
from dblog.runtime.stop import ENDED_BY, FAREWELL_S, SENT_BY, Stop
from support.task_process import JSON, TIMEOUT_S, silent, task_process, wait_for

PROMPTLY_S = 2.5
"""Half of what the herder gives. A busy machine needs some of it to hear the order."""

IMPORTS_FOR_EVER = """
import sys, threading
from dblog import task

class Endless:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            print("importing", flush=True)
            threading.Event().wait()

sys.meta_path.insert(0, Endless())
sys.exit(task.main(["--control-fd", sys.argv[2]]))
"""


def config_of(**further: str) -> dict[str, str]:
    return {
        "name": "c",
        "connector.class": next(c.class_name for c in CONNECTORS if c.flavor == "mariadb"),
        "topic.prefix": "c",
        "database.hostname": "127.0.0.1",
        "database.port": "3306",
        "database.user": "u",
        "database.password": "p",
        "database.server.id": "5400",
        "schema.history.internal.kafka.topic": "h",
        "schema.history.internal.kafka.bootstrap.servers": "127.0.0.1:1",
        "key.converter": JSON,
        "value.converter": JSON,
        **further,
    }


@pytest.mark.parametrize("module", ["dblog.runtime.supervisor", "dblog.dialects.tasks"])
def test_a_task_that_still_imports_its_modules_ends_when_it_is_ordered_to_stop(module: str) -> None:
    with task_process(sys.executable, "-c", IMPORTS_FOR_EVER, module) as task:
        task.start(config_of(), bootstrap="127.0.0.1:1")
        task.wait_logged("importing")

        assert task.seconds_to_stop() < PROMPTLY_S


def test_a_task_whose_database_does_not_answer_ends_when_it_is_ordered_to_stop() -> None:
    with silent() as database, task_process() as task:
        task.start(config_of(**{"database.port": str(database.port)}), bootstrap="127.0.0.1:1")
        database.wait_asked()

        assert task.seconds_to_stop() < PROMPTLY_S


def test_what_the_herder_names_as_hidden_is_in_no_line_of_a_tasks_log() -> None:
    with task_process() as task:
        address = "127.0.0.1:1"  # nobody listens there, and the log reports that again and again
        task.start(config_of(**{"database.port": "1"}), bootstrap=address, hidden={address: "${file:/x:address}"})
        line = wait_for(task.lines, lambda line: "${file:/x:address}" in line)

        assert address not in line
        assert task.seconds_to_stop() < PROMPTLY_S
        assert not any(address in line for line in list(task.lines.queue))


def test_a_process_of_dblog_leaves_no_core_dump() -> None:
    with task_process() as task:
        limits = Path(f"/proc/{task.process.pid}/limits")
        deadline_s = time.monotonic() + TIMEOUT_S
        while limits.read_text(encoding="ascii").partition("Max core file size")[2].split()[0] != "0":
            assert time.monotonic() < deadline_s


def test_a_task_that_has_failed_is_not_kept_by_what_python_does_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import atexit, threading\natexit.register(threading.Event().wait)\n", encoding="utf-8")
    with task_process(path=tmp_path) as task:
        task.start(config_of(**{"connector.class": "unknown"}), bootstrap="127.0.0.1:1")
        wait_for(task.messages, lambda message: message.get("state") == "FAILED")

        assert task.process.wait(TIMEOUT_S) == 1


@pytest.fixture
def ended() -> queue.SimpleQueue[int]:
    return queue.SimpleQueue()


def test_an_order_that_is_heeded_ends_the_process_in_front_of_the_herders_limit(ended: queue.SimpleQueue[int]) -> None:
    stop = Stop(ended.put)
    with stop.heeded():
        began_s = time.monotonic()
        stop.order(0.5)

        assert ended.get(timeout=TIMEOUT_S) == 0
        assert time.monotonic() - began_s >= 0.5 * ENDED_BY


def test_who_has_stored_everything_gets_a_moment_for_the_rest(ended: queue.SimpleQueue[int]) -> None:
    stop = Stop(ended.put)
    with stop.heeded():
        stop.order(3600.0)
    left_at_s = time.monotonic()

    assert ended.get(timeout=TIMEOUT_S) == 0
    assert time.monotonic() - left_at_s >= FAREWELL_S * 0.9


def test_a_wait_is_shortened_by_the_order_and_never_lengthened(ended: queue.SimpleQueue[int]) -> None:
    stop = Stop(ended.put)
    with stop.heeded():
        assert 99 < stop.left_s(time.monotonic() + 100, SENT_BY) <= 100
        stop.order(20.0)

        assert 19 * SENT_BY < stop.left_s(time.monotonic() + 100, SENT_BY) <= 20 * SENT_BY
        assert stop.left_s(time.monotonic() + 1, SENT_BY) <= 1
        assert stop.left_s(time.monotonic() - 1, SENT_BY) == 0
