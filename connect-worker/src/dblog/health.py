"""Asks a worker for its health, by the standard library alone: a probe that runs every few seconds has to be cheap."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import IO, Any
from urllib.parse import urlsplit

_ANSWER_BYTES_MAX = 64 * 1024
"""A worker's sentence has some hundred bytes; whatever else listens at the address may answer without end."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves a redirect as it is: where it leads, something else would answer in the worker's place."""

    def redirect_request(self, *_args: object) -> None:
        """Follow none."""


def ask(url: str, *, limit_s: float) -> tuple[bool, str]:
    """Whether the worker at ``url`` answers that it is healthy, and its sentence or the reason why there is none."""
    if urlsplit(url).scheme not in ("http", "https"):
        return False, f"{url} is no address of a worker; it begins with http:// or https://"
    # A proxy of the environment is for what is far away; at the address that a probe asks, it would answer in the worker's place.
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)
    try:
        with directly.open(f"{url.rstrip('/')}/health", timeout=limit_s) as answer:
            return answer.status == HTTPStatus.OK, _sentence(answer)
    except urllib.error.HTTPError as e:
        return False, _sentence(e)
    except (OSError, ValueError) as e:
        return False, f"no worker answers at {url}: {e}"


def _sentence(answer: IO[bytes] | Any) -> str:
    try:
        return str(json.loads(answer.read(_ANSWER_BYTES_MAX))["message"])
    except (ValueError, KeyError, TypeError):
        return "what answers is no worker of dblog"
