"""Entry for spark-submit: puts the package beside this file on the path and runs it; nothing needs to be installed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))

from dblog_sink.cli import main

if __name__ == "__main__":
    sys.exit(main())
