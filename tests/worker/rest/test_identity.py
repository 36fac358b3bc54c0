"""Who a request is from: logins, tokens, certificates, the own machine; and what happens to whoever guesses."""

import asyncio
import base64

import pytest
from dblog.config.login import Logins, Refusal
from dblog.config.passwords import hashed
from dblog.config.properties import parse_properties
from dblog.config.roles import Role
from dblog.config.worker import read_worker_config
from dblog.errors import ConfigError
from dblog.rest.connections import PEER
from dblog.rest.identity import FORWARDED, PRINCIPAL, Identity, Way, is_same_at_the_leader
from dblog.rest.limits import Buckets
from dblog.rest.login import Login

PROPERTIES = """
bootstrap.servers=a:1
group.id=g
key.converter=JsonConverter
value.converter=JsonConverter
config.storage.topic=c
offset.storage.topic=o
status.storage.topic=s
"""


def settings(**changes):
    return read_worker_config(parse_properties(PROPERTIES) | {name.replace("_", "."): text for name, text in changes.items()}).settings


def header(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Clock:
    now_s = 100.0

    def monotonic_s(self):
        return self.now_s


class Door:
    """A login in front of an application that notes who comes in."""

    def __init__(self, identity, *, failures=0, clock=None, own_token=""):
        self.clock = clock or Clock()
        self.came = []
        self.failures = Buckets(per_minute=failures, clock=self.clock)
        self.app = Login(self._inside, identity=identity, own_token=own_token, failures=self.failures)

    async def _inside(self, scope, _receive, _send):
        self.came.append(scope[PRINCIPAL])

    def ask_together(self, authorizations, *, client="10.0.0.7"):
        """Return how many came in, and the statuses of the refusals."""
        statuses = []

        async def send(message):
            if "status" in message:
                statuses.append(message["status"])

        async def all_of_them():
            scope = {
                "type": "http",
                "path": "/connectors",
                "method": "GET",
                "client": (client, 5),
                "server": ("10.0.0.1", 8083),
                "state": {},
            }
            asked = ({**scope, "headers": [(b"authorization", given.encode())]} for given in authorizations)
            await asyncio.gather(*(self.app(each, None, send) for each in asked))

        came = len(self.came)
        asyncio.run(all_of_them())
        return len(self.came) - came, sorted(statuses)

    def ask(self, authorization="", *, client="10.0.0.7", server="10.0.0.1", peer=None, path="/connectors", forwarded_by=None):
        """The status of a refusal, or who came in."""
        headers = [(b"authorization", authorization.encode())] if authorization else []
        headers += [(FORWARDED.encode(), forwarded_by.encode())] if forwarded_by else []
        scope = {
            "type": "http",
            "path": path,
            "method": "GET",
            "headers": headers,
            "client": (client, 5),
            "server": (server, 8083),
            "state": {PEER: peer} if peer else {},
        }
        sent = []

        async def send(message):
            sent.append(message)

        came = len(self.came)
        asyncio.run(self.app(scope, None, send))
        return self.came[-1] if len(self.came) > came else (sent[0]["status"], dict(sent[0]["headers"]))


# Without a login.


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "127.9.9.9", "10.0.0.1"])
def test_without_a_login_whoever_is_on_this_machine_may_do_everything(client):
    came = Door(Identity(settings())).ask(client=client)

    assert came.grants.may(Role.ADMIN)
    assert came.way is Way.OPEN


@pytest.mark.parametrize("client", ["10.0.0.7", "2001:db8::1", "127.0.0.1.evil.example", "?", "169.254.1.1"])
def test_without_a_login_whoever_comes_from_elsewhere_only_reads_unless_all_are_let_in(client):  # number 8 of the worker's safety
    came = Door(Identity(settings())).ask(client=client)

    assert came.grants.may(Role.READER)
    assert not came.grants.may_somewhere(Role.VIEWER)
    assert "add dblog.rest.without.login=all" in came.remedy
    assert Door(Identity(settings(dblog_rest_without_login="all"))).ask(client=client).grants.may(Role.ADMIN)


def test_the_token_of_the_workers_own_tasks_opens_the_registry_alone():
    door = Door(Identity(settings()), own_token="a-token-of-this-run")
    came = {
        path: door.ask("Bearer a-token-of-this-run", path=path) for path in ("/subjects", "/", "/connectors", "/ui", "/ui/connectors/a")
    }

    assert {path: one.way is Way.TASK for path, one in came.items()} == {
        "/subjects": True, "/": False, "/connectors": False, "/ui": False, "/ui/connectors/a": False,
    }  # fmt: skip


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "10.0.0.1", "10.0.0.7"])
def test_what_a_standby_hands_on_is_from_another_machine_wherever_the_standby_is(client):
    came = Door(Identity(settings())).ask(client=client, forwarded_by="http://127.0.0.1:8083")

    assert came.grants.may(Role.READER)
    assert not came.grants.may_somewhere(Role.VIEWER)


def test_only_callers_that_the_leader_takes_for_the_same_are_handed_on():
    open_to_all = settings(dblog_rest_without_login="all")

    assert is_same_at_the_leader(Door(Identity(settings())).ask(client="10.0.0.7"))
    assert is_same_at_the_leader(Door(Identity(open_to_all)).ask(client="127.0.0.1"))
    assert not is_same_at_the_leader(Door(Identity(settings())).ask(client="127.0.0.1"))
    assert not is_same_at_the_leader(Door(Identity(settings())).ask(client="10.0.0.7", peer="ann"))


def test_a_login_that_nobody_asked_for_changes_nothing():
    assert not Door(Identity(settings())).ask(header("ann", "s3cret")).grants.may_somewhere(Role.VIEWER)


# Certificates.


def test_a_clients_certificate_is_a_login_where_there_is_no_other():
    came = Door(Identity(settings())).ask(peer="ann")

    assert (came.name, came.way) == ("ann", Way.CERTIFICATE)
    assert came.grants.may(Role.ADMIN)


def test_beside_passwords_a_certificate_is_none_unless_the_worker_takes_it_for_one():
    logins = Logins({"ann": "s3cret"})

    assert Door(Identity(settings(), logins=logins)).ask(peer="ann")[0] == 401
    taken = Door(Identity(settings(dblog_rest_login_certificates="true"), logins=logins))
    assert taken.ask(peer="bob").name == "bob"
    assert taken.ask(header("ann", "s3cret"), peer="bob").name == "ann"
    assert taken.ask(header("ann", "wrong"), peer="bob")[0] == 401


# Roles.


def test_roles_are_of_the_name_that_was_let_in_and_follow_their_file(tmp_path):
    file = tmp_path / "roles"
    file.write_text("ann=viewer\nbob=operator a.*\n")
    identity = Identity(settings(dblog_rest_roles_file=str(file)), logins=Logins({"ann": "1", "bob": "2"}))
    door = Door(identity)

    assert not door.ask(header("ann", "1")).grants.may(Role.OPERATOR, "a1")
    assert door.ask(header("bob", "2")).grants.may(Role.OPERATOR, "a1")
    file.write_text("ann=operator\n")
    identity.refresh()
    assert door.ask(header("ann", "1")).grants.may(Role.OPERATOR, "a1")
    assert not door.ask(header("bob", "2")).grants.may_somewhere(Role.READER)


def test_a_file_of_roles_that_cannot_be_read_ends_the_start(tmp_path):
    with pytest.raises(ConfigError, match="dblog.rest.roles.file"):
        Identity(settings(dblog_rest_roles_file=str(tmp_path / "none")))


# Guessing.


def test_an_address_that_guesses_waits_and_other_addresses_do_not():
    door = Door(Identity(settings(), logins=Logins({"ann": "s3cret"})), failures=5)

    assert [door.ask(header("ann", f"{number}"))[0] for number in range(7)] == [401] * 5 + [429] * 2
    status, headers = door.ask(header("ann", "s3cret"))
    assert (status, headers[b"retry-after"]) == (429, b"12")
    assert door.ask(header("ann", "s3cret"), client="10.0.0.8").name == "ann"
    door.clock.now_s += 12
    assert door.ask(header("ann", "s3cret")).name == "ann"


def test_guesses_at_one_time_are_as_few_as_one_after_the_other():  # number 22 of the worker's safety
    door = Door(Identity(settings(), logins=Logins({"ann": hashed("s3cret")})), failures=5)

    assert door.ask_together([header("ann", f"{number}") for number in range(60)]) == (0, [401] * 5 + [429] * 55)


def test_logins_that_are_right_come_in_however_many_come_at_one_time():
    users = {f"u{number}": hashed(f"s3cret{number}") for number in range(5)}
    door = Door(Identity(settings(), logins=Logins(users)), failures=2)

    assert door.ask_together([header(f"u{n % 5}", f"s3cret{n % 5}") for n in range(40)]) == (40, [])
    door.failures.take("10.0.0.7")
    assert not door.failures.wait_s("10.0.0.7"), "none was counted as wrong"


@pytest.mark.parametrize("name", ["x-forwarded-for", "forwarded"])
def test_what_a_proxy_hands_on_is_from_another_machine_wherever_the_proxy_is(name):
    scope = {"client": ("127.0.0.1", 5), "server": ("127.0.0.1", 8083), "state": {}, "headers": [(name.encode(), b"127.0.0.1")]}

    assert not Identity(settings()).without_header({"type": "http", **scope}).grants.may(Role.ADMIN)


def test_a_request_without_any_login_is_no_guess():
    door = Door(Identity(settings(), logins=Logins({"ann": "s3cret"})), failures=1)

    assert [door.ask()[0] for _ in range(5)] == [401] * 5
    assert door.ask(header("ann", "s3cret")).name == "ann"


def test_a_hash_is_compared_once_a_minute_and_a_known_login_goes_on_beside_one_who_guesses(monkeypatch):
    logins = Logins({"ann": hashed("s3cret")})
    clock, compared = Clock(), []
    original = logins.user_of
    monkeypatch.setattr(logins, "user_of", lambda given: compared.append(given) or original(given))
    door = Door(Identity(settings(), logins=logins, clock=clock), failures=2)

    for _ in range(20):
        assert door.ask(header("ann", "s3cret")).name == "ann"
    assert len(compared) == 1
    assert [door.ask(header("ann", "no"))[0] for _ in range(3)] == [401, 401, 429]
    assert door.ask(header("ann", "s3cret")).name == "ann"
    clock.now_s += 61
    door.clock.now_s += 61
    door.ask(header("ann", "s3cret"))
    assert len(compared) == 4


def test_a_login_that_was_known_is_not_when_the_users_have_changed():
    logins = Logins({"ann": hashed("s3cret")})
    door = Door(Identity(settings(), logins=logins))
    assert door.ask(header("ann", "s3cret")).name == "ann"

    logins.take({"ann": hashed("other")})

    assert door.ask(header("ann", "s3cret"))[0] == 401


def test_refusals_have_reasons_for_the_log():
    identity = Identity(settings(), logins=Logins({"ann": "s3cret"}))

    assert asyncio.run(identity.compared("Bearer x")) is Refusal.UNREADABLE
    assert asyncio.run(identity.compared(header("eve", "x"))) is Refusal.NO_SUCH_USER
