"""Task processes without Kafka: conversation, orderly and forced ends, and what is known of a death."""

import itertools
import os
import queue
import signal
import time

import pytest
import structlog
from dblog.clock import lease_clock_s
from dblog.cluster.processes import Died, ProcessTable, TaskMessage
from dblog.cluster.program import TaskProgram
from dblog.cluster.records import TaskId
from support.recorded_program import RecordedProgram
from support.worker import alive

TASK = TaskId("a", 0)


@pytest.fixture
def events():
    return queue.SimpleQueue()


@pytest.fixture
def program():
    return RecordedProgram()


@pytest.fixture
def table(program, events):
    made = ProcessTable(program=program, on_event=events.put)
    yield made
    made.close()


def start_message(behaviour="run", **config):
    return {
        "type": "start",
        "connector": "a",
        "task": 0,
        "target": "STARTED",
        "config": {"topic.prefix": "p", "dummy.behaviour": behaviour, **config},
    }


def all_of(events, limit_s=30):
    """The events as they come; queue.Empty when the limit is over."""
    deadline_s = time.monotonic() + limit_s
    while True:
        yield events.get(timeout=max(0.01, deadline_s - time.monotonic()))
        assert time.monotonic() < deadline_s, "other events went on and on"


def message_of(events, kind):
    def is_it(event):
        assert isinstance(event, TaskMessage), event
        return event.message["type"] == kind

    return next(filter(is_it, all_of(events))).message


def died(events):
    return next(event for event in all_of(events) if isinstance(event, Died))


def test_a_child_takes_messages_and_answers(table, program, events):
    run = table.start(TASK, start_message())

    assert message_of(events, "topic")["topic"] == "p.shop.orders"
    assert message_of(events, "state")["state"] == "RUNNING"
    table.send(run, {"type": "pause"})
    assert message_of(events, "state")["state"] == "PAUSED"
    table.stop(run, limit_s=30)
    assert message_of(events, "state")["state"] == "STOPPED"
    end = died(events)
    assert (end.run, end.exit_code, end.signal_number, end.forced) == (run, 0, None, False)
    (begun,) = program.handed_out
    assert (begun.process.returncode, begun.process.stderr.closed, begun.control.fileno()) == (0, True, -1)


def test_a_child_gets_the_time_that_it_may_take_to_stop(table, events):
    run = table.start(TASK, start_message())
    message_of(events, "state")

    table.stop(run, limit_s=7.5)

    assert message_of(events, "state")["limit_s"] == 7.5


def test_a_large_first_message_arrives_whole(table, events):
    table.start(TASK, start_message(filler="x" * 5_000_000))

    assert message_of(events, "state")["state"] == "RUNNING"


def test_a_child_that_does_not_stop_is_killed_at_its_limit(table, events):
    run = table.start(TASK, start_message("deaf"))
    message_of(events, "state")

    table.stop(run, limit_s=0.2)

    end = died(events)
    assert (end.signal_number, end.forced) == (signal.SIGKILL, True)


def test_a_killed_childs_signal_is_known(table, program, events):
    table.start(TASK, start_message())
    message_of(events, "state")

    os.kill(program.pids[0], signal.SIGTERM)

    end = died(events)
    assert (end.exit_code, end.signal_number, end.forced) == (None, signal.SIGTERM, False)


def test_the_last_message_of_a_child_arrives_before_its_death(table, events):
    table.start(TASK, start_message("fail", **{"database.password": "x"}))

    assert message_of(events, "state")["state"] == "FAILED"
    assert died(events).exit_code == 1


def test_what_is_no_unicode_in_a_childs_texts_arrives_as_numbers(table, events):
    line = r'{"type": "odd", "a\ud800": ["b\udcff", {"c": "\ud83d\ude00 \u00fc", "n": 1}]}'
    table.start(TASK, start_message("lines", **{"dummy.lines": line}))

    assert message_of(events, "odd") == {"type": "odd", "a\\ud800": ["b\\udcff", {"c": "😀 ü", "n": 1}]}


def test_lines_that_are_no_messages_are_passed_over(table, events):
    lines = ["[" * 100_000, "{", "1", "9" * 5000, "[]", '{"type": "last"}']
    table.start(TASK, start_message("lines", **{"dummy.lines": "\n".join(lines)}))

    assert message_of(events, "last") == {"type": "last"}


def test_a_child_that_sends_a_line_without_end_is_killed_and_the_others_are_heard(table, events):
    table.start(TASK, start_message("endless"))
    run = table.start(TaskId("b", 0), start_message())

    seen = list(itertools.islice(all_of(events), 4))

    assert [event.signal_number for event in seen if isinstance(event, Died)] == [signal.SIGKILL]
    assert [event.message["type"] for event in seen if isinstance(event, TaskMessage) and event.run == run] == ["topic", "metrics", "state"]


def test_a_value_that_is_no_unicode_reaches_the_child_and_the_others_are_started(table, events):
    table.start(TASK, start_message(odd=b"\xff".decode(errors="surrogateescape")))

    assert message_of(events, "state")["state"] == "RUNNING"


def test_the_last_lines_of_the_error_output_are_kept(table, events, capfd):
    table.start(TASK, start_message("exit"))

    end = died(events)

    assert (end.exit_code, end.last_output) == (3, "last words of the dummy")
    assert "last words of the dummy" in capfd.readouterr().out


def test_error_output_becomes_lines_of_the_log_without_secrets(table, events):
    with structlog.testing.capture_logs() as lines:
        table.start(TASK, start_message("exit"), hide=lambda text: text.replace("last words", "[hidden]"))
        end = died(events)

    assert end.last_output == "[hidden] of the dummy"
    assert [line["output"] for line in lines if "output" in line] == ["[hidden] of the dummy"]


def test_a_program_that_cannot_be_started_is_a_death(events):
    table = ProcessTable(program=TaskProgram(["/no/such/program"]), on_event=events.put)
    table.start(TASK, start_message())

    end = died(events)

    assert end.exit_code == -1
    assert "could not be started" in end.last_output
    table.close()


def test_orders_to_a_child_that_is_gone_do_nothing(table, events):
    run = table.start(TASK, start_message("exit"))
    died(events)

    table.send(run, {"type": "pause"})
    table.stop(run, limit_s=1)
    table.start(TASK, start_message())

    assert message_of(events, "state")["state"] == "RUNNING"


def test_closing_leaves_no_process_behind(program, events):
    table = ProcessTable(program=program, on_event=events.put)
    for number in range(3):
        table.start(TaskId("a", number), start_message())
    for _ in range(3):
        message_of(events, "state")
    assert all(map(alive, program.pids))

    table.close()

    assert len(program.pids) == 3
    assert not any(map(alive, program.pids))


@pytest.fixture
def leased(program, events):
    made = ProcessTable(program=program, on_event=events.put, leased=True)
    yield made
    made.close()


def test_nothing_starts_without_a_lease_and_nothing_outlives_it(leased, program, events):
    leased.start(TASK, start_message())
    assert "leads its group no longer" in died(events).last_output
    assert program.handed_out == []
    leased.lease(lease_clock_s() + 600)
    leased.start(TASK, start_message())
    message_of(events, "state")

    leased.lease(lease_clock_s() + 0.3)

    assert died(events).signal_number == signal.SIGKILL
    assert not alive(program.pids[0])


def test_all_children_can_be_ended_and_waited_for(leased, program, events):
    leased.lease(lease_clock_s() + 600)
    leased.start(TASK, start_message("deaf"))
    message_of(events, "state")

    assert leased.end_all(limit_s=20)

    assert not alive(program.pids[0])
    assert leased.end_all(limit_s=20)
