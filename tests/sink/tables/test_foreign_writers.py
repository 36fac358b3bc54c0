"""Whoever may put objects into the lake's folder chooses a table's rows and properties, and nothing else: no file that the sink reads, no call of Java."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dblog_sink.delta.session import another
from pyspark.errors import AnalysisException
from sink.harness import Sink, change
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

CALL = "java_method('java.lang.System', 'setProperty', 'dblog.was.here', 'yes')"


def committed(path: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Write the next version of a Delta table by hand, with its metadata as ``edit`` leaves them."""
    files = sorted(Path(path, "_delta_log").glob("*.json"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    changed = [line for line in lines if "metaData" in line][-1]
    edit(changed["metaData"])
    commit = {"commitInfo": {"timestamp": 0, "operation": "SET TBLPROPERTIES", "operationParameters": {}}}
    target = files[-1].with_name(f"{int(files[-1].stem) + 1:020d}.json")
    target.write_text("".join(json.dumps(line) + "\n" for line in (commit, changed)))


def test_sql_in_a_property_of_a_table_is_not_run(
    sink: Sink, registry: RegistryServer, tmp_path: Path
) -> None:  # number 43 of the sink's safety
    made = [
        TableSchema(topic=f"p.shop.{name}", columns=[("id", "long"), ("c", ["null", "string"])], registry=registry)
        for name in ("t", "u", "v")
    ]
    older = TableSchema(topic="p.shop.u", columns=[("id", "long")], registry=registry)
    sink.batch(*(change(table, "c", {"id": 1, "c": None}, at=1) for table in made))
    sink.restarted()
    secret = tmp_path / "secret"
    secret.write_text("canary")

    for name, sql, done in (("t", CALL, False), ("u", f"(SELECT max(value) FROM text.`{secret}`)", True)):
        fills = {"c": {"below": 1 << 30, "sql": sql, "done": done}}
        committed(f"{sink.base}/shop/{name}", lambda found, fills=fills: found["configuration"].update({"dblog.fills": json.dumps(fills)}))
    sink.batch(
        change(made[0], "c", {"id": 2, "c": "x"}, at=2),
        change(older, "c", {"id": 2}, at=2),
        change(made[2], "c", {"id": 2, "c": "x"}, at=2),
    )

    assert sorted(sink.book.parked()) == ["p.shop.t", "p.shop.u"]
    assert "dblog.fills" in sink.book.parked()["p.shop.u"]
    assert [row["id"] for row in sink.rows(made[2])] == [1, 2], "the others go on"
    assert sink.spark._jvm.java.lang.System.getProperty("dblog.was.here") is None


def test_no_expression_of_a_delta_log_calls_java(sink: Sink) -> None:  # number 43 of the sink's safety
    for session in (sink.spark, another(sink.spark)):
        for function in ("java_method", "reflect", "try_reflect"):
            with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
                session.sql(f"SELECT {function}('java.lang.System', 'getProperty', 'java.version')").collect()
