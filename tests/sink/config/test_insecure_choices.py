"""Settings that leave a connection open are named with what to use instead, and nothing secret is in the sentence."""

import pytest
from dblog_sink.config import job_options
from dblog_sink.config.insecure_choices import insecure_choices

LEAST = {"kafka.bootstrap.servers": "b:9092", "topics": "p.a.b", "target.path": "/lake/"}


def choices(**given: str) -> dict[str, str]:
    return insecure_choices(job_options.parse(LEAST | {name.replace("_", "."): text for name, text in given.items()}))


@pytest.mark.parametrize("url", ["http://r.example:8081", "https://r.example,http://10.0.0.1:8081", "HTTP://r.example"])
def test_a_registrys_login_that_travels_without_tls_is_named(url: str) -> None:  # number 40 of the sink's safety
    assert choices(registry_url=url, registry_auth="me:s3cret") == {
        "registry.url": "anybody who can read the traffic gets the registry's login; use https://"
    }
    assert set(choices(registry_url=url, registry_token="s3cret")) == {"registry.url"}
    assert choices(registry_url=url) == {}


@pytest.mark.parametrize("url", ["https://r.example:8081", "http://localhost:8081", "http://127.0.0.1:8081", "http://[::1]:8081"])
def test_one_that_nobody_else_hears_is_not(url: str) -> None:
    assert choices(registry_url=url, registry_auth="me:s3cret") == {}


@pytest.mark.parametrize(
    ("key", "given", "safer"),
    [
        ("kafka.security.protocol", {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}, "SASL_SSL"),
        ("kafka.ssl.endpoint.identification.algorithm", {"kafka.ssl.endpoint.identification.algorithm": ""}, "https"),
    ],
)
def test_a_kafka_client_that_anybody_can_deceive_is_named(key: str, given: dict[str, str], safer: str) -> None:
    found = insecure_choices(job_options.parse(LEAST | {"registry.url": "https://r"} | given))

    assert set(found) == {key}
    assert found[key].endswith(f"; use {safer}")
    assert insecure_choices(job_options.parse(LEAST | {"registry.url": "https://r"} | given | {key: safer})) == {}
