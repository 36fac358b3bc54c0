"""Asks a worker for its health using only the standard library, so that frequent probes
stay cheap.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import IO, Any
from urllib.parse import urlsplit

_ANSWER_BYTES_MAX = 64 * 1024
"""Limit of an answer's size. A worker's answer has some hundred bytes, but any other program at the
address may answer without end.
"""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirect: the target would answer in the worker's place."""

    def redirect_request(self, *_args: object) -> None:
        """Return None, which follows no redirect."""


def ask(url: str, *, limit_s: float) -> tuple[bool, str]:
    """Return (is healthy, sentence): the worker's own sentence, or the reason why there is no
    answer.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        return False, f"{url} is not an address of a worker; it begins with http:// or https://"
    # A proxy of the environment is meant for distant hosts; here it would answer in the worker's
    # place.
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
        return "the program that answers is not a worker of dblog"
