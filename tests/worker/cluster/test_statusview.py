"""What GETs show of a connector."""

from types import SimpleNamespace

import pytest
from dblog.cluster.decisions import Phase
from dblog.cluster.localtasks import LocalTask
from dblog.cluster.records import State, Target, TaskId
from dblog.cluster.statusview import StatusView


def test_the_status_of_a_connector_has_the_numbers_of_its_own_tasks_alone(herder):
    status = herder.status_writer.status(State.RUNNING)
    statuses = SimpleNamespace(connector=lambda _name: status, tasks=lambda _name: {0: status, 2: status})
    numbers = {TaskId("a", 0): 10.0, TaskId("a", 1): 11.0, TaskId("b", 2): 22.0}
    tasks = {
        task: SimpleNamespace(metrics={"dump_tables_total": total}, waits=None, state=State.RUNNING, has_process=True, phase=Phase.ALIVE)
        for task, total in numbers.items()
    }
    view = StatusView(herder.configs, statuses, role=herder.role, connectors=herder.connectors, tasks=tasks, warnings=herder.warnings)

    answer = view.connector_status("a")

    assert [(task["id"], task.get("dump", {}).get("tables_total")) for task in answer["tasks"]] == [(0, 10), (2, None)]


@pytest.mark.parametrize("in_the_topic", [State.RUNNING, State.PAUSED, State.UNASSIGNED, State.RESTARTING])
def test_a_failed_task_is_failed_before_the_status_topic_has_it_and_nothing_is_about_to_start_it(herder, in_the_topic):
    task = TaskId("a", 0)
    unit = LocalTask(task, {}, Target.STARTED, Phase.FAILED, state=State.FAILED, failure="its slot is gone")
    statuses = SimpleNamespace(task=lambda _task: herder.status_writer.status(in_the_topic))
    view = StatusView(
        herder.configs, statuses, role=herder.role, connectors=herder.connectors, tasks={task: unit}, warnings=herder.warnings
    )

    shown = view.task_status(task)

    assert (shown.state, shown.trace) == (State.FAILED, "its slot is gone")


def test_a_task_whose_process_has_ended_is_about_to_be_started(herder):
    task = TaskId("a", 0)
    unit = LocalTask(task, {}, Target.STARTED, Phase.WAITING, state=State.RESTARTING)
    statuses = SimpleNamespace(task=lambda _task: herder.status_writer.status(State.RUNNING))
    view = StatusView(
        herder.configs,
        statuses,
        role=SimpleNamespace(leads=True, run_id="x"),
        connectors=herder.connectors,
        tasks={task: unit},
        warnings=herder.warnings,
    )

    assert view.task_status(task).state is State.UNASSIGNED
