"""What the value of each option of the sink can lead to: a file, a host, a topic, a place of tables, or code. An option that is new has to be put here."""

from __future__ import annotations

from pathlib import Path

import pytest
from dblog_sink.config import job_options
from dblog_sink.config.job_options import OPTIONS
from dblog_sink.config.tables import PREFIX, TABLE_OPTIONS
from dblog_sink.errors import ConfigError

FILES = {
    "registry.ssl.ca.file": "schema/test_registry.py",
    "registry.ssl.certificate.file": "schema/test_registry.py",
    "registry.ssl.key.file": "schema/test_registry.py",
    "registry.cache.path": "schema/test_registry.py",
    "progress.file": "observe/test_progress.py",
}
"""Files of the driver's machine, with the tests of what reads or writes them. Whoever writes the configuration owns that machine."""
HOSTS = {"registry.url", "metrics.listen"}
TOPICS = {
    "topics",
    "topics.pattern",
    "topics.exclude",
    "topics.markers",
    "topics.name",
    "topics.transaction",
    "topics.start",
    "report.topic",
}
PLACES = {"target.path", "target.template", "state.path", "checkpoint.path"}
"""Where tables are; a topic's name becomes a part of two of them (test_job_options.py holds it away from the sink's own folders)."""
OF_TABLES = {"target.path", "target.catalog"}
NOTHING = """
batch.records.max chunks.keep.h chunks.wait.s compact.commits control.interval.s landing.keep.h log.format log.level manifest.incomplete.max.s
manifest.interval.s manifest.keep.h manifest.pass merge.age.max.s merge.attempts.max merge.background.threads merge.broadcast.rows.max merge.path
merge.rows.max merge.rows.min merge.threads name position progress.file.mib.max quarantine.fraction.max quarantine.rows.max registry.auth
registry.token report.interval.s registry.unknown.wait.s registry.wait.max.s restart.attempts.max rewrite.rows.max storage.shared.mount storage.single.driver
tombstones.keep.h tracing.enabled trigger.interval.s trigger.once vacuum.interval.h vacuum.keep.h vacuum.share.max
"""
NOTHING_OF_TABLES = """
cluster.by columns.exclude columns.include columns.rename decimal.overflow evolution evolution.drop evolution.fill evolution.incompatible failure
failure.retries json.type keys mode partition.by records retention.h soft.delete truncate unavailable.value.placeholder
"""
LEAST = {"kafka.bootstrap.servers": "b:9092", "topics": "p.a.b", "registry.url": "http://r", "target.path": "/lake/"}


def test_every_option_has_one_kind() -> None:  # number 39 of the sink's safety
    assert sorted([*FILES, *HOSTS, *TOPICS, *PLACES, *NOTHING.split()]) == sorted(option.name for option in OPTIONS)
    assert sorted([*OF_TABLES, *NOTHING_OF_TABLES.split()]) == sorted(option.name for option in TABLE_OPTIONS)


def test_every_file_is_read_or_written_where_a_test_watches() -> None:
    tests = Path(__file__).parents[1]

    assert all((tests / test).is_file() for test in FILES.values())


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://r.example/a", "r.example:8081", "https://r.example,file:///x", "http://"])
def test_a_registry_is_asked_by_http_and_https_alone(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        job_options.parse(LEAST | {"registry.url": url})

    assert set(refused.value.errors) == {"registry.url"}


@pytest.mark.parametrize("topic", ["p...", "p.a/../../x.t", "p.a.b.c", "p.a."])
def test_a_topics_name_adds_one_folder_for_each_of_its_parts_and_leads_nowhere_else(topic: str) -> None:
    table = job_options.parse(LEAST).table(topic)

    assert table is None or (table.path.startswith("/lake/") and ".." not in table.path.split("/"))


def test_no_option_names_code() -> None:
    """Classes and jars are Spark's alone: ``spark.*`` is whoever's configures the driver."""
    names = {option.name for option in OPTIONS} | {f"{PREFIX}x.{option.name}" for option in TABLE_OPTIONS}

    assert not {name for name in names if name.endswith((".class", ".jar", ".module", ".plugin", ".library"))}
