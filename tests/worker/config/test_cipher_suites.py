"""Java's names of cipher suites in OpenSSL's spelling."""

import ssl

import pytest
from confluent_kafka import Producer
from dblog.config.cipher_suites import OF_TLS_1_3, CipherSuites
from dblog.config.clients import to_librdkafka
from dblog.errors import ConfigError

# openssl ciphers -s -stdname DEFAULT | awk '/_WITH_/ {print $1, $3}'
NAMES = """
TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 ECDHE-ECDSA-AES256-GCM-SHA384
TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 ECDHE-RSA-AES256-GCM-SHA384
TLS_DHE_RSA_WITH_AES_256_GCM_SHA384 DHE-RSA-AES256-GCM-SHA384
TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 ECDHE-ECDSA-CHACHA20-POLY1305
TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 ECDHE-RSA-CHACHA20-POLY1305
TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256 DHE-RSA-CHACHA20-POLY1305
TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 ECDHE-ECDSA-AES128-GCM-SHA256
TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 ECDHE-RSA-AES128-GCM-SHA256
TLS_DHE_RSA_WITH_AES_128_GCM_SHA256 DHE-RSA-AES128-GCM-SHA256
TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384 ECDHE-ECDSA-AES256-SHA384
TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384 ECDHE-RSA-AES256-SHA384
TLS_DHE_RSA_WITH_AES_256_CBC_SHA256 DHE-RSA-AES256-SHA256
TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256 ECDHE-ECDSA-AES128-SHA256
TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256 ECDHE-RSA-AES128-SHA256
TLS_DHE_RSA_WITH_AES_128_CBC_SHA256 DHE-RSA-AES128-SHA256
TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA ECDHE-ECDSA-AES256-SHA
TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA ECDHE-RSA-AES256-SHA
TLS_DHE_RSA_WITH_AES_256_CBC_SHA DHE-RSA-AES256-SHA
TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA ECDHE-ECDSA-AES128-SHA
TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA ECDHE-RSA-AES128-SHA
TLS_DHE_RSA_WITH_AES_128_CBC_SHA DHE-RSA-AES128-SHA
TLS_RSA_WITH_AES_256_GCM_SHA384 AES256-GCM-SHA384
TLS_RSA_WITH_AES_128_GCM_SHA256 AES128-GCM-SHA256
TLS_RSA_WITH_AES_256_CBC_SHA256 AES256-SHA256
TLS_RSA_WITH_AES_128_CBC_SHA256 AES128-SHA256
TLS_RSA_WITH_AES_256_CBC_SHA AES256-SHA
TLS_RSA_WITH_AES_128_CBC_SHA AES128-SHA
"""
# The same of ALL.
NAMES += """
TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8 ECDHE-ECDSA-AES256-CCM8
TLS_DHE_RSA_WITH_AES_128_CCM DHE-RSA-AES128-CCM
"""


@pytest.mark.parametrize(("java", "openssl"), [line.split() for line in NAMES.strip().splitlines() if line])
def test_a_name_of_javas_is_the_suite_that_openssl_has_by_another(java, openssl):
    suites = CipherSuites.of(java)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    assert suites.of_tls_1_2 == (openssl,)
    context.set_ciphers(suites.openssl_list)
    assert openssl in {cipher["name"] for cipher in context.get_ciphers()}


def test_suites_of_tls_1_3_and_names_of_openssls_own_are_known():
    suites = CipherSuites.of("TLS_AES_256_GCM_SHA384, ECDHE-RSA-AES128-SHA256:!aNULL,NONE_SUCH")

    assert suites == CipherSuites(("ECDHE-RSA-AES128-SHA256", "!aNULL", "NONE_SUCH"), frozenset({"TLS_AES_256_GCM_SHA384"}))
    assert not CipherSuites.of(" , ")


def test_the_three_suites_of_tls_1_3_are_those_that_are_spoken():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    assert {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.3"} == OF_TLS_1_3


def test_a_client_of_kafka_takes_a_list_in_javas_names():
    listed = "TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"
    settings = to_librdkafka({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.cipher.suites": listed})

    assert settings["ssl.cipher.suites"] == "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-SHA256"
    Producer(settings)


NEWEST = {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}


@pytest.mark.parametrize(("more", "of_worker"), [({}, False), ({"security.protocol": "SASL_SSL"}, True)])
def test_a_client_of_kafka_cannot_be_kept_to_tls_1_3_and_says_so(more, of_worker):
    with pytest.raises(ConfigError) as caught:
        to_librdkafka(NEWEST | more, of_worker=of_worker)

    assert "lists suites of TLS 1.3 alone" in caught.value.errors["ssl.cipher.suites"][0]


@pytest.mark.parametrize("protocol", [{}, {"security.protocol": "SASL_PLAINTEXT"}])
def test_the_suites_of_a_workers_listeners_are_no_matter_of_clients_without_tls(protocol):
    assert "ssl.cipher.suites" not in to_librdkafka(NEWEST | protocol, of_worker=True)
