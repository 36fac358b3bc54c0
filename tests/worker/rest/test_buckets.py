"""How often a client may do something in a minute."""

import asyncio

import pytest
from dblog.config.roles import EVERYTHING
from dblog.rest.identity import FORWARDED, PRINCIPAL, Principal, Way
from dblog.rest.limits import Buckets, Writes, client_of


class Clock:
    now_s = 100.0

    def monotonic_s(self):
        return self.now_s


def test_a_client_that_used_up_its_share_waits_and_others_do_not():  # number 22 of the worker's safety
    clock = Clock()
    buckets = Buckets(per_minute=3, clock=clock)
    for _ in range(3):
        assert buckets.wait_s("a") == 0
        buckets.take("a")

    assert buckets.wait_s("a") == 20
    assert buckets.wait_s("b") == 0
    clock.now_s += 15
    assert buckets.wait_s("a") == 5
    clock.now_s += 5
    assert buckets.wait_s("a") == 0
    buckets.take("a")
    assert buckets.wait_s("a") == 20
    clock.now_s += 3600
    for _ in range(3):
        buckets.take("a")
    assert buckets.wait_s("a") == 20, "nobody saves up more than a minute's share"


def test_no_limit_is_none():
    buckets = Buckets(per_minute=0, clock=Clock())
    for _ in range(1000):
        buckets.take("a")
    assert buckets.wait_s("a") == 0


def test_a_million_addresses_take_no_more_memory_than_ten_thousand():
    clock = Clock()
    buckets = Buckets(per_minute=1, clock=clock)
    for number in range(10_500):
        buckets.take(f"c{number}")
    assert len(buckets._left) == 10_000  # noqa: SLF001
    assert buckets.wait_s("c10499") == 60


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("?", "?"),
    ],
)
def test_the_addresses_of_one_network_of_ipv6_are_one_client(host, client):
    assert client_of(host) == client


def test_users_of_one_standby_are_counted_alone_at_the_leader_and_addresses_as_before():
    came = []

    async def inside(scope, _receive, _send):
        came.append(scope)

    async def ask(user, standby):
        sent = []

        async def send(message):
            sent.append(message)

        headers = [(FORWARDED.encode(), standby.encode())] if standby else []
        scope = {"type": "http", "method": "PUT", "path": "/connectors/a/stop", "headers": headers, "client": ("10.0.0.2", 5)}
        before = len(came)
        await writes({**scope, PRINCIPAL: Principal(user, Way.PASSWORD, EVERYTHING)}, None, send)
        return len(came) > before

    writes = Writes(inside, buckets=Buckets(per_minute=1, clock=Clock()))
    asked = [("ann", "b"), ("ann", "b"), ("bob", "b"), ("bob", "c"), ("ann", ""), ("bob", "")]
    assert [asyncio.run(ask(*each)) for each in asked] == [True, False, True, False, True, False]
