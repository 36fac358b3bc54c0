"""What setting a position, going back to a configuration, or forgetting a position would do, said before it is done."""

import json

import pytest
from dblog.cluster.confighistory import BYTES_MAX, VERSIONS_MAX, ConfigHistory
from dblog.cluster.records import connector_record, offset_record
from dblog.cluster.requests import RequestError
from dblog.config.roles import Grant, Grants, Role
from dblog.kafka.log import LogRecord
from dblog.page.fleet import Facts, Health
from dblog.page.moves import move_of, wanted_offset
from support.held_herder import CONFIG

FILE = {"file": "mysql-bin.000012", "pos": 4000, "gtids": "u:1-9", "event": 3, "row": 2, "dblog_epoch": 7, "ts_sec": 5}
LSN = {"lsn": 0x16_00000100, "lsn_proc": 0x16_00000100, "lsn_commit": 1, "txId": 7, "dblog_epoch": 7}


def facts(**more):
    return Facts(name="shop", system="MySQL", prefix="shop", health=Health.STOPPED, **more)


def move(stored, fields, **more):
    return move_of(stored, wanted_offset(stored, fields), facts(**more), topics=12)


def test_a_position_back_says_how_much_is_read_again_and_what_the_server_keeps():
    found = move(FILE, {"file": "mysql-bin.000012", "pos": "1500", "gtids": "u:1-5"}, margin_bytes=1 << 20)

    assert found.title == "Read 2.4\u202fKiB again"
    text = " ".join(found.lines)
    assert "12 topics" in text
    assert "1\u202fMiB before the stored position" in text
    assert "GTIDs executed: u:1-9 → u:1-5" in text
    assert "inside a transaction" in text
    assert found.offset == {"file": "mysql-bin.000012", "pos": 1500, "gtids": "u:1-5", "dblog_epoch": 7}


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"file": "mysql-bin.000012", "pos": "4096", "gtids": "u:1-9"}, "Skip 96\u202fB"),
        ({"file": "mysql-bin.000014", "pos": "4"}, "Skip 2 log files (mysql-bin.000012, byte 4\u202f000, to mysql-bin.000014, byte 4)"),
        (
            {"file": "mysql-bin.000011", "pos": "4"},
            "Read 1 log file (mysql-bin.000012, byte 4\u202f000, to mysql-bin.000011, byte 4) again",
        ),
        (
            {"file": "other.000011", "pos": "4"},
            "Skip an unknown part of the log: other.000011 is no later or earlier file of mysql-bin.000012",
        ),
    ],
)
def test_a_position_in_files_says_what_is_skipped_or_read_again(fields, title):
    assert move(FILE, fields).title == title


def test_a_position_beyond_the_end_of_the_log_is_named():
    ahead = {"file": "mysql-bin.000012", "pos": "9000", "gtids": "u:1-9"}

    assert "beyond the end" in " ".join(move(FILE, ahead, behind_bytes=100.0).lines)
    assert "beyond the end" not in " ".join(move(FILE, ahead, behind_bytes=99_999.0).lines)


def test_an_lsn_is_written_as_the_server_writes_it():
    back = move(LSN, {"lsn": "16/80"})
    assert back.title == "Read 128\u202fB of the log (16/100 to 16/80) again"
    assert "slot does not go back" in " ".join(back.lines)
    assert back.offset == {"lsn": 0x16_00000080, "lsn_proc": 0x16_00000080, "lsn_commit": 0x16_00000080, "dblog_epoch": 7}
    assert move(LSN, {"lsn": "16/100"}).is_dangerous is False


@pytest.mark.parametrize(
    ("stored", "fields"), [(LSN, {"lsn": "x"}), (FILE, {"file": "", "pos": "4"}), (FILE, {"file": "a.1", "pos": "-4"})]
)
def test_what_is_no_position_is_refused_with_how_to_write_one(stored, fields):
    with pytest.raises(RequestError):
        wanted_offset(stored, fields)


def stored(page, name, offset):
    key, value = offset_record(name, {"server": name}, offset)
    page.herder.offsets.log.take(LogRecord(0, 0, key, value))


def test_the_form_shows_the_effect_and_offers_to_set_it_only_while_the_connector_is_stopped(page):
    page.connector("shop", target="STOPPED")
    page.connector("runs")
    for name in ("shop", "runs"):
        stored(page, name, FILE)
    wanted = {"file": "mysql-bin.000012", "pos": "4", "step": "check"}

    text = page.request("POST", "/ui/connectors/shop/offsets/edit", json=wanted, script=True).text
    assert "Read 3.9\u202fKiB again" in text
    assert 'value="set"' in text
    text = page.request("POST", "/ui/connectors/runs/offsets/edit", json=wanted, script=True).text
    assert "stop it first" in text
    assert 'value="set"' not in text
    text = page.request("POST", "/ui/connectors/shop/offsets/edit", json={**wanted, "pos": "<b>"}, script=True).text
    assert "&lt;b&gt; is no number of bytes" in text
    assert 'value="&lt;b&gt;"' in text, "nothing of what was typed is lost"


def versioned(page, name, *configs):
    for number, config in enumerate(configs):
        key, value = connector_record(name, {**CONFIG, "name": name, "topic.prefix": name, **config})
        page.herder.configs.log.take(LogRecord(0, 100 + number, key, value, at_ms=1_790_000_000_000 + number))


def test_earlier_configurations_are_listed_with_what_each_changed_and_no_secret(page):
    page.connector("shop")
    versioned(page, "shop", {"database.password": "first-secret", "a": "1"}, {"database.password": "second-secret", "a": "2"})

    text = page.get("/ui/connectors/shop/config/history").text
    assert "Version 100" in text
    assert "first-secret" not in text
    assert "second-secret" not in text
    assert text.index("In force") < text.index("Version 100")

    confirm = page.get("/ui/connectors/shop/config/history/100/confirm").text
    assert "2 keys change" in confirm
    assert "a: 2 → 1" in confirm
    assert "another secret" in confirm
    assert page.get("/ui/connectors/shop/config/history/999/confirm").status_code == 404

    versions = page.get("/connectors/shop/config/versions").json()
    assert [(each["version"], each["current"]) for each in versions[:2]] == [(101, True), (100, False)]
    assert {"key": "a", "before": "1", "after": "2"} in versions[0]["changes"]
    assert "secret" not in json.dumps(versions).replace("database.password", "")


def test_earlier_configurations_take_the_role_of_the_configuration_and_going_back_an_administrator(page):
    page.connector("shop")
    versioned(page, "shop", {"a": "1"}, {"a": "2"})

    page.caller.grants = Grants((Grant(Role.READER),))
    assert page.get("/ui/connectors/shop/config/history").status_code == 403
    assert page.get("/connectors/shop/config/versions").status_code == 403
    page.caller.grants = Grants((Grant(Role.OPERATOR),))
    assert page.get("/ui/connectors/shop/config/history").status_code == 200
    assert page.get("/ui/connectors/shop/config/history/100/confirm").status_code == 403
    assert page.request("POST", "/ui/connectors/shop/config/history/100/restore", json={}, script=True).status_code == 403
    assert page.request("POST", "/connectors/shop/config/versions/100/restore").status_code == 403
    assert page.get("/ui/connectors/shop/offsets/edit").status_code == 403


def test_the_history_is_bounded_and_forgets_deleted_connectors():
    history = ConfigHistory()
    for number in range(VERSIONS_MAX + 5):
        history.note("a", {"n": str(number)}, offset=number, at_ms=number)
    history.note("a", {"n": str(VERSIONS_MAX + 4)}, offset=99, at_ms=99)
    assert [each.offset for each in history.of("a")] == list(range(VERSIONS_MAX + 4, 4, -1)), "what is written again is no version"

    for number in range(20):
        history.note(f"b{number}", {"n": "x" * (BYTES_MAX // 10)}, offset=200 + number, at_ms=1)
    assert sum(len(each.data) for number in range(20) for each in history.of(f"b{number}")) <= BYTES_MAX
    assert history.of("a") == []
    assert history.of("b19")

    history.note("b19", None, offset=300, at_ms=1)
    assert history.of("b19") == []
