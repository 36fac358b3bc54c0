"""An account that may read some columns of a table: those that records have, and their keys, suffice."""

from __future__ import annotations

import pytest
from dblog.abort import Abort
from dblog.config.connector import parse_connector
from dblog.core.dumprequests import INITIAL, Mode
from dblog.dialects.postgres.task.kind import PostgresKind
from dblog.errors import DefiniteError
from stack import Postgres
from support.postgres import execute
from support.postgres_begun import Begun
from support.postgres_follower import PostgresFollower

MADE = (
    "CREATE TABLE t (id INT PRIMARY KEY, secret TEXT NOT NULL, name TEXT, large TEXT)",
    "CREATE TABLE keyless (secret TEXT NOT NULL, name TEXT)",
    "INSERT INTO t VALUES (1, 's', 'a', 'l')",
    "INSERT INTO keyless VALUES ('s', 'a')",
)
EXCLUDED = {"column.exclude.list": r"public\.(t|u|keyless)\.secret"}


@pytest.fixture
def reader(postgres: Postgres, database: str) -> str:
    """May read the log, and no table."""
    name = f"columns_{database}"
    execute(postgres, f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD 'p'")
    execute(postgres, f"GRANT USAGE ON SCHEMA public TO {name}", database=database)
    return name


def config_of(reader: str, **more: str) -> dict[str, str]:
    return {"database.user": reader, "database.password": "p", "publication.autocreate.mode": "disabled", **more}


def refused(follower: PostgresFollower) -> str:
    with pytest.raises(DefiniteError) as failed:
        PostgresKind().check(parse_connector(follower.options, follower.config), limit_s=60.0, abort=Abort())
    return str(failed.value)


@pytest.mark.parametrize("columns", [EXCLUDED, {"column.include.list": r"public\.marks\.id,public\.(t|u|keyless)\.(id|name|large)"}])
def test_columns_that_no_record_has_need_no_privilege(begun: Begun, reader: str, columns: dict[str, str]) -> None:
    follower = begun(
        *MADE,
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
        f"GRANT SELECT (id, name, large) ON t TO {reader}",
        f"GRANT SELECT (name, ctid) ON keyless TO {reader}",
        f"GRANT SELECT ON marks TO {reader}",
        **config_of(reader, **columns),
    )

    follower.sql("INSERT INTO t VALUES (2, 's', 'b', 'l')", "UPDATE t SET id = 3 WHERE id = 1")
    follower.until(lambda: {row["id"] for row in follower.rows["t"].values()} == {2, 3})
    follower.restart()
    follower.until_state(follower.ask("public.t", mode=Mode.ROWS.value), "DONE")

    assert sorted(map(tuple, (row.items() for row in follower.rows["t"].values()))) == [
        (("id", 2), ("name", "b"), ("large", "l")),
        (("id", 3), ("name", "a"), ("large", "l")),
    ]
    assert not any("secret" in ((record or {}).get("after") or {}) for _, record in follower.values)

    follower.sql("CREATE TABLE u (LIKE t INCLUDING ALL)", "INSERT INTO u SELECT * FROM t")
    follower.until(lambda: (follower.status(INITIAL) or {}).get("state") == "FAILED")
    status = follower.status(INITIAL)
    assert status is not None
    assert f'GRANT SELECT ("id", "name", "large") ON "public"."u" TO "{reader}"; and restart the task' in status["reason"]


def test_the_sentence_about_privileges_names_the_columns_that_suffice(postgres: Postgres, database: str, reader: str) -> None:
    follower = PostgresFollower(postgres, database, **config_of(reader, **EXCLUDED))
    follower.sql(*MADE, "CREATE PUBLICATION dbz_publication FOR ALL TABLES")

    nothing = refused(follower)
    follower.sql(f"GRANT SELECT (id, name) ON t TO {reader}", f"GRANT SELECT (name) ON keyless TO {reader}")
    some = refused(follower)
    follower.config.pop("column.exclude.list")
    all_columns = refused(follower)

    assert f'GRANT SELECT ("id", "name", "large") ON "public"."t" TO "{reader}";' in nothing
    assert f'GRANT SELECT ("name", "ctid") ON "public"."keyless" TO "{reader}";' in nothing
    assert f'GRANT SELECT ("large") ON "public"."t" TO "{reader}";' in some
    assert f'GRANT SELECT ("ctid") ON "public"."keyless" TO "{reader}";' in some
    assert f'GRANT SELECT ("secret", "large") ON "public"."t" TO "{reader}";' in all_columns
