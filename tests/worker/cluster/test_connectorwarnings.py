"""The warnings of connectors: doubts about the configuration, what its request was answered, and what the task reports."""

from types import SimpleNamespace

import pytest
from dblog.cluster.connectorwarnings import ConnectorWarnings
from dblog.cluster.records import Target
from dblog.cluster.state import ConnectorView
from support.worker import connector_config

UNKNOWN = "table.inclde.list: no such key; it is ignored. Is table.include.list meant?"


class Configs:
    """Of connectors that all run."""

    def __init__(self):
        self.configs = {}

    def view(self, name):
        config = self.configs.get(name)
        return None if config is None else ConnectorView(name=name, config=config, target=Target.STARTED, tasks=(), consistent=True)

    def connector_configs(self):
        return dict(self.configs)

    def is_stopped(self, name):
        return name not in self.configs


@pytest.fixture
def configs():
    return Configs()


@pytest.fixture
def warnings(configs):
    return ConnectorWarnings(configs, providers={})


def plain(**config):
    """A configuration that leaves nothing in doubt but what is given."""
    return {**connector_config(name="a"), **config}


def beyond(warnings, configs, config):
    """What stands beyond the doubts about a plain configuration."""
    configs.configs["plain"] = plain()
    configs.configs["a"] = config
    warnings.config_changed()
    usual = set(warnings.of("plain"))
    return [text for text in warnings.of("a") if text not in usual and "is also that of connector" not in text]


def test_a_misspelt_key_stands_without_a_request_and_without_a_task(warnings, configs):
    config = plain(**{"table.inclde.list": "a.b"})

    assert beyond(warnings, configs, config) == [UNKNOWN]


def test_a_placeholder_that_is_refused_today_stands_while_a_stored_configuration_has_it(warnings, configs):
    """Without its value, which the warning is there to keep from readers."""
    shown = {"topic.heartbeat.prefix": "hb-${file:/f:canary}", "topic.creation.${file:/f:canary}.include": "a"}
    kept = {"database.user": "${file:/f:user}", "database.password": "${file:/f:password}"}

    found = beyond(warnings, configs, plain(**shown, **kept))

    (text,) = [text for text in found if "it has a placeholder" in text]
    assert text.startswith("topic.heartbeat.prefix: it has a placeholder, whose value every reader would see. ")
    assert beyond(warnings, configs, plain(**{"topic.heartbeat.prefix": "hb"}, **kept)) == []


def test_an_insecure_choice_stands_and_asks_for_nobody_where_it_is_a_default(warnings, configs):  # number 36 of the worker's safety
    configs.configs = {"a": plain(**{"database.hostname": "db.example"}), "local": plain(**{"database.hostname": "localhost"})}
    warnings.config_changed()

    (text,) = (text for text in warnings.of("a") if text.startswith("database.ssl.mode"))

    assert text.startswith("database.ssl.mode: preferred does not check the server's certificate")
    assert text.endswith("use verify_ca or verify_identity")
    assert warnings.count("a") == warnings.count("local")
    assert not any(text.startswith("database.ssl.mode") for text in warnings.of("local"))


def test_what_a_request_was_answered_stands_until_the_task_reports_its_own(warnings, configs):
    config = plain()
    warnings.accepted("a", config, ["no table matches"])
    assert beyond(warnings, configs, config) == ["no table matches"]

    warnings.reported("a", {**config, "task.class": "x"}, ["the publication lacks captured tables"])
    assert beyond(warnings, configs, config) == ["the publication lacks captured tables"]

    warnings.reported("a", {**config, "task.class": "x"}, [])
    assert beyond(warnings, configs, config) == []


def test_the_same_configuration_once_more_leaves_what_the_task_reports(warnings, configs):
    config = plain()
    warnings.reported("a", {**config, "task.class": "x"}, ["of the task"])

    warnings.accepted("a", config, ["no table matches"])

    assert beyond(warnings, configs, config) == ["of the task"]


def test_what_was_found_for_another_configuration_does_not_stand(warnings, configs):
    config = plain()
    warnings.reported("a", {**config, "task.class": "x"}, ["of the task"])

    assert beyond(warnings, configs, plain(**{"max.batch.size": "7"})) == []


def test_two_connectors_with_one_reader_stand_in_doubt_until_one_is_gone(warnings, configs):
    configs.configs = {"a": plain(), "b": plain()}
    warnings.accepted("a", configs.configs["a"], warnings.of("a"))
    assert [text for text in warnings.of("a") if "is also that of connector b" in text]

    del configs.configs["b"]
    warnings.config_changed()

    assert not [text for text in warnings.of("a") if "is also that of connector" in text]


def test_a_secret_in_a_key_is_hidden_as_in_the_answer_of_the_request(warnings, configs):
    config = plain(**{"database.password": "swordfish", "swordfish.inclde": "x"})

    assert not [text for text in beyond(warnings, configs, config) if "swordfish" in text]


def test_a_connector_that_is_deleted_or_of_another_class_has_none(warnings, configs):
    configs.configs["b"] = {"connector.class": "org.example.Other"}

    assert warnings.of("gone") == ()
    assert warnings.of("b") == ()


def test_a_written_out_password_and_other_defaults_are_shown_and_not_counted(warnings, configs):
    configs.configs["a"] = plain()
    warnings.config_changed()

    assert any("database.password" in text for text in warnings.of("a"))
    assert warnings.count("a") == 0

    # The answer to the request has had them too.
    warnings.accepted("a", configs.configs["a"], warnings.of("a"))
    assert warnings.count("a") == 0

    configs.configs["a"] = plain(**{"table.inclde.list": "a"})
    assert UNKNOWN in warnings.of("a")
    assert warnings.count("a") == 1

    warnings.reported("a", configs.configs["a"], ["the publication lacks b.c"])
    assert warnings.count("a") == 2
    assert warnings.count("of nobody") == 0


def test_a_topic_that_connectors_of_nested_prefixes_both_write_to_stands_in_both_statuses(configs):
    """Table b.t of a with the prefix p, and table t of b with the prefix p.a."""
    topics = {"outer": ["p.a.b.t", "p.a.t"], "inner": ["p.a.c.t"], "other": ["p.a.b.t"]}
    warnings = ConnectorWarnings(configs, providers={}, statuses=SimpleNamespace(topics=topics.__getitem__))
    for name, prefix in (("outer", "p"), ("inner", "p.a"), ("other", "pa")):
        configs.configs[name] = plain(**{"topic.prefix": prefix})
    warnings.config_changed()

    def shared(name):
        return [text for text in warnings.of(name) if "writes to the topic" in text]

    assert [shared(name) for name in topics] == [[], [], []]
    topics["inner"].append("p.a.b.t")

    (outer,), (inner,) = shared("outer"), shared("inner")
    assert outer.startswith("topic.prefix: connector inner writes to the topic p.a.b.t too")
    assert inner.startswith("topic.prefix: connector outer writes to the topic p.a.b.t too")
    assert shared("other") == []
    configs.configs["inner"]["dblog.topics.shared"] = "true"
    warnings.config_changed()
    assert shared("outer") == []
