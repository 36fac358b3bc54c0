"""Tokens of an issuer: what is taken, and each of the ways to make one that must not be."""

import base64
import http.server
import json
import ssl
import threading
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from dblog.config.login import Refusal
from dblog.errors import ConfigError
from dblog.rest.tokens import Bearer, Tokens, read_tokens
from support.authority import Authority
from worker.rest.test_identity import Clock, settings

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
    tokens = Tokens(settings(**OIDC, dblog_rest_oidc_jwks_file=str(file)), clock_s=clock)
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
        ({"dblog_rest_oidc_jwks_file": "/nowhere"}, "dblog.rest.oidc.jwks.file", "no JSON Web Key Set"),
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

    def do_GET(self):
        type(self).asked += 1
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
    tokens = Tokens(settings(**OIDC, dblog_rest_oidc_jwks_url=url, dblog_rest_oidc_ssl_ca_location=str(authority.path)), clock_s=clock)

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
