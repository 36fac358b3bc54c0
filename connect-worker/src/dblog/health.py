"""Asks a worker for its health, by the standard library alone: a probe that runs every few seconds has to be cheap."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http import HTTPStatus
from urllib.parse import urlsplit


def ask(url: str, *, limit_s: float) -> tuple[bool, str]:
    """Whether the worker at ``url`` answers that it is healthy, and its sentence or the reason why there is none."""
    if urlsplit(url).scheme not in ("http", "https"):
        return False, f"{url} is no address of a worker; it begins with http:// or https://"
    # A proxy of the environment is for what is far away; at the address that a probe asks, it would answer in the worker's place.
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with directly.open(f"{url.rstrip('/')}/health", timeout=limit_s) as answer:
            return answer.status == HTTPStatus.OK, _sentence(answer.read())
    except urllib.error.HTTPError as e:
        return False, _sentence(e.read())
    except (OSError, ValueError) as e:
        return False, f"no worker answers at {url}: {e}"


def _sentence(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return "what answers is no worker of dblog"
