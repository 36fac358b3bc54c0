"""The demo of the chart: a shop under writes, its connector, the sink, and a test pod that compares both ends."""

import base64
import json
import re
import threading
from contextlib import contextmanager

import pymysql
import pytest
import yaml
from chart.rendered import BROKERS, CHART, CONNECTOR_CLASS, container, helm, objects, objects_of, one, refusal, template, worker
from dblog.cli import app
from dblog.config.connector import parse_connector
from dblog.config.plugins import find_connector
from dblog.config.unknown_keys import unknown_keys
from dblog_sink.observe.metrics import Metrics
from demo import identical, shopkeeper
from demo.load import Load
from demo.shop import TABLES
from stack import MariaDb
from stack.process import wait_until
from support.servers import execute
from typer.testing import CliRunner

LIMIT_S = 120
DEMO = {"demo": {"enabled": True}}


@pytest.fixture(scope="module")
def demo():
    return objects("demo")


def secret(found, name, key):
    return base64.b64decode(one(found, "Secret", name)["data"][key]).decode()


def connector_of(found):
    (file,) = one(found, "ConfigMap", "-connectors")["data"].values()
    return json.loads(file)["config"]


# ---- what runs


def test_one_value_is_a_database_a_writer_a_connector_and_a_sink(demo):
    assert {item["metadata"]["name"] for item in demo if item["kind"] in ("StatefulSet", "Deployment")} == {
        "rel-dblog-broker", "rel-dblog-worker", "rel-dblog-shop", "rel-dblog-shop-writer", "rel-dblog-connectors", "rel-dblog-sink",
    }  # fmt: skip
    sink = yaml.safe_load(one(demo, "ConfigMap", "rel-dblog-sink")["data"]["sink.yaml"])
    config = connector_of(demo)
    assert re.fullmatch(re.sub(r"\\Q(.*?)\\E", r"\1", sink["topics.pattern"]), f"{config['topic.prefix']}.shop.orders")
    assert f"{config['database.hostname']}:{config['database.port']}" == container(demo, "Deployment", "-shop-writer")["args"][0]
    services = {item["metadata"]["name"] for item in demo if item["kind"] == "Service"}
    assert {"rel-dblog-shop", "rel-dblog-sink"} <= services
    options = find_connector(config["connector.class"]).options
    assert unknown_keys(options, config) == {}
    parse_connector(options, {"name": "shop", **config})


def test_the_connectors_password_is_a_file_that_the_worker_mounts_and_no_other_of_the_demo_is(demo):
    (mount,) = [mount["mountPath"] for mount in worker(demo)["containers"][0]["volumeMounts"] if "/secrets/" in mount["mountPath"]]
    assert connector_of(demo)["database.password"] == f"${{dir:{mount}:password}}"
    assert set(one(demo, "Secret", "-shop-login")["data"]) == {"password"}

    statements = secret(demo, "-shop", "administrator.sql")
    for user, name in (("dblog", "-shop-login"), ("shop", "-shop")):
        assert f"ALTER USER '{user}'@'%' IDENTIFIED BY '{secret(demo, name, 'password')}';" in statements.splitlines()


def test_a_demo_has_what_values_add_to_it_and_not_what_is_not_asked_for():
    extra = {"other": {"config": {"connector.class": CONNECTOR_CLASS}}}
    found = objects_of(template(values={**DEMO, "connectors": extra, "sink": {"config": {"chunks.wait.s": 9}}}).stdout)

    assert set(one(found, "ConfigMap", "-connectors")["data"]) == {"other.json", "shop.json"}
    assert yaml.safe_load(one(found, "ConfigMap", "rel-dblog-sink")["data"]["sink.yaml"])["chunks.wait.s"] == 9
    for name in ("minimal", "first-look"):
        assert not [item for item in objects(name) if "shop" in item["metadata"]["name"]]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({**DEMO, "kafka": {"bootstrapServers": "b:1"}}, "demo.enabled belongs to a first look, on the broker of the chart"),
        ({**DEMO, "kafka": {}, "connectors": {"shop": {"config": {"a": "b"}}}}, "give yours another name"),
        ({**DEMO, "kafka": {}, "sink": {"kind": "Job"}}, "sink.kind=Job: leave it out"),
    ],
)
def test_a_demo_that_cannot_be_is_refused_with_a_sentence(values, sentence):
    assert sentence in refusal(**values)


def test_an_upgrade_that_keeps_the_values_of_the_chart_before_knows_no_demo():
    done = template("--set", f"{BROKERS},demo=null,broker=null")

    assert done.returncode == 0, done.stderr


def test_the_notes_name_the_writer_a_table_and_the_test():
    said = helm("install", "dblog", CHART, "-n", "dblog", "--set", "demo.enabled=true", "--dry-run=client").stdout.partition("\nNOTES:")[2]

    assert "kubectl -n dblog logs deployment/dblog-shop-writer" in said
    assert "sink-entrypoint show shop.orders" in said
    assert "helm -n dblog test dblog --logs" in said
    assert "DB_HOST" not in said


def test_the_test_pod_prints_the_answer_last_and_stays_to_be_read(demo):
    pod = one(demo, "Pod", "-test")

    assert pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation"
    assert [one["name"] for one in pod["spec"]["initContainers"]] == ["check"]
    (found,) = pod["spec"]["containers"]
    connector, tables, url, metrics_url, *options = found["args"]
    assert connector == "shop"
    assert {table.removeprefix("shop.") for table in tables.split(",")} == set(TABLES)
    assert url == "http://rel-dblog-worker.space.svc:8083"
    assert metrics_url == "http://rel-dblog-sink.space.svc:9404/metrics"
    assert options == ["--login", "/etc/dblog/own/rest"]
    assert pod["spec"]["activeDeadlineSeconds"] > identical.LIMIT_S


# ---- the database and its writer


@pytest.fixture(scope="module")
def shop(demo, servers_folder):
    """A MariaDB with the options and the accounts of the chart's."""
    given = container(demo, "StatefulSet", "-shop")["args"][2:]
    options = dict(re.fullmatch(r"--([\w-]+)(?:=(.*))?", argument).groups() for argument in given)
    of_the_pod = {"init-file", "tmpdir", "socket", "pid-file", "innodb-use-native-aio"}
    with MariaDb(
        servers_folder / "shop",
        options={name.replace("-", "_"): value or "ON" for name, value in options.items() if name not in of_the_pod},
    ) as server:
        statements = secret(demo, "-shop", "administrator.sql").rstrip().removesuffix(";").split(";\n")
        for _ in range(2):  # at each start of the server
            execute(server, *statements)
        yield server


def login(server, demo, user):
    password = secret(demo, "-shop" if user == "shop" else "-shop-login", "password")
    return lambda: pymysql.connect(host=server.host, port=server.port, user=user, password=password, charset="utf8mb4")


def test_the_shop_is_filled_once_and_written_to(shop, demo):
    connect = login(shop, demo, "shop")
    sizes = shopkeeper.Sizes(customers=50, orders=60, products=20, everything=5)

    assert [shopkeeper.open_shop(connect, sizes) for _ in range(2)] == [True, False]
    load = Load(connect, flavor="mariadb", sizes=sizes, rate_per_s=200, changes_max=60, seed=1)
    load.start()
    wait_until(lambda: load.ended, timeout_s=LIMIT_S, what="sixty changes")
    load.stop()
    assert load.changes >= 60


def test_the_account_of_the_connector_has_what_it_needs_and_no_more(shop, demo, tmp_path):
    shopkeeper.open_shop(login(shop, demo, "shop"), shopkeeper.Sizes(customers=5, orders=5, products=5, everything=1))
    config = connector_of(demo) | {
        "database.hostname": shop.host, "database.port": str(shop.port), "database.password": secret(demo, "-shop-login", "password"),
    }  # fmt: skip
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": "shop", "config": config}))

    done = CliRunner().invoke(app, ["doctor", str(file)])

    assert (done.exit_code, "REVOKE" in done.output) == (0, False), done.output


def test_a_login_that_the_database_refuses_ends_the_writer_with_the_remedy(shop, demo):
    def connect():
        return pymysql.connect(host=shop.host, port=shop.port, user="shop", password="of another volume")

    with pytest.raises(SystemExit, match="takes its passwords from the Secret when it starts, so start it again"):
        shopkeeper.wait_for(connect, threading.Event(), where="shop:3306")


# ---- whether both ends are the same


@contextmanager
def asked(verdicts, tables=("shop.a", "shop.b")):
    """A question whose dumps have these verdicts, one after the other, in the metrics that a sink serves; and the dumps that were asked for."""
    metrics = Metrics(version="0")
    commands = []
    coming = iter(verdicts)

    class Asked(identical.Question):
        def dumps(self, *arguments):
            commands.append(arguments)
            if arguments[0] == "start":
                for table, facts in next(coming).items():
                    metrics.take("verified", {"table": table, **dict.fromkeys(identical.COUNTS, 0), **facts})

    port = metrics.serve("127.0.0.1:0")
    yield Asked("shop", tables, "http://unused", f"http://127.0.0.1:{port}/metrics", (), identical.time.monotonic() + LIMIT_S), commands


EQUAL = {"result": "equal", "equal": 40, "changed": 2}


def test_the_answer_is_yes_when_every_row_of_every_table_is_the_sources(capsys):
    with asked([{"shop.a": EQUAL, "shop.b": EQUAL}]) as (question, commands):
        assert identical.answer(question)

    assert commands == [
        ("watch", "shop", "initial"),
        ("start", "shop", r"shop\.a", r"shop\.b", "--mode", "verify", "--watch"),
    ]
    assert re.search(r"shop\.a +40 +2 +0 +0 +0$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("wrong", identical.WRONG)
def test_the_answer_is_no_when_one_row_is_not(wrong):
    with asked([{"shop.a": EQUAL, "shop.b": {"result": "differing", "equal": 39, wrong: 1}}]) as (question, _):
        assert not identical.answer(question)


def test_a_table_without_rows_is_no_proof():
    with asked([{"shop.a": EQUAL, "shop.b": {"result": "equal"}}]) as (question, _):
        assert not identical.answer(question)


def test_a_table_without_a_verdict_is_asked_for_again_and_in_the_end_there_is_no_answer():
    unknown = {"result": "unknown"}
    with asked([{"shop.a": EQUAL, "shop.b": unknown}, {"shop.b": EQUAL}]) as (question, commands):
        assert identical.answer(question)
    assert commands[-1] == ("start", "shop", r"shop\.b", "--mode", "verify", "--watch")

    with (
        asked([{"shop.a": unknown, "shop.b": unknown}] * identical.TRIES) as (question, _),
        pytest.raises(identical.StopError, match="shop.a, shop.b"),
    ):
        identical.answer(question)


def test_a_sink_that_is_away_is_named_and_the_last_line_says_that_nothing_is_known(monkeypatch, capsys):
    monkeypatch.setattr(identical, "LIMIT_S", 0.1)

    assert identical.main(["shop", "shop.a", "http://127.0.0.1:9", "http://127.0.0.1:9/metrics"]) == 2
    printed = capsys.readouterr().out.splitlines()
    assert "the sink's metrics; its pod's log says why it does not start" in printed[0]
    assert printed[-1] == "identical: not known"
