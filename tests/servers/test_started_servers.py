"""The servers that docker/stack starts: they answer, they are what the connector needs, they keep their data and their port."""

import errno
import os
import signal
from pathlib import Path

import pymysql
import pytest
from stack import Kafka, MariaDb, MySql, Prometheus, StackError
from stack.database import Database
from stack.kafka import class_archive
from stack.process import wait_until
from support.servers import check_that_a_stop_keeps_records, execute, new_database, started


def test_a_source_has_a_binary_log_as_the_connector_needs_it(source: Database):
    facts = execute(source, "SELECT @@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata, @@server_id > 0")

    assert facts == [(1, "ROW", "FULL", "FULL", 1)]


def test_mysql_is_9_7_with_gtids(mysql: MySql):
    assert execute(mysql, "SELECT @@version LIKE '9.7.%', @@gtid_mode") == [(1, "ON")]


def test_mariadb_is_10_11_with_strict_gtids(mariadb: MariaDb):
    assert execute(mariadb, "SELECT @@version LIKE '10.11.%', @@gtid_strict_mode") == [(1, 1)]


def test_the_administrator_is_not_in_the_binary_log(source: Database):
    first = execute(source, "SHOW BINARY LOGS")[0][0]

    events = execute(source, f"SHOW BINLOG EVENTS IN '{first}' LIMIT 20")

    assert not [event for event in events if "IDENTIFIED" in str(event) and "'root'@" in str(event)]


def test_another_password_is_refused(source: Database):
    with pytest.raises(pymysql.OperationalError, match="1045"):
        pymysql.connect(**{**source.login, "password": "guess"})


@pytest.mark.parametrize("kind", [MariaDb, MySql])
def test_a_killed_source_comes_back_with_its_rows_on_its_port(kind: type[Database], own_folder: Path):
    with started(kind(own_folder, options={"server_id": 77})) as server:
        database = new_database(server)
        execute(server, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)", database=database)
        port = server.port

        server.kill()
        with pytest.raises(pymysql.OperationalError):
            pymysql.connect(**server.login)
        server.start()

        assert server.port == port
        assert execute(server, "SELECT id, @@server_id FROM a", database=database) == [(1, 77)]
        server.restart(options={"binlog_row_image": "MINIMAL"})
        assert execute(server, "SELECT id, @@binlog_row_image FROM a", database=database) == [(1, "MINIMAL")]


def test_a_stopped_broker_comes_back_with_its_records_on_its_port(own_folder: Path):
    with started(Kafka(own_folder, options={"num.partitions": 1}, heap="512m")) as kafka:
        check_that_a_stop_keeps_records(kafka)


def test_prometheus_scrapes_what_it_is_given_and_refuses_what_it_does_not_understand(own_folder: Path):
    with started(Prometheus(own_folder, interval_s=0.2)) as prometheus:
        assert prometheus.query("up") == []

        prometheus.scrape({"itself": [f"127.0.0.1:{prometheus.port}"]})
        wait_until(lambda: bool(prometheus.query('up{job="itself"} == 1')), timeout_s=30, what="a scrape")

        assert prometheus.firing() == {}
        with pytest.raises(StackError, match="parse error"):
            prometheus.query("sum(")


def test_a_broker_takes_its_classes_from_the_archive_that_the_machines_first_one_wrote(kafka: Kafka):
    program, class_path, contained = kafka.program()
    if contained:
        return  # a container starts by what its image has

    archive = class_archive(program[0], class_path)

    assert str(archive) in Path(f"/proc/{kafka.pid}/maps").read_text(), "a start costs three times the CPU without it"


@pytest.mark.parametrize("why", ["no room", "killed"])
def test_a_broker_starts_by_its_jars_where_no_archive_of_its_classes_can_be_kept(
    kafka: Kafka, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    broker = Kafka(tmp_path / "broker")
    (broker.folder / "data").mkdir(parents=True)
    (broker.folder / "data" / "meta.properties").touch()
    found = kafka.program()
    monkeypatch.setattr(Kafka, "program", lambda _: found)
    monkeypatch.setenv("DBLOG_CACHE", str(tmp_path / "cache"))
    if why == "no room":
        monkeypatch.setattr("stack.kafka.cached", refused)
    else:
        monkeypatch.setattr(Kafka, "start", lambda _: None)
        monkeypatch.setattr(Kafka, "stop", lambda _: 128 + signal.SIGKILL)

    assert "-Xshare:auto" in broker.prepare()
    assert not list(tmp_path.glob("cache/*/classes.jsa"))


def test_jars_that_are_not_those_of_an_archive_have_another_one(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program, _, contained = kafka.program()
    if contained:
        return
    names: list[str] = []
    monkeypatch.setattr("stack.kafka.cached", lambda name, _: names.append(name) or tmp_path)
    jar = tmp_path / "jars" / "a.jar"
    jar.parent.mkdir()
    jar.touch()

    for time_s in (1, 1, 2):
        os.utime(jar, (time_s, time_s))
        class_archive(program[0], f"{jar.parent}/*")

    assert names[0] == names[1] != names[2]
