"""The registry client against answers of a registry, good and bad."""

import json

import httpx
import pytest
from dblog.errors import ConfigError, DefiniteError, TransientError
from dblog.kafka.registry import RegistryAccess, RegistryClient


def client(answer, *urls, **access):
    calls = []

    def handle(request):
        calls.append(request)
        made = answer(request)
        if isinstance(made, Exception):
            raise made
        return made

    made = RegistryClient(RegistryAccess(urls=urls or ("http://r:1",), **access), transport=httpx.MockTransport(handle))
    return made, calls


def says(status, body):
    return lambda request: httpx.Response(status, json=body)


def test_a_schema_is_registered_once():
    registry, calls = client(says(200, {"id": 7}))

    ids = [registry.register("t-value", '"int"') for _ in range(3)]

    assert ids == [7, 7, 7]
    assert len(calls) == 1
    assert (calls[0].method, str(calls[0].url)) == ("POST", "http://r:1/subjects/t-value/versions")
    assert json.loads(calls[0].content) == {"schema": '"int"'}
    assert calls[0].headers["content-type"] == "application/vnd.schemaregistry.v1+json"


def test_a_subject_is_one_path_segment():
    registry, calls = client(says(200, {"id": 7}))

    registry.register("a/b c-value", '"int"', normalize=True)

    assert calls[0].url.raw_path == b"/subjects/a%2Fb%20c-value/versions?normalize=true"


def test_a_schema_is_read_once():
    registry, calls = client(says(200, {"schema": '"int"'}))

    assert [registry.schema(7), registry.schema(7)] == ['"int"', '"int"']
    assert [c.url.path for c in calls] == ["/schemas/ids/7"]


def test_the_next_url_is_asked_when_one_is_away_and_stays_first():
    registry, calls = client(
        lambda request: httpx.ConnectError("refused") if request.url.host == "a" else httpx.Response(200, json={"id": 1}),
        "http://a:1",
        "http://b:1",
    )

    registry.register("x", '"int"')
    registry.register("y", '"int"')

    assert [c.url.host for c in calls] == ["a", "b", "b"]


@pytest.mark.parametrize("status", [500, 503, 429])
def test_an_overloaded_registry_may_recover(status):
    registry, calls = client(says(status, {"error_code": 50001, "message": "no leader"}), "http://a:1", "http://b:1")

    with pytest.raises(TransientError, match=rf"not available for t-value .*HTTP {status} no leader"):
        registry.register("t-value", '"int"')
    assert len(calls) == 2


def test_a_registry_that_is_away_may_come_back():
    registry, _ = client(lambda request: httpx.ReadTimeout("slow"))

    with pytest.raises(TransientError, match=r"http://r:1: ReadTimeout"):
        registry.register("t-value", '"int"')


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (409, r"refuses the new schema of subject t-value: .*\(reader field missing\).*PUT http://r:1/config/t-value"),
        (422, "calls the schema of subject t-value invalid: reader field missing"),
        (401, r"refuses access to subject t-value .*basic\.auth\.user\.info"),
        (404, r"does not know t-value .*auto\.register\.schemas=true"),
        (400, "refuses t-value: reader field missing"),
    ],
)
def test_a_refusal_names_subject_reason_and_remedy(status, text):
    registry, _ = client(says(status, {"error_code": status, "message": "reader field missing"}))

    with pytest.raises(DefiniteError, match=text):
        registry.register("t-value", '"int"')


@pytest.mark.parametrize("response", [httpx.Response(200, text="<html>"), httpx.Response(200, json=[1])])
def test_something_else_behind_the_url_is_told_apart(response):
    registry, _ = client(lambda request: response)

    with pytest.raises(DefiniteError, match="does not answer like a schema registry"):
        registry.register("t-value", '"int"')


@pytest.mark.parametrize(
    "settings",
    [
        {"schema.registry.url": "http://user:s%23cret@r:1"},
        {"schema.registry.url": "http://r:1", "basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "user:s#cret"},
    ],
)
def test_a_login_comes_from_the_url_or_from_user_info_and_stays_secret(settings):
    access = RegistryAccess.from_settings(settings, option_prefix="value.converter.", own_url=None)

    assert access.login == ("user", "s#cret")
    assert access.urls == ("http://r:1",)
    assert "cret" not in repr(access)


def test_token_and_extra_headers_are_sent():
    registry, calls = client(says(200, {"id": 1}), token="abc", headers={"X-Team": "cdc"})

    registry.register("x", '"int"')

    assert (calls[0].headers["authorization"], calls[0].headers["x-team"]) == ("Bearer abc", "cdc")


def test_a_list_of_urls_is_split_and_the_own_registry_is_the_default():
    many = RegistryAccess.from_settings({"schema.registry.url": "http://a:1/, https://b:2"}, option_prefix="", own_url="http://own:8083")
    own = RegistryAccess.from_settings({}, option_prefix="", own_url="http://own:8083")

    assert (many.urls, own.urls) == (("http://a:1", "https://b:2"), ("http://own:8083",))


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({}, "schema.registry.url"),
        ({"schema.registry.url": "r:1"}, "schema.registry.url"),
        ({"schema.registry.url": "http://r:1", "basic.auth.credentials.source": "SASL_INHERIT"}, "basic.auth.credentials.source"),
        ({"schema.registry.url": "http://r:1", "basic.auth.credentials.source": "USER_INFO"}, "basic.auth.user.info"),
        ({"schema.registry.url": "http://r:1", "schema.registry.ssl.truststore.location": "x.jks"}, "schema.registry.ssl.truststore.type"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_prefix(settings, option):
    with pytest.raises(ConfigError) as e:
        RegistryAccess.from_settings(settings, option_prefix="key.converter.", own_url=None)

    assert list(e.value.errors) == [f"key.converter.{option}"]
