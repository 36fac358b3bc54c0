"""A schema registry that answers in this process, for tests of the registry's client."""

from __future__ import annotations

import json

import httpx
from dblog.kafka.registry import RegistryAccess, RegistryClient


class AnsweringRegistry:
    """A registry that gives ids in the order of requests.

    It refuses subjects with ``refused`` in the name.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.ids: dict[str, int] = {}
        self.is_away = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        if self.is_away:
            return httpx.Response(503)
        if request.url.path == "/schemas/together":
            return httpx.Response(200, json=[self.answer(each["subject"]) for each in json.loads(request.content)])
        answer = self.answer(request.url.path.split("/")[2])
        return httpx.Response(answer.get("error_code", 200), json=answer)

    def answer(self, subject: str) -> dict[str, int]:
        return {"error_code": 409} if "refused" in subject else {"id": self.ids.setdefault(subject, len(self.ids) + 1)}

    def client(self, *, trusted: bool) -> RegistryClient:
        """Return a client of this registry; ``trusted`` marks it as the worker's own."""
        return RegistryClient(RegistryAccess(urls=("http://r:1",), trusted=trusted), transport=httpx.MockTransport(self))
