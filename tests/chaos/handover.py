"""Take a connector over from a real Debezium, hand it back and take it again, over one offset and one set of topics, while its table is written.

Debezium begins: only a schema history that it made is kept in its form. Each hand-over is the one that Kafka Connect has for it: stop here, read the offsets, PATCH them there, resume there.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from typing import TYPE_CHECKING, Any

import httpx
from chaos.database import SENTINEL
from chaos.effects import Statement
from chaos.kinds import KIND_SESSION, way
from chaos.plan import Step
from confluent_kafka import KafkaException
from demo.rest import NO_TLS
from stack import Debezium
from stack.errors import StackError
from stack.process import wait_until
from support.topicfold import last_value

if TYPE_CHECKING:
    from chaos.run import Run

ROUNDS = 2
CHANGES = 4
"""Transactions before each hand-over, while nobody follows, and after it."""
FIRST_NUMBER = 50_000
READ_S = 120.0
DDL = (
    ("ALTER TABLE y_way MODIFY COLUMN paid INT AFTER due",),
    (
        "ALTER TABLE y_way RENAME COLUMN paid TO other",
        "ALTER TABLE y_way RENAME COLUMN due TO paid",
        "ALTER TABLE y_way RENAME COLUMN other TO due",
    ),
)
"""What happens to the table while dblog follows it, one round after the other; PostgreSQL's log describes each table by itself."""


def begin(run: Run, ending: contextlib.ExitStack) -> None:
    """Have Debezium dump the table and follow it, and dblog go on with what it leaves. Debezium's program runs on for the fault."""
    names = {f"{kind}.storage.topic": f"{run.prefix}-peer-{kind}" for kind in ("config", "offset", "status")}
    debezium = Debezium(
        run.folder / "debezium",
        run.servers.kafka,
        registry_url=run.servers.worker.url,
        flavor=run.database.source.flavor,
        options={"group.id": f"{run.prefix}-peer", **names, "offset.flush.interval.ms": 1000},
        heap="1g",
    )
    ending.enter_context(debezium)
    run.peer_url = debezium.url
    config = run.config(run.connector)
    _ask("POST", debezium.url, "/connectors", {"name": run.connector, "config": config})
    _read(run, debezium.url)
    offsets = _stop(debezium.url, run.connector)  # first: a slot that somebody reads is refused
    _ask("POST", run.servers.worker.url, "/connectors", {"name": run.connector, "config": config, "initial_state": "STOPPED"})
    _go_on(run, run.servers.worker.url, offsets)


def handover(run: Run) -> None:
    """Have Debezium go on with the connector's offsets, and take it back, some times."""
    worker = run.servers.worker.url
    for number, statements in enumerate(DDL[:ROUNDS]):
        run.database.change_way(statements)
        for side, (here, there) in enumerate(((worker, run.peer_url), (run.peer_url, worker))):
            _write(run, number, side, 0)
            if here == worker:
                _read(run, here)  # else the dump may be still to come
            offsets = _stop(here, run.connector)
            while here == worker and _dumps(offsets):
                _ask("PUT", here, f"/connectors/{run.connector}/resume")
                wait_until(lambda: _dumped(run), timeout_s=READ_S, what="the dump after a change of the table", pause_s=0.3)
                offsets = _stop(here, run.connector)
            _write(run, number, side, 1)  # while nobody follows
            _go_on(run, there, offsets)
            _write(run, number, side, 2)
            _read(run, there)


def _dumps(offsets: Any) -> bool:
    """Return whether a dump is under way. Debezium begins another snapshot then, and nobody reads what is deleted before that."""
    return any("snapshot" in one["offset"] for one in offsets["offsets"])


def _dumped(run: Run) -> bool:
    dump = run.servers.worker.rest.dump(run.connector)
    return dump.done or not dump.known


def _go_on(run: Run, url: str, offsets: Any) -> None:
    wait_until(lambda: _stopped(url, run.connector), timeout_s=READ_S, what="a stopped connector", pause_s=0.2)
    run.log(f"{url} goes on with {json.dumps(offsets)[:2000]}")
    _ask("PATCH", url, f"/connectors/{run.connector}/offsets", offsets)
    _ask("PUT", url, f"/connectors/{run.connector}/resume")


def _write(run: Run, *moment: int) -> None:
    """Change the table, whether the load still does or not: a Debezium takes long to start."""
    dice = random.Random(repr((run.plan.seed, moment)))
    connection = run.database.login()
    with contextlib.closing(connection):
        for number in range(CHANGES):
            sqls = way(dice, FIRST_NUMBER + sum(10 ** (3 - at) * each for at, each in enumerate((*moment, number))))
            done = tuple(Statement(sql, "border" if sql in ("BEGIN", "COMMIT") else "handover") for sql in sqls)
            run.database.do(connection, Step(at_s=0.0, session=KIND_SESSION, kind="handover", statements=done))


def _read(run: Run, url: str) -> None:
    """Wait until what is in the log now has been written by whoever runs there."""
    run.sentinels += 1
    text = f"sentinel {run.sentinels}."
    run.database.sentinel(run.sentinels, text)

    def read() -> bool:
        status = _ask("GET", url, f"/connectors/{run.connector}/status")
        failed = [task["trace"] for task in status.get("tasks", ()) if task.get("state") == "FAILED"]
        if failed:
            raise StackError(f"the task failed after a hand-over: {failed[0][:1500]}")
        with contextlib.suppress(KafkaException):
            topic = f"{run.connector}.{run.database.name}.{SENTINEL}"
            return text.encode() in (last_value(run.servers.kafka.bootstrap, topic) or b"")
        return False

    wait_until(read, timeout_s=READ_S, what=f"the end of the log by {url}", pause_s=0.3)


def _stop(url: str, name: str) -> Any:
    _ask("PUT", url, f"/connectors/{name}/stop")
    wait_until(lambda: _stopped(url, name), timeout_s=READ_S, what="a stopped connector", pause_s=0.2)
    return _ask("GET", url, f"/connectors/{name}/offsets")


def _stopped(url: str, name: str) -> bool:
    answer = _ask("GET", url, f"/connectors/{name}/status")
    return bool(answer["connector"]["state"] == "STOPPED" and not answer["tasks"])


def _ask(method: str, url: str, path: str, body: object = None) -> Any:
    """Make a call, again while it is refused: a group that has just begun rebalances."""
    deadline_s = time.monotonic() + READ_S
    while True:
        answer = httpx.request(method, f"{url}{path}", json=body, timeout=120, verify=NO_TLS)
        if answer.is_success:
            return answer.json() if answer.content else None
        if time.monotonic() > deadline_s:
            raise StackError(f"{method} {path}: {answer.status_code} {answer.text[:600]}")
        time.sleep(0.5)
