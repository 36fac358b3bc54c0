"""The page of metrics names every metric of the worker and no other."""

import re

from dblog.observe.declared import HERDER_TASK_METRICS, TASK_METRICS, WORKER_METRICS
from docs.metrics_page import PAGE, page

REMEDY = "write the page again: build/venv/bin/python tests/docs/metrics_page.py"
OF_HISTOGRAMS = ("_bucket", "_sum", "_count")


def test_the_page_is_what_the_worker_declares():
    assert PAGE.read_text(encoding="utf-8") == page(), REMEDY


def test_every_name_on_the_page_is_a_metric():
    known = {f"dblog_{m.name}" for m in WORKER_METRICS} | {f"dblog_task_{m.name}" for m in (*TASK_METRICS, *HERDER_TASK_METRICS)}
    named = set(re.findall(r"\bdblog_(?:task|worker|connector|build|certificate|registry|topic)_\w+", PAGE.read_text(encoding="utf-8")))

    assert named == known
