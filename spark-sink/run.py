"""Entry for spark-submit: puts the package beside this file on the path and runs it; nothing needs to be installed.

In cluster mode Spark copies this file alone: then the package comes in an archive (``--py-files``), which ``dblog-sink submit`` makes.
"""

from __future__ import annotations

import sys
from pathlib import Path

if (Path(__file__).resolve().parent / "src" / "dblog_sink").is_dir():
    sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))

try:
    from dblog_sink.cli import main
except ModuleNotFoundError as e:
    sys.exit(
        f"the Python package {e.name} is not here; submit the job with `dblog-sink submit`, which sends its code along, or install it where the driver runs"
    )

if __name__ == "__main__":
    sys.exit(main())
