"""A file of the worker's own Kafka clients that cannot be used is one sentence: the key as given, the reason and the remedy."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from dblog.config.client_files import refused_file
from dblog.config.worker import read_worker_config
from support.authority import Authority

FIRST = {
    "bootstrap.servers": "127.0.0.1:9",
    "group.id": "g",
    "security.protocol": "SSL",
    **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
    **{f"{part}.converter": "org.apache.kafka.connect.json.JsonConverter" for part in ("key", "value")},
}
TYPES = {"ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}


def sentence(role="admin", **more):
    """What is made of the words of a client that refuses the file."""
    worker = read_worker_config(FIRST | TYPES | more)
    with pytest.raises(KafkaException) as refused:
        AdminClient(worker.client_settings(role))
    return refused_file(worker, refused.value.args[0].str())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("hello", "it holds no PEM block CERTIFICATE"),
        ("-----BEGIN CERTIFICATE-----\nx\n", "its content is damaged, or does not fit the other files"),
    ],
)
@pytest.mark.parametrize("key", ["ssl.truststore.location", "ssl.ca.location", "ssl.keystore.location"])
def test_whatever_is_wrong_with_a_file_is_a_sentence_without_openssls_words(tmp_path, key, content, reason):
    path = tmp_path / "x.pem"
    if content is not None:
        path.write_text(content)

    text = sentence(**{key: str(path)})

    assert text.startswith(f"{key}: the file {path} cannot be used: {reason}; name a PEM file with the ")
    assert not any(word in text for word in ("error:", "routines", "lib"))


def test_the_file_of_one_role_and_a_key_without_its_block_are_reported_by_their_keys(tmp_path):
    authority = Authority(tmp_path)

    missing = sentence("consumer", **{"ssl.truststore.location": str(authority.path), "consumer.ssl.truststore.location": "/nowhere/x.pem"})
    no_key = sentence(**{"ssl.keystore.location": str(authority.path)})

    assert missing.startswith("consumer.ssl.truststore.location: the file /nowhere/x.pem cannot be used: No such file or directory; ")
    assert no_key.startswith(f"ssl.keystore.location: the file {authority.path} cannot be used: it holds no PEM block PRIVATE KEY; ")


def test_a_refusal_that_is_about_no_file_is_left_as_it_is():
    assert sentence(**{"ssl.cipher.suites": "none-such"}) is None
