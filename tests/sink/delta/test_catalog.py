"""Tables have a name in a catalog too: theirs alone, whatever was there before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from dblog_sink.config.tables import TableSpec
from dblog_sink.delta.catalog import register
from dblog_sink.errors import DefiniteError
from pyspark.sql import SparkSession


def spec(path: Path, *name: str) -> TableSpec:
    return TableSpec(name="shop.t", path=str(path), topic="p.shop.t", target_catalog=name)


@pytest.fixture
def schema(spark: SparkSession, tmp_path: Path) -> str:
    """A name of its own, and two tables that have none."""
    for name in ("one", "two"):
        spark.range(3).write.format("delta").save(str(tmp_path / name))
    return f"lake_{uuid4().hex[:8]}"


def test_a_table_is_registered_once_under_its_name_of_two_or_three_parts(spark: SparkSession, tmp_path: Path, schema: str) -> None:
    for name in ((schema, "t"), ("spark_catalog", schema, "t")):
        register(spark, spec(tmp_path / "one", *name))
        register(spark, spec(tmp_path / "one", *name))

    assert spark.read.table(f"{schema}.t").count() == 3
    assert spark.read.table(f"spark_catalog.{schema}.t").count() == 3
    spark.sql(f"DROP TABLE {schema}.t")
    assert spark.read.format("delta").load(str(tmp_path / "one")).count() == 3, "an external table's files stay"


def test_a_name_that_another_table_has_is_refused_with_the_way_out(spark: SparkSession, tmp_path: Path, schema: str) -> None:
    register(spark, spec(tmp_path / "one", schema, "t"))
    with pytest.raises(
        DefiniteError, match=rf"`t` is the delta table at file:{tmp_path}/one in the catalog, not .*{tmp_path}/two; give .*target.catalog"
    ):
        register(spark, spec(tmp_path / "two", schema, "t"))

    spark.sql(f"CREATE VIEW {schema}.v AS SELECT 1 AS one")
    with pytest.raises(DefiniteError, match="`v` is a view in the catalog"):
        register(spark, spec(tmp_path / "two", schema, "v"))

    spark.range(1).write.format("parquet").saveAsTable(f"{schema}.p")
    with pytest.raises(DefiniteError, match="`p` is the parquet table at"):
        register(spark, spec(tmp_path / "two", schema, "p"))


@pytest.mark.some_cases
@pytest.mark.parametrize("name", [("no_such_catalog", "a", "t"), ("with-a-hyphen", "t")])
def test_a_name_that_the_catalog_does_not_take_is_refused_with_the_setting(
    spark: SparkSession, tmp_path: Path, schema: str, name: tuple[str, ...]
) -> None:
    with pytest.raises(DefiniteError, match=r"shop.t cannot be registered as `.*set table.<rule>.target.catalog"):
        register(spark, spec(tmp_path / "one", *name))


HIVE = """
import sys
from pathlib import Path

from dblog_sink.delta.session import spark_session
sys.path[:0] = sys.argv[2:]
from sink.delta.test_catalog import spec
from dblog_sink.delta.catalog import register
from dblog_sink.errors import DefiniteError

folder = Path(sys.argv[1])
session = spark_session("hive", {
    "spark.master": "local[1]", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.log.level": "ERROR",
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.warehouse.dir": str(folder / "warehouse"),
    "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:{folder}/metastore;create=true",
    "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -Dderby.stream.error.file={folder}/derby.log",
})
assert session.conf.get("spark.sql.catalogImplementation") == "hive"
for name in ("one", "two"):
    session.range(3).write.format("delta").save(str(folder / name))
for _ in range(2):
    register(session, spec(folder / "one", "Lake", "Orders"))
session.range(2).write.format("delta").mode("append").save(str(folder / "one"))
assert session.read.table("lake.orders").count() == 5
assert (folder / "metastore").exists()
facts = {row[0]: row[1] for row in session.sql("DESCRIBE TABLE EXTENDED lake.orders").collect()}
assert (facts["Type"], facts["Provider"]) == ("EXTERNAL", "delta"), facts
try:
    register(session, spec(folder / "two", "lake", "orders"))
except DefiniteError as e:
    print(e)
session.stop()
"""


@pytest.mark.long
def test_a_table_has_its_name_in_a_hive_metastore(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(HIVE)

    ended = subprocess.run(
        [sys.executable, str(program), str(tmp_path), *sys.path], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )

    assert ended.returncode == 0, ended.stderr[-4000:]
    assert "`lake`.`orders` is the delta table at" in ended.stdout
