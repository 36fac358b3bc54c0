"""Hand a connector over to a real Debezium and take it back, over one offset and one set of topics, while its table is written.

Each hand-over is the one that Kafka Connect has for it: stop here, read the offsets, PATCH them there, resume there.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import httpx
from chaos.database import SENTINEL
from confluent_kafka import KafkaException
from demo.rest import NO_TLS
from stack import Debezium
from stack.errors import StackError
from stack.process import wait_until
from support.topicfold import last_value

if TYPE_CHECKING:
    from chaos.run import Run

ROUNDS = 2
WHILE_S = 2.0
"""How long each of them follows the table at least."""
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


def handover(run: Run) -> None:
    """Have Debezium go on with the connector's offsets, and take it back, some times."""
    worker = run.servers.worker.url
    names = {f"{kind}.storage.topic": f"{run.prefix}-peer-{kind}" for kind in ("config", "offset", "status")}
    debezium = Debezium(
        run.folder / "debezium",
        run.servers.kafka,
        registry_url=worker,
        flavor=run.database.source.flavor,
        options={"group.id": f"{run.prefix}-peer", **names, "offset.flush.interval.ms": 1000},
        heap="1g",
    )
    with debezium:
        config = run.config(run.connector) | {"schema.history.internal.skip.unparseable.ddl": "true"}
        body = {"name": run.connector, "config": config, "initial_state": "STOPPED"}
        _ask("POST", debezium.url, "/connectors", body)
        for statements in DDL[:ROUNDS]:
            run.database.change_way(statements)
            for here, there in ((worker, debezium.url), (debezium.url, worker)):
                offsets = _stop(here, run.connector)
                time.sleep(WHILE_S / 2)  # how long nobody follows
                wait_until(lambda at=there: _stopped(at, run.connector), timeout_s=READ_S, what="a stopped connector", pause_s=0.2)
                _ask("PATCH", there, f"/connectors/{run.connector}/offsets", offsets)
                _ask("PUT", there, f"/connectors/{run.connector}/resume")
                time.sleep(WHILE_S)  # how long it is followed
                _read(run, there)


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
