"""Registers tables under a name in a catalog that Spark is configured with.

The catalog may be a Hive metastore, Unity Catalog or another one. The table is external there: its
files stay where the sink has them, and dropping the name leaves them. If the name is taken, it must
be for the same table; otherwise readers who use the name would silently read something else.
"""

from __future__ import annotations

from urllib.parse import urlparse

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from dblog_sink.config.tables import TableSpec
from dblog_sink.errors import DefiniteError, ParkError
from dblog_sink.schema.types import quote, text_sql

_REFUSED = frozenset(
    {
        "CATALOG_NOT_FOUND",
        "REQUIRES_SINGLE_PART_NAMESPACE",
        "INVALID_NAMESPACE",
        "INVALID_SCHEMA_OR_RELATION_NAME",
        # UNSUPPORTED_FEATURE.CATALOG_OPERATION before Spark gave the error a name.
        "_LEGACY_ERROR_TEMP_1065",
        "UNSUPPORTED_FEATURE",
    }
)
"""Spark's error conditions for a name that stays invalid on every retry. Other errors may pass; an
unavailable metastore has no condition of its own.
"""


def register(session: SparkSession, spec: TableSpec) -> None:
    """Register the table at the path of ``spec`` as ``target_catalog``, unless that is done.

    Raise ParkError if the name belongs to another table, DefiniteError if the catalog does not
    accept the name.
    """
    if not spec.target_catalog:
        return
    name = ".".join(map(quote, spec.target_catalog))
    schema = ".".join(map(quote, spec.target_catalog[:-1]))
    try:
        # A user may be allowed to use a schema but not to create one, even if it exists.
        if schema and not session.catalog.databaseExists(schema):
            session.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        if not session.catalog.tableExists(name):
            session.sql(f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION {text_sql(spec.path)}")
        facts = _facts(session, name)
    except AnalysisException as e:
        if (e.getCondition() or "").partition(".")[0] not in _REFUSED:
            raise
        msg = (
            f"{spec.name} cannot be registered as {name}: {str(e).strip().partition(chr(10))[0]}; set table.<rule>.target.catalog to a name that the catalog "
            "takes, and spark.sql.catalog.<name> to the class of a catalog with that name"
        )
        raise DefiniteError(msg) from e
    here = session.sql(f"DESCRIBE DETAIL delta.{quote(spec.path)}").select("location").collect()[0][0]
    found = facts.get("Location", "")
    if facts.get("Provider", "").lower() != "delta" or _comparable(found) != _comparable(here):
        what = f"the {facts.get('Provider', '')} table at {found}" if found else "a view"
        msg = (
            f"{spec.name}: {name} is {what} in the catalog, not the Delta table at {here}; give the sink's table another name with "
            f"table.<rule>.target.catalog, or take that name away first (DROP TABLE deletes the files of a managed table; those of an external one stay)"
        )
        raise ParkError(msg)


def _facts(session: SparkSession, name: str) -> dict[str, str]:
    """Return the catalog's Location, Provider and Type of a table."""
    rows = session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    behind = next((n for n, row in enumerate(rows) if row["col_name"].startswith("# Detailed Table")), 0)
    return {row["col_name"]: row["data_type"] for row in rows[behind:] if row["col_name"] in ("Location", "Provider", "Type")}


def _comparable(location: str) -> str:
    """Return a location in one spelling: one scheme for S3, no extra slashes, no empty host."""
    parsed = urlparse(location.rstrip("/"))
    scheme = "s3" if parsed.scheme in ("s3", "s3a", "s3n") else parsed.scheme or "file"
    return f"{scheme}://{parsed.netloc}/{parsed.path.lstrip('/')}"
