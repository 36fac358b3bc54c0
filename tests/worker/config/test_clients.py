"""Settings of Kafka clients: Java's names are taken, librdkafka's from a list, and nothing that loads code or runs a command."""

import pytest
from dblog.config.clients import CONNECTOR_CLIENTS, HISTORY_SERVERS, beside, check_connector_clients, to_librdkafka
from dblog.config.overrides import OverridePolicy
from dblog.errors import ConfigError

# What librdkafka has and a configuration must not get: native code, a command of the shell, requests to an address of choice, callbacks' pointers.
DANGEROUS = (
    "plugin.library.paths",
    "ssl.engine.location",
    "ssl.engine.id",
    "ssl.providers",
    "opaque",
    "builtin.features",
    "https.ca.location",
    "default_topic_conf",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.method",
    "Plugin.Library.Paths",
    " plugin.library.paths",
)
WITHOUT_EFFECT = ("sasl.kerberos.kinit.cmd", "sasl.kerberos.keytab", "sasl.oauthbearer.jwks.endpoint.url")


def test_java_keystores_are_refused_and_pem_is_taken():
    for path, more, kind in (
        ("/nowhere/x.pem", {}, "JKS, its default"),
        ("/x/trust.p12", {"ssl.truststore.type": "PKCS12"}, "not PEM"),
    ):
        with pytest.raises(ConfigError, match=f"ssl.truststore.type is {kind}; .* set ssl.truststore.type=PEM"):
            to_librdkafka({"ssl.truststore.location": path, **more})
    assert to_librdkafka({"ssl.truststore.location": "/x/ca.pem", "ssl.truststore.type": "PEM"}) == {"ssl.ca.location": "/x/ca.pem"}
    assert to_librdkafka({"ssl.endpoint.identification.algorithm": ""}) == {"ssl.endpoint.identification.algorithm": "none"}


@pytest.mark.parametrize("key", DANGEROUS)
def test_a_setting_that_is_on_no_list_is_refused_by_its_name(key):  # number 1 of the worker's safety
    with pytest.raises(ConfigError) as raised:
        to_librdkafka({key: "/x.so", "linger.ms": "1"})

    assert list(raised.value.errors) == [key]


@pytest.mark.parametrize("key", WITHOUT_EFFECT)
def test_a_java_name_that_would_mean_more_to_librdkafka_is_not_handed_on(key):
    assert to_librdkafka({key: "x"}) == {}


@pytest.mark.parametrize(
    "policy", [OverridePolicy(name) for name in ("All", "Principal", "None")] + [OverridePolicy("Allowlist", {"plugin.library.paths"})]
)
@pytest.mark.parametrize("prefix", CONNECTOR_CLIENTS)
def test_every_prefix_of_a_connector_is_looked_at_under_every_policy(prefix, policy):
    errors = check_connector_clients({f"{prefix}plugin.library.paths": "/x.so"}, policy)

    assert list(errors) == [f"{prefix}plugin.library.paths"]


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        (OverridePolicy(), set()),
        (OverridePolicy("Principal"), {"producer.override.linger.ms"}),
        (OverridePolicy("None"), {"producer.override.linger.ms", "admin.override.sasl.mechanism"}),
        (OverridePolicy("Allowlist"), {"producer.override.linger.ms", "admin.override.sasl.mechanism"}),
        (OverridePolicy("Allowlist", frozenset({"linger.ms", "acks"})), {"admin.override.sasl.mechanism"}),
        (OverridePolicy("Allowlist", frozenset({"producer.override.linger.ms", "sasl.mechanism"})), {"producer.override.linger.ms"}),
    ],
)
def test_the_policy_governs_overrides_and_not_the_schema_historys_clients(policy, refused):
    config = {
        "producer.override.linger.ms": "5",
        "admin.override.sasl.mechanism": "PLAIN",
        "schema.history.internal.producer.security.protocol": "SSL",
        "topic.prefix": "shop",
    }

    assert set(check_connector_clients(config, policy)) == refused


def test_the_worker_itself_may_fetch_its_token_and_its_admin_listeners_are_no_clients_setting():
    assert to_librdkafka({"sasl.oauthbearer.method": "oidc"}, of_worker=True) == {"sasl.oauthbearer.method": "oidc"}
    with pytest.raises(ConfigError):
        to_librdkafka({"plugin.library.paths": "/x.so"}, of_worker=True)


WORKER = {"bootstrap.servers": "k1:9092,k2:9092", "security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": "w", "sasl.password": "canary",
          "sasl.oauthbearer.client.secret": "canary", "ssl.key.location": "/canary", "ssl.ca.location": "/ca", "linger.ms": "5"}  # fmt: skip


@pytest.mark.parametrize(
    "own",
    [
        {"bootstrap.servers": "elsewhere:9092"}, {"bootstrap.servers": "k1:9092,elsewhere:9092"}, {"bootstrap.servers": "k1:9093"},
        {"security.protocol": "SASL_PLAINTEXT"}, {"sasl.mechanisms": "PLAIN"}, {"ssl.ca.location": "/mine"}, {"ssl.endpoint.identification.algorithm": "none"},
        {"enable.ssl.certificate.verification": "false"}, {"sasl.username": "me"},
    ],
)  # fmt: skip
def test_the_workers_login_goes_to_nobody_whom_a_connector_chose(own):  # found behind number 1 of the worker's safety
    settings = beside(WORKER, own)

    assert "canary" not in str(settings)
    assert settings["linger.ms"] == "5"
    assert own.items() <= settings.items()


@pytest.mark.parametrize(
    "own",
    [{}, {"bootstrap.servers": "k2:9092"}, {"bootstrap.servers": " k1:9092 , k2:9092"}, {"linger.ms": "7", "compression.codec": "lz4"}],
)
def test_a_connector_that_stays_with_the_workers_brokers_has_the_workers_login(own):
    assert beside(WORKER, own)["sasl.password"] == "canary"


# sasl.jaas.config.

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "username", "password"),
    [
        (f'{PLAIN} required username="u" password="p";', "u", "p"),
        (f"{PLAIN} required username='u' password='p';", "u", "p"),
        (f"{PLAIN} required username=u password=p_1-2$;", "u", "p_1-2$"),
        (f'  {PLAIN}\n  REQUIRED\n  password="a;b=c"\n  username="u" ;\n', "u", "a;b=c"),
        (f'{PLAIN} required username="u" password="\\"q\\" \\\\ \\101\\n\\z";', "u", '"q" \\ A\nz'),
        (f'{PLAIN} required serviceName="username=x" username="u" password="password=p";', "u", "password=p"),
        (f'/* the login */ {PLAIN} required // of the team\n username="u" password="";', "u", ""),
        ('org.apache.kafka.common.security.scram.ScramLoginModule sufficient username="ü" password="ß" tokenauth=true;', "ü", "ß"),
    ],
)
def test_a_login_is_read_as_java_reads_it(text, username, password):
    assert to_librdkafka({"sasl.jaas.config": text}) == {"sasl.username": username, "sasl.password": password}


@pytest.mark.parametrize(
    ("module", "named"),
    [
        ("com.sun.security.auth.module.JndiLoginModule", "JndiLoginModule"),
        ("com.sun.security.auth.module.LdapLoginModule", "LdapLoginModule"),
        ("com.sun.security.auth.module.Krb5LoginModule", "Krb5LoginModule"),
        ("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule", "OAuthBearerLoginModule"),
        ("canary", "its login module"),
    ],
)
def test_another_login_module_is_refused_by_its_name(module, named):
    login = f'{module} required username="u" password="canary" user.provider.url="ldap://canary";'

    errors = check_connector_clients({"producer.override.sasl.jaas.config": login}, OverridePolicy())

    assert set(errors) == {"producer.override.sasl.jaas.config"}
    assert named in str(errors)
    assert "canary" not in str(errors)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "canary",
        f"{PLAIN}",
        f"{PLAIN} required",
        f"{PLAIN} required;",
        f'{PLAIN} required username="u";',
        f'{PLAIN} required password="canary";',
        f'{PLAIN} required username="u" password="canary"',
        f'{PLAIN} required username="u" password="canary;',
        f'{PLAIN} required username="u" password=my canary;',
        f"{PLAIN} required username=u password=;",
        f'{PLAIN} canary username="u" password="p";',
        f'{PLAIN} required username="u" password="p"; {PLAIN} required username="u" password="canary";',
        f'KafkaClient {{ {PLAIN} required username="u" password="canary"; }};',
        "/* canary",
    ],
)
def test_what_is_no_login_of_one_module_is_refused_and_not_shown(text):
    with pytest.raises(ConfigError) as raised:
        to_librdkafka({"sasl.jaas.config": text})

    assert list(raised.value.errors) == ["sasl.jaas.config"]
    assert "canary" not in str(raised.value)


def test_the_workers_own_login_may_be_a_tokens():
    login = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="a" clientSecret="b";'

    assert to_librdkafka({"sasl.jaas.config": login}, of_worker=True) == {}
    with pytest.raises(ConfigError, match="Krb5LoginModule"):
        to_librdkafka({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;"}, of_worker=True)


def test_names_and_values_that_librdkafka_spells_otherwise_are_translated():
    from confluent_kafka import Consumer, Producer

    java = {
        "fetch.max.wait.ms": "500 ",
        "isolation.level": " read_committed ",
        "socket.connection.setup.timeout.max.ms": "30000",
        "confluent.x": "y",
    }
    assert to_librdkafka(java) == {"fetch.wait.max.ms": "500", "isolation.level": "read_committed"}
    assert to_librdkafka({"sasl.password": " p "}) == {"sasl.password": " p "}

    Consumer({"group.id": "g", **to_librdkafka(java)}).close()
    Producer(to_librdkafka({"acks": "all ", "bootstrap.controllers": "a:1"}))


@pytest.mark.parametrize(
    ("servers", "taken"),
    [
        ("k1:9092, k2:9092", True), ("SASL_SSL://k1.example:9092", True), ("[::1]:9092", True), ("10.0.0.1:1", True), ("k1", True), ("", True),
        (",".join(f"k{number}:1" for number in range(20)), True), (",".join(f"k{number}:1" for number in range(21)), False),
        ("PLAINTEXT://169.254.169.254:80/x.internal:9092", False), ("PLAINTEXT:///x.internal:9", False), ("a:1/b", False), ("a b:1", False),
        ("user@a:1", False), ("[a/b]:1", False), ("a:b", False), ("http://a:1", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "key", [HISTORY_SERVERS, "producer.override.bootstrap.servers", "schema.history.internal.producer.bootstrap.servers"]
)
def test_brokers_are_few_and_of_the_form_that_everybody_reads_alike(key, servers, taken):  # number 5 and 11
    assert (check_connector_clients({key: servers}, OverridePolicy()) == {}) is taken
