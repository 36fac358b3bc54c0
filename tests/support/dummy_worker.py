"""A worker whose tasks are ``dummy_task.py``: the real herder, REST interface and topics, without a database."""

import sys
from pathlib import Path

from dblog.cli import start_worker

if __name__ == "__main__":
    raise SystemExit(start_worker(Path(sys.argv[1]), task_command=[sys.executable, str(Path(__file__).with_name("dummy_task.py"))]))
