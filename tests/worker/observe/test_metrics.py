"""The text of the metrics: what it counts, and what it costs where there are many connectors."""

import asyncio
import threading
import time
from types import SimpleNamespace

import httpx
from dblog.observe.metrics import TaskNumbers, WorkerNumbers, metrics_text
from dblog.rest import admin
from starlette.applications import Starlette


def numbers(connectors, *states):
    """Every connector has a task in each of the states."""
    tasks = [
        TaskNumbers(connector=f"c{n}", task=task, state=state, plugin="mysql", server="s", kills=0, values={})
        for n in range(connectors)
        for task, state in enumerate(states)
    ]
    return WorkerNumbers(connectors={f"c{n}": "running" for n in range(connectors)}, tasks=tuple(tasks), startup_counts={})


def test_tasks_are_counted_by_connector_and_state():
    text = metrics_text(lambda: numbers(2, "running", "failed", "running"))().decode()

    assert 'kafka_connect_worker_connector_total_task_count{connector="c1"} 3.0' in text
    assert 'kafka_connect_worker_connector_running_task_count{connector="c0"} 2.0' in text
    assert 'kafka_connect_worker_connector_failed_task_count{connector="c1"} 1.0' in text
    assert 'kafka_connect_worker_connector_paused_task_count{connector="c1"} 0.0' in text


def test_the_time_grows_with_the_number_of_connectors_and_not_with_its_square():
    def took_s(connectors):
        now = numbers(connectors, "running")
        began_s = time.process_time()
        metrics_text(lambda: now)()
        return time.process_time() - began_s

    few_s, many_s = (min(took_s(connectors) for _ in range(3)) for connectors in (500, 4000))

    assert many_s < 8 * few_s * 2.5, (few_s, many_s)


def test_the_event_loop_serves_others_while_the_text_is_made():
    asked, answered = threading.Event(), threading.Event()

    def slow():
        asked.set()
        return b"in time" if answered.wait(10) else b"too late"

    app = Starlette(routes=admin.ROUTES)
    app.state.services = SimpleNamespace(metrics=slow, commit="c", herder=SimpleNamespace(cluster_id="k"))

    async def both():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://w") as client:
            scrape = asyncio.create_task(client.get("/metrics"))
            assert await asyncio.to_thread(asked.wait, 10)
            assert (await client.get("/")).status_code == 200
            answered.set()
            return (await scrape).content

    assert asyncio.run(both()) == b"in time"
