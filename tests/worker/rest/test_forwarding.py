"""A standby hands on to the leader what only the leader can answer: over TLS, with the login of whoever asks, never in a circle, and for nobody whom the leader
would take for somebody else.
"""

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

    # The page, too: what the leader knows, with the headers of the worker that was asked, and an action with the login of whoever clicked.
    # A leader that takes longer than a view may leaves it to the standby, which says that it stands by.
    view = until(lambda: found if "This worker stands by" not in (found := asked("eve", "GET", "/ui/connectors/a")).text else None)
    assert (view.status_code, "/confirm/pause" in view.text) == (200, False)
    assert view.headers["content-security-policy"].startswith("default-src 'self'")
    assert f"{leader.id}" in view.text
    assert asked("eve", "GET", "/ui/connectors/a/config").status_code == 403
    clicked = {"headers": {"HX-Request": "true"}, "timeout": 60, "verify": standby.tls}
    assert httpx.post(f"{standby.url}/ui/connectors/a/do/restart", auth=("eve", "eve"), **clicked).status_code == 403
    restarted = httpx.post(f"{standby.url}/ui/connectors/a/do/restart", auth=("oli", "oli"), **clicked)
    assert (restarted.status_code, restarted.headers["hx-trigger"], "Restarted: a." in restarted.text) == (200, "changed", True)

    # The standby's line names the leader; the leader's has the keys, and tells the standby's address from its client's.
    line = next(line for line in standby.log.read_text().splitlines() if "dblog.audit" in line and "POST" in line and "201" in line)
    assert f"handed_on_to={leader.url}" in line.replace("'", "")
    line = next(
        line for line in leader.log.read_text().splitlines() if "dblog.audit" in line and "database.hostname" in line and "'b'" in line
    )
    assert all(text in line.replace("'", "") for text in (f"handed_on_by={standby.url}", "handed_on_for=127.0.0.1", "user=root"))


def test_a_leader_that_does_not_answer_leaves_the_status_to_the_standby_and_refuses_nothing_silently(secured):
    leader, standby = secured
    os.kill(leader.process.pid, signal.SIGSTOP)

    began_s = time.monotonic()
    assert standby.status("a")["name"] == "a"
    assert time.monotonic() - began_s < 15
    until(lambda: leader.url not in standby.client.get("/health").json()["message"])
    until(lambda: standby.client.post("/connectors/a/restart", params={"includeTasks": "true"}).status_code == 202)


def members(kafka, folder, **settings_of_both):
    """A leader and a standby on one machine, with TLS; whoever shows a certificate in the tests is `ann`."""
    authority = Authority(folder)
    write_keystore(authority)
    settings = {
        "listeners.https.ssl.keystore.location": f"{folder}/keystore.pem",
        "listeners.https.ssl.truststore.location": str(authority.path),
        **settings_of_both,
    }
    return (
        Worker(kafka, folder, folder.name, name=f"{folder.name}-{name}", tls=trusting(authority), **settings, **TIMES, **FEW)
        for name in "ab"
    )


def refused_with_its_url(answer, leader):
    assert answer.status_code == 409, answer.text
    assert leader.url in answer.json()["message"]
    return True


def test_who_is_known_by_a_certificate_gets_no_more_at_a_standby_than_at_the_leader(kafka, own_folder):
    (own_folder / "roles").write_text("ann=admin shop-.*, reader\n")
    leader, standby = members(
        kafka,
        own_folder,
        **{"listeners.https.ssl.client.auth": "requested", "dblog.rest.roles.file": f"{own_folder}/roles"},
    )
    with leader:
        leader.create("shop-a").raise_for_status()
        leader.wait_for("shop-a", "RUNNING", "RUNNING")
        with standby:
            assert leader.create("foreign").status_code == 403
            assert standby.create("foreign").status_code == 403
            assert refused_with_its_url(standby.create("shop-b", topic_prefix="shop-b"), leader)
            for method, path in (
                ("PUT", "/connectors/shop-a/stop"),
                ("DELETE", "/connectors/shop-a"),
                ("GET", "/connectors/shop-a/dumps"),
                ("POST", "/connectors/shop-a/tasks/0/restart"),
            ):
                assert refused_with_its_url(standby.client.request(method, path), leader)
            assert standby.status("shop-a")["connector"]["state"] == "RUNNING"
            assert standby.client.get("/connectors", params={"expand": "status"}).json().keys() == {"shop-a"}
        assert leader.client.get("/connectors").json() == ["shop-a"]


def test_whoever_is_on_the_machine_of_a_standby_is_not_on_the_leaders_for_that(kafka, own_folder):
    leader, standby = members(kafka, own_folder)
    with leader, standby:
        until(lambda: leader.url in standby.client.get("/health").json()["message"])
        assert refused_with_its_url(standby.create("a"), leader)
        # Nor where the standby lets everybody in.
        given = {"x-dblog-forwarded-by": standby.url}
        config = {"name": "a", "config": {}}
        assert leader.client.post("/connectors", json=config, headers=given).status_code == 403
        assert leader.client.get("/connectors").json() == []


@pytest.mark.some_cases
@pytest.mark.parametrize("of_standby", ["required", "none"])
def test_a_leader_that_wants_a_certificate_is_named_and_nothing_is_called_unknown(kafka, own_folder, of_standby):
    (own_folder / "users").write_text(f"root={hashed('root')}\n")
    leader, standby = members(
        kafka,
        own_folder,
        **{"listeners.https.ssl.client.auth": "required", "dblog.rest.users.file": f"{own_folder}/users"},
    )
    standby.properties["listeners.https.ssl.client.auth"] = of_standby
    standby.write_properties()
    leader.client.auth = standby.client.auth = ("root", "root")
    with leader:
        leader.create("a").raise_for_status()
        leader.wait_for("a", "RUNNING", "RUNNING")
        with standby:
            for method, path in (("PUT", "/connectors/a/stop"), ("GET", "/connectors/a/dumps"), ("DELETE", "/connectors/a")):
                assert refused_with_its_url(standby.client.request(method, path), leader)
            assert standby.status("a")["connector"]["state"] == "RUNNING"
