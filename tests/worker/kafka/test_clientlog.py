"""librdkafka's lines: whatever their form, one of a kind a minute, as a line of ours."""

import json

import pytest
from dblog.errors import TransientError
from dblog.kafka.clientlog import ClientLog, is_client_line
from dblog.observe.logs import configure_logs
from dblog.readers.log.history_topic import KafkaHistoryLog
from stack.process import free_port

RAW = "%3|1795398377.947|FAIL|rdkafka#producer-1| [thrd:b:9092/bootstrap]: b:9092/bootstrap: Connect to ipv4#b failed: refused (after {}ms in state CONNECT)"
HANDED = (
    "%s [%s] %s",
    "FAIL",
    "rdkafka#consumer-1",
    "[thrd:b:9092/bootstrap]: b:9092/bootstrap: Connect to ipv4#b failed: refused (after 7ms in state CONNECT)",
)


def test_one_trouble_in_a_hundred_lines_is_one_line_and_another_is_its_own(capsys):
    configure_logs(format="json", level="INFO")
    log = ClientLog("topic t")

    log.log(40, *HANDED)
    for number in range(100):
        log.line(RAW.format(number))
    log.line("%4|1.0|REQTMOUT|rdkafka#producer-1| [thrd:b]: b: Timed out 3 in-flight requests")

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["reason"].split(": ", 1)[1] for line in lines] == [
        "Connect to ipv4#b failed: refused (after 7ms in state CONNECT)",
        "Timed out 3 in-flight requests",
    ]
    assert {line["client"] for line in lines} == {"topic t"}


@pytest.mark.parametrize("protocol", ["", "ssl://"])
def test_the_end_of_a_connection_that_was_in_use_is_not_explained_by_a_missing_login(capsys, protocol):
    configure_logs(format="json", level="INFO")
    log = ClientLog("topic t")

    for state in ("Disconnected (after 3207ms in state UP)", "Disconnected: connection closed by peer (after 600012ms in state UP)"):
        log.line(f"FAIL [rdkafka#producer-1] [thrd:{protocol}b:9092/1]: {protocol}b:9092/1: {state}")

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 2
    assert not any("means" in line for line in lines)


def test_what_ends_a_connection_before_it_is_in_use_is_explained(capsys):
    configure_logs(format="json", level="INFO")

    ClientLog("topic t").line(
        "FAIL [c] [thrd:b:9092/1]: b:9092/1: Disconnected while requesting ApiVersion (after 5ms in state APIVERSION_QUERY)"
    )

    assert "set SSL" in json.loads(capsys.readouterr().out)["means"]


def test_only_librdkafkas_own_lines_are_taken_for_such():
    assert is_client_line(RAW.format(1))
    assert not is_client_line("Traceback (most recent call last):")
    assert not is_client_line('{"event": "%3|"}')


def test_the_clients_of_a_history_whose_brokers_are_away_write_lines_of_ours_only(capfd):
    configure_logs(format="json", level="INFO")
    log = KafkaHistoryLog({"bootstrap.servers": f"127.0.0.1:{free_port()}"}, "history", request_timeout_s=1.0, idle_timeout_s=1.0)

    for call in (log.ensure_topic, lambda: list(log.read()), lambda: log.write([(b"k", b"v")])):
        with pytest.raises(TransientError):
            call()

    out, err = capfd.readouterr()
    assert err == ""
    lines = [json.loads(line) for line in out.splitlines()]
    assert 1 <= len(lines) < 10
