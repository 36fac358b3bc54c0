"""Passwords as a file of users keeps them."""

import pytest
from dblog.cli import app
from dblog.config.login import USERS_FILE, Logins, Refusal
from dblog.config.passwords import HashError, hashed, stored
from dblog.errors import ConfigError
from structlog.testing import capture_logs
from typer.testing import CliRunner
from worker.config.test_login import header


def test_a_hash_is_of_its_password_and_of_no_other_and_no_two_are_alike():
    one, other = hashed("pass wörd"), hashed("pass wörd")

    assert one != other
    assert one.startswith("$scrypt$ln=14,r=8,p=1$")
    assert "pass" not in one
    assert [stored(one).is_of(text) for text in ("pass wörd", "pass word", "", one)] == [True, False, False, False]


def test_a_plain_password_is_taken_as_kafka_connect_takes_it():
    assert [stored("s3cret").is_of(text) for text in ("s3cret", "S3cret", "")] == [True, False, False]
    assert "s3cret" not in repr(stored("s3cret"))


@pytest.mark.parametrize(
    "text",
    [
        "$scrypt$", "$scrypt$ln=14,r=8,p=1$c2FsdA$", "$scrypt$ln=31,r=8,p=1$c2FsdHNhbHRzYWx0c2FsdA$aGFzaGhhc2hoYXNoaGFzaGhhc2g", "$scrypt$ln=14,r=99,p=1$c2FsdHNhbHRzYWx0c2FsdA$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
        "$scrypt$ln=0,r=8,p=1$c2FsdHNhbHRzYWx0c2FsdA$aGFzaGhhc2hoYXNoaGFzaGhhc2g",
    ],
)  # fmt: skip
def test_a_hash_that_cannot_be_read_is_refused_without_its_text(text):
    with pytest.raises(HashError, match="dblog users hash") as caught:
        stored(text)
    assert "c2Fsd" not in str(caught.value)


def test_users_with_hashes_log_in_and_whoever_does_not_exist_is_compared_with_a_hash_too():  # number 19 of the worker's safety
    logins = Logins({"ann": hashed("s3cret"), "bob": "plain"})

    assert logins.user_of(header("ann", "s3cret")) == "ann"
    assert logins.user_of(header("bob", "plain")) == "bob"
    assert logins.user_of(header("ann", "plain")) is Refusal.WRONG_PASSWORD
    assert logins.user_of(header("eve", "s3cret")) is Refusal.NO_SUCH_USER
    assert logins.is_slow
    assert not Logins({"bob": "plain"}).is_slow


def test_a_changed_file_of_users_is_followed_and_one_at_fault_is_not(tmp_path):
    file = tmp_path / "users"
    file.write_text("ann=one\n")
    file.chmod(0o600)
    logins = Logins.of_file(str(file), USERS_FILE)

    file.write_text("ann=two\nbob=three\n")
    logins.refresh()
    assert [logins.refusal(header("ann", text)) for text in ("one", "two")] == [Refusal.WRONG_PASSWORD, None]
    assert logins.user_of(header("bob", "three")) == "bob"

    with capture_logs() as lines:
        for content in ("", "ann=\n", "ann=$scrypt$nonsense\n"):
            file.write_text(content)
            for _ in range(3):
                logins.refresh()
    assert logins.user_of(header("ann", "two")) == "ann"
    assert [line["log_level"] for line in lines] == ["error"] * 2
    assert "nonsense" not in str(lines)


def test_a_file_of_users_with_a_broken_hash_ends_the_start_with_the_users_name_alone(tmp_path):
    (tmp_path / "users").write_text("ann=$scrypt$canary\n")

    with pytest.raises(ConfigError, match="what ann has is not a hash of a password") as caught:
        Logins.of_file(str(tmp_path / "users"), USERS_FILE)
    assert "canary" not in str(caught.value)


def test_the_command_prints_the_line_of_a_user_and_takes_no_name_that_a_file_would_read_otherwise(tmp_path):
    runner = CliRunner()
    done = runner.invoke(app, ["users", "hash", "ann"], input="pass wörd\n")

    assert done.exit_code == 0
    (tmp_path / "users").write_text(done.output)
    assert Logins.of_file(str(tmp_path / "users"), USERS_FILE).user_of(header("ann", "pass wörd")) == "ann"
    assert "pass" not in done.output
    assert [runner.invoke(app, ["users", "hash", name], input="x\n").exit_code for name in ("a=b", "@dba", "a b", "")] == [2] * 4
    assert runner.invoke(app, ["users", "hash", "ann"], input="\n").exit_code == 2
