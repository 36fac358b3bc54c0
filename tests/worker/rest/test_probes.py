"""Live depends on the process alone, ready on its place in the group: asked on both listeners, without a login, while the broker goes and comes back."""

from types import SimpleNamespace

import httpx
from stack import Kafka
from stack.process import free_port
from support.servers import started
from support.worker import Worker, until

LOGIN = {
    "rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension",
    "session.timeout.ms": "6000",
    "dblog.rest.allowed.hosts": "worker.example",
}


def login_files(folder, **settings):
    (folder / "users").write_text("ann=s3cret\n")
    (folder / "users").chmod(0o600)
    (folder / "jaas").write_text(
        f'KafkaConnect {{ org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required file="{folder / "users"}"; }};'
    )
    return {**LOGIN, "dblog.rest.login.config": str(folder / "jaas"), **settings}


def asked(port, path):
    """Status and body of a probe, which goes by an address and has no login."""
    answer = httpx.get(f"http://127.0.0.1:{port}{path}", timeout=10)
    return answer.status_code, answer.json()


def test_a_broker_that_is_away_makes_a_worker_unready_and_leaves_it_live(own_folder):
    reading = free_port()
    with started(Kafka(own_folder / "kafka")) as kafka:
        settings = login_files(own_folder, **{"dblog.rest.readonly.listener": f"http://127.0.0.1:{reading}"})
        with Worker(kafka, own_folder, "probed", **settings) as worker:
            ports = (worker.port, reading)
            until(lambda: asked(reading, "/health/ready") == (200, {"status": "ready", "role": "leader"}))
            assert {port: asked(port, "/health/live") for port in ports} == dict.fromkeys(ports, (200, {"status": "live"}))
            assert httpx.post(f"http://127.0.0.1:{reading}/health/live").status_code == 403
            assert httpx.get(f"{worker.url}/connectors", headers={"host": "another.example"}).status_code == 421
            assert httpx.get(f"{worker.url}/connectors").status_code == 401  # names and logins are asked for everywhere else

            kafka.kill()
            code, body = until(lambda: found if (found := asked(reading, "/health/ready"))[0] == 503 else None)
            assert (code, body["status"]) == (503, "not ready")
            assert "standby" not in body["message"]
            assert {port: asked(port, "/health/live")[0] for port in ports} == dict.fromkeys(ports, 200)

            kafka.start()
            until(lambda: asked(worker.port, "/health/ready")[0] == 200, limit_s=60)
            assert worker.process.running


def test_a_standby_is_ready_too(kafka, own_folder):
    with Worker(kafka, own_folder, "two-probed", name="two-probed-1") as first:
        until(lambda: asked(first.port, "/health/ready")[1].get("role") == "leader")
        with Worker(kafka, own_folder, "two-probed", name="two-probed-2") as second:
            until(lambda: asked(second.port, "/health/ready") == (200, {"status": "ready", "role": "standby"}))


def test_a_worker_whose_brokers_have_never_answered_is_live_and_not_ready(own_folder):
    nowhere = SimpleNamespace(bootstrap=f"127.0.0.1:{free_port()}")
    worker = Worker(nowhere, own_folder, "early")

    def listens():
        try:
            return asked(worker.port, "/health/live")[0] == 200
        except httpx.TransportError:
            return False

    worker.process.ready = listens
    with worker:
        code, body = asked(worker.port, "/health/ready")
        assert (code, body["status"]) == (503, "not ready")
        assert body["message"].startswith("Worker is still starting up.")
