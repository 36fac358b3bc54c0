"""Who may do what, as the file of roles states it."""

import pytest
from dblog.config.roles import Role, Roles, parse_roles
from dblog.errors import ConfigError

FILE = {
    "ann": "admin",
    "bob": r"operator shop-.*, viewer",
    "eve": r"admin eve_\w+",
    "@dba": "operator",
    "*": "reader",
}


def test_roles_add_up_and_a_pattern_is_of_whole_names():
    roles = parse_roles(FILE, file="roles")

    bob = roles.of("bob")
    assert [bob.may(Role.OPERATOR, name) for name in ("shop-1", "shop", "my-shop-1", None)] == [True, False, False, False]
    assert bob.may(Role.VIEWER, "anything")
    assert bob.may(Role.VIEWER)
    assert bob.may_somewhere(Role.OPERATOR)
    assert not bob.may_somewhere(Role.ADMIN)
    eve = roles.of("eve")
    assert [eve.may(Role.ADMIN, name) for name in ("eve_1", "eve_1/../a", "EVE_1")] == [True, False, False]
    assert not eve.may(Role.VIEWER)
    assert eve.may(Role.READER)


def test_a_group_of_a_token_has_its_roles_and_a_user_of_its_name_has_not():
    roles = parse_roles(FILE, file="roles")

    assert roles.of("tom", ("dba", "other")).may(Role.OPERATOR)
    assert not roles.of("dba").may(Role.OPERATOR)
    assert roles.of("@dba").may(Role.OPERATOR) is False


def test_without_a_file_everybody_who_is_let_in_may_everything_and_with_one_only_what_it_grants():
    assert Roles(None).of("ann").may(Role.ADMIN)
    assert not parse_roles({"ann": "admin"}, file="roles").of("bob").may_somewhere(Role.READER)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ({}, "grants nothing to anybody"),
        ({"ann": ""}, "grants nothing"),
        ({"ann": "root"}, "ann has the role root; there are reader, viewer, operator, admin"),
        ({"ann": "admin (a"}, "the pattern of ann cannot be used"),
        ({"ann": r"admin (a)\1"}, "the pattern of ann cannot be used"),
    ],
)
def test_a_file_that_does_not_state_who_may_what_is_refused(lines, reason):
    with pytest.raises(ConfigError, match="dblog.rest.roles.file") as caught:
        parse_roles(lines, file="roles")
    assert reason in str(caught.value)


def test_a_user_whose_name_is_written_like_a_group_is_not_that_group():  # number 18
    roles = parse_roles({"@dba": "admin", "*": "reader"}, file="roles")

    assert roles.of("ann", ["dba"]).may(Role.ADMIN)
    for name in ("@dba", "@", "@@dba"):
        assert not roles.of(name).may_somewhere(Role.VIEWER)
        assert roles.of(name).may(Role.READER)
    assert not roles.of("ann", ["@dba"]).may_somewhere(Role.VIEWER)
