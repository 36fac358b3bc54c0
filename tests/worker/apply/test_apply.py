"""``dblog connectors apply`` against real workers: files become connectors, drift is mended, and what is wrong is named and changes nothing."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from dblog.apply.interface import Interface
from dblog.apply.restarts import Policy, Restarts
from dblog.apply.round import Task, run_round
from stack import GuardedProcess
from stack.process import free_port
from support.json_lines import json_lines
from support.worker import Worker, connector_config, postgres_config, until

BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
PASSWORD = "s3same-open"


@pytest.fixture(scope="module")
def group(kafka, servers_folder):
    """A leader and a standby with a login."""
    folder = servers_folder / "apply"
    folder.mkdir()
    (folder / "users").write_text(f"ann={PASSWORD}\n")
    (folder / "users").chmod(0o600)
    (folder / "jaas").write_text(
        f'KafkaConnect {{ org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required file="{folder / "users"}"; }};'
    )
    login = folder / "login"
    login.mkdir()
    (login / "username").write_text("ann\n")
    (login / "password").write_text(PASSWORD)
    settings = {"rest.extension.classes": BASIC_AUTH, "dblog.rest.login.config": str(folder / "jaas")}
    with Worker(kafka, folder, "apply", name="apply-1", **settings) as first:
        until(lambda: httpx.get(f"{first.url}/health/ready").json().get("role") == "leader")
        with Worker(kafka, folder, "apply", name="apply-2", **settings) as second:
            for worker in (first, second):
                worker.client.auth = ("ann", PASSWORD)
            until(lambda: httpx.get(f"{second.url}/health/ready").json().get("role") == "standby")
            yield first, second, login


@pytest.fixture
def wanted(tmp_path):
    folder = tmp_path / "wanted"
    folder.mkdir()
    return folder


def want(folder, name, state=None, **config):
    """A file with that connector; ``dummy_behaviour`` becomes ``dummy.behaviour``."""
    content = {
        "config": {
            **connector_config(topic_prefix=f"{folder.parent.name}-{name}"),
            **{key.replace("_", "."): text for key, text in config.items()},
        }
    }
    (folder / f"{name}.json").write_text(json.dumps({**content, **({"state": state} if state else {})}))


def command(*arguments):
    return [sys.executable, "-m", "dblog", "connectors", *map(str, arguments)]


def apply(group, folder, *arguments, url=None):
    """One round: exit status, and the log's lines but for remarks about configurations. Without another one the test is the owner, so that no test sees what others left."""
    status, lines = apply_and_remark(group, folder, *arguments, url=url)
    return status, [line for line in lines if line["event"] != "connector leaves something in doubt"]


def apply_and_remark(group, folder, *arguments, url=None):
    """One round: exit status, and all of the log's lines."""
    leader, _, login = group
    if "--owner" not in arguments:
        arguments += ("--owner", folder.parent.name)
    done = subprocess.run(
        command("apply", folder, "--url", url or leader.url, "--login", login, *arguments),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def changes(lines):
    return [(line["action"], line["connector"]) for line in lines if line["event"] == "connector changed"]


def test_files_become_connectors_and_a_second_round_changes_nothing(group, wanted):
    leader, standby, _ = group
    want(wanted, "made")
    want(wanted, "made-paused", state="paused")

    # At the address of a standby, which hands it on: the leader's address need not be reached from here.
    status, lines = apply(group, wanted, "--owner", "one", url=standby.url)

    assert (status, changes(lines)) == (0, [("create", "made"), ("create", "made-paused")]), lines
    leader.wait_for("made", "RUNNING", "RUNNING")
    leader.wait_for("made-paused", "PAUSED")
    audited = [line for line in leader.log.read_text().splitlines() if "dblog.audit" in line and "'made" in line]
    assert audited
    assert all(f"handed_on_by={standby.url}" in line.replace("'", "") for line in audited), audited
    assert leader.client.get("/connectors/made/config").json()["dblog.owner"] == "one"
    assert "no such key" not in leader.log.read_text()
    status, lines = apply_and_remark(group, wanted, "--owner", "one")
    events = {line["event"] for line in lines}
    assert (status, events) == (0, {"connector leaves something in doubt", "2 connectors are as wanted"}), (
        "a password is written out in them"
    )


def test_drift_is_mended_and_named_by_its_keys(group, wanted):
    leader, _, _ = group
    want(wanted, "drifting", state="running")
    apply(group, wanted)
    leader.wait_for("drifting", "RUNNING", "RUNNING")
    leader.client.patch("/connectors/drifting/config", json={"max.batch.size": "17", "database.user": "mallory"})
    leader.client.put("/connectors/drifting/pause")
    leader.wait_for("drifting", "PAUSED", "PAUSED")

    status, lines = apply(group, wanted)

    assert status == 0
    assert changes(lines) == [("update", "drifting"), ("setstate", "drifting")]
    assert lines[0]["keys"] == ["database.user", "max.batch.size"]
    assert PASSWORD not in json.dumps(lines)
    leader.wait_for("drifting", "RUNNING", "RUNNING")
    assert leader.client.get("/connectors/drifting/config").json()["database.user"] == "u"


def test_what_others_made_is_left_alone_and_named(group, wanted):
    leader, _, _ = group
    leader.create("theirs", database_user="them")
    want(wanted, "theirs")

    status, lines = apply(group, wanted, "--prune")

    assert status == 1
    assert "made by others" in lines[-1]["reason"]
    assert leader.client.get("/connectors/theirs/config").json()["database.user"] == "them"
    leader.client.patch("/connectors/theirs/config", json={"dblog.owner": wanted.parent.name})
    assert apply(group, wanted)[0] == 0
    assert leader.client.get("/connectors/theirs/config").json()["database.user"] == "u"


def test_only_own_connectors_are_deleted_and_only_when_asked(group, wanted):
    leader, _, _ = group
    leader.create("not-ours")
    want(wanted, "ours", topic_prefix="ours")
    want(wanted, "kept")
    apply(group, wanted, "--owner", "pruner")
    (wanted / "ours.json").unlink()

    status, (line,) = apply(group, wanted, "--owner", "pruner")
    assert (status, line["event"], line["connector"]) == (0, "connector is left over", "ours")
    assert "no file wants it any more" in line["reason"]
    (wanted / "kept.json").write_text("{")  # nobody knows which connector it wants
    _, lines = apply(group, wanted, "--owner", "pruner")
    assert {line["reason"] for line in lines if line["event"] == "connector is left over"} == {
        "no file that could be read wants it; it stays, since a file could not be read, which may be its own"
    }
    status, lines = apply(group, wanted, "--owner", "pruner", "--prune")
    assert (status, changes(lines)) == (1, [])
    want(wanted, "kept")
    assert changes(apply(group, wanted, "--owner", "pruner", "--prune")[1]) == [("delete", "ours")]

    names = leader.client.get("/connectors").json()
    assert {"not-ours", "kept"} <= set(names)
    assert "ours" not in names


def test_a_connector_left_over_is_named_again_when_the_reason_is_another_and_not_in_each_round(group, wanted, tmp_path):
    leader, _, login = group
    want(wanted, "left", topic_prefix="left")
    want(wanted, "beside", topic_prefix="beside")
    apply(group, wanted)
    (wanted / "left.json").unlink()
    (wanted / "beside.json").write_text("{")
    log, problems = tmp_path / "log", tmp_path / "problems"

    def reasons():
        lines = json_lines(log)
        return [
            line["reason"].partition("; ")[0]
            for line in lines
            if line.get("event") == "connector is left over" and line["connector"] == "left"
        ]

    arguments = command(
        "apply", wanted, "--url", leader.url, "--login", login, "--owner", wanted.parent.name, "--every", 1, "--problems-file", problems
    )
    with GuardedProcess("connectors apply", arguments, log=log, ready=problems.exists) as program:
        until(lambda: reasons() == ["no file that could be read wants it"])
        want(wanted, "beside", topic_prefix="beside")
        until(lambda: len(reasons()) == 2)
        rounds_ns = problems.stat().st_mtime_ns
        until(lambda: problems.stat().st_mtime_ns > rounds_ns)
        assert reasons() == ["no file that could be read wants it", "no file wants it any more"]
        assert program.stop() == 0


def test_an_empty_folder_deletes_all_connectors_only_when_that_is_asked_for(group, wanted):
    leader, _, _ = group
    want(wanted, "last", topic_prefix="last")
    apply(group, wanted)
    (wanted / "last.json").unlink()

    status, lines = apply(group, wanted, "--prune")

    assert (status, changes(lines)) == (1, [])
    assert [line["connector"] for line in lines if "there is no file of any connector" in line["reason"]] == ["last", "last"]
    assert "last" in leader.client.get("/connectors").json()
    assert apply(group, wanted, "--prune-all")[0] == 2
    status, lines = apply(group, wanted, "--prune", "--prune-all")
    assert (status, changes(lines)) == (0, [("delete", "last")])


def test_a_connector_that_got_another_name_is_a_problem_while_both_write_to_its_topics(group, wanted):
    leader, _, _ = group
    want(wanted, "old-name", topic_prefix="renamed")
    apply(group, wanted, "--owner", "renamer")
    (wanted / "old-name.json").rename(wanted / "new-name.json")

    status, lines = apply(group, wanted, "--owner", "renamer")

    problems = {line["connector"]: line for line in lines if line["event"] == "connector is not as wanted"}
    assert (status, sorted(problems)) == (1, ["new-name", "old-name"])
    assert (problems["old-name"]["field"], "new-name has the same" in problems["old-name"]["reason"]) == ("topic.prefix", True)
    assert "topic.prefix: renamed is also that of connector old-name" in problems["new-name"]["reason"]
    leader.client.put("/connectors/old-name/stop")
    leader.wait_for("old-name", "STOPPED")
    assert apply(group, wanted, "--owner", "renamer")[0] == 0
    (wanted / "new-name.json").rename(wanted / "a-third-name.json")
    status, lines = apply(group, wanted, "--owner", "renamer", "--prune")
    assert (status, changes(lines)) == (0, [("delete", "new-name"), ("delete", "old-name"), ("create", "a-third-name")])
    renamed = {line["connector"]: line for line in lines if line["event"] == "connector gets another name"}
    assert sorted(renamed) == ["new-name", "old-name"]
    assert "`dblog dumps start a-third-name TABLE --mode repair`" in renamed["old-name"]["reason"]
    (wanted / "a-third-name.json").rename(wanted / "a-fourth-name.json")
    lines = apply(group, wanted, "--owner", "renamer", "--prune", "--dry-run")[1]
    assert [line["new_name"] for line in lines if line["event"] == "connector gets another name"] == ["a-fourth-name"]


def test_a_single_file_deletes_no_other_connector_unless_that_is_asked_for(group, wanted):
    leader, _, _ = group
    want(wanted, "first", topic_prefix="first")
    postgres = postgres_config(topic_prefix="second", dummy_behaviour="fail")
    (wanted / "second.json").write_text(json.dumps({"config": postgres}))
    apply(group, wanted)
    owner = ("--owner", wanted.parent.name)

    status, lines = apply(group, wanted / "first.json", *owner, "--prune")

    assert (status, changes(lines)) == (2, [])
    assert "--prune would delete every other connector of the owner" in lines[-1]["reason"]
    assert {"first", "second"} <= set(leader.client.get("/connectors").json())
    leader.wait_for("second", "RUNNING", "FAILED")
    status, lines = apply(group, wanted / "first.json", *owner, "--prune", "--prune-all")
    assert (status, changes(lines)) == (0, [("delete", "second")]), "one that has just been deleted is no problem any more"
    (left,) = [line["reason"] for line in lines if line["event"] == "a deleted connector leaves something at its database"]
    assert "the replication slot" in left
    lines = apply(group, wanted / "first.json", *owner)[1]
    assert [line["event"] for line in lines] == ["1 connectors are as wanted"]


def test_a_configuration_that_fails_its_check_is_not_applied_and_its_field_is_named(group, wanted, tmp_path):
    leader, _, _ = group
    want(wanted, "checked")
    apply(group, wanted)
    want(wanted, "checked", database_hostname="strict")
    want(wanted, "checked-new", max_batch_size="many")
    problems = tmp_path / "problems"

    status, lines = apply(group, wanted, "--problems-file", problems)

    assert status == 1
    assert {(line["connector"], line["field"]) for line in lines} == {("checked", "database.user"), ("checked-new", "max.batch.size")}
    assert leader.client.get("/connectors/checked/config").json()["database.hostname"] == "db"
    assert leader.client.get("/connectors/checked-new").status_code == 404
    assert [line.split(": ")[:2] for line in problems.read_text().splitlines()] == [
        ["checked", "database.user"],
        ["checked-new", "max.batch.size"],
    ]
    assert "GRANT REPLICATION SLAVE" in problems.read_text()


def test_a_dry_run_validates_and_changes_nothing(group, wanted):
    leader, _, _ = group
    want(wanted, "tried")

    status, lines = apply(group, wanted, "--dry-run")

    assert status == 0
    assert [(line["event"], line["action"]) for line in lines] == [("connector would be changed", "create")]
    assert leader.client.get("/connectors/tried").status_code == 404


def test_round_after_round_it_mends_drift_restarts_what_may_be_restarted_and_reports(group, wanted, tmp_path):
    leader, _, login = group
    problems, port = tmp_path / "problems", free_port()
    failed = json.dumps({"type": "state", "state": "FAILED", "trace": "TransientError: the database is away"})
    want(wanted, "looked-after")
    want(wanted, "may-pass", dummy_behaviour="lines", dummy_lines=failed)
    want(wanted, "needs-person", dummy_behaviour="fail")
    program = GuardedProcess(
        "connectors apply",
        command(
            "apply", wanted, "--url", leader.url, "--login", login, "--owner", "loop", "--every", 1, "--problems-file", problems,
            "--metrics-port", port,
        ),
        log=tmp_path / "log",
        ready=problems.exists,
    )  # fmt: skip
    with program:
        leader.wait_for("looked-after", "RUNNING", "RUNNING")
        leader.client.delete("/connectors/looked-after")
        leader.wait_for("looked-after", "RUNNING", "RUNNING")

        until(lambda: "may-pass" in restarted(program.log))
        until(lambda: "needs-person: task 0 is FAILED and waits for a person" in problems.read_text())
        until(lambda: "may-pass: task 0 is FAILED and is started again 2 minutes after" in problems.read_text())
        numbers = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        assert 'dblog_apply_problem{connector="needs-person",field=""} 1.0' in numbers
        assert 'dblog_apply_actions_total{action="restart"} 1.0' in numbers
        assert 'dblog_apply_connectors{which="wanted"} 3.0' in numbers

        for name in ("may-pass", "needs-person"):
            want(wanted, name)
        until(lambda: problems.read_text() == "")
        until(lambda: "all connectors are as wanted" in program.log.read_text())
        lines = json_lines(program.log)
        reported = [line for line in lines if line.get("connector") == "needs-person" and line["event"] == "connector is not as wanted"]
        assert len(reported) == 1  # a problem that stays fills no log
        assert restarted(program.log) == ["may-pass"]
        assert program.stop() == 0


def restarted(log):
    lines = json_lines(log)
    return [line["connector"] for line in lines if line["event"] == "failed connector started again"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--login", "/nowhere"), "the login cannot be read: /nowhere"),
        (("--ca", "/dev/null"), "cannot be used"),
    ],
)
def test_a_login_or_certificates_that_cannot_be_used_end_it_with_the_reason(group, wanted, arguments, reason):
    status, lines = apply(group, wanted, *arguments)

    assert status == 2
    assert reason in lines[-1]["reason"]


def test_a_wrong_login_a_folder_and_a_worker_that_are_not_there_are_named(group, wanted, tmp_path):
    (tmp_path / "wrong").write_text("ann:wrong")

    status, lines = apply(group, wanted, "--login", tmp_path / "wrong")
    assert (status, "refuses this login" in lines[-1]["reason"]) == (2, True)
    status, lines = apply(group, tmp_path / "nowhere")
    assert (status, "does not exist" in lines[-1]["reason"]) == (2, True)
    status, lines = apply(group, wanted, url=f"http://127.0.0.1:{free_port()}")
    assert (status, "no worker answers" in lines[-1]["reason"]) == (1, True)


def test_problems_of_a_former_life_are_not_taken_for_this_ones(group, wanted, tmp_path):
    _, _, login = group
    problems = tmp_path / "problems"
    problems.write_text("")  # all was as wanted
    os.utime(problems, (0, 0))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        arguments = command("apply", wanted, "--url", url, "--login", login, "--every", 1, "--problems-file", problems)
        with (
            GuardedProcess("connectors apply", arguments, log=tmp_path / "log", ready=lambda: problems.stat().st_mtime > 0),
            silent.accept()[0],  # the round has begun, and has no answer yet
        ):
            assert problems.read_text().startswith("all: ")


def test_a_round_shows_that_it_advances_behind_each_connector(group, wanted):
    leader, _, _ = group
    for name in ("first", "second"):
        want(wanted, f"advancing-{name}")
    made = []

    def advanced():
        made.append({name for name in leader.client.get("/connectors").json() if name.startswith("advancing-")})

    with Interface(leader.url, login=("ann", PASSWORD)) as interface:
        report = run_round(Task(path=wanted, owner="advance"), interface, Restarts(Policy()), advanced=advanced)

    assert report.problems == []
    assert made == [{"advancing-first"}, {"advancing-first", "advancing-second"}]


class _Other(BaseHTTPRequestHandler):
    """A server that answers, and is no worker."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'["s3cret"]')

    def log_message(self, *_):
        pass


def test_what_nobody_foresaw_ends_one_round_and_not_the_program(group, wanted, tmp_path):
    _, _, login = group
    problems = tmp_path / "problems"
    with ThreadingHTTPServer(("127.0.0.1", 0), _Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"

        status, (line,) = apply(group, wanted, url=url)

        assert status == 2
        assert re.fullmatch(r"the round ended by AttributeError at round\.py:\d+, which is a mistake of dblog: report it", line["reason"])
        arguments = command("apply", wanted, "--url", url, "--login", login, "--every", 1, "--problems-file", problems)
        with GuardedProcess("connectors apply", arguments, log=tmp_path / "log", ready=problems.exists) as program:
            until(lambda: "ended by AttributeError" in problems.read_text())
            first_ns = problems.stat().st_mtime_ns
            until(lambda: problems.stat().st_mtime_ns > first_ns)
            assert program.stop() == 0
        assert "s3cret" not in (tmp_path / "log").read_text()
        server.shutdown()


def test_check_says_what_holds(group):
    leader, standby, login = group

    done = subprocess.run(command("check", "--url", standby.url, "--login", login), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"the group answers, led by {leader.url}")
    assert done.stdout.splitlines()[-1] == "configurations are validated"
    refused = subprocess.run(command("check", "--url", leader.url), capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, "wants a login" in refused.stderr) == (1, True)


def test_what_a_configuration_leaves_in_doubt_is_logged_and_with_strict_it_is_not_applied(group, wanted):
    leader, _, _ = group
    want(wanted, "doubtful", **{"table.inclde.list": 'a."b"'})
    text = "table.inclde.list: no such key; it is ignored. Is table.include.list meant?"

    def doubts(lines):
        return [
            line["reason"] for line in lines if line["event"] == "connector leaves something in doubt" and line["connector"] == "doubtful"
        ]

    status, lines = apply_and_remark(group, wanted, "--strict")
    assert (status, changes(lines)) == (1, [])
    assert text in doubts(lines)
    assert any(line["event"] == "connector is not as wanted" and text in line["reason"] for line in lines)
    assert leader.status("doubtful") is None

    want(wanted, "sound")  # with a password that is written out, and defaults that are not Debezium's: both are ordinary
    status, lines = apply_and_remark(group, wanted, "--strict")
    assert (status, changes(lines)) == (1, [("create", "sound")])

    status, lines = apply_and_remark(group, wanted)
    assert (status, changes(lines)) == (0, [("create", "doubtful")])
    assert text in doubts(lines)
    leader.wait_for("doubtful", "RUNNING", "RUNNING")

    status, lines = apply_and_remark(group, wanted)
    assert (status, changes(lines)) == (0, [])
    assert text in doubts(lines), "a warning that stands is named in the first round of each run"

    status, lines = apply(group, wanted, "--strict")
    assert (status, changes(lines)) == (1, [])
    problems = [(line["connector"], line["reason"]) for line in lines if line["event"] == "connector is not as wanted"]
    assert ("doubtful", f"{text} (--strict)") in problems
    assert not any("written out" in reason or "database.password" in reason for _, reason in problems), "ordinary remarks are none"
