"""Basic authentication as Kafka Connect configures it: who is let in, and that no mistake lets in everybody."""

import base64
import os

import pytest
from dblog.config.jaas import JaasError, parse_entries, parse_modules
from dblog.config.listeners import Listener, is_loopback
from dblog.config.login import BASIC_AUTH_EXTENSION, LOGIN_CONFIG, Logins, Refusal, read_logins
from dblog.config.properties import parse_properties
from dblog.config.worker import read_worker_config
from dblog.errors import ConfigError
from structlog.testing import capture_logs

EXAMPLE = """
bootstrap.servers=localhost:9092
group.id=connect-cluster
key.converter=JsonConverter
value.converter=JsonConverter
offset.storage.topic=connect-offsets
config.storage.topic=connect-configs
status.storage.topic=connect-status
"""
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


def settings_of(**changes):
    return read_worker_config(parse_properties(EXAMPLE) | {name.replace("_", "."): text for name, text in changes.items()}).settings


def header(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


# JAAS.


def test_a_file_of_entries_is_read_as_java_reads_it():
    text = f"""
    // Who may use the interface.
    KafkaConnect {{
      {MODULE} required
        file="/etc/my \\"users\\".properties" debug=true;
    }};
    /* and
       another */ Other {{ a.B sufficient; c.D OPTIONAL x='y z' ; }};
    """

    entries = parse_entries(text)

    assert set(entries) == {"KafkaConnect", "Other"}
    assert entries["KafkaConnect"][0].options == {"file": '/etc/my "users".properties', "debug": "true"}
    assert [(module.class_name, module.flag, dict(module.options)) for module in entries["Other"]] == [
        ("a.B", "sufficient", {}),
        ("c.D", "optional", {"x": "y z"}),
    ]


def test_modules_of_one_setting_are_read_likewise():
    modules = parse_modules('a.Plain required username=u password="p;\'{}=\\\\";b.Scram required;')

    assert [(module.class_name, dict(module.options)) for module in modules] == [
        ("a.Plain", {"username": "u", "password": "p;'{}=\\"}),
        ("b.Scram", {}),
    ]
    assert "p;" not in repr(modules)


@pytest.mark.parametrize(
    "text",
    ["a.B", "a.B required", "a.B sometimes;", "a.B required x;", 'a.B required password="canary', "a.B required password canary;", "; a.B required;",
     "a.B required; }", "a.B required x==canary;", "/* canary"],
)  # fmt: skip
def test_what_is_no_login_configuration_is_refused_without_its_values(text):
    with pytest.raises(JaasError) as caught:
        parse_modules(text)
    assert "canary" not in str(caught.value)

    with pytest.raises(JaasError):
        parse_entries(f"E {{ {text} }}")


# Logins.


def test_without_the_extension_no_login_is_asked_for_and_none_may_be_configured():  # number 8: its name may be misspelt
    assert read_logins(settings_of(), {"KAFKA_OPTS": "-Djava.security.auth.login.config=/a"}) is None
    with pytest.raises(ConfigError, match=r"rest\.extension\.classes does not name"):
        read_logins(settings_of(**{LOGIN_CONFIG: "/etc/jaas.conf"}), {})


def test_another_extension_is_refused_with_the_name_of_the_one_that_there_is():
    with pytest.raises(ConfigError, match="BasicAuthSecurityRestExtension"):
        settings_of(**{"rest.extension.classes": f"{BASIC_AUTH_EXTENSION},com.example.Filter"})


def test_users_come_from_the_file_that_the_login_configuration_names(tmp_path):  # number 8 of the worker's safety
    (tmp_path / "users.properties").write_text("ann=s3cret\nbob=with\\ blank and\\: colon\n")
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(f'KafkaConnect {{ {MODULE} required file="{tmp_path}/users.properties"; }};')
    by_option = settings_of(**{"rest.extension.classes": BASIC_AUTH_EXTENSION, LOGIN_CONFIG: str(jaas)})
    by_variable = settings_of(**{"rest.extension.classes": BASIC_AUTH_EXTENSION})

    for logins in (
        read_logins(by_option, {}),
        read_logins(by_variable, {"KAFKA_OPTS": f'-Xmx1g "-Djava.security.auth.login.config={jaas}" -Dx=y'}),
    ):
        assert logins is not None
        assert logins.refusal(header("ann", "s3cret")) is None
        assert logins.refusal(header("bob", "with blank and: colon").replace("Basic", "bASIC")) is None


@pytest.mark.parametrize(
    ("mode", "is_ours", "warned"),
    [(0o440, True, False), (0o640, True, False), (0o444, True, True), (0o440, False, True), (0o400, False, False)],
)
def test_a_file_of_users_that_another_account_lends_by_a_group_of_ours_is_as_it_should_be(tmp_path, monkeypatch, mode, is_ours, warned):
    users = tmp_path / "users"
    users.write_text("a=b")
    users.chmod(mode)
    found = users.stat()
    monkeypatch.setattr(os, "geteuid", lambda: found.st_uid + 1)
    monkeypatch.setattr(os, "getegid", lambda: found.st_gid + 1)
    monkeypatch.setattr(os, "getgroups", lambda: [found.st_gid] if is_ours else [])

    with capture_logs() as lines:
        Logins.of_file(str(users), "dblog.rest.users.file")

    assert bool(lines) is warned


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o400, False), (0o700, False), (0o640, True), (0o644, True), (0o604, True)])
def test_a_file_of_users_that_others_may_read_is_warned_of_once_and_taken(tmp_path, mode, warned):
    users = tmp_path / "users.properties"
    users.write_text("ann=s3cret\n")
    users.chmod(mode)
    (tmp_path / "jaas").write_text(f'KafkaConnect {{ {MODULE} required file="{users}"; }};')

    with capture_logs() as lines:
        logins = read_logins(settings_of(**{"rest.extension.classes": BASIC_AUTH_EXTENSION, LOGIN_CONFIG: str(tmp_path / "jaas")}), {})

    assert logins is not None
    assert logins.refusal(header("ann", "s3cret")) is None
    expected = {"event": "other accounts of this machine may read the passwords of the rest interface", "log_level": "warning", "file": str(users),
                "mode": f"{mode:04o}", "remedy": f"chmod 600 {users}"}  # fmt: skip
    assert lines == [expected] * warned


@pytest.mark.parametrize(
    "given",
    [
        "", "Basic", "Basic ", "Basic !", "Basic " + base64.b64encode(b"ann").decode(), "Basic " + base64.b64encode(b"ann:\xff").decode(), "Bearer s3cret",
        header("ann", ""), header("ann", "s3cret "), header("ann", "S3CRET"), header("", "s3cret"), header("ann:", "s3cret"), header("bob", "s3cret"),
        header("", ""), header("nobody", "\0" * 32), "Basic ann:s3cret",
    ],
)  # fmt: skip
def test_whoever_is_none_of_them_is_not_let_in(given):  # number 8
    assert Logins({"ann": "s3cret"}).refusal(given) is not None


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ("", Refusal.NONE_GIVEN),
        ("Bearer s3cret", Refusal.UNREADABLE),
        ("Basic ann:s3cret", Refusal.UNREADABLE),
        ("Basic " + base64.b64encode(b"ann").decode(), Refusal.UNREADABLE),
        (header("bob", "s3cret"), Refusal.NO_SUCH_USER),
        (header("ann", "s3cret2"), Refusal.WRONG_PASSWORD),
        (header("ann", "s3cret"), None),
    ],
)
def test_a_refusal_distinguishes_an_unknown_user_from_a_wrong_password(given, refusal):  # number 19 of the worker's safety
    assert Logins({"ann": "s3cret"}).refusal(given) is refusal


@pytest.mark.parametrize(
    ("jaas", "users", "reason"),
    [
        (None, "a=b", "cannot be read"),
        ("Other { a.B required; };", "a=b", "no entry KafkaConnect"),
        (
            "KafkaConnect { com.sun.security.auth.module.LdapLoginModule required; };",
            "a=b",
            "the one module that this worker has",
        ),
        (f"KafkaConnect {{ {MODULE} required; }};", "a=b", "needs: KafkaConnect"),
        (f"KafkaConnect {{ {MODULE} required file=FILE;", "a=b", "is not a login configuration"),
        (f"KafkaConnect {{ {MODULE} required file='FILE'; }};", None, "file of users cannot be used"),
        (f"KafkaConnect {{ {MODULE} required file='FILE'; }};", "", "has no user"),
        (f"KafkaConnect {{ {MODULE} required file='FILE'; }};", "a=canary\nb=\n", "without a password"),
    ],
)
def test_files_that_do_not_state_who_may_come_in_stop_the_worker(tmp_path, jaas, users, reason):  # number 8
    if users is not None:
        (tmp_path / "users").write_text(users)
    if jaas is not None:
        (tmp_path / "jaas").write_text(jaas.replace("FILE", str(tmp_path / "users")))
    settings = settings_of(**{"rest.extension.classes": BASIC_AUTH_EXTENSION, LOGIN_CONFIG: str(tmp_path / "jaas")})

    with pytest.raises(ConfigError) as caught:
        read_logins(settings, {})

    assert reason in str(caught.value)
    assert list(caught.value.errors) == [LOGIN_CONFIG]
    assert "canary" not in str(caught.value)


def test_an_extension_without_any_file_stops_the_worker():
    with pytest.raises(ConfigError, match=LOGIN_CONFIG):
        read_logins(settings_of(**{"rest.extension.classes": BASIC_AUTH_EXTENSION}), {"KAFKA_OPTS": "-Dx='"})


# Listeners.


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("http://10.0.0.1:8084", Listener("http", "10.0.0.1", 8084)),
        ("HTTPS://:0", Listener("https", "", 0)),
        ("http://[::1]:1", Listener("http", "::1", 1)),
    ],
)
def test_a_second_listener_has_an_address_of_its_own(text, listener):
    worker = read_worker_config(parse_properties(EXAMPLE) | {"dblog.rest.readonly.listener": text})

    assert worker.readonly_listener == listener
    assert read_worker_config(parse_properties(EXAMPLE)).readonly_listener is None


@pytest.mark.parametrize("text", ["", "8084", "tcp://:8084", "http://a", "http://a:x", "http://a:1/path"])
def test_what_is_no_address_of_a_second_listener_is_refused(text):
    with pytest.raises(ConfigError, match=r"dblog\.rest\.readonly\.listener"):
        read_worker_config(parse_properties(EXAMPLE) | {"dblog.rest.readonly.listener": text})


def test_loopback_is_distinguished_from_the_rest():
    assert [is_loopback(host) for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("", "::", "10.0.0.1", "worker-1")] == [False] * 4
