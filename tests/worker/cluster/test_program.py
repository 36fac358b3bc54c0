"""A process begun ahead of its task."""

import queue

from dblog.cluster.processes import ProcessTable
from dblog.cluster.records import TaskId
from support.recorded_program import RecordedProgram
from support.worker import alive, until


def test_the_first_task_takes_it_and_the_second_gets_its_own():
    program = RecordedProgram()
    ahead = program.begin_ahead()

    first, second = program.begin(), program.begin()

    assert first is ahead
    assert second is not ahead
    for begun in (first, second):
        assert begun.process.poll() is None
        begun.end()
        begun.forget()


def test_one_that_died_waiting_is_not_given_to_a_task():
    program = RecordedProgram()
    waiting = program.begin_ahead()
    waiting.end()
    waiting.process.wait(10)

    begun = program.begin()

    assert begun.process.pid != waiting.process.pid
    assert begun.process.poll() is None
    begun.end()
    begun.forget()


def test_a_task_begins_at_once_in_it_and_closing_leaves_none_behind():
    program = RecordedProgram()
    ahead = program.begin_ahead().process.pid
    table = ProcessTable(program=program, on_event=queue.SimpleQueue().put)

    table.start(TaskId("a", 0), {"type": "start"})

    until(lambda: program.pids == [ahead], what=lambda: "the task to have the waiting process")
    table.close()
    assert not alive(ahead)


def test_one_that_no_task_took_ends_with_the_table():
    program = RecordedProgram()
    ahead = program.begin_ahead().process.pid

    ProcessTable(program=program, on_event=queue.SimpleQueue().put).close()

    assert not alive(ahead)
