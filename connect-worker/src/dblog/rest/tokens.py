"""Bearer tokens of an OpenID Connect provider: JSON Web Tokens, checked as RFC 8725 requires.

A token is accepted if its algorithm is on the list, its signature is by the key with the token's
key id in the provider's set, and its issuer, audience and times are right. Unsigned tokens and
tokens signed with a shared secret are never accepted, because their algorithms cannot be listed.
The keys come from a file, or from an https address in the worker's own file. No address that a
token names is ever fetched.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog

from dblog.clock import Clock, SystemClock
from dblog.config.login import ISSUER, Refusal
from dblog.config.options import Settings
from dblog.errors import ConfigError

_log = structlog.get_logger("dblog.rest")

AUDIENCE = "dblog.rest.oidc.audience"
KEYS_URL = "dblog.rest.oidc.jwks.url"
KEYS_FILE = "dblog.rest.oidc.jwks.file"
ALGORITHMS = "dblog.rest.oidc.algorithms"
USER_CLAIM = "dblog.rest.oidc.user.claim"
GROUPS_CLAIM = "dblog.rest.oidc.groups.claim"
AUTHORITIES = "dblog.rest.oidc.ssl.ca.location"

TOKEN_CHARS_MAX = 16 * 1024
KEYS_BYTES_MAX = 1024 * 1024
_LEEWAY_S = 30
_KEYS_OLD_S = 600.0
_ASK_AGAIN_S = 30.0
"""Shortest interval between two fetches of the issuer's keys for tokens with unknown key ids."""
_FETCH_S = 5.0
"""Time limit for the issuer's whole answer, from the name's look-up to the last byte."""
_KEYS_END_S = 86_400.0
"""Seconds for which old keys are used while the issuer does not answer. It bounds the life of a key
that the issuer has withdrawn.
"""


_REFUSALS = {
    "ExpiredSignatureError": Refusal.TOKEN_ENDED,
    "ImmatureSignatureError": Refusal.TOKEN_TOO_EARLY,
    "InvalidAudienceError": Refusal.TOKEN_AUDIENCE,
    "InvalidIssuerError": Refusal.TOKEN_ISSUER,
    "InvalidKeyError": Refusal.TOKEN_KEY,
    "InvalidSignatureError": Refusal.TOKEN_SIGNATURE,
    "InvalidAlgorithmError": Refusal.TOKEN_ALGORITHM,
    "MissingRequiredClaimError": Refusal.TOKEN_CLAIM,
}
"""Refusals by the names of PyJWT's classes. PyJWT is imported only if tokens are accepted."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """The owner of a token, and its expiry."""

    user: str
    groups: tuple[str, ...]
    expires_s: float


class Tokens:
    """Checks tokens. Waits for the provider's keys, so call it in a thread."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None) -> None:
        """Read the settings. Raise ConfigError naming the option that is missing or unusable."""
        import jwt  # noqa: PLC0415  an extra that only this needs

        self._jwt = jwt
        self._issuer = settings.text(ISSUER)
        self._audience = settings.text_or_none(AUDIENCE)
        if not self._audience:
            raise ConfigError(
                {AUDIENCE: [f"is missing; with {ISSUER} it names what a token must be made for, or one for another service would be taken"]}
            )
        self._algorithms = list(settings.items_of(ALGORITHMS))
        self._user_claim = settings.text(USER_CLAIM)
        self._groups_claim = settings.text(GROUPS_CLAIM)
        self._source = _Keys(settings, jwt)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._keys: dict[str | None, Any] = {}
        self._asked_s: float | None = None
        self._read_s = self._clock.monotonic_s()
        self._fetch: _Fetch | None = None
        """The fetch that is under way, or None."""

    def bearer_of(self, token: str) -> Bearer | Refusal:
        """Return the owner of a token, or the reason of its refusal, which quotes nothing of it."""
        try:
            if len(token) > TOKEN_CHARS_MAX:
                raise self._jwt.InvalidTokenError("it is too long")
            head = self._jwt.get_unverified_header(token)
            # Checked before the key is looked up: the key's owner must not decide how the key is
            # used.
            if head.get("alg") not in self._algorithms:
                raise self._jwt.InvalidAlgorithmError("its algorithm is not on the list")
            key = self._key(head.get("kid"))
            claims = self._jwt.decode(
                token,
                key,
                algorithms=[head["alg"]],
                issuer=self._issuer,
                audience=self._audience,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud", self._user_claim]},
            )
        except self._jwt.PyJWTError as e:
            # The error's text may quote claims, so only its class is used.
            return _REFUSALS.get(type(e).__name__, Refusal.BAD_TOKEN)
        except (ArithmeticError, TypeError, ValueError, RecursionError):
            return Refusal.TOKEN_CLAIM  # claims of another form, which the issuer itself has signed
        user, groups = claims[self._user_claim], claims.get(self._groups_claim, ())
        if not isinstance(user, str) or not user:
            return Refusal.TOKEN_CLAIM
        try:
            end_s = float(claims["exp"])
        except OverflowError:
            return Refusal.TOKEN_CLAIM
        named = (
            (groups,)
            if isinstance(groups, str)
            else tuple(group for group in groups if isinstance(group, str))
            if isinstance(groups, list)
            else ()
        )
        return Bearer(user, named, end_s)

    def _key(self, key_id: str | None) -> Any:
        """Return the key. Wait for the issuer's answer, up to the fetch's deadline, if needed."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            asked, fetch = self._asked_s, self._fetch
            is_old = now_s - self._read_s >= _KEYS_OLD_S
            if fetch is None and (
                asked is None or now_s - asked >= _KEYS_OLD_S or (key_id not in self._keys and now_s - asked >= _ASK_AGAIN_S)
            ):
                self._asked_s = now_s
                fetch = self._fetch = _Fetch(self._source, self._take)
            if fetch is None or (key_id in self._keys and not is_old):
                return self._known_key(key_id)
        fetch.wait()
        with self._lock:
            return self._known_key(key_id)

    def _take(self, keys: dict[str | None, Any] | None) -> None:
        """Store the issuer's keys.

        None means that they could not be read; the old ones stay in use.
        """
        with self._lock:
            self._fetch = None
            if keys is not None:
                self._keys, self._read_s = keys, self._clock.monotonic_s()

    def _known_key(self, key_id: str | None) -> Any:
        now_s = self._clock.monotonic_s()
        if self._keys and now_s - self._read_s >= _KEYS_END_S:
            _log.error(
                "the keys of the tokens' issuer are too old to be taken", source=self._source.where, read_before_s=int(now_s - self._read_s)
            )
            self._keys = {}
        if key_id in self._keys:
            return self._keys[key_id]
        raise self._jwt.InvalidKeyError("no such key")


class _Fetch:
    """One reading of the keys, in its own thread: an issuer that never ends its answer must not
    block anybody beyond the deadline.

    The next fetch starts only when the thread has ended, so at most one hangs with a name service.
    """

    def __init__(self, source: _Keys, take: Callable[[dict[str | None, Any] | None], None]) -> None:
        self._source = source
        self._take = take
        self._ended = threading.Event()
        self._until_s = time.monotonic() + _FETCH_S
        threading.Thread(target=self._run, name="keys of tokens", daemon=True).start()

    def wait(self) -> None:
        """Wait until the keys have been read, could not be read, or the deadline has passed."""
        self._ended.wait(max(0.0, self._until_s - time.monotonic()))

    def _run(self) -> None:
        keys = None
        try:
            keys = self._source.read()
        except Exception as e:  # noqa: BLE001  after any error the former keys stay in use
            _log.error("the keys of the tokens' issuer cannot be read", source=self._source.where, reason=type(e).__name__)
        finally:
            self._take(keys)
            self._ended.set()


class _Keys:
    """The source of the provider's keys: a JSON Web Key Set."""

    def __init__(self, settings: Settings, jwt: Any) -> None:
        self._jwt = jwt
        url, file = settings.text_or_none(KEYS_URL), settings.text_or_none(KEYS_FILE)
        if bool(url) is bool(file):
            raise ConfigError({KEYS_URL: [f"one of this key and {KEYS_FILE} is needed, to check tokens with the issuer's keys"]})
        self.where = url or file or ""
        self._url = url
        if url and (urlsplit(url).scheme != "https" or not urlsplit(url).hostname):
            raise ConfigError({KEYS_URL: ["must be an https address: anybody who changes the keys on their way makes tokens of his own"]})
        authorities = settings.text_or_none(AUTHORITIES)
        try:
            self._tls = ssl.create_default_context(cafile=authorities) if url else None
        except (OSError, ssl.SSLError) as e:
            raise ConfigError({AUTHORITIES: [f"the file {authorities} cannot be used ({e}); it has to hold certificates in PEM"]}) from e
        if file:
            try:
                self.read()
            except (OSError, ValueError, jwt.PyJWTError) as e:
                raise ConfigError({KEYS_FILE: [f"the file {file} is not a JSON Web Key Set ({type(e).__name__})"]}) from e

    def read(self) -> dict[str | None, Any]:
        """Return the keys that verify signatures, by their id.

        Secret keys are left out, because with one a public text would become a password. So are
        keys for encryption, which others may use (RFC 7517, use and key_ops).
        """
        data = json.loads(self._fetched(self._url) if self._url else Path(self.where).read_bytes())
        found = self._jwt.PyJWKSet.from_dict({**data, "keys": [key for key in data["keys"] if _signs(key)]})
        return {key.key_id: key for key in found.keys if key.key_type != "oct"}

    def _fetched(self, url: str) -> bytes:
        return asyncio.run(asyncio.wait_for(self._answer(url), _FETCH_S))

    async def _answer(self, url: str) -> bytes:
        """Return the body of the answer.

        Only an asynchronous client can be cut off at any point; a blocking one's limits start again
        with each byte.
        """
        import httpx  # noqa: PLC0415  a client for one address now and then

        assert self._tls is not None
        async with (
            httpx.AsyncClient(verify=self._tls, trust_env=False, timeout=_FETCH_S, follow_redirects=False) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer,
        ):
            answer.raise_for_status()
            data = bytearray()
            async for piece in answer.aiter_raw():
                data += piece
                if len(data) > KEYS_BYTES_MAX:
                    raise ValueError("too large")
        return bytes(data)


def _signs(key: object) -> bool:
    """Return True if a key of a set is for signatures. Leave malformed keys to the library."""
    if not isinstance(key, dict):
        return True
    operations = key.get("key_ops")
    return key.get("use", "sig") == "sig" and (not isinstance(operations, list) or "verify" in operations)


def read_tokens(settings: Settings) -> Tokens | None:
    """Return the checker of tokens, or None if no issuer is named."""
    if not settings.text_or_none(ISSUER):
        return None
    try:
        return Tokens(settings)
    except ModuleNotFoundError:
        raise ConfigError({ISSUER: ["tokens need the package PyJWT; install it with: pip install 'dblog[oidc]'"]}) from None
