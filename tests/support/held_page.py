"""The web page on a herder without Kafka: the test writes the topics' records and the tasks' reports."""

import asyncio
import json
import time
from types import SimpleNamespace

import httpx
from dblog.cluster.decisions import Phase
from dblog.cluster.records import (
    State,
    Status,
    Target,
    TaskId,
    TopicUse,
    connector_status_record,
    task_status_record,
    topic_use_record,
)
from dblog.cluster.sinkstore import SinkView
from dblog.cluster.statusview import TaskReport
from dblog.config.roles import EVERYTHING
from dblog.kafka.group import Standing
from dblog.kafka.log import LogRecord
from dblog.page.history import History
from dblog.page.recorder import Recorder
from dblog.page.routes import Page
from dblog.rest.api import Checks, Services
from dblog.rest.app import Part, build_app
from dblog.rest.identity import Identity, Principal, Way
from dblog.rest.limits import Limits
from dblog.rest.waiting import Waiting
from support.held_herder import CONFIG, HeldClock, herder_with, turn

STARTED_S = 1_790_000_000.0


class _Caller(Identity):
    """Lets every caller in as the test's user."""

    grants = EVERYTHING

    def without_header(self, scope):
        return Principal("eve", Way.OPEN, self.grants)


class HeldPage:
    """A page, the herder that it shows, and a browser's requests."""

    def __init__(self, monkeypatch, *, leads=True, properties=None):
        membership = SimpleNamespace(standing=Standing(leads=leads, term=1, leader="" if leads else "http://other:8083"), group="g")
        self.herder = herder_with(HeldClock(), membership, properties)
        turn(self.herder)
        self.herder.ready.set()
        self.reports = {}
        self.tasks = {}
        monkeypatch.setattr(self.herder.status_view, "reports", self._reported)
        monkeypatch.setattr(self.herder.tasks, "get", self.tasks.get)
        worker = self.herder.worker
        self.history = History()
        self.recorder = Recorder(self.history, self.herder.status_view)
        self.caller = _Caller(worker.settings)
        page = Page(self.history, version="1.2.3", started_s=STARTED_S)
        self.fleet = page.fleet
        self.sinks = SinkView()
        services = Services(
            worker=worker, herder=self.herder, validator=None, checks=Checks(), metrics=bytes, commit="dblog-1.2.3", sinks=self.sinks
        )
        self.app = build_app(
            services,
            waiting=Waiting(),
            part=Part.ALL,
            page_routes=page.routes(),
            identity=self.caller,
            limits=Limits.of(worker.settings),
        )

    def connector(
        self, name, state="RUNNING", task=None, *, trace=None, target="STARTED", numbers=None, waits=None, age_s=0.0, config=None
    ):
        """Let there be a connector with one task, whose process reports ``numbers`` unless they are None."""
        herder = self.herder
        herder.configs.write_connector(name, {**CONFIG, "name": name, "topic.prefix": name, **(config or {})}, target=Target(target))
        connector = Status(state=State(state), worker_id="w:1", generation=1)
        herder.statuses.log.take(LogRecord(0, 0, *connector_status_record(name, connector)))
        id_ = TaskId(name, 0)
        status = Status(state=State(task or state), worker_id="w:1", generation=1, trace=trace)
        herder.statuses.log.take(LogRecord(0, 0, *task_status_record(id_, status)))
        self.tasks[id_] = SimpleNamespace(
            has_process=True, phase=Phase.ALIVE, waits=waits, state=State(task or state), metrics=numbers or {}, failure=trace, run=1
        )
        if numbers is not None:
            self.reports[id_] = numbers, age_s, waits

    def topic(self, connector, name):
        """Let the connector have written to a topic."""
        self.herder.statuses.log.take(
            LogRecord(0, 0, *topic_use_record(name, connector, TopicUse(topic=name, connector=connector, task=0, discovered_ms=1)))
        )

    def sink(self, name="lake", *, state_path="/lake/_dblog", age_s=0.0, **fields):
        """Let a sink have reported of itself."""
        value = {
            "version": 1,
            "at_ms": int((time.time() - age_s) * 1000),
            "program": "1.2.3",
            "interval_s": 10,
            "state": "running",
            **fields,
        }
        key = json.dumps({"sink": name, "state": state_path, "topic": None})
        self.sinks.take(LogRecord(0, 0, key.encode(), json.dumps(value).encode(), live=age_s == 0))

    def sink_table(self, topic, sink="lake", *, state_path="/lake/_dblog", **fields):
        """Let a sink have reported of a table."""
        value = {"version": 1, "at_ms": 1, "name": topic.partition(".")[2], "path": f"/lake/{topic}", "mode": "auto", **fields}
        key = json.dumps({"sink": sink, "state": state_path, "topic": topic})
        self.sinks.take(LogRecord(0, 0, key.encode(), json.dumps(value).encode()))

    def _reported(self):
        """The reports, each of the age that the test gave it, however slow this machine is."""
        return {id_: TaskReport(numbers, time.time() - age_s, waits, {}) for id_, (numbers, age_s, waits) in self.reports.items()}

    def request(self, method, path, *, script=False, **more):
        """Send a browser's request, or with ``script`` one of the page's script."""
        headers = {**({"HX-Request": "true"} if script else {}), **more.pop("headers", {})}

        self.fleet.renew()

        async def answer():
            transport = httpx.ASGITransport(self.app, client=("127.0.0.1", 50000))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8083") as client:
                return await client.request(method, path, headers=headers, **more)

        return asyncio.run(answer())

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def close(self):
        self.herder.processes.close()
