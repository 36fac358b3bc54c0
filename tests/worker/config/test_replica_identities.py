"""Which REPLICA IDENTITY a table gets by replica.identity.autoset.values."""

import pytest
from dblog.config.replica_identities import ReplicaIdentity, identity_of, identity_rules
from dblog.errors import ConfigError

RULES = identity_rules(r" public\.orders:FULL , shop\.(a|b):index Items_Key,(.*)\.log:nothing,shop\.c:Default")


@pytest.mark.parametrize(
    ("table", "identity"),
    [
        ("public.orders", ReplicaIdentity("FULL")),
        ("Public.ORDERS", ReplicaIdentity("FULL")),
        ("shop.a", ReplicaIdentity("INDEX", "Items_Key")),
        ("shop.b", ReplicaIdentity("INDEX", "Items_Key")),
        ("any.log", ReplicaIdentity("NOTHING")),
        ("shop.c", ReplicaIdentity("DEFAULT")),
        ("public.orders2", None),
        ("shop.d", None),
    ],
)
def test_a_table_gets_the_identity_of_the_rule_that_names_it(table, identity):
    assert identity_of(table, RULES) == identity


@pytest.mark.parametrize("text", [None, "", " , "])
def test_without_rules_no_table_gets_one(text):
    assert identity_rules(text) == ()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("public.a", "public.a"),
        ("public.a:FULL,public.b:all", "public.b:all"),
        ("public.a:INDEX", "public.a:INDEX"),
        ("public.a:INDEX two words", "public.a:INDEX two words"),
        (":FULL", ":FULL"),
        ("public.(a:FULL", "public.(a:FULL"),
    ],
)
def test_a_part_without_the_form_is_named(text, part):
    with pytest.raises(ConfigError) as raised:
        identity_rules(text)

    assert raised.value.errors["replica.identity.autoset.values"][0].startswith(f"{part} has ")


def test_a_table_that_two_rules_name_is_an_error():
    with pytest.raises(ConfigError, match=r"2 of its expressions match public\.a"):
        identity_of("public.a", identity_rules("public.a:FULL,public..:DEFAULT"))
