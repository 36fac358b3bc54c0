"""Tokens of an issuer: what is taken, and each of the ways to make one that must not be."""

import asyncio
import base64
import contextlib
import http.server
import json
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from dblog.config.login import Logins, Refusal
from dblog.config.passwords import hashed
from dblog.errors import ConfigError
from dblog.rest.identity import Identity
from dblog.rest.tokens import Bearer, Tokens, read_tokens
from support.authority import Authority
from support.worker import until as wait_until
from worker.rest.test_identity import Clock, header, settings

ISSUER, AUDIENCE = "https://login.example", "dblog"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def key_set(**keys):
    found = []
    for name, key in keys.items():
        algorithm = jwt.algorithms.ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else jwt.algorithms.RSAAlgorithm
        found.append({**json.loads(algorithm.to_jwk(key.public_key())), "kid": name, "use": "sig"})
    return json.dumps({"keys": found})


@pytest.fixture
def tokens(tmp_path):
    file = tmp_path / "keys.json"
    file.write_text(key_set(k1=KEY, c1=CURVE))
    return Tokens(settings(**OIDC, dblog_rest_oidc_jwks_file=str(file)))


OIDC = {"dblog_rest_oidc_issuer": ISSUER, "dblog_rest_oidc_audience": AUDIENCE}


def claims(**changes):
    found = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": int(time.time()) + 300, "groups": ["dba", "ops"], **changes}
    return {name: value for name, value in found.items() if value is not None}


def signed(key=KEY, algorithm="RS256", kid="k1", **changes):
    return jwt.encode(claims(**changes), key, algorithm=algorithm, headers={"kid": kid})


def test_a_good_token_names_its_user_and_groups(tokens):
    expires_s = int(time.time()) + 300

    assert tokens.bearer_of(signed(exp=expires_s)) == Bearer("ann", ("dba", "ops"), float(expires_s))
    assert tokens.bearer_of(signed(CURVE, "ES256", "c1", aud=["other", AUDIENCE], groups="dba")).groups == ("dba",)


def unsigned(**changes):
    parts = ({"alg": "none", "kid": "k1"}, claims(**changes))
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def signed_with_the_public_key_as_a_secret():
    """The oldest trick: HMAC, with what everybody may read as the password."""
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "HS256", "kid": "k1"}, claims()))
    import hashlib
    import hmac

    signature = base64.urlsafe_b64encode(hmac.digest(public, head + b"." + body, hashlib.sha256)).rstrip(b"=")
    return b".".join((head, body, signature)).decode()


BAD = {
    "unsigned": unsigned,
    "unsigned, spelt otherwise": lambda: unsigned().replace(
        base64.urlsafe_b64encode(b'{"alg": "none"').decode()[:10], base64.urlsafe_b64encode(b'{"alg": "NONE"').decode()[:10]
    ),
    "public key as a secret": signed_with_the_public_key_as_a_secret,
    "another key": lambda: signed(OTHER),
    "a key that the issuer does not have": lambda: signed(kid="k9"),
    "no key named": lambda: jwt.encode(claims(), KEY, algorithm="RS256"),
    "algorithm off the list": lambda: signed(algorithm="RS512"),
    "another issuer": lambda: signed(iss="https://login.example.evil"),
    "another audience": lambda: signed(aud="billing"),
    "no audience": lambda: signed(aud=None),
    "no issuer": lambda: signed(iss=None),
    "no end": lambda: signed(exp=None),
    "an end beyond all numbers": lambda: signed(exp=10**400),
    "an end without end": lambda: signed(exp=float("inf")),
    "a list of ends": lambda: signed(exp=[1]),
    "ended": lambda: signed(exp=int(time.time()) - 60),
    "not yet": lambda: signed(nbf=int(time.time()) + 120),
    "nobody": lambda: signed(sub=None),
    "an empty name": lambda: signed(sub=""),
    "cut": lambda: signed()[:-3],
    "changed": lambda: _changed(signed()),
    "no token": lambda: "x.y",
    "nothing": lambda: "",
    "too long": lambda: signed(more="x" * 20_000),
}


REASONS = {
    Refusal.TOKEN_ALGORITHM: ("unsigned", "unsigned, spelt otherwise", "public key as a secret", "algorithm off the list"),
    Refusal.TOKEN_SIGNATURE: ("another key", "changed", "cut"),
    Refusal.TOKEN_KEY: ("a key that the issuer does not have", "no key named"),
    Refusal.TOKEN_ISSUER: ("another issuer",),
    Refusal.TOKEN_AUDIENCE: ("another audience",),
    Refusal.TOKEN_CLAIM: ("no audience", "no issuer", "no end", "nobody", "an empty name", "an end beyond all numbers"),
    Refusal.TOKEN_ENDED: ("ended",),
    Refusal.TOKEN_TOO_EARLY: ("not yet",),
    # What is left of a signature is base64 or not, as its last letters are.
    Refusal.BAD_TOKEN: ("cut", "no token", "nothing", "too long", "an end without end", "a list of ends"),
}


def _changed(token):
    head, _, signature = token.split(".")
    body = base64.urlsafe_b64encode(json.dumps(claims(sub="root")).encode()).decode().rstrip("=")
    return f"{head}.{body}.{signature}"


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_token_is_refused_with_what_is_wrong_with_it(tokens, kind):  # number 20 of the worker's safety
    assert kind in REASONS[tokens.bearer_of(BAD[kind]())]
    assert isinstance(tokens.bearer_of(signed()), Bearer)


@pytest.mark.parametrize("said", [{"use": "enc"}, {"use": "enc", "key_ops": ["verify"]}, {"key_ops": ["encrypt"]}])
def test_a_key_that_is_not_for_signatures_is_left_out(tmp_path, said):
    found = json.loads(key_set(k1=KEY, k2=OTHER))
    found["keys"][1] |= said
    (tmp_path / "keys.json").write_text(json.dumps(found))
    tokens = Tokens(settings(**OIDC, dblog_rest_oidc_jwks_file=str(tmp_path / "keys.json")))

    assert tokens.bearer_of(signed()).user == "ann"
    assert tokens.bearer_of(signed(OTHER, kid="k2")) is Refusal.TOKEN_KEY


def test_keys_end_when_the_issuer_has_not_answered_for_a_day(tmp_path):
    file, clock = tmp_path / "keys.json", Clock()
    file.write_text(key_set(k1=KEY))
    tokens = Tokens(settings(**OIDC, dblog_rest_oidc_jwks_file=str(file)), clock=clock)
    assert tokens.bearer_of(signed()).user == "ann"

    file.unlink()
    clock.now_s += 86_000
    assert tokens.bearer_of(signed()).user == "ann"
    clock.now_s += 1000
    assert tokens.bearer_of(signed()) is Refusal.TOKEN_KEY
    file.write_text(key_set(k1=KEY))
    clock.now_s += 1000
    assert tokens.bearer_of(signed()).user == "ann"


def test_a_secret_key_in_the_issuers_set_is_left_out(tmp_path):
    secret = base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [{"kty": "oct", "k": secret, "kid": "k1", "alg": "HS256"}, *json.loads(key_set(k2=KEY))["keys"]]}))
    tokens = Tokens(settings(**OIDC, dblog_rest_oidc_jwks_file=str(file)))

    assert tokens.bearer_of(jwt.encode(claims(), b"s" * 32, algorithm="HS256", headers={"kid": "k1"})) is Refusal.TOKEN_ALGORITHM
    assert isinstance(tokens.bearer_of(signed(kid="k2")), Bearer)


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"dblog_rest_oidc_audience": None}, "dblog.rest.oidc.audience", "is missing"),
        ({}, "dblog.rest.oidc.jwks.url", "is needed"),
        ({"dblog_rest_oidc_jwks_url": "http://login.example/keys"}, "dblog.rest.oidc.jwks.url", "https"),
        ({"dblog_rest_oidc_jwks_url": "file:///etc/passwd"}, "dblog.rest.oidc.jwks.url", "https"),
        ({"dblog_rest_oidc_jwks_file": "/nowhere"}, "dblog.rest.oidc.jwks.file", "not a JSON Web Key Set"),
        ({"dblog_rest_oidc_algorithms": "none"}, "dblog.rest.oidc.algorithms", "must be one of"),
        ({"dblog_rest_oidc_algorithms": "RS256,HS256"}, "dblog.rest.oidc.algorithms", "must be one of"),
    ],
)
def test_what_would_take_tokens_of_anybody_is_refused_at_the_start(changes, key, reason):
    with pytest.raises(ConfigError) as caught:
        read_tokens(settings(**{name: text for name, text in {**OIDC, **changes}.items() if text is not None}))
    assert key in caught.value.errors
    assert reason in caught.value.errors[key][0]


def test_without_an_issuer_there_are_no_tokens():
    assert read_tokens(settings()) is None


class Issuer(http.server.BaseHTTPRequestHandler):
    keys = ""
    asked = 0
    redirect = ""
    goes_on = threading.Event()
    goes_on.set()

    def do_GET(self):
        type(self).asked += 1
        self.goes_on.wait(30)
        self.send_response(302 if self.redirect else 200)
        if self.redirect:
            self.send_header("Location", self.redirect)
        self.end_headers()
        self.wfile.write(self.keys.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def issuer(tmp_path):
    class Own(Issuer):
        pass

    authority = Authority(tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Own)
    server.socket = authority.server().wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Own, f"https://127.0.0.1:{server.server_port}/keys", authority
    server.shutdown()
    server.server_close()


def test_keys_are_fetched_with_tls_kept_and_fetched_again_for_a_new_one_but_not_by_every_token(issuer):
    handler, url, authority = issuer
    handler.keys = key_set(k1=KEY)
    clock = Clock()
    tokens = Tokens(settings(**OIDC, dblog_rest_oidc_jwks_url=url, dblog_rest_oidc_ssl_ca_location=str(authority.path)), clock=clock)

    for _ in range(3):
        assert isinstance(tokens.bearer_of(signed()), Bearer)
    for number in range(20):
        assert tokens.bearer_of(signed(OTHER, kid=f"guess{number}")) is Refusal.TOKEN_KEY
    assert handler.asked == 1
    handler.keys = key_set(k1=KEY, k2=OTHER)
    clock.now_s += 31
    assert isinstance(tokens.bearer_of(signed(OTHER, kid="k2")), Bearer)
    assert handler.asked == 2


def test_an_issuer_whose_certificate_is_not_trusted_or_that_leads_elsewhere_has_no_keys(issuer):
    handler, url, authority = issuer
    handler.keys = key_set(k1=KEY)
    assert Tokens(settings(**OIDC, dblog_rest_oidc_jwks_url=url)).bearer_of(signed()) is Refusal.TOKEN_KEY
    assert handler.asked == 0

    handler.redirect = url + "/elsewhere"
    trusting = settings(**OIDC, dblog_rest_oidc_jwks_url=url, dblog_rest_oidc_ssl_ca_location=str(authority.path))
    assert Tokens(trusting).bearer_of(signed()) is Refusal.TOKEN_KEY
    assert handler.asked == 1
    assert ssl.OPENSSL_VERSION


@pytest.fixture(params=["body", "head"])
def dripping(request, tmp_path):
    """An issuer that sends its keys byte by byte, and never all of them."""
    authority = Authority(tmp_path)
    listener = authority.server().wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True)
    ended = threading.Event()

    def drip(peer):
        with peer, contextlib.suppress(OSError):
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\n" + (b"Content-Length: 900000\r\n\r\n" if request.param == "body" else b"X: "))
            while not ended.wait(0.1):
                peer.sendall(b" ")

    def serve():
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                threading.Thread(target=drip, args=(peer,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield f"https://127.0.0.1:{listener.getsockname()[1]}/keys", authority
    ended.set()
    listener.close()


def test_an_issuer_that_drips_its_keys_holds_up_no_password_and_tokens_until_a_deadline(dripping, monkeypatch):  # number 20
    url, authority = dripping
    monkeypatch.setattr("dblog.rest.tokens._FETCH_S", 3.0)
    tokens = Tokens(settings(**OIDC, dblog_rest_oidc_jwks_url=url, dblog_rest_oidc_ssl_ca_location=str(authority.path)))
    identity = Identity(settings(), logins=Logins({"root": hashed("right")}), tokens=tokens)
    waiting = 20

    def fetching():
        return any(thread.name == "keys of tokens" for thread in threading.enumerate())

    async def asked(given):
        began_s = time.monotonic()
        async with identity.turn(given):
            return await identity.compared(given), time.monotonic() - began_s

    async def all_asked():
        dripped = [asyncio.create_task(asked(f"Bearer {signed(kid=f'k{number}')}")) for number in range(waiting)]
        await asyncio.sleep(0)
        await asyncio.to_thread(wait_until, fetching)
        password, _ = await asked(header("root", "right"))
        under_way = [not task.done() for task in dripped]
        return password, under_way, await asyncio.gather(*dripped)

    principal, under_way, answers = asyncio.run(asyncio.wait_for(all_asked(), 60))

    assert (principal.name, any(under_way)) == ("root", True)
    assert {refusal for refusal, _ in answers} == {Refusal.TOKEN_KEY}
    assert max(waited_s for _, waited_s in answers) < 30
    wait_until(lambda: not fetching())


def test_tokens_of_known_keys_go_on_while_the_keys_are_fetched_for_another(issuer, tmp_path):
    handler, url, authority = issuer
    handler.keys = key_set(k1=KEY)
    clock = Clock()
    tokens = Tokens(settings(**OIDC, dblog_rest_oidc_jwks_url=url, dblog_rest_oidc_ssl_ca_location=str(authority.path)), clock=clock)
    assert isinstance(tokens.bearer_of(signed()), Bearer)
    clock.now_s += 31
    handler.goes_on.clear()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(tokens.bearer_of, signed(OTHER, kid="k2"))
        wait_until(lambda: handler.asked == 2)
        assert isinstance(tokens.bearer_of(signed()), Bearer)
        assert not other.done()
        handler.keys = key_set(k1=KEY, k2=OTHER)
        handler.goes_on.set()

        assert isinstance(other.result(), Bearer)
