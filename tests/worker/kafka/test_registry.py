"""The registry client against answers of a registry, good and bad."""

import contextlib
import gzip
import json
import socket
import threading
import time
from dataclasses import replace

import httpx
import pytest
from dblog.config.worker import OwnRegistry
from dblog.errors import ConfigError, DefiniteError, TransientError
from dblog.kafka import registry as registry_module
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


def answering(status, body):
    return lambda request: httpx.Response(status, json=body)


def test_a_schema_is_registered_once():
    registry, calls = client(answering(200, {"id": 7}))

    ids = [registry.register("t-value", '"int"') for _ in range(3)]

    assert ids == [7, 7, 7]
    assert len(calls) == 1
    assert (calls[0].method, str(calls[0].url)) == ("POST", "http://r:1/subjects/t-value/versions")
    assert json.loads(calls[0].content) == {"schema": '"int"'}
    assert calls[0].headers["content-type"] == "application/vnd.schemaregistry.v1+json"


def registering(ids):
    """Answers as the worker's own registry does; ``ids`` by subject, without those that are refused."""

    def answer(request):
        if request.url.path != "/schemas/together":
            subject = request.url.path.split("/")[2]
            return httpx.Response(200, json={"id": ids[subject]}) if subject in ids else httpx.Response(409, json={"error_code": 409})
        asked = [each["subject"] for each in json.loads(request.content)]
        return httpx.Response(200, json=[{"id": ids[one]} if one in ids else {"error_code": 409, "message": "no"} for one in asked])

    return answer


def test_schemas_are_registered_together_and_one_that_is_refused_says_why_when_it_is_asked_for_alone():
    registry, calls = client(registering({"a": 7, "b": 8, "d": 9}), trusted=True)
    registry.register("b", '"int"')

    ids = registry.register_together([(subject, '"int"') for subject in "abcd"])

    assert ids == [7, 8, None, 9]
    assert [call.url.path for call in calls] == ["/subjects/b/versions", "/schemas/together"]
    assert json.loads(calls[1].content) == [{"subject": subject, "schema": '"int"'} for subject in "acd"], "what is known is not asked"
    assert [registry.register(subject, '"int"') for subject in "abd"] == [7, 8, 9]
    assert len(calls) == 2, "an id is kept, however it was learned"
    with pytest.raises(DefiniteError, match="subject c: not compatible"):
        registry.register("c", '"int"')


def test_one_request_holds_a_bounded_number_of_schemas_and_of_their_characters():
    subjects = {f"s{n}": n for n in range(450)}
    registry, calls = client(registering(subjects), trusted=True)

    assert registry.register_together([(subject, '"int"') for subject in subjects]) == list(range(450))
    assert [len(json.loads(call.content)) for call in calls] == [200, 200, 50]

    large = '"' + "x" * 300_000 + '"'
    assert registry.register_together([("s1", large), ("s2", large), ("s3", large)]) == [1, 2, 3]
    assert [len(json.loads(call.content)) for call in calls[3:]] == [1, 1, 1]


def test_a_registry_that_is_away_registers_none_of_several_and_all_when_it_is_back():
    away = [True]
    registry, _ = client(lambda request: httpx.Response(503) if away[0] else registering({"a": 7, "b": 8})(request), trusted=True)

    with pytest.raises(TransientError, match="not available"):
        registry.register_together([("a", '"int"'), ("b", '"int"')])
    away[0] = False
    assert registry.register_together([("a", '"int"'), ("b", '"int"')]) == [7, 8]


def test_a_subject_is_one_path_segment():
    registry, calls = client(answering(200, {"id": 7}))

    registry.register("a/b c-value", '"int"', normalize=True)

    assert calls[0].url.raw_path == b"/subjects/a%2Fb%20c-value/versions?normalize=true"


def test_a_schema_is_read_once():
    registry, calls = client(answering(200, {"schema": '"int"'}))

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
    registry, calls = client(answering(status, {"error_code": 50001, "message": "no leader"}), "http://a:1", "http://b:1")

    with pytest.raises(TransientError, match=rf"not available for t-value .*HTTP {status}, error 50001"):
        registry.register("t-value", '"int"')
    assert len(calls) == 2


def test_a_registry_that_is_away_may_come_back():
    registry, _ = client(lambda request: httpx.ReadTimeout("slow"))

    with pytest.raises(TransientError, match=r"http://r:1: ReadTimeout"):
        registry.register("t-value", '"int"')


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (409, r"refuses the new schema of subject t-value: .*\(HTTP 409, error 409\).*PUT http://r:1/config/t-value"),
        (422, "calls the schema of subject t-value invalid: HTTP 422, error 422"),
        (401, r"refuses access to subject t-value .*basic\.auth\.user\.info"),
        (404, r"does not know t-value .*auto\.register\.schemas=true"),
        (400, "refuses t-value: HTTP 400, error 400"),
    ],
)
def test_a_refusal_names_subject_reason_and_remedy(status, text):
    registry, _ = client(answering(status, {"error_code": status, "message": "reader field missing"}))

    with pytest.raises(DefiniteError, match=text):
        registry.register("t-value", '"int"')


@pytest.mark.parametrize("response", [httpx.Response(200, text="<html>"), httpx.Response(200, json=[1])])
def test_something_else_behind_the_url_is_distinguished(response):
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
    access = RegistryAccess.from_settings(settings, option_prefix="value.converter.", own=None)

    assert access.login == ("user", "s#cret")
    assert access.urls == ("http://r:1",)
    assert "cret" not in repr(access)


def test_token_and_extra_headers_are_sent():
    registry, calls = client(answering(200, {"id": 1}), token="abc", headers={"X-Team": "cdc"})

    registry.register("x", '"int"')

    assert (calls[0].headers["authorization"], calls[0].headers["x-team"]) == ("Bearer abc", "cdc")


def test_a_list_of_urls_is_split_and_the_own_registry_is_the_default():
    many = RegistryAccess.from_settings(
        {"schema.registry.url": "http://a:1/, https://b:2"}, option_prefix="", own=OwnRegistry("http://own:8083")
    )
    own = RegistryAccess.from_settings({}, option_prefix="", own=OwnRegistry("http://own:8083"))

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
        RegistryAccess.from_settings(settings, option_prefix="key.converter.", own=None)

    assert list(e.value.errors) == [f"key.converter.{option}"]


@pytest.mark.parametrize("status", [400, 401, 404, 409, 418, 422, 429, 500, 503])
def test_what_a_foreign_address_answers_is_never_shown(status):  # number 5 of the worker's safety
    registry, _ = client(answering(status, {"error_code": 40401, "message": "AKIA-canary"}), "http://169.254.169.254")

    for ask in (lambda: registry.register("t", '"int"'), lambda: registry.latest("t"), lambda: registry.ask_whether_there(limit_s=5)):
        try:
            ask()
        except (DefiniteError, TransientError) as e:
            assert "canary" not in str(e)  # noqa: PT017  it may also succeed


@pytest.mark.parametrize(
    ("settings", "token", "trusted"),
    [
        ({}, "own-token", True),
        ({"schema.registry.url": "http://own:8083/"}, "own-token", True),
        ({"bearer.auth.token": "mine"}, "mine", True),
        ({"schema.registry.url": "http://u:p@own:8083"}, None, True),
        ({"schema.registry.url": "http://elsewhere:8083"}, None, False),
        ({"schema.registry.url": "http://own:8083,http://elsewhere:8083"}, None, False),
        ({"proxy.host": "elsewhere"}, None, False),
    ],
)
def test_the_token_of_a_workers_tasks_goes_to_its_own_registry_alone(settings, token, trusted):  # number 8 of the worker's safety
    access = RegistryAccess.from_settings(settings, option_prefix="", own=OwnRegistry("http://own:8083", "own-token"))

    assert (access.token, access.trusted) == (token, trusted)
    assert "own-token" not in repr(access)


def test_the_workers_own_registry_may_state_why():  # number 5
    access = RegistryAccess.from_settings({}, option_prefix="value.converter.", own=OwnRegistry("http://127.0.0.1:8083"))
    registry = RegistryClient(access, transport=httpx.MockTransport(answering(409, {"error_code": 409, "message": "reader field missing"})))

    with pytest.raises(DefiniteError, match="reader field missing"):
        registry.register("t", '"int"')


def test_a_redirect_is_not_followed():  # number 5
    asked = []

    def answer(request):
        asked.append(request.url.host)
        return httpx.Response(302, headers={"location": "http://169.254.169.254/"})

    registry, _ = client(answer)
    with pytest.raises(DefiniteError):
        registry.register("t", '"int"')
    registry.ask_whether_there(limit_s=5)

    assert set(asked) == {"r"}


def test_an_answer_of_any_size_is_not_kept():  # number 5
    async def endless():
        while True:
            yield b"x" * 65536

    registry, _ = client(lambda request: httpx.Response(200, content=endless()))

    with pytest.raises(DefiniteError, match="too large"):
        registry.register("t", '"int"')


@contextlib.contextmanager
def dripping(piece):
    """The URL of a server that sends the piece now and then, and never ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()

        def drip():
            peer, _ = server.accept()
            with peer, contextlib.suppress(OSError):
                while not stop.wait(0.05):
                    peer.sendall(piece)

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            stop.set()
            thread.join(10)


def test_an_address_that_answers_a_byte_now_and_then_is_left_in_time():  # number 11 of the worker's safety
    with dripping(b"H") as url, pytest.raises(TransientError, match="ReadTimeout"):
        RegistryClient(RegistryAccess(urls=(url,))).ask_whether_there(limit_s=0.5)


@pytest.mark.parametrize("url", ["ftp://r", "file:///etc/passwd", "http://[r", "http://r:port", "http://", "r:8081"])
def test_an_url_that_is_none_is_refused_by_its_option(url):  # number 17 of the worker's safety
    with pytest.raises(ConfigError) as raised:
        RegistryAccess.from_settings({"schema.registry.url": url}, option_prefix="value.converter.", own=None)

    assert list(raised.value.errors) == ["value.converter.schema.registry.url"]


def test_silent_addresses_share_one_limit_and_one_that_answers_is_still_asked():
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(9)]
        urls = [f"http://127.0.0.1:{server.getsockname()[1]}" for server in silent]
        began_s = time.monotonic()
        with pytest.raises(TransientError, match="no schema registry answers"):
            RegistryClient(RegistryAccess(urls=tuple(urls))).ask_whether_there(limit_s=0.9)
        assert time.monotonic() - began_s < 3

        answering = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def answer():
            peer, _ = answering.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        there = f"http://127.0.0.1:{answering.getsockname()[1]}"
        RegistryClient(RegistryAccess(urls=(*urls, there))).ask_whether_there(limit_s=3)
        thread.join(10)


def test_more_urls_than_can_be_tried_are_refused_by_their_option():
    def access(count):
        urls = ",".join(f"http://r{number}:1" for number in range(count))
        return RegistryAccess.from_settings({"schema.registry.url": urls}, option_prefix="value.converter.", own=None)

    assert len(access(10).urls) == 10
    with pytest.raises(ConfigError, match="lists 11 URLs"):
        access(11)


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        pytest.param(list(range(1, 1002)), "x", id="many versions"),
        pytest.param(list(range(1, 1000)), "x" * 1_000_000, id="large versions"),
        pytest.param(["1/../../../config"], "x", id="no numbers"),
        pytest.param([1], 7, id="no text"),
    ],
)
def test_a_registry_without_end_is_left_after_a_bounded_number_of_bytes(versions, text):
    body = json.dumps({"schema": text}).encode()
    registry, calls = client(
        lambda request: httpx.Response(200, json=versions) if request.url.path.endswith("versions") else httpx.Response(200, content=body)
    )

    with pytest.raises(DefiniteError):
        registry.versions("s")

    assert len(calls) < 50


def test_a_registry_that_takes_a_while_for_every_version_is_left_in_time(monkeypatch):
    monkeypatch.setattr(registry_module, "VERSIONS_S", -1.0)
    registry, calls = client(
        lambda request: httpx.Response(200, json=[1, 2, 3] if request.url.path.endswith("versions") else {"schema": "x"})
    )

    with pytest.raises(TransientError, match="versions of subject s"):
        registry.versions("s")

    assert len(calls) == 2


# What a foreign address answers under the status of success.

ASKED = {
    "register": lambda registry: registry.register("t", '"int"'),
    "together": lambda registry: registry.register_together([("t", '"int"')]),
    "lookup": lambda registry: registry.lookup("t", '"int"'),
    "latest": lambda registry: registry.latest("t"),
    "versions": lambda registry: registry.versions("t"),
    "level": lambda registry: registry.level("t"),
    "schema": lambda registry: registry.schema(7),
}
FOREIGN = {
    "text for an id": {"id": "AKIA-canary", "schema": '"int"', "compatibilityLevel": "NONE"},
    "nothing": {},
    "a list": ["AKIA-canary"],
    "a text": "AKIA-canary",
    "null": None,
    "true for an id": {"id": True, "schema": ["AKIA-canary"], "compatibilityLevel": True},
    "an id that fits no frame": {"id": 2**32, "schema": {"AKIA-canary": 1}, "compatibilityLevel": "AKIA-canary"},
    "an id below zero": {"id": -1, "schema": None, "compatibilityLevel": None},
    "half of a surrogate pair": {"id": 1.0, "schema": "AKIA-canary\ud800", "compatibilityLevel": "\ud800"},
}


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("body", FOREIGN)
def test_what_is_no_answer_of_a_registry_is_reported_in_our_words_alone(ask, body):  # number 5 of the worker's safety
    registry, _ = client(lambda request: httpx.Response(200, content=json.dumps(FOREIGN[body])))

    try:
        made = ASKED[ask](registry)
    except DefiniteError as e:
        assert str(e) == "http://r:1 does not answer like a schema registry; check schema.registry.url"  # noqa: PT017  some have an answer
        assert e.__cause__ is None  # noqa: PT017
        assert e.__suppress_context__  # noqa: PT017  the context would be in a trace
    else:
        assert (ask, body) in {("schema", "text for an id"), ("level", "text for an id")}, made


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"id":' * 200_000, b"[0" + b",0" * 1_000_000 + b"]", b"\xff\xfe\x00", b"9" * 5000])
@pytest.mark.parametrize("status", [200, 409, 500])
def test_an_answer_of_any_shape_is_an_error_of_ours(body, status):  # number 5
    registry, _ = client(lambda request: httpx.Response(status, content=body))

    with pytest.raises((DefiniteError, TransientError), match="registry"):
        registry.register("t", '"int"')


@pytest.mark.parametrize("code", [True, -1, 10**9, "AKIA-canary", 4.5, None])
def test_an_error_code_is_a_number(code):  # number 5
    registry, _ = client(answering(409, {"error_code": code}))

    with pytest.raises(DefiniteError, match=r"\(HTTP 409\)"):
        registry.register("t", '"int"')


def test_an_answer_is_not_unpacked():  # number 5
    bomb = gzip.compress(gzip.compress(bytes(200_000_000)))
    registry, calls = client(lambda request: httpx.Response(200, headers={"content-encoding": "gzip, gzip"}, stream=httpx.ByteStream(bomb)))

    with pytest.raises(DefiniteError, match="its answer is packed"):
        registry.register("t", '"int"')
    assert calls[0].headers["accept-encoding"] == "identity"


def test_a_registry_that_answers_a_byte_now_and_then_is_left_in_time():  # number 11
    with dripping(b"H") as url, pytest.raises(TransientError, match="ReadTimeout"):
        RegistryClient(RegistryAccess(urls=(url,)), timeout_s=0.5).register("t", '"int"')


# Settings that HTTP cannot carry.


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("bearer.auth.token", "tök"),
        ("bearer.auth.token", "token\n"),
        ("bearer.auth.token", "to ken"),
        ("request.header.X-Team", "café"),
        ("request.header.X-Team", "a\r\nHost: evil"),
        ("request.header.X-Team", " a"),
        ("request.header.X\r\nY", "a"),
        ("request.header.Ä", "a"),
        ("request.header.", "a"),
        ("request.header.Content-Length", "3"),
        ("request.header.transfer-encoding", "chunked"),
        ("request.header.Host", "evil"),
        ("proxy.host", "evil#.allowed.example"),
        ("proxy.host", "user@evil"),
        ("proxy.host", "evil/"),
        ("proxy.host", "::1"),
        ("proxy.host", "pröxy"),
        ("proxy.port", "x"),
        ("proxy.port", "0"),
        ("proxy.port", "65536"),
        ("proxy.port", "²"),
        ("schema.registry.url", ","),
        ("schema.registry.url", "http://a b"),
        ("schema.registry.url", "http://" + "a" * 64),
        ("schema.registry.url", "http://0251.0376.0251.0376"),
        ("schema.registry.url", "http://2852039166"),
        ("schema.registry.url", "http://ev\til.allowed.example"),
        ("schema.registry.url", "http://r/" + "x" * 70_000),
    ],
)
def test_what_http_cannot_carry_is_refused_by_its_option_and_not_shown(option, text):  # number 17 of the worker's safety
    settings = {"schema.registry.url": "http://r:1", "proxy.host": "p", option: text}
    with pytest.raises(ConfigError) as raised:
        RegistryAccess.from_settings(settings, option_prefix="value.converter.", own=None)

    assert list(raised.value.errors) == [f"value.converter.{option}"]
    assert text not in str(raised.value.errors[f"value.converter.{option}"]) or len(text) < 3


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("bearer.auth.token", "eyJ.a-b_c~d+e/f=="),
        ("request.header.X-Team", "cdc (us), 1"),
        ("request.header.X-Empty", ""),
        ("proxy.host", "[::1]"),
        ("proxy.host", "proxy_1.example"),
        ("schema.registry.url", "http://xn--bcher-kva.example:8081/registry"),
        ("schema.registry.url", "https://[fd00::7]"),
        ("schema.registry.url", "http://user:p%40ss@10.0.0.1,http://r_2."),
    ],
)
def test_what_http_carries_is_taken(option, text):  # number 17
    settings = {"schema.registry.url": "http://r:1", "proxy.host": "p", option: text}

    access = RegistryAccess.from_settings(settings, option_prefix="", own=None)
    assert httpx.URL(access.proxy).host
    registry = RegistryClient(replace(access, proxy=None), transport=httpx.MockTransport(answering(200, {"id": 1})))

    assert registry.register("t", '"int"') == 1
