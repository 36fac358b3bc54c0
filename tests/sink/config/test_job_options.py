import os
from pathlib import Path

import pytest
from dblog_sink.config import job_options
from dblog_sink.errors import ConfigError

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
