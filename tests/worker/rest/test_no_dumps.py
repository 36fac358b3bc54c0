"""A worker that takes no requests for dumps: whoever follows one is told so, and does not ask for ever."""

import asyncio
import threading
from types import SimpleNamespace

import httpx
from dblog.cli import app as commands
from dblog.config.properties import parse_properties
from dblog.config.worker import read_worker_config
from dblog.rest.api import Services
from dblog.rest.app import Part, build_app
from dblog.rest.identity import Identity
from dblog.rest.limits import Limits
from dblog.rest.waiting import Waiting
from typer.testing import CliRunner

WORKER = read_worker_config(
    parse_properties(
        "bootstrap.servers=a:1\ngroup.id=g\nkey.converter=JsonConverter\nvalue.converter=JsonConverter\n"
        "config.storage.topic=c\noffset.storage.topic=o\nstatus.storage.topic=s\ndblog.dumps.storage.topic=\n"
    )
)


def test_who_follows_a_dump_of_a_worker_that_takes_none_is_told_and_does_not_ask_again(monkeypatch):
    herder = SimpleNamespace(ready=threading.Event(), dump_view=None, role=SimpleNamespace(leads=True, leader="http://a"))
    herder.ready.set()
    services = Services(worker=WORKER, herder=herder, validator=None, checks=None, metrics=bytes, commit="")
    served = build_app(
        services,
        waiting=Waiting(),
        part=Part.ALL,
        registry_routes=[],
        identity=Identity(WORKER.settings),
        limits=Limits.of(WORKER.settings),
    )
    asked = []

    def request(_client, method, url, **_):
        asked.append(str(url))
        assert len(asked) < 3, "it asks for ever"

        async def answer():
            transport = httpx.ASGITransport(served)
            async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
                return await client.request(method, url)

        return asyncio.run(answer())

    monkeypatch.setattr(httpx.Client, "request", request)

    ended = CliRunner().invoke(commands, ["dumps", "watch", "shop", "d1", "--every", "0.05", "--url", "http://a"])

    assert ended.exit_code == 1, ended.output
    assert "dblog.dumps.storage.topic is empty" in ended.output
    assert asked == ["http://a/connectors/shop/dumps/d1"]
