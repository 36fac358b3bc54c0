"""Writes the effects of every case on real servers to worker/dialects/mysql/ddl/ddl_truth.jsonl.

With the file the parser is tested in milliseconds, without servers. Run it when cases are added:
``PYTHONPATH=connect-worker/src:tests:docker python -m support.ddl_record`` from the root.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from dblog.core.tablerecord import table_record
from stack import MariaDb, MySql
from support.ddl_cases import BOTH, CASES
from support.ddl_truth import Follower
from support.servers import connected

TRUTH = Path(__file__).parents[1] / "worker" / "dialects" / "mysql" / "ddl" / "ddl_truth.jsonl"
DATABASE = "shop"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ddl-") as folder, TRUTH.open("w", encoding="utf-8") as out:
        for flavor in BOTH:
            with (MySql if flavor == "mysql" else MariaDb)(Path(folder) / flavor, durable=False) as server, connected(server) as connection:
                for case in CASES:
                    if flavor not in case.servers:
                        continue
                    cursor = connection.cursor()
                    cursor.execute("SET SESSION sql_mode = DEFAULT, explicit_defaults_for_timestamp = DEFAULT")
                    cursor.execute(f"DROP DATABASE IF EXISTS `{DATABASE}`")
                    follower = Follower(cursor, flavor, DATABASE, sql_mode=case.sql_mode)
                    for statement in case.statements:
                        cursor.execute(statement.replace("{db}", DATABASE))
                    tables = {str(id_): table_record(table) for id_, table in follower.truth().items()}
                    line = {
                        "server": flavor,
                        "version": follower.flavor.version,
                        "case": case.name,
                        "charset": follower.server,
                        "tables": tables,
                    }
                    out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
                    sys.stdout.write(f"{flavor} {case.name}\n")


if __name__ == "__main__":
    main()
