"""Reads what another worker answers, up to a bound: anybody who is at a leader's address could
otherwise fill this worker's memory.
"""

from __future__ import annotations

import httpx

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""The status of a thousand connectors has a few MiB."""

_UNPACKED = "identity"


class AnswerRefusedError(httpx.HTTPError):
    """An answer that is too large, or packed, so that nobody knows how large it becomes."""


async def bounded(client: httpx.AsyncClient, request: httpx.Request) -> tuple[httpx.Response, bytes]:
    """Send a request; return the answer's head and its body. Raise AnswerRefusedError where that is
    too large.
    """
    request.headers["accept-encoding"] = _UNPACKED
    answer = await client.send(request, stream=True)
    try:
        if answer.headers.get("content-encoding", _UNPACKED).lower() != _UNPACKED:
            message = "its answer is packed"
            raise AnswerRefusedError(message)
        body = bytearray()
        async for piece in answer.aiter_raw():
            body += piece
            if len(body) > ANSWER_BYTES_MAX:
                message = f"its answer is larger than {ANSWER_BYTES_MAX} bytes"
                raise AnswerRefusedError(message)
        return answer, bytes(body)
    finally:
        await answer.aclose()
