import os
from pathlib import Path

import pytest
from dblog_sink.config import job_options, lake_paths
from dblog_sink.errors import ConfigError, DefiniteError
from dblog_sink.kafka.source import names, topic_of
from dblog_sink.state.notes import State

LEAST = {"kafka.bootstrap.servers": "b:9092", "topics": "p.a.b", "registry.url": "http://r", "target.path": "/lake/"}


def test_the_least_configuration_is_enough() -> None:
    settings = job_options.parse(LEAST)

    assert settings["merge.threads"] == 4
    assert settings.kafka == {"kafka.bootstrap.servers": "b:9092"}
    assert settings.checkpoint_path == "/lake/_dblog/checkpoints/dblog-sink"
    table = settings.table("p.a.b")
    assert table is not None
    assert table.path == "/lake/a/b"


def test_every_fault_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        job_options.parse({"merge.threads": "0", "no.such.key": "1", "topics": "t", "topics.pattern": "t", "target.template": "{nobody}"})

    assert set(caught.value.errors) == {
        "merge.threads",
        "no.such.key",
        "topics",
        "target.template",
        "kafka.bootstrap.servers",
        "registry.url",
        "target.path",
    }


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("trigger.once", "yes"),
        ("position", "time"),
        ("topics.exclude", "("),
        ("topics.name", "(.+)"),
        ("registry.wait.max.s", "-1"),
        ("name", " "),
        ("batch.records.max", "many"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(key: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        job_options.parse(LEAST | {key: text})

    assert set(caught.value.errors) == {key}


def test_yaml_may_nest_and_properties_may_not(tmp_path: Path) -> None:
    nested = tmp_path / "sink.yaml"
    nested.write_text("name: lane\ntrigger:\n  once: true\ntopics: [a.b, c.d]\nmerge: {threads: 2}\n")
    flat = tmp_path / "sink.properties"
    flat.write_text("# comment\nname=lane\ntrigger.once: true\ntopics = a.b,\\\n   c.d\nmerge.threads 2\n")

    assert job_options.read_file(nested) == {"name": "lane", "trigger.once": "true", "topics": "a.b,c.d", "merge.threads": "2"}
    assert job_options.read_file(flat) == job_options.read_file(nested)


def test_secrets_come_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_LOGIN", "user:secret")
    password = tmp_path / "password"
    password.write_text("s3cret\n")

    settings = job_options.parse(LEAST | {"registry.auth": "${env:REGISTRY_LOGIN}", "kafka.ssl.key.password": f"${{file:{password}}}"})

    assert settings["registry.auth"] == "user:secret"
    assert settings.kafka["kafka.ssl.key.password"] == "s3cret"


def test_a_missing_secret_is_a_fault_of_its_key() -> None:
    with pytest.raises(ConfigError) as caught:
        job_options.parse(LEAST | {"registry.auth": "${env:DBLOG_NOT_SET}"})

    assert "DBLOG_NOT_SET" in caught.value.errors["registry.auth"]


def test_help_names_every_option() -> None:
    text = job_options.help_text()

    assert all(option.name in text for option in job_options.OPTIONS)


def test_a_full_disk_is_reported_in_a_sentence() -> None:
    from dblog_sink.job.messages import one_line

    full = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space") as caught:
        os.write(full, b"x")
    os.close(full)

    assert "no space is left where the job writes" in one_line(
        RuntimeError(f"Job aborted\n\tat x: java.io.IOException: {caught.value.strerror}")
    )


@pytest.mark.parametrize("option", ["target.path", "state.path", "checkpoint.path", "target.template", "table.gold.target.path"])
def test_a_path_that_is_relative_to_nobody_knows_what_is_refused(option: str) -> None:
    given = LEAST | {"table.gold.match": ".*", option: "lake/a"}

    with pytest.raises(ConfigError) as refused:
        job_options.parse(given)

    assert refused.value.errors == {option: "must be an absolute path (/...) or a URL"}
    for whole in ("/lake/a", "s3a://lake/a", "file:/lake/a"):
        job_options.parse(given | {option: whole})


def test_a_required_option_whose_placeholder_stands_for_nothing_is_reported_with_its_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_URL", raising=False)

    with pytest.raises(ConfigError) as refused:
        job_options.parse(LEAST | {"registry.url": "${env:NO_SUCH_URL}"})

    assert refused.value.errors == {"registry.url": "the environment variable NO_SUCH_URL is not set"}


def test_a_table_of_several_sources_is_named_with_its_prefix_where_that_is_part_of_its_path() -> None:
    shards = job_options.parse(
        LEAST | {"target.template": "{base}/{prefix}/{db}/{table}", "table.t.match": r"shop\.orders", "table.t.cluster.by": "id"}
    )
    topics = [f"s{n}.shop.orders" for n in (1, 2, 3)]

    assert [shards.table_name(topic) for topic in topics] == topics
    assert [shards.table(topic).source_name for topic in topics] == ["shop.orders"] * 3
    assert [shards.table(topic).cluster_by for topic in topics] == [("id",)] * 3, "rules are about the source's names"
    assert {path for name, path in shards.paths(topics).items() if not name.startswith("_dblog")} == {
        f"/lake/s{n}/shop/orders" for n in (1, 2, 3)
    }
    assert [names(shards, topic, "s2.shop.orders") for topic in topics] == [False, True, False]
    assert all(names(shards, topic, "shop.orders") for topic in topics)
    state = State()
    state.table_ids |= dict.fromkeys(topics, "id")
    assert topic_of(shards, state, "s3.shop.orders") == "s3.shop.orders"
    with pytest.raises(
        DefiniteError, match="3 sources have a table shop.orders: name one of s1.shop.orders, s2.shop.orders, s3.shop.orders"
    ):
        topic_of(shards, state, "shop.orders")

    one = job_options.parse(LEAST)
    assert (one.table_name("s1.shop.orders"), one.table("s1.shop.orders").source_name) == ("shop.orders", "shop.orders")
    only_path = job_options.parse(LEAST | {"table.t.match": ".*", "table.t.target.path": "{base}/{prefix}/{table}"})
    assert only_path.table_name("s1.shop.orders") == "s1.shop.orders"


def test_how_the_registry_is_logged_in_to_must_be_of_one_mind() -> None:
    with pytest.raises(ConfigError) as raised:
        job_options.parse(LEAST | {"registry.auth": "a:b", "registry.token": "t", "registry.ssl.key.file": "/k"})

    assert sorted(raised.value.errors) == ["registry.ssl.key.file", "registry.token"]
    assert "t0ken" in job_options.parse(LEAST | {"registry.token": "t0ken"}).secrets


# number 38 of the sink's safety
@pytest.mark.parametrize(
    ("topic", "more", "option"),
    [
        ("z._dblog.control", {}, "state.path"),
        ("z._dblog.quarantine", {}, "state.path"),
        ("z._dblog.anything", {}, "state.path"),
        ("z._dblog.checkpoints", {}, "state.path"),
        ("z.own.t", {"state.path": "/lake/own"}, "state.path"),
        ("z.own.t", {"state.path": "/lake/own/t"}, "state.path"),
        ("z.own.t", {"state.path": "/lake//own"}, "state.path"),
        ("z.own.t", {"state.path": "file:/lake/x/../own"}, "state.path"),
        ("z.own.t", {"checkpoint.path": "/lake/own/"}, "checkpoint.path"),
        ("z.own.t", {"checkpoint.path": "/lake/own/t"}, "checkpoint.path"),
        ("z.a.t", {"table.r.match": "a.t", "table.r.target.path": "{base}/_dblog/landing"}, "state.path"),
    ],
)
def test_a_table_whose_name_leads_into_the_sinks_own_folders_has_no_path(topic: str, more: dict[str, str], option: str) -> None:
    settings = job_options.parse(LEAST | {"topics": topic} | more)

    assert f"in the sink's own folder {settings.state_path if option == 'state.path' else settings.checkpoint_path} ({option})" in str(
        settings.reserved(topic)
    )
    assert all(name.startswith("_dblog/") for name in settings.paths([topic]))


@pytest.mark.parametrize(
    ("topic", "more"),
    [
        ("z.public.t", {}),
        ("z._dblogs.control", {}),
        ("z.dblog.control", {}),
        ("z._dblog.control", {"state.path": "/elsewhere"}),
        ("z._dblog.control", {"table.r.match": "_dblog.control", "table.r.target.path": "{base}/dblog/control"}),
        ("z.own.t", {"state.path": "/lake/own/t/_state"}),
        ("z", {}),
    ],
)
def test_other_tables_have_theirs(topic: str, more: dict[str, str]) -> None:
    assert job_options.parse(LEAST | {"topics": topic} | more).reserved(topic) is None


def test_a_table_beside_the_lake_has_tombstones_of_its_own() -> None:  # number 38 of the sink's safety
    settings = job_options.parse(LEAST | {"target.path": "/lake"})
    paths = ["/lake2/x", "/lake/2/x", "/lake/x", "s3a://lake/2/x"]

    assert len({settings.tombstones_path(path) for path in paths}) == len(paths)
    assert settings.tombstones_path("/lake/db/t") == settings.tombstones_path("file:///lake//db/./t") == "/lake/_dblog/tombstones/db/t"


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/a//b/", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file:/a/../b", "/b"),
        ("s3a://bucket//a/./b/", "s3a://bucket/a/b"),
        ("s3a://bucket", "s3a://bucket"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
        ("a/b", "a/b"),
    ],
)
def test_a_path_has_one_spelling_to_compare(path: str, plain: str) -> None:
    assert lake_paths.plainly(path) == plain
