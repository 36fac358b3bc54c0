"""A standby hands on to the leader what only the leader can answer: over TLS, with the login of whoever asks, and never in a circle."""

import os
import signal
import time

import httpx
import pytest
from support.authority import Authority
from support.worker import Worker, until
from worker.rest.test_roles import hashed
from worker.rest.test_tls_listener import trusting, write_keystore

TIMES = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "task.shutdown.graceful.timeout.ms": "2000"}
FEW = {"offset.storage.partitions": "1", "status.storage.partitions": "1"}
USERS = {"root": "admin", "oli": "operator", "eve": "reader"}


@pytest.fixture
def secured(kafka, own_folder):
    """A leader and a standby with TLS, logins and roles; the leader runs the connector `a`."""
    group = own_folder.name
    authority = Authority(own_folder)
    write_keystore(authority)
    (own_folder / "users").write_text("".join(f"{user}={hashed(user)}\n" for user in USERS))
    (own_folder / "roles").write_text("".join(f"{user}={role}\n" for user, role in USERS.items()))
    settings = {
        "listeners.https.ssl.keystore.location": f"{own_folder}/keystore.pem",
        "listeners.https.ssl.truststore.location": str(authority.path),
        "dblog.rest.users.file": f"{own_folder}/users",
        "dblog.rest.roles.file": f"{own_folder}/roles",
    }
    leader, standby = (
        Worker(kafka, own_folder, group, name=f"{group}-{name}", tls=trusting(authority), **settings, **TIMES, **FEW) for name in "ab"
    )
    with leader:
        leader.client.auth = standby.client.auth = ("root", "root")
        leader.create("a").raise_for_status()
        leader.wait_for("a", "RUNNING", "RUNNING")
        with standby:
            yield leader, standby
            os.kill(leader.process.pid, signal.SIGCONT)


def test_requests_are_handed_on_over_tls_with_the_login_of_whoever_asks(secured):
    leader, standby = secured

    def asked(user, method, path, password=None):
        return httpx.request(method, f"{standby.url}{path}", auth=(user, password or user), timeout=60, verify=standby.tls)

    assert asked("eve", "GET", "/connectors/a/dumps").status_code == 200
    assert asked("eve", "POST", "/connectors/a/restart?includeTasks=true").status_code == 403
    assert asked("root", "DELETE", "/connectors/a", "wrong").status_code == 401
    assert asked("oli", "POST", "/connectors/a/restart?includeTasks=true").status_code == 202
    leader.wait_for("a", "RUNNING", "RUNNING")
    made = standby.create("b")
    assert (made.status_code, made.headers["location"]) == (201, f"{standby.url}/connectors/b"), made.text
    leader.wait_for("b", "RUNNING", "RUNNING")
    assert asked("root", "DELETE", "/connectors/b").status_code == 204


def test_a_leader_that_does_not_answer_leaves_the_status_to_the_standby_and_refuses_nothing_silently(secured):
    leader, standby = secured
    os.kill(leader.process.pid, signal.SIGSTOP)

    began_s = time.monotonic()
    assert standby.status("a")["name"] == "a"
    assert time.monotonic() - began_s < 15
    until(lambda: leader.url not in standby.client.get("/health").json()["message"])
    until(lambda: standby.client.post("/connectors/a/restart", params={"includeTasks": "true"}).status_code == 202)
