"""What a configuration of transforms and predicates is answered: options, errors at their keys, and the chain."""

import pytest
from dblog.config.options import Kind
from dblog.config.unknown_keys import unknown_keys
from dblog.errors import ConfigError
from dblog.transforms.catalog import PREDICATE_PLUGINS, REFUSED, TRANSFORM_PLUGINS, find_transform
from dblog.transforms.configuration import chain_of, configured

KAFKA, DEBEZIUM = "org.apache.kafka.connect.transforms", "io.debezium.transforms"
ROUTE = {
    "transforms": "route",
    "transforms.route.type": f"{KAFKA}.RegexRouter",
    "transforms.route.regex": "(.*)",
    "transforms.route.replacement": "$1-x",
}


def test_a_configuration_without_transforms_has_no_chain():
    assert chain_of({"transforms": ""}) is chain_of({}) is None


def test_steps_run_in_the_order_of_the_list_whatever_the_order_of_their_keys():
    chain = chain_of(
        {
            "transforms.b.replacement": "$1-b",
            "transforms.b.type": "RegexRouter",
            "transforms.b.regex": "(.*)",
            "transforms.a.type": "RegexRouter",
            "transforms.a.regex": "(.*)",
            "transforms.a.replacement": "$1-a",
            "transforms": " a , b ",
        }
    )

    assert chain.route("t") == "t-a-b"


def test_an_alias_has_a_group_of_its_own_with_connects_options_first():
    options = [option for option in configured(ROUTE).options if option.group == "Transforms: route"]

    assert [option.name.removeprefix("transforms.route.") for option in options] == [
        "type",
        "plugin.version",
        "negate",
        "predicate",
        "regex",
        "replacement",
    ]
    assert (options[0].kind, options[0].required) == (Kind.CLASS, True)
    assert f"{KAFKA}.ReplaceField$Value" in options[0].recommended


@pytest.mark.parametrize(
    ("changes", "key", "text"),
    [
        ({"transforms.route.type": None}, "type", 'Missing required configuration "transforms.route.type" which has no default value.'),
        ({"transforms.route.type": "com.example.Own"}, "type", "Class com.example.Own could not be found; this worker has"),
        ({"transforms.route.type": f"{KAFKA}.predicates.RecordIsTombstone"}, "type", "could not be found"),
        ({"transforms.route.type": f"{KAFKA}.ReplaceField"}, "type", "could not be found"),
        ({"transforms.route.regex": None}, "regex", 'Missing required configuration "transforms.route.regex" which has no default value.'),
        ({"transforms.route.regex": "("}, "regex", "Invalid regex: an opening parenthesis has no closing one"),
        ({"transforms.route.replacement": "$2"}, "replacement", "the replacement names the group 2, and the pattern has 1"),
        ({"transforms.route.predicate": "p"}, "predicate", "p is not an alias of a predicate in predicates; it has none."),
        ({"transforms.route.negate": "true"}, "negate", "there is no config 'transforms.route.predicate' defining a predicate"),
        ({"transforms.route.negate": "maybe", "transforms.route.predicate": "p"}, "negate", "Expected value to be either true or false"),
        ({"transforms.route.plugin.version": "1.0"}, "plugin.version", "exactly one version of every plugin"),
    ],
)
def test_what_is_wrong_is_named_at_its_key(changes, key, text):
    given = {name: value for name, value in (ROUTE | changes).items() if value is not None}

    found = configured(given).errors

    assert text in found[f"transforms.route.{key}"][0]
    with pytest.raises(ConfigError):
        chain_of(given)


def test_a_predicate_is_checked_like_a_transform():
    found = configured(
        {
            "predicates": "p,q,r",
            "predicates.p.type": f"{KAFKA}.predicates.TopicNameMatches",
            "predicates.q.type": f"{KAFKA}.RegexRouter",
            "predicates.r.type": f"{KAFKA}.predicates.HasHeaderKey",
            "predicates.r.name": "h",
        }
    )

    assert found.errors.keys() == {"predicates.p.pattern", "predicates.q.type"}
    assert {option.group for option in found.options} == {"Predicates: p", "Predicates: q", "Predicates: r"}


@pytest.mark.parametrize(("negate", "routed"), [("false", ["t.a", "u"]), ("true", ["t", "u.a"])])
def test_a_predicate_decides_and_negate_turns_it(negate, routed):
    chain = chain_of(
        {
            "transforms": "a",
            "transforms.a.type": "RegexRouter",
            "transforms.a.regex": "(.*)",
            "transforms.a.replacement": "$1.a",
            "transforms.a.predicate": "is_t",
            "transforms.a.negate": negate,
            "predicates": "is_t",
            "predicates.is_t.type": "TopicNameMatches",
            "predicates.is_t.pattern": "t",
        }
    )

    assert [chain.route("t"), chain.route("u")] == routed
    assert chain.routes_only


def test_a_resolved_secret_is_not_in_a_message():
    given = ROUTE | {"transforms.route.regex": "hush("}

    found = configured(given, shown={"transforms.route.regex": "${file:x:y}"})

    assert "hush" not in str(found.errors)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("transforms.unwrap.drop.tombstones", "transforms.unwrap.delete.tombstone.handling.mode"),
        ("transforms.unwrap.delete.handling.mode", "transforms.unwrap.delete.tombstone.handling.mode"),
        ("transforms.unwrap.add.field", "transforms.unwrap.add.fields"),
        ("transforms.other.type", None),
    ],
)
def test_a_key_that_no_transform_has_is_named_with_what_is_meant(key, meant):
    options = configured({"transforms": "unwrap", "transforms.unwrap.type": f"{DEBEZIUM}.ExtractNewRecordState"}).options

    assert unknown_keys(options, [key]) in ({key: meant}, {key: "transforms.unwrap.type"})


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_class_that_is_not_here_is_refused_with_the_reason(name):
    found = configured({"transforms": "a", "transforms.a.type": name}).errors

    assert f"{name} does not run in this worker: {REFUSED[name]}" in found["transforms.a.type"][0]


def test_every_class_is_found_by_its_full_and_by_its_simple_name():
    for plugin in TRANSFORM_PLUGINS:
        for name in plugin.class_names:
            assert find_transform(name) is not None
            # Kafka and Debezium both have a Filter, so that name alone says nothing.
            assert (find_transform(name.rpartition(".")[2]) is not None) is not name.endswith(".Filter")
    assert len({plugin.class_name for plugin in (*TRANSFORM_PLUGINS, *PREDICATE_PLUGINS)}) == len(TRANSFORM_PLUGINS) + len(
        PREDICATE_PLUGINS
    )


def chain(count, **options):
    given = {"transforms": ",".join(f"t{number}" for number in range(count))}
    for number in range(count):
        given |= {f"transforms.t{number}.{name.replace('__', '.')}": text.replace("#", str(number)) for name, text in options.items()}
    return given


@pytest.mark.parametrize(
    "options",
    [
        {"type": "RegexRouter", "regex": "\\pL{40}#", "replacement": "x"},
        {"type": "EventRouter", "route__topic__regex": "\\pL{40}#", "route__topic__replacement": "x"},
        {"type": "ByLogicalTableRouter", "topic__regex": "\\pL{40}#", "topic__replacement": "x"},
        {"type": "io.debezium.transforms.Filter", "language": "jsr223.groovy", "condition": "true", "topic__regex": "\\pL{40}#"},
        {"type": "io.debezium.transforms.Filter", "language": "jsr223.groovy", "condition": r"topic ==~ '\\pL{40}#'"},
    ],
)
def test_the_patterns_of_all_transforms_are_bounded_together(options):  # number 9 of the worker's safety
    """Each may take a megabyte and some 25 ms, and a configuration may have a thousand."""
    few, many = configured(chain(3, **options)), configured(chain(40, **options))

    assert few.errors == {}
    assert "instructions together" in str(many.errors)
    assert 0 < len(many.errors) < 40


def test_the_patterns_of_all_predicates_are_bounded_together():  # number 9
    given = {"predicates": ",".join(f"p{number}" for number in range(40))}
    for number in range(40):
        given |= {f"predicates.p{number}.type": "TopicNameMatches", f"predicates.p{number}.pattern": f"\\pL{{40}}{number}"}

    assert 0 < len(configured(given).errors) < 40


def test_a_pattern_of_dates_is_bounded():
    errors = configured(chain(1, type="TimestampRouter", timestamp__format="H." * 101)).errors

    assert "at most 200 characters" in str(errors)
