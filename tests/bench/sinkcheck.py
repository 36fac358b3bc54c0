"""Whether two lakes hold the same rows: counts and an order-free digest of the columns that both keep in the same types.

python sinkcheck.py <job.json>      {"paths": [one, other], "spark": {...}}; prints a JSON list of {rows, digest}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main() -> int:
    job = json.loads(Path(sys.argv[1]).read_text())
    builder = SparkSession.builder.appName("check").master("local[2]")
    for name, value in job["spark"].items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    found = []
    for path in job["paths"]:
        columns = "xxhash64(id, amount, name, price, note, weight)"
        row = (
            session.read.format("delta")
            .load(path)
            .selectExpr("count(*) AS rows", f"sum(CAST({columns} AS DECIMAL(38, 0))) AS digest")
            .first()
        )
        found.append({"rows": row["rows"], "digest": str(row["digest"])})
    Path(job["answer"]).write_text(json.dumps(found))
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
