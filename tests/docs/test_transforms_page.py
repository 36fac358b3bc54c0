"""The page of transforms lists what the worker declares."""

from docs.transforms_page import PAGE, page


def test_the_page_is_what_the_worker_declares():
    assert PAGE.read_text(encoding="utf-8") == page(), "write the page again: build/venv/bin/python tests/docs/transforms_page.py"
