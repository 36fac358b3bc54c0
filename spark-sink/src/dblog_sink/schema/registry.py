"""Reads schemas by id from the schema registry over HTTP, and waits while it is unavailable.

Ids are immutable, so a schema once read is cached, in memory and in a local folder if one is
configured. Only the driver asks the registry, never an executor. An unavailable registry makes no
bad records: the sink waits with growing pauses and skips nothing. If a healthy registry keeps
answering that it does not know an id, as for a record written with another registry, the caller
decides. The id is asked for again at growing intervals, without waiting, since the registry may
have been restored, or a replica of it may have lagged.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from dblog_sink.errors import AwayError, DefiniteError
from dblog_sink.schema.limited_request import answered
from dblog_sink.schema.writer_schemas import REFERENCES

log = logging.getLogger(__name__)

_PAUSE_FIRST_S = 0.2
_PAUSE_MAX_S = 10.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_UNKNOWN_PAUSE_MAX_S = 600.0
_PATIENCE_PACE = 0.1
_LOG_EVERY_S = 60.0
_ANSWER_BYTES_MAX = 16 * 1024 * 1024
_ANSWER_S = 60.0
"""Time limit for a whole answer, in seconds; the timeout option limits each read."""
_PIECE_BYTES = 64 * 1024
_REFERENCES_MAX = 1000
"""Maximum number of schemas that one schema refers to, directly or through others."""
_DEPTH_MAX = 50
_ACCEPT = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}


def tls_context(*, ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the TLS context for these PEM files.

    Return None if there are none; the machine's certificate authorities then apply. Raise
    DefiniteError if a file is not valid.
    """
    if ca is None and certificate is None:
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as e:
        files = ", ".join(file for file in (ca, certificate, key) if file is not None)
        msg = f"the files of registry.ssl.* ({files}) cannot be read as certificates and an open key in PEM: {e}"
        raise DefiniteError(msg) from e
    return context


class UnreadableSchemaError(DefiniteError):
    """The registry has the schema, and the sink cannot read it. Its records are bad, and no
    others.
    """


class _Patience:
    """The seconds that may be waited for unknown ids, all of them together.

    Anybody who writes a topic may put any number into a record, so a wait for each would hold every
    table up for as long as he likes. What was waited comes back at a tenth of the clock's pace.
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = self._left_s = most_s
        self._at_s = 0.0

    def left_s(self, now_s: float) -> float:
        """Return the seconds that are left now."""
        self._left_s = min(self._most_s, self._left_s + max(now_s - self._at_s, 0.0) * _PATIENCE_PACE)
        self._at_s = now_s
        return self._left_s

    def spend(self, waited_s: float, now_s: float) -> None:
        """Take off what was waited until now."""
        self._left_s, self._at_s = max(self._left_s - waited_s, 0.0), now_s


class Registry:
    """Schemas by id.

    The registry is not trusted: redirects are not followed, no proxy of the environment is used,
    and the size and duration of answers are limited. ``stopping`` ends a wait early when the job
    shall stop. ``asked`` receives the outcome of each request: ok, unknown (no such id), away (no
    answer, or not a schema) or refused. Tests inject ``sleep`` and ``now_s``.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: str | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        cache_path: Path | None = None,
        wait_max_s: float = 600.0,
        unknown_wait_s: float = 20.0,
        timeout_s: float = 10.0,
        sleep: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,
        stopping: Callable[[], bool] = lambda: False,
        asked: Callable[[str], None] = lambda _result: None,
    ) -> None:
        self._urls = [part.strip().rstrip("/") for part in url.split(",")]
        self._auth = None if auth is None else "Basic " + base64.b64encode(auth.encode()).decode()
        self._auth = f"Bearer {token}" if token is not None else self._auth
        self._tls = tls
        self._cache_path = cache_path
        self._wait_max_s = wait_max_s
        self._unknown_wait_s = unknown_wait_s
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._now_s = now_s
        self._stopping = stopping
        self._asked = asked
        self._patience = _Patience(unknown_wait_s)
        self._known: dict[int, str] = {}
        self._unknown: dict[int, tuple[float, float]] = {}
        """Unknown id to the time before which it is not asked for again, and the pause after
        that.
        """

    def schema(self, schema_id: int) -> str | None:
        """Return the schema's Avro text, or None if the registry keeps answering that the id is
        unknown.

        Raise AwayError if the registry stays unavailable for too long, DefiniteError if it refuses
        access, UnreadableSchemaError for a schema that is no Avro or has no bounds.
        """
        if schema_id in self._known:
            return self._known[schema_id]
        not_before_s, pause_s = self._unknown.get(schema_id, (0.0, 0.0))
        if schema_id in self._unknown and self._now_s() < not_before_s:
            return None
        text = self._from_disk(schema_id) or self._wait_for(
            schema_id, unknown_wait_s=0.0 if schema_id in self._unknown else self._patience.left_s(self._now_s())
        )
        if text is None:
            pause_s = min(max(2 * pause_s, self._unknown_wait_s), _UNKNOWN_PAUSE_MAX_S)
            self._unknown[schema_id] = self._now_s() + pause_s, pause_s
            return None
        self._unknown.pop(schema_id, None)
        self._known[schema_id] = text
        return text

    def _wait_for(self, schema_id: int, *, unknown_wait_s: float) -> str | None:
        started_s = self._now_s()
        pause_s = _PAUSE_FIRST_S
        unknown_since_s: float | None = None
        log_again_s = started_s
        while True:
            reason, text, unknown = self._ask(schema_id)
            if text is not None:
                self._to_disk(schema_id, text)
                return text
            now_s = self._now_s()
            if unknown:
                unknown_since_s = now_s if unknown_since_s is None else unknown_since_s
                if now_s - unknown_since_s >= unknown_wait_s:
                    self._patience.spend(now_s - unknown_since_s, now_s)
                    log.warning("the registry has no schema with id %d", schema_id)
                    return None
            elif now_s - started_s >= self._wait_max_s:
                msg = (
                    f"the schema registry at {', '.join(self._urls)} has been away for {self._wait_max_s:.0f} s ({reason}); "
                    "start it and start the sink again, the checkpoint is intact"
                )
                raise AwayError(msg)
            if self._stopping():
                msg = "stopped while waiting for the schema registry"
                raise AwayError(msg)
            if not unknown and now_s >= log_again_s:
                log.warning(
                    "waiting for the schema registry at %s, for %.0f s so far: %s", ", ".join(self._urls), now_s - started_s, reason
                )
                log_again_s = now_s + _LOG_EVERY_S
            self._sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_MAX_S, max(self._unknown_wait_s / 4, _PAUSE_FIRST_S))

    def _ask(self, schema_id: int) -> tuple[str, str | None, bool]:
        """Ask each URL once. Return the reason for a failure, the text, and True if the id is
        unknown.
        """
        reason = ""
        for url in self._urls:
            try:
                text = self._whole(url, self._get(url, f"/schemas/ids/{schema_id}"), schema_id)
            except urllib.error.HTTPError as e:
                if e.code == HTTPStatus.NOT_FOUND:
                    self._asked("unknown")
                    return "unknown id", None, True
                if e.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                    self._asked("refused")
                    msg = f"the schema registry at {url} answers {e.code}; set registry.auth to user:password, or registry.token"
                    raise DefiniteError(msg) from e
                reason = f"status {e.code}"
                if e.code in _REDIRECTS:
                    reason += ", a redirect, which is not followed: let registry.url name where it leads"
            except (
                OSError,
                ArithmeticError,
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
                RecursionError,
                http.client.HTTPException,
            ) as e:
                reason = str(getattr(e, "reason", e)) or type(e).__name__
            else:
                self._asked("ok")
                return "", text, False
            self._asked("away")
        return reason, None, False

    def _get(self, url: str, path: str) -> dict[str, Any]:
        request = urllib.request.Request(url + path, headers=_ACCEPT)  # noqa: S310  the operator's own URL
        if self._auth is not None:
            request.add_header("Authorization", self._auth)
        data = bytearray()
        with answered(request, tls=self._tls, timeout_s=self._timeout_s, limit_s=_ANSWER_S) as response:
            while piece := response.read1(_PIECE_BYTES):
                data += piece
                if len(data) > _ANSWER_BYTES_MAX:
                    msg = f"it answers with more than {_ANSWER_BYTES_MAX} bytes"
                    raise ValueError(msg)
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _whole(self, url: str, answer: Mapping[str, Any], schema_id: int) -> str:
        """Return the text of a schema together with the schemas that it refers to.

        Each of these comes after those that it refers to itself.
        """
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            msg = f"schema {schema_id} is of type {kind}; the sink reads Avro: use Debezium's Avro converter"
            raise UnreadableSchemaError(msg)
        if not answer.get("references"):
            return str(answer["schema"])
        others = self._referred(url, answer["references"], set(), schema_id=schema_id, depth=1)
        return json.dumps({REFERENCES: others, "schema": json.loads(answer["schema"])})

    def _referred(
        self, url: str, references: Iterable[Mapping[str, Any]], seen: set[tuple[str, int]], *, schema_id: int, depth: int
    ) -> list[Any]:
        found: list[Any] = []
        for one in references:
            at = (str(one["subject"]), int(one["version"]))
            if at in seen:
                continue
            seen.add(at)
            if len(seen) > _REFERENCES_MAX or depth > _DEPTH_MAX:
                msg = (
                    f"schema {schema_id} of the registry at {url} refers to more than {_REFERENCES_MAX} others, or over more than {_DEPTH_MAX} steps; "
                    "register one that refers to fewer, or check that registry.url names the registry of the worker"
                )
                raise UnreadableSchemaError(msg)
            answer = self._get(url, f"/subjects/{urllib.parse.quote(at[0], safe='')}/versions/{at[1]}")
            found += self._referred(url, answer.get("references") or (), seen, schema_id=schema_id, depth=depth + 1)
            found.append(json.loads(answer["schema"]))
        return found

    def _from_disk(self, schema_id: int) -> str | None:
        if self._cache_path is None:
            return None
        try:
            return (self._cache_path / f"{schema_id}.avsc").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def _to_disk(self, schema_id: int, text: str) -> None:
        if self._cache_path is None:
            return
        self._cache_path.mkdir(parents=True, exist_ok=True)
        fresh = self._cache_path / f".{schema_id}.new"
        fresh.write_text(text, encoding="utf-8")
        # The rename is atomic, so no reader sees half a file.
        fresh.replace(self._cache_path / f"{schema_id}.avsc")
