"""What a client gets when a resource has a fault: nothing of it, and the headers of every other answer."""

import asyncio

import httpx
from dblog.config.properties import parse_properties
from dblog.config.worker import OWN_TOKEN, read_worker_config
from dblog.rest.api import Services
from dblog.rest.app import Part, build_app
from dblog.rest.identity import Identity
from dblog.rest.limits import Limits
from dblog.rest.waiting import Waiting
from starlette.routing import Route
from structlog.testing import capture_logs

WORKER = read_worker_config(
    parse_properties(
        "bootstrap.servers=a:1\ngroup.id=g\nkey.converter=JsonConverter\nvalue.converter=JsonConverter\n"
        "config.storage.topic=c\noffset.storage.topic=o\nstatus.storage.topic=s\n"
        f"{OWN_TOKEN}=t\nresponse.http.headers.config=set X-Frame-Options: DENY\n"
    )
)


def test_the_answer_to_a_fault_has_the_headers_of_every_answer_and_nothing_of_the_fault():
    async def broken(_request):
        raise ValueError("canary")

    services = Services(worker=WORKER, herder=None, validator=None, checks=None, metrics=bytes, commit="")
    app = build_app(
        services,
        waiting=Waiting(),
        part=Part.OWN,
        registry_routes=[Route("/subjects", broken)],
        identity=Identity(WORKER.settings),
        limits=Limits.of(WORKER.settings),
    )

    async def ask():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://a", headers={"authorization": "Bearer t"}) as client:
            return await client.get("/subjects")

    with capture_logs() as lines:
        answer = asyncio.run(ask())

    assert answer.status_code == 500
    assert "A fault of dblog" in answer.json()["message"]
    assert "canary" not in answer.text
    assert (answer.headers["x-frame-options"], answer.headers["x-content-type-options"]) == ("DENY", "nosniff")
    assert [line["event"] for line in lines] == ["request failed"]
