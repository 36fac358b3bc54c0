"""Has a table of our sink carry on with another topic, by the way out that the sink's own error message names.

python sinkhandover.py <job.json>      {"path": ..., "topic": ..., "spark": {...}}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main() -> int:
    job = json.loads(Path(sys.argv[1]).read_text())
    builder = SparkSession.builder.appName("handover").master("local[2]")
    for name, value in job["spark"].items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.sql(f"ALTER TABLE delta.`{job['path']}` SET TBLPROPERTIES ('dblog.topic' = '{job['topic']}')")
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
