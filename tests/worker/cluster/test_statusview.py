"""What GETs show of a connector."""

from types import SimpleNamespace

from dblog.cluster.records import State, TaskId
from dblog.cluster.statusview import StatusView


def test_the_status_of_a_connector_has_the_numbers_of_its_own_tasks_alone(herder):
    status = herder.status_writer.status(State.RUNNING)
    statuses = SimpleNamespace(connector=lambda _name: status, tasks=lambda _name: {0: status, 2: status})
    numbers = {TaskId("a", 0): 10.0, TaskId("a", 1): 11.0, TaskId("b", 2): 22.0}
    tasks = {
        task: SimpleNamespace(metrics={"dump_tables_total": total}, waits=None, state=State.RUNNING, has_process=True)
        for task, total in numbers.items()
    }
    view = StatusView(herder.configs, statuses, role=herder.role, connectors=herder.connectors, tasks=tasks, warnings=herder.warnings)

    answer = view.connector_status("a")

    assert [(task["id"], task.get("dump", {}).get("tables_total")) for task in answer["tasks"]] == [(0, 10), (2, None)]
