"""Settings of one table, found by pattern."""

from __future__ import annotations

from pathlib import Path

import pytest
from dblog_sink.config import job_options
from dblog_sink.errors import ConfigError

LEAST = {"kafka.bootstrap.servers": "b:9092", "topics.pattern": ".*", "registry.url": "http://r", "target.path": "/lake/"}


def test_every_rule_that_matches_applies_and_the_last_one_wins(tmp_path: Path) -> None:
    file = tmp_path / "sink.yaml"
    file.write_text(
        "table:\n"
        "  all: {match: '.*', columns.exclude: 'secret.*', evolution: lenient}\n"
        "  orders:\n"
        "    match: 'shop\\.ord.*'\n"
        "    mode: history\n"
        "    evolution: fail\n"
        "    cluster: {by: [customer, day]}\n"
        "    target.path: '{base}/gold/{table}'\n"
        "    columns: {rename: ['a:b', 'c:d']}\n"
    )
    settings = job_options.parse(LEAST | job_options.read_file(file))

    orders, items = settings.table("p.shop.orders"), settings.table("p.shop.items")

    assert orders is not None
    assert items is not None
    assert (orders.mode, orders.evolution, orders.cluster_by, orders.path) == ("history", "fail", ("customer", "day"), "/lake/gold/orders")
    assert (orders.column("a"), orders.column("secret_1"), orders.column("x")) == ("b", None, "x")
    assert (items.mode, items.evolution, items.evolution_incompatible, items.path) == ("auto", "lenient", "column", "/lake/shop/items")
    assert settings.table("no-table") is None


@pytest.mark.parametrize(
    ("key", "given", "reported"),
    [
        ("table.x.mode", "mirrored", "must be one of auto, mirror"),
        ("table.x.modus", "mirror", "is not a setting of a table"),
        ("table.x", "mirror", "must be table.<rule>.<setting>"),
        ("table.x.match", "(", "is not a regular expression"),
        ("table.x.columns.rename", "a:b, c", "pairs source:target"),
        ("table.x.columns.rename", "a:b,c:B", "gives two columns one name"),
        ("table.x.keys", "id, ID", "names something twice"),
        ("table.x.cluster.by", "a,b,c,d,e", "up to 4 columns"),
        ("table.x.target.path", "{nobody}", "may use only {base}"),
        ("table.x.soft.delete", "_dblog_gone", "belong to the sink"),
        ("table.x.failure.retries", "-1", "at least 0"),
        ("table.x.drop", "apply", "is not a setting of a table"),
    ],
)
def test_a_fault_in_a_rule_names_its_key(key: str, given: str, reported: str) -> None:
    with pytest.raises(ConfigError) as caught:
        job_options.parse(LEAST | {"table.x.match": ".*"} | {key: given})

    assert set(caught.value.errors) == {key}
    assert reported in caught.value.errors[key]


def test_a_rule_without_tables_and_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        job_options.parse(
            LEAST | {"table.x.mode": "append", "table.x.soft.delete": "gone", "table.x.partition.by": "a", "table.x.cluster.by": "b"}
        )

    assert set(caught.value.errors) == {"table.x.match"}

    with pytest.raises(ConfigError) as caught:
        job_options.parse(
            LEAST
            | {
                "table.x.match": ".*",
                "table.x.mode": "append",
                "table.x.soft.delete": "gone",
                "table.x.partition.by": "a",
                "table.x.cluster.by": "b",
                "table.x.retention.h": "24",
            }
        )

    assert set(caught.value.errors) == {"table.x.soft.delete", "table.x.cluster.by", "table.x.retention.h"}
