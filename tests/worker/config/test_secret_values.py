"""What of a configuration is secret, by the name of its key or by what stands around it."""

import time

import pytest
from dblog.config.connector import MYSQL_OPTIONS
from dblog.config.inline_secrets import inline_secret_keys
from dblog.config.secret_values import is_secret, secrets_of, shown_name, shown_value


@pytest.mark.parametrize(
    "name",
    [
        "producer.override.sasl.jaas.config",
        "producer.override.sasl.password",
        "producer.override.ssl.key.pem",
        "producer.override.ssl.keystore.key",
        "value.converter.bearer.auth.token",
        "value.converter.basic.auth.user.info",
        "value.converter.request.header.Authorization",
        "my.own.secret",
        "DB_PASSWORD",
        "MYSQL_PWD",
        "AWS_SECRET_ACCESS_KEY",
    ],
)
def test_a_key_is_secret_by_its_name(name):
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "PWD",
        "OLDPWD",
        "PATH",
        "database.user",
        "basic.auth.credentials.source",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.truststore.location",
    ],
)
def test_other_keys_are_not(name):
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:word@host:8081/a@b", "http://[hidden]@host:8081/a@b"),
        ("http://a:8081,http://user:w,rd@b", "http://a:8081,http://[hidden]@b"),
        ("http://user:w@rd@host", "http://[hidden]@host"),
        ("http://user:w/rd@host", "http://[hidden]@host"),
        ("https://token@host", "https://[hidden]@host"),
        ("http://user:${file:/path:key}@host", "http://[hidden]@host"),
        ("http://host/path@x", "http://host/path@x"),
        ("http://host:8081/path@x and mail@host", "http://host:8081/path@x and mail@host"),
    ],
)
def test_the_login_of_a_url_is_not_shown(text, shown):
    assert shown_value("value.converter.schema.registry.url", text) == shown


@pytest.mark.parametrize(
    ("statements", "shown"),
    [
        ("SET PASSWORD FOR 'a'@'host' = 'word'", "SET PASSWORD FOR 'a'@'host' = '[hidden]'"),
        (
            "SET x='1'; create user a identified by 'w''r;d' , b identified by \"o\"",
            "SET x='1'; create user a identified by '[hidden]' , b identified by \"[hidden]\"",
        ),
        ("ALTER USER a IDENTIFIED WITH p AS 'no end", "ALTER USER a IDENTIFIED WITH p AS '[hidden]"),
        ("SET SESSION wait_timeout=2000, sql_mode='x'", "SET SESSION wait_timeout=2000, sql_mode='x'"),
        ("SELECT dblink_connect('host=h password=word'); SELECT 'x'", "SELECT dblink_connect('host=h password=[hidden]'); SELECT 'x'"),
        ("SELECT dblink_connect('password = ''my word'' user=u')", "SELECT dblink_connect('password = ''[hidden]'' user=u')"),
        ("SELECT dblink_connect($$user=u password=word port=1$$)", "SELECT dblink_connect($$user=u password=[hidden] port=1$$)"),
        (
            "SELECT dblink_connect('PASSWORD=w'); SET PASSWORD = 'word'",
            "SELECT dblink_connect('PASSWORD=[hidden]'); SET PASSWORD = '[hidden]'",
        ),
        ("SELECT dblink('postgresql://u:word@h/d', 'SELECT 1')", "SELECT dblink('postgresql://[hidden]@h/d', 'SELECT 1')"),
        ("SET PASSWORD = PASSWORD('word')", "SET PASSWORD = PASSWORD('[hidden]')"),
        ("CHANGE MASTER TO MASTER_PASSWORD='word', MASTER_PORT=1", "CHANGE MASTER TO MASTER_PASSWORD='[hidden]', MASTER_PORT=1"),
        ("OPTIONS (user 'u', password 'wo''rd')", "OPTIONS (user 'u', password '[hidden]')"),
        ("SET my.secret = 'a''b'; SELECT 1", "SET my.secret = '[hidden]'; SELECT 1"),
        ("-- don't\nSET PASSWORD = 'word'", "-- don't\nSET PASSWORD = '[hidden]'"),
    ],
)
def test_what_a_statement_quotes_behind_identified_or_password_is_not_shown(statements, shown):
    assert shown_value("database.initial.statements", statements) == shown


def test_passwords_of_a_jaas_text_and_private_keys_are_not_shown():
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="a\\"b" clientSecret=c;'
    pem = "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\nB\n-----END EC PRIVATE KEY-----"

    assert shown_value("x", jaas) == jaas.replace('a\\"b', "[hidden]").replace("=c;", "=[hidden];")
    assert shown_value("x", pem) == pem.replace("\nB\n", "[hidden]")


def test_the_salt_in_a_key_s_name_is_not_shown():
    assert shown_name("column.mask.hash.SHA-256.with.salt.word.word") == "column.mask.hash.SHA-256.with.salt.[hidden]"
    assert shown_name("column.mask.hash.v2.SHA-256.with.salt.word") == "column.mask.hash.v2.SHA-256.with.salt.[hidden]"
    assert shown_name("column.mask.hash.SHA-256.salted.word") == "column.mask.hash.SHA-256.[hidden]"
    assert shown_name("column.mask.with.3.chars") == "column.mask.with.3.chars"


def test_the_secrets_of_a_configuration_are_found_wherever_they_stand():
    config = {
        "database.password": "one",
        "databse.pasword": "two",
        "my.api_key": "three",
        "database.hostname": "host",
        "value.converter.schema.registry.url": "http://user:four@host",
        "column.mask.hash.SHA-256.with.salt.five": "a.b",
        "database.ssl.keystore": "/a/store",
        "unknown": None,
        "use.password": "true",
    }

    assert list(secrets_of(MYSQL_OPTIONS, config)) == ["one", "two", "three", "user:four", "four", "five"]


@pytest.mark.parametrize(
    "text",
    [
        "http://a:b" * 100_000,
        "://" * 300_000,
        "a" * 1_000_000,
        "LoginModule a=" * 50_000,
        "password '" * 100_000,
        "-----BEGIN PRIVATE KEY-----" * 30_000,
        "token=x;" * 200_000,
    ],
)
def test_a_value_of_any_length_is_looked_at_in_no_time(text):
    began_s = time.process_time()

    shown_value("x", text)

    assert time.process_time() - began_s < 2


def test_a_converters_password_is_secret_also_where_its_key_is_misspelt():
    given = {
        "value.converter.basic.auth.usre.info": "somebody:word",
        "key.converter.bearer.auth.client.secret": "wordy",
        "key.converter.proxy.host": "proxy.example",
        "value.converter.schemas.enable": "maybe",
    }

    assert {"somebody:word", "wordy"} == set(secrets_of(MYSQL_OPTIONS, given))


_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='{}';"


@pytest.mark.parametrize(
    ("name", "text", "inline"),
    [
        ("database.password", "sesame", True),
        ("database.password", "${file:/x.properties:p}", False),
        ("database.password", "", False),
        ("database.user", "sesame", False),
        ("my.own.token", "sesame", True),
        ("my.own.token", "Bearer ${env:TOKEN}", False),
        ("my.own.token", "none", False),
        ("value.converter.schema.registry.url", "http://me:sesame@r", True),
        ("value.converter.schema.registry.url", "http://me:${env:TOKEN}@r", False),
        ("producer.override.sasl.jaas.config", _PLAIN.format("sesame"), True),
        ("producer.override.sasl.jaas.config", _PLAIN.format("${env:TOKEN}"), False),
        ("producer.override.sasl.jaas.config", "${env:JAAS}", False),
        ("producer.override.sasl.jaas.config", _PLAIN.format("sesame").replace("'u'", "'${env:USER}'"), True),
    ],
)
def test_a_secret_is_written_out_unless_a_placeholder_stands_for_it(name, text, inline):
    assert inline_secret_keys(MYSQL_OPTIONS, {name: text, "x": None}) == ([name] if inline else [])
